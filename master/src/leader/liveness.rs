//! Who has been silent for how long, and what the log is told of it: first that an agent is
//! away, and until when it is waited for; then that it is unreachable. The absence is replicated,
//! so that the next leader goes on with it; what is here is soft and follows from the state, the
//! sessions and the time. Must not know streams. Next: `liveness/timers.rs`, `liveness/guard.rs`,
//! `agents.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod guard;
mod timers;

use std::collections::BTreeSet;
use std::time::Duration;

use resources::id::AgentId;
use resources::time::Timestamp;

use self::guard::{Guard, Verdict};
pub use self::guard::{Rate, Removal, Share};
use self::timers::Timers;
use super::event::{Action, Origin, Proposal};
use super::frameworks::propose;
use super::sessions::Pings;
use crate::state::activation::Activation;
use crate::state::command::CommandKind;
use crate::state::{Agent, State};

/// Agents in one command that says they are away.
const DEPARTURES_PER_COMMAND_MAX: usize = 1_024;
/// Commands about single agents that may be under way.
const PROPOSED_MAX: usize = 512;

/// What is known of all agents' presence.
#[derive(Debug)]
pub(super) struct Liveness {
    pings: Pings,
    reregister_timeout: Duration,
    /// When this leader began to wait for agents.
    began_at: Timestamp,
    /// Whether it still has to look for those that have not come back to it.
    is_to_sweep: bool,
    /// Whether it had no quorum: agents could not come.
    is_lame: bool,
    /// Agents that have had a session since it began.
    seen: BTreeSet<AgentId>,
    /// Here, says the log, and without a session; by the beginning of that.
    silent: Timers,
    /// Away, and without a session; by the time at which they are unreachable.
    away: Timers,
    /// Away, says the log, and there all the same.
    astray: BTreeSet<AgentId>,
    draining: BTreeSet<AgentId>,
    guard: Guard,
    /// Departures are proposed and not decided.
    is_departing: bool,
    /// Other commands of these are.
    proposed: BTreeSet<AgentId>,
}

impl Liveness {
    pub(super) fn new(pings: Pings, removal: Removal, reregister_timeout: Duration) -> Self {
        Self {
            pings,
            reregister_timeout,
            began_at: Timestamp::default(),
            is_to_sweep: false,
            is_lame: false,
            seen: BTreeSet::new(),
            silent: Timers::default(),
            away: Timers::default(),
            astray: BTreeSet::new(),
            draining: BTreeSet::new(),
            guard: Guard::new(removal, pings.interval),
            is_departing: false,
            proposed: BTreeSet::new(),
        }
    }

    /// A term begins: nobody has come back to it yet, and all of them get the time for it. Who
    /// has not is looked for once the first of them may be missed.
    pub(super) fn take_office(&mut self, now: Timestamp) {
        *self = Self::new(self.pings, self.guard.removal(), self.reregister_timeout);
        self.began_at = now;
        self.is_to_sweep = true;
    }

    /// This leader has no quorum: whoever is silent meanwhile is not to blame.
    pub(super) fn quorum_lost(&mut self) {
        self.is_lame = true;
    }

    /// It has one again, and begins anew.
    fn begin_anew(&mut self, now: Timestamp) {
        let (is_departing, proposed) = (self.is_departing, std::mem::take(&mut self.proposed));
        self.take_office(now);
        (self.is_departing, self.proposed) = (is_departing, proposed);
    }

    /// An agent is another in the state, or its session came or went.
    pub(super) fn follow(&mut self, agent: Option<&Agent>, agent_id: &AgentId, session: Session) {
        let presence = agent.map(|agent| agent.presence);
        let is_live = session == Session::Live;
        match (session, presence.is_some_and(|presence| presence.is_here())) {
            (Session::None { since }, true) => {
                let is_seen = self.seen.contains(agent_id);
                self.silent.begin(agent_id, if is_seen { since } else { self.began_at });
            }
            (Session::None { .. } | Session::Live, _) => self.silent.end(agent_id),
        }
        if is_live && !self.seen.contains(agent_id) {
            self.seen.insert(agent_id.clone());
        }
        let away = presence.and_then(|presence| presence.away());
        match away.filter(|_| !is_live) {
            Some(away) => {
                let least = self.began_at + self.pings.interval;
                self.away.begin(agent_id, away.deadline.max(least));
            }
            None => self.away.end(agent_id),
        }
        set(&mut self.astray, agent_id, away.is_some() && is_live);
        let is_draining =
            agent.is_some_and(|agent| matches!(agent.activation, Activation::Draining(_)));
        set(&mut self.draining, agent_id, is_draining);
    }

    /// Departures were decided, or not: who is still silent is found at the next tick.
    pub(super) fn departures_ended(&mut self) {
        self.is_departing = false;
    }
    /// A command about an agent was decided.
    pub(super) fn proposal_ended(&mut self, agent_id: &AgentId) {
        self.proposed.remove(agent_id);
    }
    /// It was not: it is made again at the next tick.
    pub(super) fn proposal_lost(&mut self, agent_id: &AgentId) {
        if self.proposed.remove(agent_id) && self.away.contains(agent_id) {
            self.guard.unmarked();
        }
    }

