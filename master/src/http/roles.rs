//! Which roles there are, who is in each, and what is reserved, used and offered for each
//! (spec §3, §6.2): for `/roles` and GET_ROLES. Pure. Must not know in which encoding they go
//! out. Next: `read.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::id::FrameworkId;
use resources::resource::Resource;
use resources::role::Role;
use resources::value::{Scalar, Value};
use resources::weight::Weight;
use serde::Serialize;

use super::picture::Picture;
use super::usage::allocated_to;
use crate::state::State;

/// Amounts by the name of their resource.
type Amounts = BTreeMap<String, f64>;

/// The body of `/roles`.
#[derive(Debug, Serialize)]
pub(crate) struct Roles<'a> {
    roles: Vec<RoleEntry<'a>>,
}

/// One role.
#[derive(Debug, Serialize)]
pub(crate) struct RoleEntry<'a> {
    name: String,
    weight: f64,
    quota: Quota,
    /// What is allocated or offered; the two below, together.
    resources: Amounts,
    allocated: Amounts,
    offered: Amounts,
    reserved: Amounts,
    frameworks: Vec<&'a FrameworkId>,
    #[serde(skip)]
    in_use: Resources,
}

#[derive(Debug, Serialize)]
struct Quota {
    role: String,
    guarantee: Amounts,
    limit: Amounts,
    consumed: Amounts,
}

/// What there is of a role.
#[derive(Debug, Default)]
struct Holding<'a> {
    frameworks: Vec<&'a FrameworkId>,
    /// With what is below the role, as all sums here.
    reserved: Sums,
    allocated: Sums,
    offered: Sums,
    /// What is allocated and neither reserved nor revocable: reservations count by themselves.
    plain: Sums,
    /// What is allocated or offered to the role itself, with that allocation.
    in_use: Resources,
}

#[derive(Debug, Clone, Default)]
struct Sums(BTreeMap<String, Scalar>);

impl Sums {
    fn add(&mut self, resource: &Resource) {
        if let Value::Scalar(amount) = resource.value {
            let sum = self.0.entry(resource.name.clone()).or_default();
            *sum = sum.saturating_add(amount);
        }
    }

    fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (name, amount) in &other.0 {
            let sum = both.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
        both
    }

    fn amounts(&self) -> Amounts {
        self.0.iter().map(|(name, sum)| (name.clone(), sum.to_f64())).collect()
    }
}

impl<'a> Roles<'a> {
    /// The roles that this reader may see: those of the whitelist if there is one, otherwise
    /// those with a framework, an allocation, an offer, a reservation, a quota or a weight; with
    /// all their ancestors. What is held below a role counts for it.
    pub(crate) fn of(picture: &Picture<'a>, whitelist: Option<&BTreeSet<Role>>) -> Self {
        let mut held = holdings(picture);
        let known: BTreeSet<Role> = match whitelist {
            Some(whitelist) => with_ancestors(whitelist),
            None => held.keys().cloned().collect(),
        };
        let seen = known.iter().filter(|role| picture.viewer.sees_role(role.as_str()));
        let state = &picture.view.state;
        let entries =
            seen.map(|role| RoleEntry::new(state, role, held.remove(role).unwrap_or_default()));
        Self { roles: entries.collect() }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &RoleEntry<'a>> {
        self.roles.iter()
    }
}

