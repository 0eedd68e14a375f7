//! What no command can bring about from outside: a broken invariant, and memories that are
//! full. The states here are made by hand.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::id::{CheckpointId, Principal, Seq};
use resources::message::{AgentInfo, Registration};
use resources::operation::Operation;
use resources::parse::resources_text;
use resources::resource::{Labels, Reservation, ReservationKind, Resource};
use resources::role::Role;

use super::transactions::{Member, TransactionState};
use super::*;

fn plain(text: &str) -> Vec<Resource> {
    resources_text(text, &Role::star()).unwrap().iter().cloned().collect()
}

fn reserved(text: &str) -> Vec<Resource> {
    let level = Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse("ads").unwrap(),
        principal: None,
        labels: Labels::default(),
    };
    plain(text).into_iter().map(|resource| resource.push_reservation(level.clone())).collect()
}

fn reserve(text: &str) -> Operation {
    Operation::Reserve { resources: reserved(text), source: Vec::new() }
}

fn unreserve(text: &str) -> Operation {
    Operation::Unreserve { resources: reserved(text) }
}

pub(crate) fn agent_id() -> AgentId {
    AgentId::parse("c-S0").unwrap()
}

fn operation_id(text: impl Into<String>) -> OperationId {
    OperationId::parse(text).unwrap()
}

fn operate(id: &str, operation: Operation) -> CommandKind {
    CommandKind::Operate { agent_id: agent_id(), operation_id: operation_id(id), operation }
}

struct Log {
    state: State,
    index: u64,
}

impl Log {
    fn new(declared: &str) -> Self {
        let mut log = Self { state: State::default(), index: 0 };
        log.apply(CommandKind::FormCluster { cluster_id: ClusterId::parse("c").unwrap() });
        let declared = plain(declared);
        let held: Resources = declared.iter().collect();
        let registration = Registration {
            checkpoint_id: CheckpointId::parse("w1").unwrap(),
            boot_counter: 1,
            agent_id: None,
            fence: None,
            info: AgentInfo {
                hostname: "h1".to_owned(),
                host: "h1".to_owned(),
                port: 5051,
                version: "0.1.0".to_owned(),
                attributes: Vec::new(),
                resources: declared,
            },
            applied_seq: Seq(0),
            resources_digest: held.digest(),
            settled: Vec::new(),
            unavailable: Vec::new(),
            tasks: Vec::new(),
            executors: Vec::new(),
        };
        log.apply(CommandKind::RegisterAgent(Box::new(registration)));
        log
    }

    fn apply(&mut self, kind: CommandKind) -> (Response, Vec<Effect>) {
        self.index += 1;
        let at = Timestamp::from_nanos(self.index);
        let now = Moment { index: LogIndex(self.index), clock: at, wall: at };
        let command = Command {
            principal: None,
            source: SourceAddr("test".to_owned()),
            key: None,
            if_versions: BTreeMap::new(),
            kind,
        };
        self.state.apply(now, &command)
    }

    fn confirm(&mut self, upto: u64) {
        let (agent_id, upto) = (agent_id(), Seq(upto));
        let confirm = CommandKind::Confirm { agent_id, upto, exceptions: BTreeMap::new() };
        assert_eq!(self.apply(confirm).0, Response::Done);
    }
}

/// A state in which the ports 5 to 10 exist twice: giving the reserved ones back would lose
/// some of them. No command leads here.
pub(crate) fn corrupted() -> State {
    let mut log = Log::new("ports:[1-10]");
    log.apply(operate("1-1", reserve("ports:[1-10]")));
    let agent = Arc::make_mut(log.state.agents.get_mut(&agent_id()).unwrap());
    plain("ports:[5-15]").iter().for_each(|twice| agent.total.add(twice));
    log.state
}

/// The operation that breaks an invariant of [`corrupted`].
pub(crate) fn breaking() -> Operation {
    unreserve("ports:[1-10]")
}

#[test]
fn broken_invariant_is_a_fault_and_changes_nothing() {
    let member =
        |operation| Member { agent_id: agent_id(), operation_id: operation_id("2-1.1"), operation };
    let transaction_id = TransactionId::parse("2-1").unwrap();
    let breaking = breaking();
    let kinds = [
        operate("2-1", breaking.clone()),
        CommandKind::Transact { transaction_id, members: vec![member(breaking)] },
    ];
    for kind in kinds {
        let state = corrupted();
        let before = state.freeze();
        let mut log = Log { state, index: 7 };
        let (response, effects) = log.apply(kind);
        let Response::Rejected(rejection) = response else { panic!("{response}") };
        let Rejection::Fault { index, what } = rejection.root() else { panic!("{rejection}") };
        assert_eq!(*index, LogIndex(8));
        assert!(what.contains("changes the quantity of 'ports'"), "{what}");
        assert!(matches!(&effects[..], [Effect::Change(Change::AlarmRaised(_))]), "{effects:?}");
        assert_eq!(log.state.alarms().count(), 1);
        assert!(log.state.agents().eq(before.agents()));
        assert!(log.state.operations().eq(before.operations()));
        assert!(log.state.transactions().eq(before.transactions()));
        // The agent goes on: what breaks nothing is accepted.
        let agent = log.state.agent(&agent_id()).unwrap();
        assert_eq!(agent.check(None, &unreserve("ports:[1-2]")), Ok(()));
    }
}

