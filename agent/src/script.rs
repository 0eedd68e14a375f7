//! Runs the golden scripts of `agent/testscripts` against the core. A block is prose (`#`),
//! commands, `---`, and the whole visible output. `HOLDFAST_RERECORD=1` writes the output anew.
//!
//! Commands: `start RESOURCES`, `restart`, `open`, `close`, `leave`,
//! `volumes made|failed|removed …`, `total`, and `CLUSTER/INCARNATION/TERM MESSAGE` for what a
//! master says. Orders are `SEQ[=ID] reserve|unreserve ROLE RESOURCES`, `SEQ[=ID] create|destroy
//! ROLE ID MB` and `SEQ[=ID] launch …`, with `|` between them; the words about tasks are in
//! `tests/task_words.rs`. The disk is a model here: what the checkpoint does with a row is tested
//! beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use resources::collection::Resources;
use resources::id::{
    AgentId, CheckpointId, ClusterId, Incarnation, OperationId, Principal, Seq, Term, UpdateId,
    VolumeId,
};
use resources::message::{AgentInfo, AgentMessage, Fence, MasterMessage, Order, Retry};
use resources::operation::Operation;
use resources::parse;
use resources::resource::{
    Disk, Labels, Persistence, Reservation, ReservationKind, Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::task::StatusUpdate;

use crate::core::Core;
use crate::core::event::{Action, Event, Identity, Marker, Memory, VolumeStep, Write};
use crate::core::tasks::event::{Clock, Facts, Settings, TaskEvent};
use crate::core::tasks::row::TaskName;
use crate::tests::task_words;

/// What survives a restart.
#[derive(Default)]
struct Model {
    memory: Memory,
    total: Resources,
}

impl Model {
    fn write(&mut self, row: Write) {
        let memory = &mut self.memory;
        match row {
            Write::Fence(fence) => memory.fence = Some(fence),
            Write::AgentId(agent_id) => memory.agent_id = Some(agent_id),
            Write::Intents(orders) => memory.intents = orders,
            Write::Entries { removed, put } => {
                for resource in removed.iter().chain(put.iter().map(|(resource, _)| resource)) {
                    if let Some(entry) = self.total.counterpart(resource).cloned() {
                        (0..self.total.count(&entry)).for_each(|_| self.total.subtract(&entry));
                    }
                }
                for (resource, count) in put {
                    (0..count).for_each(|_| self.total.add(&resource));
                }
            }
            Write::Settle(ended) => {
                memory.settled.insert(ended.settled.seq, *ended);
            }
            Write::Forget(upto) => memory.settled = memory.settled.split_off(&upto.next()),
            Write::Applied { seq, failed } => {
                (memory.applied_seq, memory.failed_seq) = (seq, failed);
            }
            Write::Volume(key, record) => {
                memory.volumes.insert(key, record);
            }
            Write::RemoveVolume(key) => {
                memory.volumes.remove(&key);
            }
            Write::Tasks(row) => task_words::write(&mut memory.tasks, row),
        }
    }

    fn core(&self, boot_counter: u64) -> Core {
        let total = self.total.clone();
        let info = AgentInfo {
            hostname: "h1".to_owned(),
            host: "h1".to_owned(),
            port: 5051,
            version: "1".to_owned(),
            attributes: Vec::new(),
            resources: Vec::new(),
        };
        let checkpoint_id = CheckpointId::parse("k1").unwrap();
        let identity = Identity { checkpoint_id, boot_counter, info };
        let settings = Settings {
            nonce: boot_counter,
            registration_timeout: Duration::from_secs(60),
            reregistration_timeout: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(5),
            is_cleanup: false,
        };
        Core::new(identity, settings, self.memory.clone(), total, BTreeMap::new())
    }
}

struct Player {
    core: Core,
    model: Model,
    boots: u64,
    waiting: Seq,
    clock: Clock,
    /// Name of the last status that was sent of each task.
    sent: BTreeMap<TaskName, UpdateId>,
}

impl Player {
    fn new() -> Self {
        let model = Model::default();
        let (clock, sent) = (Clock::default(), BTreeMap::new());
        Self { core: model.core(1), model, boots: 0, waiting: Seq(0), clock, sent }
    }

    fn command(&mut self, line: &str) -> String {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "start" => {
                self.model.total = parse::resources_text(rest, &Role::star()).unwrap();
                self.boot()
            }
            "restart" => self.boot(),
            "open" => self.step(Event::Opened),
            "close" => self.step(Event::Closed),
            "leave" => self.step(Event::Leave),
            "volumes" => self.volumes(rest),
            "total" => format!("{}\n", self.core.total()),
            "tick" => {
                self.clock.elapsed += task_words::seconds(rest);
                self.step(Event::Tasks(vec![TaskEvent::Tick(self.clock)]))
            }
            word => match task_words::event(word, rest) {
                Some(event) => self.step(Event::Tasks(vec![event])),
                None => self.message(word, rest),
            },
        }
    }

    fn message(&mut self, fence: &str, text: &str) -> String {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let fence = parse_fence(fence);
        let sent = |name: &TaskName| self.sent.get(name).copied();
        if let Some(instruction) = task_words::instruction(word, rest, sent) {
            return self.step(Event::Received(fence, MasterMessage::Instruct(instruction)));
        }
        if let ("adopt", Some((seq, which))) = (word, rest.split_once(' ')) {
            let applied_seq = Seq(seq.parse().unwrap());
            let digest = if which == "same" { self.core.total().digest() } else { 0 };
            let adopt = MasterMessage::Adopt { applied_seq, digest };
            return self.step(Event::Received(fence, adopt));
        }
        if word != "orders" {
            return self.step(Event::Received(fence, message(text)));
        }
        let orders: Vec<(Order, Option<Facts>)> = rest.split(" | ").map(order).collect();
        let described = orders
            .iter()
            .filter_map(|(order, facts)| Some(TaskEvent::LaunchDescribed(order.seq, (*facts)?)));
        let described: Vec<TaskEvent> = described.collect();
        let orders: Vec<Order> = orders.into_iter().map(|(order, _)| order).collect();
        if !described.is_empty() {
            assert!(self.core.step(Event::Tasks(described)).is_empty());
        }
        self.step(Event::Received(fence, MasterMessage::Orders(orders)))
    }

    fn boot(&mut self) -> String {
        self.boots += 1;
        self.core = self.model.core(self.boots);
        self.step(Event::Started)
    }

    fn volumes(&mut self, text: &str) -> String {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let event = match word {
            "made" => {
                let marker = |text: &str| {
                    let (device, inode) = text.split_once(':').unwrap();
                    Marker { device: device.parse().unwrap(), inode: inode.parse().unwrap() }
                };
                Event::VolumesMade(self.waiting, Ok(rest.split(' ').map(marker).collect()))
            }
            "failed" => Event::VolumesMade(self.waiting, Err(rest.to_owned())),
            "removed" => Event::VolumesRemoved(self.waiting),
            other => panic!("unknown result {other}"),
        };
        self.step(event)
    }

    fn step(&mut self, event: Event) -> String {
        let mut output = String::new();
        for action in self.core.step(event) {
            writeln!(output, "{action}").unwrap();
            match action {
                Action::Checkpoint(writes) => {
                    writes.into_iter().for_each(|row| self.model.write(row));
                }
                Action::Volumes(
                    VolumeStep::Create { seq, .. } | VolumeStep::Destroy { seq, .. },
                ) => self.waiting = seq,
                Action::Send(AgentMessage::Statuses(updates)) => {
                    for StatusUpdate { framework_id, status, .. } in updates {
                        let name = TaskName { framework_id, task_id: status.task_id };
                        self.sent.insert(name, status.uuid.unwrap());
                    }
                }
                _ => {}
            }
        }
        if output.is_empty() { "nothing\n".to_owned() } else { output }
    }
}

