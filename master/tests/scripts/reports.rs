//! Field reports that no golden script shows well: amounts near the limits of their type, and the
//! help that every kind of refusal gives. The others are the scripts `r01_…` to `v15_…`.

use resources::id::{
    AgentId, ClusterId, FrameworkId, LogIndex, OperationId, Seq, TaskId, VolumeId,
};
use resources::machine::MachineId;
use resources::operation::Operation;
use resources::role::Role;
use resources::value::{Scalar, Value};

use master::state::command::{CommandKind, IdempotencyKey};
use master::state::keys::KeyQuota;
use master::state::rejection::{FrameworkRefusal, MaintenanceRefusal, QuotaRefusal};
use master::state::{RegistrationRefusal, Rejection, Response, TaskName, limits};

use super::lines::command;
use super::notation::list;
use super::state::Play;

/// R05: the largest amounts that there are never overflow, and never become something else.
#[test]
fn r05_largest_amounts_are_refused() {
    let mut play = Play::default();
    play.line("form c");
    play.line("register w1 declares=cpus:9000000000000000;disk:9000000000000000");
    play.line("reserve c-S0 1-1 disk:9000000000000000@r");
    play.line("create c-S0 1-2 disk:4000000000000000@r#v1");
    let before = play.line("show c-S0");
    let max = Scalar::from_milli(i64::MAX);
    let with = |text: &str, amount: Scalar| {
        let mut resource = list(text).remove(0);
        resource.value = Value::Scalar(amount);
        resource
    };
    let volume = list("disk:4000000000000000@r#v1").remove(0);
    let asked = [
        Operation::Reserve { resources: vec![with("cpus:1@r", max)], source: Vec::new() },
        Operation::Reserve { resources: vec![with("cpus:1@r", max); 3], source: Vec::new() },
        Operation::Unreserve { resources: vec![with("disk:1@r", max)] },
        Operation::Unreserve { resources: vec![with("disk:1@r", max); 3] },
        Operation::Create { volumes: vec![with("disk:1@r#v2", max)] },
        Operation::Create { volumes: vec![with("disk:1@r#v2", max), with("disk:1@r#v3", max)] },
        Operation::Destroy { volumes: vec![with("disk:1@r#v1", max)] },
        Operation::Grow { volume: volume.clone(), addition: with("disk:1@r", max) },
        Operation::Grow { volume: with("disk:1@r#v1", max), addition: with("disk:1@r", max) },
        Operation::Shrink { volume: volume.clone(), subtract: max },
        Operation::Shrink { volume, subtract: Scalar::from_milli(i64::MIN) },
        Operation::Reserve {
            resources: vec![with("cpus:1@r", Scalar::from_milli(i64::MIN))],
            source: Vec::new(),
        },
    ];
    for (operation, number) in asked.into_iter().zip(1..) {
        let agent_id = AgentId::parse("c-S0").unwrap();
        let operation_id = OperationId::parse(format!("2-{number}")).unwrap();
        let kind = CommandKind::Operate { agent_id, operation_id, operation };
        let (response, _) = play.apply(&master::state::Command { kind, ..command("form c") });
        let Response::Rejected(rejection) = response else { panic!("{number}: {response}") };
        assert!(!matches!(rejection, Rejection::Fault { .. }), "{number}: {rejection}");
        play.check();
    }
    assert_eq!(play.line("show c-S0"), before);
}

fn registrations() -> Vec<RegistrationRefusal> {
    let cluster_id = || ClusterId::parse("c").unwrap();
    vec![
        RegistrationRefusal::NoCluster,
        RegistrationRefusal::OtherCluster { theirs: cluster_id(), ours: cluster_id() },
        RegistrationRefusal::NewerIncarnation { theirs: 2, ours: 1 },
        RegistrationRefusal::AheadOfLog { applied_seq: Seq(3), given: Seq(2) },
        RegistrationRefusal::NotDeclarable { resource: "cpus:1".to_owned() },
        RegistrationRefusal::OtherDigest,
        RegistrationRefusal::MachineDown { machine: MachineId::parse(Some("h1"), None).unwrap() },
        RegistrationRefusal::Incompatible { reason: "cpus:2 is not there".to_owned() },
    ]
}

