//! Quota of roles: what is on record, what counts as consumed, and what a change of it must not
//! break (spec §5.5). Must not know offers: they do not count here. Next: `weights.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use resources::quantity::Quantities;
use resources::quota::{Quota, QuotaConfig};
use resources::resource::Resource;
use resources::role::Role;
use resources::value::{Scalar, Value};
use serde::{Deserialize, Serialize};

use super::State;
use super::agents::Agent;
use super::command::{Change, Effect};
use super::rejection::{QuotaRefusal, Rejection};

/// A change of quotas: all of them or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaUpdate {
    /// What each role shall have; an empty quota takes away the one that it has.
    pub configs: Vec<QuotaConfig>,
    /// Whether what is consumed and what there is does not count against it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// What the roles must have now.
    #[serde(default, skip_serializing_if = "Prior::is_any")]
    pub prior: Prior,
}

/// Whether a role must have a quota before it is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Prior {
    /// It does not matter (UPDATE_QUOTA).
    #[default]
    Any,
    /// It must not have one (SET_QUOTA).
    Without,
    /// It must have one (REMOVE_QUOTA).
    With,
}

impl Prior {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
    const fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

impl QuotaUpdate {
    pub(super) fn check_form(&self) -> Result<(), Rejection> {
        let mut seen = BTreeSet::new();
        for config in &self.configs {
            let refuse = |refusal| Err(Rejection::Quota { role: config.role.clone(), refusal });
            if let Err(why) = config.check() {
                return refuse(QuotaRefusal::Invalid { reason: why.to_string() });
            }
            if !seen.insert(&config.role) {
                let reason = "the role stands there twice".to_owned();
                return refuse(QuotaRefusal::Invalid { reason });
            }
        }
        Ok(())
    }
}

impl fmt::Display for QuotaUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.prior {
            Prior::Any => "update-quota",
            Prior::Without => "set-quota",
            Prior::With => "remove-quota",
        })?;
        let mut configs = self.configs.iter();
        configs.try_for_each(|config| write!(f, " [{} {}]", config.role, config.quota))?;
        if self.force { f.write_str(" by force") } else { Ok(()) }
    }
}

/// Looking up.
impl State {
    /// The quota of a role, if it has one.
    #[must_use]
    pub fn quota(&self, role: &Role) -> Option<&Quota> {
        self.quotas.get(role).map(Arc::as_ref)
    }
    /// All quotas, by role.
    pub fn quotas(&self) -> impl Iterator<Item = (&Role, &Quota)> {
        self.quotas.iter().map(|(role, quota)| (role, quota.as_ref()))
    }
    /// What each of these top-level roles consumes: what is reserved for it or below it, used or
    /// not, and what is used there without being reserved or revocable. Costs a look at
    /// everything that agents have.
    #[must_use]
    pub fn consumption<'a>(
        &self,
        roles: impl IntoIterator<Item = &'a Role>,
    ) -> BTreeMap<Role, Quantities> {
        let roles = roles.into_iter().map(|role| (role.as_str(), Sums::default()));
        let mut sums: BTreeMap<&str, Sums> = roles.collect();
        for agent in self.counted_agents() {
            consume(agent, &mut sums);
        }
        let role = |text| Role::parse(text).expect("it was one before");
        sums.into_iter().map(|(text, sum)| (role(text), sum.into())).collect()
    }
    /// What guarantees can be met from: the scalars of all agents that can not be taken back.
    #[must_use]
    pub fn capacity(&self) -> Quantities {
        let mut sum = Sums::default();
        let totals = self.counted_agents().flat_map(|agent| agent.total.iter());
        totals.filter(|resource| !resource.revocable).for_each(|resource| add(&mut sum, resource));
        sum.into()
    }
}

type Sums = BTreeMap<String, Scalar>;

fn consume(agent: &Agent, sums: &mut BTreeMap<&str, Sums>) {
    for resource in agent.total.iter() {
        if let Some(sum) = resource.reservation_role().and_then(|role| sums.get_mut(top(role))) {
            add(sum, resource);
        }
    }
    for ((_, role), used) in &agent.used_by {
        if let Some(sum) = sums.get_mut(top(role)) {
            let is_plain = |resource: &&Resource| !resource.is_reserved() && !resource.revocable;
            used.iter().filter(is_plain).for_each(|resource| add(sum, resource));
        }
    }
}

