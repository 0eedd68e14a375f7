//! Agents: what they say, when they come and go, and what the leader makes of both. Next:
//! `calls.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::id::AgentId;
use resources::message::AgentMessage;
use resources::task::StatusUpdate;
use resources::time::Timestamp;

use super::core::Core;
use super::event::{Action, Origin, SessionId};
use super::frameworks::propose;
use super::liveness::Session;
use super::scheduler::SchedulerEvent;
use super::sessions::Heard;
use super::tasks::{Way, way};
use crate::state::State;
use crate::state::command::{CommandKind, Notice};

impl Core {
    pub(super) fn session_spoke(
        &mut self,
        state: &State,
        (session_id, message): (SessionId, AgentMessage),
        now: Timestamp,
    ) -> Vec<Action> {
        let Some(term) = self.term() else { return vec![Action::Close(session_id)] };
        if let AgentMessage::Register(registration) = message {
            return self.sessions.registering(state, term, (session_id, registration), now);
        }
        match self.sessions.spoke(state, session_id, message) {
            Heard::Done(actions) => actions,
            Heard::Statuses(agent_id, updates) => {
                let ways =
                    updates.into_iter().map(|update| (way(state, &agent_id, &update), update));
                let ways: Vec<(Way, StatusUpdate)> = ways.collect();
                let mut actions = Vec::new();
                for (way, update) in ways {
                    self.counts.status_updates += 1;
                    match way {
                        Way::Log => self.tasks.report(&agent_id, update),
                        Way::Forward => {
                            let StatusUpdate { framework_id, status, latest: _ } = update;
                            actions.extend(self.tell(&framework_id, Notice::Task(status), now));
                        }
                        Way::Nowhere(asked) => {
                            let asked = asked.into_iter();
                            actions.extend(
                                asked.filter_map(|one| self.sessions.instruct(&agent_id, one)),
                            );
                        }
                    }
                }
                actions
            }
            Heard::Exited(agent_id, exited) => {
                self.tasks.exited(&agent_id, exited);
                Vec::new()
            }
            Heard::Farewell(agent_id) => {
                self.leaving.insert(agent_id, session_id);
                Vec::new()
            }
            Heard::Words { agent_id, executor, data } => {
                let stream = self.frameworks.stream(&executor.framework_id);
                let said = stream
                    .map(|stream| stream.say(SchedulerEvent::Message { agent_id, executor, data }));
                said.into_iter().collect()
            }
        }
    }

    /// Agents that came or went are offered or not from now on; who came is asked what stands
    /// against it in the state, after its orders.
    pub(super) fn follow_sessions(
        &mut self,
        state: &State,
        by_log: bool,
        now: Timestamp,
    ) -> Vec<Action> {
        let moved = self.sessions.take_moved();
        let mut actions = Vec::new();
        if self.term().is_none() {
            return actions;
        }
        if !moved.is_empty() {
            self.inverse.agents_moved();
        }
        for (agent_id, heard_at) in moved {
            let is_live = self.sessions.is_live(&agent_id);
            let since = heard_at.unwrap_or(now);
            let session = if is_live { Session::Live } else { Session::None { since } };
            self.liveness.follow(state.agent(&agent_id), &agent_id, session);
            let voided = self.offers.agent_changed(state, &agent_id, is_live);
            actions.extend(self.rescinded(voided));
            if is_live {
                self.counts.agents_registered += u64::from(by_log);
                self.counts.agents_reregistered += u64::from(!by_log);
                let asked = state.instructions(&agent_id);
                actions.extend(asked.filter_map(|one| self.sessions.instruct(&agent_id, one)));
            }
        }
        actions
    }

    /// An agent is another in the state: whether it is there, to be used, or anything else.
    pub(super) fn agent_changed(
        &mut self,
        state: &State,
        agent_id: &AgentId,
        now: Timestamp,
    ) -> Vec<Action> {
        let is_live = self.sessions.is_live(agent_id);
        let session = if is_live { Session::Live } else { Session::None { since: now } };
        self.liveness.follow(state.agent(agent_id), agent_id, session);
        let voided = self.offers.agent_changed(state, agent_id, is_live);
        self.rescinded(voided)
    }

    /// Agents that leave, once all that they said is in the log.
    pub(super) fn let_leave(&mut self) -> Vec<Action> {
        let (sessions, tasks) = (&self.sessions, &self.tasks);
        let is_heard = |id: &AgentId| !sessions.is_reporting(id) && !tasks.is_reporting(id);
        let leaving = self.leaving.extract_if(.., |agent_id, _| is_heard(agent_id));
        let proposals = leaving.map(|(agent_id, session_id)| {
            propose(Origin::Farewell(session_id), CommandKind::Unregister { agent_id })
        });
        proposals.collect()
    }
}
