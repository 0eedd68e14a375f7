//! Measures one agent as a whole: the real process, a master that only says what to do, real
//! sockets and a real disk. Prints orders per second by the number of reservations held, the
//! longest wait for a report, the time of a restart, memory at rest, and the time to find a new
//! leader. No number fails it. The disk is that of `TMPDIR`.
//!
//! `cargo bench -p holdfast-agent --bench agent [-- throughput|restart|failover …]`
#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the numbers are the output")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use futures::StreamExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use proto::convert::agent as convert;
use proto::holdfast::agent::agent_service_server::{AgentService, AgentServiceServer};
use proto::holdfast::agent::{AgentEnvelope, MasterEnvelope};
use resources::id::{AgentId, ClusterId, Incarnation, OperationId, Seq, Term};
use resources::message::{AgentMessage, Fence, MasterMessage, Order};
use resources::operation::Operation;
use resources::resource::{
    Disk, Labels, Persistence, Reservation, ReservationKind, Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::value::{Scalar, Value};

/// Orders of one measurement.
const ORDERS: u64 = 800;
/// Orders of one message while the agent is filled.
const FILL: usize = 1_024;
const VOLUMES: u64 = 5_000;
const RESOURCES: &str = "cpus:1000000;mem:1000000;disk:1000000;ports:[1-9]";
const FAILOVERS: u64 = 40;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: agent::Flags,
}

type Replies = mpsc::Sender<Result<MasterEnvelope, Status>>;

/// A master that leads in one term, and passes on what it hears.
struct Master {
    term: u64,
    heard: mpsc::UnboundedSender<(AgentMessage, Replies)>,
}

#[tonic::async_trait]
impl AgentService for Master {
    type SessionStream = ReceiverStream<Result<MasterEnvelope, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<AgentEnvelope>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (replies, outgoing) = mpsc::channel(4_096);
        let (heard, term) = (self.heard.clone(), self.term);
        let mut incoming = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(envelope)) = incoming.next().await {
                let message = AgentMessage::try_from(envelope).unwrap();
                if matches!(message, AgentMessage::Register(_)) {
                    let welcome = MasterMessage::Welcome {
                        agent_id: AgentId::parse("S0").unwrap(),
                        ping_interval: Duration::from_secs(600),
                        pings_missed_max: 5,
                    };
                    replies.send(Ok(envelope_of(term, &welcome))).await.unwrap();
                }
                if heard.send((message, replies.clone())).is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(outgoing)))
    }
}

fn envelope_of(term: u64, message: &MasterMessage) -> MasterEnvelope {
    let cluster_id = ClusterId::parse("c").unwrap();
    let fence = Fence { cluster_id, incarnation: Incarnation(0), term: Term(term) };
    convert::master_to_wire(&fence, message)
}

/// A master's socket with what agents said on it.
struct Running {
    address: SocketAddr,
    term: u64,
    heard: mpsc::UnboundedReceiver<(AgentMessage, Replies)>,
    replies: Option<Replies>,
    /// Last order reported.
    upto: Seq,
    server: JoinHandle<()>,
}

