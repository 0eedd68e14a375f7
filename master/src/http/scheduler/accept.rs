//! ACCEPT: each operation is converted, checked by itself and authorised, in order; what fails
//! goes on as refused, so that its framework hears why (spec §2.1 to §2.3). Whether the offers
//! are valid and what they hold is for the leader and the state to judge.

use std::sync::Arc;

use proto::convert;
use proto::convert::InvalidWire;
use proto::convert::scheduler as parts;
use proto::convert::task::{AskedExecutor, AskedTask, InvalidTask, Under};
use proto::mesos::v1::offer;
use proto::mesos::v1::offer::operation::Type;
use proto::mesos::v1::scheduler::call;
use resources::framework::FrameworkInfo;
use resources::id::{AgentId, FrameworkId, Principal};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::role::Role;
use resources::task::{StatusReason, TaskInfo};
use resources::validate::{self, FrameworkCaller};

use super::super::App;
use super::super::error::Failure;
use super::super::incoming::Incoming;
use crate::auth::{Authorizer, Forbidden};
use crate::leader::Consistency;
use crate::leader::scheduler::{Ask, Offer};
use crate::state::Frozen;
use crate::state::accept::{LaunchedTask, Step, TaskRefusal};

/// What an ACCEPT asks of the leader.
pub(super) async fn ask(
    app: &App,
    incoming: &Incoming,
    framework_id: &FrameworkId,
    accept: call::Accept,
) -> Result<Ask, Failure> {
    let offer_ids = parts::offer_ids(&accept.offer_ids);
    let refuse = parts::refuse(accept.filters.as_ref());
    // The leader has applied everything that it has answered.
    let state = app.view(incoming, Consistency::Stale).await?.state;
    // A framework that is not known is told so by the leader, whatever it asks for.
    let Some(framework) = state.framework(framework_id) else {
        return Ok(Ask::Accept { offer_ids, steps: Vec::new(), refuse });
    };
    let offers = app.handle.offers(offer_ids.clone()).await;
    let info = Arc::clone(&framework.info);
    let mut judge = Judge {
        authorizer: &app.config.authorizer,
        under: Ground::of(framework_id, &offers),
        created: Vec::new(),
        framework_id,
        state,
        info,
    };
    let steps = accept.operations.into_iter().map(|operation| judge.step(operation));
    let steps = steps.filter_map(Result::transpose).collect::<Result<Vec<Step>, InvalidWire>>()?;
    Ok(Ask::Accept { offer_ids, steps, refuse })
}

/// Whose resources are used, in which role.
struct Ground {
    agent_id: AgentId,
    role: Role,
    /// Whether there is such an offer at all. Without one everything is refused: the leader will
    /// answer that the offers are invalid, unless one was made just now under a guessed id, which
    /// must not carry what nobody has checked.
    is_known: bool,
}

/// Why everything of an ACCEPT without an offer is refused.
const UNKNOWN_OFFERS: &str = "the offers were not outstanding";

impl Ground {
    /// That of the first offer which is the framework's own. If the others are of another agent
    /// or role the leader refuses the whole.
    fn of(framework_id: &FrameworkId, offers: &[Option<Offer>]) -> Self {
        let own = offers.iter().flatten().find(|offer| offer.framework_id == *framework_id);
        match own {
            Some(Offer { agent_id, role, .. }) => {
                Self { agent_id: agent_id.clone(), role: role.clone(), is_known: true }
            }
            None => Self {
                agent_id: AgentId::parse("no agent").expect("a constant of the form of an id"),
                role: Role::star(),
                is_known: false,
            },
        }
    }
}

/// Judges the operations of one ACCEPT, in order.
struct Judge<'a> {
    authorizer: &'a Authorizer,
    framework_id: &'a FrameworkId,
    info: Arc<FrameworkInfo>,
    state: Arc<Frozen>,
    under: Ground,
    /// Volumes that earlier operations make: their creator is on no record yet.
    created: Vec<Resource>,
}

