//! The words of golden scripts that are about tasks, and the model of their rows. See
//! `script.rs`.

use std::time::Duration;

use resources::id::{ExecutorId, FrameworkId, TaskId, UpdateId};
use resources::message::Instruction;
use resources::opaque::Opaque;
use resources::operation::Operation;
use resources::parse;
use resources::role::Role;
use resources::task::{
    ExecutorInfo, ExecutorName, Launch, StatusSource, TaskInfo, TaskState, TaskStatus,
};
use resources::time::Timestamp;

use crate::core::tasks::TaskMemory;
use crate::core::tasks::event::{Facts, Found, Said, TaskEvent, TaskWrite, Word};
use crate::core::tasks::row::{ExecutorKind, StatusRow, TaskName, Traits};

pub(crate) fn write(memory: &mut TaskMemory, row: TaskWrite) {
    match row {
        TaskWrite::Framework(id, Some(row)) => {
            memory.frameworks.insert(id, row);
        }
        TaskWrite::Framework(id, None) => {
            memory.frameworks.remove(&id);
        }
        TaskWrite::Executor(name, Some(row)) => {
            memory.executors.entry(name).or_insert((*row, 0));
        }
        TaskWrite::Executor(name, None) => {
            memory.executors.remove(&name);
        }
        TaskWrite::Heard(name, number) => {
            if let Some((_, heard)) = memory.executors.get_mut(&name) {
                *heard = number;
            }
        }
        TaskWrite::Task(name, Some(row)) => {
            memory.tasks.insert(name, (*row, StatusRow::new()));
        }
        TaskWrite::Task(name, None) => {
            memory.tasks.remove(&name);
        }
        TaskWrite::Status(name, row) => {
            memory.tasks.get_mut(&name).expect("a status belongs to a task").1 = *row;
        }
    }
}

pub(crate) fn framework(text: &str) -> FrameworkId {
    FrameworkId::parse(text).unwrap()
}

pub(crate) fn executor(text: &str) -> ExecutorName {
    let (framework_id, executor_id) = text.split_once('/').unwrap();
    let executor_id = ExecutorId::parse(executor_id).unwrap();
    ExecutorName { framework_id: framework(framework_id), executor_id }
}

pub(crate) fn task(text: &str) -> TaskName {
    let (framework_id, task_id) = text.split_once('/').unwrap();
    TaskName { framework_id: framework(framework_id), task_id: TaskId::parse(task_id).unwrap() }
}

fn list(text: &str) -> Vec<TaskId> {
    let ids = text.split(',').filter(|id| !id.is_empty());
    ids.map(|id| TaskId::parse(id).unwrap()).collect()
}

/// `FRAMEWORK TASK[,TASK] RESOURCES [custom|default=EXECUTOR] [new] [together] [aware] [kept]
/// [volume=ID]`: a launch, with what the shell reads in it.
pub(crate) fn launch(words: &[&str]) -> (Operation, Facts) {
    let has = |word: &str| words.contains(&word);
    let named =
        |kind: &str| words.iter().find_map(|word| word.strip_prefix(kind)?.strip_prefix('='));
    let resources = parse::resources_text(words[2], &Role::star()).unwrap();
    let mut resources: Vec<_> = resources.iter().cloned().collect();
    resources.extend(named("volume").map(|id| crate::script::volume_of_ads(id, "64")));
    let tasks = list(words[1]).into_iter().map(|task_id| TaskInfo {
        name: task_id.to_string(),
        task_id,
        resources: resources.clone(),
        wire: Opaque::default(),
    });
    let (kind, name) = match (named("custom"), named("default")) {
        (Some(name), _) => (ExecutorKind::Custom, Some(name)),
        (None, Some(name)) => (ExecutorKind::Default, Some(name)),
        (None, None) => (ExecutorKind::Command, None),
    };
    let launch = Launch {
        framework_id: framework(words[0]),
        framework: Opaque::default(),
        role: Role::parse("ads").unwrap(),
        executor: name.map(|name| ExecutorInfo {
            executor_id: ExecutorId::parse(name).unwrap(),
            resources: Vec::new(),
            wire: Opaque::default(),
        }),
        is_executor_new: has("new"),
        tasks: tasks.collect(),
        is_group: has("together"),
    };
    let traits = Traits { is_partition_aware: has("aware"), is_checkpointing: has("kept") };
    (Operation::Launch(Box::new(launch)), Facts { traits, kind, shutdown_grace: None })
}

