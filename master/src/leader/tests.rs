//! The event loop over a real node: one master, its log on a disk, and an agent played by hand.

mod requests;
mod schedulers;

use std::collections::BTreeMap;
use std::path::Path;

use raft::NodeConfig;
use resources::collection::Resources;
use resources::id::{AgentId, CheckpointId, MasterId, OperationId, Principal, Seq};
use resources::message::{AgentInfo, AgentMessage, MasterMessage, Order, Registration};
use resources::operation::Operation;
use resources::resource::{Labels, Reservation, ReservationKind, Resource};
use resources::role::Role;
use resources::value::{Scalar, Value};
use tokio::sync::oneshot;

use super::*;
use crate::state::command::SourceAddr;
use crate::state::operations::OperationState;
use crate::state::rejection::Rejection;

const DEADLINE: Duration = Duration::from_secs(20);

struct Master {
    node: Node<Replica>,
    handle: Handle,
}

impl Master {
    async fn start(work_dir: &Path) -> Self {
        Self::start_on(work_dir, &free_address()).await
    }

    async fn start_on(work_dir: &Path, address: &str) -> Self {
        let peers = BTreeMap::from([(MasterId(1), address.to_owned())]);
        let master = Self::start_member(work_dir, MasterId(1), peers).await;
        let mut leadership = master.handle.leadership_changes();
        within(leadership.wait_for(leads)).await.unwrap();
        master
    }

    async fn start_member(
        work_dir: &Path,
        id: MasterId,
        peers: BTreeMap<MasterId, String>,
    ) -> Self {
        let advertise = format!("127.0.0.1:505{id}");
        let config = NodeConfig {
            id,
            listen: peers[&id].clone(),
            peers,
            work_dir: work_dir.join(id.to_string()),
            advertise: advertise.clone(),
            heartbeat: NodeConfig::HEARTBEAT,
            election_timeout: NodeConfig::ELECTION_TIMEOUT,
            limits: raft::Limits::default(),
        };
        let election_timeout_max = config.election_timeout_max();
        let node = Node::start(config).await.unwrap();
        let identity = MasterIdentity { id, advertise, started_at: Timestamp::default() };
        let config = Config {
            identity,
            agent_ping_timeout: Duration::from_secs(15),
            agent_pings_missed_max: 5,
            election_timeout_max,
            allocator: allocator::Settings::default(),
            offer_timeout: None,
            agent_reregister_timeout: Duration::from_secs(600),
            weights: BTreeMap::new(),
            removal: Removal::default(),
        };
        let handle = Leader::start(node.clone(), config);
        Self { node, handle }
    }

    async fn stop(self) {
        self.handle.shutdown().await;
        self.node.shutdown().await;
    }

    async fn call(&self, agent_id: &AgentId, operation: Operation) -> Result<Accepted, Refusal> {
        let (principal, source) = (Some(Principal::new("ops")), SourceAddr("test".to_owned()));
        let agent_id = agent_id.clone();
        let (key, if_version) = (None, None);
        let call = Call { principal, source, key, if_version, agent_id, operation };
        within(self.handle.execute(call)).await
    }
}

fn leads(leadership: &Leadership) -> bool {
    matches!(leadership, Leadership::Leading { .. })
}

/// The one of several masters that leads first, by position.
async fn leader(masters: &[Master]) -> usize {
    let waits = masters.iter().map(|master| {
        let mut changes = master.handle.leadership_changes();
        Box::pin(async move { changes.wait_for(leads).await.map(|_| ()) })
    });
    let (won, position, _) = within(futures::future::select_all(waits)).await;
    won.unwrap();
    position
}

/// An address that nobody listens on: a master keeps its own over a restart.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("nothing here takes that long")
}

/// An agent's end of a session: what it says goes straight in, what it hears comes out.
struct Agent {
    id: AgentId,
    say: mpsc::UnboundedSender<AgentMessage>,
    hear: mpsc::Receiver<Fenced>,
}

impl Agent {
    async fn register(master: &Master, applied: &[Operation]) -> Self {
        let (say, mut said) = mpsc::unbounded_channel();
        let (over, _is_over) = oneshot::channel::<()>();
        let read = |session: Session| async move {
            let _over = over;
            loop {
                tokio::select! {
                    () = session.over() => break,
                    message = said.recv() => {
                        let Some(message) = message else { break };
                        session.say(message).await;
                    }
                }
            }
        };
        let address = SourceAddr("127.0.0.1:1".to_owned());
        let hear = master.handle.open_session(None, address, read).await.unwrap();
        say.send(AgentMessage::Register(Box::new(registration(applied)))).unwrap();
        let mut agent = Self { id: AgentId::parse("unknown").unwrap(), say, hear };
        match agent.next().await {
            MasterMessage::Welcome { agent_id, .. } => agent.id = agent_id,
            other => panic!("no welcome: {other:?}"),
        }
        assert!(matches!(agent.next().await, MasterMessage::Acknowledge { .. }));
        agent
    }

