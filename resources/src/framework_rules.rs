//! The rules on what a framework says of itself (spec §3, §4.2), one function each, in the order
//! in which they are checked. Must not know messages, nor who may have which role. Next:
//! `task_rules.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thiserror::Error;

use crate::brief;
use crate::id::{FrameworkId, InvalidId};
use crate::quantity::Quantities;
use crate::role::{InvalidRole, Role};
use crate::value::Scalar;

/// Longest time in seconds that fits into 64 bits of nanoseconds, 292 years.
const SECONDS_MAX: f64 = 9_223_372_036.854_775;

/// Why a framework is not admitted.
#[derive(Debug, Clone, PartialEq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidFramework {
    #[error("'FrameworkInfo.roles' must not be set without the MULTI_ROLE capability")]
    RolesWithoutMultiRole,
    #[error("'FrameworkInfo.role' must not be set with the MULTI_ROLE capability")]
    RoleWithMultiRole,
    #[error("'FrameworkInfo.roles' holds '{}' twice", brief::text(.0))]
    DuplicateRole(String),
    #[error("'FrameworkInfo.roles' holds an invalid role: {0}")]
    Role(#[source] InvalidRole),
    #[error("Invalid framework ID: {0}")]
    Id(#[source] InvalidId),
    #[error("'failover_timeout' of {} is beyond 292 years or no number", brief::number(*.0))]
    FailoverTimeout(f64),
    #[error(
        "'offer_filters' of role '{}' ask for nothing in one of their alternatives",
        brief::text(.0)
    )]
    NothingAllocatable(String),
    #[error(
        "'offer_filters' of role '{}' ask for {} of '{}'",
        brief::text(role), brief::number(*value), brief::text(name)
    )]
    Allocatable { role: String, name: String, value: f64 },
    #[error("suppressed role '{}' is not one of the framework's roles", brief::text(.0))]
    SuppressedRole(String),
    #[error(
        "offer constraints for role '{}', which is not one of the framework's",
        brief::text(.0)
    )]
    ConstrainedRole(String),
    #[error("role '{}' is not present in the master's --roles", brief::text(.0.as_str()))]
    NotWhitelisted(Role),
    #[error("user 'root' is not allowed to run frameworks without --root_submissions")]
    Root,
}

/// The framework's roles: `roles` with MULTI_ROLE, else the one `role`.
///
/// # Errors
/// When the other of the two is set, a role is none, or one stands there twice.
pub fn roles(
    role: Option<&str>,
    roles: &[String],
    is_multi_role: bool,
) -> Result<BTreeSet<Role>, InvalidFramework> {
    if !is_multi_role {
        if !roles.is_empty() {
            return Err(InvalidFramework::RolesWithoutMultiRole);
        }
        let role = Role::parse(role.unwrap_or("*")).map_err(InvalidFramework::Role)?;
        return Ok(BTreeSet::from([role]));
    }
    if role.is_some() {
        return Err(InvalidFramework::RoleWithMultiRole);
    }
    let mut known = BTreeSet::new();
    for text in roles {
        let role = Role::parse(text.as_str()).map_err(InvalidFramework::Role)?;
        if !known.insert(role) {
            return Err(InvalidFramework::DuplicateRole(text.clone()));
        }
    }
    Ok(known)
}

/// The id that a framework says it has; the empty one is none.
///
/// # Errors
/// When it has not the form of an id.
pub fn id(text: Option<&str>) -> Result<Option<FrameworkId>, InvalidFramework> {
    let given = text.filter(|text| !text.is_empty());
    given.map(FrameworkId::parse).transpose().map_err(InvalidFramework::Id)
}

