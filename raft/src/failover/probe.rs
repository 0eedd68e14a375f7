//! Is that process dead? Asked at its own address: nobody listens, or another incarnation
//! answers, and it is. Everything that is not proof is no verdict. Must not know consensus.
//! Next: `election.rs`.
//!
//! The address must be the process's own: behind a proxy or a virtual address "refused" proves
//! nothing about the process. And it must lie outside the system's range for outgoing ports,
//! where a probe could reach itself.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proto::holdfast::raft as wire;
use tokio::time::Instant;
use tonic::Code;

use crate::env::Network;
use crate::network::{Handshake, greet};

/// Time for a whole probe. A process that needs longer to answer is stopped or starved, which
/// is for the election timeout to judge.
const PATIENCE: Duration = Duration::from_millis(200);
/// Pause before another look at a process whose sockets are just being closed, one by one.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Shortest time between two probes of one node.
const PAUSE: Duration = Duration::from_millis(5);

/// What a probe found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nobody listens at its address, or a later incarnation does.
    Dead,
    /// The same incarnation answered.
    Alive,
    /// Neither is proved.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dead => "dead",
            Self::Alive => "alive",
            Self::Unknown => "neither dead nor alive",
        })
    }
}

/// The process in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) node: u64,
    /// Its incarnation; without one, any incarnation that answers is alive.
    pub(crate) boot: Option<u64>,
    pub(crate) address: String,
}

/// Asks, at a bounded rate: callers that come while a node is probed wait for the next probe of
/// it, and all of them share that one.
pub(crate) struct Prober {
    network: Arc<dyn Network>,
    handshake: Arc<Handshake>,
    probed: Mutex<BTreeMap<u64, Arc<tokio::sync::Mutex<Option<Probed>>>>>,
}

struct Probed {
    began: Instant,
    suspect: Suspect,
    verdict: Verdict,
}

impl Prober {
    pub(crate) fn new(network: Arc<dyn Network>, handshake: Arc<Handshake>) -> Self {
        Self { network, handshake, probed: Mutex::default() }
    }

    /// The verdict of a probe that began after this call.
    pub(crate) async fn probe(&self, suspect: &Suspect) -> Verdict {
        let asked = Instant::now();
        let turn = self.probed.lock().entry(suspect.node).or_default().clone();
        let mut last = turn.lock().await;
        if let Some(last) = last.as_ref() {
            if last.began > asked && last.suspect == *suspect {
                return last.verdict;
            }
            tokio::time::sleep_until(last.began + PAUSE).await;
        }
        let began = Instant::now();
        let verdict =
            tokio::time::timeout(PATIENCE, self.look(suspect)).await.unwrap_or(Verdict::Unknown);
        *last = Some(Probed { began, suspect: suspect.clone(), verdict });
        verdict
    }

    async fn look(&self, suspect: &Suspect) -> Verdict {
        loop {
            match self.network.knock(suspect.address.clone()).await {
                Ok(socket) => {
                    match greet(&self.handshake, socket, suspect.node, &suspect.address).await {
                        Ok(found) => return verdict(suspect, &found),
                        // It answered, and says that it is not who was looked for.
                        Err(status) if status.code() == Code::FailedPrecondition => {
                            return Verdict::Unknown;
                        }
                        Err(status) => tracing::debug!(%status, "a probe got no answer"),
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionRefused => return Verdict::Dead,
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::Interrupted => {}
                    _ => {
                        tracing::debug!(%error, "a probe proved nothing");
                        return Verdict::Unknown;
                    }
                },
            }
            // The listener of a dying process takes connections until its turn to be closed
            // comes; then they are reset.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn verdict(suspect: &Suspect, found: &wire::Hello) -> Verdict {
    if found.node != suspect.node {
        return Verdict::Unknown;
    }
    match suspect.boot {
        Some(boot) if boot != found.boot => Verdict::Dead,
        Some(_) | None => Verdict::Alive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_needs_the_same_node() {
        let suspect = |boot| Suspect { node: 1, boot, address: "a:1".to_owned() };
        let found = |node, boot| wire::Hello { node, boot, ..wire::Hello::default() };
        assert_eq!(verdict(&suspect(Some(7)), &found(1, 7)), Verdict::Alive);
        assert_eq!(verdict(&suspect(Some(7)), &found(1, 8)), Verdict::Dead);
        assert_eq!(verdict(&suspect(Some(7)), &found(2, 8)), Verdict::Unknown);
        assert_eq!(verdict(&suspect(None), &found(1, 8)), Verdict::Alive);
    }
}
