//! What the allocator is told, and what it answers: plain values that the leader makes from the
//! replicated state. All resources, in and out, are in unallocated form (`allocation_role` is
//! none): the role stands beside them. Must not know how the cycle works. Next:
//! `constraints.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::message::Attribute;
use resources::quantity::Quantities;
use resources::role::Role;

use super::constraints::Constraints;

/// How long a refusal lasts when the framework does not say (spec §4.4).
pub const REFUSE_DEFAULT: Duration = Duration::from_secs(5);
/// Longest refusal; longer ones are cut to it (spec §4.4).
pub const REFUSE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What does not change while a leader leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Time between two runs; no refusal is shorter.
    pub allocation_interval: Duration,
    /// What an offer must hold at least, where its framework does not say.
    pub min_allocatable: MinAllocatable,
    /// Whether agents with gpus are kept from frameworks that do not ask for them.
    pub filter_gpu_resources: bool,
    /// Kinds that do not count for fairness.
    pub excluded_from_fairness: BTreeSet<String>,
    /// Region of the masters: agents of another one go to region-aware frameworks only.
    pub region: Option<String>,
    /// Hostnames of the agents that are offered at all; none means every agent.
    pub whitelist: Option<BTreeSet<String>>,
    /// How long a new leader with quotas waits for known agents before it allocates.
    pub recovery_timeout: Duration,
    /// Of how many known agents, in percent, it waits for.
    pub recovery_percent: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allocation_interval: Duration::from_secs(1),
            min_allocatable: MinAllocatable::default(),
            filter_gpu_resources: true,
            excluded_from_fairness: BTreeSet::new(),
            region: None,
            whitelist: None,
            recovery_timeout: Duration::from_secs(600),
            recovery_percent: 80,
        }
    }
}

/// Alternatives of which an offer must hold at least one; no alternative means no minimum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinAllocatable(pub Vec<Quantities>);

/// `cpus:0.01|mem:32` (spec §12).
impl Default for MinAllocatable {
    fn default() -> Self {
        let parse = |text| Quantities::parse(text).expect("the default is well formed");
        Self(vec![parse("cpus:0.01"), parse("mem:32")])
    }
}

impl MinAllocatable {
    /// Whether `amount_of` a kind reaches one of the alternatives.
    pub(super) fn is_reached(&self, amount_of: impl Fn(&str) -> i128) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|wanted| {
                wanted.iter().all(|(name, amount)| amount_of(name) >= i128::from(amount.milli()))
            })
    }
}

/// What an agent is: changes when it registers again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentProfile {
    /// Its hostname, for the whitelist and for constraints.
    pub hostname: String,
    /// Its attributes, for constraints.
    pub attributes: Vec<Attribute>,
    /// Region of its fault domain.
    pub region: Option<String>,
    /// Zone of its fault domain.
    pub zone: Option<String>,
    /// Whether it lacks HIERARCHICAL_ROLE: then it is not offered to roles with a slash.
    pub lacks_hierarchical_role: bool,
}

/// What an agent has, and what of it is not free. The offers that this allocator made are not
/// in here: it remembers them itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentResources {
    /// `Agent::total`: the fold of its orders over what it confirmed.
    pub total: Resources,
    /// The part of `total` that unconfirmed orders made. It is not offered; what tasks use is
    /// taken from it first.
    pub unconfirmed: Resources,
    /// What tasks and executors use, per framework and role. Shared volumes may stand in
    /// several of them, and several times in one.
    pub used: BTreeMap<(FrameworkId, Role), Resources>,
}

/// Whether offers may be made: an agent with a live session that is not deactivated, a
/// framework that is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// They may.
    Active,
    /// They may not. What is allocated stays counted.
    Inactive,
}

/// Capabilities of a framework that decide what it can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Capabilities {
    /// REVOCABLE_RESOURCES.
    pub revocable_resources: bool,
    /// GPU_RESOURCES.
    pub gpu_resources: bool,
    /// SHARED_RESOURCES.
    pub shared_resources: bool,
    /// RESERVATION_REFINEMENT.
    pub reservation_refinement: bool,
    /// REGION_AWARE.
    pub region_aware: bool,
}

/// What a framework asks for: its info and the subscription's extras.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrameworkView {
    /// Its roles.
    pub roles: BTreeSet<Role>,
    /// Those of them that it wants no offers for.
    pub suppressed: BTreeSet<Role>,
    /// What it understands.
    pub capabilities: Capabilities,
    /// Its own minimum per role, in place of the default (`FrameworkInfo.offer_filters`).
    pub min_allocatable: BTreeMap<Role, MinAllocatable>,
    /// Which agents it wants per role; a role without an entry wants all.
    pub constraints: BTreeMap<Role, Constraints>,
}

/// A call named a role that the framework does not have: all of the call is void (spec §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownRole;

/// Resources of one agent that go to a framework in a role: one offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The agent.
    pub agent_id: AgentId,
    /// What of it.
    pub resources: Resources,
}

/// All that one run gives to a framework in a role: one OFFERS event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Who.
    pub framework_id: FrameworkId,
    /// In which role.
    pub role: Role,
    /// An offer each, in the order of the run.
    pub parts: Vec<Part>,
}
