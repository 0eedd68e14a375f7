//! How a session goes live: who holds a work directory, what the log says of the agent, and
//! what it is sent first. Next: `../messages.rs`.

use resources::id::{AgentId, Seq, Term};
use resources::message::{AgentInfo, MasterMessage, Order, Registration};
use resources::time::Timestamp;

use super::super::event::{Action, Origin, Proposal, SessionId};
use super::super::messages::in_messages;
use super::turns::{ADMISSIONS_IN_FLIGHT_MAX, Turn};
use super::{Live, Peer, Sessions};
use crate::state::command::{Response, Standing};
use crate::state::reconcile::{Comparison, compare};
use crate::state::rejection::Rejection;
use crate::state::{Agent, State};

impl Sessions {
    pub(in crate::leader) fn registering(
        &mut self,
        state: &State,
        term: Term,
        (id, registration): (SessionId, Box<Registration>),
        now: Timestamp,
    ) -> Vec<Action> {
        let Some(session) = self.by_id.get_mut(&id) else { return Vec::new() };
        if session.peer.is_some() {
            return vec![self.close(id)];
        }
        if registration.fence.as_ref().is_some_and(|fence| fence.term > term) {
            let reason = format!("this master leads term {term}, the agent obeyed a later one");
            return self.refuse(id, reason, Turn::LATER);
        }
        if state.is_restored() {
            // The log ends before what the agent may have done: first it has to say so.
            let reason = "the cluster was restored and begins a new incarnation".to_owned();
            return self.refuse(id, reason, Turn::LATER);
        }
        let peer = Peer::new(&registration);
        if let Some(actions) = self.contend(id, &peer, state) {
            return actions;
        }
        let mut actions = self.take_over(id, peer);
        actions.extend(match compare(state, &registration) {
            Comparison::Unchanged { agent_id, standing } => {
                self.go_live(state, id, (agent_id, standing), now)
            }
            Comparison::Confirm { agent_id, upto, exceptions } => {
                self.report(agent_id.clone(), upto, exceptions);
                self.go_live(state, id, (agent_id, Standing::InStep), now)
            }
            // A refusal too is decided by the log: this master may have been deposed.
            Comparison::Admit | Comparison::Change(_) | Comparison::Refuse(_) => {
                let session = self.by_id.get(&id);
                let Some(session) = session else { return actions };
                if self.admitting.len() >= ADMISSIONS_IN_FLIGHT_MAX {
                    let turn = self.turned_away.next(now);
                    let reason = "too many agents register at once".to_owned();
                    actions.extend(self.refuse(id, reason, turn));
                    return actions;
                }
                self.admitting.insert(id);
                let (principal, source) = (session.principal.clone(), session.address.clone());
                let proposal = Proposal::Register { principal, source, registration };
                vec![Action::Propose(Origin::Session(id), proposal)]
            }
        });
        actions
    }

    /// Two sessions on one work directory: the later start of the agent wins. The same start
    /// from the same place is the same process on a new stream; from another place the disk
    /// was cloned, and neither may go on.
    fn contend(&mut self, id: SessionId, peer: &Peer, state: &State) -> Option<Vec<Action>> {
        let holder = *self.holders.get(&peer.checkpoint_id)?;
        let held = self.by_id.get(&holder)?.peer.as_ref()?;
        if peer.boot_counter < held.boot_counter {
            let reason = "the agent has been started again elsewhere".to_owned();
            return Some(self.refuse(id, reason, Turn::NEVER));
        }
        if peer.boot_counter > held.boot_counter || peer.place == held.place {
            return None;
        }
        let text = format!(
            "two agents on one work directory {}: {}:{} and {}:{}",
            peer.checkpoint_id, held.place.1, held.place.2, peer.place.1, peer.place.2
        );
        let mut actions = self.refuse(holder, text.clone(), Turn::NEVER);
        actions.extend(self.refuse(id, text.clone(), Turn::NEVER));
        if let Some(agent) = state.agent_of(&peer.checkpoint_id) {
            let proposal = Proposal::RaiseAlarm { agent_id: Some(agent.id.clone()), text };
            actions.push(Action::Propose(Origin::Nobody, proposal));
        }
        Some(actions)
    }

    /// Opening a new session discards everything unread on the old.
    fn take_over(&mut self, id: SessionId, peer: Peer) -> Vec<Action> {
        let old = self.holders.insert(peer.checkpoint_id.clone(), id);
        let closed = old.map(|old| {
            self.closed(old);
            Action::Close(old)
        });
        if let Some(session) = self.by_id.get_mut(&id) {
            session.peer = Some(peer);
        }
        closed.into_iter().collect()
    }

