//! What must hold in every moment, and at the end. Knows nothing of how the world is driven.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use raft::{Leadership, Node};
use resources::id::LogIndex;
use tokio::runtime::Handle;

use crate::support::register::Register;

/// A node that is up, with the runtime of its machine.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) node: Node<Register>,
    pub(crate) runtime: Handle,
}

impl Deref for Running {
    type Target = Node<Register>;
    fn deref(&self) -> &Node<Register> {
        &self.node
    }
}

/// The nodes that are up.
pub(crate) type Nodes = BTreeMap<u64, Running>;

/// One acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acknowledged {
    pub(crate) key: u64,
    pub(crate) value: u64,
    pub(crate) index: LogIndex,
}

/// A promise that was broken.
pub(crate) type Broken = String;

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    terms: BTreeMap<u64, u64>,
    leaders: BTreeMap<u64, u64>,
}

impl Watch {
    /// Terms never go back on a node, not even over a crash; a term has one leader at most.
    pub(crate) fn look(&mut self, nodes: &Nodes) -> Result<(), Broken> {
        for (id, node) in nodes {
            let leadership = *node.leadership().borrow();
            let term = leadership.term().0;
            let seen = self.terms.entry(*id).or_default();
            // A node that has just started has not said anything yet.
            if term < *seen && term != 0 {
                return Err(format!("term of node {id} went from {seen} to {term}"));
            }
            *seen = term.max(*seen);
            if let Leadership::Leading { .. } = leadership {
                let leader = *self.leaders.entry(term).or_insert(*id);
                if leader != *id {
                    return Err(format!("nodes {leader} and {id} both led term {term}"));
                }
            }
        }
        Ok(())
    }

    /// Terms and who led them.
    pub(crate) fn leaders(&self) -> &BTreeMap<u64, u64> {
        &self.leaders
    }
}

/// Every acknowledged write is on every node at its place, and no place was acknowledged twice.
pub(crate) fn kept(acknowledged: &[Acknowledged], nodes: &Nodes) -> Result<(), Broken> {
    let places: BTreeSet<LogIndex> = acknowledged.iter().map(|write| write.index).collect();
    if places.len() != acknowledged.len() {
        return Err("one log position was acknowledged for two writes".to_owned());
    }
    for (id, node) in nodes {
        for write in acknowledged {
            let found = node.read(|register| register.get(write.key));
            if found != Some((write.value, write.index)) {
                return Err(format!("node {id} has {found:?} instead of {write:?}"));
            }
        }
    }
    Ok(())
}

/// All nodes have applied the same entries, with the same result.
pub(crate) fn equal(nodes: &Nodes) -> Result<(), Broken> {
    let digests: BTreeSet<_> = nodes.values().map(|node| node.status().digest).collect();
    if digests.len() == 1 { Ok(()) } else { Err(format!("digests differ: {digests:?}")) }
}

/// Whether all nodes have applied the whole log of a leader that all follow.
pub(crate) fn is_quiet(nodes: &Nodes) -> bool {
    let statuses: Vec<_> = nodes.values().map(|node| node.status()).collect();
    let Some(leader) = statuses.iter().find(|s| matches!(s.leadership, Leadership::Leading { .. }))
    else {
        return false;
    };
    statuses.iter().all(|status| {
        let knows_leader = match status.leadership {
            Leadership::Leading { term } => term == leader.term,
            Leadership::Following { leader: id, .. } => id == leader.id,
            Leadership::Unknown { .. } => false,
        };
        knows_leader && status.last_log == leader.last_log && status.applied == leader.last_log
    })
}