fn parse_fence(text: &str) -> Fence {
    let parts: Vec<&str> = text.split('/').collect();
    let [cluster, incarnation, term] = parts[..] else { panic!("unknown command {text}") };
    Fence {
        cluster_id: ClusterId::parse(cluster).unwrap(),
        incarnation: Incarnation(incarnation.parse().unwrap()),
        term: Term(term.parse().unwrap()),
    }
}

fn message(text: &str) -> MasterMessage {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "welcome" => MasterMessage::Welcome {
            agent_id: AgentId::parse(rest).unwrap(),
            ping_interval: Duration::from_secs(15),
            pings_missed_max: 5,
        },
        "refused" => {
            let (when, reason) = rest.split_once(' ').unwrap();
            let retry = match when {
                "never" | "gone" => Retry::Never,
                _ => Retry::Later,
            };
            MasterMessage::Refused {
                reason: reason.to_owned(),
                retry,
                end_tasks: when == "gone",
                retry_after: when.parse().ok().map(Duration::from_secs),
            }
        }
        "ack" => MasterMessage::Acknowledge { upto: Seq(rest.parse().unwrap()) },
        "send-total" => MasterMessage::SendTotal,
        "ping" => MasterMessage::Ping,
        "unregistered" => MasterMessage::Unregistered,
        other => panic!("unknown message {other}"),
    }
}

