//! Proposals and actions on one line each: what logs and golden scripts show.
//! Next: `core.rs`.

use std::fmt;

use resources::message::{MasterMessage, Order};

use super::event::{Action, Origin, Proposal};
use super::request::{Granted, Request};
use super::scheduler::{InverseOffer, Offer, SchedulerEvent};
use crate::state::command::IdempotencyKey;
use crate::state::operations::describe;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Propose(origin, proposal) => write!(f, "propose for {origin}: {proposal}"),
            Self::Answer(call_id, Ok(Granted::Operation(accepted))) => write!(
                f,
                "answer {call_id} accepted {} version {}",
                accepted.operation_id, accepted.resource_version
            ),
            Self::Answer(call_id, Ok(Granted::Rule)) => write!(f, "answer {call_id} ruled"),
            Self::Answer(call_id, Ok(Granted::Transaction(accepted))) => {
                write!(f, "answer {call_id} transacted {}", accepted.transaction_id)?;
                let mut versions = accepted.versions.iter();
                versions.try_for_each(|(id, version)| write!(f, " {id} version {version}"))
            }
            Self::Answer(call_id, Ok(Granted::Nothing)) => write!(f, "answer {call_id} done"),
            Self::Answer(call_id, Err(refusal)) => write!(f, "answer {call_id} {refusal}"),
            Self::AnswerWait(waiter_id, answer) => match &**answer {
                Ok(record) => write!(f, "answer {waiter_id} {record}"),
                Err(not_settled) => write!(f, "answer {waiter_id} {not_settled}"),
            },
            Self::Send(session_id, message) => {
                write!(f, "send {session_id} ")?;
                message_line(f, message)
            }
            Self::Close(session_id) => write!(f, "close {session_id}"),
            Self::StartBarrier => f.write_str("start a read barrier"),
            Self::AnswerAsk(ask_id, Ok(())) => write!(f, "answer {ask_id} done"),
            Self::AnswerAsk(ask_id, Err(refusal)) => write!(f, "answer {ask_id} {refusal}"),
            Self::Say(stream_id, event) => write!(f, "say {stream_id} {event}"),
            Self::EndStream(stream_id) => write!(f, "end {stream_id}"),
        }
    }
}

impl fmt::Display for SchedulerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subscribed(framework_id, _) => write!(f, "SUBSCRIBED {framework_id}"),
            Self::Updated(info) => write!(f, "speaks as '{}'", info.name),
            Self::Heartbeat => f.write_str("HEARTBEAT"),
            Self::Offers(offers) => {
                f.write_str("OFFERS")?;
                offers.iter().try_for_each(|offer| write!(f, " [{offer}]"))
            }
            Self::Rescind(offer_id) => write!(f, "RESCIND {offer_id}"),
            Self::InverseOffers(offers) => {
                f.write_str("INVERSE_OFFERS")?;
                offers.iter().try_for_each(|offer| {
                    let InverseOffer { offer_id, agent_id, unavailability, .. } = offer;
                    write!(f, " [{offer_id} of {agent_id} from {}]", unavailability.start_ns)
                })
            }
            Self::RescindInverse(offer_id) => write!(f, "RESCIND_INVERSE_OFFER {offer_id}"),
            Self::Notice(notice) => notice.fmt(f),
            Self::Message { agent_id, executor, data } => {
                write!(f, "MESSAGE {agent_id} {executor}, {} bytes", data.as_bytes().len())
            }
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offer_id, role, agent_id, resources, .. } = self;
        write!(f, "{offer_id} of {agent_id} as {role}: {resources}")?;
        self.executor_ids.iter().try_for_each(|id| write!(f, " executor {id}"))?;
        match self.unavailability {
            Some(unavailability) => write!(f, " unavailable from {}", unavailability.start_ns),
            None => Ok(()),
        }
    }
}

