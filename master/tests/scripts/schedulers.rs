//! Lines of scripts about frameworks and tasks:
//!
//! ```text
//! subscribe NAME [id=FRAMEWORK] [roles=ROLE,…] [suppressed=ROLE,…] [user=USER] [says=TEXT]
//!           [principal=NAME] [timeout=SECONDS] [caps=CAPABILITY,…] [checkpoint=yes]
//! update FRAMEWORK NAME …     as for subscribe
//! suppress FRAMEWORK [roles=ROLE,…]
//! disconnect FRAMEWORK@EPOCH … [grace=SECONDS]
//! remove FRAMEWORK [epoch=N deadline=SECONDS]
//! accept NAME FRAMEWORK AGENT ROLE LIST | STEP | STEP …
//! kill FRAMEWORK TASK [grace=SECONDS]
//! status AGENT FRAMEWORK TASK STATE [uuid=N] [latest=STATE]
//! exited AGENT FRAMEWORK EXECUTOR STATUS
//! acknowledge FRAMEWORK TASK uuid=N
//! settle FRAMEWORK OWNID uuid=HEX
//! ```
//! A step is `reserve LIST [id=OWNID]` and so on, `refuse REASON [id=OWNID]`,
//! `launch TASK LIST [by=EXECUTOR/LIST] [says=TEXT] [refused=REASON]`, or
//! `group EXECUTOR/LIST TASK LIST TASK LIST … [refused=REASON]`.

use std::time::Duration;

use resources::framework::FrameworkInfo;
use resources::id::{AgentId, ExecutorId, FrameworkId, OperationId, Principal, TaskId, UpdateId};
use resources::message::ExecutorExit;
use resources::opaque::Opaque;
use resources::role::Role;
use resources::task::{
    ExecutorInfo, ExecutorName, StatusReason, StatusSource, StatusUpdate, TaskInfo, TaskReport,
    TaskState, TaskStatus,
};
use resources::time::Timestamp;

use master::state::accept::{Accept, LaunchedTask, Step, TaskRefusal};
use master::state::command::{Absence, CommandKind, Subscription};

use super::lines::{Line, operation};
use super::notation::list;

pub(crate) fn framework_id(text: &str) -> FrameworkId {
    FrameworkId::parse(text).unwrap()
}

fn task_id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn executor_name(framework: &str, executor: &str) -> ExecutorName {
    let executor_id = ExecutorId::parse(executor).unwrap();
    ExecutorName { framework_id: framework_id(framework), executor_id }
}

fn seconds(line: &Line<'_>, name: &str) -> Option<Duration> {
    line.named.get(name).map(|text| Duration::from_secs(text.parse().unwrap()))
}

fn roles(text: &str) -> impl Iterator<Item = Role> + '_ {
    text.split(',').filter(|role| !role.is_empty()).map(|role| Role::parse(role).unwrap())
}

fn opaque(text: &str) -> Opaque {
    text.as_bytes().to_vec().into()
}

fn subscription(name: &str, line: &Line<'_>) -> Box<Subscription> {
    let caps = line.text("caps").split(',').filter(|text| !text.is_empty());
    let info = FrameworkInfo {
        name: name.to_owned(),
        user: line.named.get("user").copied().unwrap_or("root").to_owned(),
        principal: line.named.get("principal").map(|name| Principal::new(*name)),
        roles: roles(line.named.get("roles").copied().unwrap_or("ads")).collect(),
        capabilities: caps.map(|name| name.parse().unwrap()).collect(),
        failover_timeout: seconds(line, "timeout").unwrap_or_default(),
        checkpoint: line.named.contains_key("checkpoint"),
        hostname: String::new(),
        min_allocatable: std::collections::BTreeMap::default(),
        wire: opaque(line.text("says")),
    };
    let suppressed = roles(line.text("suppressed")).collect();
    Box::new(Subscription { info, suppressed, constraints: Opaque::default() })
}

/// The command of a line about frameworks and tasks.
pub(crate) fn kind(line: &Line<'_>) -> Option<CommandKind> {
    let word = |at: usize| line.words[at];
    let uuid = || line.named.get("uuid").map(|text| uuid(text));
    Some(match word(0) {
        "subscribe" => CommandKind::Subscribe {
            framework_id: line.named.get("id").map(|id| framework_id(id)),
            subscription: subscription(word(1), line),
        },
        "update" => CommandKind::UpdateFramework {
            framework_id: framework_id(word(1)),
            subscription: subscription(word(2), line),
        },
        "suppress" => CommandKind::SetSuppressed {
            framework_id: framework_id(word(1)),
            suppressed: roles(line.text("roles")).collect(),
        },
        "disconnect" => CommandKind::Disconnect {
            frameworks: line.words[1..].iter().map(|word| at_epoch(word)).collect(),
            grace: seconds(line, "grace").unwrap_or_default(),
        },
        "remove" => CommandKind::RemoveFramework {
            framework_id: framework_id(word(1)),
            witness: line.named.get("epoch").map(|epoch| Absence {
                epoch: epoch.parse().unwrap(),
                deadline: Timestamp::default() + seconds(line, "deadline").unwrap(),
            }),
        },
        "kill" => CommandKind::Kill {
            framework_id: framework_id(word(1)),
            task_id: task_id(word(2)),
            grace: seconds(line, "grace"),
        },
        "status" => CommandKind::UpdateTasks {
            agent_id: AgentId::parse(word(1)).unwrap(),
            updates: vec![status(line, uuid())],
            exited: Vec::new(),
        },
        "exited" => CommandKind::UpdateTasks {
            agent_id: AgentId::parse(word(1)).unwrap(),
            updates: Vec::new(),
            exited: vec![ExecutorExit {
                executor: executor_name(word(2), word(3)),
                status: word(4).parse().unwrap(),
            }],
        },
        "acknowledge" => CommandKind::AcknowledgeTask {
            framework_id: framework_id(word(1)),
            task_id: task_id(word(2)),
            uuid: uuid().unwrap(),
        },
        "settle" => CommandKind::AcknowledgeOperation {
            framework_id: framework_id(word(1)),
            own_id: OperationId::parse(word(2)).unwrap(),
            uuid: uuid().unwrap(),
        },
        _ => return None,
    })
}

