//! GET_AGENTS (spec §5.3): agents with what they have, what of it is used and what is offered.
//! Pure. Next: `frameworks.rs`.

use proto::convert;
use proto::mesos::v1::master::response::{GetAgents, get_agents};
use proto::mesos::v1::{self, agent_info};
use resources::form::Format;

use super::{agent_id, time, to_wire};
use crate::auth::Viewer;
use crate::http::picture::Picture;
use crate::http::{about, shapes, usage};
use crate::state::agents::Agent;

pub(super) fn get(picture: &Picture<'_>) -> GetAgents {
    let agents = || picture.view.state.agents();
    GetAgents {
        agents: agents().map(|agent| self::agent(picture, agent)).collect(),
        recovered_agents: agents()
            .filter(|agent| !picture.view.has_returned(&agent.id))
            .map(|agent| info(agent, &picture.viewer))
            .collect(),
    }
}

fn agent(picture: &Picture<'_>, agent: &Agent) -> get_agents::Agent {
    let Picture { view, offers, viewer } = picture;
    let total = agent.total.iter().filter(|resource| viewer.sees(resource));
    let allocated = viewer.visible(&usage::allocated(agent));
    let offered = viewer.visible(&offers.allocated_on(&agent.id));
    get_agents::Agent {
        agent_info: info(agent, viewer),
        active: view.is_connected(&agent.id),
        version: agent.info.version.clone(),
        pid: Some(shapes::pid(agent)),
        registered_time: Some(time(agent.registered_at)),
        reregistered_time: agent.reregistered_at.map(time),
        total_resources: convert::resource::list_to_wire(total, Format::Endpoint),
        allocated_resources: to_wire(&allocated, Format::Endpoint),
        offered_resources: to_wire(&offered, Format::Endpoint),
        capabilities: capabilities(),
        resource_providers: Vec::new(),
        deactivated: Some(false),
        drain_info: None,
        estimated_drain_start_time: None,
    }
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
