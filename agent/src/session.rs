//! Keeps one stream to the leading master: finds it, registers, and looks again when the stream
//! ends, a ping is late, or the core gives it up. Decides nothing about orders. Next: `http.rs`.
//!
//! One WARN per outage, one INFO when it is over. Whom to ask and when is in
//! `session/seeker.rs`. The core hears of a stream only once a leading master has opened it, so
//! that a search costs the agent no registration.

mod seeker;

use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};

use proto::convert::agent as convert;
use proto::holdfast::agent::agent_service_client::AgentServiceClient;
use proto::holdfast::agent::{AgentEnvelope, MasterEnvelope};
use resources::message::MasterMessage;

use self::seeker::{End, Seeker};
use crate::config::{Address, Config};
use crate::core::event::Pause;
use crate::driver::{Handle, Signal, Stream, StreamId};

/// Messages to a master that may wait.
const OUTBOX_MAX: usize = 1_024;
/// Largest message, both ways.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// From the open stream to the master's answer to the registration.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pings that may be late before the agent looks for another master.
const SILENT_INTERVALS: u32 = 2;
/// Ends only when the agent must exit, with the reason, or when `stop` turns true.
pub(crate) async fn run(
    config: &Config,
    driver: Handle,
    mut stop: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut seeker = Seeker::new(config.masters.clone());
    let header = authorization(config);
    let mut streams = 0;
    loop {
        streams += 1;
        let target = seeker.target();
        let attempt = Attempt { driver: &driver, header: header.as_ref(), id: StreamId(streams) };
        let end = tokio::select! {
            end = attempt.run(&target, &mut seeker) => end,
            () = stopped(&mut stop) => {
                driver.closed(StreamId(streams)).await;
                return Ok(());
            }
        };
        driver.closed(StreamId(streams)).await;
        let pause = seeker.next(&target, end, Instant::now())?;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stopped(&mut stop) => return Ok(()),
        }
    }
}

/// Returns when the agent stops, also when nobody is left to say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is the end too.
    let _gone = stop.wait_for(|is_stopped| *is_stopped).await;
}

fn authorization(config: &Config) -> Option<MetadataValue<Ascii>> {
    let header = config.credential.as_ref()?.header();
    let mut value = MetadataValue::try_from(header).expect("base64 is ASCII");
    value.set_sensitive(true);
    Some(value)
}

/// One connection to one master.
struct Attempt<'a> {
    driver: &'a Handle,
    header: Option<&'a MetadataValue<Ascii>>,
    id: StreamId,
}

impl Attempt<'_> {
    async fn run(&self, target: &Address, seeker: &mut Seeker) -> End {
        let endpoint = match Endpoint::from_shared(format!("http://{target}")) {
            Ok(endpoint) => endpoint,
            Err(error) => return End::Lost(error.to_string()),
        };
        let patience = seeker.patience();
        let endpoint = endpoint
            .connect_timeout(patience.connect)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        // The library's own limit holds for the socket alone, not for the name lookup before it.
        let channel = match timeout(patience.connect * 2, endpoint.connect()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => return End::Unreachable(deepest(&error)),
            Err(_) => return End::Unreachable("no connection in time".to_owned()),
        };
        let (outbox, outbox_rx) = mpsc::channel(OUTBOX_MAX);
        let outgoing = ReceiverStream::new(outbox_rx).map(|message| AgentEnvelope::from(&message));
        let mut request = Request::new(outgoing);
        if let Some(header) = self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        let mut client = AgentServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let incoming = match timeout(patience.answer, client.session(request)).await {
            Err(_) => return End::Lost("no answer".to_owned()),
            Ok(Err(status)) => return ended(&status),
            Ok(Ok(response)) => response.into_inner(),
        };
        let (signals, signals_rx) = mpsc::unbounded_channel();
        self.driver.opened(Stream { id: self.id, outbox, signals }).await;
        self.attend(incoming, signals_rx, target, seeker).await
    }

    /// Passes messages on until the stream is lost. Every arm is cancel-safe: the stream and the
    /// channel lose nothing when another arm is first.
    async fn attend(
        &self,
        mut incoming: Streaming<MasterEnvelope>,
        mut signals: mpsc::UnboundedReceiver<Signal>,
        target: &Address,
        seeker: &mut Seeker,
    ) -> End {
        let mut silence_max = WELCOME_TIMEOUT;
        let mut deadline = Instant::now() + silence_max;
        loop {
            tokio::select! {
                biased;
                signal = signals.recv() => match signal {
                    Some(Signal::Registered { agent_id, ping_interval }) => {
                        silence_max = ping_interval.saturating_mul(SILENT_INTERVALS);
                        deadline = Instant::now() + silence_max;
                        seeker.registered(target, agent_id.as_str());
                    }
                    Some(Signal::Close { reason, pause: Pause::Short }) => {
                        return End::Lost(reason);
                    }
                    Some(Signal::Close { reason, pause: Pause::Long }) => {
                        return End::Refused(reason);
                    }
                    Some(Signal::Close { reason, pause: Pause::Told(wait) }) => {
                        return End::TurnedAway(reason, wait);
                    }
                    None => return End::Lost("another session took its place".to_owned()),
                },
                envelope = incoming.next() => {
                    let envelope = match envelope {
                        Some(Ok(envelope)) => envelope,
                        Some(Err(status)) => return ended(&status),
                        None => return End::Lost("the master ended the session".to_owned()),
                    };
                    match convert::master_from_wire(envelope) {
                        Ok((fence, message)) => {
                            if matches!(message, MasterMessage::Ping) {
                                deadline = Instant::now() + silence_max;
                            }
                            self.driver.received(self.id, fence, message).await;
                        }
                        Err(error) => return End::Lost(error.to_string()),
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return End::Lost(format!("no ping for {silence_max:?}"));
                }
            }
        }
    }
}

/// What a gRPC status says about the master.
fn ended(status: &Status) -> End {
    match status.code() {
        Code::Unauthenticated => End::WrongSecret(status.message().to_owned()),
        Code::PermissionDenied | Code::FailedPrecondition | Code::InvalidArgument => {
            End::Refused(status.message().to_owned())
        }
        Code::Unavailable => {
            let leader = status.metadata().get("holdfast-leader");
            let leader = leader.and_then(|value| value.to_str().ok()?.parse().ok());
            match leader {
                Some(leader) => End::NotLeading(leader),
                None => End::Lost(status.message().to_owned()),
            }
        }
        _ => End::Lost(format!("{:?}: {}", status.code(), status.message())),
    }
}

/// The cause that an operator can act on, such as "connection refused".
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests;
