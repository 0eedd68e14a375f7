//! Kills the agent between any two of its steps and starts it again on the same directory: each
//! order is either not done at all, or done as a whole and never twice. Tests only.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;

use resources::collection::Resources;
use resources::id::{AgentId, ClusterId, Incarnation, OperationId, Principal, Seq, Term};
use resources::message::{AgentMessage, Fence, MasterMessage, Order, Outcome};
use resources::operation::Operation;
use resources::resource::{
    Disk, Labels, Persistence, Reservation, ReservationKind, Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;

use crate::config::{Config, Flags};
use crate::core::event::{Action, Event, VolumeStep};
use crate::recovery::{Recovered, recover};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

/// Settings of an agent on `work_dir`.
pub(crate) fn config(work_dir: &Path, more: &[&str]) -> Config {
    let work_dir = work_dir.to_str().unwrap();
    let base = ["agent", "--master", "127.0.0.1:1", "--work-dir", work_dir, "--listen"];
    let boot: &[&str] = if more.contains(&"--boot-id") { &[] } else { &["--boot-id", "b1"] };
    let base = base.into_iter().chain(["127.0.0.1:0"]).chain(boot.iter().copied());
    let cli = Cli::try_parse_from(base.chain(more.iter().copied())).unwrap();
    cli.flags.into_config().unwrap()
}

/// A volume of 64 MB of this disk.
fn volume(disk: &Resource, id: &str) -> Resource {
    let mut volume = reserved(disk);
    let source = disk.disk_source().cloned();
    volume.disk = Some(Disk {
        source,
        persistence: Some(Persistence { id: id.parse().unwrap(), principal: None }),
        volume: Some(VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw }),
    });
    volume
}

fn reserved(disk: &Resource) -> Resource {
    disk.clone().push_reservation(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse("ads").unwrap(),
        principal: Some(Principal::new("ops")),
        labels: Labels::default(),
    })
}

fn order(seq: u64, operation: Operation) -> Order {
    Order { seq: Seq(seq), operation_id: OperationId::parse(format!("o{seq}")).unwrap(), operation }
}

/// A live agent whose shell runs in the test and may stop after any number of steps.
struct Agent {
    recovered: Recovered,
    /// Steps left until the process is killed.
    fuel: usize,
    sent: Vec<AgentMessage>,
}

impl Agent {
    fn start(config: &Config, fuel: usize) -> Self {
        let recovered = recover(config).unwrap();
        let mut agent = Self { recovered, fuel, sent: Vec::new() };
        agent.step(Event::Started);
        agent
    }

    fn is_dead(&self) -> bool {
        self.fuel == 0
    }

    fn burn(&mut self) -> bool {
        let is_alive = self.fuel > 0;
        self.fuel = self.fuel.saturating_sub(1);
        is_alive
    }

    fn step(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.recovered.core.step(event) {
                if !self.burn() {
                    return;
                }
                match action {
                    Action::Checkpoint(writes) => {
                        self.recovered.checkpoint.commit(&writes).unwrap();
                    }
                    Action::Volumes(VolumeStep::Create { seq, volumes }) => {
                        let made = self.recovered.volumes.create(&volumes);
                        if !self.burn() {
                            return;
                        }
                        events.push(Event::VolumesMade(seq, made));
                    }
                    Action::Volumes(VolumeStep::Destroy { seq, volumes }) => {
                        self.recovered.volumes.destroy(seq, &volumes).unwrap();
                        if !self.burn() {
                            return;
                        }
                        events.push(Event::VolumesRemoved(seq));
                    }
                    Action::EmptyTrash(upto) => self.recovered.volumes.empty_trash(upto),
                    Action::Send(message) => self.sent.push(message),
                    Action::Exit(reason) => panic!("{reason}"),
                    _ => {}
                }
            }
        }
    }

    fn receive(&mut self, message: MasterMessage) {
        let cluster_id = ClusterId::parse("c").unwrap();
        let fence = Fence { cluster_id, incarnation: Incarnation(0), term: Term(1) };
        if !self.is_dead() {
            self.step(Event::Received(fence, message));
        }
    }

    /// Registers, and gets every order that it does not have.
    fn serve(&mut self, orders: &[Order]) {
        if self.is_dead() {
            return;
        }
        self.step(Event::Opened);
        self.receive(MasterMessage::Welcome {
            agent_id: AgentId::parse("S0").unwrap(),
            ping_interval: Duration::from_secs(15),
            pings_missed_max: 5,
        });
        let applied = self.recovered.core.applied_seq();
        let missing: Vec<Order> = orders.iter().filter(|o| o.seq > applied).cloned().collect();
        if !missing.is_empty() {
            self.receive(MasterMessage::Orders(missing));
        }
    }

    fn total(&self) -> &Resources {
        self.recovered.core.total()
    }
}

