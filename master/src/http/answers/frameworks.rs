//! GET_FRAMEWORKS and GET_EXECUTORS (spec §5.3). Pure. Next: `tasks.rs`.

use std::net::IpAddr;

use proto::convert;
use proto::mesos::v1;
use proto::mesos::v1::master::response::{
    GetExecutors, GetFrameworks, get_executors, get_frameworks,
};
use resources::form::Format;

use super::{agent_id, framework_id, time, to_wire};
use crate::http::picture::Picture;
use crate::http::shapes::framework::Standing;
use crate::http::shapes::{self, given};
use crate::http::usage::{Running, Usage, allocated_to};
use crate::leader::scheduler::Offer;
use crate::state::frameworks::Framework;

pub(super) fn get(picture: &Picture<'_>, usage: &Usage<'_>) -> GetFrameworks {
    let message = |framework, standing| self::framework(picture, usage, framework, standing);
    let live = picture.frameworks().map(|framework| message(framework, Standing::Live));
    let completed = picture.completed_frameworks();
    GetFrameworks {
        frameworks: live.collect(),
        completed_frameworks: completed.map(|ended| message(ended, Standing::Completed)).collect(),
        ..GetFrameworks::default()
    }
}

fn framework(
    picture: &Picture<'_>,
    usage: &Usage<'_>,
    framework: &Framework,
    standing: Standing,
) -> get_frameworks::Framework {
    let is_live = standing == Standing::Live;
    let connected = is_live && framework.is_subscribed();
    let offers = || picture.offers.to(&framework.id);
    let offered = offers().flat_map(offer_resources);
    let allocated = picture.viewer.visible(&usage.allocated(&framework.id));
    get_frameworks::Framework {
        framework_info: info(framework),
        active: connected,
        connected,
        registered_time: Some(time(framework.subscribed_at)),
        reregistered_time: framework.resubscribed_at.map(time),
        unregistered_time: framework.removed_at.filter(|_| !is_live).map(time),
        offers: offers().map(offer).collect(),
        inverse_offers: Vec::new(),
        allocated_resources: to_wire(&allocated, Format::Post),
        offered_resources: offered.collect(),
        recovered: false,
        offer_constraints: given::constraints(framework),
    }
}

/// As it was given, with its id and the principal that it was taken for.
fn info(framework: &Framework) -> v1::FrameworkInfo {
    v1::FrameworkInfo {
        id: Some(framework_id(&framework.id)),
        user: framework.info.user.clone(),
        name: framework.info.name.clone(),
        principal: framework.info.principal.as_ref().map(ToString::to_string),
        ..given::framework(framework)
    }
}

fn offer_resources(offer: &Offer) -> Vec<v1::Resource> {
    to_wire(&allocated_to(&offer.resources, &offer.role), Format::Post)
}

/// An offer as readers see it; its framework has it in the form of its capabilities.
fn offer(offer: &Offer) -> v1::Offer {
    let ip = offer.agent.host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let address = v1::Address {
        hostname: Some(offer.agent.hostname.clone()),
        ip: ip.map(|ip| ip.to_string()),
        port: i32::from(offer.agent.port),
    };
    let path = Some("/slave(1)".to_owned());
    v1::Offer {
        id: v1::OfferId { value: offer.offer_id.to_string() },
        framework_id: framework_id(&offer.framework_id),
        agent_id: agent_id(&offer.agent_id),
        hostname: offer.agent.hostname.clone(),
        resources: offer_resources(offer),
        executor_ids: offer
            .executor_ids
            .iter()
            .map(|id| v1::ExecutorId { value: id.to_string() })
            .collect(),
        attributes: offer.agent.attributes.iter().map(convert::attribute::to_wire).collect(),
        url: Some(v1::Url { scheme: "http".to_owned(), address, path, ..v1::Url::default() }),
        allocation_info: Some(v1::resource::AllocationInfo { role: Some(offer.role.to_string()) }),
        unavailability: offer
            .unavailability
            .as_ref()
            .map(convert::maintenance::unavailability_to_wire),
        ..v1::Offer::default()
    }
}

/// The executors of all frameworks on record.
pub(super) fn get_executors(picture: &Picture<'_>, usage: &Usage<'_>) -> GetExecutors {
    let all = picture.frameworks().flat_map(|framework| picture.executors(framework, usage));
    GetExecutors { executors: all.map(executor).collect(), ..GetExecutors::default() }
}

fn executor(running: &Running<'_>) -> get_executors::Executor {
    let Running { agent_id, name, executor } = running;
    let own = executor.info.resources.iter();
    let resources: Vec<_> =
        own.map(|resource| shapes::allocated(resource, &executor.role)).collect();
    get_executors::Executor {
        executor_info: v1::ExecutorInfo {
            executor_id: v1::ExecutorId { value: name.executor_id.to_string() },
            framework_id: Some(framework_id(&name.framework_id)),
            resources: convert::resource::list_to_wire(resources.iter(), Format::Post),
            ..given::executor(executor)
        },
        agent_id: super::agent_id(agent_id),
    }
}
