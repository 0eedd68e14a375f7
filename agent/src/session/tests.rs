//! Sessions over real sockets with masters that say what the test tells them to.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::Response;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use proto::holdfast::agent::agent_service_server::{AgentService, AgentServiceServer};
use resources::id::{AgentId, ClusterId, Incarnation, OperationId, Seq, Term};
use resources::message::{AgentMessage, Fence, Order, Registration};
use resources::operation::Operation;
use resources::parse;
use resources::resource::{Labels, Reservation, ReservationKind};
use resources::role::Role;

use super::*;
use crate::driver::Driver;
use crate::recovery::recover;
use crate::tests::rig;

type Replies = mpsc::Sender<Result<MasterEnvelope, Status>>;

/// What a master does with a new session.
#[derive(Clone)]
enum Behaviour {
    Follow(Option<Address>),
    Deny,
    Lead(u64),
    /// Takes the registration and ends the stream, so many times; leads then.
    Drop(usize),
}

#[derive(Clone)]
struct Master {
    behaviour: Arc<Mutex<Behaviour>>,
    /// Every message of an agent, with the way back.
    heard: mpsc::UnboundedSender<(AgentMessage, Replies)>,
}

#[tonic::async_trait]
impl AgentService for Master {
    type SessionStream = ReceiverStream<Result<MasterEnvelope, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<AgentEnvelope>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let mut behaviour = self.behaviour.lock();
        let mut is_dropped = false;
        let term = match behaviour.clone() {
            Behaviour::Lead(term) => term,
            Behaviour::Drop(left) => {
                is_dropped = true;
                *behaviour = if left > 1 { Behaviour::Drop(left - 1) } else { Behaviour::Lead(1) };
                1
            }
            Behaviour::Deny => return Err(Status::unauthenticated("unknown principal")),
            Behaviour::Follow(leader) => {
                let mut metadata = MetadataMap::new();
                if let Some(leader) = leader {
                    metadata.insert("holdfast-leader", leader.to_string().parse().unwrap());
                }
                let code = Code::Unavailable;
                return Err(Status::with_metadata(code, "not leading", metadata));
            }
        };
        drop(behaviour);
        let (replies, outgoing) = mpsc::channel(16);
        let heard = self.heard.clone();
        let mut incoming = request.into_inner();
        tokio::spawn(async move {
            while let Some(Ok(envelope)) = incoming.next().await {
                let message = AgentMessage::try_from(envelope).unwrap();
                if is_dropped {
                    // An error means that the test is over.
                    let _unheard = heard.send((message, replies));
                    return;
                }
                if matches!(message, AgentMessage::Register(_)) {
                    let welcome = MasterMessage::Welcome {
                        agent_id: AgentId::parse("S0").unwrap(),
                        ping_interval: Duration::from_secs(15),
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

struct Running {
    address: Address,
    behaviour: Arc<Mutex<Behaviour>>,
    heard: mpsc::UnboundedReceiver<(AgentMessage, Replies)>,
    server: JoinHandle<()>,
}

impl Running {
    async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard_tx, heard) = mpsc::unbounded_channel();
        let behaviour = Arc::new(Mutex::new(behaviour));
        let master = Master { behaviour: behaviour.clone(), heard: heard_tx };
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let server = tokio::spawn(async move {
            let server = Server::builder().add_service(AgentServiceServer::new(master));
            server.serve_with_incoming(incoming).await.unwrap();
        });
        let address = Address { host: "127.0.0.1".to_owned(), port };
        Self { address, behaviour, heard, server }
    }

    async fn next(&mut self) -> (AgentMessage, Replies) {
        timeout(Duration::from_secs(20), self.heard.recv()).await.unwrap().unwrap()
    }

    async fn registration(&mut self) -> (Registration, Replies) {
        match self.next().await {
            (AgentMessage::Register(registration), replies) => (*registration, replies),
            (other, _) => panic!("{other:?}"),
        }
    }
}

struct Agent {
    _folder: tempfile::TempDir,
    stop: watch::Sender<bool>,
    session: JoinHandle<Result<(), String>>,
    driver: Driver,
}

impl Agent {
    fn start(masters: Vec<Address>) -> Self {
        Self::start_with(masters, "cpus:4;mem:64;disk:64")
    }

    fn start_with(masters: Vec<Address>, resources: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = rig::config(folder.path(), &["--resources", resources]);
        config.masters = masters;
        let driver = Driver::start(recover(&config).unwrap(), rig::program()).unwrap();
        let (stop, stopped) = watch::channel(false);
        let handle = driver.handle();
        let session = tokio::spawn(async move { run(&config, handle, stopped).await });
        Self { _folder: folder, stop, session, driver }
    }

    async fn end(self) -> Result<(), String> {
        self.stop.send_replace(true);
        let result = self.session.await.unwrap();
        self.driver.stop().await;
        result
    }
}

fn reserve(seq: u64) -> MasterMessage {
    let cpu = parse::resources_text("cpus:1", &Role::star()).unwrap();
    let reserved = cpu.iter().next().unwrap().clone().push_reservation(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse("ads").unwrap(),
        principal: None,
        labels: Labels::default(),
    });
    let operation = Operation::Reserve { resources: vec![reserved], source: Vec::new() };
    let operation_id = OperationId::parse(format!("o{seq}")).unwrap();
    MasterMessage::Orders(vec![Order { seq: Seq(seq), operation_id, operation }])
}

#[tokio::test]
async fn follows_the_leader_through_a_change() {
    let mut second = Running::start(Behaviour::Lead(1)).await;
    let mut first = Running::start(Behaviour::Follow(Some(second.address.clone()))).await;
    // The agent knows one master only, which names the other.
    let agent = Agent::start(vec![first.address.clone()]);
    let (registration, replies) = second.registration().await;
    assert_eq!(registration.agent_id, None);
    replies.send(Ok(envelope_of(1, &reserve(1)))).await.unwrap();
    let (report, _) = second.next().await;
    assert!(matches!(report, AgentMessage::Report { upto: Seq(1), .. }), "{report:?}");
    replies.send(Ok(envelope_of(1, &MasterMessage::Ping))).await.unwrap();
    assert_eq!(second.next().await.0, AgentMessage::Pong);

    // The leader dies without a word; the other one is elected.
    *first.behaviour.lock() = Behaviour::Lead(2);
    second.server.abort();
    replies.send(Err(Status::unavailable("gone"))).await.unwrap();
    let (registration, _replies) = first.registration().await;
    assert_eq!(registration.agent_id.map(|id| id.to_string()).as_deref(), Some("S0"));
    assert_eq!(registration.applied_seq, Seq(1));
    assert_eq!(registration.settled.len(), 1);
    assert_eq!(registration.fence.map(|fence| fence.term), Some(Term(1)));
    assert_eq!(agent.end().await, Ok(()));
}

#[tokio::test]
async fn waits_for_a_leader() {
    let mut only = Running::start(Behaviour::Follow(None)).await;
    let agent = Agent::start(vec![only.address.clone()]);
    *only.behaviour.lock() = Behaviour::Lead(1);
    only.registration().await;
    assert_eq!(agent.end().await, Ok(()));
}

#[tokio::test]
async fn wrong_secret_ends_the_agent() {
    let only = Running::start(Behaviour::Deny).await;
    let agent = Agent::start(vec![only.address.clone()]);
    let reason = agent.session.await.unwrap().unwrap_err();
    assert!(reason.contains("unknown principal"), "{reason}");
    agent.driver.stop().await;
}

/// Replies to the first ten registrations are lost: the agent asks again and again under the
/// same name, and nothing of it is there twice.
#[tokio::test]
async fn a10_lost_registrations_are_repeated() {
    let mut only = Running::start(Behaviour::Drop(10)).await;
    let agent = Agent::start(vec![only.address.clone()]);
    let first = only.registration().await.0;
    assert_eq!(first.agent_id, None);
    for _ in 1..10 {
        assert_eq!(only.registration().await.0, first);
    }
    let (last, replies) = only.registration().await;
    assert_eq!(last, first);
    replies.send(Ok(envelope_of(1, &reserve(1)))).await.unwrap();
    assert!(matches!(only.next().await.0, AgentMessage::Report { upto: Seq(1), .. }));
    assert_eq!(agent.end().await, Ok(()));
}

/// Followers go on naming a leader that is dead: each time it costs a refused connection, and
/// the one that is elected is found.
#[tokio::test]
async fn hint_to_a_dead_leader_does_not_hold_up_the_search() {
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = dead.local_addr().unwrap().port();
    drop(dead);
    let dead = Address { host: "127.0.0.1".to_owned(), port };
    let mut first = Running::start(Behaviour::Follow(Some(dead.clone()))).await;
    let second = Running::start(Behaviour::Follow(Some(dead.clone()))).await;
    let masters = vec![dead, first.address.clone(), second.address.clone()];
    let agent = Agent::start(masters);
    *first.behaviour.lock() = Behaviour::Lead(2);
    first.registration().await;
    assert_eq!(agent.end().await, Ok(()));
}

/// Many small messages become few checkpoints, and every order is reported.
#[tokio::test]
async fn orders_that_come_together_are_checkpointed_together() {
    const ORDERS: u64 = 400;
    let mut only = Running::start(Behaviour::Lead(1)).await;
    let agent = Agent::start_with(vec![only.address.clone()], "cpus:1000;mem:64;disk:64");
    let (_, replies) = only.registration().await;
    for seq in 1..=ORDERS {
        replies.send(Ok(envelope_of(1, &reserve(seq)))).await.unwrap();
    }
    loop {
        let AgentMessage::Report { upto, exceptions } = only.next().await.0 else { panic!() };
        assert!(exceptions.is_empty());
        if upto == Seq(ORDERS) {
            break;
        }
    }
    let view = agent.driver.handle().view().await.unwrap();
    assert_eq!(view.counters.orders_finished, ORDERS);
    assert!(view.counters.checkpoints <= ORDERS + 2, "{:?}", view.counters);
    assert!(view.is_registered);
    assert_eq!(agent.end().await, Ok(()));
}