    /// A registration was decided by the log.
    pub(in crate::leader) fn registered(
        &mut self,
        state: &State,
        id: SessionId,
        response: Response,
        now: Timestamp,
    ) -> Vec<Action> {
        self.admitting.remove(&id);
        if !self.is_open(id) {
            return Vec::new();
        }
        match response {
            Response::Registered { agent_id, standing } => {
                self.go_live(state, id, (agent_id, standing), now)
            }
            Response::Rejected(Rejection::Registration(refusal)) => {
                self.refuse(id, refusal.to_string(), Turn::from(&refusal))
            }
            Response::Rejected(rejection) => self.refuse(id, rejection.to_string(), Turn::LATER),
            Response::Done
            | Response::Ruled
            | Response::Accepted { .. }
            | Response::Transacted { .. }
            | Response::Subscribed { .. }
            | Response::Judged { .. } => {
                vec![self.close(id)]
            }
        }
    }

    /// The log could not decide: the agent comes again.
    pub(in crate::leader) fn unregistered(&mut self, id: SessionId) -> Vec<Action> {
        self.admitting.remove(&id);
        if self.is_open(id) { vec![self.close(id)] } else { Vec::new() }
    }

    fn go_live(
        &mut self,
        state: &State,
        id: SessionId,
        (agent_id, standing): (AgentId, Standing),
        now: Timestamp,
    ) -> Vec<Action> {
        let Some(session) = self.by_id.get_mut(&id) else { return Vec::new() };
        let Some(agent) = state.agent(&agent_id) else { return vec![self.close(id)] };
        let orders: Vec<Order> = agent.outstanding(Seq(0)).collect();
        let owed = std::mem::take(&mut session.owed);
        session.standing = Some(Live {
            agent_id: agent_id.clone(),
            since: now,
            sent_upto: orders.last().map_or(agent.last_given(), |order| order.seq),
            pinged_at: now,
            missed: 0,
            heard_at: now,
        });
        let mut messages = vec![MasterMessage::Welcome {
            agent_id: agent_id.clone(),
            ping_interval: self.pings.interval,
            pings_missed_max: self.pings.missed_max,
        }];
        match standing {
            Standing::InStep => {
                messages.extend(adoption(agent));
                messages.push(MasterMessage::Acknowledge { upto: agent.confirmed_seq });
                messages.extend(in_messages(orders));
            }
            Standing::Diverged | Standing::Regressed => messages.push(MasterMessage::SendTotal),
        }
        messages.extend(owed.into_iter().map(MasterMessage::Instruct));
        self.returned.insert(agent_id.clone());
        self.moved.insert(agent_id.clone(), None);
        self.revision += 1;
        self.live.insert(agent_id, id);
        let send = |message| Action::Send(id, Box::new(message));
        messages.into_iter().map(send).collect()
    }
}

/// What an agent has to hear of an operator's choice before anything else.
fn adoption(agent: &Agent) -> Option<MasterMessage> {
    let (applied_seq, digest) = agent.adoption()?;
    Some(MasterMessage::Adopt { applied_seq, digest })
}

impl Sessions {
    /// An agent's disk compares otherwise than when it registered: it hears what follows.
    pub(in crate::leader) fn resync(&mut self, state: &State, agent_id: &AgentId) -> Vec<Action> {
        let Some(id) = self.live.get(agent_id).copied() else { return Vec::new() };
        let live = self.by_id.get_mut(&id).and_then(|session| session.standing.as_mut());
        let Some((live, agent)) = live.zip(state.agent(agent_id)) else { return Vec::new() };
        let mut messages = Vec::new();
        match agent.status.standing() {
            Standing::InStep => {
                let orders: Vec<Order> = agent.outstanding(Seq(0)).collect();
                live.sent_upto = orders.last().map_or(agent.last_given(), |order| order.seq);
                messages.extend(adoption(agent));
                messages.push(MasterMessage::Acknowledge { upto: agent.confirmed_seq });
                messages.extend(in_messages(orders));
            }
            Standing::Diverged | Standing::Regressed => messages.push(MasterMessage::SendTotal),
        }
        messages.into_iter().map(|message| Action::Send(id, Box::new(message))).collect()
    }
}

impl Peer {
    fn new(registration: &Registration) -> Self {
        let AgentInfo { hostname, host, port, .. } = &registration.info;
        Self {
            checkpoint_id: registration.checkpoint_id.clone(),
            boot_counter: registration.boot_counter,
            place: (hostname.clone(), host.clone(), *port),
        }
    }
}
