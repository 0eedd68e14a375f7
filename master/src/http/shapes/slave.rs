//! An agent as `/slaves`, `/state` and `/state-summary` show it (spec §6.2): its summaries, and
//! its resources in full. Pure. Must not know how the state was read. Next: `framework.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::id::AgentId;
use resources::message::{Attribute, AttributeValue};
use serde::Serialize;

use super::summary::{Amount, Summary};
use super::{forms, pid, seconds};
use crate::http::about::AGENT_CAPABILITIES;
use crate::http::picture::Picture;
use crate::http::usage;
use crate::state::activation::Activation;
use crate::state::agents::Agent;

/// An agent.
#[derive(Debug, Serialize)]
pub(crate) struct Slave<'a> {
    id: &'a AgentId,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    drain_info: Option<DrainInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_drain_start_time_seconds: Option<f64>,
    /// Since when nobody waits for it; stands only at those which are unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable_time: Option<f64>,
    capabilities: &'static [&'static str],
    resources: Summary<'a>,
    used_resources: Summary<'a>,
    offered_resources: Summary<'static>,
    reserved_resources: BTreeMap<String, Summary<'static>>,
    unreserved_resources: Summary<'static>,
    resource_version: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    full: Option<Full>,
}

/// How an agent is being drained, or was.
#[derive(Debug, Serialize)]
struct DrainInfo {
    state: &'static str,
    config: DrainConfig,
}

#[derive(Debug, Serialize)]
struct DrainConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_grace_period: Option<MaxGracePeriod>,
    mark_gone: bool,
}

#[derive(Debug, Serialize)]
struct MaxGracePeriod {
    nanoseconds: u128,
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
    /// Agents that nobody waits for, until they come back with all that is on record for them.
    pub(crate) unreachable_slaves: Vec<Slave<'a>>,
}

impl<'a> Slaves<'a> {
    /// All agents, or the one with this id, as this reader may see them.
    pub(crate) fn of(picture: &Picture<'a>, slave_id: Option<&str>, detail: Detail) -> Self {
        let state = &picture.view.state;
        let is_wanted = |agent: &&Agent| slave_id.is_none_or(|id| agent.id.as_str() == id);
        let counted = || state.counted_agents().filter(is_wanted);
        let slave = |agent| Slave::of(picture, agent, detail);
        Self {
            slaves: counted().map(slave).collect(),
            recovered_slaves: counted()
                .filter(|agent| !picture.view.has_returned(&agent.id))
                .map(RecoveredSlave::of)
                .collect(),
            unreachable_slaves: state.unreachable_agents().filter(is_wanted).map(slave).collect(),
        }
    }
}

impl<'a> Slave<'a> {
    /// The sums over everything stay as they are for every reader; what is reserved for roles
    /// that the reader may not see is left out (spec §9.2).
    pub(crate) fn of(picture: &Picture<'a>, agent: &'a Agent, detail: Detail) -> Self {
        let viewer = &picture.viewer;
        let total = &agent.total;
        let mut reserved = total.reservations();
        reserved.retain(|role, _| viewer.sees_role(role.as_str()));
        let unreserved = total.unreserved();
        let summary = |resources: &Resources| Summary::of(resources.iter()).into_owned();
        Self {
            id: &agent.id,
            hostname: &agent.info.hostname,
            port: agent.info.port,
            pid: pid(agent),
            version: &agent.info.version,
            attributes: attributes(&agent.info.attributes),
            registered_time: seconds(agent.registered_at),
            reregistered_time: agent.reregistered_at.map(seconds),
            active: picture.is_active(agent),
            deactivated: !agent.activation.is_active(),
            drain_info: DrainInfo::of(&agent.activation),
            estimated_drain_start_time_seconds: agent
                .activation
                .drain()
                .map(|drain| seconds(drain.since)),
            unreachable_time: agent.presence.unreachable_since().map(seconds),
            capabilities: AGENT_CAPABILITIES,
            resources: Summary::of(total.iter()),
            used_resources: Summary::of(agent.used.iter()),
            offered_resources: summary(&picture.offers.on(&agent.id)),
            reserved_resources: reserved
                .iter()
                .map(|(role, resources)| (role.to_string(), summary(resources)))
                .collect(),
            unreserved_resources: summary(&unreserved),
            resource_version: agent.resource_version,
            full: (detail == Detail::Full).then(|| Full {
                reserved_resources_full: reserved
                    .iter()
                    .map(|(role, resources)| (role.to_string(), forms(&viewer.visible(resources))))
                    .filter(|(_, visible)| !visible.is_empty())
                    .collect(),
                unreserved_resources_full: forms(&unreserved),
                used_resources_full: forms(&viewer.visible(&usage::allocated(agent))),
                offered_resources_full: forms(
                    &viewer.visible(&picture.offers.allocated_on(&agent.id)),
                ),
            }),
        }
    }

    /// Its id.
    pub(crate) const fn id(&self) -> &'a AgentId {
        self.id
    }

    /// Whether its agent has a session and is to be used.
    pub(crate) const fn is_active(&self) -> bool {
        self.active
    }
}

impl DrainInfo {
    fn of(activation: &Activation) -> Option<Self> {
        let (state, drain) = match activation {
            Activation::Active | Activation::Deactivated => return None,
            Activation::Draining(drain) => ("DRAINING", drain),
            Activation::Drained(drain) => ("DRAINED", drain),
        };
        let max_grace_period =
            drain.max_grace.map(|grace| MaxGracePeriod { nanoseconds: grace.as_nanos() });
        Some(Self { state, config: DrainConfig { max_grace_period, mark_gone: drain.mark_gone } })
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
