//! Builds the agent's core from its checkpoint at a start: lays the checkpointed resources over
//! the declared ones, and looks whether each volume is where it was. What may change between
//! two starts is in `reconfiguration.rs`. Next: `driver.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rand::Rng as _;
use tracing::{error, info};

use resources::collection::Resources;
use resources::conversion::apply_checkpointed;
use resources::id::CheckpointId;
use resources::message::{AgentInfo, Order};
use resources::operation::Operation;

use crate::RunError;
use crate::checkpoint::{self, Checkpoint, Start, Stored};
use crate::config::Config;
use crate::core::Core;
use crate::core::event::{Identity, Memory, Unavailable, VolumeKey};
use crate::core::tasks::event::Settings;
use crate::runner::plan::{self, Site};
use crate::volumes::Volumes;
use crate::{detect, disks, reconfiguration};

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
    /// What executors are started with.
    pub(crate) site: Site,
    /// Age at which finished sandboxes are removed.
    pub(crate) gc_delay: Duration,
}

/// A random name of 128 bits.
pub(crate) fn random_hex() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}

/// Opens the work directory and goes on where it stands. Nothing is written before every check
/// has passed: a refused start leaves the work directory as it was.
pub(crate) fn recover(config: &Config) -> Result<Recovered, RunError> {
    let work_dir = &config.work_dir;
    std::fs::create_dir_all(work_dir).map_err(|source| RunError::io(work_dir, source))?;
    let work_dir = &work_dir.canonicalize().map_err(|source| RunError::io(work_dir, source))?;
    let stored = match Checkpoint::look(work_dir)? {
        Some(stored) => stored,
        None => {
            Stored::fresh(CheckpointId::parse(random_hex()).expect("hexadecimal digits are an id"))
        }
    };
    let last = stored.last_start.as_ref().map(|(_, info)| info);
    let known = last.map_or(&[][..], |info| &info.resources);
    let declared = detect::resources(config, known)?;
    let unmounted = disks::check(work_dir, &declared, known)?;
    let info = AgentInfo {
        hostname: config.hostname.clone(),
        host: config.advertise.host.clone(),
        port: config.advertise.port,
        version: MESOS_VERSION.to_owned(),
        attributes: config.attributes.clone(),
        resources: declared,
    };
    let boot_id = detect::boot_id(config);
    let path = checkpoint::path_of(work_dir);
    let forgets_agent_id = reconfiguration::compare(config, &stored, &info, &boot_id, &path)?;
    let total = lay_over(&stored, &info, &path)?;

    disks::make_roots(work_dir, &info.resources)?;
    let checkpoint = Checkpoint::open(work_dir, &stored.checkpoint_id)?;
    let boot_counter = stored.boot_counter + 1;
    let start = Start {
        stored: &stored,
        boot_counter,
        boot_id: &boot_id,
        info: &info,
        total: &total,
        forgets_agent_id,
    };
    checkpoint.start(&start).map_err(|failure| RunError::Storage(failure.to_string()))?;

    let Stored { checkpoint_id, mut memory, .. } = stored;
    if forgets_agent_id {
        memory.agent_id = None;
    }
    let volumes =
        Volumes::new(work_dir, &checkpoint_id, &info.resources, |root| unmounted.contains(root));
    let unavailable = find_unavailable(&volumes, &memory, &total);
    info!(
        %checkpoint_id, boot_counter, applied_seq = %memory.applied_seq,
        volumes = memory.volumes.len(), unavailable = unavailable.len(), "checkpoint read"
    );
    let identity = Identity { checkpoint_id, boot_counter, info };
    let site = site(config, work_dir, boot_id, &memory, &volumes);
    let settings = settings(config);
    let launches = memory.intents.iter().filter_map(|order| match &order.operation {
        Operation::Launch(launch) => Some((order.seq, plan::facts(launch))),
        _ => None,
    });
    memory.tasks.described = launches.collect();
    let core = Core::new(identity, settings, memory, total, unavailable);
    let gc_delay = config.executors.gc_delay;
    Ok(Recovered { core, checkpoint, volumes, site, gc_delay })
}

/// What executors are started with.
fn site(
    config: &Config,
    work_dir: &Path,
    boot_id: String,
    memory: &Memory,
    volumes: &Volumes,
) -> Site {
    Site {
        work_dir: work_dir.to_owned(),
        boot_id,
        endpoint: config.advertise.to_string(),
        agent_id: memory.agent_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        shutdown_grace: config.executors.shutdown_grace,
        volumes: volumes.clone(),
    }
}

/// What executors may take, and what makes the names of this run unique.
pub(crate) fn settings(config: &Config) -> Settings {
    Settings {
        nonce: rand::rng().random(),
        registration_timeout: config.executors.registration_timeout,
        reregistration_timeout: config.executors.reregistration_timeout,
        shutdown_grace: config.executors.shutdown_grace,
        is_cleanup: config.executors.is_cleanup,
    }
}

/// Volumes whose directory cannot be used, with the reason.
fn find_unavailable(
    volumes: &Volumes,
    memory: &Memory,
    total: &Resources,
) -> BTreeMap<VolumeKey, Unavailable> {
    let begun: BTreeSet<VolumeKey> = memory.intents.iter().flat_map(destroyed).collect();
    let mut unavailable = BTreeMap::new();
    for (key, record) in &memory.volumes {
        // A DESTROY that was begun may have moved the directory already.
        if begun.contains(key) {
            continue;
        }
        let Some(volume) = total.find_volume(&key.role, &key.id) else { continue };
        if let Err(reason) = volumes.look(volume, record) {
            error!(%volume, reason, "the volume is unavailable");
            unavailable.insert(key.clone(), Unavailable { volume: volume.clone(), reason });
        }
    }
    unavailable
}

fn destroyed(order: &Order) -> Vec<VolumeKey> {
    match &order.operation {
        Operation::Destroy { volumes } => volumes.iter().filter_map(VolumeKey::of).collect(),
        _ => Vec::new(),
    }
}

/// The total over the resources declared now.
fn lay_over(stored: &Stored, info: &AgentInfo, path: &Path) -> Result<Resources, RunError> {
    let declared: Resources = info.resources.iter().collect();
    let Some((_, last)) = &stored.last_start else { return Ok(declared) };
    let laid = apply_checkpointed(&declared, &stored.total.checkpointed());
    laid.map_err(|source| RunError::IncompatibleResources {
        path: path.display().to_string(),
        source,
        earlier: last.resources.iter().collect::<Resources>().to_string(),
    })
}
