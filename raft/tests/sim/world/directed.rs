//! What a scenario does to its world, step by step.

use std::ops::Range;

use raft::Status;
use resources::id::Term;

use super::World;
use crate::checks::{self, Acknowledged};
use crate::support::disk::SimDisk;
use crate::support::register::put;

impl World {
    pub(crate) fn disk(&self, id: u64) -> &SimDisk {
        &self.disks[&id]
    }

    pub(crate) fn status(&self, id: u64) -> Option<Status> {
        self.nodes.lock().get(&id).map(|node| node.status())
    }

    /// Writes keys on a node that leads.
    pub(crate) fn write(&mut self, id: u64, keys: Range<u64>) {
        let (node, runtime) = {
            let running = &self.nodes.lock()[&id];
            (running.node.clone(), running.runtime.clone())
        };
        let acknowledged = self.acknowledged.clone();
        let wanted = acknowledged.lock().len() + usize::try_from(keys.end - keys.start).unwrap();
        runtime.spawn(async move {
            for key in keys {
                let index = node.propose(put(key, key)).await.unwrap().index;
                acknowledged.lock().push(Acknowledged { key, value: key, index });
            }
        });
        while self.acknowledged.lock().len() < wanted {
            self.tick().unwrap();
        }
    }

    /// Runs until everything is whole again, and everything acknowledged is everywhere.
    pub(crate) fn settle_whole(&mut self) {
        self.settle();
        let nodes = self.nodes.lock();
        checks::kept(&self.acknowledged.lock(), &nodes).unwrap();
        checks::equal(&nodes).unwrap();
    }

    /// The process dies, and its disk with it.
    pub(crate) fn wipe(&mut self, id: u64) {
        self.kill(id);
        self.disks[&id].wipe();
    }

    /// What ended a node, or kept it from starting.
    pub(crate) fn fatal(&self, id: u64) -> Vec<String> {
        self.fatal[&id].seen()
    }

    /// Whether a node has voted or written anything.
    pub(crate) fn has_promised(&self, id: u64) -> bool {
        self.nodes.lock().get(&id).is_some_and(|node| {
            let status = node.status();
            status.term > Term(0) || status.last_log.is_some()
        })
    }

    pub(crate) fn leader(&self) -> Option<(u64, Term)> {
        self.leader_without(None)
    }
}