/// Kills the agent after every possible number of steps of `orders`, starts it again, and checks
/// that it ends as if nothing had happened.
fn kill_everywhere(disk: &Resource, root: &Path, flags: &[&str], orders: &[Order]) {
    let directory = |id: &str| root.join("volumes/roles/ads").join(id);
    let mut deaths = 0;
    for fuel in 1.. {
        let work_dir = tempfile::tempdir().unwrap();
        if root.exists() {
            std::fs::remove_dir_all(root).unwrap();
        }
        let config = config(work_dir.path(), flags);
        let mut agent = Agent::start(&config, usize::MAX);
        let first = [
            order(1, Operation::Reserve { resources: vec![reserved(disk)], source: Vec::new() }),
            order(2, Operation::Create { volumes: vec![volume(disk, "v1")] }),
        ];
        agent.serve(&first);
        std::fs::write(directory("v1").join("marker"), "x").unwrap();
        let before = agent.total().clone();

        agent.fuel = fuel;
        agent.receive(MasterMessage::Orders(orders.to_vec()));
        let is_dead = agent.is_dead();
        deaths += usize::from(is_dead);
        drop(agent);
        // The recovery is killed as well, a few times.
        for fuel in [1, 2, 4, 7] {
            Agent::start(&config, fuel);
        }

        let mut agent = Agent::start(&config, usize::MAX);
        let applied = agent.recovered.core.applied_seq();
        assert!(applied == Seq(2) || applied == orders.last().unwrap().seq, "{applied}");
        if applied == Seq(2) {
            assert_eq!(*agent.total(), before, "killed after {fuel}");
            assert!(directory("v1").join("marker").exists(), "killed after {fuel}");
        }
        assert_eq!(agent.recovered.core.unavailable().count(), 0, "killed after {fuel}");
        agent.serve(orders);
        assert_eq!(agent.recovered.core.applied_seq(), orders.last().unwrap().seq);
        assert!(!directory("v1").join("marker").exists(), "killed after {fuel}");
        for end in agent.recovered.core.settled() {
            assert_eq!(end.outcome, Outcome::Finished, "killed after {fuel}");
        }
        let mut expected = before;
        orders.iter().for_each(|order| expected.apply(&order.operation).unwrap());
        assert_eq!(*agent.total(), expected, "killed after {fuel}");
        for id in ["v1", "v2"] {
            let is_volume = expected.volumes().any(|v| v.volume_id().unwrap().as_str() == id);
            assert_eq!(directory(id).exists(), is_volume, "{id}, killed after {fuel}");
        }
        if !is_dead {
            break;
        }
    }
    assert!(deaths >= 5, "the agent was killed only {deaths} times");
}

fn disk(flags: &[&str]) -> Resource {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), flags);
    let disk = config.resources.iter().find(|r| r.name == "disk").unwrap();
    let mut disk = disk.clone();
    disk.value = resources::value::Value::Scalar(resources::value::Scalar::from_milli(64_000));
    disk
}

fn orders(disk: &Resource) -> Vec<Order> {
    vec![
        order(3, Operation::Destroy { volumes: vec![volume(disk, "v1")] }),
        order(4, Operation::Create { volumes: vec![volume(disk, "v1")] }),
        order(5, Operation::Destroy { volumes: vec![volume(disk, "v1")] }),
        order(6, Operation::Create { volumes: vec![volume(disk, "v2")] }),
    ]
}

#[test]
fn killed_anywhere_on_a_path_disk() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("disk");
    let flag = format!(
        r#"[{{"name":"disk","type":"SCALAR","scalar":{{"value":1000}},
            "disk":{{"source":{{"type":"PATH","path":{{"root":"{}"}}}}}}}}]"#,
        root.display()
    );
    let flags = ["--resources", &flag];
    let disk = disk(&flags);
    kill_everywhere(&disk, &root, &flags, &orders(&disk));
}

#[test]
fn killed_anywhere_on_the_root_disk() {
    let flags = ["--resources", "disk:1000"];
    let disk = disk(&flags);
    for fuel in 1.. {
        let work_dir = tempfile::tempdir().unwrap();
        let config = config(work_dir.path(), &flags);
        let directory = work_dir.path().join("volumes/roles/ads/v1");
        let orders = [
            order(1, Operation::Reserve { resources: vec![reserved(&disk)], source: Vec::new() }),
            order(2, Operation::Create { volumes: vec![volume(&disk, "v1")] }),
        ];
        let mut agent = Agent::start(&config, usize::MAX);
        agent.fuel = fuel;
        agent.serve(&orders);
        let is_dead = agent.is_dead();
        drop(agent);
        let mut agent = Agent::start(&config, usize::MAX);
        agent.serve(&orders);
        assert!(directory.is_dir(), "killed after {fuel}");
        assert_eq!(agent.total().volumes().count(), 1);
        let checkpoint_id = agent.recovered.core.identity().checkpoint_id.clone();
        drop(agent);
        let again = Agent::start(&config, usize::MAX);
        assert_eq!(again.recovered.core.identity().checkpoint_id, checkpoint_id);
        assert_eq!(again.total().volumes().count(), 1);
        if !is_dead {
            break;
        }
    }
}