fn status(task_id: &str, state: &str, uuid: Option<UpdateId>) -> TaskStatus {
    let name = format!("TASK_{state}");
    let state = TaskState::ALL.iter().find(|known| known.as_str() == name);
    TaskStatus {
        task_id: TaskId::parse(task_id).unwrap(),
        state: *state.unwrap_or_else(|| panic!("unknown state {name}")),
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
    }
}

pub(crate) fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
}

/// What happens to executors: `heard NAME N WORD | N WORD …`, `found`, `failed`, `vanished`,
/// `subscribed NAME [TASKS]`, `updated NAME TASK STATE N`, `spoke NAME TEXT`, `retire`.
pub(crate) fn event(word: &str, rest: &str) -> Option<TaskEvent> {
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(match word {
        "heard" => TaskEvent::Heard(executor(name), rest.split(" | ").map(said).collect()),
        "found" => {
            let found = match rest {
                "alive" => Found::Alive,
                "never-started" => Found::NeverStarted,
                "vanished" => Found::Vanished,
                other => panic!("unknown find {other}"),
            };
            TaskEvent::Found(executor(name), found)
        }
        "failed" => TaskEvent::LaunchFailed(executor(name), rest.to_owned()),
        "vanished" => TaskEvent::Vanished(executor(name)),
        "subscribed" => TaskEvent::Subscribed {
            executor: executor(name),
            tasks: list(rest),
            updates: Vec::new(),
        },
        "updated" => {
            let words: Vec<&str> = rest.split(' ').collect();
            let uuid = UpdateId([words[2].parse().unwrap(); 16]);
            TaskEvent::Updated(executor(name), Box::new(status(words[0], words[1], Some(uuid))))
        }
        "spoke" => TaskEvent::Spoke(executor(name), rest.as_bytes().to_vec().into()),
        "retire" => TaskEvent::Retire,
        _ => return None,
    })
}

fn said(text: &str) -> Word {
    let words: Vec<&str> = text.split(' ').collect();
    let said = match words[1] {
        "accepted" => Said::Accepted(list(words[2])),
        "ended" => Said::Ended(words[2].parse().unwrap()),
        task_id => Said::Status(Box::new(status(task_id, words[2], None))),
    };
    Word { number: words[0].parse().unwrap(), said }
}

/// What a leader asks: `kill TASK [TIME]`, `acked TASK` (the status that was sent last),
/// `shut-down EXECUTOR`, `gone FRAMEWORK`, `message EXECUTOR TEXT`.
pub(crate) fn instruction(
    word: &str,
    rest: &str,
    sent: impl Fn(&TaskName) -> Option<UpdateId>,
) -> Option<Instruction> {
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(match word {
        "kill" => {
            let TaskName { framework_id, task_id } = task(name);
            let grace = (!rest.is_empty()).then(|| seconds(rest));
            Instruction::Kill { framework_id, task_id, grace }
        }
        "acked" => {
            let name = task(name);
            let uuid = sent(&name).expect("nothing was said of it");
            let TaskName { framework_id, task_id } = name;
            Instruction::AcknowledgeStatus { framework_id, task_id, uuid }
        }
        "shut-down" => Instruction::ShutDownExecutor(executor(name)),
        "gone" => Instruction::ShutDownFramework(framework(name)),
        "message" => Instruction::ExecutorMessage {
            executor: executor(name),
            data: rest.as_bytes().to_vec().into(),
        },
        _ => return None,
    })
}
