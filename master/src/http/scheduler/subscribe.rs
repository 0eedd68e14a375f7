//! SUBSCRIBE: a stream of records, each in one chunk of its own, that ends cleanly. A client that
//! goes away lets the stream's queue go, and so the leader learns of it. Must not know what the
//! events mean. Next: `encode.rs`.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use proto::convert;
use proto::mesos::v1::scheduler::Call;
use rand::Rng as _;
use resources::id::{FrameworkId, StreamId};
use tokio::sync::mpsc;

use super::super::error::Failure;
use super::super::incoming::Incoming;
use super::super::negotiate::Media;
use super::super::{App, answers};
use super::encode::Encoder;
use super::framework::{self, Described, Fill};
use super::{STREAM_ID, refused};
use crate::leader::Consistency;
use crate::leader::scheduler::{SchedulerEvent, Subscribing};
use crate::state::command::Notice;

/// Opens the stream.
pub(super) async fn open(
    app: &App,
    incoming: &Incoming,
    call: Call,
    media: Media,
) -> Result<Response, Failure> {
    if incoming.headers().contains_key(STREAM_ID) {
        return Err(Failure::bad_request(
            "Subscribe calls should not include the 'Mesos-Stream-Id' header",
        ));
    }
    let stream_id = fresh_stream_id();
    let source = match subscribing(app, incoming, call, stream_id.clone()) {
        Ok(subscribing) => {
            let opened = app.handle.subscribe(subscribing).await;
            Source::Leader(opened.map_err(|refusal| refused(app, incoming, refusal))?)
        }
        Err(reason) => Source::Refused(Some(Box::new(Notice::Error(reason)))),
    };
    // The id of the leader is that of the cluster's record, which cannot change under a stream.
    let view = app.view(incoming, Consistency::Stale).await?;
    let master = answers::master(&view, &app.config).get_master.and_then(|get| get.master_info);
    Ok(respond(source, &stream_id, Encoder::new(media, master)))
}

/// What the leader is asked, or why the framework is not admitted, which its stream says.
fn subscribing(
    app: &App,
    incoming: &Incoming,
    call: Call,
    stream_id: StreamId,
) -> Result<Subscribing, String> {
    let subscribe = call.subscribe.ok_or("Expecting 'subscribe' to be present")?;
    let framework_id: Option<FrameworkId> =
        convert::framework::id_from_wire(&subscribe.framework_info)
            .map_err(|error| error.to_string())?;
    let described = Described {
        info: subscribe.framework_info,
        suppressed_roles: subscribe.suppressed_roles,
        offer_constraints: subscribe.offer_constraints,
    };
    let principal = incoming.principal.as_ref();
    let subscription = framework::subscription(app, described, &Fill::Principal(principal))?;
    framework::permitted(app, &subscription).map_err(|forbidden| forbidden.to_string())?;
    Ok(Subscribing {
        framework_id,
        subscription,
        principal: principal.cloned(),
        source: incoming.source(),
        stream_id,
    })
}

/// Where the events of a stream come from.
enum Source {
    Leader(mpsc::Receiver<SchedulerEvent>),
    /// A framework that is not admitted hears one error, once.
    Refused(Option<Box<Notice>>),
}

impl Source {
    async fn next(&mut self) -> Option<SchedulerEvent> {
        match self {
            Self::Leader(events) => events.recv().await,
            Self::Refused(error) => error.take().map(SchedulerEvent::Notice),
        }
    }
}

fn respond(source: Source, stream_id: &StreamId, encoder: Encoder) -> Response {
    let media = encoder.media();
    let records = stream::unfold((source, encoder), |(mut source, mut encoder)| async move {
        loop {
            let event = source.next().await?;
            // What is nothing for the wire is a word to the encoder.
            if let Some(record) = encoder.record(event) {
                return Some((Ok::<Bytes, Infallible>(record), (source, encoder)));
            }
        }
    });
    let mut response = Response::new(Body::from_stream(records));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media.header());
    if let Ok(value) = HeaderValue::from_str(stream_id.as_str()) {
        headers.insert(STREAM_ID, value);
    }
    response
}

/// A random UUID (version 4) in its text form.
fn fresh_stream_id() -> StreamId {
    let mut bytes: [u8; 16] = rand::rng().random();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    StreamId::parse(parts.join("-")).expect("digits and dashes make an id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_ids_are_uuids() {
        let (one, two) = (fresh_stream_id(), fresh_stream_id());
        assert_ne!(one, two);
        let text = one.as_str();
        assert_eq!(text.len(), 36);
        assert_eq!(&text[14..15], "4");
        assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
    }
}