/// A file system of its own on a folder, for as long as the value lives.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// None where this process may not mount.
    fn try_new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "none"].map(std::ffi::OsStr::new);
        let mut command = std::process::Command::new("mount");
        let output = command.args(mount).arg(folder.path()).output();
        output.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn killed_anywhere_on_a_mount_disk() {
    let Some(mounted) = Mounted::try_new() else {
        eprintln!("skipped: this process may not mount");
        return;
    };
    let root = mounted.0.path();
    let flag = format!(
        r#"[{{"name":"disk","type":"SCALAR","scalar":{{"value":64}},
            "disk":{{"source":{{"type":"MOUNT","mount":{{"root":"{}"}}}}}}}}]"#,
        root.display()
    );
    let flags = ["--resources", &flag];
    let disk = disk(&flags);
    for fuel in 1.. {
        let work_dir = tempfile::tempdir().unwrap();
        let config = config(work_dir.path(), &flags);
        let mut agent = Agent::start(&config, usize::MAX);
        agent.serve(&[
            order(1, Operation::Reserve { resources: vec![reserved(&disk)], source: Vec::new() }),
            order(2, Operation::Create { volumes: vec![volume(&disk, "v1")] }),
        ]);
        std::fs::create_dir_all(root.join("folder")).unwrap();
        std::fs::write(root.join("folder/marker"), "x").unwrap();
        let orders = [
            order(3, Operation::Destroy { volumes: vec![volume(&disk, "v1")] }),
            order(4, Operation::Create { volumes: vec![volume(&disk, "v2")] }),
        ];
        agent.fuel = fuel;
        agent.receive(MasterMessage::Orders(orders.to_vec()));
        let is_dead = agent.is_dead();
        drop(agent);
        let mut agent = Agent::start(&config, usize::MAX);
        if agent.recovered.core.applied_seq() == Seq(2) {
            assert!(root.join("folder/marker").exists(), "killed after {fuel}");
        }
        agent.serve(&orders);
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 0, "killed after {fuel}");
        assert_eq!(agent.recovered.core.unavailable().count(), 0);
        let volumes: Vec<String> =
            agent.total().volumes().map(|v| v.volume_id().unwrap().to_string()).collect();
        assert_eq!(volumes, ["v2"]);
        if !is_dead {
            break;
        }
    }
}

#[test]
fn restart_refuses_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--resources", "cpus:4;mem:64;disk:1000"];
    let disk = disk(&flags);
    let mut agent = Agent::start(&config(folder.path(), &flags), usize::MAX);
    let resources = vec![reserved(&disk)];
    agent.serve(&[order(1, Operation::Reserve { resources, source: Vec::new() })]);
    drop(agent);
    let refusal = |more: &[&str]| recover(&config(folder.path(), more)).unwrap_err().to_string();

    let less = ["--resources", "cpus:4;mem:64;disk:1001"];
    let text = refusal(&less);
    assert!(text.contains("disk:1000") && text.contains("disk:1001"), "{text}");
    let text = refusal(&[&flags[..], &["--hostname", "other"]].concat());
    assert!(text.contains("hostname was '127.0.0.1', now 'other'"), "{text}");
    // After a reboot the agent may start afresh, but what is reserved must still fit.
    let text = refusal(&["--resources", "cpus:4;mem:64;disk:10", "--boot-id", "b2"]);
    assert!(text.contains("incompatible agent resources"), "{text}");
    // Growth is allowed by the other policy, and the agent keeps its id.
    let more = ["--resources", "cpus:8;mem:64;disk:2000", "--reconfiguration-policy", "additive"];
    let recovered = recover(&config(folder.path(), &more)).unwrap();
    assert_eq!(recovered.core.agent_id().map(AgentId::as_str), Some("S0"));
    drop(recovered);
    let rebooted = [&more[..2], &["--hostname", "other", "--boot-id", "b2"]].concat();
    let recovered = recover(&config(folder.path(), &rebooted)).unwrap();
    assert_eq!(recovered.core.agent_id(), None);
}

#[test]
fn missing_directory_is_unavailable_and_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--resources", "disk:1000"];
    let disk = disk(&flags);
    let config = config(folder.path(), &flags);
    let mut agent = Agent::start(&config, usize::MAX);
    agent.serve(&[
        order(1, Operation::Reserve { resources: vec![reserved(&disk)], source: Vec::new() }),
        order(2, Operation::Create { volumes: vec![volume(&disk, "v1")] }),
    ]);
    drop(agent);
    let directory: PathBuf = folder.path().join("volumes/roles/ads/v1");
    std::fs::remove_dir(&directory).unwrap();

    let mut agent = Agent::start(&config, usize::MAX);
    agent.step(Event::Opened);
    let Some(AgentMessage::Register(registration)) = agent.sent.first() else { panic!() };
    assert_eq!(registration.unavailable, [volume(&disk, "v1")]);
    assert!(!directory.exists());
}
