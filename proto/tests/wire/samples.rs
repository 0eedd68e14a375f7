//! Domain values with everything in them that the wire can carry.

use resources::id::{
    AgentId, CheckpointId, ClusterId, Incarnation, OperationId, Principal, Seq, Term, VolumeId,
};
use resources::message::{
    AgentInfo, Attribute, AttributeValue, Fence, Outcome, Registration, Settled,
};
use resources::operation::Operation;
use resources::resource::{
    Disk, DiskSource, DiskSourceKind, Label, Labels, Persistence, Reservation, ReservationKind,
    Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::value::{ItemSet, Range, Ranges, Scalar, Value};

fn plain(name: &str, value: Value) -> Resource {
    Resource {
        name: name.into(),
        value,
        reservations: Vec::new(),
        disk: None,
        allocation_role: None,
        revocable: false,
        shared: false,
        provider_id: None,
    }
}

fn reservation(kind: ReservationKind, role: &str) -> Reservation {
    let label = Label { key: "k".into(), value: Some("v".into()) };
    Reservation {
        kind,
        role: Role::parse(role).unwrap(),
        principal: Some(Principal::new("ops")),
        labels: vec![label].into(),
    }
}

/// A volume on a PATH disk with everything that a resource can have.
pub(super) fn volume() -> Resource {
    let disk = Disk {
        source: Some(DiskSource {
            kind: DiskSourceKind::Path,
            root: Some("/data".into()),
            id: Some("id".into()),
            metadata: vec![Label { key: "m".into(), value: None }].into(),
            profile: Some("fast".into()),
            vendor: Some("org".into()),
        }),
        persistence: Some(Persistence {
            id: VolumeId::parse("v1").unwrap(),
            principal: Some(Principal::new("ops")),
        }),
        volume: Some(VolumeMount { container_path: "data".into(), mode: VolumeMode::Rw }),
    };
    Resource {
        reservations: vec![reservation(ReservationKind::Dynamic, "ads")],
        disk: Some(disk),
        allocation_role: Some(Role::parse("ads").unwrap()),
        revocable: true,
        shared: true,
        ..plain("disk", Value::Scalar(Scalar::from_milli(512_001)))
    }
}

pub(super) fn samples() -> Vec<Resource> {
    let ranges =
        Ranges::from_unsorted(vec![Range { begin: 1, end: 5 }, Range { begin: 7, end: u64::MAX }]);
    let items = ItemSet(["b".to_owned(), "a".to_owned()].into());
    let cpus = plain("cpus", Value::Scalar(Scalar::from_milli(1)));
    vec![
        cpus.clone(),
        plain("ports", Value::Ranges(ranges)),
        plain("items", Value::Set(items)),
        Resource {
            reservations: vec![Reservation {
                principal: None,
                labels: Labels::default(),
                ..reservation(ReservationKind::Static, "ads")
            }],
            ..cpus
        },
        volume(),
    ]
}

pub(super) fn refined() -> Resource {
    let reservations = vec![
        reservation(ReservationKind::Static, "ads"),
        reservation(ReservationKind::Dynamic, "ads/web"),
    ];
    Resource { reservations, ..plain("cpus", Value::Scalar(Scalar::from_milli(2_000))) }
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::Reserve { resources: samples(), source: vec![refined()] },
        Operation::Unreserve { resources: samples() },
        Operation::Create { volumes: vec![volume()] },
        Operation::Destroy { volumes: vec![volume()] },
        Operation::Grow { volume: volume(), addition: refined() },
        Operation::Shrink { volume: volume(), subtract: Scalar::from_milli(1_500) },
    ]
}

pub(super) fn fence() -> Fence {
    Fence { cluster_id: ClusterId::parse("c").unwrap(), incarnation: Incarnation(1), term: Term(7) }
}

pub(super) fn registration() -> Registration {
    let settled = |seq, outcome| Settled {
        seq: Seq(seq),
        operation_id: OperationId::parse(format!("7-{seq}")).unwrap(),
        outcome,
    };
    let attributes = [
        AttributeValue::Text("r1".into()),
        AttributeValue::Scalar(Scalar::from_milli(-1_500)),
        AttributeValue::Ranges(Ranges::from_unsorted(vec![Range { begin: 1, end: 2 }])),
    ];
    Registration {
        checkpoint_id: CheckpointId::parse("cp").unwrap(),
        boot_counter: 3,
        agent_id: Some(AgentId::parse("c-S0").unwrap()),
        fence: Some(fence()),
        info: AgentInfo {
            hostname: "host".into(),
            host: "127.0.0.1".into(),
            port: 5051,
            version: "0.1.0".into(),
            attributes: attributes
                .into_iter()
                .map(|value| Attribute { name: "a".into(), value })
                .collect(),
            resources: samples(),
        },
        applied_seq: Seq(2),
        resources_digest: u128::MAX - 1,
        settled: vec![
            settled(1, Outcome::Finished),
            settled(2, Outcome::Failed { reason: "mkdir".into() }),
        ],
        unavailable: vec![volume()],
        tasks: Vec::new(),
        executors: Vec::new(),
    }
}
