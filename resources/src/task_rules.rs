//! The rules on the resources of a task and of its executor (spec §2.2, LAUNCH 8 and *Executor
//! part*). All of them carry the role that they are allocated to. The rules on what else a task
//! is made of stand beside its message, in the wire crate. Must not know what any agent has.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::brief;
use crate::id::VolumeId;
use crate::resource::Resource;
use crate::role::Role;
use crate::rules;
use crate::validate::InvalidOperation;
use crate::value::{ItemSet, Ranges, Scalar, Value};

/// Least `cpus` of the executor of a group.
const GROUP_CPUS_MIN: Scalar = Scalar::from_milli(10);
/// Least `mem` of the executor of a group, in MB.
const GROUP_MEM_MIN: Scalar = Scalar::from_milli(32_000);

/// Why the resources of a task cannot be used by it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the message of each variant says what it is")]
pub enum InvalidUse {
    #[error("Task uses no resources")]
    Nothing,
    #[error("Task uses invalid resources: {0}")]
    Resource(#[source] InvalidOperation),
    #[error(
        "Task uses a duplicate persistence ID '{}' for the role '{}'",
        brief::text(id.as_str()), brief::text(role.as_str())
    )]
    DuplicateVolume { role: Role, id: VolumeId },
    #[error(
        "The resources are allocated to the roles '{}' and '{}'",
        brief::text(first.as_str()), brief::text(second.as_str())
    )]
    SeveralRoles { first: Role, second: Role },
    #[error(
        "The resources are allocated to '{}', and the offer is not",
        brief::text(.0.as_str())
    )]
    OtherRole(Role),
    #[error("Resource {} is not allocated to any role", brief::resource(.0))]
    NotAllocated(Box<Resource>),
    #[error("Cannot use both revocable and non-revocable '{}' at the same time", brief::text(.0))]
    RevocableMixed(String),
    #[error("Executor uses shared resources: {}", brief::resource(.0))]
    SharedByExecutor(Box<Resource>),
    #[error("'{}' of {} is used twice", brief::text(name), brief::text(what))]
    Overlap { name: String, what: String },
    #[error(
        "Executor uses {found} of '{name}', less than {least}, which the executor of a group needs"
    )]
    SmallExecutor { name: &'static str, found: Scalar, least: Scalar },
    #[error("Executor does not have 'disk', which the executor of a group needs")]
    ExecutorWithoutDisk,
}

/// What a task uses itself.
///
/// # Errors
/// The first rule that is broken.
pub fn task(resources: &[Resource], offered: &Role) -> Result<(), InvalidUse> {
    if resources.is_empty() {
        return Err(InvalidUse::Nothing);
    }
    list(resources, offered)
}

/// What an executor uses itself; nothing at all is fine.
///
/// # Errors
/// The first rule that is broken.
pub fn executor(resources: &[Resource], offered: &Role) -> Result<(), InvalidUse> {
    list(resources, offered)?;
    match resources.iter().find(|resource| resource.shared) {
        Some(shared) => Err(InvalidUse::SharedByExecutor(Box::new(shared.clone()))),
        None => Ok(()),
    }
}

/// What the executor of a group must have at least.
///
/// # Errors
/// Names what it has too little of.
pub fn group_executor(resources: &[Resource]) -> Result<(), InvalidUse> {
    let sum = |name: &str| {
        let amounts = resources.iter().filter(|resource| resource.name == name);
        amounts.filter_map(|resource| resource.value.as_scalar()).reduce(Scalar::saturating_add)
    };
    for (name, least) in [("cpus", GROUP_CPUS_MIN), ("mem", GROUP_MEM_MIN)] {
        let found = sum(name).unwrap_or_default();
        if found < least {
            return Err(InvalidUse::SmallExecutor { name, found, least });
        }
    }
    sum("disk").map(|_| ()).ok_or(InvalidUse::ExecutorWithoutDisk)
}

/// What tasks and the executor that is started for them use together: no port twice, and no two
/// meanings of one volume.
///
/// # Errors
/// The first rule that is broken.
pub fn together<'a>(
    resources: impl IntoIterator<Item = &'a Resource> + Clone,
) -> Result<(), InvalidUse> {
    unique_volumes(resources.clone())?;
    not_mixed(resources.clone())?;
    disjoint(resources)
}

fn list(resources: &[Resource], offered: &Role) -> Result<(), InvalidUse> {
    for resource in resources {
        rules::resource(resource).map_err(InvalidUse::Resource)?;
        if resource.is_persistent_volume() {
            rules::container_path(resource).map_err(InvalidUse::Resource)?;
        }
    }
    unique_volumes(resources)?;
    single_role(resources, offered)?;
    not_mixed(resources)
}

