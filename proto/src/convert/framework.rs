//! `FrameworkInfo` ⇄ the domain's framework (spec §1.9.1, §3, §4.2). Next: `convert/task.rs`.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use resources::capability::FrameworkCapability;
use resources::framework::FrameworkInfo;
use resources::framework_rules::{self, InvalidFramework};
use resources::id::{FrameworkId, Principal};

use crate::mesos::v1;
use crate::mesos::v1::framework_info::capability;

/// A framework as it says it is. `authenticated` is filled in where it names no principal.
///
/// # Errors
/// The first rule of spec §4.2 that it breaks.
pub fn from_wire(
    mut wire: v1::FrameworkInfo,
    authenticated: Option<&Principal>,
) -> Result<FrameworkInfo, InvalidFramework> {
    let capabilities: BTreeSet<FrameworkCapability> =
        wire.capabilities.iter().filter_map(capability_from_wire).collect();
    let is_multi_role = capabilities.contains(&FrameworkCapability::MultiRole);
    let roles = framework_rules::roles(wire.role.as_deref(), &wire.roles, is_multi_role)?;
    id_from_wire(&wire)?;
    let failover_timeout = framework_rules::failover_timeout(wire.failover_timeout())?;
    let min_allocatable = framework_rules::min_allocatable(&filters(&wire), &roles)?;
    let principal = wire.principal.take().filter(|principal| !principal.is_empty());
    let principal = principal.map(Principal::new).or_else(|| authenticated.cloned());
    wire.principal = principal.as_ref().map(ToString::to_string);
    wire.id = None;
    Ok(FrameworkInfo {
        name: wire.name.clone(),
        user: wire.user.clone(),
        principal,
        roles,
        capabilities,
        failover_timeout,
        checkpoint: wire.checkpoint(),
        hostname: wire.hostname.clone().unwrap_or_default(),
        min_allocatable,
        wire: wire.encode_to_vec().into(),
    })
}

/// The id that it says it has; the empty one is none.
///
/// # Errors
/// When it has not the form of an id.
pub fn id_from_wire(wire: &v1::FrameworkInfo) -> Result<Option<FrameworkId>, InvalidFramework> {
    framework_rules::id(wire.id.as_ref().map(|id| id.value.as_str()))
}

/// The framework as it gave itself, with its id: for readers, agents and executors.
#[must_use]
pub fn to_wire(info: &FrameworkInfo, id: &FrameworkId) -> v1::FrameworkInfo {
    // Those that this program made are readable. Of others the domain's fields are left.
    let given = v1::FrameworkInfo::decode(info.wire.as_bytes()).unwrap_or_default();
    v1::FrameworkInfo {
        id: Some(v1::FrameworkId { value: id.to_string() }),
        name: info.name.clone(),
        user: info.user.clone(),
        principal: info.principal.as_ref().map(ToString::to_string),
        ..given
    }
}

/// Capabilities that are newer than this program are left out.
fn capability_from_wire(wire: &v1::framework_info::Capability) -> Option<FrameworkCapability> {
    let kind = capability::Type::try_from(wire.r#type?).ok()?;
    kind.as_str_name().parse().ok()
}

/// Roles with the alternatives that they name; those without the message have no own minimum.
fn filters(wire: &v1::FrameworkInfo) -> BTreeMap<String, Vec<BTreeMap<String, f64>>> {
    let amounts = |quantities: &v1::offer_filters::ResourceQuantities| {
        quantities.quantities.iter().map(|(name, amount)| (name.clone(), amount.value)).collect()
    };
    let own = wire.offer_filters.iter().filter_map(|(role, filters)| {
        let minimum = filters.min_allocatable_resources.as_ref()?;
        Some((role.clone(), minimum.quantities.iter().map(amounts).collect()))
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::json;

    fn read(text: &str) -> Result<FrameworkInfo, InvalidFramework> {
        from_wire(json::decode(text.as_bytes()).unwrap(), Some(&Principal::new("ops")))
    }

    #[test]
    fn a_framework_comes_back_as_it_was_given() {
        let given = r#"{"user":"u","name":"n","id":{"value":"f-1"},"failover_timeout":2.5,
            "checkpoint":true,"hostname":"h","webui_url":"http://x","roles":["a","b/c"],
            "capabilities":[{"type":"MULTI_ROLE"},{"type":"NEW_ONE"},{"type":"GPU_RESOURCES"}],
            "labels":{"labels":[{"key":"k","value":"v"}]},
            "offer_filters":{"a":{"min_allocatable_resources":{"quantities":[
                {"quantities":{"cpus":{"value":2}}}]}},"b/c":{}}}"#;
        let info = read(given).unwrap();
        assert_eq!(info.failover_timeout, Duration::from_millis(2500));
        assert_eq!(info.principal, Some(Principal::new("ops")));
        assert_eq!((info.roles.len(), info.capabilities.len()), (2, 2));
        assert_eq!((info.checkpoint, info.hostname.as_str()), (true, "h"));
        assert_eq!(info.min_allocatable.len(), 1);
        let wire = to_wire(&info, &FrameworkId::parse("c-0001").unwrap());
        assert_eq!(wire.id.unwrap().value, "c-0001");
        assert_eq!(wire.principal.as_deref(), Some("ops"));
        assert_eq!(wire.webui_url.as_deref(), Some("http://x"));
        assert_eq!(wire.labels.unwrap().labels[0].key, "k");
        assert_eq!(wire.roles, ["a", "b/c"]);
        let stored = v1::FrameworkInfo::decode(info.wire.as_bytes()).unwrap();
        assert_eq!(stored.id, None);
    }

    #[test]
    fn refused_ones() {
        let refused =
            |more: &str| read(&format!(r#"{{"user":"u","name":"n"{more}}}"#)).unwrap_err();
        assert_eq!(refused(r#","roles":["a"]"#), InvalidFramework::RolesWithoutMultiRole);
        assert!(matches!(refused(r#","role":"/a""#), InvalidFramework::Role(_)));
        assert!(matches!(refused(r#","id":{"value":"a/b"}"#), InvalidFramework::Id(_)));
        for timeout in ["1e300", r#""Infinity""#, r#""-Infinity""#] {
            let more = format!(r#","failover_timeout":{timeout}"#);
            assert!(matches!(refused(&more), InvalidFramework::FailoverTimeout(_)));
        }
        let filters = r#","offer_filters":{"x":{"min_allocatable_resources":{"quantities":[{}]}}}"#;
        assert!(matches!(refused(filters), InvalidFramework::NothingAllocatable(_)));
    }
}
