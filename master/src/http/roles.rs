//! Which roles there are, and what is reserved for each (spec §3, §6.2): for `/roles` and
//! GET_ROLES. Pure. Must not know in which encoding they go out. Next: `read.rs`.

use std::collections::{BTreeMap, BTreeSet};

use resources::resource::Resource;
use resources::role::Role;
use resources::value::{Scalar, Value};
use serde::Serialize;

use crate::auth::Viewer;
use crate::state::State;

/// Amounts by the name of their resource.
type Amounts = BTreeMap<String, f64>;

/// The body of `/roles`.
#[derive(Debug, Serialize)]
pub(crate) struct Roles {
    roles: Vec<RoleEntry>,
}

/// One role. What comes with frameworks, quota and weights is empty.
#[derive(Debug, Serialize)]
pub(crate) struct RoleEntry {
    name: String,
    weight: f64,
    quota: Quota,
    resources: Amounts,
    allocated: Amounts,
    offered: Amounts,
    reserved: Amounts,
    frameworks: [(); 0],
}

#[derive(Debug, Serialize)]
struct Quota {
    role: String,
    guarantee: Amounts,
    limit: Amounts,
    consumed: Amounts,
}

impl Roles {
    /// The roles that this reader may see: those of the whitelist if there is one, otherwise
    /// those for which something is reserved; with all their ancestors. What is reserved below
    /// a role counts for it.
    pub(crate) fn of(
        state: &State,
        whitelist: Option<&BTreeSet<Role>>,
        viewer: &Viewer<'_>,
    ) -> Self {
        let reserved = reserved(state);
        let known: BTreeSet<Role> = match whitelist {
            Some(whitelist) => with_ancestors(whitelist),
            None => reserved.keys().cloned().collect(),
        };
        let seen = known.iter().filter(|role| viewer.sees_role(role.as_str()));
        let entries = seen.map(|role| RoleEntry::new(role, reserved.get(role)));
        Self { roles: entries.collect() }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &RoleEntry> {
        self.roles.iter()
    }
}

impl RoleEntry {
    fn new(role: &Role, reserved: Option<&BTreeMap<String, Scalar>>) -> Self {
        let amounts = |sums: &BTreeMap<String, Scalar>| -> Amounts {
            sums.iter().map(|(name, sum)| (name.clone(), sum.to_f64())).collect()
        };
        let reserved = reserved.map(amounts).unwrap_or_default();
        Self {
            name: role.to_string(),
            weight: 1.0,
            quota: Quota {
                role: role.to_string(),
                guarantee: Amounts::new(),
                limit: Amounts::new(),
                // Reservations count as consumed, whether anybody uses them or not (spec §5.5).
                consumed: reserved.clone(),
            },
            resources: Amounts::new(),
            allocated: Amounts::new(),
            offered: Amounts::new(),
            reserved,
            frameworks: [],
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn weight(&self) -> f64 {
        self.weight
    }
}

/// Sums of what is reserved for each role or below it, on all agents.
fn reserved(state: &State) -> BTreeMap<Role, BTreeMap<String, Scalar>> {
    let mut sums: BTreeMap<Role, BTreeMap<String, Scalar>> = BTreeMap::new();
    let all = state.agents().flat_map(|agent| agent.total.iter());
    for (role, resource) in all.filter_map(|r| r.reservation_role().map(|role| (role, r))) {
        add(sums.entry(role.clone()).or_default(), resource);
        for ancestor in role.ancestors() {
            add(sums.entry(ancestor).or_default(), resource);
        }
    }
    sums
}

fn add(sums: &mut BTreeMap<String, Scalar>, resource: &Resource) {
    if let Value::Scalar(amount) = resource.value {
        let sum = sums.entry(resource.name.clone()).or_default();
        *sum = sum.saturating_add(amount);
    }
}

fn with_ancestors(roles: &BTreeSet<Role>) -> BTreeSet<Role> {
    roles.iter().flat_map(|role| [role.clone()].into_iter().chain(role.ancestors())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::auth::{Acls, Authorizer};
    use crate::http::shapes::tests::view;

    fn names(whitelist: Option<&[&str]>, acls: &str) -> Vec<String> {
        let parse = |roles: &[&str]| roles.iter().map(|role| Role::parse(*role).unwrap()).collect();
        let whitelist: Option<BTreeSet<Role>> = whitelist.map(parse);
        let authorizer = Authorizer::new(Acls::parse(acls).unwrap());
        let viewer = Viewer::new(&authorizer, None);
        let roles = Roles::of(&view().state, whitelist.as_ref(), &viewer);
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
        let roles = Roles::of(&view().state, None, &Viewer::new(&authorizer, None));
        let printed: Value = serde_json::to_value(&roles).unwrap();
        let expected = json!({"name": "ads", "weight": 1.0, "frameworks": [], "resources": {},
            "allocated": {}, "offered": {}, "reserved": {"disk": 100.0},
            "quota": {"role": "ads", "guarantee": {}, "limit": {}, "consumed": {"disk": 100.0}}});
        assert_eq!(printed["roles"][0], expected);
    }
}
