//! A swarm of emulated agents: starts them, and knows which are registered and when they were.
//! Next: `load.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agent::Told;
use chaos::wait;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::flags;

/// What each agent has: room for any number of reservations and tasks of a bench.
const RESOURCES: &str = "cpus:64;mem:65536;disk:1048576;ports:[31000-32000]";

/// How long all of them may take to register.
const DEADLINE: Duration = Duration::from_secs(600);

/// One agent, as seen from outside.
#[derive(Debug, Default)]
struct Seen {
    /// How often it was registered.
    registrations: AtomicU32,
    /// When it was last, in microseconds since the swarm began.
    at_us: AtomicU64,
}

/// All emulated agents.
pub(super) struct Swarm {
    seen: Arc<Vec<Seen>>,
    begun: Instant,
    stop: watch::Sender<bool>,
    agents: JoinSet<Result<(), String>>,
}

impl Swarm {
    /// Starts `count` agents at once.
    pub(super) fn start(count: usize, masters: &[String]) -> Result<Self, Failure> {
        let seen: Arc<Vec<Seen>> = Arc::new((0..count).map(|_| Seen::default()).collect());
        let begun = Instant::now();
        let stop = watch::Sender::new(false);
        let mut agents = JoinSet::new();
        for number in 0..count {
            let config = config(number, masters)?;
            let seen = Arc::clone(&seen);
            let tell = move |told| match told {
                Told::Registered => {
                    let at = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    seen[number].at_us.store(at, Ordering::Relaxed);
                    seen[number].registrations.fetch_add(1, Ordering::Release);
                }
                Told::Lost => {}
            };
            agents.spawn(agent::emulate(Arc::new(config), tell, stop.subscribe()));
        }
        Ok(Self { seen, begun, stop, agents })
    }

    /// How often each agent was registered so far.
    pub(super) fn registrations(&self) -> Vec<u32> {
        self.seen.iter().map(|seen| seen.registrations.load(Ordering::Acquire)).collect()
    }

    /// Waits until every agent was registered once more than in `before`; gives the times from
    /// `since`, in order.
    pub(super) async fn registered(
        &mut self,
        before: &[u32],
        since: Instant,
    ) -> Result<Vec<Duration>, String> {
        let waited = wait::until("all agents are registered", DEADLINE, async || {
            if let Some(ended) = self.agents.try_join_next() {
                return Ok(Err(format!("an agent ended: {ended:?}")));
            }
            let now = self.registrations();
            let missing = now.iter().zip(before).filter(|(now, before)| now <= before).count();
            if missing == 0 { Ok(Ok(())) } else { Err(format!("{missing} are not")) }
        })
        .await;
        waited.map_err(|error| format!("{error:#}"))??;
        let at =
            |seen: &Seen| self.begun + Duration::from_micros(seen.at_us.load(Ordering::Relaxed));
        let mut times: Vec<Duration> =
            self.seen.iter().map(|seen| at(seen).saturating_duration_since(since)).collect();
        times.sort_unstable();
        Ok(times)
    }

    /// Ends all agents.
    pub(super) async fn end(mut self) {
        self.stop.send_replace(true);
        while self.agents.join_next().await.is_some() {}
    }
}

/// The settings of one agent, by the flags of a real one. Each has an address of its own, where
/// nobody listens.
fn config(number: usize, masters: &[String]) -> Result<agent::Config, Failure> {
    let (high, low) = (number / 250, number % 250 + 1);
    let address = format!("10.{}.{}.{low}:5051", high / 250, high % 250);
    let argv = [
        format!("--master={}", masters.join(",")),
        "--listen=127.0.0.1:0".to_owned(),
        format!("--advertise={address}"),
        format!("--hostname=emulated-{number}"),
        "--work-dir=none".to_owned(),
        format!("--resources={RESOURCES}"),
    ];
    let (flags, _) = flags::parse::<agent::Flags>("bench agents", "", &argv)?;
    flags.into_config().map_err(|error| Failure::Usage(format!("bench agents: {error}")))
}
