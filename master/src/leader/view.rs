//! What readers are given: who leads, which master answers, and the state as of one entry.
//! Next: `handle.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use resources::id::{AgentId, LogIndex, MasterId, Term};
use resources::time::Timestamp;
use thiserror::Error;

use super::event::{SessionView, SessionViews};
use crate::state::{Announcement, Frozen};

/// Who leads, as this master's edges may act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// This master, with everything before its term applied.
    Leading {
        /// Its term.
        term: Term,
    },
    /// Another master, heard of within the longest election timeout.
    Following {
        /// Which.
        master_id: MasterId,
        /// Its public address.
        advertise: String,
    },
    /// Nobody that is known.
    Unknown,
}

/// Which master this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MasterIdentity {
    /// Its number.
    pub id: MasterId,
    /// Its public address.
    pub advertise: String,
    /// Wall time of its start, for display.
    pub started_at: Timestamp,
}

/// How fresh a read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Shows every call that was answered before the read began.
    Linearizable,
    /// Whatever this master has applied.
    Stale,
}

/// A read that cannot be linearizable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadFailure {
    /// Another master leads.
    #[error("this master does not lead")]
    NotLeader,
    /// No leader, or no quorum.
    #[error("no leader elected")]
    NoLeader,
}

/// What a read sees.
#[derive(Debug, Clone)]
pub struct View {
    /// The state as of `applied`.
    pub state: Arc<Frozen>,
    /// The last entry in it.
    pub applied: LogIndex,
    /// Cluster time of the read; that of the last entry where another master leads.
    pub now: Timestamp,
    /// The newest term that this master knows.
    pub term: Term,
    /// Agents connected to this master; empty unless it leads.
    pub sessions: Arc<BTreeMap<AgentId, SessionView>>,
    /// Agents that came back under this leader, connected or not.
    pub returned: Arc<BTreeSet<AgentId>>,
    /// Which master answers.
    pub identity: MasterIdentity,
    /// Wall time of the last election, for display.
    pub elected_at: Option<Timestamp>,
    /// Who leads.
    pub leadership: Leadership,
}

impl View {
    /// Whether the agent has a live session with this master.
    #[must_use]
    pub fn is_connected(&self, agent_id: &AgentId) -> bool {
        self.sessions.contains_key(agent_id)
    }
    /// Whether the agent has come back under this leader.
    #[must_use]
    pub fn has_returned(&self, agent_id: &AgentId) -> bool {
        self.returned.contains(agent_id)
    }
    /// The last announced leader.
    #[must_use]
    pub fn leader(&self) -> Option<&Announcement> {
        self.state.leader()
    }
}

/// The core's session views, shared with every reader.
#[derive(Debug, Clone, Default)]
pub(super) struct PublishedSessions {
    pub(super) live: Arc<BTreeMap<AgentId, SessionView>>,
    pub(super) returned: Arc<BTreeSet<AgentId>>,
}

impl From<SessionViews> for PublishedSessions {
    fn from(views: SessionViews) -> Self {
        Self { live: Arc::new(views.live), returned: Arc::new(views.returned) }
    }
}