/// Ended operations beyond the limit are forgotten, the oldest first, pending ones never. A
/// transaction goes with the last of its operations.
#[test]
fn memory_of_operations_is_bounded() {
    let mut log = Log::new("cpus:4");
    let transaction_id = TransactionId::parse("1-1").unwrap();
    let member = |number: u64, operation| Member {
        agent_id: agent_id(),
        operation_id: operation_id(format!("1-1.{number}")),
        operation,
    };
    let members = vec![member(1, reserve("cpus:1")), member(2, reserve("cpus:1"))];
    log.apply(CommandKind::Transact { transaction_id: transaction_id.clone(), members });
    log.apply(operate("1-2", unreserve("cpus:1")));
    log.apply(operate("1-3", unreserve("cpus:1")));
    log.confirm(2);
    // As if so many others had ended since.
    let record = log.state.operation(&operation_id("1-1.1")).unwrap().clone();
    for number in 0..limits::SETTLED_OPERATIONS_MAX as u64 - 2 {
        let other = operation_id(format!("0-{number}"));
        let record =
            OperationRecord { operation_id: other.clone(), transaction_id: None, ..record.clone() };
        log.state.operations.insert_mut(other.clone(), Arc::new(record));
        log.state.settled.insert_mut(log.state.settled_next, other);
        log.state.settled_next += 1;
    }
    let is_known = |log: &Log, id: &str| log.state.operation(&operation_id(id)).is_some();
    assert!(is_known(&log, "1-1.1") && is_known(&log, "1-1.2"));
    let state = |log: &Log| log.state.transaction(&transaction_id).map(TransactionRecord::state);

    log.confirm(3);
    assert!(!is_known(&log, "1-1.1") && is_known(&log, "1-1.2") && is_known(&log, "0-0"));
    assert_eq!(state(&log), Some(TransactionState::Finished));

    log.confirm(4);
    assert!(!is_known(&log, "1-1.2") && is_known(&log, "0-0") && is_known(&log, "1-3"));
    assert_eq!(state(&log), None);
    assert_eq!(log.state.settled.size(), limits::SETTLED_OPERATIONS_MAX);
    assert_eq!(log.state.operations().count(), limits::SETTLED_OPERATIONS_MAX);
}

/// Kept outcomes are bounded by their size too, before their number is reached.
#[test]
fn memory_of_outcomes_is_bounded() {
    let mut table = KeyTable::default();
    let principal = Some(Principal::new("ops"));
    let now = Moment {
        index: LogIndex(1),
        clock: Timestamp::from_nanos(0),
        wall: Timestamp::from_nanos(0),
    };
    let text = "x".repeat(1 << 10);
    let large = Rejection::UnknownAgent { agent_id: agent_id() };
    let response =
        Response::Rejected(Rejection::Member { position: 0, rejection: Box::new(large) });
    let command = |kind| Command {
        principal: principal.clone(),
        source: SourceAddr("test".to_owned()),
        key: None,
        if_versions: BTreeMap::new(),
        kind,
    };
    let name = |number: u64, principal: &Option<Principal>| KeyName {
        principal: principal.clone(),
        key: command::IdempotencyKey::parse(format!("k{number}")).unwrap(),
    };
    let asked = command(CommandKind::RaiseAlarm { agent_id: Some(agent_id()), text });
    // The size that counts is that of the outcome, not of the command.
    let looked = table.look_up(&name(0, &principal), &asked).unwrap();
    let Looked::Fresh(digest) = looked else { panic!("unknown key") };
    table.keep(now, name(0, &principal), digest, &response);
    let own = codec::encoded_bytes(table.iter().next().unwrap());
    assert!(own < 512, "{own}");

    let mut wanted = reserved("cpus:1");
    wanted[0].name = "x".repeat(1 << 20);
    let large = Response::Rejected(Rejection::Insufficient {
        agent_id: agent_id(),
        wanted,
        available: Vec::new(),
        blocked_by: Vec::new(),
        volumes: Vec::new(),
        tasks: Vec::new(),
    });
    let mut number = 1;
    while table.look_up(&name(number, &principal), &asked).is_ok() {
        table.keep(now, name(number, &principal), digest, &large);
        number += 1;
    }
    assert_eq!(number, 33, "outcomes of a megabyte");
    match table.look_up(&name(number, &principal), &asked) {
        Err(Rejection::KeyTableFull { quota, bytes, bytes_max, .. }) => {
            assert_eq!(quota, keys::KeyQuota::Caller(principal.clone()));
            assert!(bytes >= bytes_max);
        }
        other => panic!("{other:?}"),
    }
    assert!(table.look_up(&name(number, &None), &asked).is_ok(), "others go on");
    assert!(table.look_up(&name(1, &principal), &asked).is_ok(), "what is kept is repeated");
}
