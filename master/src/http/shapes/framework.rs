//! A framework as `/frameworks`, `/state` and `/state-summary` show it (spec §6.2). Its lists
//! are made while they are written. Pure. Next: `../read.rs`.

use resources::capability::FrameworkCapability;
use resources::collection::Resources;
use resources::resource::Resource;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::executor::ExecutorShape;
use super::task::TaskShape;
use super::{Summary, given, lazily, seconds};
use crate::http::picture::{Picture, Reach};
use crate::http::usage::Usage;
use crate::leader::scheduler::Offer;
use crate::state::frameworks::Framework;

/// Whether a framework may come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is on record.
    Live,
    /// It was removed.
    Completed,
}

/// A framework in full.
#[derive(Clone, Copy)]
pub(crate) struct FrameworkShape<'a> {
    pub(crate) picture: Picture<'a>,
    pub(crate) usage: &'a Usage<'a>,
    pub(crate) framework: &'a Framework,
    pub(crate) standing: Standing,
}

impl Serialize for FrameworkShape<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let offered = self.brief(&mut map)?;
        self.facts(&mut map)?;
        let everything = self.used().chain(offered.iter());
        map.serialize_entry("resources", &Summary::of(everything))?;
        self.lists(&mut map)?;
        map.end()
    }
}

impl<'a> FrameworkShape<'a> {
    fn used(&self) -> impl Iterator<Item = &'a Resource> {
        self.usage.resources(&self.framework.id)
    }

    /// Whether its scheduler holds a stream.
    fn is_connected(&self) -> bool {
        self.standing == Standing::Live && self.framework.is_subscribed()
    }

    /// What `/state-summary` has of it, too. Gives back what it is offered.
    pub(crate) fn brief<M: SerializeMap>(&self, map: &mut M) -> Result<Resources, M::Error> {
        let framework = self.framework;
        let given = given::framework(framework);
        let mut offered = Resources::new();
        let offers = self.picture.offers.to(&framework.id);
        offers.for_each(|offer| offered.add_all(&offer.resources));
        map.serialize_entry("id", &framework.id)?;
        map.serialize_entry("name", &framework.info.name)?;
        map.serialize_entry("used_resources", &Summary::of(self.used()))?;
        map.serialize_entry("offered_resources", &Summary::of(offered.iter()))?;
        map.serialize_entry("capabilities", &framework.info.capabilities)?;
        map.serialize_entry("hostname", &framework.info.hostname)?;
        map.serialize_entry("webui_url", &given.webui_url.unwrap_or_default())?;
        map.serialize_entry("active", &self.is_connected())?;
        map.serialize_entry("connected", &self.is_connected())?;
        // Every master has every framework: none is only heard of from agents.
        map.serialize_entry("recovered", &false)?;
        Ok(offered)
    }

    fn facts<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let framework = self.framework;
        let info = &framework.info;
        let ended = match self.standing {
            Standing::Live => None,
            Standing::Completed => framework.removed_at,
        };
        map.serialize_entry("user", &info.user)?;
        map.serialize_entry("failover_timeout", &info.failover_timeout.as_secs_f64())?;
        map.serialize_entry("checkpoint", &info.checkpoint)?;
        map.serialize_entry("registered_time", &seconds(framework.subscribed_at))?;
        map.serialize_entry("unregistered_time", &ended.map_or(0.0, seconds))?;
        if let Some(principal) = &info.principal {
            map.serialize_entry("principal", principal)?;
        }
        if let Some(at) = framework.resubscribed_at {
            map.serialize_entry("reregistered_time", &seconds(at))?;
        }
        match info.has(FrameworkCapability::MultiRole) {
            true => map.serialize_entry("roles", &info.roles)?,
            false => map.serialize_entry("role", &info.roles.first())?,
        }
        if let Some(labels) = given::framework(framework).labels {
            map.serialize_entry("labels", &given::labels(&labels))?;
        }
        if let Some(constraints) = given::constraints(framework) {
            map.serialize_entry("offer_constraints", &given::json(&constraints))?;
        }
        Ok(())
    }

    fn lists<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let (picture, framework) = (&self.picture, self.framework);
        let tasks = |reach| lazily(move || picture.tasks(framework, reach).map(TaskShape::of));
        map.serialize_entry("tasks", &tasks(Reach::Reachable))?;
        map.serialize_entry("unreachable_tasks", &tasks(Reach::Unreachable))?;
        let completed = || picture.completed_tasks(framework).map(TaskShape::of);
        map.serialize_entry("completed_tasks", &lazily(completed))?;
        let offers = || picture.offers.to(&framework.id).map(OfferShape::of);
        map.serialize_entry("offers", &lazily(offers))?;
        let executors = || picture.executors(framework, self.usage).map(ExecutorShape::of);
        map.serialize_entry("executors", &lazily(executors))
    }
}

/// An offer that is out.
#[derive(Debug, Serialize)]
struct OfferShape<'a> {
    id: &'a str,
    framework_id: &'a str,
    allocation_info: Allocation<'a>,
    slave_id: &'a str,
    resources: Summary<'a>,
}

#[derive(Debug, Serialize)]
struct Allocation<'a> {
    role: &'a str,
}

impl<'a> OfferShape<'a> {
    fn of(offer: &'a Offer) -> Self {
        Self {
            id: offer.offer_id.as_str(),
            framework_id: offer.framework_id.as_str(),
            allocation_info: Allocation { role: offer.role.as_str() },
            slave_id: offer.agent_id.as_str(),
            resources: Summary::of(offer.resources.iter()),
        }
    }
}
