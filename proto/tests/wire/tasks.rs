//! The part of `holdfast/agent.proto` that is about tasks: what is sent comes back as it was,
//! and what has no meaning is refused.

use std::time::Duration;

use prost::Message as _;
use proto::convert::InvalidWire;
use proto::convert::agent::{master_from_wire, master_to_wire};
use proto::holdfast::agent as wire;
use resources::id::{AgentId, ExecutorId, FrameworkId, OperationId, Seq, TaskId, UpdateId};
use resources::message::{
    AgentMessage, ExecutorExit, Instruction, MasterMessage, Order, Registration,
};
use resources::opaque::Opaque;
use resources::operation::Operation;
use resources::role::Role;
use resources::task::{
    ExecutorInfo, ExecutorName, Launch, StatusReason, StatusSource, StatusUpdate, TaskInfo,
    TaskReport, TaskState, TaskStatus,
};
use resources::time::Timestamp;

use crate::samples::{fence, registration, samples};

fn framework_id() -> FrameworkId {
    FrameworkId::parse("c-0001").unwrap()
}

fn task_id(text: &str) -> TaskId {
    TaskId::parse(text).unwrap()
}

fn executor() -> ExecutorName {
    ExecutorName { framework_id: framework_id(), executor_id: ExecutorId::parse("e").unwrap() }
}

fn bytes(bytes: &[u8]) -> Opaque {
    bytes.to_vec().into()
}

fn launches() -> Vec<Launch> {
    let task = |name: &str| TaskInfo {
        task_id: task_id(name),
        name: "shown".to_owned(),
        resources: samples(),
        wire: bytes(b"task"),
    };
    let command = Launch {
        framework_id: framework_id(),
        framework: bytes(b"framework"),
        role: Role::parse("ads/web").unwrap(),
        executor: None,
        is_executor_new: false,
        tasks: vec![task("t1")],
        is_group: false,
    };
    let executor_info = ExecutorInfo {
        executor_id: ExecutorId::parse("e").unwrap(),
        resources: samples(),
        wire: bytes(b"executor"),
    };
    let group = Launch {
        executor: Some(executor_info),
        is_executor_new: true,
        tasks: vec![task("t1"), task("t2")],
        is_group: true,
        ..command.clone()
    };
    vec![command, group]
}

fn status() -> TaskStatus {
    TaskStatus {
        task_id: task_id("t1"),
        state: TaskState::Failed,
        agent_id: Some(AgentId::parse("c-S0").unwrap()),
        executor_id: Some(ExecutorId::parse("e").unwrap()),
        source: StatusSource::Agent,
        reason: Some(StatusReason::ContainerLimitationMemory),
        message: Some("too much".to_owned()),
        uuid: Some(UpdateId([7; 16])),
        at: Timestamp::from_nanos(1_500_000_000),
        unreachable_at: Some(Timestamp::from_nanos(5)),
        healthy: Some(false),
        data: bytes(&[0, 1, 2]),
        wire: Opaque::default(),
    }
}

fn agent_messages() -> Vec<AgentMessage> {
    let report = TaskReport {
        framework_id: framework_id(),
        task_id: task_id("t1"),
        state: TaskState::Running,
    };
    let registration =
        Registration { tasks: vec![report], executors: vec![executor()], ..registration() };
    let update = StatusUpdate {
        framework_id: framework_id(),
        status: status(),
        latest: TaskState::Finished,
    };
    let exit = ExecutorExit { executor: executor(), status: 9 };
    vec![
        AgentMessage::Register(Box::new(registration)),
        AgentMessage::Statuses(vec![update]),
        AgentMessage::Exited(vec![exit]),
        AgentMessage::FrameworkMessage { executor: executor(), data: bytes(&[0, 255]) },
    ]
}

fn instructions() -> Vec<Instruction> {
    vec![
        Instruction::Kill {
            framework_id: framework_id(),
            task_id: task_id("t1"),
            grace: Some(Duration::from_millis(1_500)),
        },
        Instruction::Kill { framework_id: framework_id(), task_id: task_id("t1"), grace: None },
        Instruction::ShutDownExecutor(executor()),
        Instruction::ShutDownFramework(framework_id()),
        Instruction::UpdateFramework { framework_id: framework_id(), info: bytes(b"framework") },
        Instruction::AcknowledgeStatus {
            framework_id: framework_id(),
            task_id: task_id("t1"),
            uuid: UpdateId([7; 16]),
        },
        Instruction::ExecutorMessage { executor: executor(), data: bytes(&[0, 255]) },
    ]
}

#[test]
fn what_agents_say_of_tasks_comes_back() {
    for message in agent_messages() {
        let bytes = wire::AgentEnvelope::from(&message).encode_to_vec();
        let envelope = wire::AgentEnvelope::decode(&bytes[..]).unwrap();
        assert_eq!(AgentMessage::try_from(envelope), Ok(message));
    }
}

#[test]
fn launches_and_instructions_come_back() {
    let orders = launches().into_iter().zip(1..).map(|(launch, seq)| Order {
        seq: Seq(seq),
        operation_id: OperationId::parse(format!("7-{seq}")).unwrap(),
        operation: Operation::Launch(Box::new(launch)),
    });
    let orders = MasterMessage::Orders(orders.collect());
    let instructions = instructions().into_iter().map(MasterMessage::Instruct);
    for message in instructions.chain([orders]) {
        let bytes = master_to_wire(&fence(), &message).encode_to_vec();
        let envelope = wire::MasterEnvelope::decode(&bytes[..]).unwrap();
        assert_eq!(master_from_wire(envelope), Ok((fence(), message)));
    }
}

#[test]
fn statuses_without_meaning_are_refused() {
    let refused = |break_it: &dyn Fn(&mut wire::StatusUpdate)| {
        let update = StatusUpdate {
            framework_id: framework_id(),
            status: status(),
            latest: TaskState::Running,
        };
        let mut update = wire::StatusUpdate::from(&update);
        break_it(&mut update);
        StatusUpdate::try_from(update).unwrap_err()
    };
    let of = |update: &mut wire::StatusUpdate, uuid: &'static [u8]| {
        update.status.as_mut().unwrap().uuid = Some(uuid.into());
    };
    assert_eq!(refused(&|update| update.status = None), InvalidWire::Absent("status"));
    assert_eq!(
        refused(&|update| update.latest = 99),
        InvalidWire::Enumerator { field: "latest", found: 99 },
    );
    assert_eq!(refused(&|update| of(update, &[1, 2])), InvalidWire::Uuid { bytes: 2 });
    assert!(matches!(
        refused(&|update| update.framework_id = "a/b".to_owned()),
        InvalidWire::Id { field: "framework_id", .. }
    ));
}
