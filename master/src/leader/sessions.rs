//! Agents' sessions under this leader: who is live, which orders each was sent, what each
//! reported since the last batch, when each was pinged. Soft: all of it ends with the term.
//! Must not know queues or sockets. Next: `sessions/reports.rs`,
//! `sessions/registering.rs`, `sessions/turns.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod registering;
mod reports;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::id::{AgentId, CheckpointId, Principal, Seq};
use resources::message::{AgentMessage, ExecutorExit, Instruction, MasterMessage, Order};
use resources::opaque::Opaque;
use resources::task::{ExecutorName, StatusUpdate};
use resources::time::Timestamp;

use self::reports::Report;
use self::turns::{Turn, TurnedAway};
use super::event::{Action, Origin, Proposal, SessionId, SessionView, SessionViews};
use super::messages::in_messages;
use crate::state::State;
use crate::state::command::{Response, SourceAddr};
use crate::state::reconcile::Difference;
use crate::state::rejection::RegistrationRefusal;

/// How often agents are pinged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pings {
    /// Interval.
    pub interval: Duration,
    /// Unanswered ones until the session is closed.
    pub missed_max: u32,
}

/// All sessions of the term.
#[derive(Debug)]
pub(super) struct Sessions {
    pings: Pings,
    by_id: BTreeMap<SessionId, Session>,
    live: BTreeMap<AgentId, SessionId>,
    /// Who holds a work directory, live or about to be.
    holders: BTreeMap<CheckpointId, SessionId>,
    reports: BTreeMap<AgentId, Report>,
    /// Agents that were live at some time of this term.
    returned: BTreeSet<AgentId>,
    /// Raised by every change of `live`.
    revision: u64,
    /// Agents that came or went since the last look, and when those who fell silent were heard
    /// last.
    moved: BTreeMap<AgentId, Option<Timestamp>>,
    /// Registrations that are proposed and not decided.
    admitting: BTreeSet<SessionId>,
    /// Agents that were turned away and are to come one after the other.
    turned_away: TurnedAway,
}

/// What an agent said, as far as it is not about its orders.
#[derive(Debug)]
pub(super) enum Heard {
    /// It was, and this follows.
    Done(Vec<Action>),
    /// Of tasks.
    Statuses(AgentId, Vec<StatusUpdate>),
    /// Of executors that ended.
    Exited(AgentId, Vec<ExecutorExit>),
    /// It leaves.
    Farewell(AgentId),
    /// An executor's words for its scheduler.
    Words {
        /// From where.
        agent_id: AgentId,
        /// From whom.
        executor: ExecutorName,
        /// What.
        data: Opaque,
    },
}

#[derive(Debug)]
struct Session {
    principal: Option<Principal>,
    address: SourceAddr,
    peer: Option<Peer>,
    standing: Option<Live>,
    /// What is asked of its agent as soon as it is live.
    owed: Vec<Instruction>,
}

/// Who registered on a session.
#[derive(Debug)]
struct Peer {
    checkpoint_id: CheckpointId,
    boot_counter: u64,
    place: (String, String, u16),
}

/// A session whose agent is registered.
#[derive(Debug)]
struct Live {
    agent_id: AgentId,
    since: Timestamp,
    /// The last order that was sent.
    sent_upto: Seq,
    pinged_at: Timestamp,
    missed: u32,
    /// The last ping before which nothing was missing.
    heard_at: Timestamp,
}

impl Sessions {
    pub(super) const fn new(pings: Pings) -> Self {
        Self {
            pings,
            by_id: BTreeMap::new(),
            live: BTreeMap::new(),
            holders: BTreeMap::new(),
            reports: BTreeMap::new(),
            returned: BTreeSet::new(),
            revision: 0,
            moved: BTreeMap::new(),
            admitting: BTreeSet::new(),
            turned_away: TurnedAway::new(),
        }
    }