/// Tasks in the way, what frameworks may not do, and what roles may not have.
fn about_frameworks() -> Vec<Rejection> {
    let milli = Scalar::from_milli;
    let agent_id = || AgentId::parse("c-S0").unwrap();
    let framework_id = || FrameworkId::parse("c-0000").unwrap();
    let task_id = TaskId::parse("t1").unwrap();
    let tasks = vec![TaskName { framework_id: framework_id(), task_id }];
    let volumes = list("disk:64@ads#v1");
    let mut refusals = vec![
        Rejection::Insufficient {
            agent_id: agent_id(),
            wanted: list("cpus:2@ads"),
            available: list("cpus:1@ads"),
            blocked_by: Vec::new(),
            volumes: Vec::new(),
            tasks: tasks.clone(),
        },
        Rejection::VolumesInUse { agent_id: agent_id(), volumes, tasks },
    ];
    let frameworks = [
        FrameworkRefusal::Unknown,
        FrameworkRefusal::Removed,
        FrameworkRefusal::PrincipalChanged,
        FrameworkRefusal::UserChanged,
        FrameworkRefusal::CheckpointChanged,
    ];
    let quotas = [
        QuotaRefusal::Invalid { reason: "cpus:-1 is negative".to_owned() },
        QuotaRefusal::Exists,
        QuotaRefusal::Absent,
        QuotaRefusal::Consumed { name: "cpus".to_owned(), limit: milli(1), consumed: milli(2) },
        QuotaRefusal::Overcommitted {
            name: "cpus".to_owned(),
            wanted: milli(3),
            capacity: milli(2),
            by_old_call: false,
        },
    ];
    let role = Role::parse("ads").unwrap();
    let machine = || MachineId::parse(Some("h1"), None).unwrap();
    let maintenance = [
        MaintenanceRefusal::Invalid { reason: "a list of machines is empty".to_owned() },
        MaintenanceRefusal::Dropped { machine: machine() },
        MaintenanceRefusal::NotDraining { machine: machine() },
        MaintenanceRefusal::NotDown { machine: machine() },
    ];
    refusals.extend(maintenance.map(|refusal| Rejection::Maintenance { refusal }));
    refusals.extend(quotas.map(|refusal| Rejection::Quota { role: role.clone(), refusal }));
    refusals.extend(
        frameworks.map(|refusal| Rejection::Framework { framework_id: framework_id(), refusal }),
    );
    refusals
}

