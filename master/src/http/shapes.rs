//! The JSON shapes of the unversioned endpoints (spec §6.2). Numbers become doubles here and
//! nowhere before. Pure. Must not know how the state was read. Reading order:
//! `shapes/summary.rs`, `shapes/slave.rs`, `shapes/given.rs` (what frameworks sent, read back),
//! `shapes/task.rs`, `shapes/executor.rs`, `shapes/framework.rs`. Next: `read.rs`.

pub(crate) mod executor;
pub(crate) mod framework;
pub(crate) mod given;
mod slave;
mod summary;
pub(crate) mod task;

use resources::collection::Resources;
use resources::form::{Format, ResourceForm};
use resources::id::{ClusterId, MasterId};
use resources::resource::Resource;
use resources::role::Role;
use resources::time::Timestamp;
use serde::{Serialize, Serializer};

use crate::config::Address;
use crate::state::agents::Agent;

pub(crate) use slave::{Detail, RecoveredSlave, Slave, Slaves};
pub(crate) use summary::{Amount, Summary};

/// A list whose elements are made while it is written: a long one never stands in memory.
pub(crate) fn lazily<I>(elements: impl Fn() -> I) -> impl Serialize
where
    I: IntoIterator<Item: Serialize>,
{
    Lazily(elements)
}

struct Lazily<F>(F);

impl<F: Fn() -> I, I: IntoIterator<Item: Serialize>> Serialize for Lazily<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// The address of an agent in the form from which Mesos' tools take host and port.
pub(crate) fn pid(agent: &Agent) -> String {
    format!("slave(1)@{}", authority(&agent.info.host, agent.info.port))
}

/// `<cluster id>-M<id>`; nothing until the cluster is formed, because no id is invented.
pub(crate) fn master_id(cluster_id: Option<&ClusterId>, master_id: MasterId) -> String {
    cluster_id.map(|cluster_id| format!("{cluster_id}-M{master_id}")).unwrap_or_default()
}

/// The address of a master in Mesos' form.
pub(crate) fn master_pid(advertise: &Address) -> String {
    format!("master@{advertise}")
}

/// `host:port`, with brackets round an IPv6 address.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Resources in the endpoint form, object by object.
pub(crate) fn forms(resources: &Resources) -> Vec<ResourceForm> {
    resources.iter().map(form).collect()
}

/// One resource in the endpoint form.
pub(crate) fn form(resource: &Resource) -> ResourceForm {
    resource.to_form(Format::Endpoint).expect("only the pre-refinement form has no refinements")
}

/// A resource, allocated to a role.
pub(crate) fn allocated(resource: &Resource, role: &Role) -> Resource {
    Resource { allocation_role: Some(role.clone()), ..resource.clone() }
}

/// Seconds since the Unix epoch of a wall time.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::default()).as_secs_f64()
}

#[cfg(test)]
pub(crate) mod tests;
