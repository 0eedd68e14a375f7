//! Restarts with other flags and after reboots (spec §7.5). A refused start changes no byte.

use resources::id::{AgentId, Seq};

use super::rig::{Agent, Rig, image, one_line};
use super::rig::{Kind, config};

const RESOURCES: &str = "cpus:4;mem:64;disk:1000";

struct Restarts {
    rig: Rig,
}

impl Restarts {
    /// An agent `S0` with 100 MB reserved, and a volume of 64 of them.
    fn new() -> Self {
        let mut rig = Rig::new(Kind::Root);
        rig.flags = ["--resources", RESOURCES, "--attributes", "rack:a"].map(String::from).into();
        let batch = vec![rig.reserve(100), rig.create(&[("v1", 64)])];
        rig.start().serve(&[batch]);
        Self { rig }
    }

    fn try_start(&self, flags: &[&str]) -> Result<Agent, String> {
        let config = config(self.rig.work_dir(), flags);
        Agent::try_start(&config).map_err(|error| one_line(&error))
    }
    fn start(&self, flags: &[&str]) -> Agent {
        self.try_start(flags).unwrap()
    }
    fn refusal(&self, flags: &[&str]) -> String {
        let before = image(self.rig.work_dir());
        let text = self.try_start(flags).unwrap_err();
        assert_eq!(image(self.rig.work_dir()), before, "{text}");
        assert!(text.contains("agent.redb"), "the file is named: {text}");
        text
    }
}

fn id_of(agent: &Agent) -> Option<&str> {
    agent.recovered.core.agent_id().map(AgentId::as_str)
}

#[test]
fn incompatible_flags_are_explained() {
    let restarts = Restarts::new();
    let same = ["--resources", RESOURCES, "--attributes", "rack:a"];
    let text = restarts.refusal(&[&same[..], &["--hostname", "other"]].concat());
    for part in [
        "hostname was '127.0.0.1' at the last start, now 'other'",
        "first start again with the --hostname of then, which loses nothing",
        "under a new id, which loses its tasks and keeps reservations and volumes",
        "another --work-dir starts a new agent, and leaves reservations and volumes",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("additive"), "no policy allows it: {text}");
    let text = restarts.refusal(&["--resources", RESOURCES, "--attributes", "rack:a;more:b"]);
    assert!(text.contains("attributes was 'rack:a' at the last start, now 'rack:a;more:b'"));
    assert!(text.contains("or with --reconfiguration-policy additive"), "{text}");
    let text = restarts.refusal(&["--resources", "cpus:5;mem:64;disk:1000", same[2], same[3]]);
    assert!(text.contains("cpus:4") && text.contains("now 'cpus:5"), "{text}");
    assert!(text.contains("or with --reconfiguration-policy additive"), "{text}");
    let less = ["--resources", "cpus:3;mem:64;disk:1000", same[2], same[3]];
    for policy in ["equal", "additive"] {
        let flags = [&less[..], &["--reconfiguration-policy", policy]].concat();
        let text = restarts.refusal(&flags);
        assert!(text.contains("now 'cpus:3") && !text.contains("or with"), "{text}");
    }
    assert_eq!(id_of(&restarts.start(&same)), Some("S0"));
}

#[test]
fn growth_keeps_the_id() {
    let restarts = Restarts::new();
    let more = [
        "--resources",
        "cpus:8;mem:64;disk:2000;gpus:1",
        "--attributes",
        "rack:a;more:b",
        "--reconfiguration-policy",
        "additive",
    ];
    let agent = restarts.start(&more);
    assert_eq!(id_of(&agent), Some("S0"));
    assert!(agent.total().contains_one(&restarts.rig.volume("v1", 64)));
    let milli = |name: &str| agent.total().scalar(name).unwrap().milli();
    assert_eq!((milli("cpus"), milli("disk"), milli("gpus")), (8_000, 2_000_000, 1_000));
    drop(agent);
    // From now on this is what the agent was started with.
    restarts.refusal(&["--resources", RESOURCES, "--attributes", "rack:a"]);
    assert_eq!(id_of(&restarts.start(&more[..4])), Some("S0"));
}

#[test]
fn incompatible_after_a_reboot_is_a_new_agent_with_everything() {
    let restarts = Restarts::new();
    let changed = ["--resources", RESOURCES, "--attributes", "rack:b", "--boot-id", "b2"];
    let mut agent = restarts.start(&changed);
    assert_eq!(id_of(&agent), None);
    agent.step(crate::core::event::Event::Opened);
    let registration = agent.registration();
    assert_eq!(registration.agent_id, None);
    assert_eq!(registration.applied_seq, Seq(2));
    let checkpoint_id = registration.checkpoint_id.clone();
    assert!(agent.total().contains_one(&restarts.rig.volume("v1", 64)));
    assert!(restarts.rig.directory("v1").is_dir());
    drop(agent);
    // The name is given up for good, also if this start never reached a master.
    let agent = restarts.start(&changed);
    assert_eq!(id_of(&agent), None);
    assert_eq!(agent.recovered.core.identity().checkpoint_id, checkpoint_id);
}

#[test]
fn what_is_reserved_must_fit_whatever_else() {
    let restarts = Restarts::new();
    for flags in [
        &["--resources", "cpus:4;mem:64;disk:99", "--boot-id", "b2"][..],
        &["--resources", "disk:50", "--reconfiguration-policy", "additive", "--boot-id", "b2"],
        &["--resources", "cpus:4;mem:64;disk(ads):1000", "--boot-id", "b2"],
    ] {
        let text = restarts.refusal(flags);
        assert!(text.contains("incompatible agent resources"), "{text}");
        assert!(text.contains("(DYNAMIC,ads,ops)"), "whose: {text}");
        assert!(
            text.contains("first start again with the --resources of the last start, 'cpus:4"),
            "{text}"
        );
        assert!(text.contains("a destroyed volume loses its data"), "{text}");
    }
}
