//! Frameworks: who is subscribed, since when another is away and until when, and what is theirs.
//! How one is removed is in `frameworks/removal.rs`. Next: that, then `tasks.rs`.

mod removal;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use resources::capability::FrameworkCapability;
use resources::framework::FrameworkInfo;
use resources::id::{AgentId, FrameworkId, OperationId, TaskId};
use resources::message::Instruction;
use resources::opaque::Opaque;
use resources::persistent::PersistentMap;
use resources::role::Role;
use resources::task::TaskState;
use resources::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::command::{Absence, Change, Effect, Response, Subscription};
use super::rejection::{FrameworkRefusal, RegistrationRefusal, Rejection};
use super::tasks::Task;
use super::{Moment, State, limits};

/// A framework on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framework {
    /// Its name.
    pub id: FrameworkId,
    /// What it says of itself.
    pub info: Arc<FrameworkInfo>,
    /// Roles that it wants no offers for.
    pub suppressed: BTreeSet<Role>,
    /// `mesos.v1.scheduler.OfferConstraints` as they were given; empty for none.
    pub constraints: Opaque,
    /// How often it has subscribed.
    pub epoch: u64,
    /// Whether it is there.
    pub connection: Connection,
    /// Wall time of its first subscription, for display.
    pub subscribed_at: Timestamp,
    /// Wall time of its last one but for the first, for display.
    pub resubscribed_at: Option<Timestamp>,
    /// Wall time of the end of its last stream, for display.
    pub disconnected_at: Option<Timestamp>,
    /// Wall time of its removal, for display.
    pub removed_at: Option<Timestamp>,
    /// Tasks that live, or whose end is not acknowledged.
    pub tasks: PersistentMap<TaskId, Arc<Task>>,
    /// The last ones that ended and are acknowledged, oldest first.
    pub completed_tasks: PersistentMap<u64, Arc<Task>>,
    /// Operations by its own names for them, until it has acknowledged their end.
    pub operations: PersistentMap<OperationId, OperationId>,
    /// Agents where it has tasks or executors on record, and how many.
    pub agents: PersistentMap<AgentId, u64>,
}

/// Whether a framework is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    /// Its last stream has not ended, as far as the log knows.
    Subscribed,
    /// It is away, and removed when this ends.
    Absent(Absence),
}

impl Framework {
    fn admitted(id: FrameworkId, subscription: &Subscription, wall: Timestamp) -> Self {
        Self {
            id,
            info: Arc::new(subscription.info.clone()),
            suppressed: subscription.suppressed.clone(),
            constraints: subscription.constraints.clone(),
            epoch: 1,
            connection: Connection::Subscribed,
            subscribed_at: wall,
            resubscribed_at: None,
            disconnected_at: None,
            removed_at: None,
            tasks: PersistentMap::default(),
            completed_tasks: PersistentMap::default(),
            operations: PersistentMap::default(),
            agents: PersistentMap::default(),
        }
    }

    /// Whether it is there, as far as the log knows.
    #[must_use]
    pub const fn is_subscribed(&self) -> bool {
        match self.connection {
            Connection::Subscribed => true,
            Connection::Absent(_) => false,
        }
    }

    /// How it is told of a task that is lost in this way: only partition-aware frameworks know
    /// the ways apart (spec §4.5).
    #[must_use]
    pub fn lost_as(&self, state: TaskState) -> TaskState {
        if self.info.has(FrameworkCapability::PartitionAware) { state } else { TaskState::Lost }
    }

    /// Keeps a task that is over, and forgets the oldest beyond the limit.
    pub(super) fn complete(&mut self, task: Arc<Task>) {
        let number = self.completed_tasks.last().map_or(0, |(number, _)| number + 1);
        self.completed_tasks.insert_mut(number, task);
        while self.completed_tasks.size() > limits::COMPLETED_TASKS_MAX {
            let Some((oldest, _)) = self.completed_tasks.first() else { return };
            let oldest = *oldest;
            self.completed_tasks.remove_mut(&oldest);
        }
    }

    fn take(&mut self, subscription: &Subscription, info: FrameworkInfo) {
        self.info = Arc::new(info);
        self.suppressed.clone_from(&subscription.suppressed);
        self.constraints = subscription.constraints.clone();
    }

    /// Tells the agents where it has something what it says of itself now.
    fn inform_agents(&self) -> impl Iterator<Item = Effect> + '_ {
        self.agents.keys().map(|agent_id| {
            let (framework_id, info) = (self.id.clone(), self.info.named(&self.id));
            let instruction = Instruction::UpdateFramework { framework_id, info };
            Effect::Instruct(agent_id.clone(), Box::new(instruction))
        })
    }
}

impl fmt::Display for Framework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} '{}'", self.id, self.epoch, self.info.name)?;
        match self.connection {
            Connection::Subscribed => f.write_str(" subscribed"),
            Connection::Absent(Absence { epoch: _, deadline }) => {
                write!(f, " absent until {deadline}")
            }
        }
    }
}

fn refused(framework_id: &FrameworkId, refusal: FrameworkRefusal) -> Rejection {
    Rejection::Framework { framework_id: framework_id.clone(), refusal }
}

impl State {
    pub(super) fn known_framework(&self, id: &FrameworkId) -> Result<&Arc<Framework>, Rejection> {
        let refusal = || {
            let is_removed = self.removed_framework(id);
            if is_removed { FrameworkRefusal::Removed } else { FrameworkRefusal::Unknown }
        };
        self.frameworks.get(id).ok_or_else(|| refused(id, refusal()))
    }

