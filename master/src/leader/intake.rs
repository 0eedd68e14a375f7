//! What reaches the loop, as events: messages of the edges, jobs that ended, streams that closed,
//! entries that were applied. Must not decide anything. Next: `office.rs`.

use raft::AppliedBatch;
use resources::id::StreamId;
use tokio::task::JoinError;

use super::event::{Event, SessionId};
use super::handle::{self, Inbox};
use super::waiting::AskReply;
use super::{Job, Leader};
use crate::machine::Replica;
use crate::state::command::{Change, Effect};

impl Leader {
    pub(super) fn take_in(&mut self, message: Inbox, events: &mut Vec<Event>) {
        match message {
            Inbox::Call(request, reply) => {
                let call_id = self.waiting.call(reply);
                events.push(Event::CallArrived { call_id, request });
            }
            Inbox::Administer(administration, reply) => {
                let call_id = self.waiting.call(reply);
                events.push(Event::AdministrationArrived { call_id, administration });
            }
            Inbox::Wait(operation_id, reply) => {
                let waiter_id = self.waiting.wait(operation_id.clone(), reply);
                events.push(Event::WaitArrived { waiter_id, operation_id });
            }
            Inbox::Subscribe(subscribing, reply) => {
                let (stream, watcher) = self.streams.open(subscribing.stream_id.clone());
                self.watchers.spawn(watcher);
                let ask_id = self.waiting.ask(AskReply::Subscribe(stream, reply));
                events.push(Event::SubscribeArrived { ask_id, subscribing });
            }
            Inbox::Schedule(call, reply) => {
                let ask_id = self.waiting.ask(AskReply::Call(reply));
                events.push(Event::AskArrived { ask_id, call });
            }
            Inbox::Teardown(teardown, reply) => {
                let handle::Teardown { framework_id, principal, source } = *teardown;
                let ask_id = self.waiting.ask(AskReply::Call(reply));
                events.push(Event::TeardownArrived { ask_id, principal, source, framework_id });
            }
            // Whoever asked and went is nobody's loss.
            Inbox::Offers(ids, reply) => drop(reply.send(self.core.find_offers(&ids))),
            Inbox::InverseAnswers(reply) => drop(reply.send(self.core.inverse_answers())),
            Inbox::AllOffers(reply) => drop(reply.send(self.core.outstanding_offers())),
            Inbox::Open(opening) => {
                let handle::Opening { session_id, principal, address, sender, guard, reader } =
                    *opening;
                self.outboxes.open(session_id, sender, guard);
                self.readers.spawn(async move {
                    reader.await;
                    session_id
                });
                events.push(Event::SessionOpened { session_id, principal, address });
            }
            Inbox::Spoke(session_id, message) => {
                events.push(Event::SessionSpoke { session_id, message: *message });
            }
        }
    }

    pub(super) fn finished(&mut self, job: Result<Job, JoinError>, events: &mut Vec<Event>) {
        let job = match job {
            Ok(job) => job,
            Err(error) => {
                tracing::error!(%error, "a task of the leader failed");
                return;
            }
        };
        match job {
            Job::Landed(landed) => events.extend(self.proposer.landed(landed)),
            Job::Barrier(passed) => events.push(Event::BarrierEnded { passed: passed.is_ok() }),
            Job::Assumed(term, assumed) => self.assumed(term, assumed, events),
            Job::ClusterIdStored(Ok(())) => {}
            Job::ClusterIdStored(Err(error)) => {
                tracing::error!(%error, "the cluster id was not stored");
            }
        }
    }

    pub(super) fn stream_ended(
        &mut self,
        watcher: Result<StreamId, JoinError>,
        events: &mut Vec<Event>,
    ) {
        match watcher {
            Ok(stream_id) => {
                self.streams.end(&stream_id);
                events.push(Event::StreamEnded { stream_id });
            }
            Err(error) => tracing::error!(%error, "the watcher of a scheduler's stream failed"),
        }
    }

    pub(super) fn session_ended(
        &mut self,
        reader: Result<SessionId, JoinError>,
        events: &mut Vec<Event>,
    ) {
        match reader {
            Ok(session_id) => {
                self.outboxes.close(session_id);
                events.push(Event::SessionClosed { session_id });
            }
            Err(error) => tracing::error!(%error, "the reader of an agent's stream failed"),
        }
    }
}

/// The effects of an applied entry, and a line in the log for those that operators look for.
pub(super) fn noted(applied: AppliedBatch<Replica>) -> Event {
    let index = applied.index.0;
    let effects: Vec<Effect> =
        applied.outcomes.into_iter().flat_map(|(_, effects)| effects).collect();
    for effect in &effects {
        let Effect::Change(change) = effect else { continue };
        match change {
            Change::AlarmRaised(_) => tracing::error!(index, "{change}"),
            Change::AgentUnreachable(_) => tracing::warn!(index, "{change}"),
            Change::AgentAway(_)
            | Change::OperationSettled(..)
            | Change::TransactionMoved(..)
            | Change::TaskAdded(..)
            | Change::TaskMoved(..) => {
                tracing::debug!(index, "{change}");
            }
            Change::ClusterFormed(_)
            | Change::LeaderAnnounced(..)
            | Change::AgentAdded(..)
            | Change::AgentUpdated(_)
            | Change::AgentReturned(_)
            | Change::AgentUnregistered(_)
            | Change::AgentGone(_)
            | Change::ReservationGone { .. }
            | Change::VolumeGone { .. }
            | Change::AgentSuperseded { .. }
            | Change::FrameworkSubscribed(_)
            | Change::FrameworkUpdated(_)
            | Change::FrameworkDisconnected(_)
            | Change::FrameworkRemoved(_)
            | Change::QuotaUpdated(_)
            | Change::QuotaSet(_)
            | Change::WeightsUpdated(_)
            | Change::MaintenanceScheduled(_)
            | Change::AgentShutDown(_)
            | Change::MachinesUp(_) => tracing::info!(index, "{change}"),
        }
    }
    Event::Applied { effects }
}
