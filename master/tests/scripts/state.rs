//! Scripts of the replicated state. Commands:
//!
//! ```text
//! form CLUSTER                       office MASTER ADDRESS TERM
//! register WORKDIR declares=LIST [boot=N] [id=AGENT] [host=NAME] [applied=SEQ] [holds=LIST]
//!          [settled=SEQ:OP[!reason],…] [fence=CLUSTER/INCARNATION/TERM]
//! reserve|unreserve|create|destroy AGENT OP LIST [from=LIST] [as=PRINCIPAL]
//! confirm AGENT UPTO [SEQ!reason …]  diverge AGENT foreign=LIST missing=LIST
//! show AGENT · operations · alarms
//! ```
//! `_` in a reason is a blank. After every line: the total is the fold, quantities are what the
//! agent declares, and the snapshot thaws to the same state.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::conversion::fold;
use resources::id::{
    AgentId, CheckpointId, ClusterId, Incarnation, LogIndex, MasterId, OperationId, Principal, Seq,
    Term,
};
use resources::message::{AgentInfo, Fence, Outcome, Registration, Settled};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::time::Timestamp;

use master::state::command::{Command, CommandKind, SourceAddr};
use master::state::operations::OperationRecord;
use master::state::{Moment, State, codec};

use super::notation::list;

#[test]
fn state() {
    super::run_all("state", || {
        let mut play = Play::default();
        move |line: &str| play.line(line)
    });
}

#[derive(Default)]
struct Play {
    state: State,
    index: u64,
}

/// A line in parts: its words, and what stands behind `name=`.
pub(crate) struct Line<'a> {
    pub(crate) words: Vec<&'a str>,
    pub(crate) named: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        let is_named = |word: &&str| word.split_once('=').is_some_and(|(n, _)| is_name(n));
        let (named, words) = line.split_whitespace().partition::<Vec<_>, _>(is_named);
        let named = named.into_iter().map(|word| word.split_once('=').unwrap()).collect();
        Self { words, named }
    }
    fn number(&self, name: &str, default: u64) -> u64 {
        self.named.get(name).map_or(default, |text| text.parse().unwrap())
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase())
}

impl Play {
    fn line(&mut self, text: &str) -> Vec<String> {
        let line = Line::new(text);
        match line.words[0] {
            "show" => return self.show(line.words[1]),
            "operations" => return self.state.operations().map(ToString::to_string).collect(),
            "alarms" => {
                let alarms = self.state.alarms();
                return alarms.map(|alarm| format!("{} {}", alarm.index, alarm.text)).collect();
            }
            _ => {}
        }
        self.index += 1;
        let now = Moment {
            index: LogIndex(self.index),
            clock: Timestamp::from_nanos(self.index * 1_000_000_000),
            wall: Timestamp::from_nanos(self.index * 1_000_000_000),
        };
        let command = Command {
            principal: line.named.get("as").map(|name| Principal::new(*name)),
            source: SourceAddr("script".to_owned()),
            key: None,
            kind: kind(&line),
        };
        let before = self.state.freeze();
        let (response, effects) = self.state.apply(now, &command);
        if let master::state::Response::Rejected(_) = response {
            assert!(self.state.agents().eq(before.agents()), "a rejection changed an agent");
            assert!(self.state.operations().eq(before.operations()));
        }
        self.check();
        let effects = effects.iter().map(|effect| format!("  {effect}"));
        std::iter::once(format!("{} {response}", self.index)).chain(effects).collect()
    }

    fn show(&self, id: &str) -> Vec<String> {
        let Some(agent) = self.state.agent(&AgentId::parse(id).unwrap()) else {
            return vec![format!("no agent {id}")];
        };
        let mut lines = vec![agent.to_string(), format!("  total {}", agent.total)];
        if agent.confirmed != agent.total {
            lines.push(format!("  confirmed {}", agent.confirmed));
        }
        lines.extend(agent.pending.values().map(|record| format!("  {record}")));
        lines
    }

    fn check(&self) {
        for agent in self.state.agents() {
            let open = agent.pending.values().filter(|record| !record.is_settled());
            let (total, failed) = fold(&agent.confirmed, open.map(|record| &record.operation));
            assert_eq!((&total, failed.as_slice()), (&agent.total, [].as_slice()));
            assert_eq!(agent.total.quantities(), agent.base.quantities());
            let given = (agent.confirmed_seq.0 + 1..agent.next_seq.0).map(Seq);
            assert!(agent.pending.keys().copied().eq(given), "orders are dense");
        }
        let thawed = codec::thaw(codec::chunks(&self.state.freeze())).unwrap();
        assert_eq!(thawed, self.state);
    }
}

pub(crate) fn kind(line: &Line<'_>) -> CommandKind {
    let word = |at: usize| line.words[at];
    let agent_id = || AgentId::parse(word(1)).unwrap();
    match word(0) {
        "form" => CommandKind::FormCluster { cluster_id: ClusterId::parse(word(1)).unwrap() },
        "office" => CommandKind::TakeOffice {
            master_id: MasterId(word(1).parse().unwrap()),
            advertise: word(2).to_owned(),
            term: Term(word(3).parse().unwrap()),
        },
        "register" => CommandKind::RegisterAgent(Box::new(registration(word(1), line))),
        "confirm" => CommandKind::Confirm {
            agent_id: agent_id(),
            upto: Seq(word(2).parse().unwrap()),
            exceptions: line.words[3..].iter().map(|word| failure(word)).collect(),
        },
        "diverge" => CommandKind::RecordDivergence {
            agent_id: agent_id(),
            foreign: list(line.named.get("foreign").unwrap_or(&"")),
            missing: list(line.named.get("missing").unwrap_or(&"")),
        },
        name => CommandKind::Operate {
            agent_id: agent_id(),
            operation_id: OperationId::parse(word(2)).unwrap(),
            operation: operation(name, list(line.words[3]), line),
        },
    }
}