    async fn next(&mut self) -> MasterMessage {
        within(self.hear.recv()).await.expect("the session is open").1
    }

    async fn orders(&mut self) -> Vec<Order> {
        match self.next().await {
            MasterMessage::Orders(orders) => orders,
            other => panic!("no orders: {other:?}"),
        }
    }
}

fn registration(applied: &[Operation]) -> Registration {
    let declared = vec![cpus(1000, &[])];
    let mut held: Resources = declared.iter().cloned().collect();
    for operation in applied {
        held.apply(operation).unwrap();
    }
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
        applied_seq: Seq(applied.len() as u64),
        resources_digest: held.digest(),
        settled: Vec::new(),
        unavailable: Vec::new(),
        tasks: Vec::new(),
        executors: Vec::new(),
    }
}

fn cpus(amount: i64, roles: &[&str]) -> Resource {
    let level = |role: &&str| Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse(*role).unwrap(),
        principal: Some(Principal::new("ops")),
        labels: Labels::default(),
    };
    Resource {
        name: "cpus".to_owned(),
        value: Value::Scalar(Scalar::from_milli(amount * 1000)),
        reservations: roles.iter().map(level).collect(),
        disk: None,
        allocation_role: None,
        revocable: false,
        shared: false,
        provider_id: None,
    }
}

fn reserve(amount: i64) -> Operation {
    Operation::Reserve { resources: vec![cpus(amount, &["ads"])], source: Vec::new() }
}

#[tokio::test]
async fn operation_from_call_to_confirmation_and_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let master = Master::start_on(folder.path(), &address).await;
    let mut agent = Agent::register(&master, &[]).await;

    let accepted = master.call(&agent.id, reserve(2)).await.unwrap();
    let orders = agent.orders().await;
    assert_eq!(orders.len(), 1);
    assert_eq!((orders[0].seq, &orders[0].operation_id), (Seq(1), &accepted.operation_id));

    let settled = master.handle.settled(&accepted.operation_id, DEADLINE);
    let report = AgentMessage::Report { upto: Seq(1), exceptions: BTreeMap::new() };
    agent.say.send(report).unwrap();
    assert_eq!(within(settled).await.unwrap().state, OperationState::Finished);
    assert_eq!(agent.next().await, MasterMessage::Acknowledge { upto: Seq(1) });

    // The second is committed and never carried out before the master goes.
    let second = master.call(&agent.id, reserve(3)).await.unwrap();
    let view = within(master.handle.view(Consistency::Linearizable)).await.unwrap();
    assert!(view.is_connected(&agent.id) && view.has_returned(&agent.id));
    let before = view.state.agent(&agent.id).unwrap().total.clone();
    let cluster_id = view.state.cluster_id().unwrap().clone();
    master.stop().await;
    assert_eq!(agent.orders().await[0].seq, Seq(2));
    assert!(within(agent.hear.recv()).await.is_none(), "the stream ends cleanly");

    let master = Master::start_on(folder.path(), &address).await;
    let view = within(master.handle.view(Consistency::Linearizable)).await.unwrap();
    assert_eq!(view.state.cluster_id(), Some(&cluster_id));
    assert_eq!(view.state.agent(&agent.id).unwrap().total, before);
    assert!(!view.has_returned(&agent.id));

    // Calls on an agent that is not back yet are served; it gets everything when it comes.
    master.call(&agent.id, reserve(1)).await.unwrap();
    let mut back = Agent::register(&master, &[reserve(2)]).await;
    assert_eq!(back.id, agent.id);
    let orders = back.orders().await;
    let seqs: Vec<Seq> = orders.iter().map(|order| order.seq).collect();
    assert_eq!(seqs, [Seq(2), Seq(3)]);
    assert_eq!(orders[0].operation_id, second.operation_id);
    master.stop().await;
}

#[tokio::test]
async fn refusals_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let master = Master::start(folder.path()).await;
    let agent = Agent::register(&master, &[]).await;
    let applied = master.node.status().applied;
    match master.call(&agent.id, reserve(1001)).await {
        Err(Refusal::Rejected(Rejection::Insufficient { .. })) => {}
        other => panic!("not refused: {other:?}"),
    }
    let nobody = AgentId::parse("nobody").unwrap();
    match master.call(&nobody, reserve(1)).await {
        Err(Refusal::Rejected(Rejection::UnknownAgent { .. })) => {}
        other => panic!("not refused: {other:?}"),
    }
    let unknown = OperationId::parse("9-9").unwrap();
    let end = within(master.handle.settled(&unknown, DEADLINE)).await;
    assert_eq!(end, Err(NotSettled::UnknownOperation));
    assert_eq!(master.node.status().applied, applied);
    master.stop().await;
}