fn message_line(f: &mut fmt::Formatter<'_>, message: &MasterMessage) -> fmt::Result {
    match message {
        MasterMessage::Welcome { agent_id, ping_interval, pings_missed_max } => {
            write!(f, "Welcome {agent_id} ping {ping_interval:?} missed {pings_missed_max}")
        }
        MasterMessage::Refused { reason, retry, end_tasks, retry_after } => {
            write!(f, "Refused {retry:?}")?;
            retry_after.map_or(Ok(()), |delay| write!(f, " after {delay:?}"))?;
            f.write_str(if *end_tasks { ", its tasks end" } else { "" })?;
            write!(f, ": {reason}")
        }
        MasterMessage::Orders(orders) => {
            f.write_str("Orders")?;
            let line = |order: &Order| format!(" #{} {}", order.seq, describe(&order.operation));
            orders.iter().try_for_each(|order| f.write_str(&line(order)))
        }
        MasterMessage::Acknowledge { upto } => write!(f, "Acknowledge upto {upto}"),
        MasterMessage::SendTotal => f.write_str("SendTotal"),
        MasterMessage::Ping => f.write_str("Ping"),
        MasterMessage::Instruct(instruction) => write!(f, "Instruct {instruction}"),
        MasterMessage::Unregistered => f.write_str("Unregistered"),
        MasterMessage::Adopt { applied_seq, digest } => {
            write!(f, "Adopt {applied_seq} digest {digest:032x}")
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call_id) => call_id.fmt(f),
            Self::Session(session_id) => session_id.fmt(f),
            Self::Report(agent_id) => write!(f, "a report of {agent_id}"),
            Self::Tasks(agent_id) => write!(f, "tasks of {agent_id}"),
            Self::Subscribe(ask_id) | Self::Ask(ask_id) | Self::Accept(ask_id) => ask_id.fmt(f),
            Self::Suppress(ask_id, _) => ask_id.fmt(f),
            Self::Departures => f.write_str("departures"),
            Self::Absences => f.write_str("absences"),
            Self::Presence(agent_id) => write!(f, "the presence of {agent_id}"),
            Self::Farewell(session_id) => write!(f, "the farewell of {session_id}"),
            Self::Removal(framework_id) => write!(f, "the removal of {framework_id}"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FormCluster => f.write_str("form-cluster"),
            Self::TakeOffice => f.write_str("take-office"),
            Self::Register { registration, .. } => write!(
                f,
                "register-agent {} boot {} applied {}",
                registration.checkpoint_id, registration.boot_counter, registration.applied_seq
            ),
            Self::Request(request) => match &**request {
                Request::Operate(call) => {
                    write!(f, "operate {} {}", call.agent_id, describe(&call.operation))?;
                    condition(f, call.key.as_ref(), call.if_version.iter())
                }
                Request::Transact(transaction) => {
                    f.write_str("transact")?;
                    let mut members = transaction.operations.iter();
                    members.try_for_each(|(agent_id, operation)| {
                        write!(f, " [{agent_id} {}]", describe(operation))
                    })?;
                    condition(f, transaction.key.as_ref(), transaction.if_versions.values())
                }
                Request::Rule(ruling) => {
                    ruling.rule.fmt(f)?;
                    condition(f, ruling.key.as_ref(), [].iter())
                }
            },
            Self::Accept { accept, .. } => accept.fmt(f),
            Self::Administer(administration) => administration.kind.fmt(f),
            Self::Plain { kind, .. } => kind.fmt(f),
            Self::Confirm { agent_id, upto, exceptions } => {
                write!(f, "confirm {agent_id} upto {upto}")?;
                exceptions.iter().try_for_each(|(seq, why)| write!(f, " {seq}=FAILED({why})"))
            }
            Self::RecordDivergence { agent_id, foreign, missing, held: _ } => {
                let (foreign, missing) = (foreign.len(), missing.len());
                write!(f, "record-divergence {agent_id}: {foreign} foreign, {missing} missing")
            }
            Self::RaiseAlarm { agent_id: Some(agent_id), text } => {
                write!(f, "raise-alarm {agent_id}: {text}")
            }
            Self::RaiseAlarm { agent_id: None, text } => write!(f, "raise-alarm {text}"),
        }
    }
}

fn condition<'a>(
    f: &mut fmt::Formatter<'_>,
    key: Option<&IdempotencyKey>,
    mut versions: impl Iterator<Item = &'a u64>,
) -> fmt::Result {
    key.map_or(Ok(()), |key| write!(f, " key {key}"))?;
    versions.try_for_each(|version| write!(f, " if version {version}"))
}
