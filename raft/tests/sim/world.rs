//! Three simulated machines with their disks, and the weather.

mod directed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use raft::runtime::Seeded;
use raft::{FailoverCounts, Leadership};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use resources::id::Term;
use turmoil::Sim;

use crate::checks::{self, Acknowledged, Broken, Nodes, Watch};
use crate::client::Client;
use crate::machine::{self, address};
use crate::network::{Refusing, SimNetwork};
use crate::storm::Storm;
use crate::support::Recorder;
use crate::support::disk::SimDisk;
use crate::support::faulty::{Faults, Faulty};

pub(crate) const SIZE: u64 = 3;
/// Simulated time in which everything must be quiet after the weather.
const CALM: Duration = Duration::from_secs(30);

pub(crate) struct World {
    sim: Sim<'static>,
    random: StdRng,
    disks: BTreeMap<u64, SimDisk>,
    faults: BTreeMap<u64, Arc<Faults>>,
    fatal: BTreeMap<u64, Recorder>,
    refusing: Refusing,
    nodes: Arc<Mutex<Nodes>>,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    watch: Watch,
    trace: Vec<String>,
    /// Machines without power, and when it comes back.
    dark: BTreeMap<u64, Duration>,
    /// Machines without network, and when it comes back.
    isolated: BTreeMap<u64, Duration>,
    _seeded: Seeded,
}

