//! Who waits for an answer in this process: callers, and those who wait for an operation's end.
//! Each is answered exactly once. Must not decide what. Next: `mod.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::OperationId;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::event::{CallId, Event, Granted, NotSettled, Origin, ProposeFailure, Refusal, WaiterId};
use crate::state::operations::OperationRecord;

/// How long a caller waits for a proposal; then its outcome counts as unknown.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

type Answer = Result<Granted, Refusal>;
type End = Result<OperationRecord, NotSettled>;

/// The other ends of answers.
#[derive(Default)]
pub(super) struct Waiting {
    calls: BTreeMap<CallId, Caller>,
    waiters: BTreeMap<WaiterId, (OperationId, oneshot::Sender<End>)>,
    tickets: u64,
}

struct Caller {
    reply: oneshot::Sender<Answer>,
    since: Instant,
    /// Once it is proposed.
    operation_id: Option<OperationId>,
}

impl Waiting {
    pub(super) fn call(&mut self, reply: oneshot::Sender<Answer>) -> CallId {
        let call_id = CallId(self.ticket());
        let caller = Caller { reply, since: Instant::now(), operation_id: None };
        self.calls.insert(call_id, caller);
        call_id
    }

    pub(super) fn wait(
        &mut self,
        operation_id: OperationId,
        reply: oneshot::Sender<End>,
    ) -> WaiterId {
        let waiter_id = WaiterId(self.ticket());
        self.waiters.insert(waiter_id, (operation_id, reply));
        waiter_id
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// From here on the outcome of a call may be unknown.
    pub(super) fn minted(&mut self, origin: &Origin, operation_id: Option<OperationId>) {
        match origin {
            Origin::Call(call_id) => {
                if let Some(caller) = self.calls.get_mut(call_id) {
                    caller.operation_id = operation_id;
                }
            }
            Origin::Session(_) | Origin::Report(_) | Origin::Nobody => {}
        }
    }

    /// A caller that has gone is nobody's loss: the operation stands or not without it.
    pub(super) fn answer(&mut self, call_id: CallId, answer: Answer) {
        if let Some(caller) = self.calls.remove(&call_id) {
            drop(caller.reply.send(answer));
        }
    }

    pub(super) fn answer_wait(&mut self, waiter_id: WaiterId, end: End) {
        if let Some((_, reply)) = self.waiters.remove(&waiter_id) {
            drop(reply.send(end));
        }
    }

    /// Answers callers that have waited too long for a quorum, and forgets those who went.
    pub(super) fn sweep(&mut self) -> Vec<Event> {
        let is_late = |caller: &Caller| {
            caller.operation_id.is_some() && caller.since.elapsed() > CALL_TIMEOUT
        };
        let late: Vec<CallId> =
            self.calls.iter().filter(|(_, caller)| is_late(caller)).map(|(id, _)| *id).collect();
        for call_id in late {
            if let Some(caller) = self.calls.remove(&call_id) {
                caller.give_up();
            }
        }
        let gone: Vec<WaiterId> =
            self.waiters.iter().filter(|(_, (_, r))| r.is_closed()).map(|(id, _)| *id).collect();
        let ended = gone.into_iter().filter_map(|waiter_id| {
            let (operation_id, _) = self.waiters.remove(&waiter_id)?;
            Some(Event::WaitEnded { waiter_id, operation_id })
        });
        ended.collect()
    }

    /// Answers everybody who is left.
    pub(super) fn end(&mut self) {
        std::mem::take(&mut self.calls).into_values().for_each(Caller::give_up);
        for (_, reply) in std::mem::take(&mut self.waiters).into_values() {
            drop(reply.send(Err(NotSettled::LeadershipLost)));
        }
    }
}

impl Caller {
    fn give_up(self) {
        let failure = match self.operation_id {
            Some(operation_id) => ProposeFailure::Unknown { operation_id },
            None => ProposeFailure::NoLeader,
        };
        drop(self.reply.send(Err(Refusal::Propose(failure))));
    }
}
