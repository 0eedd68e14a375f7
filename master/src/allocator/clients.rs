//! The frameworks per role: what each understands and wants, and whether its place is still
//! needed. Must not know of agents. Next: `ledger.rs`.

use std::collections::BTreeSet;

use resources::id::FrameworkId;
use resources::role::Role;

use super::constraints::Constraints;
use super::drf::NodeId;
use super::view::{Capabilities, MinAllocatable};

/// A framework in one role.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) framework_id: FrameworkId,
    pub(super) role: Role,
    pub(super) capabilities: Capabilities,
    pub(super) min_allocatable: Option<MinAllocatable>,
    pub(super) constraints: Option<Constraints>,
    /// The framework has the role now.
    pub(super) is_subscribed: bool,
    pub(super) is_suppressed: bool,
    /// Agents with entries of it.
    references: usize,
}

/// All of them, by their place in the tree.
#[derive(Debug, Default)]
pub(super) struct Clients {
    places: Vec<Option<Client>>,
    /// Those with a minimum of their own: they may take what nobody else wants.
    with_own_minimum: BTreeSet<NodeId>,
    /// Those whose place may be needed no more.
    idle: BTreeSet<NodeId>,
}

impl Clients {
    pub(super) fn get(&self, client: NodeId) -> Option<&Client> {
        self.places.get(client.0)?.as_ref()
    }
    pub(super) fn role(&self, client: NodeId) -> Option<&Role> {
        self.get(client).map(|client| &client.role)
    }
    /// Whose place it is.
    ///
    /// # Panics
    /// When it is nobody's.
    pub(super) fn key(&self, client: NodeId) -> (FrameworkId, Role) {
        let client = self.get(client).expect("entries name places in use");
        (client.framework_id.clone(), client.role.clone())
    }
    pub(super) fn get_mut(&mut self, client: NodeId) -> Option<&mut Client> {
        self.places.get_mut(client.0)?.as_mut()
    }
    /// Gives the place to a framework that has nothing there yet, when it is nobody's.
    pub(super) fn ensure(&mut self, client: NodeId, role: &Role, framework_id: &FrameworkId) {
        if self.places.len() <= client.0 {
            self.places.resize_with(client.0 + 1, || None);
        }
        if self.places[client.0].is_none() {
            self.places[client.0] = Some(Client {
                framework_id: framework_id.clone(),
                role: role.clone(),
                capabilities: Capabilities::default(),
                min_allocatable: None,
                constraints: None,
                is_subscribed: false,
                is_suppressed: false,
                references: 0,
            });
            self.idle.insert(client);
        }
    }
    /// Sets the minimum of its own.
    pub(super) fn set_minimum(&mut self, client: NodeId, minimum: Option<MinAllocatable>) {
        if minimum.is_some() {
            self.with_own_minimum.insert(client);
        } else {
            self.with_own_minimum.remove(&client);
        }
        if let Some(client) = self.get_mut(client) {
            client.min_allocatable = minimum;
        }
    }
    pub(super) fn with_own_minimum(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.with_own_minimum.iter().copied()
    }
    /// One more agent has entries of it.
    pub(super) fn refer(&mut self, client: NodeId) {
        if let Some(client) = self.get_mut(client) {
            client.references += 1;
        }
    }
    /// One agent less.
    pub(super) fn unrefer(&mut self, client: NodeId) {
        if let Some(own) = self.get_mut(client) {
            own.references -= 1;
            if own.references == 0 {
                self.idle.insert(client);
            }
        }
    }
    /// Says that its framework may have left.
    pub(super) fn suspect(&mut self, client: NodeId) {
        self.idle.insert(client);
    }
    /// Frees the places that are needed no more and says whose they were.
    pub(super) fn sweep(&mut self) -> Vec<(NodeId, FrameworkId, Role)> {
        let mut gone = Vec::new();
        for client in std::mem::take(&mut self.idle) {
            let is_idle = |own: &Client| own.references == 0 && !own.is_subscribed;
            if self.get(client).is_some_and(is_idle)
                && let Some(own) = self.places[client.0].take()
            {
                self.with_own_minimum.remove(&client);
                gone.push((client, own.framework_id, own.role));
            }
        }
        gone
    }
}
