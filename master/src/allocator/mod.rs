//! Who is offered what: the soft state of a leader, made anew from the replicated state after
//! each election and forgotten with the term. Pure: time comes in as an argument, and the same
//! calls give the same answers. Must not know of sessions, offers' ids, or the log.
//!
//! It is told what agents have and use ([`Allocator::agent_resources`]), what frameworks want
//! ([`Allocator::framework_changed`]), and what becomes of what it gave
//! ([`Allocator::give_back`], [`Allocator::decline`], [`Allocator::refuse`]). Calls only take
//! note; [`Allocator::allocate`] works off what changed, once per interval.
//!
//! Reading order: [`view`] (what comes in and goes out), [`constraints`], `amounts.rs`,
//! `share.rs`, `drf.rs` (who first), `clients.rs`, `free.rs`, `few.rs`, `agent.rs`,
//! `ledger.rs` (the sums), `filters.rs`, `quota.rs`, `cycle.rs` and `turn.rs` (the run),
//! [`calls`] and `frameworks.rs` (what is told).
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod agent;
mod amounts;
pub mod calls;
mod clients;
pub mod constraints;
mod cycle;
mod drf;
mod few;
mod filters;
mod frameworks;
mod free;
mod ledger;
mod quota;
mod share;
mod turn;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};

use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::role::Role;
use resources::time::Timestamp;

use self::agent::{Agent, AgentIndex};
use self::amounts::Kinds;
use self::clients::Clients;
use self::drf::{NodeId, Tree};
use self::filters::Filters;
use self::frameworks::Framework;
use self::ledger::Books;
use self::quota::Quotas;
pub use self::view::{Allocation, Part, Settings};

/// A new leader's wait for the agents it knows.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    agents_wanted: usize,
    ends: Timestamp,
}

/// The allocator.
#[derive(Debug)]
pub struct Allocator {
    settings: Settings,
    /// Boxed: the list grows under a new leader, and must not move them all.
    agents: Vec<Option<Box<Agent>>>,
    vacant: Vec<AgentIndex>,
    /// Places of agents that are gone, which lists may still name.
    vacating: Vec<AgentIndex>,
    by_agent_id: BTreeMap<AgentId, AgentIndex>,
    active_agents: usize,
    frameworks: BTreeMap<FrameworkId, Framework>,
    books: Books,
    filters: Filters,
    /// Agents whose free resources and sums do not follow from what was told.
    stale: Vec<AgentIndex>,
    /// Agents that the next run looks at.
    asked: Vec<AgentIndex>,
    /// Frameworks that may take, on any agent, what they did not before.
    fresh: BTreeSet<NodeId>,
    /// Agents of which quota withheld something.
    withheld: BTreeSet<AgentIndex>,
    recovery: Option<Recovery>,
    run: u64,
}

impl Allocator {
    /// An allocator that knows of nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let books = Books {
            kinds: Kinds::new(settings.excluded_from_fairness.clone()),
            tree: Tree::new(),
            quotas: Quotas::default(),
            clients: Clients::default(),
        };
        Self {
            settings,
            agents: Vec::new(),
            vacant: Vec::new(),
            vacating: Vec::new(),
            by_agent_id: BTreeMap::new(),
            active_agents: 0,
            frameworks: BTreeMap::new(),
            books,
            filters: Filters::default(),
            stale: Vec::new(),
            asked: Vec::new(),
            fresh: BTreeSet::new(),
            withheld: BTreeSet::new(),
            recovery: None,
            run: 0,
        }
    }

    /// Says after an election how many agents are known. With quotas nothing is allocated
    /// until enough of them are active or the wait ends (spec §8.6).
    pub fn recover(&mut self, agents_known: usize, now: Timestamp) {
        let agents_wanted = agents_known.saturating_mul(self.settings.recovery_percent) / 100;
        self.recovery =
            Some(Recovery { agents_wanted, ends: now + self.settings.recovery_timeout });
    }
    fn is_recovering(&mut self, now: Timestamp) -> bool {
        let is_over = self.recovery.is_none_or(|recovery| {
            self.books.quotas.is_empty()
                || self.active_agents >= recovery.agents_wanted
                || now >= recovery.ends
        });
        if is_over {
            self.recovery = None;
        }
        !is_over
    }
    /// Works off at most so many agents that are new or changed, and says how many are left.
    /// A run does it itself; a new leader does it before, in slices between other events.
    pub fn rebuild(&mut self, agents_max: usize) -> usize {
        for _ in 0..agents_max {
            let Some(index) = self.stale.pop() else { break };
            self.refresh(index);
        }
        self.stale.len()
    }

    /// What of an agent is neither used nor held nor unconfirmed, each shared volume once: what
    /// an operator's call can have without a rescinded offer.
    pub fn free(&mut self, agent_id: &AgentId) -> Resources {
        let Some(index) = self.by_agent_id.get(agent_id).copied() else {
            return Resources::new();
        };
        self.refresh(index).map_or_else(Resources::new, |agent| agent.free.all())
    }
    /// Whether anything was told of an agent.
    #[must_use]
    pub fn knows(&self, agent_id: &AgentId) -> bool {
        self.by_agent_id.contains_key(agent_id)
    }
    /// Whether there is a framework that something may be offered to.
    #[must_use]
    pub fn has_takers(&self) -> bool {
        self.frameworks.values().any(Framework::is_active)
    }
    /// What was given to a framework and not given back.
    #[must_use]
    pub fn held(&self, framework_id: &FrameworkId, role: &Role, agent_id: &AgentId) -> Resources {
        let client = self.books.tree.find_client(role, framework_id);
        let agent = self.by_agent_id.get(agent_id).and_then(|index| self.agents[index.0].as_ref());
        let held = client.zip(agent).and_then(|(client, agent)| agent.held.get(client));
        held.cloned().unwrap_or_default()
    }
    /// The dominant share of a role as (part, whole), unweighted; for metrics.
    #[must_use]
    pub fn dominant_share(&self, role: &Role) -> Option<(u64, u64)> {
        self.books.tree.dominant_share(role)
    }
    /// How many agents a framework refuses something of, in one role; for metrics.
    #[must_use]
    pub fn refused_agents(&self, framework_id: &FrameworkId, role: &Role) -> usize {
        let client = self.books.tree.find_client(role, framework_id);
        client.map_or(0, |client| self.filters.count_of(client))
    }

    fn mark_stale(&mut self, index: AgentIndex) {
        if let Some(agent) = &mut self.agents[index.0]
            && !std::mem::replace(&mut agent.is_stale, true)
        {
            self.stale.push(index);
        }
    }
    fn ask_everything(&mut self, index: AgentIndex) {
        if let Some(agent) = &mut self.agents[index.0]
            && agent.ask_everything()
        {
            self.asked.push(index);
        }
    }
    fn ask_client(&mut self, index: AgentIndex, client: NodeId) {
        if let Some(agent) = &mut self.agents[index.0]
            && agent.ask_client(client)
        {
            self.asked.push(index);
        }
    }
    /// The agent, brought up to date.
    fn refresh(&mut self, index: AgentIndex) -> Option<&Agent> {
        let agent = self.agents[index.0].as_mut()?;
        if std::mem::take(&mut agent.is_stale) {
            let has_changed = agent.recount(&mut self.books.kinds);
            self.books.restate(agent);
            if has_changed {
                self.ask_everything(index);
            }
        }
        self.agents[index.0].as_deref()
    }
}