    /// Whether the agent has come back under this leader.
    pub(super) fn has_returned(&self, agent_id: &AgentId) -> bool {
        self.returned.contains(agent_id)
    }
    pub(super) fn is_live(&self, agent_id: &AgentId) -> bool {
        self.live.contains_key(agent_id)
    }
    /// Agents that came or went since the last look, and when those who fell silent were heard
    /// last.
    pub(super) fn take_moved(&mut self) -> BTreeMap<AgentId, Option<Timestamp>> {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn opened(
        &mut self,
        id: SessionId,
        principal: Option<Principal>,
        address: SourceAddr,
    ) {
        let (peer, standing, owed) = (None, None, Vec::new());
        self.by_id.insert(id, Session { principal, address, peer, standing, owed });
    }

    pub(super) fn is_open(&self, id: SessionId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Forgets a session. Its reports stay: they are about the agent, not about the stream.
    pub(super) fn closed(&mut self, id: SessionId) {
        let Some(session) = self.by_id.remove(&id) else { return };
        self.admitting.remove(&id);
        if let Some(live) = session.standing
            && self.live.get(&live.agent_id) == Some(&id)
        {
            self.live.remove(&live.agent_id);
            self.moved.insert(live.agent_id, None);
            self.revision += 1;
        }
        if let Some(peer) = session.peer
            && self.holders.get(&peer.checkpoint_id) == Some(&id)
        {
            self.holders.remove(&peer.checkpoint_id);
        }
    }

    /// Ends every session.
    pub(super) fn close_all(&mut self) -> Vec<Action> {
        let ids: Vec<SessionId> = self.by_id.keys().copied().collect();
        self.by_id.clear();
        let went = std::mem::take(&mut self.live).into_keys();
        self.moved.extend(went.map(|agent_id| (agent_id, None)));
        self.admitting.clear();
        self.holders.clear();
        self.reports.clear();
        self.revision += 1;
        ids.into_iter().map(Action::Close).collect()
    }

    /// A new term: nobody has come back to it yet.
    pub(super) fn forget_returned(&mut self) {
        self.returned.clear();
        self.revision += 1;
    }

    /// Moves with every change of [`Sessions::views`].
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Live sessions by agent, and who came back.
    pub(super) fn views(&self) -> SessionViews {
        let sessions = self.live.iter().filter_map(|(agent_id, id)| {
            let session = self.by_id.get(id)?;
            let connected_at = session.standing.as_ref()?.since;
            let address = session.address.clone();
            Some((agent_id.clone(), SessionView { connected_at, address }))
        });
        SessionViews { live: sessions.collect(), returned: self.returned.clone() }
    }

    fn close(&mut self, id: SessionId) -> Action {
        self.closed(id);
        Action::Close(id)
    }

    fn refuse(&mut self, id: SessionId, reason: String, turn: Turn) -> Vec<Action> {
        let message = Box::new(turn.refused(reason));
        vec![Action::Send(id, message), self.close(id)]
    }
}

/// While live.
impl Sessions {
    pub(super) fn spoke(&mut self, state: &State, id: SessionId, message: AgentMessage) -> Heard {
        let Some(live) = self.by_id.get_mut(&id).and_then(|session| session.standing.as_mut())
        else {
            // Nothing but a registration may open a session.
            let is_open = self.is_open(id);
            return Heard::Done(if is_open { vec![self.close(id)] } else { Vec::new() });
        };
        live.missed = 0;
        let agent_id = live.agent_id.clone();
        Heard::Done(match message {
            AgentMessage::Register(_) => vec![self.close(id)],
            AgentMessage::Pong => Vec::new(),
            AgentMessage::Unregister => return Heard::Farewell(agent_id),
            AgentMessage::Statuses(updates) => return Heard::Statuses(agent_id, updates),
            AgentMessage::Exited(exited) => return Heard::Exited(agent_id, exited),
            AgentMessage::FrameworkMessage { executor, data } => {
                return Heard::Words { agent_id, executor, data };
            }
            AgentMessage::Report { upto, exceptions } => {
                let confirmed = state.agent(&agent_id).map(|agent| agent.confirmed_seq);
                match confirmed.filter(|confirmed| upto <= *confirmed) {
                    Some(upto) => {
                        vec![Action::Send(id, Box::new(MasterMessage::Acknowledge { upto }))]
                    }
                    None => {
                        self.report(agent_id, upto, exceptions);
                        Vec::new()
                    }
                }
            }
            AgentMessage::Resend { from } => match state.agent(&agent_id) {
                Some(agent) if from > agent.confirmed_seq => {
                    let orders = in_messages(agent.outstanding(from).collect());
                    orders.map(|message| Action::Send(id, Box::new(message))).collect()
                }
                // What it misses was confirmed: its disk changed under it. It registers again.
                Some(_) | None => vec![self.close(id)],
            },
            AgentMessage::Total { applied_seq, resources } => {
                let difference = state.divergence(&agent_id, applied_seq, &resources);
                let proposal = difference.map(|Difference { held, foreign, missing }| {
                    Proposal::RecordDivergence { agent_id, foreign, missing, held }
                });
                proposal.map(|p| Action::Propose(Origin::Nobody, p)).into_iter().collect()
            }
        })
    }

    /// Orders of one applied entry, by agent, ascending.
    pub(super) fn orders(
        &mut self,
        state: &State,
        orders: BTreeMap<AgentId, Vec<Order>>,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for (agent_id, mut orders) in orders {
            let Some(id) = self.live.get(&agent_id).copied() else { continue };
            let Some(live) = self.by_id.get_mut(&id).and_then(|s| s.standing.as_mut()) else {
                continue;
            };
            orders.retain(|order| order.seq > live.sent_upto);
            let Some(first) = orders.first() else { continue };
            if first.seq > live.sent_upto.next()
                && let Some(agent) = state.agent(&agent_id)
            {
                // Effects are only a hint; the state knows what is outstanding.
                orders = agent.outstanding(live.sent_upto.next()).collect();
            }
            live.sent_upto = orders.last().map_or(live.sent_upto, |order| order.seq);
            actions.extend(in_messages(orders).map(|m| Action::Send(id, Box::new(m))));
        }
        actions
    }

    pub(super) fn acknowledge(&self, agent_id: &AgentId, upto: Seq) -> Option<Action> {
        let id = self.live.get(agent_id)?;
        Some(Action::Send(*id, Box::new(MasterMessage::Acknowledge { upto })))
    }

    /// Asks something of an agent beside its orders, if it is there.
    pub(super) fn instruct(&self, agent_id: &AgentId, asked: Instruction) -> Option<Action> {
        let id = self.live.get(agent_id)?;
        Some(Action::Send(*id, Box::new(MasterMessage::Instruct(asked))))
    }

    /// The same of an agent whose registration is applied and whose session is not live yet.
    pub(super) fn instruct_or_owe(
        &mut self,
        state: &State,
        agent_id: &AgentId,
        asked: Instruction,
    ) -> Option<Action> {
        if !self.is_live(agent_id)
            && let Some(agent) = state.agent(agent_id)
            && let Some(id) = self.holders.get(&agent.checkpoint_id)
            && let Some(session) = self.by_id.get_mut(id)
        {
            session.owed.push(asked);
            return None;
        }
        self.instruct(agent_id, asked)
    }

    /// The agent goes on under another name: it registers again to hear it.
    pub(super) fn superseded(&mut self, agent_id: &AgentId) -> Option<Action> {
        let id = self.live.get(agent_id).copied()?;
        Some(self.close(id))
    }

    /// The agent was given up: it ends its tasks and itself.
    pub(super) fn given_up(&mut self, agent_id: &AgentId) -> Vec<Action> {
        let Some(id) = self.live.get(agent_id).copied() else { return Vec::new() };
        let refusal = RegistrationRefusal::Gone { agent_id: agent_id.clone() };
        self.refuse(id, refusal.to_string(), Turn::from(&refusal))
    }

    /// An agent's farewell was decided by the log.
    pub(super) fn farewell(&mut self, id: SessionId, response: &Response) -> Vec<Action> {
        if !self.is_open(id) {
            return Vec::new();
        }
        let is_heard = *response == Response::Done;
        let told = is_heard.then(|| Action::Send(id, Box::new(MasterMessage::Unregistered)));
        let closed = self.close(id);
        told.into_iter().chain([closed]).collect()
    }

    /// The agent's machine is down: its stream ends, and it may not come back.
    pub(super) fn shut_down(&mut self, agent_id: &AgentId) -> Option<Action> {
        let id = self.live.get(agent_id).copied()?;
        Some(self.close(id))
    }

    pub(super) fn ping(&mut self, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut silent = Vec::new();
        for (id, session) in &mut self.by_id {
            let Some(live) = session.standing.as_mut() else { continue };
            if now.since(live.pinged_at) < self.pings.interval {
                continue;
            }
            if live.missed >= self.pings.missed_max {
                silent.push((*id, live.agent_id.clone(), live.heard_at));
                continue;
            }
            if live.missed == 0 {
                live.heard_at = now;
            }
            live.pinged_at = now;
            live.missed += 1;
            actions.push(Action::Send(*id, Box::new(MasterMessage::Ping)));
        }
        for (id, agent_id, heard_at) in silent {
            actions.push(self.close(id));
            self.moved.insert(agent_id, Some(heard_at));
        }
        actions
    }
}