impl Running {
    async fn start(term: u64, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard_tx, heard) = mpsc::unbounded_channel();
        let service = AgentServiceServer::new(Master { term, heard: heard_tx })
            .max_decoding_message_size(64 << 20)
            .max_encoding_message_size(64 << 20);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = tokio::spawn(async move {
            Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        Self { address, term, heard, replies: None, upto: Seq(0), server }
    }

    async fn next(&mut self) -> AgentMessage {
        let (message, replies) = self.heard.recv().await.unwrap();
        self.replies = Some(replies);
        message
    }
    async fn registered(&mut self) -> Seq {
        loop {
            if let AgentMessage::Register(registration) = self.next().await {
                return registration.applied_seq;
            }
        }
    }
    async fn say(&self, message: MasterMessage) {
        let replies = self.replies.as_ref().unwrap();
        replies.send(Ok(envelope_of(self.term, &message))).await.unwrap();
    }
    /// Waits until the order is reported, acknowledging as a master does.
    async fn reported(&mut self, seq: Seq) {
        while self.upto < seq {
            if let AgentMessage::Report { upto, exceptions } = self.next().await {
                assert!(exceptions.is_empty(), "{exceptions:?}");
                self.say(MasterMessage::Acknowledge { upto }).await;
                self.upto = self.upto.max(upto);
            }
        }
    }
}

/// The agent's process.
struct Process(Child);

impl Process {
    fn start(work_dir: &Path, masters: &[SocketAddr]) -> Self {
        let masters: Vec<String> = masters.iter().map(ToString::to_string).collect();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--agent", "--master", &masters.join(","), "--listen", "127.0.0.1:0"])
            .args(["--hostname", "h", "--resources", RESOURCES, "--work-dir"])
            .arg(work_dir)
            .stderr(Stdio::inherit())
            .spawn();
        Self(child.unwrap())
    }
    fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn reserved(name: &str, role: &str, milli: i64) -> Resource {
    Resource::plain(name, Value::Scalar(Scalar::from_milli(milli))).push_reservation(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse(role).unwrap(),
        principal: None,
        labels: Labels::default(),
    })
}

fn order(seq: u64, operation: Operation) -> Order {
    Order { seq: Seq(seq), operation_id: OperationId::parse(format!("o{seq}")).unwrap(), operation }
}

/// A reservation that merges with no other.
fn reserve(seq: u64) -> Order {
    let resources = vec![reserved("cpus", &format!("role-{seq}"), 10)];
    order(seq, Operation::Reserve { resources, source: Vec::new() })
}

fn create(seq: u64) -> Order {
    let mut volume = reserved("disk", "ads", 1_000);
    volume.disk = Some(Disk {
        source: None,
        persistence: Some(Persistence { id: format!("v{seq}").parse().unwrap(), principal: None }),
        volume: Some(VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw }),
    });
    order(seq, Operation::Create { volumes: vec![volume] })
}

struct Bench {
    master: Running,
    agent: Process,
    work_dir: PathBuf,
    seq: u64,
}

impl Bench {
    async fn start(work_dir: PathBuf) -> Self {
        let mut master = Running::start(1, "127.0.0.1:0".parse().unwrap()).await;
        let agent = Process::start(&work_dir, &[master.address]);
        let seq = master.registered().await.0;
        Self { master, agent, work_dir, seq }
    }

    fn orders(&mut self, count: u64, make: impl Fn(u64) -> Order) -> Vec<Order> {
        let first = self.seq + 1;
        self.seq += count;
        (first..=self.seq).map(make).collect()
    }

    async fn fill(&mut self, count: u64, make: impl Fn(u64) -> Order) {
        for orders in self.orders(count, make).chunks(FILL) {
            let last = orders.last().unwrap().seq;
            self.master.say(MasterMessage::Orders(orders.to_vec())).await;
            self.master.reported(last).await;
        }
    }

    /// Sends orders in messages of `size`, with at most `window` messages on their way.
    async fn measure(&mut self, name: &str, size: usize, window: usize) {
        let held = self.seq;
        let orders = self.orders(ORDERS, reserve);
        let begun = Instant::now();
        let mut longest = Duration::ZERO;
        let messages: Vec<&[Order]> = orders.chunks(size).collect();
        let ends: Vec<Seq> = messages.iter().map(|orders| orders.last().unwrap().seq).collect();
        let mut reported = 0;
        for (n, orders) in messages.iter().enumerate() {
            self.master.say(MasterMessage::Orders(orders.to_vec())).await;
            if n + 1 - reported >= window {
                let waited = Instant::now();
                self.master.reported(ends[reported]).await;
                longest = longest.max(waited.elapsed());
                reported += 1;
            }
        }
        self.master.reported(*ends.last().unwrap()).await;
        let rate = ORDERS as f64 / begun.elapsed().as_secs_f64();
        println!("{held:>8} held  {name:<34} {rate:>9.0} orders/s, longest wait {longest:?}");
    }