impl<'a> RoleEntry<'a> {
    fn new(state: &State, role: &Role, held: Holding<'a>) -> Self {
        let quota = state.quota(role).cloned().unwrap_or_default();
        let limits = quota.limits.0.iter().map(|(name, limit)| (name.clone(), limit.to_f64()));
        let guarantees = quota.guarantees.iter();
        Self {
            name: role.to_string(),
            weight: state.weight(role).map_or(1.0, Weight::to_f64),
            quota: Quota {
                role: role.to_string(),
                guarantee: guarantees
                    .map(|(name, amount)| (name.to_owned(), amount.to_f64()))
                    .collect(),
                limit: limits.collect(),
                // Reservations count as consumed, whether anybody uses them or not (spec §5.5).
                consumed: held.reserved.and(&held.plain).amounts(),
            },
            resources: held.allocated.and(&held.offered).amounts(),
            allocated: held.allocated.amounts(),
            offered: held.offered.amounts(),
            reserved: held.reserved.amounts(),
            frameworks: held.frameworks,
            in_use: held.in_use,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn weight(&self) -> f64 {
        self.weight
    }

    /// Frameworks that are subscribed in this role.
    pub(crate) fn frameworks(&self) -> impl Iterator<Item = &'a FrameworkId> {
        self.frameworks.iter().copied()
    }

    /// What is allocated or offered to this very role.
    pub(crate) const fn in_use(&self) -> &Resources {
        &self.in_use
    }
}

/// What each role has; ancestors of a role with anything are there, too.
fn holdings<'a>(picture: &Picture<'a>) -> BTreeMap<Role, Holding<'a>> {
    let mut held = Holdings::default();
    for agent in picture.view.state.counted_agents() {
        for resource in agent.total.iter() {
            if let Some(role) = resource.reservation_role() {
                held.upwards(role, |holding| holding.reserved.add(resource));
            }
        }
        for ((_, role), resources) in &agent.used_by {
            let is_plain = |r: &&Resource| !r.is_reserved() && !r.revocable;
            held.upwards(role, |holding| {
                resources.iter().for_each(|resource| holding.allocated.add(resource));
                resources.iter().filter(is_plain).for_each(|r| holding.plain.add(r));
            });
            held.at(role).in_use.add_all(&allocated_to(resources, role));
        }
    }
    for offer in picture.offers.iter() {
        held.upwards(&offer.role, |holding| {
            offer.resources.iter().for_each(|resource| holding.offered.add(resource));
        });
        held.at(&offer.role).in_use.add_all(&allocated_to(&offer.resources, &offer.role));
    }
    for framework in picture.frameworks() {
        for role in &framework.info.roles {
            held.upwards(role, |_| {});
            held.at(role).frameworks.push(&framework.id);
        }
    }
    let state = &picture.view.state;
    let ruled = state.quotas().map(|(role, _)| role).chain(state.weights().map(|(role, _)| role));
    ruled.for_each(|role| held.upwards(role, |_| {}));
    held.0
}

#[derive(Default)]
struct Holdings<'a>(BTreeMap<Role, Holding<'a>>);

impl<'a> Holdings<'a> {
    fn at(&mut self, role: &Role) -> &mut Holding<'a> {
        self.0.entry(role.clone()).or_default()
    }

    /// A change of a role and of everything above it.
    fn upwards(&mut self, role: &Role, change: impl Fn(&mut Holding<'a>)) {
        change(self.at(role));
        role.ancestors().for_each(|ancestor| change(self.at(&ancestor)));
    }
}

fn with_ancestors(roles: &BTreeSet<Role>) -> BTreeSet<Role> {
    roles.iter().flat_map(|role| [role.clone()].into_iter().chain(role.ancestors())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::{Acls, Authorizer, Viewer};
    use crate::http::offers::Offers;
    use crate::http::shapes::tests::view;

    fn names(whitelist: Option<&[&str]>, acls: &str) -> Vec<String> {
        let parse = |roles: &[&str]| roles.iter().map(|role| Role::parse(*role).unwrap()).collect();
        let whitelist: Option<BTreeSet<Role>> = whitelist.map(parse);
        let authorizer = Authorizer::new(Acls::parse(acls).unwrap());
        let (view, offers) = (view(), Offers::default());
        let viewer = Viewer::new(&authorizer, None);
        let picture = Picture { view: &view, offers: &offers, viewer };
        let roles = Roles::of(&picture, whitelist.as_ref());
        roles.entries().map(|entry| entry.name().to_owned()).collect()
    }

    #[test]
    fn reserved_roles_or_the_whitelist_with_ancestors() {
        assert_eq!(names(None, "{}"), ["ads", "eng"]);
        assert_eq!(names(Some(&["*", "a/b/c"]), "{}"), ["*", "a", "a/b", "a/b/c"]);
        let acls = r#"{"view_roles":[{"principals":{"type":"ANY"},"roles":{"values":["eng"]}}],
            "permissive":false}"#;
        assert_eq!(names(None, acls), ["eng"]);
    }

    #[test]
    fn a_role_in_full() {
        let authorizer = Authorizer::default();
        let (view, offers) = (view(), Offers::default());
        let viewer = Viewer::new(&authorizer, None);
        let roles = Roles::of(&Picture { view: &view, offers: &offers, viewer }, None);
        let printed: Value = serde_json::to_value(&roles).unwrap();
        let expected = json!({"name": "ads", "weight": 1.0, "frameworks": [], "resources": {},
            "allocated": {}, "offered": {}, "reserved": {"disk": 100.0},
            "quota": {"role": "ads", "guarantee": {}, "limit": {}, "consumed": {"disk": 100.0}}});
        assert_eq!(printed["roles"][0], expected);
    }
}
