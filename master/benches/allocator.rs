//! Time of one allocation cycle (goals S2 to S4). Prints medians and growth exponents; no test
//! fails on them. `cargo bench --bench allocator`.
#![allow(clippy::unwrap_used, reason = "a benchmark panics where it fails")]
#![expect(clippy::print_stdout, reason = "the numbers are what it is for")]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use master::allocator::calls::Given;
use master::allocator::view::{AgentResources, FrameworkView, Standing};
use master::allocator::{Allocation, Allocator, Settings};
use resources::collection::Resources;
use resources::id::{AgentId, FrameworkId};
use resources::parse;
use resources::role::Role;
use resources::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

struct Cluster {
    allocator: Allocator,
    now: Timestamp,
    given: Vec<Allocation>,
}

impl Cluster {
    /// Agents with `reserved` reservations each for roles that nobody has, and frameworks in
    /// `roles` roles.
    fn new(agents: usize, frameworks: usize, roles: usize, reserved: usize) -> Self {
        let mut allocator = Allocator::new(Settings::default());
        for number in 0..frameworks {
            let framework_id = FrameworkId::parse(format!("c-{number:04}")).unwrap();
            let role = Role::parse(format!("role-{}", number % roles)).unwrap();
            let view = FrameworkView { roles: [role].into(), ..FrameworkView::default() };
            allocator.framework_changed(&framework_id, view);
            allocator.framework_standing(&framework_id, Standing::Active);
        }
        let total = total(reserved);
        for number in 0..agents {
            let agent_id = AgentId::parse(format!("c-S{number}")).unwrap();
            let resources = AgentResources { total: total.clone(), ..AgentResources::default() };
            allocator.agent_resources(&agent_id, resources);
            allocator.agent_standing(&agent_id, Standing::Active);
        }
        while allocator.rebuild(1_000) > 0 {}
        Self { allocator, now: Timestamp::default(), given: Vec::new() }
    }
    fn cycle(&mut self) -> Duration {
        self.now = self.now + Duration::from_secs(1);
        let start = Clock::now();
        let given = self.allocator.allocate(self.now);
        let took = start.elapsed();
        self.given.extend(given);
        took
    }
    /// Every framework declines everything: the next cycle has the whole cluster to give.
    fn decline_all(&mut self, refuse: Duration) -> usize {
        let mut parts = 0;
        for allocation in std::mem::take(&mut self.given) {
            for part in &allocation.parts {
                parts += 1;
                let given = Given {
                    framework_id: &allocation.framework_id,
                    role: &allocation.role,
                    agent_id: &part.agent_id,
                    resources: &part.resources,
                };
                self.allocator.decline(given, refuse, self.now);
            }
        }
        parts
    }
}

/// Time of this thread on a processor: others on the machine do not count.
struct Clock(Duration);

