//! Lines of scripts: words, and what stands behind `name=`. From them commands are made:
//!
//! ```text
//! form CLUSTER                       office MASTER ADDRESS TERM
//! register WORKDIR declares=LIST [boot=N] [id=AGENT] [host=NAME] [applied=SEQ] [holds=LIST]
//!          [settled=SEQ:OP[!reason],…] [fence=CLUSTER/INCARNATION/TERM]
//!          [tasks=FRAMEWORK/TASK:STATE,…] [executors=FRAMEWORK/EXECUTOR,…]
//! reserve|unreserve|create|destroy AGENT OP LIST [from=LIST]
//! grow|shrink AGENT OP VOLUME by=AMOUNT
//! transact TX AGENT VERB LIST [by=…] | AGENT VERB LIST …
//! confirm AGENT UPTO [SEQ!reason …]
//! diverge AGENT foreign=LIST missing=LIST [applied=SEQ holds=LIST]
//! reconcile AGENT applied=SEQ holds=LIST [adopt=LIST] [forget=LIST] [recreate=LIST]
//! incarnation NUMBER
//! quota ROLE [guarantee=LIST] [limit=LIST] | ROLE … [force=yes] [prior=without|with]
//! weigh ROLE:WEIGHT …
//! maintain [MACHINE … from=NANOS [for=NANOS] | MACHINE … from=NANOS …] · down MACHINE … · up
//! MACHINE …
//! ```
//! Those of the life of agents are in `agents.rs`, those of frameworks and tasks in
//! `schedulers.rs`.
//!
//! Any of them with `as=PRINCIPAL`, `key=KEY`, `if=AGENT:VERSION,…`. `_` in a reason is a blank.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::id::{
    AgentId, CheckpointId, ClusterId, Incarnation, MasterId, OperationId, Principal, Seq, Term,
};
use resources::machine::{MachineId, Unavailability, Window};
use resources::message::{AgentInfo, Fence, Outcome, Registration, Settled};
use resources::operation::Operation;
use resources::quantity::{Limits, Quantities};
use resources::quota::{Quota, QuotaConfig};
use resources::role::Role;

use master::state::command::{Command, CommandKind, IdempotencyKey, SourceAddr};
use master::state::maintenance::MaintenanceUpdate;
use master::state::quota::{Prior, QuotaUpdate};
use master::state::reconcile::{Choice, Held};
use master::state::rules::Rule;
use master::state::transactions::{Member, TransactionId};
use master::state::weights::WeightUpdate;

use super::notation::{amount, list};
use super::{agents, schedulers};

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
    pub(crate) fn number(&self, name: &str, default: u64) -> u64 {
        self.named.get(name).map_or(default, |text| text.parse().unwrap())
    }
    pub(crate) fn text(&self, name: &str) -> &str {
        self.named.get(name).copied().unwrap_or_default()
    }
    pub(crate) fn principal(&self) -> Option<Principal> {
        self.named.get("as").map(|name| Principal::new(*name))
    }
    pub(crate) fn key(&self) -> Option<IdempotencyKey> {
        self.named.get("key").map(|key| IdempotencyKey::parse(*key).unwrap())
    }
    pub(crate) fn versions(&self) -> BTreeMap<AgentId, u64> {
        let pairs = self.text("if").split(',').filter_map(|pair| pair.rsplit_once(':'));
        pairs.map(|(id, version)| (AgentId::parse(id).unwrap(), version.parse().unwrap())).collect()
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase())
}

/// The command of a line.
pub(crate) fn command(text: &str) -> Command {
    let line = Line::new(text);
    Command {
        principal: line.principal(),
        source: SourceAddr("script".to_owned()),
        key: line.key(),
        if_versions: line.versions(),
        kind: match line.words[0] {
            "transact" => transaction(text),
            "accept" => schedulers::accept(text),
            "quota" | "weigh" | "maintain" | "down" | "up" => {
                CommandKind::SetRule(Box::new(rule(text)))
            }
            _ => agents::kind(&line)
                .or_else(|| schedulers::kind(&line))
                .unwrap_or_else(|| kind(&line)),
        },
    }
}

fn transaction(text: &str) -> CommandKind {
    let id = Line::new(text).words[1].to_owned();
    let members = members(text, 2).into_iter().zip(1..).map(|((agent_id, operation), number)| {
        let operation_id = OperationId::parse(format!("{id}.{number}")).unwrap();
        Member { agent_id, operation_id, operation }
    });
    let transaction_id = TransactionId::parse(&*id).unwrap();
    CommandKind::Transact { transaction_id, members: members.collect() }
}

/// Machines as scripts write them: `HOST`, or an address.
fn machines(words: &[&str]) -> Vec<MachineId> {
    let machine = |word: &&str| match word.parse::<std::net::Ipv4Addr>() {
        Ok(_) => MachineId::parse(None, Some(word)).unwrap(),
        Err(_) => MachineId::parse(Some(word), None).unwrap(),
    };
    words.iter().map(machine).collect()
}

