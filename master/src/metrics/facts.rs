//! What the metrics are read off: where this master stands in the log, and sums over the
//! replicated state. Must not know the names under which it is published. Next: `counters.rs`.

use std::collections::BTreeMap;

use resources::id::LogIndex;
use resources::operation::Operation;
use resources::resource::Resource;
use resources::value::{Scalar, Value};

use crate::state::State;
use crate::state::operations::OperationState;

/// Resources whose totals are metrics.
pub(super) const TOTALS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];
/// Operations by Mesos' name in metrics.
pub(super) const OPERATIONS: [&str; 6] =
    ["reserve", "unreserve", "create", "destroy", "grow_volume", "shrink_volume"];

/// What the metrics are read off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) uptime_seconds: f64,
    pub(crate) is_leader: bool,
    /// Agents with a session.
    pub(crate) agents_connected: usize,
    pub(crate) raft: RaftFacts,
    pub(crate) state: StateFacts,
}

/// Where this master stands in the log.
#[derive(Debug, Clone, Default)]
pub(crate) struct RaftFacts {
    pub(crate) term: u64,
    pub(crate) last_log: u64,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
    pub(crate) masters: usize,
    pub(crate) fsync_p99_seconds: Option<f64>,
}

impl RaftFacts {
    pub(crate) fn of(status: &raft::Status) -> Self {
        let at = |index: Option<LogIndex>| index.map_or(0, |index| index.0);
        Self {
            term: status.term.0,
            last_log: at(status.last_log),
            committed: at(status.committed),
            applied: at(status.applied),
            masters: status.peers.len() + 1,
            fsync_p99_seconds: status.commit_p99.map(|p99| p99.as_secs_f64()),
        }
    }
}

/// Sums over the replicated state.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateFacts {
    pub(super) agents: usize,
    pub(super) alarms: usize,
    pub(super) totals: BTreeMap<&'static str, Scalar>,
    pub(super) reserved: BTreeMap<&'static str, Scalar>,
    pub(super) volumes: usize,
    pub(super) volumes_disk: Scalar,
    pub(super) pending: BTreeMap<&'static str, usize>,
    /// Ended operations that are still on record.
    pub(super) finished: usize,
    pub(super) failed: usize,
}

impl StateFacts {
    /// Sums up a state.
    pub(crate) fn of(state: &State) -> Self {
        let mut facts = Self { alarms: state.alarms().count(), ..Self::default() };
        for agent in state.agents() {
            facts.agents += 1;
            for name in TOTALS {
                let total = facts.totals.entry(name).or_default();
                *total = total.saturating_add(agent.total.scalar(name).unwrap_or_default());
            }
            agent.total.iter().for_each(|resource| facts.add_reserved(resource));
        }
        for record in state.operations() {
            match record.state {
                OperationState::Pending => {
                    *facts.pending.entry(kind(&record.operation)).or_default() += 1;
                }
                OperationState::Finished => facts.finished += 1,
                OperationState::Failed => facts.failed += 1,
            }
        }
        facts
    }

    fn add_reserved(&mut self, resource: &Resource) {
        let (true, Value::Scalar(amount)) = (resource.is_reserved(), &resource.value) else {
            return;
        };
        if let Some(name) = TOTALS.into_iter().find(|name| *name == resource.name) {
            let sum = self.reserved.entry(name).or_default();
            *sum = sum.saturating_add(*amount);
        }
        if resource.is_persistent_volume() {
            self.volumes += 1;
            self.volumes_disk = self.volumes_disk.saturating_add(*amount);
        }
    }
}

pub(super) fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Reserve { .. } => OPERATIONS[0],
        Operation::Unreserve { .. } => OPERATIONS[1],
        Operation::Create { .. } => OPERATIONS[2],
        Operation::Destroy { .. } => OPERATIONS[3],
        Operation::Grow { .. } => OPERATIONS[4],
        Operation::Shrink { .. } => OPERATIONS[5],
    }
}