/// One of each kind, and each registration's.
fn refusals() -> Vec<Rejection> {
    let agent_id = || AgentId::parse("c-S0").unwrap();
    let cluster_id = || ClusterId::parse("c").unwrap();
    let operation_id = || OperationId::parse("2-1").unwrap();
    let volume = || list("disk:64@ads#v1").remove(0);
    let insufficient =
        |wanted: &str, available: &str, is_pending: bool, volumes: &str| Rejection::Insufficient {
            agent_id: agent_id(),
            wanted: list(wanted),
            available: list(available),
            blocked_by: is_pending.then(operation_id).into_iter().collect(),
            volumes: list(volumes),
            tasks: Vec::new(),
        };
    let missing = |available: &str| Rejection::VolumesNotFound {
        agent_id: agent_id(),
        volumes: vec![volume()],
        available: list(available),
    };
    let key = IdempotencyKey::parse("k1").unwrap();
    let full = |quota| Rejection::KeyTableFull {
        quota,
        keys: 20_000,
        keys_max: limits::KEYS_PER_PRINCIPAL_MAX,
        bytes: 1,
        bytes_max: limits::OUTCOME_BYTES_PER_PRINCIPAL_MAX,
    };
    let kinds = vec![
        Rejection::UnknownAgent { agent_id: agent_id() },
        Rejection::Invalid {
            agent_id: agent_id(),
            operation: "RESERVE".to_owned(),
            reason: "resources[1]: negative".to_owned(),
        },
        Rejection::VolumeExists {
            agent_id: agent_id(),
            role: Role::parse("ads").unwrap(),
            volume_id: VolumeId::parse("v1").unwrap(),
            existing: Box::new(volume()),
        },
        missing(""),
        missing("disk:32@ads#v1"),
        insufficient("cpus:2@ads", "", false, ""),
        insufficient("cpus:2@ads", "cpus:1@ads", false, ""),
        insufficient("cpus:2", "cpus:1", true, ""),
        insufficient("disk:80@ads", "disk:16@ads", false, "disk:64@ads#v1"),
        insufficient("disk:8@ads%mount:/m1", "disk:64@ads%mount:/m1", false, ""),
        Rejection::SharesRemain { agent_id: agent_id(), volume: Box::new(volume()), shares: 2 },
        Rejection::Overloaded { agent_id: agent_id(), pending: 4_096 },
        Rejection::Regressed { agent_id: agent_id(), applied_seq: Seq(1), confirmed_seq: Seq(2) },
        Rejection::Diverged { agent_id: agent_id() },
        Rejection::VersionMoved { agent_id: agent_id(), wanted: 3, found: 4 },
        Rejection::DuplicateOperation { operation_id: operation_id() },
        Rejection::KeyReused { key, index: LogIndex(7) },
        full(KeyQuota::Cluster),
        full(KeyQuota::Caller(None)),
        Rejection::TooLarge { bytes: 9, bytes_max: 8 },
        Rejection::TransactionSize { operations: 1_025 },
        Rejection::ClusterFormed { cluster_id: cluster_id() },
        Rejection::NeverGiven { agent_id: agent_id(), upto: Seq(9), given: Seq(8) },
        Rejection::Fault { index: LogIndex(7), what: "changes the quantity".to_owned() },
    ];
    let registrations = registrations().into_iter().map(Rejection::Registration);
    let plain: Vec<Rejection> =
        kinds.into_iter().chain(registrations).chain(about_frameworks()).collect();
    let member = |rejection: &Rejection| Rejection::Member {
        position: 3,
        rejection: Box::new(rejection.clone()),
    };
    plain.iter().map(member).chain(plain.iter().cloned()).collect()
}

/// U02: each refusal names its object, what was wanted and is there, what stands in the way, and
/// the next step in one sentence.
#[test]
fn u02_every_refusal_helps() {
    let refusals = refusals();
    assert!(refusals.len() >= 60);
    for rejection in &refusals {
        let message = rejection.to_string();
        assert!(!rejection.object().is_empty(), "{message}");
        let hint = rejection.hint();
        let starts_upper = hint.chars().next().is_some_and(char::is_uppercase);
        assert!(starts_upper && !hint.ends_with('.') && hint.len() > 15, "{message}: {hint}");
        // What is about an agent names it, everywhere.
        if let Some(agent_id) = rejection.agent_id() {
            assert!(rejection.object().contains(agent_id.as_str()), "{message}");
        }
        let is_fault = matches!(rejection.root(), Rejection::Fault { .. });
        assert!(is_fault || !rejection.wanted().is_empty(), "{message}");
        let is_bounded = matches!(
            rejection.root(),
            Rejection::Overloaded { .. }
                | Rejection::KeyTableFull { .. }
                | Rejection::TooLarge { .. }
                | Rejection::TransactionSize { .. }
                | Rejection::VersionMoved { .. }
                | Rejection::Regressed { .. }
                | Rejection::NeverGiven { .. }
        );
        if is_bounded {
            for text in [rejection.wanted(), rejection.available()].concat() {
                assert!(text.contains(|c: char| c.is_ascii_digit()), "{message}: {text}");
            }
            assert!(!rejection.available().is_empty(), "{message}");
        }
        if let Rejection::Insufficient { blocked_by, volumes, tasks, wanted, .. } = rejection.root()
        {
            let blocking = blocked_by.len() + volumes.len() + tasks.len();
            assert_eq!(rejection.blocked_by().len(), blocking);
            assert_eq!(rejection.wanted().len(), wanted.len());
        }
        // What is kept under a key is what the state decided.
        assert_eq!(rejection.is_kept_under_key(), rejection.root().is_kept_under_key());
        assert_eq!(rejection.is_retryable(), rejection.root().is_retryable());
    }
}