fn windows(text: &str) -> Vec<Window> {
    let text = text.strip_prefix("maintain").unwrap_or_default().trim();
    let parts = text.split(" | ").filter(|part| !part.is_empty());
    let window = |part: &str| {
        let line = Line::new(part);
        let number = |name: &str| line.named.get(name).map(|text| text.parse().unwrap());
        let start_ns = number("from").unwrap();
        let unavailability = Unavailability { start_ns, duration_ns: number("for") };
        Window { machines: machines(&line.words), unavailability }
    };
    parts.map(window).collect()
}

/// The rule of a line that begins with `quota`, `weigh`, `maintain`, `down` or `up`.
pub(crate) fn rule(text: &str) -> Rule {
    let line = Line::new(text);
    match line.words[0] {
        "maintain" => return Rule::Maintenance(MaintenanceUpdate::Schedule(windows(text))),
        "down" => return Rule::Maintenance(MaintenanceUpdate::Start(machines(&line.words[1..]))),
        "up" => return Rule::Maintenance(MaintenanceUpdate::Stop(machines(&line.words[1..]))),
        _ => {}
    }
    if line.words[0] == "weigh" {
        let weights = line.words[1..].iter().map(|word| {
            let (role, weight) = word.rsplit_once(':').unwrap();
            (Role::parse(role).unwrap(), weight.parse().unwrap())
        });
        return Rule::Weights(WeightUpdate { weights: weights.collect() });
    }
    let configs = text.strip_prefix("quota ").unwrap_or_default().split(" | ").map(|part| {
        let line = Line::new(part);
        let quota = Quota {
            guarantees: Quantities::parse(line.text("guarantee")).unwrap(),
            limits: Limits::parse(line.text("limit")).unwrap(),
        };
        QuotaConfig { role: Role::parse(line.words[0]).unwrap(), quota }
    });
    let prior = match line.text("prior") {
        "without" => Prior::Without,
        "with" => Prior::With,
        _ => Prior::Any,
    };
    let force = line.named.contains_key("force");
    Rule::Quota(QuotaUpdate { configs: configs.collect(), force, prior })
}

/// `AGENT VERB LIST … | AGENT VERB LIST …` behind the first words.
pub(crate) fn members(text: &str, skipped: usize) -> Vec<(AgentId, Operation)> {
    let members = text.split(" | ").zip(0..).map(|(member, at)| {
        let line = Line::new(member);
        let words = if at == 0 { &line.words[skipped..] } else { &line.words[..] };
        let [agent_id, verb, list] = words else { return None };
        Some((AgentId::parse(*agent_id).unwrap(), operation(verb, list, &line)))
    });
    members.flatten().collect()
}

fn kind(line: &Line<'_>) -> CommandKind {
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
            foreign: list(line.text("foreign")),
            missing: list(line.text("missing")),
            held: line.named.get("holds").map(|_| held(line)),
        },
        "reconcile" => CommandKind::Reconcile {
            agent_id: agent_id(),
            held: held(line),
            choices: ["adopt", "forget", "recreate"]
                .iter()
                .flat_map(|word| choices(line, word))
                .collect(),
        },
        "incarnation" => {
            CommandKind::NewIncarnation { incarnation: Incarnation(word(1).parse().unwrap()) }
        }
        name => CommandKind::Operate {
            agent_id: agent_id(),
            operation_id: OperationId::parse(word(2)).unwrap(),
            operation: operation(name, word(3), line),
        },
    }
}

/// What an agent told: `applied=SEQ holds=LIST`.
fn held(line: &Line<'_>) -> Held {
    let holds: Resources = list(line.text("holds")).into_iter().collect();
    Held { applied_seq: Seq(line.number("applied", 0)), digest: holds.digest() }
}

fn choices(line: &Line<'_>, word: &str) -> Vec<Choice> {
    let choice = match word {
        "adopt" => Choice::Adopt,
        "forget" => Choice::Forget,
        _ => Choice::Recreate,
    };
    list(line.text(word)).into_iter().map(choice).collect()
}

/// The operation of a verb on resources.
pub(crate) fn operation(verb: &str, resources: &str, line: &Line<'_>) -> Operation {
    let mut resources = list(if resources == "nothing" { "" } else { resources });
    match verb {
        "reserve" => Operation::Reserve { resources, source: list(line.text("from")) },
        "unreserve" => Operation::Unreserve { resources },
        "create" => Operation::Create { volumes: resources },
        "destroy" => Operation::Destroy { volumes: resources },
        "grow" => {
            let (volume, addition) = (resources.remove(0), list(line.text("by")).remove(0));
            Operation::Grow { volume, addition }
        }
        "shrink" => {
            Operation::Shrink { volume: resources.remove(0), subtract: amount(line.text("by")) }
        }
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
        tasks: schedulers::task_reports(line.text("tasks")),
        executors: schedulers::executor_names(line.text("executors")),
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