fn at_epoch(word: &str) -> (FrameworkId, u64) {
    let (id, epoch) = word.split_once('@').unwrap();
    (framework_id(id), epoch.parse().unwrap())
}

/// Hexadecimal digits, of which the leading zeros may be left out.
fn uuid(text: &str) -> UpdateId {
    UpdateId(u128::from_str_radix(text, 16).unwrap().to_be_bytes())
}

fn state(text: &str) -> TaskState {
    *TaskState::ALL.iter().find(|state| state.as_str() == text).unwrap()
}

fn status(line: &Line<'_>, uuid: Option<UpdateId>) -> StatusUpdate {
    let said = state(line.words[4]);
    StatusUpdate {
        framework_id: framework_id(line.words[2]),
        status: TaskStatus {
            task_id: task_id(line.words[3]),
            state: said,
            agent_id: None,
            executor_id: None,
            source: StatusSource::Executor,
            reason: None,
            message: None,
            uuid,
            at: Timestamp::default(),
            unreachable_at: None,
            healthy: None,
            data: Opaque::default(),
            wire: Opaque::default(),
        },
        latest: line.named.get("latest").map_or(said, |text| state(text)),
    }
}

/// `accept NAME FRAMEWORK AGENT ROLE LIST | STEP | STEP …`.
pub(crate) fn accept(text: &str) -> CommandKind {
    let mut parts = text.split(" | ");
    let head = Line::new(parts.next().unwrap());
    let accept = Accept {
        framework_id: framework_id(head.words[2]),
        agent_id: AgentId::parse(head.words[3]).unwrap(),
        role: Role::parse(head.words[4]).unwrap(),
        offered: list(head.words[5]),
        steps: parts.map(|part| step(&Line::new(part))).collect(),
    };
    let name = OperationId::parse(head.words[1]).unwrap();
    CommandKind::Accept { name, accept: Box::new(accept) }
}

fn step(line: &Line<'_>) -> Step {
    let own_id = line.named.get("id").map(|id| OperationId::parse(*id).unwrap());
    let refused = |reason| {
        let message = line.named.get("refused")?.replace('_', " ");
        Some(TaskRefusal { reason, message })
    };
    match line.words[0] {
        "refuse" => {
            let reason = line.words[1].replace('_', " ");
            Step::Operate { own_id, operation: Err(reason) }
        }
        "launch" => Step::Launch {
            tasks: vec![LaunchedTask {
                task: task(line.words[1], line.words[2], line),
                executor: line.named.get("by").map(|text| executor(text)),
                refused: refused(StatusReason::TaskUnauthorized),
            }],
        },
        "group" => {
            let tasks = line.words[2..].chunks(2);
            Step::LaunchGroup {
                executor: executor(line.words[1]),
                tasks: tasks.map(|pair| task(pair[0], pair[1], line)).collect(),
                refused: refused(StatusReason::TaskGroupUnauthorized),
            }
        }
        verb => {
            let operation = Ok(operation(verb, line.words[1], line));
            Step::Operate { own_id, operation }
        }
    }
}

fn task(id: &str, resources: &str, line: &Line<'_>) -> TaskInfo {
    TaskInfo {
        task_id: task_id(id),
        name: id.to_owned(),
        resources: list(resources),
        wire: opaque(line.named.get("says").copied().unwrap_or(id)),
    }
}

/// `EXECUTOR/LIST`; a volume's role cannot have a slash here.
fn executor(text: &str) -> ExecutorInfo {
    let (id, resources) = text.split_once('/').unwrap();
    ExecutorInfo {
        executor_id: ExecutorId::parse(id).unwrap(),
        resources: list(resources),
        wire: opaque(id),
    }
}

/// `FRAMEWORK/TASK:STATE,…`.
pub(crate) fn task_reports(text: &str) -> Vec<TaskReport> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let parts = parts.map(|part| {
        let (framework, rest) = part.split_once('/').unwrap();
        let (task, said) = rest.split_once(':').unwrap();
        TaskReport {
            framework_id: framework_id(framework),
            task_id: task_id(task),
            state: state(said),
        }
    });
    parts.collect()
}

/// `FRAMEWORK/EXECUTOR,…`.
pub(crate) fn executor_names(text: &str) -> Vec<ExecutorName> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('/').map(|(fw, id)| executor_name(fw, id)).unwrap()).collect()
}