pub(crate) fn name(id: u64) -> String {
    format!("n{id}")
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let seeded = Seeded::new(seed);
        let mut random = StdRng::seed_from_u64(seed);
        let mut sim = turmoil::Builder::new()
            .rng_seed(seed)
            .simulation_duration(Duration::from_secs(600))
            .tick_duration(Duration::from_millis(1))
            .tcp_capacity(1 << 16)
            .min_message_latency(Duration::from_millis(1))
            .max_message_latency(Duration::from_millis(5))
            .build();
        let nodes = Arc::new(Mutex::new(Nodes::new()));
        let (mut disks, mut faults, mut fatal) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let refusing = Refusing::default();
        for id in 1..=SIZE {
            let disk = SimDisk::default().slow(random.random());
            disks.insert(id, disk.clone());
            let network = SimNetwork { refusing: refusing.clone() };
            let network = Arc::new(Faulty::new(network, faults.entry(id).or_default()));
            let nodes = nodes.clone();
            let fatal = fatal.entry(id).or_insert_with(Recorder::default).clone();
            sim.host(name(id), move || {
                machine::run(id, disk.clone(), network.clone(), nodes.clone(), fatal.clone())
            });
        }
        Self {
            sim,
            random,
            disks,
            faults,
            fatal,
            refusing,
            nodes,
            acknowledged: Arc::default(),
            watch: Watch::default(),
            trace: Vec::new(),
            dark: BTreeMap::new(),
            isolated: BTreeMap::new(),
            _seeded: seeded,
        }
    }

    /// Lets the storm pass while a client writes; then everything must be whole again. Returns
    /// the trace.
    pub(crate) fn weather(mut self, storm: &Storm) -> Result<Vec<String>, Broken> {
        if storm.disks_lie {
            self.disks.values().for_each(SimDisk::lie);
        }
        if storm.knocks_lie {
            for faults in self.faults.values() {
                faults.lie_at_random(self.random.random());
            }
        }
        let seed = self.random.random();
        let is_over = Arc::new(AtomicBool::new(false));
        let client = Client {
            nodes: self.nodes.clone(),
            acknowledged: self.acknowledged.clone(),
            is_over: is_over.clone(),
        };
        self.sim.client("client", client.run(seed));
        let mut next = storm.every;
        while self.sim.elapsed() < storm.lasts {
            self.tick()?;
            if self.sim.elapsed() >= next {
                next += storm.every;
                if storm.knocks_lie && self.random.random_bool(0.85) {
                    self.cut();
                } else {
                    self.strike();
                }
            }
            self.black_out();
            self.recover(self.sim.elapsed());
        }
        for disk in self.disks.values() {
            disk.mend();
        }
        for faults in self.faults.values() {
            faults.be_honest();
        }
        self.black_out();
        self.recover(Duration::MAX);
        is_over.store(true, Ordering::Relaxed);
        let deadline = self.sim.elapsed() + CALM;
        while !self.is_quiet() {
            if self.sim.elapsed() > deadline {
                return Err("the nodes do not agree again".to_owned());
            }
            self.tick()?;
        }
        let nodes = self.nodes.lock();
        checks::kept(&self.acknowledged.lock(), &nodes)?;
        checks::equal(&nodes)?;
        drop(nodes);
        self.conclude();
        if self.acknowledged.lock().len() < 100 {
            return Err("too little was acknowledged to prove anything".to_owned());
        }
        Ok(std::mem::take(&mut self.trace))
    }

    /// One step of simulated time, and a look at the nodes.
    fn tick(&mut self) -> Result<(), Broken> {
        self.sim.step().map_err(|error| error.to_string())?;
        self.watch.look(&self.nodes.lock())
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.sim.elapsed() + time;
        while self.sim.elapsed() < end {
            self.tick().unwrap();
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.sim.elapsed()
    }

    pub(crate) fn faults(&self, id: u64) -> &Faults {
        &self.faults[&id]
    }

    /// What a node did about leaders.
    pub(crate) fn failover(&self, id: u64) -> FailoverCounts {
        self.nodes.lock()[&id].status().failover
    }

    fn is_quiet(&self) -> bool {
        let nodes = self.nodes.lock();
        nodes.len() as u64 == SIZE && checks::is_quiet(&nodes)
    }

    /// Runs until all nodes follow one leader.
    pub(crate) fn settle(&mut self) -> (u64, Term) {
        while !self.is_quiet() {
            self.tick().unwrap();
        }
        self.leader_without(None).unwrap()
    }

    /// Runs until a node other than `id` leads.
    pub(crate) fn settle_without(&mut self, id: u64) -> (u64, Term) {
        loop {
            if let Some(found) = self.leader_without(Some(id)) {
                return found;
            }
            self.tick().unwrap();
        }
    }

    fn leader_without(&self, without: Option<u64>) -> Option<(u64, Term)> {
        self.nodes.lock().iter().filter(|(id, _)| Some(**id) != without).find_map(|(id, node)| {
            match *node.leadership().borrow() {
                Leadership::Leading { term } => Some((*id, term)),
                Leadership::Following { .. } | Leadership::Unknown { .. } => None,
            }
        })
    }

    pub(crate) fn isolate(&mut self, id: u64) {
        self.note(&format!("isolate {id}"));
        for other in (1..=SIZE).filter(|other| *other != id) {
            self.sim.partition(name(id), name(other));
        }
    }

    pub(crate) fn heal(&mut self, id: u64) {
        self.note(&format!("heal {id}"));
        for other in (1..=SIZE).filter(|other| *other != id) {
            self.sim.repair(name(id), name(other));
        }
    }

    /// Some nodes lose the connections that they accepted. Now and then the leader, whose lease
    /// is good, cannot reach them again: if they believe the lies that they are told, it does not
    /// hear of its successor.
    fn cut(&mut self) {
        if self.isolated.is_empty()
            && self.random.random_bool(0.3)
            && let Some((leader, _)) = self.leader_without(None)
        {
            let time = Duration::from_millis(self.random.random_range(200..1500));
            self.isolate(leader);
            self.isolated.insert(leader, self.sim.elapsed() + time);
        }
        for (id, faults) in &self.faults {
            if self.random.random_bool(0.8) {
                self.trace.push(format!("{:?} cut {id}", self.sim.elapsed()));
                faults.cut();
            }
        }
    }

    /// Something goes wrong, preferably with the leader.
    fn strike(&mut self) {
        let leader = self.leader_without(None).map(|(id, _)| id);
        let victim = match leader {
            Some(leader) if self.random.random_bool(0.6) => leader,
            _ => self.random.random_range(1..=SIZE),
        };
        let until = self.sim.elapsed() + Duration::from_millis(self.random.random_range(200..3000));
        if self.random.random_bool(0.6) {
            if !self.dark.contains_key(&victim) && self.random.random_bool(0.3) {
                self.crash(victim);
                self.dark.insert(victim, until);
            } else if !self.dark.contains_key(&victim) {
                // In the middle of a commit, a dozen or so from now.
                self.disks[&victim].trip_in(self.random.random_range(0..100));
            }
        } else if self.isolated.is_empty() {
            self.isolate(victim);
            self.isolated.insert(victim, until);
        }
    }

    /// Machines whose power failed go down with all they had not synced.
    fn black_out(&mut self) {
        let off: Vec<u64> =
            self.disks.iter().filter(|(_, disk)| disk.is_off()).map(|(id, _)| *id).collect();
        for id in off {
            self.crash(id);
            let time = Duration::from_millis(self.random.random_range(200..3000));
            self.dark.insert(id, self.sim.elapsed() + time);
        }
    }

    pub(crate) fn crash(&mut self, id: u64) {
        self.note(&format!("crash {id}"));
        // The power goes first: a process that ends in good order would still write.
        self.disks[&id].cut(self.random.random());
        if self.random.random_bool(0.7) {
            self.refusing.lock().insert(address(id));
        }
        self.end(id);
    }

    fn end(&mut self, id: u64) {
        self.sim.crash(name(id));
        self.nodes.lock().remove(&id);
    }

    /// The process dies; its machine and its disk live.
    pub(crate) fn kill(&mut self, id: u64) {
        self.note(&format!("kill {id}"));
        self.refusing.lock().insert(address(id));
        self.end(id);
    }

    fn recover(&mut self, now: Duration) {
        let due = |times: &BTreeMap<u64, Duration>| -> Vec<u64> {
            times.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id).collect()
        };
        for id in due(&self.dark) {
            self.dark.remove(&id);
            self.restart(id);
        }
        for id in due(&self.isolated) {
            self.isolated.remove(&id);
            self.heal(id);
        }
    }

    pub(crate) fn restart(&mut self, id: u64) {
        self.note(&format!("restart {id}"));
        self.refusing.lock().remove(&address(id));
        self.sim.bounce(name(id));
    }

    fn note(&mut self, event: &str) {
        let acknowledged = self.acknowledged.lock().len();
        self.trace.push(format!("{:?} {event}, {acknowledged} writes", self.sim.elapsed()));
    }

    /// The end of the trace: everything that two runs could differ in.
    fn conclude(&mut self) {
        let nodes = self.nodes.lock();
        for (id, node) in nodes.iter() {
            let status = node.status();
            let digest = status.digest.1[..8].iter().map(|byte| format!("{byte:02x}"));
            self.trace.push(format!(
                "node {id}: {}, log {:?}, applied {:?}, snapshot {:?}, purged {:?}, disk {:?}, {}",
                status.leadership,
                status.last_log,
                status.applied,
                status.snapshot,
                status.purged,
                self.disks[id].counts(),
                digest.collect::<String>(),
            ));
        }
        for (id, node) in nodes.iter() {
            let (failover, lies) = (node.status().failover, self.faults[id].lies());
            self.trace.push(format!("failover {id}: {failover:?}, {lies} lies"));
        }
        self.trace.push(format!("leaders {:?}", self.watch.leaders()));
        for write in self.acknowledged.lock().iter() {
            self.trace.push(format!("acknowledged {} at {}", write.key, write.index));
        }
        self.trace.push(format!("end {:?}", self.sim.elapsed()));
    }
}
