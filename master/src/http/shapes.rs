//! The JSON shapes of `/slaves` and `/state` (spec §6.2): an agent with its summaries and its
//! resources in full. Numbers become doubles here and nowhere before. Pure. Must not know how the
//! state was read. Next: `read.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::form::{Format, ResourceForm};
use resources::id::{ClusterId, MasterId};
use resources::message::{Attribute, AttributeValue};
use resources::resource::Resource;
use resources::time::Timestamp;
use resources::value::{Scalar, Value};
use serde::Serialize;

use super::about::AGENT_CAPABILITIES;
use crate::auth::Viewer;
use crate::config::Address;
use crate::leader::View;
use crate::state::agents::Agent;

/// Names that a summary always holds.
const ALWAYS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];

/// Amounts by name: numbers for scalars, texts for ranges and sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Summary(BTreeMap<String, Amount>);

/// One amount of a summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Number(f64),
    Text(String),
}

impl Summary {
    pub(crate) fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut sums: BTreeMap<String, Value> =
            ALWAYS.into_iter().map(|name| (name.to_owned(), Value::Scalar(Scalar::ZERO))).collect();
        for resource in resources {
            let name = match resource.revocable {
                true => format!("{}_revocable", resource.name),
                false => resource.name.clone(),
            };
            sums.entry(name)
                .and_modify(|sum| *sum = sum.add(&resource.value))
                .or_insert_with(|| resource.value.clone());
        }
        Self(sums.into_iter().map(|(name, value)| (name, amount(&value))).collect())
    }
}

fn amount(value: &Value) -> Amount {
    match value {
        Value::Scalar(scalar) => Amount::Number(scalar.to_f64()),
        Value::Ranges(ranges) => Amount::Text(ranges.to_string()),
        Value::Set(items) => Amount::Text(items.to_string()),
    }
}

/// An agent as `/slaves` and `/state` show it.
#[derive(Debug, Serialize)]
pub(crate) struct Slave<'a> {
    id: &'a str,
    hostname: &'a str,
    port: u16,
    pid: String,
    version: &'a str,
    attributes: BTreeMap<&'a str, Amount>,
    registered_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reregistered_time: Option<f64>,
    active: bool,
    deactivated: bool,
    capabilities: &'static [&'static str],
    resources: Summary,
    used_resources: Summary,
    offered_resources: Summary,
    reserved_resources: BTreeMap<String, Summary>,
    unreserved_resources: Summary,
    resource_version: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    full: Option<Full>,
}

/// The keys that only `/slaves` has.
#[derive(Debug, Serialize)]
struct Full {
    reserved_resources_full: BTreeMap<String, Vec<ResourceForm>>,
    unreserved_resources_full: Vec<ResourceForm>,
    used_resources_full: Vec<ResourceForm>,
    offered_resources_full: Vec<ResourceForm>,
}

/// Whether the resources stand there object by object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Full,
    Summaries,
}

/// An agent that is on record and has not come back under this leader.
#[derive(Debug, Serialize)]
pub(crate) struct RecoveredSlave<'a> {
    id: &'a str,
    hostname: &'a str,
    port: u16,
    attributes: BTreeMap<&'a str, Amount>,
}

/// The body of `/slaves`.
#[derive(Debug, Serialize)]
pub(crate) struct Slaves<'a> {
    pub(crate) slaves: Vec<Slave<'a>>,
    pub(crate) recovered_slaves: Vec<RecoveredSlave<'a>>,
    /// Unreachable agents, of which this version makes none: an agent that is away stays.
    pub(crate) unreachable_slaves: Vec<Slave<'a>>,
}

impl<'a> Slaves<'a> {
    /// All agents, or the one with this id, as this reader may see them.
    pub(crate) fn of(
        view: &'a View,
        viewer: &Viewer<'_>,
        slave_id: Option<&str>,
        detail: Detail,
    ) -> Self {
        let wanted = || {
            let is_wanted = move |agent: &&Agent| slave_id.is_none_or(|id| agent.id.as_str() == id);
            view.state.agents().filter(is_wanted)
        };
        Self {
            slaves: wanted().map(|agent| Slave::of(view, viewer, agent, detail)).collect(),
            recovered_slaves: wanted()
                .filter(|agent| !view.has_returned(&agent.id))
                .map(RecoveredSlave::of)
                .collect(),
            unreachable_slaves: Vec::new(),
        }
    }
}

impl<'a> Slave<'a> {
    /// The sums over everything stay as they are for every reader; what is reserved for roles
    /// that the reader may not see is left out (spec §9.2).
    fn of(view: &View, viewer: &Viewer<'_>, agent: &'a Agent, detail: Detail) -> Self {
        let total = &agent.total;
        let mut reserved = total.reservations();
        reserved.retain(|role, _| viewer.sees_role(role.as_str()));
        let unreserved = total.unreserved();
        // Tasks and offers come with frameworks: until then nothing is used or offered.
        let (used, offered) = (Resources::new(), Resources::new());
        let full = (detail == Detail::Full).then(|| Full {
            reserved_resources_full: reserved
                .iter()
                .map(|(role, resources)| (role.to_string(), forms(&viewer.visible(resources))))
                .filter(|(_, visible)| !visible.is_empty())
                .collect(),
            unreserved_resources_full: forms(&unreserved),
            used_resources_full: forms(&used),
            offered_resources_full: forms(&offered),
        });
        Self {
            id: agent.id.as_str(),
            hostname: &agent.info.hostname,
            port: agent.info.port,
            pid: pid(agent),
            version: &agent.info.version,
            attributes: attributes(&agent.info.attributes),
            registered_time: seconds(agent.registered_at),
            reregistered_time: agent.reregistered_at.map(seconds),
            active: view.is_connected(&agent.id),
            deactivated: false,
            capabilities: AGENT_CAPABILITIES,
            resources: Summary::of(total.iter()),
            used_resources: Summary::of(used.iter()),
            offered_resources: Summary::of(offered.iter()),
            reserved_resources: reserved
                .iter()
                .map(|(role, resources)| (role.to_string(), Summary::of(resources.iter())))
                .collect(),
            unreserved_resources: Summary::of(unreserved.iter()),
            resource_version: agent.resource_version,
            full,
        }
    }
}

impl Slave<'_> {
    /// Whether its agent has a session.
    pub(crate) const fn is_active(&self) -> bool {
        self.active
    }
}

impl<'a> RecoveredSlave<'a> {
    fn of(agent: &'a Agent) -> Self {
        Self {
            id: agent.id.as_str(),
            hostname: &agent.info.hostname,
            port: agent.info.port,
            attributes: attributes(&agent.info.attributes),
        }
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

fn attributes(attributes: &[Attribute]) -> BTreeMap<&str, Amount> {
    let shown = attributes.iter().map(|attribute| {
        let amount = match &attribute.value {
            AttributeValue::Scalar(scalar) => Amount::Number(scalar.to_f64()),
            AttributeValue::Ranges(ranges) => Amount::Text(ranges.to_string()),
            AttributeValue::Text(text) => Amount::Text(text.clone()),
        };
        (attribute.name.as_str(), amount)
    });
    shown.collect()
}

/// Seconds since the Unix epoch of a wall time.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::default()).as_secs_f64()
}

#[cfg(test)]
pub(crate) mod tests;