/// Equal shared volumes are shares of one.
fn unique_volumes<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Result<(), InvalidUse> {
    let mut known: BTreeMap<(&Role, &VolumeId), &Resource> = BTreeMap::new();
    for volume in resources {
        let Some((role, id)) = volume.reservation_role().zip(volume.volume_id()) else { continue };
        let Some(first) = known.insert((role, id), volume) else { continue };
        let is_share = first.shared && volume.shared && first.value == volume.value;
        if !is_share {
            return Err(InvalidUse::DuplicateVolume { role: role.clone(), id: id.clone() });
        }
    }
    Ok(())
}

fn single_role(resources: &[Resource], offered: &Role) -> Result<(), InvalidUse> {
    let mut known: Option<&Role> = None;
    for resource in resources {
        let Some(role) = &resource.allocation_role else {
            return Err(InvalidUse::NotAllocated(Box::new(resource.clone())));
        };
        let first = *known.get_or_insert(role);
        if first != role {
            let (first, second) = (first.clone(), role.clone());
            return Err(InvalidUse::SeveralRoles { first, second });
        }
    }
    match known.filter(|role| *role != offered) {
        Some(other) => Err(InvalidUse::OtherRole(other.clone())),
        None => Ok(()),
    }
}

fn not_mixed<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Result<(), InvalidUse> {
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    for resource in resources {
        let first = *known.entry(resource.name.as_str()).or_insert(resource.revocable);
        if first != resource.revocable {
            return Err(InvalidUse::RevocableMixed(resource.name.clone()));
        }
    }
    Ok(())
}

/// Numbers and items are handed out once, whatever their reservations.
fn disjoint<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Result<(), InvalidUse> {
    let mut numbers: BTreeMap<&str, Ranges> = BTreeMap::new();
    let mut items: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
    for resource in resources {
        let twice = |what: String| InvalidUse::Overlap { name: resource.name.clone(), what };
        match &resource.value {
            Value::Scalar(_) => {}
            Value::Ranges(ranges) => {
                let used = numbers.entry(&resource.name).or_default();
                let fresh = ranges.difference(used);
                if fresh != *ranges {
                    return Err(twice(ranges.difference(&fresh).to_string()));
                }
                *used = used.union(ranges);
            }
            Value::Set(ItemSet(set)) => {
                let used = items.entry(&resource.name).or_default();
                if let Some(item) = set.iter().find(|item| !used.insert(item)) {
                    return Err(twice(item.clone()));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn allocated(text: &str, role: &str) -> Vec<Resource> {
        let role = Role::parse(role).unwrap();
        let parsed = parse::resources_text(text, &Role::star()).unwrap();
        let allocate = |r: &Resource| Resource { allocation_role: Some(role.clone()), ..r.clone() };
        parsed.iter().map(allocate).collect()
    }

    #[test]
    fn roles_and_markers() {
        let ads = Role::parse("ads").unwrap();
        assert_eq!(task(&[], &ads), Err(InvalidUse::Nothing));
        assert_eq!(executor(&[], &ads), Ok(()));
        let mut mixed = allocated("cpus:1", "ads");
        assert_eq!(task(&mixed, &ads), Ok(()));
        mixed.extend(allocated("mem:1", "web"));
        assert!(matches!(task(&mixed, &ads), Err(InvalidUse::SeveralRoles { .. })));
        let other = allocated("mem:1", "web");
        assert!(matches!(task(&other, &ads), Err(InvalidUse::OtherRole(_))));
        let mut revocable = allocated("cpus:1", "ads");
        revocable.extend(allocated("cpus:1", "ads"));
        revocable[1].revocable = true;
        assert!(matches!(task(&revocable, &ads), Err(InvalidUse::RevocableMixed(_))));
        assert!(matches!(
            task(&allocated("gpus:0.5", "ads"), &ads),
            Err(InvalidUse::Resource(InvalidOperation::FractionalGpus(_)))
        ));
    }

    #[test]
    fn numbers_are_used_once() {
        let check = |left: &str, right: &str| {
            let (left, right) = (allocated(left, "ads"), allocated(right, "ads"));
            together(left.iter().chain(&right)).is_ok()
        };
        assert!(check("ports:[1-5]", "ports:[6-9];disks:{a}"));
        assert!(!check("ports:[1-5]", "ports:[5-9]"));
        assert!(check("disks:{a,b}", "disks:{c}"));
        assert!(!check("disks:{a,b}", "disks:{b}"));
    }

    #[test]
    fn executors_of_groups_have_a_size() {
        let check = |text: &str| group_executor(&allocated(text, "ads")).is_ok();
        assert!(check("cpus:0.01;mem:32;disk:1"));
        for small in ["cpus:0.01;mem:32", "cpus:0.009;mem:32;disk:1", "cpus:1;mem:31;disk:1"] {
            assert!(!check(small), "{small}");
        }
    }
}
