//! Agents' sessions under this leader: who is live, which orders each was sent, what each
//! reported since the last batch, when each was pinged. Soft: all of it ends with the term.
//! Must not know queues or sockets. Next: `sessions/registering.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

mod registering;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resources::id::{AgentId, CheckpointId, Principal, Seq};
use resources::message::{AgentMessage, ExecutorExit, Instruction, MasterMessage, Order, Retry};
use resources::opaque::Opaque;
use resources::task::{ExecutorName, StatusUpdate};
use resources::time::Timestamp;

use super::event::{Action, Origin, Proposal, SessionId, SessionView, SessionViews};
use super::messages::in_messages;
use crate::state::State;
use crate::state::command::{Response, SourceAddr};
use crate::state::reconcile::Difference;

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
    /// Agents that came or went since the last look.
    moved: BTreeSet<AgentId>,
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
}

/// What an agent reported and the state does not hold yet. Kept until it does: a proposal may
/// get lost, and a silent agent reports nothing twice.
#[derive(Debug, Default)]
struct Report {
    upto: Seq,
    exceptions: BTreeMap<Seq, String>,
    stage: ReportStage,
}

/// How far a report has come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReportStage {
    /// To be proposed with the next batch.
    #[default]
    Waiting,
    /// Proposed, and not decided.
    Proposed,
    /// Not decided: to be proposed again after the next tick.
    Lost,
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
            moved: BTreeSet::new(),
        }
    }

    pub(super) fn is_live(&self, agent_id: &AgentId) -> bool {
        self.live.contains_key(agent_id)
    }
    /// Agents that came or went since the last look.
    pub(super) fn take_moved(&mut self) -> BTreeSet<AgentId> {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn opened(
        &mut self,
        id: SessionId,
        principal: Option<Principal>,
        address: SourceAddr,
    ) {
        self.by_id.insert(id, Session { principal, address, peer: None, standing: None });
    }

    pub(super) fn is_open(&self, id: SessionId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Forgets a session. Its reports stay: they are about the agent, not about the stream.
    pub(super) fn closed(&mut self, id: SessionId) {
        let Some(session) = self.by_id.remove(&id) else { return };
        if let Some(live) = session.standing
            && self.live.get(&live.agent_id) == Some(&id)
        {
            self.live.remove(&live.agent_id);
            self.moved.insert(live.agent_id);
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
        self.moved.extend(std::mem::take(&mut self.live).into_keys());
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

    fn refuse(&mut self, id: SessionId, reason: String, retry: Retry) -> Vec<Action> {
        let (end_tasks, retry_after) = (false, None);
        let message = Box::new(MasterMessage::Refused { reason, retry, end_tasks, retry_after });
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
            AgentMessage::Pong | AgentMessage::Unregister => Vec::new(),
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

    fn report(&mut self, agent_id: AgentId, upto: Seq, exceptions: BTreeMap<Seq, String>) {
        let report = self.reports.entry(agent_id).or_default();
        report.upto = report.upto.max(upto);
        report.exceptions.extend(exceptions);
        report.stage = ReportStage::Waiting;
    }

    /// One command for each agent that reported since the last batch.
    pub(super) fn flush_reports(&mut self) -> Vec<Action> {
        let waiting = self.reports.iter_mut().filter(|(_, r)| r.stage == ReportStage::Waiting);
        let proposals = waiting.map(|(agent_id, report)| {
            report.stage = ReportStage::Proposed;
            let (agent_id, exceptions) = (agent_id.clone(), report.exceptions.clone());
            let origin = Origin::Report(agent_id.clone());
            Action::Propose(origin, Proposal::Confirm { agent_id, upto: report.upto, exceptions })
        });
        proposals.collect()
    }

    /// A report was decided by the log. What came in since stays; what the state holds, or can
    /// never take, goes.
    pub(super) fn report_decided(
        &mut self,
        state: &State,
        agent_id: &AgentId,
        response: &Response,
    ) {
        let Some(report) = self.reports.get_mut(agent_id) else { return };
        let confirmed = state.agent(agent_id).map(|agent| agent.confirmed_seq);
        let is_refused = matches!(response, Response::Rejected(_));
        match confirmed.filter(|confirmed| report.upto > *confirmed && !is_refused) {
            Some(confirmed) => report.exceptions.retain(|seq, _| *seq > confirmed),
            None if report.stage == ReportStage::Waiting && is_refused => {}
            None => {
                self.reports.remove(agent_id);
            }
        }
    }

    /// A report's proposal was lost. Nobody else knows of it.
    pub(super) fn report_undecided(&mut self, agent_id: &AgentId) {
        if let Some(report) = self.reports.get_mut(agent_id)
            && report.stage == ReportStage::Proposed
        {
            report.stage = ReportStage::Lost;
        }
    }

    /// Time has passed: lost reports are proposed again.
    pub(super) fn retry_reports(&mut self) {
        let lost = self.reports.values_mut().filter(|r| r.stage == ReportStage::Lost);
        lost.for_each(|report| report.stage = ReportStage::Waiting);
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

    /// The agent goes on under another name: it registers again to hear it.
    pub(super) fn superseded(&mut self, agent_id: &AgentId) -> Option<Action> {
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
                silent.push(*id);
                continue;
            }
            live.pinged_at = now;
            live.missed += 1;
            actions.push(Action::Send(*id, Box::new(MasterMessage::Ping)));
        }
        actions.extend(silent.into_iter().map(|id| self.close(id)));
        actions
    }
}
