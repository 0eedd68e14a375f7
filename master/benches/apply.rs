//! `State::apply` of an operation and its confirmation on an agent that holds 0, 2,000 and 50,000
//! reservations already: the cost of an operation must not grow with what is there.
//! `cargo bench -p holdfast-master --bench apply` prints the ratios first, then the times of each.
//! `cargo bench -p holdfast-master --bench apply -- ratio` prints the ratios alone.
//!
//! Every agent has had 50,000 reservations, and has given back all but those that it holds: what
//! the allocator went through costs as much as the sizes differ by, and must not count as theirs.
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
const SIZES: [u64; 3] = [0, 2_000, MOST];
const MOST: u64 = 50_000;
/// Leads from a reservation to one far from it; prime to the number of all.
const STRIDE: u64 = 23_757;
/// Orders in one report of the agent while its reservations are set up.
const REPORTED_AT_ONCE: u64 = 500;

struct Bench {
    state: State,
    index: u64,
    orders: u64,
    rounds: u64,
}

impl Bench {
    /// An agent with so many reservations, each its own by a label. Their numbers are even and
    /// spread over all, so that a new one stands among them.
    fn new(reservations: u64) -> Self {
        let mut bench = Self { state: State::default(), index: 0, orders: 0, rounds: 0 };
        bench.apply(CommandKind::FormCluster { cluster_id: ClusterId::parse("c").unwrap() });
        bench.apply(CommandKind::RegisterAgent(Box::new(registration())));
        let is_kept = |number: u64| reservations > 0 && number.is_multiple_of(MOST / reservations);
        for number in 0..MOST {
            bench.operate(Operation::Reserve {
                resources: vec![reserved(2 * number)],
                source: Vec::new(),
            });
            bench.confirm_at_times();
        }
        for number in (0..MOST).filter(|number| !is_kept(*number)) {
            bench.operate(Operation::Unreserve { resources: vec![reserved(2 * number)] });
            bench.confirm_at_times();
        }
        bench.confirm();
        assert_eq!(bench.held(), reservations);
        // The memory of ended operations is full in every case: what it costs is the same.
        while bench.orders < 2 * limits::SETTLED_OPERATIONS_MAX as u64 {
            bench.round(Touched::Scattered);
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

    fn confirm_at_times(&mut self) {
        if self.orders.is_multiple_of(REPORTED_AT_ONCE) {
            self.confirm();
        }
    }

    fn held(&self) -> u64 {
        let total = &self.state.agent(&agent_id()).unwrap().total;
        total.iter().filter(|resource| resource.is_reserved()).count() as u64
    }

    /// One reservation, and its end, so that the agent stays as large as it was.
    fn round(&mut self, touched: Touched) {
        let number = match touched {
            Touched::Few => self.rounds % 8 * STRIDE,
            Touched::Scattered => self.rounds * STRIDE,
        };
        self.rounds += 1;
        let resources = vec![reserved((number % (2 * MOST)) | 1)];
        self.operate(Operation::Reserve { resources: resources.clone(), source: Vec::new() });
        self.confirm();
        self.operate(Operation::Unreserve { resources });
        self.confirm();
    }
}

/// Which reservations the rounds make.
#[derive(Debug, Clone, Copy)]
enum Touched {
    /// One of the same eight by turns, which stand in the midst of all. The time is what the
    /// steps cost.
    Few,
    /// Another one each time, anywhere among all. Much of the time goes by until the memory of
    /// its neighbours is in the processor's cache, where that of few reservations stays.
    Scattered,
}

fn agent_id() -> AgentId {
    AgentId::parse("c-S0").unwrap()
}

/// A reservation of its own, by a label.
fn reserved(number: u64) -> Resource {
    let mut resource = Resource::plain("cpus", Value::Scalar(Scalar::from_milli(1)));
    let label = Label { key: "number".to_owned(), value: Some(number.to_string()) };
    resource.reservations.push(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse("held").unwrap(),
        principal: None,
        labels: vec![label].into(),
    });
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
        tasks: Vec::new(),
        executors: Vec::new(),
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
                    bench.round(Touched::Few);
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
                    bench.round(Touched::Few);
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
    const SLICES: usize = 100;
    const ROUNDS: u32 = 500;
    let mut benches = SIZES.map(Bench::new);
    for touched in [Touched::Few, Touched::Scattered] {
        let mut times = SIZES.map(|_| Vec::new());
        for _ in 0..SLICES {
            for (bench, times) in benches.iter_mut().zip(&mut times) {
                let start = Instant::now();
                for _ in 0..ROUNDS {
                    bench.round(touched);
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
            eprintln!(
                "ratio/{touched:?}/{size}: median {median:?}, {percent} % of that of an empty agent"
            );
        }
    }
}

criterion_group!(benches, ratios, reserve_and_confirm, with_readers, freeze);
criterion_main!(benches);