    /// Kills the process and waits until it is registered again.
    async fn restart(&mut self) -> Duration {
        let address = self.master.address;
        let begun = Instant::now();
        self.agent = Process::start_after(&mut self.agent, &self.work_dir, address);
        let applied = self.master.registered().await;
        assert_eq!(applied, Seq(self.seq));
        begun.elapsed()
    }
}

impl Process {
    /// Kills the old process first: it holds the work directory.
    fn start_after(old: &mut Self, work_dir: &Path, master: SocketAddr) -> Self {
        old.0.kill().unwrap();
        old.0.wait().unwrap();
        Self::start(work_dir, &[master])
    }
}

async fn throughput(folder: &Path) {
    let mut bench = Bench::start(folder.join("throughput")).await;
    println!("{:>8} KiB at rest without orders", bench.agent.rss_kib());
    for held in [0, 5_000, 50_000] {
        bench.fill(held - bench.seq.min(held), reserve).await;
        bench.measure("one by one", 1, 1).await;
        bench.measure("one a message, 64 on their way", 1, 64).await;
        bench.measure("8 a message, 8 messages", 8, 8).await;
        bench.measure("all in one message", 800, 1).await;
    }
    for _ in 0..8 {
        bench.measure("8 a message, 8 messages", 8, 8).await;
    }
    let took = bench.restart().await;
    println!("{:>8} held  killed and registered again in {took:?}", bench.seq);
}

async fn restart(folder: &Path) {
    let mut bench = Bench::start(folder.join("restart")).await;
    bench.fill(VOLUMES, reserve).await;
    let disk = |seq| {
        let resources = vec![reserved("disk", "ads", 1_000 * 5_000)];
        order(seq, Operation::Reserve { resources, source: Vec::new() })
    };
    bench.fill(1, disk).await;
    let begun = Instant::now();
    bench.fill(VOLUMES, create).await;
    println!("{VOLUMES:>8} volumes made in {:?}", begun.elapsed());
    for _ in 0..3 {
        let took = bench.restart().await;
        println!("{VOLUMES:>8} volumes and reservations: killed and registered again in {took:?}");
    }
    println!("{:>8} KiB at rest with them", bench.agent.rss_kib());
}

/// Two masters take turns: one dies, the other begins to lead 20 ms later.
async fn failover(folder: &Path) {
    let free = || async { TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let addresses = [free().await, free().await, free().await];
    let mut master = Running::start(1, addresses[0]).await;
    let _agent = Process::start(&folder.join("failover"), &addresses);
    master.registered().await;
    let mut found = Vec::new();
    for n in 1..=FAILOVERS {
        master.server.abort();
        let gone = master.replies.take().unwrap().send(Err(Status::unavailable("gone"))).await;
        assert!(gone.is_ok(), "the session was open");
        drop(master);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let at = usize::try_from(n).unwrap() % addresses.len();
        master = Running::start(n + 1, addresses[at]).await;
        let begun = Instant::now();
        master.registered().await;
        found.push(begun.elapsed());
    }
    found.sort();
    let half = found[found.len() / 2];
    let most = &found[found.len() - 4..];
    println!("{FAILOVERS:>8} failovers: new leader found in {half:?} (median), {most:?} (most)");
}

#[tokio::main]
async fn main() {
    let mut arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "--agent") {
        arguments.remove(1);
        let config = Cli::parse_from(arguments).flags.into_config().unwrap();
        agent::run(config).await.unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let named: Vec<&String> = arguments[1..].iter().filter(|name| !name.starts_with('-')).collect();
    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| *name == part);
    if is_wanted("throughput") {
        throughput(folder.path()).await;
    }
    if is_wanted("restart") {
        restart(folder.path()).await;
    }
    if is_wanted("failover") {
        failover(folder.path()).await;
    }
}
