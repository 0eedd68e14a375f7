//! Whether an agent is to be used: deactivated and draining agents are offered to nobody, and
//! the tasks of a draining one end. The word of an operator: it outlives leaders, and the
//! agent's absence. A draining agent needs no word of it: the leader asks for the end of each
//! task. Next: `gone.rs`.

use std::fmt;
use std::time::Duration;

use resources::id::AgentId;
use resources::kill_policy::grace_period;
use resources::message::Instruction;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::agents::Agent;
use super::command::{Change, Effect, Response};
use super::rejection::{ActivationRefusal, Rejection};
use super::tasks::{KillRequest, Task, TaskName};
use super::{Moment, State};

/// Whether an agent is to be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Activation {
    /// It is.
    #[default]
    Active,
    /// It is not offered; what runs there goes on.
    Deactivated,
    /// It is not offered, and its tasks are being ended.
    Draining(Drain),
    /// It was drained: nothing runs there.
    Drained(Drain),
}

/// How an agent is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drain {
    /// How long a task may take to end by itself, at most; its own policy when none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_grace: Option<Duration>,
    /// Whether it is marked gone once nothing is left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mark_gone: bool,
    /// Wall time, for display.
    pub since: Timestamp,
}

impl Activation {
    /// Whether it is offered.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        match self {
            Self::Active => true,
            Self::Deactivated | Self::Draining(_) | Self::Drained(_) => false,
        }
    }
    /// How it is or was drained.
    #[must_use]
    pub const fn drain(&self) -> Option<Drain> {
        match self {
            Self::Draining(drain) | Self::Drained(drain) => Some(*drain),
            Self::Active | Self::Deactivated => None,
        }
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, drain) = match self {
            Self::Active => return f.write_str("ACTIVE"),
            Self::Deactivated => return f.write_str("DEACTIVATED"),
            Self::Draining(drain) => ("DRAINING", drain),
            Self::Drained(drain) => ("DRAINED", drain),
        };
        f.write_str(name)?;
        drain.max_grace.map_or(Ok(()), |grace| write!(f, " within {grace:?}"))?;
        if drain.mark_gone { f.write_str(" then gone") } else { Ok(()) }
    }
}

impl Agent {
    /// Whether a drain of it has come to its end: it is there, no task is left, not even one
    /// whose end its framework has not acknowledged, and no order is open.
    #[must_use]
    pub fn is_empty_to_drain(&self) -> bool {
        let is_draining = matches!(self.activation, Activation::Draining(_));
        is_draining
            && self.presence.is_here()
            && self.tasks.is_empty()
            && self.pending.values().all(|record| record.is_settled())
    }
}

impl State {
    /// No new offers of it; it stays drained if it was.
    pub(super) fn deactivate(
        &mut self,
        agent_id: &AgentId,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        if !self.known_agent(agent_id)?.activation.is_active() {
            return Ok((Response::Done, Vec::new()));
        }
        Ok((Response::Done, self.activate(agent_id, Activation::Deactivated)))
    }

    pub(super) fn reactivate(
        &mut self,
        agent_id: &AgentId,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let refusal = match self.known_agent(agent_id)?.activation {
            Activation::Deactivated | Activation::Drained(_) => None,
            Activation::Active => Some(ActivationRefusal::Active),
            Activation::Draining(_) => Some(ActivationRefusal::Draining),
        };
        match refusal {
            None => Ok((Response::Done, self.activate(agent_id, Activation::Active))),
            Some(refusal) => Err(Rejection::Activation { agent_id: agent_id.clone(), refusal }),
        }
    }

    /// Begins to drain an agent, or goes on in another way.
    pub(super) fn drain(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
        (max_grace, mark_gone): (Option<Duration>, bool),
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let agent = self.known_agent(agent_id)?;
        let info = &agent.info;
        if self.unavailability(info).is_some() || self.machine_down(info).is_some() {
            let (agent_id, refusal) = (agent_id.clone(), ActivationRefusal::Scheduled);
            return Err(Rejection::Activation { agent_id, refusal });
        }
        let names: Vec<TaskName> = agent.tasks.keys().cloned().collect();
        let drain = Drain { max_grace, mark_gone, since: now.wall };
        let mut effects = self.activate(agent_id, Activation::Draining(drain));
        for name in names {
            effects.extend(self.drain_task(agent_id, &name, max_grace));
        }
        Ok((Response::Done, effects))
    }

    /// Nothing is left on a draining agent, says the leader; here it is seen.
    pub(super) fn complete_drain(
        &mut self,
        now: Moment,
        agent_id: &AgentId,
    ) -> (Response, Vec<Effect>) {
        let empty = self.agent(agent_id).filter(|agent| agent.is_empty_to_drain());
        let Some(drain) = empty.and_then(|agent| agent.activation.drain()) else {
            return (Response::Done, Vec::new());
        };
        let mut effects = self.activate(agent_id, Activation::Drained(drain));
        if drain.mark_gone {
            effects.extend(self.give_up(now, agent_id));
        }
        (Response::Done, super::tasks::once_per_agent(effects))
    }

    fn activate(&mut self, agent_id: &AgentId, activation: Activation) -> Vec<Effect> {
        let Some(agent) = self.agent_mut(agent_id) else { return Vec::new() };
        agent.activation = activation;
        vec![Effect::Change(Change::AgentUpdated(agent_id.clone()))]
    }

    /// Asks for the end of a task, now and whenever its agent comes back.
    fn drain_task(
        &mut self,
        agent_id: &AgentId,
        name: &TaskName,
        max_grace: Option<Duration>,
    ) -> Option<Effect> {
        let task = self.task(&name.framework_id, &name.task_id)?;
        if task.is_ended() {
            return None;
        }
        let grace = drained_within(task, max_grace);
        self.change_task(name, |task| task.kill = Some(KillRequest { grace }));
        let (framework_id, task_id) = (name.framework_id.clone(), name.task_id.clone());
        let asked = Instruction::Kill { framework_id, task_id, grace };
        Some(Effect::Instruct(agent_id.clone(), Box::new(asked)))
    }
}

/// The shorter one of what the task may take already and of what the drain allows.
fn drained_within(task: &Task, max_grace: Option<Duration>) -> Option<Duration> {
    let asked = task.kill.map(|kill| kill.grace);
    let Some(max_grace) = max_grace else { return asked.flatten() };
    let own = asked.flatten().or_else(|| grace_period(&task.info));
    Some(own.map_or(max_grace, |own| own.min(max_grace)))
}
