//! Sums over the replicated state, made in one walk. Must not know the names under which they
//! are published. Next: `counters.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::id::FrameworkId;
use resources::quantity::Quantities;
use resources::quota::Quota;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::TaskState;
use resources::value::{Scalar, Value};

use super::facts::{TOTALS, kind};
use crate::state::State;
use crate::state::agents::Agent;
use crate::state::frameworks::Framework;
use crate::state::operations::{OperationRecord, OperationState};

/// Sums over the replicated state.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateFacts {
    pub(super) agents: usize,
    pub(super) unreachable_agents: usize,
    pub(super) alarms: usize,
    pub(super) totals: Amounts,
    pub(super) used: Amounts,
    /// Offers that are out, and what is in them.
    pub(super) offers: usize,
    pub(super) offered: Amounts,
    pub(super) reserved: Amounts,
    pub(super) volumes: usize,
    pub(super) volumes_disk: Scalar,
    /// Operations on their way, by Mesos' name in metrics.
    pub(super) pending: BTreeMap<&'static str, usize>,
    /// Those which wait for agents that are not there.
    pub(super) unreachable: BTreeMap<&'static str, usize>,
    /// Ended operations that are still on record.
    pub(super) finished: usize,
    pub(super) failed: usize,
    pub(super) gone: usize,
    pub(super) frameworks: Vec<FrameworkFacts>,
    /// Tasks on record, by state.
    pub(super) tasks: BTreeMap<TaskState, u64>,
    /// Roles with quota.
    pub(super) quotas: Vec<QuotaFacts>,
}

/// Amounts by name, revocable ones apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    plain: [Scalar; TOTALS.len()],
    revocable: [Scalar; TOTALS.len()],
}

/// Whether an amount can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    Plain,
    Revocable,
}

/// One role with quota.
#[derive(Debug, Clone)]
pub(super) struct QuotaFacts {
    pub(super) role: Role,
    pub(super) quota: Quota,
    /// Without what is offered.
    pub(super) consumed: Quantities,
    /// What is offered of what quota counts.
    pub(super) offered: Quantities,
}

impl QuotaFacts {
    fn is_over(&self, role: &Role) -> bool {
        *role == self.role || role.is_strict_subrole_of(&self.role)
    }
}

fn quotas(state: &State) -> Vec<QuotaFacts> {
    if state.quotas().next().is_none() {
        return Vec::new();
    }
    let mut consumption = state.consumption(state.quotas().map(|(role, _)| role));
    let facts = state.quotas().map(|(role, quota)| QuotaFacts {
        role: role.clone(),
        quota: quota.clone(),
        consumed: consumption.remove(role).unwrap_or_default(),
        offered: Quantities::default(),
    });
    facts.collect()
}

fn is_plain(resource: &Resource) -> bool {
    !resource.is_reserved() && !resource.revocable && resource.value.as_scalar().is_some()
}

/// One framework.
#[derive(Debug, Clone)]
pub(super) struct FrameworkFacts {
    pub(super) id: FrameworkId,
    pub(super) name: String,
    pub(super) is_subscribed: bool,
    /// Roles, and whether offers for them are suppressed.
    pub(super) roles: BTreeMap<Role, bool>,
    pub(super) tasks: BTreeMap<TaskState, u64>,
}

impl StateFacts {
    /// What every master publishes.
    pub(crate) fn of_follower(state: &State) -> Self {
        Self { alarms: state.alarms().count(), ..Self::default() }
    }

    /// Sums up a state and what is offered of it.
    pub(crate) fn of_leader<'a>(
        state: &State,
        offered: impl Iterator<Item = (&'a Role, &'a Resources)>,
    ) -> Self {
        let mut facts = Self::of_follower(state);
        facts.quotas = quotas(state);
        for (role, resources) in offered {
            facts.offers += 1;
            facts.offered.add_all(resources);
            let over = facts.quotas.iter_mut().find(|quota| quota.is_over(role));
            if let Some(quota) = over {
                quota.offered.add(&Quantities::from(&resources.filter(is_plain)));
            }
        }
        for agent in state.counted_agents() {
            facts.agents += 1;
            facts.totals.add_all(&agent.total);
            facts.used.add_all(&agent.used);
            agent.total.iter().for_each(|resource| facts.add_reserved(resource));
        }
        facts.unreachable_agents = state.unreachable_agents().count();
        for record in state.operations() {
            match record.state {
                OperationState::Pending => facts.add_pending(state, record),
                OperationState::Finished => facts.finished += 1,
                OperationState::Failed => facts.failed += 1,
                OperationState::GoneByOperator => facts.gone += 1,
            }
        }
        for framework in state.frameworks() {
            let framework = FrameworkFacts::of(framework);
            for (state, count) in &framework.tasks {
                *facts.tasks.entry(*state).or_default() += count;
            }
            facts.frameworks.push(framework);
        }
        facts
    }

    fn add_pending(&mut self, state: &State, record: &OperationRecord) {
        let Some(kind) = kind(&record.operation) else { return };
        let is_there = state.agent(&record.agent_id).is_some_and(Agent::is_counted);
        let counts = if is_there { &mut self.pending } else { &mut self.unreachable };
        *counts.entry(kind).or_default() += 1;
    }

    fn add_reserved(&mut self, resource: &Resource) {
        if !resource.is_reserved() {
            return;
        }
        self.reserved.add(resource);
        if let (true, Value::Scalar(amount)) = (resource.is_persistent_volume(), &resource.value) {
            self.volumes += 1;
            self.volumes_disk = self.volumes_disk.saturating_add(*amount);
        }
    }
}

impl Amounts {
    /// A shared volume counts once, however many use it.
    fn add_all(&mut self, resources: &Resources) {
        resources.iter().for_each(|resource| self.add(resource));
    }

    fn add(&mut self, resource: &Resource) {
        let place = TOTALS.iter().position(|name| *name == resource.name);
        if let (Some(place), Value::Scalar(amount)) = (place, &resource.value) {
            let sums = if resource.revocable { &mut self.revocable } else { &mut self.plain };
            sums[place] = sums[place].saturating_add(*amount);
        }
    }

    /// Each name with its amount.
    pub(super) fn iter(&self, claim: Claim) -> impl Iterator<Item = (&'static str, Scalar)> {
        let sums = match claim {
            Claim::Plain => self.plain,
            Claim::Revocable => self.revocable,
        };
        TOTALS.into_iter().zip(sums)
    }
}

impl FrameworkFacts {
    fn of(framework: &Framework) -> Self {
        let suppressed = |role: &Role| (role.clone(), framework.suppressed.contains(role));
        let mut tasks = BTreeMap::new();
        for task in framework.tasks.values() {
            *tasks.entry(task.state).or_default() += 1;
        }
        Self {
            id: framework.id.clone(),
            name: framework.info.name.clone(),
            is_subscribed: framework.is_subscribed(),
            roles: framework.info.roles.iter().map(suppressed).collect(),
            tasks,
        }
    }
}