fn order(text: &str) -> (Order, Option<Facts>) {
    let words: Vec<&str> = text.split(' ').collect();
    let (number, id) = words[0].split_once('=').unwrap_or((words[0], ""));
    let seq = Seq(number.parse().unwrap());
    let id = if id.is_empty() { format!("o{seq}") } else { id.to_owned() };
    let operation_id = OperationId::parse(id).unwrap();
    if words[1] == "launch" {
        let (operation, facts) = task_words::launch(&words[2..]);
        return (Order { seq, operation_id, operation }, Some(facts));
    }
    let role = Role::parse(words[2]).unwrap();
    let reservation = Reservation {
        kind: ReservationKind::Dynamic,
        role,
        principal: Some(Principal::new("ops")),
        labels: Labels::default(),
    };
    let plain = |text: &str| -> Vec<Resource> {
        let resources = parse::resources_text(text, &Role::star()).unwrap();
        resources.iter().map(|r| r.clone().push_reservation(reservation.clone())).collect()
    };
    let volume = || vec![volume_of(plain(&format!("disk:{}", words[4])).remove(0), words[3])];
    let operation = match words[1] {
        "reserve" => Operation::Reserve { resources: plain(words[3]), source: Vec::new() },
        "unreserve" => Operation::Unreserve { resources: plain(words[3]) },
        "create" => Operation::Create { volumes: volume() },
        "destroy" => Operation::Destroy { volumes: volume() },
        other => panic!("unknown operation {other}"),
    };
    (Order { seq, operation_id, operation }, None)
}

/// A volume on disk that `ads` has reserved.
pub(crate) fn volume_of_ads(id: &str, mb: &str) -> Resource {
    let (order, _) = order(&format!("1 create ads {id} {mb}"));
    match order.operation {
        Operation::Create { mut volumes } => volumes.remove(0),
        other => panic!("{other:?}"),
    }
}

fn volume_of(mut disk: Resource, id: &str) -> Resource {
    let persistence = Some(Persistence { id: VolumeId::parse(id).unwrap(), principal: None });
    let mount = VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw };
    disk.disk = Some(Disk { source: None, persistence, volume: Some(mount) });
    disk
}

fn play(script: &str) -> String {
    let mut player = Player::new();
    let mut blocks = Vec::new();
    for block in script.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
        let head = block.split("\n---").next().unwrap();
        let mut output = String::new();
        for command in head.lines().filter(|line| !line.starts_with('#')) {
            output.push_str(&player.command(command));
        }
        blocks.push(format!("{head}\n---\n{output}"));
    }
    blocks.join("\n")
}

#[test]
fn golden_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts");
    let is_recording = std::env::var_os("HOLDFAST_RERECORD").is_some();
    let mut differing = Vec::new();
    let mut scripts: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty(), "no script was found");
    for path in scripts {
        let script = std::fs::read_to_string(&path).unwrap();
        let played = play(&script);
        if is_recording {
            std::fs::File::create(&path)
                .and_then(|mut file| std::io::Write::write_all(&mut file, played.as_bytes()))
                .unwrap();
        } else if script != played {
            differing.push(format!("{}:\n{played}", path.display()));
        }
    }
    assert!(
        differing.is_empty(),
        "{}\nrecord with: HOLDFAST_RERECORD=1 cargo test -p holdfast-agent golden",
        differing.join("\n"),
    );
}
