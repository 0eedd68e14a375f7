//! Events of a stream as its records: in the words that the framework understands, one compact
//! record each. Pure. Must not know how they travel. Next: `calls.rs`.

use axum::body::Bytes;
use prost::Message as _;
use proto::convert::offer::{Dialect, Parts};
use proto::mesos::v1;
use proto::mesos::v1::scheduler::Event;
use proto::mesos::v1::scheduler::event::{
    Error, Failure, InverseOffers, Message, Offers, Rescind, RescindInverseOffer, Subscribed, Type,
    Update, UpdateOperationStatus,
};
use proto::{convert, json, recordio};
use resources::id::{AgentId, ExecutorId};

use super::super::negotiate::Media;
use crate::leader::scheduler::{InverseOffer, Offer, SchedulerEvent};
use crate::state::command::{FeedbackState, Notice, OperationStatus};
use crate::state::operations::OperationState;

/// Time between heartbeats, told to clients (spec §4.2).
const HEARTBEAT_SECONDS: f64 = 15.0;

/// Makes records of one stream.
pub(super) struct Encoder {
    media: Media,
    master: Option<v1::MasterInfo>,
    /// Known from the first event on; a stream that refuses its framework never needs it.
    dialect: Option<Dialect>,
}

impl Encoder {
    pub(super) const fn new(media: Media, master: Option<v1::MasterInfo>) -> Self {
        Self { media, master, dialect: None }
    }

    pub(super) const fn media(&self) -> Media {
        self.media
    }

    /// The record of an event; none for one that only says how to speak from here on.
    pub(super) fn record(&mut self, event: SchedulerEvent) -> Option<Bytes> {
        let event = self.event(event)?;
        let record = match self.media {
            Media::Json => ascii(json::encode(&event)),
            Media::Protobuf => event.encode_to_vec(),
        };
        Some(recordio::frame(&record))
    }

    fn event(&mut self, event: SchedulerEvent) -> Option<Event> {
        Some(match event {
            SchedulerEvent::Subscribed(framework_id, info) => {
                self.dialect = Some(Dialect::of(&info));
                let subscribed = Subscribed {
                    framework_id: v1::FrameworkId { value: framework_id.to_string() },
                    heartbeat_interval_seconds: Some(HEARTBEAT_SECONDS),
                    master_info: self.master.take(),
                };
                Event { subscribed: Some(subscribed), ..of(Type::Subscribed) }
            }
            SchedulerEvent::Updated(info) => {
                self.dialect = Some(Dialect::of(&info));
                return None;
            }
            SchedulerEvent::Heartbeat => of(Type::Heartbeat),
            SchedulerEvent::Offers(offers) => {
                let dialect = self.dialect?;
                let offers = offers.iter().map(|made| offer(dialect, made)).collect();
                Event { offers: Some(Offers { offers }), ..of(Type::Offers) }
            }
            SchedulerEvent::Rescind(offer_id) => {
                let offer_id = v1::OfferId { value: offer_id.to_string() };
                Event { rescind: Some(Rescind { offer_id }), ..of(Type::Rescind) }
            }
            SchedulerEvent::InverseOffers(offers) => {
                let inverse_offers = offers.iter().map(inverse_offer).collect();
                let inverse_offers = Some(InverseOffers { inverse_offers });
                Event { inverse_offers, ..of(Type::InverseOffers) }
            }
            SchedulerEvent::RescindInverse(offer_id) => {
                let inverse_offer_id = v1::OfferId { value: offer_id.to_string() };
                let rescind_inverse_offer = Some(RescindInverseOffer { inverse_offer_id });
                Event { rescind_inverse_offer, ..of(Type::RescindInverseOffer) }
            }
            SchedulerEvent::Notice(notice) => self.notice(*notice),
            SchedulerEvent::Message { agent_id, executor, data } => {
                let message = Message {
                    agent_id: agent(&agent_id),
                    executor_id: executor_id(&executor.executor_id),
                    data: Bytes::copy_from_slice(data.as_bytes()),
                };
                Event { message: Some(message), ..of(Type::Message) }
            }
        })
    }