/// The top-level role that a role is or lies below.
fn top(role: &Role) -> &str {
    role.as_str().split('/').next().unwrap_or_default()
}

fn add(sum: &mut Sums, resource: &Resource) {
    if let Value::Scalar(amount) = resource.value {
        match sum.get_mut(&resource.name) {
            Some(sum) => *sum = sum.saturating_add(amount),
            None => drop(sum.insert(resource.name.clone(), amount)),
        }
    }
}

/// Changing.
impl State {
    /// In Mesos' order: form and what the roles have, then what they consume, then what there is.
    pub(super) fn check_quota(&self, update: &QuotaUpdate) -> Result<(), Rejection> {
        update.check_form()?;
        for config in &update.configs {
            let refusal = match (update.prior, self.quota(&config.role)) {
                (Prior::Without, Some(_)) => QuotaRefusal::Exists,
                (Prior::With, None) => QuotaRefusal::Absent,
                (Prior::Any, _) | (Prior::Without, None) | (Prior::With, Some(_)) => {
                    continue;
                }
            };
            return Err(Rejection::Quota { role: config.role.clone(), refusal });
        }
        if update.force {
            return Ok(());
        }
        // The old calls look at guarantees alone, as in Mesos.
        if update.prior == Prior::Any {
            self.check_consumption(update)?;
        }
        self.check_capacity(update)
    }

    fn check_consumption(&self, update: &QuotaUpdate) -> Result<(), Rejection> {
        let limited = update.configs.iter().filter(|config| !config.quota.limits.0.is_empty());
        let limited: Vec<&QuotaConfig> = limited.collect();
        if limited.is_empty() {
            return Ok(());
        }
        let consumption = self.consumption(limited.iter().map(|config| &config.role));
        for config in limited {
            for (name, limit) in &config.quota.limits.0 {
                let consumed = consumption.get(&config.role).map(|sum| sum.get(name));
                if let Some(consumed) = consumed.filter(|consumed| consumed > limit) {
                    let (name, limit) = (name.clone(), *limit);
                    let refusal = QuotaRefusal::Consumed { name, limit, consumed };
                    return Err(Rejection::Quota { role: config.role.clone(), refusal });
                }
            }
        }
        Ok(())
    }

    /// Whether there is enough for all guarantees together.
    fn check_capacity(&self, update: &QuotaUpdate) -> Result<(), Rejection> {
        let mut wanted = Quantities::default();
        for config in &update.configs {
            wanted.add(&config.quota.guarantees);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let changed: BTreeSet<&Role> = update.configs.iter().map(|config| &config.role).collect();
        for (_, quota) in self.quotas().filter(|(role, _)| !changed.contains(role)) {
            wanted.add(&quota.guarantees);
        }
        let capacity = self.capacity();
        for config in &update.configs {
            let mut guarantees = config.quota.guarantees.iter();
            let short = guarantees.find(|(name, _)| wanted.get(name) > capacity.get(name));
            if let Some((name, _)) = short {
                let refusal = QuotaRefusal::Overcommitted {
                    name: name.to_owned(),
                    wanted: wanted.get(name),
                    capacity: capacity.get(name),
                    by_old_call: update.prior != Prior::Any,
                };
                return Err(Rejection::Quota { role: config.role.clone(), refusal });
            }
        }
        Ok(())
    }

    pub(super) fn set_quota(&mut self, update: &QuotaUpdate) -> Vec<Effect> {
        for QuotaConfig { role, quota } in &update.configs {
            if quota.is_empty() {
                self.quotas.remove_mut(role);
            } else {
                self.quotas.insert_mut(role.clone(), Arc::new(quota.clone()));
            }
        }
        let roles: Vec<Role> = update.configs.iter().map(|config| config.role.clone()).collect();
        vec![Effect::Change(match update.prior {
            Prior::Any | Prior::With => Change::QuotaUpdated(roles),
            Prior::Without => Change::QuotaSet(roles),
        })]
    }
}