    pub(super) fn subscribe(
        &mut self,
        now: Moment,
        framework_id: Option<&FrameworkId>,
        subscription: &Subscription,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let Some(id) = framework_id else {
            let id = self.fresh_framework_id()?;
            return Ok(self.admit_framework(now, id, subscription));
        };
        if self.removed_framework(id) {
            return Err(refused(id, FrameworkRefusal::Removed));
        }
        let Some(known) = self.frameworks.get_mut(id) else {
            // Mesos' masters forget frameworks: theirs come with ids that others gave them.
            return Ok(self.admit_framework(now, id.clone(), subscription));
        };
        if known.info.principal != subscription.info.principal {
            return Err(refused(id, FrameworkRefusal::PrincipalChanged));
        }
        let framework = Arc::make_mut(known);
        // These two never change, whatever it says (spec §4.2).
        let info = FrameworkInfo {
            user: framework.info.user.clone(),
            checkpoint: framework.info.checkpoint,
            ..subscription.info.clone()
        };
        let is_news = *framework.info != info;
        framework.take(subscription, info);
        framework.epoch += 1;
        framework.connection = Connection::Subscribed;
        framework.resubscribed_at = Some(now.wall);
        let mut effects = vec![Effect::Change(Change::FrameworkSubscribed(id.clone()))];
        if is_news {
            effects.extend(framework.inform_agents());
        }
        let (framework_id, epoch) = (id.clone(), framework.epoch);
        Ok((Response::Subscribed { framework_id, epoch }, effects))
    }

    fn admit_framework(
        &mut self,
        now: Moment,
        id: FrameworkId,
        subscription: &Subscription,
    ) -> (Response, Vec<Effect>) {
        let framework = Framework::admitted(id.clone(), subscription, now.wall);
        let epoch = framework.epoch;
        self.frameworks.insert_mut(id.clone(), Arc::new(framework));
        let change = Effect::Change(Change::FrameworkSubscribed(id.clone()));
        (Response::Subscribed { framework_id: id, epoch }, vec![change])
    }

    /// `<cluster id>-NNNN`, from a replicated counter. A framework may have brought an id of
    /// this form with it: such a number is passed over.
    fn fresh_framework_id(&mut self) -> Result<FrameworkId, Rejection> {
        let cluster_id = self.cluster_id.clone();
        let cluster_id =
            cluster_id.ok_or(Rejection::Registration(RegistrationRefusal::NoCluster))?;
        loop {
            let number = self.frameworks_made;
            self.frameworks_made += 1;
            let id = FrameworkId::parse(format!("{cluster_id}-{number:04}"))
                .expect("a cluster id is short, and the rest are digits");
            if !self.frameworks.contains_key(&id) && !self.tombstones.contains_key(&id) {
                return Ok(id);
            }
        }
    }

    /// What SUBSCRIBE keeps silently is refused here.
    pub(super) fn update_framework(
        &mut self,
        id: &FrameworkId,
        subscription: &Subscription,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        let (known, info) = (&self.known_framework(id)?.info, &subscription.info);
        if known.principal != info.principal {
            return Err(refused(id, FrameworkRefusal::PrincipalChanged));
        }
        if known.user != info.user {
            return Err(refused(id, FrameworkRefusal::UserChanged));
        }
        if known.checkpoint != info.checkpoint {
            return Err(refused(id, FrameworkRefusal::CheckpointChanged));
        }
        let is_news = **known != *info;
        let framework = Arc::make_mut(self.frameworks.get_mut(id).expect("looked up above"));
        framework.take(subscription, info.clone());
        let mut effects = vec![Effect::Change(Change::FrameworkUpdated(id.clone()))];
        if is_news {
            effects.extend(framework.inform_agents());
        }
        Ok((Response::Done, effects))
    }

    pub(super) fn set_suppressed(
        &mut self,
        id: &FrameworkId,
        suppressed: &BTreeSet<Role>,
    ) -> Result<(Response, Vec<Effect>), Rejection> {
        if self.known_framework(id)?.suppressed == *suppressed {
            return Ok((Response::Done, Vec::new()));
        }
        let framework = self.frameworks.get_mut(id).expect("looked up above");
        Arc::make_mut(framework).suppressed.clone_from(suppressed);
        let change = Effect::Change(Change::FrameworkUpdated(id.clone()));
        Ok((Response::Done, vec![change]))
    }

    /// Streams that ended. Whoever has no time to come back is removed at once.
    pub(super) fn disconnect(
        &mut self,
        now: Moment,
        frameworks: &[(FrameworkId, u64)],
        grace: Duration,
    ) -> (Response, Vec<Effect>) {
        let mut effects = Vec::new();
        for (id, epoch) in frameworks {
            let Some(known) = self.frameworks.get_mut(id) else { continue };
            if known.epoch != *epoch || !known.is_subscribed() {
                continue;
            }
            let wait = known.info.failover_timeout.max(grace);
            let framework = Arc::make_mut(known);
            let absence = Absence { epoch: *epoch, deadline: now.clock + wait };
            framework.connection = Connection::Absent(absence);
            framework.disconnected_at = Some(now.wall);
            effects.push(Effect::Change(Change::FrameworkDisconnected(id.clone())));
            if wait.is_zero() {
                effects.extend(self.discard_framework(now, id));
            }
        }
        (Response::Done, super::tasks::once_per_agent(effects))
    }
}
