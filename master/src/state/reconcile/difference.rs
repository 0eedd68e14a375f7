//! How an agent's disk differs from the log, object by object: what of it is on record, and how
//! that is found when the agent tells its total. Next: `choices.rs`.

use std::fmt;

use resources::collection::Resources;
use resources::id::{AgentId, Seq};
use resources::resource::Resource;
use serde::{Deserialize, Serialize};

use super::super::agents::{Agent, AgentStatus};
use super::super::command::{Effect, Response};
use super::super::rejection::{Rejection, list};
use super::super::{Moment, State, limits};

/// What an agent held at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its last order by then.
    pub applied_seq: Seq,
    /// `Resources::digest` of its total.
    pub digest: u128,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x} at order {}", self.digest, self.applied_seq)
    }
}

/// How what an agent told differs from what it had confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it told.
    pub held: Held,
    /// What it holds and the log does not know; the first ones of many.
    pub foreign: Vec<Resource>,
    /// What the log knows and it does not hold; the first ones of many.
    pub missing: Vec<Resource>,
}

impl AgentStatus {
    /// What differs, once the agent has told its total.
    #[must_use]
    pub fn difference(&self) -> Option<Difference> {
        match self {
            Self::Registered => None,
            Self::Regressed { foreign, missing, held, .. }
            | Self::Diverged { foreign, missing, held } => {
                let (foreign, missing) = (foreign.clone(), missing.clone());
                held.map(|held| Difference { held, foreign, missing })
            }
        }
    }

    /// The same kind with other lists.
    pub(super) fn with(&self, difference: Option<Difference>) -> Self {
        let (held, foreign, missing) = match difference {
            None => (None, Vec::new(), Vec::new()),
            Some(Difference { held, foreign, missing }) => (Some(held), foreign, missing),
        };
        match self {
            Self::Registered => Self::Registered,
            Self::Regressed { applied_seq, .. } => {
                Self::Regressed { applied_seq: *applied_seq, foreign, missing, held }
            }
            Self::Diverged { .. } => Self::Diverged { foreign, missing, held },
        }
    }

    /// Of an agent whose disk was restored to this order.
    pub(super) const fn regressed(applied_seq: Seq) -> Self {
        Self::Regressed { applied_seq, foreign: Vec::new(), missing: Vec::new(), held: None }
    }

    /// Of an agent that holds something else, which is not known yet.
    pub(in crate::state) const fn diverged() -> Self {
        Self::Diverged { foreign: Vec::new(), missing: Vec::new(), held: None }
    }
}

impl State {
    /// What an agent holds at `applied_seq` beyond and short of the log, object by object, as
    /// far as it fits a record. None when nothing waits for it, or all of it is on record.
    #[must_use]
    pub fn divergence(
        &self,
        agent_id: &AgentId,
        applied_seq: Seq,
        held: &[Resource],
    ) -> Option<Difference> {
        let agent = self.agent(agent_id)?;
        let is_awaited = match &agent.status {
            AgentStatus::Registered => false,
            AgentStatus::Regressed { applied_seq: stands, .. } => *stands == applied_seq,
            AgentStatus::Diverged { .. } => true,
        };
        let told: Resources = held.iter().cloned().collect();
        let held = Held { applied_seq, digest: told.digest() };
        let confirmed = agent.confirmed();
        let (foreign, missing) = (without(&told, &confirmed), without(&confirmed, &told));
        let difference = Difference { held, foreign, missing };
        let is_news = agent.status.difference().as_ref() != Some(&difference);
        (is_awaited && is_news).then_some(difference)
    }

    pub(in crate::state) fn record_divergence(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        (foreign, missing, held): (&[Resource], &[Resource], Option<Held>),
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let agent = self
            .agent_mut(agent_id)
            .ok_or_else(|| Rejection::UnknownAgent { agent_id: agent_id.clone() })?;
        let status = match &agent.status {
            AgentStatus::Registered => return Ok((Response::Done, Vec::new())),
            AgentStatus::Regressed { applied_seq, .. } => {
                let Some(held) = held.filter(|held| held.applied_seq == *applied_seq) else {
                    return Ok((Response::Done, Vec::new()));
                };
                let (foreign, missing) = (foreign.to_vec(), missing.to_vec());
                agent.status.with(Some(Difference { held, foreign, missing }))
            }
            AgentStatus::Diverged { .. } => {
                let (foreign, missing) = (foreign.to_vec(), missing.to_vec());
                AgentStatus::Diverged { foreign, missing, held }
            }
        };
        if agent.status == status {
            return Ok((Response::Done, Vec::new()));
        }
        agent.status = status;
        let (foreign, missing) = (list(foreign), list(missing));
        let text = format!("{agent_id}: foreign {foreign}, missing {missing}");
        Ok((Response::Done, self.raise_alarm(now.index, text)))
    }
}

impl Agent {
    /// From where it counts its orders after a choice, and the digest of what was accepted, as
    /// long as it may not know.
    #[must_use]
    pub fn adoption(&self) -> Option<(Seq, u128)> {
        self.adopts.map(|held| (self.confirmed_seq, held.digest))
    }
}

/// What `these` holds beyond `those`, each share for itself.
fn without(these: &Resources, those: &Resources) -> Vec<Resource> {
    let mut rest = these.clone();
    rest.subtract_all(those);
    rest.iter_with_shares().take(limits::DIVERGING_OBJECTS_MAX).cloned().collect()
}
