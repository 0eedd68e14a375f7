//! Offers and resources as one framework is spoken to: by its capabilities (spec §4.3, §1.4).
//! Next: `convert/scheduler.rs`.

use std::net::IpAddr;

use resources::capability::FrameworkCapability;
use resources::form::Format;
use resources::framework::FrameworkInfo;
use resources::id::{AgentId, ExecutorId, FrameworkId, OfferId};
use resources::message::AgentInfo;
use resources::resource::Resource;
use resources::role::Role;

use crate::convert::attribute;
use crate::convert::resource::try_to_wire;
use crate::mesos::v1;

/// Path of an agent's own API, as Mesos names the process.
const AGENT_PATH: &str = "/slave(1)";

/// How a framework is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    format: Format,
    is_multi_role: bool,
}

impl Dialect {
    /// What a framework of these capabilities understands.
    #[must_use]
    pub fn of(info: &FrameworkInfo) -> Self {
        let format = match info.has(FrameworkCapability::ReservationRefinement) {
            true => Format::Post,
            false => Format::Pre,
        };
        Self { format, is_multi_role: info.has(FrameworkCapability::MultiRole) }
    }

    /// Resources without an allocation; those that the framework has no words for are left out.
    pub fn resources<'r>(
        self,
        resources: impl IntoIterator<Item = &'r Resource>,
    ) -> Vec<v1::Resource> {
        let unallocated =
            |resource: &Resource| Resource { allocation_role: None, ..resource.clone() };
        let wire = |resource: &Resource| try_to_wire(&unallocated(resource), self.format).ok();
        resources.into_iter().filter_map(wire).collect()
    }

    /// Resources that are allocated to this role.
    pub fn allocated<'r>(
        self,
        resources: impl IntoIterator<Item = &'r Resource>,
        role: &Role,
    ) -> Vec<v1::Resource> {
        let mut wire = self.resources(resources);
        for resource in &mut wire {
            resource.allocation_info = self.allocation(role);
        }
        wire
    }

    fn allocation(self, role: &Role) -> Option<v1::resource::AllocationInfo> {
        let info = v1::resource::AllocationInfo { role: Some(role.to_string()) };
        self.is_multi_role.then_some(info)
    }

    /// An offer.
    #[must_use]
    pub fn offer(self, parts: &Parts<'_>) -> v1::Offer {
        let Parts { offer_id, framework_id, role, agent_id, agent, resources, executor_ids } =
            parts;
        let executor = |id: &ExecutorId| v1::ExecutorId { value: id.to_string() };
        v1::Offer {
            id: v1::OfferId { value: offer_id.to_string() },
            framework_id: v1::FrameworkId { value: framework_id.to_string() },
            agent_id: v1::AgentId { value: agent_id.to_string() },
            hostname: agent.hostname.clone(),
            resources: self.allocated(resources.iter().copied(), role),
            executor_ids: executor_ids.iter().map(executor).collect(),
            attributes: agent.attributes.iter().map(attribute::to_wire).collect(),
            url: Some(url(agent)),
            unavailability: None,
            allocation_info: self.allocation(role),
            domain: None,
        }
    }
}

/// What an offer is made of.
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    /// Its name.
    pub offer_id: &'a OfferId,
    /// To whom.
    pub framework_id: &'a FrameworkId,
    /// In which role.
    pub role: &'a Role,
    /// Of which agent.
    pub agent_id: &'a AgentId,
    /// What that says of itself.
    pub agent: &'a AgentInfo,
    /// What.
    pub resources: Vec<&'a Resource>,
    /// The framework's executors there.
    pub executor_ids: &'a [ExecutorId],
}

/// Where the agent's own API is.
#[must_use]
pub fn url(agent: &AgentInfo) -> v1::Url {
    let ip = agent.host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    v1::Url {
        scheme: "http".to_owned(),
        address: v1::Address {
            hostname: Some(agent.hostname.clone()),
            ip: ip.map(|ip| ip.to_string()),
            port: i32::from(agent.port),
        },
        path: Some(AGENT_PATH.to_owned()),
        query: Vec::new(),
        fragment: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use resources::opaque::Opaque;
    use resources::parse;

    use super::*;

    fn framework(capabilities: &[FrameworkCapability]) -> FrameworkInfo {
        FrameworkInfo {
            name: String::new(),
            user: String::new(),
            principal: None,
            roles: BTreeSet::new(),
            capabilities: capabilities.iter().copied().collect(),
            failover_timeout: Duration::ZERO,
            checkpoint: false,
            hostname: String::new(),
            min_allocatable: BTreeMap::new(),
            wire: Opaque::default(),
        }
    }

    fn offer(capabilities: &[FrameworkCapability]) -> v1::Offer {
        let refined = r#"[{"name":"mem","type":"SCALAR","scalar":{"value":5},"reservations":[
            {"type":"STATIC","role":"a"},{"type":"DYNAMIC","role":"a/b"}]}]"#;
        let forms: Vec<resources::form::ResourceForm> = serde_json::from_str(refined).unwrap();
        let refined = Resource::try_from(forms[0].clone()).unwrap();
        let set = parse::resources_text("cpus:2;disk(a):10", &Role::star()).unwrap();
        let agent = AgentInfo {
            hostname: "node".to_owned(),
            host: "10.0.0.7".to_owned(),
            port: 5061,
            version: String::new(),
            attributes: parse::attributes("rack:r1").unwrap(),
            resources: Vec::new(),
        };
        let parts = Parts {
            offer_id: &OfferId::parse("o").unwrap(),
            framework_id: &FrameworkId::parse("f").unwrap(),
            role: &Role::parse("a/b").unwrap(),
            agent_id: &AgentId::parse("s").unwrap(),
            agent: &agent,
            resources: set.iter().chain([&refined]).collect(),
            executor_ids: &[ExecutorId::parse("e").unwrap()],
        };
        Dialect::of(&framework(capabilities)).offer(&parts)
    }

    #[test]
    fn an_old_framework_hears_the_old_format() {
        let offer = offer(&[]);
        assert_eq!(offer.allocation_info, None);
        assert_eq!(offer.resources.len(), 2, "a refined reservation has no old form");
        for resource in &offer.resources {
            assert_eq!(resource.allocation_info, None);
            assert!(resource.reservations.is_empty());
        }
        let role = |name: &str| {
            let mut found = offer.resources.iter().filter(|resource| resource.name == name);
            found.next().unwrap().role.clone()
        };
        assert_eq!((role("cpus").as_deref(), role("disk").as_deref()), (Some("*"), Some("a")));
        let url = offer.url.unwrap();
        assert_eq!((url.scheme.as_str(), url.path.as_deref()), ("http", Some("/slave(1)")));
        assert_eq!(url.address.ip.as_deref(), Some("10.0.0.7"));
        assert_eq!((offer.hostname.as_str(), offer.attributes.len()), ("node", 1));
        assert_eq!(offer.executor_ids[0].value, "e");
    }

    #[test]
    fn a_new_framework_hears_stacks_and_its_allocation() {
        use FrameworkCapability::{MultiRole, ReservationRefinement};
        let offer = offer(&[MultiRole, ReservationRefinement]);
        assert_eq!(offer.allocation_info.unwrap().role.as_deref(), Some("a/b"));
        assert_eq!(offer.resources.len(), 3);
        for resource in offer.resources {
            assert_eq!(resource.allocation_info.unwrap().role.as_deref(), Some("a/b"));
            assert_eq!((resource.role, resource.reservation), (None, None));
        }
    }
}