pub(crate) fn operation(name: &str, resources: Vec<Resource>, line: &Line<'_>) -> Operation {
    match name {
        "reserve" => {
            Operation::Reserve { resources, source: list(line.named.get("from").unwrap_or(&"")) }
        }
        "unreserve" => Operation::Unreserve { resources },
        "create" => Operation::Create { volumes: resources },
        "destroy" => Operation::Destroy { volumes: resources },
        other => panic!("no such command: {other}"),
    }
}

pub(crate) fn failure(word: &str) -> (Seq, String) {
    let (seq, reason) = word.split_once('!').unwrap();
    (Seq(seq.parse().unwrap()), reason.replace('_', " "))
}

/// A registration as a script writes it.
pub(crate) fn registration(work_dir: &str, line: &Line<'_>) -> Registration {
    let declares = list(line.named["declares"]);
    let holds: Resources = match line.named.get("holds") {
        Some(holds) => list(holds).into_iter().collect(),
        None => declares.iter().cloned().collect(),
    };
    let host = line.named.get("host").copied().unwrap_or("h1");
    let fence = line.named.get("fence").map(|text| {
        let parts: Vec<&str> = text.split('/').collect();
        Fence {
            cluster_id: ClusterId::parse(parts[0]).unwrap(),
            incarnation: Incarnation(parts[1].parse().unwrap()),
            term: Term(parts[2].parse().unwrap()),
        }
    });
    Registration {
        checkpoint_id: CheckpointId::parse(work_dir).unwrap(),
        boot_counter: line.number("boot", 1),
        agent_id: line.named.get("id").map(|id| AgentId::parse(*id).unwrap()),
        fence,
        info: AgentInfo {
            hostname: host.to_owned(),
            host: host.to_owned(),
            port: 5051,
            version: "0.1.0".to_owned(),
            attributes: Vec::new(),
            resources: declares,
        },
        applied_seq: Seq(line.number("applied", 0)),
        resources_digest: holds.digest(),
        settled: settled(line.named.get("settled").unwrap_or(&"")),
        unavailable: Vec::new(),
    }
}

fn settled(text: &str) -> Vec<Settled> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let parts = parts.map(|part| {
        let (seq, rest) = part.split_once(':').unwrap();
        let (operation_id, outcome) = match rest.split_once('!') {
            None => (rest, Outcome::Finished),
            Some((id, reason)) => (id, Outcome::Failed { reason: reason.replace('_', " ") }),
        };
        Settled {
            seq: Seq(seq.parse().unwrap()),
            operation_id: OperationId::parse(operation_id).unwrap(),
            outcome,
        }
    });
    parts.collect()
}

/// Ended operations beyond the limit are forgotten, the oldest first.
#[test]
fn settled_operations_are_bounded() {
    let mut play = Play::default();
    play.line("form c");
    play.line("register w1 declares=cpus:1");
    let rounds = master::state::limits::SETTLED_OPERATIONS_MAX as u64 / 2 + 3;
    for round in 0..rounds {
        let apply = |play: &mut Play, text: String| {
            play.index += 1;
            let now = Moment {
                index: LogIndex(play.index),
                clock: Timestamp::default(),
                wall: Timestamp::default(),
            };
            let (principal, source) = (None, SourceAddr("script".to_owned()));
            let kind = kind(&Line::new(&text));
            play.state.apply(now, &Command { principal, source, key: None, kind });
        };
        apply(&mut play, format!("reserve c-S0 r{round} cpus:1@ads"));
        apply(&mut play, format!("unreserve c-S0 u{round} cpus:1@ads"));
        apply(&mut play, format!("confirm c-S0 {}", 2 * round + 2));
    }
    play.check();
    let is_known = |id: &str| play.state.operation(&OperationId::parse(id).unwrap()).is_some();
    assert!(!is_known("r0") && !is_known("u2") && is_known("r3"));
    assert_eq!(play.state.operations().count(), master::state::limits::SETTLED_OPERATIONS_MAX);
}

/// The 4,097th unconfirmed order is refused, and accepted once there is room.
#[test]
fn pending_orders_are_bounded() {
    let mut play = Play::default();
    play.line("form c");
    play.line("register w1 declares=cpus:1");
    for round in 0..master::state::limits::PENDING_ORDERS_MAX as u64 / 2 {
        for (name, verb) in [("r", "reserve"), ("u", "unreserve")] {
            play.index += 1;
            let text = format!("{verb} c-S0 {name}{round} cpus:1@ads");
            let now = Moment {
                index: LogIndex(play.index),
                clock: Timestamp::default(),
                wall: Timestamp::default(),
            };
            let (principal, source) = (None, SourceAddr("script".to_owned()));
            let kind = kind(&Line::new(&text));
            play.state.apply(now, &Command { principal, source, key: None, kind });
        }
    }
    assert!(play.line("reserve c-S0 late cpus:1@ads")[0].contains("4096 unconfirmed orders"));
    play.line("confirm c-S0 1");
    assert!(play.line("reserve c-S0 late cpus:1@ads")[0].contains("accepted late"));
    let pending = |record: &&OperationRecord| !record.is_settled();
    assert_eq!(play.state.operations().filter(pending).count(), 4096);
}