impl Clock {
    fn read() -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
    }
    fn now() -> Self {
        Self(Self::read())
    }
    fn elapsed(&self) -> Duration {
        Self::read() - self.0
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn full_cycle(agents: usize, frameworks: usize, roles: usize, reserved: usize) -> Duration {
    let mut cluster = Cluster::new(agents, frameworks, roles, reserved);
    let times = (0..9).map(|_| {
        let took = cluster.cycle();
        assert_eq!(cluster.decline_all(Duration::ZERO), agents);
        took
    });
    median(times.collect())
}

/// Telling of one operation on an agent; the work is done once per cycle, not per operation.
fn one_operation(reserved: usize) -> Duration {
    let mut cluster = Cluster::new(1, 1, 1, reserved);
    let agent_id = AgentId::parse("c-S0").unwrap();
    let mut own = AgentResources { total: total(reserved), ..AgentResources::default() };
    let times = (0..1_001).map(|_| {
        let part = parse::resources_text("cpus:0.001", &Role::star()).unwrap();
        own.total.subtract_all(&part);
        let told = own.clone();
        let start = Clock::now();
        cluster.allocator.agent_resources(&agent_id, told);
        start.elapsed()
    });
    median(times.collect())
}

fn total(reserved: usize) -> Resources {
    let mut text = "cpus:24;mem:4096;disk:4096;ports:[31000-32000]".to_owned();
    for number in 0..reserved {
        text += &format!(";disk(other-{number}):64");
    }
    parse::resources_text(&text, &Role::star()).unwrap()
}

fn exponent(small: Duration, large: Duration, factor: f64) -> f64 {
    (large.as_secs_f64() / small.as_secs_f64()).ln() / factor.ln()
}

fn print_table() {
    println!("S2, all agents offered in one cycle (median of 9)");
    for (agents, frameworks) in [(10_000, 200), (10_000, 1_000), (50_000, 1_000)] {
        for roles in [1, 50] {
            let took = full_cycle(agents, frameworks, roles, 0);
            println!(
                "  {agents:>6} agents {frameworks:>5} frameworks {roles:>3} roles {took:>10.1?}"
            );
        }
    }
    println!("S2 with filters, all declined for an hour each cycle (first, median, last of 20)");
    for (agents, frameworks) in [(10_000, 200), (10_000, 1_000), (50_000, 1_000)] {
        let mut cluster = Cluster::new(agents, frameworks, 1, 0);
        let times: Vec<Duration> = (0..20)
            .map(|_| {
                let took = cluster.cycle();
                cluster.decline_all(Duration::from_secs(3_600));
                took
            })
            .collect();
        let (first, last) = (times[0], times[19]);
        let middle = median(times);
        let times = format!("{first:>10.1?} {middle:>10.1?} {last:>10.1?}");
        println!("  {agents:>6} agents {frameworks:>5} frameworks {times}");
    }
    println!("S4, growth exponents");
    let base = full_cycle(10_000, 200, 1, 0);
    let agents = full_cycle(50_000, 200, 1, 0);
    println!("  agents 10k -> 50k: {:.2}", exponent(base, agents, 5.0));
    let few = full_cycle(10_000, 100, 1, 0);
    let many = full_cycle(10_000, 6_000, 1, 0);
    println!("  frameworks 100 -> 6k: {:.2} ({few:.1?} -> {many:.1?})", exponent(few, many, 60.0));
    let (few, many) = (one_operation(10), one_operation(1_750));
    println!(
        "  reservations 10 -> 1750, one operation: {:.2} ({few:.1?} -> {many:.1?})",
        exponent(few, many, 175.0)
    );
    let few = full_cycle(2_000, 100, 1, 10);
    let many = full_cycle(2_000, 100, 1, 200);
    println!(
        "  idle reservations 10 -> 200, a cycle: {:.2} ({few:.1?} -> {many:.1?})",
        exponent(few, many, 20.0)
    );
    println!("Rebuild after an election, slices of 500 agents with 10 reservations");
    print_rebuild();
}

fn print_rebuild() {
    let mut cluster = Cluster::new(0, 1_000, 1, 0);
    let mut text = "cpus:24;mem:4096;disk:4096;ports:[31000-32000]".to_owned();
    for number in 0..10 {
        text += &format!(";disk(role-{number}):64");
    }
    let total: Resources = parse::resources_text(&text, &Role::star()).unwrap();
    let ids: Vec<AgentId> =
        (0..50_000).map(|number| AgentId::parse(format!("c-S{number}")).unwrap()).collect();
    let (mut slices, begin) = (Vec::new(), Clock::now());
    for slice in ids.chunks(500) {
        let start = Clock::now();
        for agent_id in slice {
            let resources = AgentResources { total: total.clone(), ..AgentResources::default() };
            cluster.allocator.agent_resources(agent_id, resources);
            cluster.allocator.agent_standing(agent_id, Standing::Active);
        }
        cluster.allocator.rebuild(usize::MAX);
        slices.push(start.elapsed());
    }
    let (whole, longest) = (begin.elapsed(), slices.iter().max().copied().unwrap_or_default());
    println!(
        "  50000 agents {whole:.1?}, median slice {:.1?}, longest {longest:.1?}",
        median(slices)
    );
}

fn main() {
    // A name picks one of criterion's benchmarks; the table comes only without.
    if std::env::args().skip(1).all(|argument| argument.starts_with('-')) {
        print_table();
    }
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    let mut cluster = Cluster::new(50_000, 6_000, 50, 0);
    cluster.cycle();
    criterion.bench_with_input(BenchmarkId::new("unchanged", "50kx6k"), &(), |bencher, ()| {
        bencher.iter(|| cluster.cycle());
    });
    let mut group = criterion.benchmark_group("full cycle");
    for (agents, frameworks) in [(10_000, 200), (10_000, 1_000), (50_000, 1_000)] {
        let mut cluster = Cluster::new(agents, frameworks, 1, 0);
        let name = format!("{agents}x{frameworks}");
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| {
                let one = |_| {
                    cluster.decline_all(Duration::ZERO);
                    cluster.cycle()
                };
                (0..rounds).map(one).sum()
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
