//! `State::apply` of a RESERVE and its confirmation on an agent that holds 0, 2,000 and 50,000
//! reservations already: the cost of an operation must not grow with what is there.
//! `cargo bench -p holdfast-master --bench apply` prints the times, and the ratio of each to the
//! smallest agent's.
#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]
#![allow(clippy::unwrap_used, reason = "a benchmark stops where it fails")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use master::state::command::{Command, CommandKind, SourceAddr};
use master::state::{Frozen, Moment, Response, State, limits};
use resources::collection::Resources;
use resources::id::{AgentId, CheckpointId, ClusterId, LogIndex, OperationId, Seq};
use resources::message::{AgentInfo, Registration};
use resources::operation::Operation;
use resources::resource::{Label, Reservation, ReservationKind, Resource};
use resources::role::Role;
use resources::time::Timestamp;
use resources::value::{Scalar, Value};

/// Reservations that are there before.
const SIZES: [u64; 3] = [0, 2_000, 50_000];
/// Orders in one report of the agent while its reservations are set up.
const REPORTED_AT_ONCE: u64 = 500;

struct Bench {
    state: State,
    index: u64,
    orders: u64,
}

impl Bench {
    /// An agent with so many reservations, each its own by a label.
    fn new(reservations: u64) -> Self {
        let mut bench = Self { state: State::default(), index: 0, orders: 0 };
        bench.apply(CommandKind::FormCluster { cluster_id: ClusterId::parse("c").unwrap() });
        bench.apply(CommandKind::RegisterAgent(Box::new(registration())));
        for number in 0..reservations {
            bench.operate(Operation::Reserve {
                resources: vec![cpus("held", Some(number))],
                source: Vec::new(),
            });
            if number % REPORTED_AT_ONCE == 0 {
                bench.confirm();
            }
        }
        bench.confirm();
        // The memory of ended operations is full in every case: what it costs is the same.
        while bench.orders < 2 * limits::SETTLED_OPERATIONS_MAX as u64 {
            bench.round();
        }
        bench
    }

    fn apply(&mut self, kind: CommandKind) -> Response {
        self.index += 1;
        let at = Timestamp::from_nanos(self.index);
        let now = Moment { index: LogIndex(self.index), clock: at, wall: at };
        let (source, if_versions) = (SourceAddr("bench".to_owned()), BTreeMap::new());
        let command = Command { principal: None, source, key: None, if_versions, kind };
        self.state.apply(now, &command).0
    }

    fn operate(&mut self, operation: Operation) {
        self.orders += 1;
        let operation_id = OperationId::parse(format!("1-{}", self.orders)).unwrap();
        let response =
            self.apply(CommandKind::Operate { agent_id: agent_id(), operation_id, operation });
        assert!(matches!(response, Response::Accepted { .. }), "{response}");
    }

    fn confirm(&mut self) {
        let (agent_id, upto) = (agent_id(), Seq(self.orders));
        let response =
            self.apply(CommandKind::Confirm { agent_id, upto, exceptions: BTreeMap::new() });
        assert_eq!(response, Response::Done);
    }

    /// One reservation, and its end, so that the agent stays as large as it was.
    fn round(&mut self) {
        let resources = vec![cpus("fresh", Some(0))];
        self.operate(Operation::Reserve { resources: resources.clone(), source: Vec::new() });
        self.confirm();
        self.operate(Operation::Unreserve { resources });
        self.confirm();
    }
}

fn agent_id() -> AgentId {
    AgentId::parse("c-S0").unwrap()
}

fn cpus(role: &str, number: Option<u64>) -> Resource {
    let mut resource = Resource::plain("cpus", Value::Scalar(Scalar::from_milli(1)));
    if let Some(number) = number {
        let label = Label { key: "number".to_owned(), value: Some(number.to_string()) };
        resource.reservations.push(Reservation {
            kind: ReservationKind::Dynamic,
            role: Role::parse(role).unwrap(),
            principal: None,
            labels: vec![label].into(),
        });
    }
    resource
}

fn registration() -> Registration {
    let declared = vec![Resource::plain("cpus", Value::Scalar(Scalar::from_milli(1_000_000)))];
    let held: Resources = declared.iter().cloned().collect();
    Registration {
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
    }
}

/// Half the time of a round: one operation and its confirmation.
fn reserve_and_confirm(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reserve_and_confirm");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for size in SIZES {
        let mut bench = Bench::new(size);
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter_custom(|times| {
                let start = Instant::now();
                for _ in 0..times {
                    bench.round();
                }
                start.elapsed() / 2
            });
        });
    }
    group.finish();
}

/// The same while every operation is followed by a frozen image that a reader still holds.
fn with_readers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reserve_and_confirm_under_readers");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for size in SIZES {
        let mut bench = Bench::new(size);
        let mut frozen: Frozen = bench.state.freeze();
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter_custom(|times| {
                let start = Instant::now();
                for _ in 0..times {
                    bench.round();
                    frozen = bench.state.freeze();
                }
                start.elapsed() / 2
            });
        });
        black_box(&frozen);
    }
    group.finish();
}

/// An image of the whole state.
fn freeze(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("freeze");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(1));
    for size in SIZES {
        let bench = Bench::new(size);
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| black_box(bench.state.freeze()));
        });
    }
    group.finish();
}

/// The ratios alone. The sizes take turns in short slices, so that whatever else this machine
/// does hits them alike.
fn ratios(_: &mut Criterion) {
    const SLICES: usize = 300;
    const ROUNDS: u32 = 100;
    let mut benches = SIZES.map(Bench::new);
    let mut times = SIZES.map(|_| Vec::new());
    for _ in 0..SLICES {
        for (bench, times) in benches.iter_mut().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                bench.round();
            }
            times.push(start.elapsed() / (2 * ROUNDS));
        }
    }
    let medians = times.map(|mut times| {
        times.sort_unstable();
        times[SLICES / 2]
    });
    for (size, median) in SIZES.into_iter().zip(medians) {
        let percent = median.as_nanos() * 100 / medians[0].as_nanos();
        eprintln!("ratio/{size}: median {median:?}, {percent} % of that of an empty agent");
    }
}

criterion_group!(benches, ratios, reserve_and_confirm, with_readers, freeze);
criterion_main!(benches);
