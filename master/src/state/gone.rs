//! Agents that an operator has given up: their tasks and operations end, their reservations and
//! volumes are no more, and their work directories never come back. That they were is kept for
//! ever; what the last of them held, for those who look. Next: `reservations.rs`.

use std::sync::Arc;

use resources::collection::Resources;
use resources::id::{AgentId, CheckpointId};
use resources::message::AgentInfo;
use resources::time::Timestamp;

use super::command::{Change, Effect, Response};
use super::operations::{OperationRecord, OperationState};
use super::presence::GONE;
use super::rejection::Rejection;
use super::tasks::once_per_agent;
use super::{Moment, State, limits};

/// An agent that is gone for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Its place in the order of goings.
    pub number: u64,
    /// The name it had.
    pub agent_id: AgentId,
    /// Its work directory: no agent comes back with it.
    pub checkpoint_id: CheckpointId,
    /// What it said of itself.
    pub info: Arc<AgentInfo>,
    /// Wall time, for display.
    pub at: Timestamp,
    /// Its reservations and volumes, of the last ones only.
    pub held: Resources,
}

impl State {
    /// An operator gives an agent up, or has done so.
    pub(super) fn mark_gone(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        if self.gone.contains_key(agent_id) {
            return Ok((Response::Done, Vec::new()));
        }
        self.known_agent(agent_id)?;
        Ok((Response::Done, once_per_agent(self.give_up(now, agent_id))))
    }

    pub(super) fn give_up(&mut self, now: Moment, agent_id: &AgentId) -> Vec<Effect> {
        let mut effects = self.end_all_tasks(now, agent_id, &GONE);
        let Some(agent) = self.agents.get(agent_id).cloned() else { return effects };
        let open = agent.pending.values().filter(|record| !record.is_settled());
        let ended = open.map(|record| gone_with_its_agent(record, now.wall)).collect();
        effects.extend(self.keep_settled(ended));
        self.agents.remove_mut(agent_id);
        self.by_checkpoint.remove_mut(&agent.checkpoint_id);
        let held = agent.total.checkpointed();
        for resource in held.iter() {
            let (agent_id, resource) = (agent_id.clone(), Box::new(resource.clone()));
            effects.push(Effect::Change(if resource.is_persistent_volume() {
                Change::VolumeGone { agent_id, resource }
            } else {
                Change::ReservationGone { agent_id, resource }
            }));
        }
        self.keep_gone(Gone {
            number: self.gone.size() as u64,
            agent_id: agent_id.clone(),
            checkpoint_id: agent.checkpoint_id.clone(),
            info: Arc::clone(&agent.info),
            at: now.wall,
            held,
        });
        effects.push(Effect::Change(Change::AgentGone(agent_id.clone())));
        effects.extend(self.agent_lost(agent_id));
        effects.push(Effect::CapacityChanged(agent_id.clone()));
        effects
    }

    /// Keeps that it is gone, and forgets what the oldest beyond the limit held.
    pub(super) fn keep_gone(&mut self, gone: Gone) {
        let (number, agent_id) = (gone.number, gone.agent_id.clone());
        self.gone_checkpoints.insert_mut(gone.checkpoint_id.clone(), agent_id.clone());
        self.gone_order.insert_mut(number, agent_id.clone());
        self.gone.insert_mut(agent_id, Arc::new(gone));
        let Some(oldest) = number.checked_sub(limits::GONE_AGENTS_REMEMBERED_MAX) else { return };
        if let Some(id) = self.gone_order.get(&oldest).cloned()
            && let Some(gone) = self.gone.get_mut(&id)
        {
            Arc::make_mut(gone).held = Resources::new();
        }
    }
}

/// The end of an order whose agent is gone. Nobody acknowledges it: it is said once.
fn gone_with_its_agent(record: &Arc<OperationRecord>, wall: Timestamp) -> Arc<OperationRecord> {
    Arc::new(OperationRecord {
        state: OperationState::GoneByOperator,
        settled_at: Some(wall),
        message: Some("its agent is marked gone".to_owned()),
        ..(**record).clone()
    })
}
