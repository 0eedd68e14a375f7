//! GET_AGENTS (spec §5.3): agents with what they have, what of it is used and what is offered.
//! Pure. Next: `frameworks.rs`.

use std::time::Duration;

use proto::convert;
use proto::mesos::v1::master::response::{GetAgents, get_agents};
use proto::mesos::v1::{self, agent_info};
use resources::form::Format;

use super::{agent_id, time, to_wire};
use crate::auth::Viewer;
use crate::http::picture::Picture;
use crate::http::{about, shapes, usage};
use crate::state::activation::Activation;
use crate::state::agents::Agent;

pub(super) fn get(picture: &Picture<'_>) -> GetAgents {
    let agents = || picture.view.state.counted_agents();
    GetAgents {
        agents: agents().map(|agent| self::agent(picture, agent)).collect(),
        recovered_agents: agents()
            .filter(|agent| !picture.view.has_returned(&agent.id))
            .map(|agent| info(agent, &picture.viewer))
            .collect(),
    }
}

fn agent(picture: &Picture<'_>, agent: &Agent) -> get_agents::Agent {
    let Picture { view: _, offers, viewer } = picture;
    let total = agent.total.iter().filter(|resource| viewer.sees(resource));
    let allocated = viewer.visible(&usage::allocated(agent));
    let offered = viewer.visible(&offers.allocated_on(&agent.id));
    get_agents::Agent {
        agent_info: info(agent, viewer),
        active: picture.is_active(agent),
        version: agent.info.version.clone(),
        pid: Some(shapes::pid(agent)),
        registered_time: Some(time(agent.registered_at)),
        reregistered_time: agent.reregistered_at.map(time),
        total_resources: convert::resource::list_to_wire(total, Format::Endpoint),
        allocated_resources: to_wire(&allocated, Format::Endpoint),
        offered_resources: to_wire(&offered, Format::Endpoint),
        capabilities: capabilities(),
        resource_providers: Vec::new(),
        deactivated: Some(!agent.activation.is_active()),
        drain_info: drain_info(agent),
        estimated_drain_start_time: agent.activation.drain().map(|drain| time(drain.since)),
    }
}

/// How an agent is being drained, or was.
pub(crate) fn drain_info(agent: &Agent) -> Option<v1::DrainInfo> {
    let (state, drain) = match agent.activation {
        Activation::Active | Activation::Deactivated => return None,
        Activation::Draining(drain) => (v1::DrainState::Draining, drain),
        Activation::Drained(drain) => (v1::DrainState::Drained, drain),
    };
    let nanoseconds = |grace: Duration| i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX);
    let max_grace_period = drain.max_grace.map(nanoseconds);
    let config = v1::DrainConfig {
        max_grace_period: max_grace_period.map(|nanoseconds| v1::DurationInfo { nanoseconds }),
        mark_gone: Some(drain.mark_gone),
    };
    Some(v1::DrainInfo { state: state.into(), config })
}

fn info(agent: &Agent, viewer: &Viewer<'_>) -> v1::AgentInfo {
    let declared = agent.info.resources.iter().filter(|resource| viewer.sees(resource));
    v1::AgentInfo {
        hostname: agent.info.hostname.clone(),
        resources: convert::resource::list_to_wire(declared, Format::Post),
        attributes: agent.info.attributes.iter().map(convert::attribute::to_wire).collect(),
        id: Some(agent_id(&agent.id)),
        port: Some(i32::from(agent.info.port)),
        domain: None,
    }
}

fn capabilities() -> Vec<agent_info::Capability> {
    about::AGENT_CAPABILITIES
        .iter()
        .filter_map(|name| agent_info::capability::Type::from_str_name(name))
        .map(|kind| agent_info::Capability { r#type: Some(kind.into()) })
        .collect()
}
