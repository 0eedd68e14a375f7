//! What frameworks use and run on all agents: one walk over the agents for a whole answer. Pure.
//! Next: `picture.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::resource::Resource;
use resources::role::Role;
use resources::task::ExecutorName;

use super::shapes;
use crate::state::State;
use crate::state::agents::Agent;
use crate::state::tasks::Executor;

/// What each framework uses, and the executors it runs.
#[derive(Debug, Default)]
pub(crate) struct Usage<'a> {
    by_framework: BTreeMap<&'a FrameworkId, Vec<Part<'a>>>,
    executors: BTreeMap<&'a FrameworkId, Vec<Running<'a>>>,
}

/// An executor and where it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running<'a> {
    pub(crate) agent_id: &'a AgentId,
    pub(crate) name: &'a ExecutorName,
    pub(crate) executor: &'a Executor,
}

/// What a framework uses on some agent in one role, in unallocated form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) role: &'a Role,
    pub(crate) resources: &'a Resources,
}

impl<'a> Usage<'a> {
    /// What is used by this state.
    pub(crate) fn of(state: &'a State) -> Self {
        let mut usage = Self::default();
        for agent in state.counted_agents() {
            for ((framework_id, role), resources) in &agent.used_by {
                let part = Part { role, resources };
                usage.by_framework.entry(framework_id).or_default().push(part);
            }
            for (name, executor) in &agent.executors {
                let running = Running { agent_id: &agent.id, name, executor };
                usage.executors.entry(&name.framework_id).or_default().push(running);
            }
        }
        usage
    }

    /// What a framework uses, agent by agent.
    pub(crate) fn parts(&self, framework_id: &FrameworkId) -> &[Part<'a>] {
        self.by_framework.get(framework_id).map_or(&[], Vec::as_slice)
    }

    /// All resources of a framework; a shared volume once per agent and role.
    pub(crate) fn resources(
        &self,
        framework_id: &FrameworkId,
    ) -> impl Iterator<Item = &'a Resource> {
        self.parts(framework_id).iter().flat_map(|part| part.resources.iter())
    }

    /// The same as one set, by role.
    pub(crate) fn allocated(&self, framework_id: &FrameworkId) -> Resources {
        let mut sum = Resources::new();
        for part in self.parts(framework_id) {
            sum.add_all(&allocated_to(part.resources, part.role));
        }
        sum
    }

    /// The executors of a framework.
    pub(crate) fn executors(&self, framework_id: &FrameworkId) -> &[Running<'a>] {
        self.executors.get(framework_id).map_or(&[], Vec::as_slice)
    }
}

/// What of an agent is used, by role.
pub(crate) fn allocated(agent: &Agent) -> Resources {
    let mut sum = Resources::new();
    for ((_, role), resources) in &agent.used_by {
        sum.add_all(&allocated_to(resources, role));
    }
    sum
}

/// The same resources, allocated to a role.
pub(crate) fn allocated_to(resources: &Resources, role: &Role) -> Resources {
    resources.map(|resource| shapes::allocated(resource, role))
}