impl Judge<'_> {
    /// The step that an operation comes to; none when it has nothing in it. Names of the wrong
    /// form spoil the call: an answer could not name what it is about.
    fn step(&mut self, wire: offer::Operation) -> Result<Option<Step>, InvalidWire> {
        let own_id = convert::operation::id_from_wire(&wire)?;
        match wire.r#type.and_then(|kind| Type::try_from(kind).ok()) {
            Some(Type::Launch) => {
                let tasks = wire.launch.map(|launch| launch.task_infos).unwrap_or_default();
                let has_id = own_id.is_some().then(|| refusal_of_id(StatusReason::TaskInvalid));
                self.launch(tasks, has_id.as_ref())
            }
            Some(Type::LaunchGroup) => {
                let refused =
                    own_id.is_some().then(|| refusal_of_id(StatusReason::TaskGroupInvalid));
                match wire.launch_group {
                    Some(group) => self.launch_group(group, refused),
                    None => Ok(None),
                }
            }
            _ => {
                let converted = convert::operation::from_wire(wire);
                let operation = converted.map_err(|error| malformed(&error));
                let operation = operation.and_then(|operation| self.operation(operation));
                Ok(Some(Step::Operate { own_id, operation }))
            }
        }
    }

    fn operation(&mut self, operation: Operation) -> Result<Operation, String> {
        if !self.under.is_known {
            return Err(UNKNOWN_OFFERS.to_owned());
        }
        let operation = operation.allocated_to(&self.under.role);
        let caller = FrameworkCaller {
            principal: self.info.principal.as_ref(),
            roles: &self.info.roles,
            allocation_role: &self.under.role,
            capabilities: &self.info.capabilities,
        };
        validate::framework_operation(&operation, &caller).map_err(|error| error.to_string())?;
        self.authorizer
            .operation(self.info.principal.as_ref(), &operation, |volume| self.creator(volume))
            .map_err(|forbidden| forbidden.to_string())?;
        let operation = operation.unallocated();
        if let Operation::Create { volumes } = &operation {
            self.created.extend_from_slice(volumes);
        }
        Ok(operation)
    }

    /// Who created the volume that one in a request means.
    fn creator(&self, volume: &Resource) -> Option<Option<Principal>> {
        let (role, id) = (volume.reservation_role()?, volume.volume_id()?);
        let is_meant = |made: &&Resource| {
            made.reservation_role() == Some(role) && made.volume_id() == Some(id)
        };
        let agent = self.state.agent(&self.under.agent_id);
        let stored = agent.and_then(|agent| agent.total.find_volume(role, id));
        let found = stored.or_else(|| self.created.iter().find(is_meant))?;
        Some(found.disk.as_ref()?.persistence.as_ref()?.principal.clone())
    }

    fn launch(
        &self,
        tasks: Vec<proto::mesos::v1::TaskInfo>,
        has_id: Option<&TaskRefusal>,
    ) -> Result<Option<Step>, InvalidWire> {
        if tasks.is_empty() {
            return Ok(None);
        }
        tasks.iter().try_for_each(|task| convert::task::id_from_wire(task).map(|_| ()))?;
        let under = self.under();
        let asked = tasks.iter().map(|task| AskedTask::from_wire(task.clone(), &under));
        let asked: Vec<AskedTask> = match asked.collect() {
            Ok(asked) => asked,
            Err(error) => {
                let refusal =
                    TaskRefusal { reason: StatusReason::TaskInvalid, message: malformed(&error) };
                return Ok(Some(Step::Launch { tasks: all_refused(tasks, &refusal)? }));
            }
        };
        let tasks = asked.into_iter().map(|asked| {
            let refused = has_id.cloned().or_else(|| self.task(&asked));
            let (task, executor) = asked.into_domain();
            LaunchedTask { task, executor, refused }
        });
        Ok(Some(Step::Launch { tasks: tasks.collect() }))
    }

    /// Authorisation comes before the rules (spec §2.3, 6).
    fn task(&self, asked: &AskedTask) -> Option<TaskRefusal> {
        if !self.under.is_known {
            let (reason, message) = (StatusReason::TaskInvalid, UNKNOWN_OFFERS.to_owned());
            return Some(TaskRefusal { reason, message });
        }
        if let Err(forbidden) = self.may_run(asked.user()) {
            let (reason, message) = (StatusReason::TaskUnauthorized, forbidden.to_string());
            return Some(TaskRefusal { reason, message });
        }
        let invalid = asked.check(&self.under()).err()?;
        Some(TaskRefusal { reason: StatusReason::TaskInvalid, message: invalid.to_string() })
    }

    fn may_run(&self, user: Option<&str>) -> Result<(), Forbidden> {
        let user = user.unwrap_or(&self.info.user);
        self.authorizer.task(self.info.principal.as_ref(), user)
    }

    fn launch_group(
        &self,
        group: offer::operation::LaunchGroup,
        has_id: Option<TaskRefusal>,
    ) -> Result<Option<Step>, InvalidWire> {
        let tasks = group.task_group.tasks;
        if tasks.is_empty() {
            return Ok(None);
        }
        tasks.iter().try_for_each(|task| convert::task::id_from_wire(task).map(|_| ()))?;
        let invalid = |message| TaskRefusal { reason: StatusReason::TaskGroupInvalid, message };
        let under = self.under();
        let asked = tasks.iter().map(|task| AskedTask::from_wire(task.clone(), &under));
        let asked = asked.collect::<Result<Vec<AskedTask>, InvalidWire>>();
        let executor = AskedExecutor::from_wire(group.executor, &under);
        let (asked, executor) = match asked.and_then(|asked| Ok((asked, executor?))) {
            Ok(both) => both,
            Err(error) => {
                let tasks = all_refused(tasks, &invalid(malformed(&error)))?;
                return Ok(Some(Step::Launch { tasks }));
            }
        };
        let refused = has_id.or_else(|| self.group(&executor, &asked));
        let tasks_of = |asked: Vec<AskedTask>| -> Vec<TaskInfo> {
            asked.into_iter().map(|asked| asked.into_domain().0).collect()
        };
        match executor.into_domain() {
            Some(executor) => {
                Ok(Some(Step::LaunchGroup { executor, tasks: tasks_of(asked), refused }))
            }
            // An executor that has no name cannot be told of: its tasks are refused one by one.
            None => {
                let unnamed = || invalid("Executor has an invalid ID".to_owned());
                let refusal = refused.unwrap_or_else(unnamed);
                Ok(Some(Step::Launch { tasks: all_refused(tasks, &refusal)? }))
            }
        }
    }

    fn group(&self, executor: &AskedExecutor, tasks: &[AskedTask]) -> Option<TaskRefusal> {
        if !self.under.is_known {
            let (reason, message) = (StatusReason::TaskGroupInvalid, UNKNOWN_OFFERS.to_owned());
            return Some(TaskRefusal { reason, message });
        }
        for task in tasks {
            if let Err(forbidden) = self.may_run(task.user().or_else(|| executor.user())) {
                let (reason, message) =
                    (StatusReason::TaskGroupUnauthorized, forbidden.to_string());
                return Some(TaskRefusal { reason, message });
            }
        }
        let invalid: InvalidTask = executor.check_group(tasks, &self.under()).err()?;
        let (reason, message) = (StatusReason::TaskGroupInvalid, invalid.to_string());
        Some(TaskRefusal { reason, message })
    }

    fn under(&self) -> Under<'_> {
        Under {
            framework_id: self.framework_id,
            agent_id: &self.under.agent_id,
            role: &self.under.role,
        }
    }
}

/// What Mesos says of resources that are none, and of everything else its own words.
fn malformed(error: &InvalidWire) -> String {
    match error {
        InvalidWire::Element { .. } | InvalidWire::Resource { .. } => {
            format!("Operation attempted with invalid resources: {error}")
        }
        other => other.to_string(),
    }
}

/// A launch has the names of its tasks, and so none of its own (spec §2.3, 3).
fn refusal_of_id(reason: StatusReason) -> TaskRefusal {
    let message = "The 'id' field was set in an operation that launches tasks".to_owned();
    TaskRefusal { reason, message }
}

/// All tasks of an operation of which not even the resources can be read.
fn all_refused(
    tasks: Vec<proto::mesos::v1::TaskInfo>,
    refusal: &TaskRefusal,
) -> Result<Vec<LaunchedTask>, InvalidWire> {
    let refused = |task| {
        let task = convert::task::without_resources(task)?;
        Ok(LaunchedTask { task, executor: None, refused: Some(refusal.clone()) })
    };
    tasks.into_iter().map(refused).collect()
}