/// How long the framework's tasks outlive its connection. A negative time is none at all.
///
/// # Errors
/// When it is no number, or does not fit into 64 bits of nanoseconds either way.
pub fn failover_timeout(seconds: f64) -> Result<Duration, InvalidFramework> {
    if seconds.is_nan() || seconds.abs() > SECONDS_MAX {
        return Err(InvalidFramework::FailoverTimeout(seconds));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// The framework's own minimum of an offer. What it says of roles that are not its own is kept
/// out, as nobody asks for it.
///
/// # Errors
/// When an alternative is empty, or an amount is nothing, negative or no number.
pub fn min_allocatable(
    given: &BTreeMap<String, Vec<BTreeMap<String, f64>>>,
    roles: &BTreeSet<Role>,
) -> Result<BTreeMap<Role, Vec<Quantities>>, InvalidFramework> {
    let mut known = BTreeMap::new();
    for (role, alternatives) in given {
        let mut read = Vec::with_capacity(alternatives.len());
        for alternative in alternatives {
            if alternative.is_empty() {
                return Err(InvalidFramework::NothingAllocatable(role.clone()));
            }
            read.push(amounts(role, alternative)?);
        }
        if let Some(own) = roles.iter().find(|own| own.as_str() == role) {
            known.insert(own.clone(), read);
        }
    }
    Ok(known)
}

fn amounts(role: &str, given: &BTreeMap<String, f64>) -> Result<Quantities, InvalidFramework> {
    let mut amounts = BTreeMap::new();
    for (name, value) in given {
        let amount = Scalar::from_f64(*value).filter(|amount| amount.is_positive());
        let Some(amount) = amount else {
            let (role, name) = (role.to_owned(), name.clone());
            return Err(InvalidFramework::Allocatable { role, name, value: *value });
        };
        amounts.insert(name.clone(), amount);
    }
    Ok(amounts.into())
}

/// The roles that the framework wants no offers for.
///
/// # Errors
/// When one is not among its roles.
pub fn suppressed(
    given: &[String],
    roles: &BTreeSet<Role>,
) -> Result<BTreeSet<Role>, InvalidFramework> {
    given.iter().map(|text| own_role(text, roles, InvalidFramework::SuppressedRole)).collect()
}

/// The framework's role of this name.
///
/// # Errors
/// As `otherwise` makes it, when it has none.
pub fn own_role(
    text: &str,
    roles: &BTreeSet<Role>,
    otherwise: impl FnOnce(String) -> InvalidFramework,
) -> Result<Role, InvalidFramework> {
    let own = roles.iter().find(|role| role.as_str() == text);
    own.cloned().ok_or_else(|| otherwise(text.to_owned()))
}

/// Whether frameworks may have these roles at all (`--roles`; `*` always).
///
/// # Errors
/// The first role that is not listed.
pub fn whitelisted(
    roles: &BTreeSet<Role>,
    whitelist: Option<&BTreeSet<Role>>,
) -> Result<(), InvalidFramework> {
    let Some(whitelist) = whitelist else { return Ok(()) };
    match roles.iter().find(|role| !role.is_star() && !whitelist.contains(role)) {
        Some(role) => Err(InvalidFramework::NotWhitelisted(role.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failover_timeouts() {
        assert_eq!(failover_timeout(1.5), Ok(Duration::from_millis(1500)));
        assert_eq!(failover_timeout(-5.0), Ok(Duration::ZERO));
        assert_eq!(failover_timeout(9_223_372_036.0), Ok(Duration::from_secs(9_223_372_036)));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 9_223_372_037.0, -1e10] {
            assert!(failover_timeout(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_of_frameworks() {
        assert_eq!(id(None), Ok(None));
        assert_eq!(id(Some("")), Ok(None));
        assert!(id(Some("any thing")).unwrap().is_some());
        assert!(id(Some("foo/..")).is_err());
    }

    #[test]
    fn own_minimum_of_an_offer() {
        let roles = roles(None, &["a".to_owned()], true).unwrap();
        let read = |role: &str, alternatives: &[&[(&str, f64)]]| {
            let map =
                |list: &&[(&str, f64)]| list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
            let given = alternatives.iter().map(map).collect();
            min_allocatable(&BTreeMap::from([(role.to_owned(), given)]), &roles)
        };
        let known = read("a", &[&[("cpus", 1.0)], &[("disk", 5.0)]]).unwrap();
        assert_eq!(known.values().next().unwrap().len(), 2);
        assert_eq!(read("a", &[]).unwrap().values().next().unwrap().len(), 0, "no minimum");
        assert_eq!(read("b", &[&[("cpus", 1.0)]]).unwrap(), BTreeMap::new());
        assert!(read("a", &[&[]]).is_err());
        for bad in [0.0, -1.0, f64::NAN, 0.0001] {
            assert!(read("a", &[&[("cpus", bad)]]).is_err(), "{bad}");
        }
    }
}
