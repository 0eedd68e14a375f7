//! The judgement of an ACCEPT (spec §2.3, steps 6 to 9): a fold of its steps over what was
//! offered. It works on copies of the agent and the framework, which take their places only at
//! the end. Reading order: `judge/operate.rs`, `judge/launch.rs`, `judge/refuse.rs` (nothing of
//! it can be done). Next: `judge/operate.rs`.

mod launch;
mod operate;
mod refuse;

use std::sync::Arc;

use resources::collection::Resources;
use resources::id::OperationId;
use resources::resource::Resource;
use resources::task::{StatusReason, TaskState};

use super::accept::{Accept, Step};
use super::activation::Activation;
use super::agents::Agent;
use super::command::{Effect, FeedbackState, Response};
use super::frameworks::Framework;
use super::operations::{OperationRecord, Stamp};
use super::rejection::Rejection;
use super::{Moment, State};

pub use self::refuse::VoidAccept;

/// An ACCEPT on its way through its steps.
struct Judge<'a> {
    state: &'a State,
    now: Moment,
    /// Orders are named after it.
    name: &'a OperationId,
    accept: &'a Accept,
    agent: Arc<Agent>,
    framework: Arc<Framework>,
    /// What is left of the offers, as the steps before have changed it.
    remaining: Resources,
    /// Volumes that were resized and what was cut off: no later step may use them.
    set_aside: Resources,
    /// Shared volumes that tasks use now: others may use them all the same.
    shared: Resources,
    /// Operations that became orders.
    records: Vec<Arc<OperationRecord>>,
    /// Number of the last order of this ACCEPT.
    given: u64,
    effects: Vec<Effect>,
}

impl State {
    pub(super) fn judge(
        &mut self,
        now: Moment,
        name: &OperationId,
        accept: &Accept,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let framework = Arc::clone(self.known_framework(&accept.framework_id)?);
        let void = |void: VoidAccept| {
            let effects = self.refuse_accept(now.wall, accept, void);
            let (unused, made) = (accept.offered.clone(), Vec::new());
            Ok((Response::Judged { unused, made }, effects))
        };
        let Some(agent) = self.agents.get(&accept.agent_id).cloned() else {
            return void(VoidAccept::AGENT_REMOVED);
        };
        if !agent.is_counted() {
            return void(VoidAccept::AGENT_REMOVED);
        }
        match agent.activation {
            Activation::Active => {}
            Activation::Deactivated => return void(VoidAccept::AGENT_DEACTIVATED),
            Activation::Draining(_) | Activation::Drained(_) => {
                return void(VoidAccept::AGENT_DRAINING);
            }
        }
        let offered = offered(&accept.offered);
        if agent.accepts_operations().is_err() {
            return void(VoidAccept::AGENT_ASTRAY);
        }
        if !agent.free(&accept.offered).contains(&offered) {
            return void(VoidAccept::OFFERS_GONE);
        }
        let mut judge = Judge {
            state: self,
            now,
            name,
            accept,
            agent,
            framework,
            remaining: offered.clone(),
            set_aside: Resources::new(),
            shared: Resources::new(),
            records: Vec::new(),
            given: 0,
            effects: Vec::new(),
        };
        for step in &accept.steps {
            judge.step(step)?;
        }
        Ok(self.install(accept, &offered, judge.finish()))
    }

    /// Puts what the steps came to in place of what was.
    fn install(
        &mut self,
        accept: &Accept,
        offered: &Resources,
        judged: Judged,
    ) -> (Response, Vec<Effect>) {
        let Judged { agent, framework, remaining, set_aside, shared, records, mut effects } =
            judged;
        for record in records {
            self.operations.insert_mut(record.operation_id.clone(), record);
        }
        self.agents.insert_mut(agent.id.clone(), agent);
        self.frameworks.insert_mut(framework.id.clone(), framework);
        effects.push(Effect::CapacityChanged(accept.agent_id.clone()));
        // What the operations made goes back without a filter, the rest with one (step 8).
        let mut made = remaining.clone();
        made.subtract_all(offered);
        let mut unused = remaining;
        unused.subtract_all(&made);
        unused.subtract_all(&shared);
        made.subtract_all(&shared);
        made.add_all(&set_aside);
        let list = |set: &Resources| set.iter().cloned().collect();
        (Response::Judged { unused: list(&unused), made: list(&made) }, effects)
    }
}

/// What the steps came to.
struct Judged {
    agent: Arc<Agent>,
    framework: Arc<Framework>,
    remaining: Resources,
    set_aside: Resources,
    shared: Resources,
    records: Vec<Arc<OperationRecord>>,
    effects: Vec<Effect>,
}

impl Judge<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Rejection> {
        match step {
            Step::Operate { own_id, operation } => self.operate(own_id.as_ref(), operation),
            Step::Launch { tasks } => tasks.iter().try_for_each(|task| self.launch(task)),
            Step::LaunchGroup { executor, tasks, refused } => {
                self.launch_group(executor, tasks, refused.as_ref())
            }
        }
    }

    fn finish(self) -> Judged {
        let Self { agent, framework, remaining, set_aside, shared, records, effects, .. } = self;
        Judged { agent, framework, remaining, set_aside, shared, records, effects }
    }

    /// The name of the next order.
    fn next_name(&mut self) -> OperationId {
        self.given += 1;
        OperationId::parse(format!("{}.{}", self.name, self.given))
            .expect("names of commands are short, and a number is added")
    }
}

/// Offers of one agent together; a shared volume may stand in each and is one.
fn offered(resources: &[Resource]) -> Resources {
    let mut offered = Resources::new();
    for resource in resources {
        if !(resource.shared && offered.contains_one(resource)) {
            offered.add(resource);
        }
    }
    offered
}

impl VoidAccept {
    /// The offers do not hold what they say: they are of another time.
    pub const OFFERS_GONE: Self = Self {
        reason: StatusReason::InvalidOffers,
        state: TaskState::Dropped,
        feedback: FeedbackState::Error,
        message: "the offers are no longer valid",
    };
    /// The agent is unknown.
    pub const AGENT_REMOVED: Self = Self {
        reason: StatusReason::AgentRemoved,
        state: TaskState::Dropped,
        feedback: FeedbackState::Dropped,
        message: "the agent of the offers is gone",
    };
    /// The agent has gone away since the offers were made.
    pub const AGENT_DISCONNECTED: Self = Self {
        reason: StatusReason::AgentDisconnected,
        state: TaskState::Dropped,
        feedback: FeedbackState::Dropped,
        message: "the agent of the offers is disconnected",
    };
    /// The agent is not to be used.
    const AGENT_DEACTIVATED: Self = Self {
        reason: StatusReason::InvalidOffers,
        state: TaskState::Dropped,
        feedback: FeedbackState::Dropped,
        message: "the agent of the offers is deactivated",
    };
    /// The agent is being emptied.
    const AGENT_DRAINING: Self = Self {
        reason: StatusReason::AgentDraining,
        state: TaskState::Dropped,
        feedback: FeedbackState::Dropped,
        message: "the agent of the offers is being drained",
    };
    /// The agent's disk disagrees with the log.
    const AGENT_ASTRAY: Self = Self {
        reason: StatusReason::InvalidOffers,
        state: TaskState::Dropped,
        feedback: FeedbackState::Dropped,
        message: "the agent of the offers holds other resources than the log says",
    };
}