    fn notice(&self, notice: Notice) -> Event {
        match notice {
            Notice::Task(status) => {
                let update = Update { status: convert::status::to_wire(&status) };
                Event { update: Some(update), ..of(Type::Update) }
            }
            Notice::Operation(status) => {
                let update = UpdateOperationStatus { status: self.operation(&status) };
                Event { update_operation_status: Some(update), ..of(Type::UpdateOperationStatus) }
            }
            Notice::ExecutorExited { agent_id, exit } => failure(Failure {
                agent_id: Some(agent(&agent_id)),
                executor_id: Some(executor_id(&exit.executor.executor_id)),
                status: Some(exit.status),
            }),
            Notice::AgentLost(agent_id) => {
                failure(Failure { agent_id: Some(agent(&agent_id)), ..Failure::default() })
            }
            Notice::Error(message) => Event { error: Some(Error { message }), ..of(Type::Error) },
        }
    }

    fn operation(&self, status: &OperationStatus) -> v1::OperationStatus {
        let converted = self.dialect.map(|dialect| dialect.resources(&status.converted));
        v1::OperationStatus {
            operation_id: Some(v1::OperationId { value: status.own_id.to_string() }),
            state: feedback(status.state).into(),
            message: status.message.clone(),
            converted_resources: converted.unwrap_or_default(),
            uuid: status.uuid.map(|uuid| v1::Uuid { value: uuid.0.to_vec().into() }),
            agent_id: status.agent_id.as_ref().map(agent),
            resource_provider_id: None,
        }
    }
}

fn of(kind: Type) -> Event {
    Event { r#type: Some(kind.into()), ..Event::default() }
}

fn failure(failure: Failure) -> Event {
    Event { failure: Some(failure), ..of(Type::Failure) }
}

fn agent(id: &AgentId) -> v1::AgentId {
    v1::AgentId { value: id.to_string() }
}

fn executor_id(id: &ExecutorId) -> v1::ExecutorId {
    v1::ExecutorId { value: id.to_string() }
}

fn offer(dialect: Dialect, offer: &Offer) -> v1::Offer {
    let unavailability = offer.unavailability.as_ref();
    let made = dialect.offer(&Parts {
        offer_id: &offer.offer_id,
        framework_id: &offer.framework_id,
        role: &offer.role,
        agent_id: &offer.agent_id,
        agent: &offer.agent,
        resources: offer.resources.iter().collect(),
        executor_ids: &offer.executor_ids,
    });
    v1::Offer {
        unavailability: unavailability.map(convert::maintenance::unavailability_to_wire),
        ..made
    }
}

fn inverse_offer(offer: &InverseOffer) -> v1::InverseOffer {
    v1::InverseOffer {
        id: v1::OfferId { value: offer.offer_id.to_string() },
        url: Some(convert::offer::url(&offer.agent)),
        framework_id: v1::FrameworkId { value: offer.framework_id.to_string() },
        agent_id: Some(agent(&offer.agent_id)),
        unavailability: convert::maintenance::unavailability_to_wire(&offer.unavailability),
        resources: Vec::new(),
    }
}

const fn feedback(state: FeedbackState) -> v1::OperationState {
    match state {
        FeedbackState::Recorded(OperationState::Pending) => v1::OperationState::OperationPending,
        FeedbackState::Recorded(OperationState::Finished) => v1::OperationState::OperationFinished,
        FeedbackState::Recorded(OperationState::Failed) => v1::OperationState::OperationFailed,
        FeedbackState::Error => v1::OperationState::OperationError,
        FeedbackState::Dropped => v1::OperationState::OperationDropped,
        FeedbackState::Unreachable => v1::OperationState::OperationUnreachable,
        FeedbackState::GoneByOperator | FeedbackState::Recorded(OperationState::GoneByOperator) => {
            v1::OperationState::OperationGoneByOperator
        }
        FeedbackState::Unknown => v1::OperationState::OperationUnknown,
    }
}

/// The same JSON in seven bits: clients exist that compare a record's characters with its
/// length in bytes. Only texts hold anything else.
fn ascii(json: Vec<u8>) -> Vec<u8> {
    if json.is_ascii() {
        return json;
    }
    let text = String::from_utf8_lossy(&json);
    let mut plain = String::with_capacity(text.len() * 2);
    let mut units = [0; 2];
    for letter in text.chars() {
        if letter.is_ascii() {
            plain.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut units) {
            plain.push_str(&format!("\\u{unit:04x}"));
        }
    }
    plain.into_bytes()
}

#[cfg(test)]
mod tests;
