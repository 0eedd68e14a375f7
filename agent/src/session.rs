//! Keeps one stream to the leading master: finds it, registers, and looks again when the stream
//! ends, a ping is late, or the core gives it up. Decides nothing about orders. Next: `http.rs`.
//!
//! One WARN per outage, one INFO when it is over. Pauses between attempts double, with jitter:
//! from 10 ms to 1 s while there is no leader, from 50 ms to 1 min when a rule refused the agent.

use std::time::Duration;

use futures::StreamExt as _;
use rand::Rng as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};
use tracing::{debug, info, warn};

use proto::convert::agent as convert;
use proto::holdfast::agent::agent_service_client::AgentServiceClient;
use proto::holdfast::agent::{AgentEnvelope, MasterEnvelope};
use resources::message::MasterMessage;

use crate::config::{Address, Config};
use crate::core::event::Pause;
use crate::driver::{Handle, Signal, Stream, StreamId};

/// Messages to a master that may wait.
const OUTBOX_MAX: usize = 1_024;
/// Largest message, both ways.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// From the open connection to the master's answer to the registration.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_REFUSED_MIN: Duration = Duration::from_millis(50);
const PAUSE_REFUSED_MAX: Duration = Duration::from_secs(60);
/// Pings that may be late before the agent looks for another master.
const SILENT_INTERVALS: u32 = 2;
/// Hints followed in a row without a pause: more would be masters that point at each other.
const HINTS_MAX: usize = 3;

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
        let pause = seeker.next(&target, end)?;
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

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// This master does not lead; the one named does.
    NotLeading(Address),
    /// No answer, a broken stream, or a lower fence.
    Lost(String),
    /// A rule refused the agent.
    Refused(String),
    /// The secret is wrong: no master will take it.
    WrongSecret(String),
}

/// Whom to ask next, and when.
#[derive(Debug)]
struct Seeker {
    masters: Vec<Address>,
    next: usize,
    hint: Option<Address>,
    hints_followed: usize,
    failures: u32,
    refusals: u32,
    /// The outage was told to the log.
    is_told: bool,
    is_first: bool,
}

impl Seeker {
    fn new(masters: Vec<Address>) -> Self {
        let next = rand::rng().random_range(0..masters.len());
        Self {
            masters,
            next,
            hint: None,
            hints_followed: 0,
            failures: 0,
            refusals: 0,
            is_told: false,
            is_first: true,
        }
    }

    fn target(&mut self) -> Address {
        self.hint.take().unwrap_or_else(|| {
            let target = self.masters[self.next % self.masters.len()].clone();
            self.next = (self.next + 1) % self.masters.len();
            target
        })
    }

    fn registered(&mut self, target: &Address, agent_id: &str) {
        if self.is_first || self.is_told {
            info!(agent_id, master = %target, "registered");
        }
        self.is_first = false;
        self.is_told = false;
        self.hints_followed = 0;
        self.failures = 0;
        self.refusals = 0;
        // The next search begins with the others: this one has just been lost.
        if let Some(position) = self.masters.iter().position(|master| master == target) {
            self.next = (position + 1) % self.masters.len();
        }
    }

    /// How long to wait before the next attempt; the error ends the agent.
    fn next(&mut self, target: &Address, end: End) -> Result<Duration, String> {
        debug!(master = %target, ?end, "session ended");
        match end {
            End::NotLeading(leader) if self.may_follow(&leader, target) => {
                self.hints_followed += 1;
                self.hint = Some(leader);
                Ok(Duration::ZERO)
            }
            End::NotLeading(_) => Ok(self.search(target, "does not lead")),
            End::Lost(reason) => Ok(self.search(target, &reason)),
            End::Refused(reason) => {
                self.tell(target, &reason);
                self.refusals += 1;
                Ok(jitter(doubled(PAUSE_REFUSED_MIN, self.refusals - 1, PAUSE_REFUSED_MAX)))
            }
            End::WrongSecret(reason) => {
                Err(format!("master {target} refused the credential: {reason}"))
            }
        }
    }

    fn may_follow(&self, leader: &Address, target: &Address) -> bool {
        leader != target && self.hints_followed < HINTS_MAX
    }

    /// Every master is asked once before there is a pause; the pause grows with each round.
    fn search(&mut self, target: &Address, reason: &str) -> Duration {
        let round = u32::try_from(self.masters.len()).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        let was_registered = self.failures == 1 && !self.is_first;
        if was_registered || self.failures >= round {
            self.tell(target, reason);
        }
        if !self.failures.is_multiple_of(round) {
            return Duration::ZERO;
        }
        self.hints_followed = 0;
        jitter(doubled(PAUSE_MIN, self.failures / round - 1, PAUSE_MAX))
    }

    fn tell(&mut self, target: &Address, reason: &str) {
        if !self.is_told {
            self.is_told = true;
            warn!(master = %target, reason, "no session with a leading master");
        }
    }
}

fn doubled(least: Duration, times: u32, most: Duration) -> Duration {
    least.saturating_mul(2_u32.saturating_pow(times.min(16))).min(most)
}

/// Between half of it and all of it: agents that lost one master do not come back as one.
fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..=1.0))
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
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let channel = match endpoint.connect().await {
            Ok(channel) => channel,
            Err(error) => return End::Lost(deepest(&error)),
        };
        let (outbox, outbox_rx) = mpsc::channel(OUTBOX_MAX);
        let (signals, signals_rx) = mpsc::unbounded_channel();
        self.driver.opened(Stream { id: self.id, outbox, signals }).await;

        let outgoing = ReceiverStream::new(outbox_rx).map(|message| AgentEnvelope::from(&message));
        let mut request = Request::new(outgoing);
        if let Some(header) = self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        let mut client = AgentServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        match timeout(OPEN_TIMEOUT, client.session(request)).await {
            Err(_) => End::Lost("no answer to the registration".to_owned()),
            Ok(Err(status)) => ended(&status),
            Ok(Ok(response)) => {
                self.attend(response.into_inner(), signals_rx, target, seeker).await
            }
        }
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
        let mut silence_max = OPEN_TIMEOUT;
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
