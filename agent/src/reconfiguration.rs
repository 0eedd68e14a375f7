//! What may change between two starts of an agent (spec §7.5), and what its operator reads when
//! something changed that may not. Compares, and touches nothing. Next: `recovery.rs`.

use std::fmt;
use std::path::Path;

use tracing::warn;

use resources::collection::Resources;
use resources::message::{AgentInfo, Attribute, AttributeValue};

use crate::RunError;
use crate::checkpoint::Stored;
use crate::config::{Config, ReconfigurationPolicy};

/// What differs between two starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The flag, without its dashes.
    pub flag: &'static str,
    /// What it was at the last start.
    pub expected: String,
    /// What it is now.
    pub found: String,
    /// Whether it is only more of everything, which the other policy allows.
    pub is_addition: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flag, expected, found, is_addition } = self;
        write!(f, "{flag} was '{expected}' at the last start, now '{found}'; ")?;
        write!(f, "first start again with the --{flag} of then, which loses nothing")?;
        if *is_addition {
            f.write_str("; or with --reconfiguration-policy additive, which loses nothing either")?;
        }
        Ok(())
    }
}

/// Whether the agent starts under a new name, or may not start at all.
pub(crate) fn compare(
    config: &Config,
    stored: &Stored,
    info: &AgentInfo,
    boot_id: &str,
    path: &Path,
) -> Result<bool, RunError> {
    let Some((last_boot_id, last)) = &stored.last_start else { return Ok(false) };
    match difference(last, info, config.reconfiguration_policy) {
        None => Ok(false),
        Some(difference) if last_boot_id == boot_id => {
            Err(RunError::IncompatibleInfo { path: path.display().to_string(), difference })
        }
        Some(Difference { flag, expected, found, .. }) => {
            warn!(
                flag,
                expected,
                found,
                "incompatible after a reboot: the agent asks for a new id, and keeps its \
                 reservations and volumes"
            );
            Ok(true)
        }
    }
}

/// The first difference that the policy forbids. Address and port may change: the agent's
/// identity is its work directory.
fn difference(
    last: &AgentInfo,
    now: &AgentInfo,
    policy: ReconfigurationPolicy,
) -> Option<Difference> {
    if last.hostname != now.hostname {
        return Some(Difference {
            flag: "hostname",
            expected: last.hostname.clone(),
            found: now.hostname.clone(),
            is_addition: false,
        });
    }
    let (before, after) = (&last.attributes, &now.attributes);
    if !attributes_fit(before, after, policy) {
        return Some(Difference {
            flag: "attributes",
            expected: attributes(before),
            found: attributes(after),
            is_addition: attributes_fit(before, after, ReconfigurationPolicy::Additive),
        });
    }
    let before: Resources = last.resources.iter().collect();
    let after: Resources = now.resources.iter().collect();
    let is_addition = after.contains(&before);
    let fits = match policy {
        ReconfigurationPolicy::Equal => before == after,
        ReconfigurationPolicy::Additive => is_addition,
    };
    (!fits).then(|| Difference {
        flag: "resources",
        expected: before.to_string(),
        found: after.to_string(),
        is_addition,
    })
}

fn attributes_fit(last: &[Attribute], now: &[Attribute], policy: ReconfigurationPolicy) -> bool {
    let sorted = |attributes: &[Attribute]| {
        let mut attributes = attributes.to_vec();
        attributes.sort();
        attributes
    };
    match policy {
        ReconfigurationPolicy::Equal => sorted(last) == sorted(now),
        ReconfigurationPolicy::Additive => {
            last.iter().all(|old| now.iter().any(|new| new.name == old.name && grew(old, new)))
        }
    }
}

fn grew(old: &Attribute, new: &Attribute) -> bool {
    match (&old.value, &new.value) {
        (AttributeValue::Ranges(old), AttributeValue::Ranges(new)) => new.contains(old),
        (old, new) => old == new,
    }
}

fn attributes(attributes: &[Attribute]) -> String {
    let text = |attribute: &Attribute| match &attribute.value {
        AttributeValue::Scalar(scalar) => format!("{}:{scalar}", attribute.name),
        AttributeValue::Ranges(ranges) => format!("{}:{ranges}", attribute.name),
        AttributeValue::Text(text) => format!("{}:{text}", attribute.name),
    };
    attributes.iter().map(text).collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests {
    use resources::parse;
    use resources::role::Role;

    use super::*;

    fn info(resources: &str, attributes: &str) -> AgentInfo {
        AgentInfo {
            hostname: "h".to_owned(),
            host: "h".to_owned(),
            port: 5051,
            version: "1".to_owned(),
            attributes: parse::attributes(attributes).unwrap(),
            resources: parse::resources_text(resources, &Role::star())
                .unwrap()
                .iter()
                .cloned()
                .collect(),
        }
    }

    #[test]
    fn what_each_policy_allows() {
        const LAST: (&str, &str) = ("cpus:4;disk(ads):9;ports:[1-9]", "rack:a;n:2;r:[1-5]");
        for (resources, attributes, is_equal, is_additive) in [
            (LAST.0, LAST.1, true, true),
            ("disk(ads):9;ports:[5-9,1-4];cpus:4", "r:[1-5];n:2;rack:a", true, true),
            ("cpus:5;disk(ads):9;ports:[1-10];gpus:1", LAST.1, false, true),
            ("cpus:3;disk(ads):9;ports:[1-9]", LAST.1, false, false),
            ("cpus:4;disk(ads):9;ports:[1-8]", LAST.1, false, false),
            ("cpus:4;disk(web):9;ports:[1-9]", LAST.1, false, false),
            ("cpus:4;ports:[1-9]", LAST.1, false, false),
            (LAST.0, "rack:a;n:2;r:[1-6];more:x", false, true),
            (LAST.0, "rack:b;n:2;r:[1-5]", false, false),
            (LAST.0, "rack:a;n:3;r:[1-5]", false, false),
            (LAST.0, "rack:a;n:2;r:[2-5]", false, false),
            (LAST.0, "rack:a;n:two;r:[1-5]", false, false),
            (LAST.0, "rack:a;n:2", false, false),
        ] {
            let (last, now) = (info(LAST.0, LAST.1), info(resources, attributes));
            for (policy, expected) in [
                (ReconfigurationPolicy::Equal, is_equal),
                (ReconfigurationPolicy::Additive, is_additive),
            ] {
                let found = difference(&last, &now, policy);
                assert_eq!(found.is_none(), expected, "{resources} {attributes}: {found:?}");
            }
        }
    }

    #[test]
    fn a14_address_and_port_may_change_and_the_hostname_may_not() {
        let last = info("cpus:4", "");
        let moved = AgentInfo { host: "10.0.0.2".to_owned(), port: 99, ..last.clone() };
        assert_eq!(difference(&last, &moved, ReconfigurationPolicy::Equal), None);
        let renamed = AgentInfo { hostname: "other".to_owned(), ..last.clone() };
        for policy in [ReconfigurationPolicy::Equal, ReconfigurationPolicy::Additive] {
            let found = difference(&last, &renamed, policy).unwrap();
            assert_eq!((found.flag, found.is_addition), ("hostname", false));
        }
    }
}
