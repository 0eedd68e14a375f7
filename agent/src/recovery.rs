//! Builds the agent's core from its checkpoint at a start: compares what the agent says of
//! itself with the last start (spec §7.5), lays the checkpointed resources over the declared
//! ones, and looks whether each volume is where it was. Next: `driver.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rand::Rng as _;
use tracing::{error, info, warn};

use resources::collection::Resources;
use resources::conversion::apply_checkpointed;
use resources::id::CheckpointId;
use resources::message::{AgentInfo, Attribute, AttributeValue, Order};
use resources::operation::Operation;

use crate::RunError;
use crate::checkpoint::{Checkpoint, Start, Stored};
use crate::config::{Config, ReconfigurationPolicy};
use crate::core::Core;
use crate::core::event::{Identity, VolumeKey};
use crate::detect;
use crate::volumes::Volumes;

/// Level of compatibility with Mesos that agents announce.
pub(crate) const MESOS_VERSION: &str = "1.11.0";

/// An agent ready to be driven.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Its state.
    pub(crate) core: Core,
    /// Its durable memory.
    pub(crate) checkpoint: Checkpoint,
    /// Its directories.
    pub(crate) volumes: Volumes,
}

/// A random name of 128 bits.
pub(crate) fn random_hex() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}

/// Opens the work directory and goes on where it stands.
pub(crate) fn recover(config: &Config) -> Result<Recovered, RunError> {
    let work_dir = &config.work_dir;
    std::fs::create_dir_all(work_dir).map_err(|source| RunError::io(work_dir, source))?;
    let work_dir = &work_dir.canonicalize().map_err(|source| RunError::io(work_dir, source))?;
    let (checkpoint, stored) = Checkpoint::open(work_dir, || {
        CheckpointId::parse(random_hex()).expect("hexadecimal digits are an id")
    })?;
    let declared = detect::resources(config)?;
    detect::prepare_disks(work_dir, &declared)?;
    let info = AgentInfo {
        hostname: config.hostname.clone(),
        host: config.advertise.host.clone(),
        port: config.advertise.port,
        version: MESOS_VERSION.to_owned(),
        attributes: config.attributes.clone(),
        resources: declared,
    };
    let boot_id = detect::boot_id(config);
    let forgets_agent_id = compare(config, &stored, &info, &boot_id)?;
    let total = lay_over(&stored, &info)?;
    let volumes = Volumes::new(work_dir, &info.resources);

    let Stored { checkpoint_id, boot_counter, mut memory, .. } = stored;
    let boot_counter = boot_counter + 1;
    if forgets_agent_id {
        memory.agent_id = None;
    }
    memory.journal_len = 0;
    checkpoint
        .start(&Start {
            boot_counter,
            boot_id: &boot_id,
            info: &info,
            total: &total,
            applied_seq: memory.applied_seq,
            forgets_agent_id,
        })
        .map_err(|failure| RunError::Storage(failure.to_string()))?;

    let begun: BTreeSet<VolumeKey> = memory.intents.iter().flat_map(destroyed).collect();
    let mut unavailable = BTreeMap::new();
    for (key, record) in &memory.volumes {
        // A DESTROY that was begun may have moved the directory already.
        if begun.contains(key) {
            continue;
        }
        let Some(volume) = total.find_volume(&key.role, &key.id) else { continue };
        if !volumes.is_available(volume, record) {
            error!(%volume, "the volume's directory is missing or another one: unavailable");
            unavailable.insert(key.clone(), volume.clone());
        }
    }
    info!(%checkpoint_id, boot_counter, applied_seq = %memory.applied_seq, "checkpoint read");
    let identity = Identity { checkpoint_id, boot_counter, info };
    let core = Core::new(identity, memory, total, unavailable);
    Ok(Recovered { core, checkpoint, volumes })
}

fn destroyed(order: &Order) -> Vec<VolumeKey> {
    match &order.operation {
        Operation::Destroy { volumes } => volumes.iter().filter_map(VolumeKey::of).collect(),
        _ => Vec::new(),
    }
}

/// The total over the resources declared now.
fn lay_over(stored: &Stored, info: &AgentInfo) -> Result<Resources, RunError> {
    let declared: Resources = info.resources.iter().collect();
    if stored.last_start.is_none() {
        return Ok(declared);
    }
    let mut total = stored.total.clone();
    for order in &stored.journal {
        total.apply(&order.operation).map_err(|why| {
            RunError::Corrupt(format!("order {} of the journal does not apply: {why}", order.seq))
        })?;
    }
    apply_checkpointed(&declared, &total.checkpointed())
        .map_err(|error| RunError::IncompatibleResources(error.to_string()))
}

/// Whether the agent starts under a new name, or may not start at all.
fn compare(
    config: &Config,
    stored: &Stored,
    info: &AgentInfo,
    boot_id: &str,
) -> Result<bool, RunError> {
    let Some((last_boot_id, last)) = &stored.last_start else { return Ok(false) };
    match difference(last, info, config.reconfiguration_policy) {
        None => Ok(false),
        Some(difference) if last_boot_id == boot_id => {
            Err(RunError::IncompatibleInfo { difference: difference.to_string() })
        }
        Some(difference) => {
            warn!(%difference, "incompatible after a reboot: the agent asks for a new id");
            Ok(true)
        }
    }
}

/// What differs between two starts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Difference {
    what: &'static str,
    expected: String,
    found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was '{}', now '{}'", self.what, self.expected, self.found)
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
        let (expected, found) = (last.hostname.clone(), now.hostname.clone());
        return Some(Difference { what: "hostname", expected, found });
    }
    if !attributes_fit(&last.attributes, &now.attributes, policy) {
        let (expected, found) = (attributes(&last.attributes), attributes(&now.attributes));
        return Some(Difference { what: "attributes", expected, found });
    }
    let before: Resources = last.resources.iter().collect();
    let after: Resources = now.resources.iter().collect();
    let fits = match policy {
        ReconfigurationPolicy::Equal => before == after,
        ReconfigurationPolicy::Additive => after.contains(&before),
    };
    (!fits).then(|| Difference {
        what: "resources",
        expected: before.to_string(),
        found: after.to_string(),
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