#[tokio::test]
async fn concurrent_calls_share_entries() {
    const CALLS: usize = 256;
    let folder = tempfile::tempdir().unwrap();
    let master = Master::start(folder.path()).await;
    let mut agent = Agent::register(&master, &[]).await;
    let before = master.node.status().applied.unwrap().0;
    let calls = (0..CALLS).map(|_| master.call(&agent.id, reserve(1)));
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
    let entries = master.node.status().applied.unwrap().0 - before;
    assert!(entries < CALLS as u64 / 4, "{CALLS} calls took {entries} entries");
    let mut seqs = Vec::new();
    while seqs.len() < CALLS {
        seqs.extend(agent.orders().await.into_iter().map(|order| order.seq.0));
    }
    assert!(seqs.into_iter().eq(1..=CALLS as u64), "orders leave once and in order");
    master.stop().await;
}

/// A call that is waiting when the master stops is answered.
#[tokio::test]
async fn nobody_is_left_without_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let master = Master::start(folder.path()).await;
    let agent = Agent::register(&master, &[]).await;
    let accepted = master.call(&agent.id, reserve(1)).await.unwrap();
    let handle = master.handle.clone();
    let waiting =
        tokio::spawn(async move { handle.settled(&accepted.operation_id, DEADLINE).await });
    // The wait is in the inbox before the shutdown, or it finds the loop gone: both are answered.
    tokio::task::yield_now().await;
    within(master.handle.shutdown()).await;
    assert_eq!(within(waiting).await.unwrap(), Err(NotSettled::LeadershipLost));
    let refusal = master.call(&agent.id, reserve(1)).await.unwrap_err();
    assert_eq!(refusal, Refusal::Propose(ProposeFailure::NoLeader));
    master.node.shutdown().await;
}

#[tokio::test]
async fn another_master_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let peers: BTreeMap<MasterId, String> =
        (1..=3).map(|id| (MasterId(id), free_address())).collect();
    let starts = peers.keys().map(|id| Master::start_member(folder.path(), *id, peers.clone()));
    let mut masters = futures::future::join_all(starts).await;

    let first = masters.remove(leader(&masters).await);
    let Leadership::Leading { term } = first.handle.leadership() else { panic!("no leader") };
    let mut agent = Agent::register(&first, &[]).await;
    let accepted = first.call(&agent.id, reserve(2)).await.unwrap();
    assert_eq!(accepted.operation_id.as_str(), format!("{term}-1"));
    assert_eq!(agent.orders().await.len(), 1);
    let mut follower = masters[0].handle.leadership_changes();
    let follows = |now: &Leadership| matches!(now, Leadership::Following { .. });
    let following = within(follower.wait_for(follows)).await.unwrap().clone();
    let Leadership::Following { master_id, advertise } = following else { panic!("no follower") };
    assert_eq!(
        (master_id, &advertise),
        (first.node.status().id, &format!("127.0.0.1:505{master_id}"))
    );
    first.stop().await;

    let second = &masters[leader(&masters).await];
    let Leadership::Leading { term: later } = second.handle.leadership() else { panic!("lost") };
    assert!(later > term);
    // A call on an agent that is not back yet; then it comes back without having done anything.
    second.call(&agent.id, reserve(3)).await.unwrap();
    let mut back = Agent::register(second, &[]).await;
    assert_eq!(back.id, agent.id);
    let orders = back.orders().await;
    assert_eq!(orders[0].operation_id, accepted.operation_id);
    assert_eq!(orders.len(), 2);
    let report = AgentMessage::Report { upto: Seq(2), exceptions: BTreeMap::new() };
    back.say.send(report).unwrap();
    let end = within(second.handle.settled(&accepted.operation_id, DEADLINE)).await.unwrap();
    assert_eq!(end.state, OperationState::Finished);

    // Every master keeps the cluster's name on its disk, for the handshake with its peers.
    let cluster_id = second.node.read(|replica| replica.state().cluster_id().cloned()).unwrap();
    for master in &masters {
        let mut applied = master.handle.leadership_changes();
        within(async {
            while master.node.cluster_id().as_deref() != Some(cluster_id.as_str()) {
                // The loop stores it at a tick; a tick follows whatever happens.
                drop(tokio::time::timeout(TICK, applied.changed()).await);
            }
        })
        .await;
    }
    for master in masters {
        master.stop().await;
    }
}
