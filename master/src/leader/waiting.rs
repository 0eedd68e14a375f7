//! Who waits for an answer in this process: operators, schedulers, and those who wait for an
//! operation's end. Each is answered exactly once. Must not decide what. Next: `mod.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::OperationId;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::event::{AskId, CallId, Event, Origin, WaiterId};
use super::request::{Granted, NotSettled, ProposeFailure, Refusal};
use super::scheduler::{SchedulerEvent, SchedulerRefusal};
use crate::state::operations::OperationRecord;

/// How long a caller waits for a proposal; then its outcome counts as unknown.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

type Answer = Result<Granted, Refusal>;
type End = Result<OperationRecord, NotSettled>;
/// A scheduler's stream, once it is subscribed.
pub(super) type Subscribed = Result<mpsc::Receiver<SchedulerEvent>, SchedulerRefusal>;

/// The other ends of answers.
#[derive(Default)]
pub(super) struct Waiting {
    calls: BTreeMap<CallId, Caller>,
    waiters: BTreeMap<WaiterId, (OperationId, oneshot::Sender<End>)>,
    asks: BTreeMap<AskId, Asker>,
    tickets: u64,
}

struct Asker {
    reply: AskReply,
    since: Instant,
    is_proposed: bool,
    /// Once an ACCEPT is proposed.
    operation_id: Option<OperationId>,
}

/// How a scheduler hears what became of its call.
pub(super) enum AskReply {
    /// With the stream that is ready for it.
    Subscribe(mpsc::Receiver<SchedulerEvent>, oneshot::Sender<Subscribed>),
    /// With nothing more.
    Call(oneshot::Sender<Result<(), SchedulerRefusal>>),
}

impl AskReply {
    /// A scheduler that has gone is nobody's loss.
    fn send(self, answer: Result<(), SchedulerRefusal>) {
        match self {
            Self::Subscribe(stream, reply) => drop(reply.send(answer.map(|()| stream))),
            Self::Call(reply) => drop(reply.send(answer)),
        }
    }
}

struct Caller {
    reply: oneshot::Sender<Answer>,
    since: Instant,
    is_proposed: bool,
    /// Once an operation or a transaction is proposed.
    operation_id: Option<OperationId>,
}

impl Waiting {
    pub(super) fn call(&mut self, reply: oneshot::Sender<Answer>) -> CallId {
        let call_id = CallId(self.ticket());
        let caller =
            Caller { reply, since: Instant::now(), is_proposed: false, operation_id: None };
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

    pub(super) fn ask(&mut self, reply: AskReply) -> AskId {
        let ask_id = AskId(self.ticket());
        let since = Instant::now();
        let asker = Asker { reply, since, is_proposed: false, operation_id: None };
        self.asks.insert(ask_id, asker);
        ask_id
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// From here on the outcome of a call may be unknown.
    pub(super) fn proposed(&mut self, origin: &Origin, operation_id: Option<OperationId>) {
        match origin {
            Origin::Subscribe(ask_id)
            | Origin::Ask(ask_id)
            | Origin::Suppress(ask_id, _)
            | Origin::Accept(ask_id) => {
                if let Some(asker) = self.asks.get_mut(ask_id) {
                    asker.is_proposed = true;
                    asker.operation_id = operation_id;
                }
            }
            Origin::Call(call_id) => {
                if let Some(caller) = self.calls.get_mut(call_id) {
                    caller.is_proposed = true;
                    caller.operation_id = operation_id;
                }
            }
            Origin::Session(_)
            | Origin::Report(_)
            | Origin::Tasks(_)
            | Origin::Departures
            | Origin::Absences
            | Origin::Presence(_)
            | Origin::Farewell(_)
            | Origin::Removal(_)
            | Origin::Nobody => {}
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

    pub(super) fn answer_ask(&mut self, ask_id: AskId, answer: Result<(), SchedulerRefusal>) {
        if let Some(asker) = self.asks.remove(&ask_id) {
            asker.reply.send(answer);
        }
    }

    /// Answers callers that have waited too long for a quorum, and forgets those who went.
    pub(super) fn sweep(&mut self) -> Vec<Event> {
        let is_late = |caller: &Caller| caller.is_proposed && caller.since.elapsed() > CALL_TIMEOUT;
        let late: Vec<CallId> =
            self.calls.iter().filter(|(_, caller)| is_late(caller)).map(|(id, _)| *id).collect();
        for call_id in late {
            if let Some(caller) = self.calls.remove(&call_id) {
                caller.give_up();
            }
        }
        let is_late = |asker: &Asker| asker.is_proposed && asker.since.elapsed() > CALL_TIMEOUT;
        for (_, asker) in self.asks.extract_if(.., |_, asker| is_late(asker)) {
            asker.give_up();
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
        std::mem::take(&mut self.asks).into_values().for_each(Asker::give_up);
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

impl Asker {
    /// Every call but an ACCEPT may be made again, whatever became of it.
    fn give_up(self) {
        let failure = match self.operation_id {
            Some(operation_id) => ProposeFailure::Unknown { operation_id },
            None => ProposeFailure::NoLeader,
        };
        self.reply.send(Err(SchedulerRefusal::Propose(failure)));
    }
}
