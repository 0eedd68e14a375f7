//! One agent as the allocator holds it: what it was told, what it has offered, and what follows
//! from both. Must not know of the order of frameworks. Next: `ledger.rs`.

use std::collections::BTreeSet;

use resources::collection::Resources;
use resources::id::AgentId;
use resources::resource::Resource;

use super::amounts::Kinds;
use super::drf::NodeId;
use super::few::Few;
use super::free::Free;
use super::ledger::Ledger;
use super::view::{AgentProfile, AgentResources, Standing};

/// A place in the list of agents. Reused after its agent is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AgentIndex(pub(super) usize);

/// Why the next run must look at an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Work {
    /// It need not: nobody who could take something has changed, nor has what is free.
    #[default]
    Nothing,
    /// Only these may take something that they did not before.
    Clients(BTreeSet<NodeId>),
    /// Anybody may.
    Everything,
}

/// An agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) agent_id: AgentId,
    pub(super) profile: AgentProfile,
    pub(super) standing: Standing,
    pub(super) resources: AgentResources,
    /// Offered, or accepted and not yet applied.
    pub(super) held: Few<Resources>,
    pub(super) free: Free,
    pub(super) ledger: Ledger,
    pub(super) work: Work,
    /// `free` and `ledger` do not follow from the rest: they must be made anew.
    pub(super) is_stale: bool,
    /// What is used and held lies within the total, so that what comes back is free again.
    pub(super) is_exact: bool,
    pub(super) has_gpus: bool,
}

impl Agent {
    pub(super) fn new(agent_id: AgentId) -> Self {
        Self {
            agent_id,
            profile: AgentProfile::default(),
            standing: Standing::Inactive,
            resources: AgentResources::default(),
            held: Few::default(),
            free: Free::default(),
            ledger: Ledger::default(),
            work: Work::Nothing,
            is_stale: false,
            is_exact: true,
            has_gpus: false,
        }
    }

    /// Makes `free` anew: the total without what tasks use, what is held, and what unconfirmed
    /// orders made, of which tasks use first. Says whether it is not as it was.
    pub(super) fn recount(&mut self, kinds: &mut Kinds) -> bool {
        let AgentResources { total, unconfirmed, used } = &self.resources;
        let mut taken = Resources::new();
        for part in used.values() {
            taken.add_all(part);
        }
        let mut unconfirmed = unconfirmed.clone();
        if !unconfirmed.is_empty() {
            unconfirmed.subtract_all(&taken);
        }
        for (_, part) in self.held.iter() {
            taken.add_all(part);
        }
        let is_unshared = |resource: &Resource| !resource.shared;
        let shared: Vec<Resource> = total
            .iter()
            .filter(|resource| {
                resource.shared && !self.resources.unconfirmed.contains_one(resource)
            })
            .cloned()
            .collect();
        let mut free = if total.iter().all(is_unshared) {
            total.clone()
        } else {
            taken = taken.filter(is_unshared);
            total.filter(is_unshared)
        };
        taken.add_all(&unconfirmed.filter(is_unshared));
        self.is_exact = free.contains(&taken);
        free.subtract_all(&taken);
        self.has_gpus = total.iter().any(|resource| resource.name == "gpus");
        let free = Free::new(&free, shared, kinds);
        let has_changed = free != self.free;
        self.free = free;
        has_changed
    }

    /// Asks the next run to look at it; says whether it had not been asked to before.
    pub(super) fn ask_everything(&mut self) -> bool {
        std::mem::replace(&mut self.work, Work::Everything) == Work::Nothing
    }
    /// As above, for one framework.
    pub(super) fn ask_client(&mut self, client: NodeId) -> bool {
        match &mut self.work {
            Work::Nothing => {
                self.work = Work::Clients(BTreeSet::from([client]));
                true
            }
            Work::Clients(clients) => {
                clients.insert(client);
                false
            }
            Work::Everything => false,
        }
    }
}
