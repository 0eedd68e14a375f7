//! Applied entries: their effects leave in the order of the log, to agents, to frameworks, to
//! the allocator, and to those who wait for an operation's end. Next: `rules.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use std::collections::BTreeMap;

use resources::id::{AgentId, FrameworkId, OperationId};
use resources::message::{Instruction, Order};
use resources::time::Timestamp;

use super::core::Core;
use super::event::{Action, WaiterId};
use super::request::NotSettled;
use super::scheduler::SchedulerEvent;
use crate::state::State;
use crate::state::command::{Change, Effect};
use crate::state::operations::{OperationState, name};

impl Core {
    pub(super) fn applied(
        &mut self,
        state: &State,
        effects: Vec<Effect>,
        now: Timestamp,
    ) -> Vec<Action> {
        if self.term().is_none() {
            return Vec::new();
        }
        let mut orders: BTreeMap<AgentId, Vec<Order>> = BTreeMap::new();
        let mut asked: Vec<(AgentId, Instruction)> = Vec::new();
        let mut shut_down: Vec<AgentId> = Vec::new();
        let mut actions = Vec::new();
        for effect in effects {
            match effect {
                Effect::Order(agent_id, order) => {
                    self.offers.capacity_changed(&agent_id);
                    orders.entry(agent_id).or_default().push(*order);
                }
                Effect::Acknowledge(agent_id, upto) => {
                    self.offers.capacity_changed(&agent_id);
                    actions.extend(self.sessions.acknowledge(&agent_id, upto));
                }
                Effect::CapacityChanged(agent_id) => self.offers.capacity_changed(&agent_id),
                Effect::Resync(agent_id) => actions.extend(self.sessions.resync(state, &agent_id)),
                Effect::Instruct(agent_id, instruction) => asked.push((agent_id, *instruction)),
                Effect::Tell(framework_id, notice) => {
                    actions.extend(self.tell(&framework_id, *notice, now));
                }
                // Only after it has heard what it is asked.
                Effect::Change(Change::AgentShutDown(agent_id)) => shut_down.push(agent_id),
                Effect::Change(change) => actions.extend(self.changed(state, change, now)),
            }
        }
        actions.extend(self.sessions.orders(state, orders));
        let asked = asked.into_iter();
        actions
            .extend(asked.filter_map(|(id, one)| self.sessions.instruct_or_owe(state, &id, one)));
        for agent_id in shut_down {
            actions.extend(self.agent_shut_down(&agent_id));
        }
        actions
    }

    fn changed(&mut self, state: &State, change: Change, now: Timestamp) -> Vec<Action> {
        self.counts.followed(&change, |agent_id| self.sessions.has_returned(agent_id));
        match change {
            Change::OperationSettled(operation_id, outcome) => {
                self.settled(state, &operation_id, outcome)
            }
            Change::AgentSuperseded { old, new } => {
                let mut actions: Vec<Action> = self.sessions.superseded(&old).into_iter().collect();
                for agent_id in [old, new] {
                    actions.extend(self.agent_changed(state, &agent_id, now));
                }
                actions
            }
            Change::AgentAdded(agent_id, _)
            | Change::AgentUpdated(agent_id)
            | Change::AgentAway(agent_id)
            | Change::AgentReturned(agent_id)
            | Change::AgentUnregistered(agent_id) => self.agent_changed(state, &agent_id, now),
            Change::AgentUnreachable(agent_id) => {
                // If it is there all the same, it registers again; if it has, it is here.
                let is_meant = state.agent(&agent_id).is_some_and(|agent| !agent.is_counted());
                let closed = is_meant.then(|| self.sessions.superseded(&agent_id)).flatten();
                let changed = self.agent_changed(state, &agent_id, now);
                closed.into_iter().chain(changed).collect()
            }
            Change::AgentGone(agent_id) => {
                let mut actions = self.sessions.given_up(&agent_id);
                actions.extend(self.agent_changed(state, &agent_id, now));
                actions
            }
            Change::FrameworkUpdated(framework_id) => self.framework_updated(state, &framework_id),
            Change::FrameworkRemoved(framework_id) => {
                self.offers.framework_removed(&framework_id);
                self.tasks.framework_removed(&framework_id);
                self.repeats.forget(&framework_id);
                self.counts.by_framework.remove(&framework_id);
                self.frameworks.removed(&framework_id).into_iter().collect()
            }
            Change::TaskMoved(_, _, state) => {
                self.counts.came_to(state);
                Vec::new()
            }
            Change::QuotaUpdated(roles) => self.quota_updated(state, &roles),
            Change::QuotaSet(roles) => self.quota_set(state, &roles),
            Change::WeightsUpdated(roles) => self.weights_updated(state, &roles),
            Change::MaintenanceScheduled(agents) => self.maintenance_scheduled(&agents),
            Change::ClusterFormed(_)
            | Change::AgentShutDown(_)
            | Change::MachinesUp(_)
            | Change::LeaderAnnounced(..)
            | Change::ReservationGone { .. }
            | Change::VolumeGone { .. }
            | Change::TransactionMoved(..)
            | Change::FrameworkSubscribed(_)
            | Change::FrameworkDisconnected(_)
            | Change::TaskAdded(..)
            | Change::AlarmRaised(_) => Vec::new(),
        }
    }

    /// Its offers in roles that it gave up are void; the others stay.
    fn framework_updated(&mut self, state: &State, framework_id: &FrameworkId) -> Vec<Action> {
        let voided = self.offers.roles_lost(state, framework_id);
        let mut actions = self.rescinded(voided);
        self.tell_of_framework(state, framework_id);
        let framework = state.framework(framework_id);
        if let Some((stream, framework)) = self.frameworks.stream(framework_id).zip(framework) {
            actions.push(stream.say(SchedulerEvent::Updated(framework.info.clone())));
        }
        actions
    }
}

/// Those who wait for an operation's end.
impl Core {
    pub(super) fn wait_arrived(
        &mut self,
        state: &State,
        waiter_id: WaiterId,
        operation_id: OperationId,
    ) -> Vec<Action> {
        let answer = match state.operation(&operation_id) {
            Some(record) if record.is_settled() => Ok(record.clone()),
            _ if self.term().is_none() => Err(NotSettled::LeadershipLost),
            None => Err(NotSettled::UnknownOperation),
            Some(_) => {
                self.waiters.entry(operation_id).or_default().push(waiter_id);
                return Vec::new();
            }
        };
        vec![Action::AnswerWait(waiter_id, Box::new(answer))]
    }

    pub(super) fn wait_ended(&mut self, waiter_id: WaiterId, operation_id: &OperationId) {
        if let Some(waiters) = self.waiters.get_mut(operation_id) {
            waiters.retain(|waiter| *waiter != waiter_id);
            if waiters.is_empty() {
                self.waiters.remove(operation_id);
            }
        }
    }

    fn settled(
        &mut self,
        state: &State,
        operation_id: &OperationId,
        outcome: OperationState,
    ) -> Vec<Action> {
        let record = state.operation(operation_id);
        if let Some(record) = record {
            self.counts.ended(name(&record.operation), outcome);
        }
        let waiters = self.waiters.remove(operation_id).unwrap_or_default();
        let answer = record.cloned().ok_or(NotSettled::UnknownOperation);
        let tell = |id| Action::AnswerWait(id, Box::new(answer.clone()));
        waiters.into_iter().map(tell).collect()
    }
}