    /// Time has passed, and there is a quorum.
    pub(super) fn tick(
        &mut self,
        state: &State,
        is_live: impl Fn(&AgentId) -> bool,
        now: Timestamp,
    ) -> Vec<Action> {
        if std::mem::take(&mut self.is_lame) {
            self.begin_anew(now);
        }
        if self.is_to_sweep && now.since(self.began_at) >= self.pings.interval {
            self.is_to_sweep = false;
            self.sweep(state, is_live);
        }
        let mut actions: Vec<Action> = self.departures(now).into_iter().collect();
        actions.extend(self.returns(state));
        actions.extend(self.removals(state, now));
        actions.extend(self.drained(state));
        actions
    }

    /// Agents that have not come back since this leader began.
    fn sweep(&mut self, state: &State, is_live: impl Fn(&AgentId) -> bool) {
        let since = self.began_at;
        for agent in state.counted_agents() {
            if !is_live(&agent.id) {
                self.follow(Some(agent), &agent.id, Session::None { since });
            }
        }
    }

    /// Agents that have been silent for a whole ping timeout.
    fn departures(&mut self, now: Timestamp) -> Option<Action> {
        if self.is_departing {
            return None;
        }
        let waited = self.pings.interval;
        let silent = self.silent.iter().take_while(|(since, _)| now.since(*since) >= waited);
        let silent = silent.take(DEPARTURES_PER_COMMAND_MAX);
        let deadlines = silent.map(|(since, agent_id)| {
            let deadline = if self.seen.contains(agent_id) {
                since + self.pings.timeout()
            } else {
                self.began_at + self.reregister_timeout
            };
            (agent_id.clone(), deadline)
        });
        let agents: Vec<(AgentId, Timestamp)> = deadlines.collect();
        if agents.is_empty() {
            return None;
        }
        self.is_departing = true;
        Some(propose(Origin::Absences, CommandKind::Depart { agents }))
    }

    /// Agents that were back before the log heard that they were away.
    fn returns(&mut self, state: &State) -> Vec<Action> {
        let astray: Vec<AgentId> = self.astray.iter().cloned().collect();
        let back = astray.into_iter().filter_map(|agent_id| {
            let epoch = state.agent(&agent_id)?.presence.away()?.epoch;
            self.propose(agent_id.clone(), CommandKind::Return { agent_id, epoch })
        });
        back.collect()
    }

    /// Agents whose absence has lasted too long, as far as they may all be removed.
    fn removals(&mut self, state: &State, now: Timestamp) -> Vec<Action> {
        let soon = now + self.pings.interval;
        let lost = self.away.iter().take_while(|(deadline, _)| *deadline <= soon);
        let (marked, losses): (Vec<_>, Vec<_>) =
            lost.partition(|(_, id)| self.proposed.contains(*id));
        let is_limited = !losses.is_empty() && self.guard.is_limited();
        let counted = if is_limited { state.counted_agents().count() } else { 0 };
        let left = counted.saturating_sub(marked.len());
        let (mut room, alarm) = match self.guard.judge(now, losses.len(), left) {
            Verdict::Mark { at_most } => (at_most, None),
            Verdict::Hold { alarm } => (0, alarm),
        };
        let mut actions: Vec<Action> = alarm.map(raise).into_iter().collect();
        let due = self.away.iter().take_while(|(deadline, _)| *deadline <= now);
        let due: Vec<AgentId> = due.map(|(_, id)| id.clone()).take(PROPOSED_MAX).collect();
        for agent_id in due {
            if room == 0 {
                break;
            }
            let away = state.agent(&agent_id).and_then(|agent| agent.presence.away());
            let Some(witness) = away else { continue };
            let kind = CommandKind::MarkUnreachable { agent_id: agent_id.clone(), witness };
            if let Some(action) = self.propose(agent_id, kind) {
                self.guard.marked(now);
                room -= 1;
                actions.push(action);
            }
        }
        actions
    }

    /// Agents that are being drained and run nothing any more.
    fn drained(&mut self, state: &State) -> Vec<Action> {
        let is_empty = |id: &&AgentId| {
            let agent = state.agent(id);
            !self.silent.contains(id) && agent.is_some_and(Agent::is_empty_to_drain)
        };
        let empty: Vec<AgentId> = self.draining.iter().filter(is_empty).cloned().collect();
        let drained = empty.into_iter().filter_map(|agent_id| {
            self.propose(agent_id.clone(), CommandKind::CompleteDrain { agent_id })
        });
        drained.collect()
    }

    /// A command about an agent, unless one is under way or too many are.
    fn propose(&mut self, agent_id: AgentId, kind: CommandKind) -> Option<Action> {
        let may = self.proposed.len() < PROPOSED_MAX && self.proposed.insert(agent_id.clone());
        may.then(|| propose(Origin::Presence(agent_id), kind))
    }
}

/// Whether an agent has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// It has.
    Live,
    /// It has not.
    None {
        /// When it was heard last, as far as this leader knows.
        since: Timestamp,
    },
}

impl Pings {
    /// Silence after which an agent that this leader knew is unreachable.
    pub(super) fn timeout(self) -> Duration {
        self.interval.saturating_mul(self.missed_max.max(1))
    }
}

fn set(these: &mut BTreeSet<AgentId>, agent_id: &AgentId, is_one: bool) {
    if !is_one {
        these.remove(agent_id);
    } else if !these.contains(agent_id) {
        these.insert(agent_id.clone());
    }
}

/// An alarm about many agents.
fn raise(text: String) -> Action {
    Action::Propose(Origin::Nobody, Proposal::RaiseAlarm { agent_id: None, text })
}
