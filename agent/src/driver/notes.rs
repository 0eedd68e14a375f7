//! What of a checkpoint is told to the log and to the metrics. Next: `driver/handle.rs`.

use tracing::{debug, info};

use resources::message::{Outcome, Settled};

use super::desk::Desk;
use crate::core::event::Write;
use crate::core::tasks::event::TaskWrite;
use crate::core::tasks::row::TaskName;
use crate::metrics::Counters;

impl Desk {
    /// An end is told once, however often its row is written.
    pub(super) fn note_end(&mut self, write: &Write) {
        match write {
            Write::Tasks(TaskWrite::Status(name, row))
                if row.state.is_terminal() && self.ended.insert(name.clone()) =>
            {
                let TaskName { framework_id, task_id } = name;
                let message = row.last.as_ref().and_then(|status| status.message.as_deref());
                info!(%framework_id, %task_id, state = %row.state, message, "task ended");
                self.counters.ended(row.state);
            }
            Write::Tasks(TaskWrite::Task(name, None)) => {
                self.ended.remove(name);
            }
            _ => {}
        }
    }
}

/// Whether there are other volumes or executors now.
pub(super) fn changes_surroundings(write: &Write) -> bool {
    matches!(
        write,
        Write::Volume(..) | Write::RemoveVolume(_) | Write::Tasks(TaskWrite::Executor(..))
    )
}

pub(super) fn ends_executor(write: &Write) -> bool {
    matches!(write, Write::Tasks(TaskWrite::Executor(_, None)))
}

/// What a user may ask about later: volumes, and orders that failed.
pub(super) fn note(write: &Write, counters: &mut Counters) {
    match write {
        Write::Settle(ended) => {
            let Settled { seq, operation_id, outcome } = &ended.settled;
            match outcome {
                Outcome::Failed { reason } => {
                    counters.orders_failed += 1;
                    info!(%operation_id, %seq, reason, "operation failed");
                }
                Outcome::Finished => {
                    counters.orders_finished += 1;
                    debug!(%operation_id, %seq, "operation finished");
                }
            }
        }
        Write::Volume(volume, _) => info!(%volume, "volume created"),
        Write::RemoveVolume(volume) => info!(%volume, "volume destroyed"),
        Write::Tasks(TaskWrite::Task(TaskName { framework_id, task_id }, Some(_))) => {
            counters.tasks_launched += 1;
            info!(%framework_id, %task_id, "task launched");
        }
        _ => {}
    }
}
