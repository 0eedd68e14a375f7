//! Whether an agent is there: away after a silence, unreachable when that lasts, unregistered
//! when it said goodbye. Whatever it holds stays on record through all of it; only its tasks
//! follow. Times are the leader's matter, which proposes; here is what it comes to. Next:
//! `presence/tasks.rs`, `activation.rs`.

mod tasks;

use std::fmt;

use resources::id::AgentId;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::command::{Change, Effect, FeedbackState, Notice, Response};
use super::rejection::Rejection;
use super::tasks::once_per_agent;
use super::{Moment, State};

pub(super) use self::tasks::GONE;

/// Whether an agent is there, as far as the log knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Presence {
    /// It is, or its silence is short.
    #[default]
    Here,
    /// It has been silent for some time, and is unreachable when the time of that ends.
    Away(Away),
    /// Nobody waits for it: what it holds counts no more until it comes back.
    Unreachable {
        /// Wall time, for display.
        since: Timestamp,
    },
    /// It ended its tasks and left. What it holds waits for it.
    Unregistered {
        /// Wall time, for display.
        at: Timestamp,
    },
}

/// An agent's absence: a timer that names another one is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Away {
    /// Of its absences, which one.
    pub epoch: u64,
    /// Cluster time at which the log heard of it.
    pub since: Timestamp,
    /// Cluster time at which it is unreachable.
    pub deadline: Timestamp,
}

impl Presence {
    /// Whether the log knows of no silence.
    #[must_use]
    pub const fn is_here(&self) -> bool {
        match self {
            Self::Here => true,
            Self::Away(_) | Self::Unreachable { .. } | Self::Unregistered { .. } => false,
        }
    }
    /// Whether what it holds is part of the cluster: operations are accepted on it.
    #[must_use]
    pub const fn is_counted(&self) -> bool {
        match self {
            Self::Here | Self::Away(_) => true,
            Self::Unreachable { .. } | Self::Unregistered { .. } => false,
        }
    }
    /// Its running absence.
    #[must_use]
    pub const fn away(&self) -> Option<Away> {
        match self {
            Self::Away(away) => Some(*away),
            Self::Here | Self::Unreachable { .. } | Self::Unregistered { .. } => None,
        }
    }
    /// Since when it is unreachable, in wall time.
    #[must_use]
    pub const fn unreachable_since(&self) -> Option<Timestamp> {
        match self {
            Self::Unreachable { since } => Some(*since),
            Self::Here | Self::Away(_) | Self::Unregistered { .. } => None,
        }
    }
}

impl fmt::Display for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("HERE"),
            Self::Away(Away { epoch, since: _, deadline }) => {
                write!(f, "AWAY@{epoch} until {deadline}")
            }
            Self::Unreachable { since } => write!(f, "UNREACHABLE since {since}"),
            Self::Unregistered { at } => write!(f, "UNREGISTERED at {at}"),
        }
    }
}

impl Agent {
    /// Whether what it holds is part of the cluster: it is neither unreachable nor unregistered.
    #[must_use]
    pub const fn is_counted(&self) -> bool {
        self.presence.is_counted()
    }
}

impl State {
    /// The leader has not heard of these agents for some time.
    pub(super) fn depart(
        &mut self,
        now: Moment,
        agents: &[(AgentId, Timestamp)],
    ) -> (Response, Vec<Effect>) {
        let mut effects = Vec::new();
        for (agent_id, deadline) in agents {
            let Some(agent) = self.agents.get(agent_id) else { continue };
            if !agent.presence.is_here() {
                continue;
            }
            let agent = self.agent_mut(agent_id).expect("looked up above");
            agent.absences += 1;
            let (epoch, since, deadline) = (agent.absences, now.clock, *deadline);
            agent.presence = Presence::Away(Away { epoch, since, deadline });
            effects.push(Effect::Change(Change::AgentAway(agent_id.clone())));
        }
        (Response::Done, effects)
    }

    /// An agent is there although this absence of it is on record.
    pub(super) fn come_back(&mut self, agent_id: &AgentId, epoch: u64) -> (Response, Vec<Effect>) {
        let away = self.agent(agent_id).and_then(|agent| agent.presence.away());
        if away.is_none_or(|away| away.epoch != epoch) {
            return (Response::Done, Vec::new());
        }
        let agent = self.agent_mut(agent_id).expect("looked up above");
        agent.presence = Presence::Here;
        (Response::Done, vec![Effect::Change(Change::AgentReturned(agent_id.clone()))])
    }

    /// An absence has lasted too long, if it is still the one that is meant.
    pub(super) fn mark_unreachable(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        witness: Away,
    ) -> (Response, Vec<Effect>) {
        let is_meant =
            self.agent(agent_id).is_some_and(|agent| agent.presence == Presence::Away(witness));
        if !is_meant {
            return (Response::Done, Vec::new());
        }
        let agent = self.agent_mut(agent_id).expect("looked up above");
        agent.presence = Presence::Unreachable { since: now.wall };
        let mut effects = vec![Effect::Change(Change::AgentUnreachable(agent_id.clone()))];
        effects.extend(self.lose_touch(now, agent_id));
        effects.extend(self.operations_unreachable(agent_id));
        effects.extend(self.agent_lost(agent_id));
        effects.push(Effect::CapacityChanged(agent_id.clone()));
        (Response::Done, once_per_agent(effects))
    }

    /// An agent has ended its tasks and goes: it is to be waited for no longer.
    pub(super) fn unregister(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let presence = self.known_agent(agent_id)?.presence;
        if matches!(presence, Presence::Unregistered { .. }) {
            return Ok((Response::Done, Vec::new()));
        }
        let agent = self.agent_mut(agent_id).expect("looked up above");
        agent.presence = Presence::Unregistered { at: now.wall };
        let mut effects = vec![Effect::Change(Change::AgentUnregistered(agent_id.clone()))];
        effects.extend(self.end_all_tasks(now, agent_id, &tasks::UNREGISTERED));
        effects.extend(self.operations_unreachable(agent_id));
        effects.extend(self.agent_lost(agent_id));
        effects.push(Effect::CapacityChanged(agent_id.clone()));
        Ok((Response::Done, once_per_agent(effects)))
    }

    /// Every framework that is there hears of it (spec §7.7).
    pub(super) fn agent_lost(&self, agent_id: &AgentId) -> Vec<Effect> {
        let there = self.frameworks().filter(|framework| framework.is_subscribed());
        let tell = |id| Effect::Tell(id, Box::new(Notice::AgentLost(agent_id.clone())));
        there.map(|framework| tell(framework.id.clone())).collect()
    }

    /// Frameworks hear that the agent of their operations is away. The operations stay orders.
    fn operations_unreachable(&self, agent_id: &AgentId) -> Vec<Effect> {
        let Some(agent) = self.agent(agent_id) else { return Vec::new() };
        let open = agent.pending.values().filter(|record| !record.is_settled());
        let told = open.filter_map(|record| {
            let (framework_id, mut status) = self.listener(record)?;
            status.state = FeedbackState::Unreachable;
            Some(Effect::Tell(framework_id, Box::new(Notice::Operation(status))))
        });
        told.collect()
    }
}
