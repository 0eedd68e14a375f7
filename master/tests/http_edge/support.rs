//! What the tests of the HTTP edge share: a master in this process, an HTTP client, and an agent
//! that speaks the real protocol and keeps nothing on a disk.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Parser;
use master::config::{Config, Flags};
use proto::convert::agent::master_from_wire;
use proto::holdfast::agent::agent_service_client::AgentServiceClient;
use resources::id::{AgentId, CheckpointId, Seq};
use resources::message::{AgentInfo, AgentMessage, MasterMessage, Registration};
use resources::role::Role;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

const DEADLINE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

/// Masters of one cluster; dropped, they end.
pub(crate) struct Cluster {
    pub(crate) addresses: Vec<String>,
    _folder: TempDir,
    masters: Vec<JoinHandle<()>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for master in &self.masters {
            master.abort();
        }
    }
}

impl Cluster {
    /// A cluster of `members` masters, of which the first `started` run, with further flags.
    pub(crate) async fn start(members: usize, started: usize, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = free_ports(2 * members);
        let peers: Vec<String> =
            (0..members).map(|n| format!("{}=127.0.0.1:{}", n + 1, ports[members + n])).collect();
        let peers = peers.join(",");
        let mut cluster = Self { addresses: Vec::new(), _folder: folder, masters: Vec::new() };
        for (n, port) in ports.iter().take(started).enumerate() {
            let work_dir = cluster._folder.path().join(format!("m{n}"));
            let line = [
                format!("--id={}", n + 1),
                format!("--listen=127.0.0.1:{port}"),
                format!("--peer-listen=127.0.0.1:{}", ports[members + n]),
                format!("--peers={peers}"),
                format!("--work-dir={}", work_dir.display()),
            ];
            let line = line.iter().map(String::as_str).chain(more.iter().copied());
            let flags = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).flags;
            let config: Config = flags.into_config().unwrap();
            cluster.addresses.push(format!("127.0.0.1:{port}"));
            cluster.masters.push(tokio::spawn(async move {
                master::run(config).await.unwrap_or_else(|error| panic!("{error}"));
            }));
        }
        for address in &cluster.addresses {
            until("the port is served", async || get(address, "/health").await.is_ok()).await;
        }
        cluster
    }

    /// The address of the master that leads and serves, once there is one.
    pub(crate) async fn leader(&self) -> String {
        until_some("a leader", async || {
            for address in &self.addresses {
                let server = json(address, "/api/v1/server").await?;
                if server["role"] == "leader" && get(address, "/slaves").await.ok()?.0 == 200 {
                    return Some(address.clone());
                }
            }
            None
        })
        .await
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    until_some(what, async || holds().await.then_some(())).await;
}

/// Waits until there is something.
pub(crate) async fn until_some<T>(what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> T {
    let search = async {
        loop {
            if let Some(found) = find().await {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(DEADLINE, search).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

fn free_ports(count: usize) -> Vec<u16> {
    let sockets: Vec<_> =
        (0..count).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect()
}

/// A client that follows no redirect.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(DEADLINE)
        .build()
        .unwrap()
}

/// Status and text of a GET.
pub(crate) async fn get(address: &str, path: &str) -> Result<(u16, String), reqwest::Error> {
    let response = client().get(format!("http://{address}{path}")).send().await?;
    Ok((response.status().as_u16(), response.text().await?))
}

/// The JSON body of a GET that answers 200.
pub(crate) async fn json(address: &str, path: &str) -> Option<Value> {
    let (status, text) = get(address, path).await.ok()?;
    (status == 200).then(|| serde_json::from_str(&text).unwrap())
}

/// An agent with a session: it confirms what it is ordered while `obey` is true.
pub(crate) struct Agent {
    pub(crate) id: AgentId,
    pub(crate) obey: watch::Sender<bool>,
    session: JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.session.abort();
    }
}

impl Agent {
    /// Registers an agent with these resources.
    pub(crate) async fn register(address: &str, name: &str, resources: &str) -> Self {
        Self::register_as(address, None, name, resources).await
    }

    /// Registers an agent that presents this credential.
    pub(crate) async fn register_as(
        address: &str,
        credential: Option<(&str, &str)>,
        name: &str,
        resources: &str,
    ) -> Self {
        Self::try_register_as(address, credential, name, resources).await.unwrap()
    }

    /// Registers, or gives the status that its stream ended with; a refusal is `ABORTED`.
    pub(crate) async fn try_register_as(
        address: &str,
        credential: Option<(&str, &str)>,
        name: &str,
        resources: &str,
    ) -> Result<Self, tonic::Status> {
        let declared = resources::parse::resources_text(resources, &Role::star()).unwrap();
        let registration = Registration {
            checkpoint_id: CheckpointId::parse(format!("checkpoint-{name}")).unwrap(),
            boot_counter: 1,
            agent_id: None,
            fence: None,
            info: AgentInfo {
                hostname: name.to_owned(),
                host: "127.0.0.1".to_owned(),
                port: 5061,
                version: "1.11.0".to_owned(),
                attributes: resources::parse::attributes("rack:r1;level:3").unwrap(),
                resources: declared.iter().cloned().collect(),
            },
            applied_seq: Seq(0),
            resources_digest: declared.digest(),
            settled: Vec::new(),
            unavailable: Vec::new(),
            tasks: Vec::new(),
            executors: Vec::new(),
        };
        let mut client = AgentServiceClient::connect(format!("http://{address}")).await.unwrap();
        let (tx, rx) = mpsc::channel(64);
        let first = AgentMessage::Register(Box::new(registration));
        tx.send((&first).into()).await.unwrap();
        let mut request = tonic::Request::new(ReceiverStream::new(rx));
        if let Some((principal, secret)) = credential {
            let basic =
                format!("Basic {}", BASE64_STANDARD.encode(format!("{principal}:{secret}")));
            request.metadata_mut().insert("authorization", basic.parse().unwrap());
        }
        let mut stream = client.session(request).await?.into_inner();
        let answer = stream.message().await?.expect("an answer");
        let id = match master_from_wire(answer).unwrap().1 {
            MasterMessage::Welcome { agent_id, .. } => agent_id,
            refused @ MasterMessage::Refused { .. } => {
                return Err(tonic::Status::aborted(format!("{refused:?}")));
            }
            other => panic!("neither a welcome nor a refusal: {other:?}"),
        };
        let (obey, mut may_obey) = watch::channel(true);
        let session = tokio::spawn(async move {
            while let Ok(Some(envelope)) = stream.message().await {
                let answer = match master_from_wire(envelope).unwrap().1 {
                    MasterMessage::Orders(orders) => {
                        if may_obey.wait_for(|obey| *obey).await.is_err() {
                            return;
                        }
                        let upto = orders.last().expect("orders are never empty").seq;
                        AgentMessage::Report { upto, exceptions: BTreeMap::new() }
                    }
                    MasterMessage::Ping => AgentMessage::Pong,
                    _ => continue,
                };
                if tx.send((&answer).into()).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { id, obey, session })
    }
}
