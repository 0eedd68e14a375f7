//! Scripts of the leader's core. The script plays the shell and the log:
//!
//! ```text
//! state COMMAND…                     applies a command of the state scripts, with no effect
//! office TERM · lost                 this master begins or ceases to lead
//! call C AGENT VERB LIST [as=PRINCIPAL] [key=KEY] [if=AGENT:VERSION]
//! rule C quota … (or weigh, maintain, down, up) [as=PRINCIPAL] [key=KEY]     as in the state
//! scripts
//! transact C AGENT VERB LIST | AGENT VERB LIST … [key=KEY] · wait W OP
//! open S · close S                   a stream opens or ends
//! register S WORKDIR …               as in the state scripts
//! report S UPTO [SEQ!reason …] · resend S FROM · pong S · total S SEQ LIST
//! administer C COMMAND…              of the life of agents, in the state scripts
//! farewell S                         its agent leaves
//! commit                             what was proposed becomes one entry
//! unknown                            what was proposed has no known outcome
//! full                               what was proposed found no room in the queue
//! barrier passed|failed · tick SECONDS [noquorum]
//! settings [timeout=SECONDS] [interval=SECONDS] [limit=PERCENT] [rate=N/SECONDS]
//!                                    first line of a script
//! status S FRAMEWORK TASK STATE [uuid=N] [latest=STATE] · exited S FRAMEWORK EXECUTOR STATUS
//! words S FRAMEWORK EXECUTOR TEXT
//! offers                             what is outstanding
//! ```
//! Those of schedulers are in `leader/asks.rs`. After each line the inbox counts as drained.

mod asks;

use std::collections::BTreeMap;
use std::time::Duration;

use resources::id::{AgentId, ClusterId, LogIndex, MasterId, OperationId, Seq, Term};
use resources::message::{AgentMessage, ExecutorExit};
use resources::task::{ExecutorName, StatusUpdate};
use resources::time::Timestamp;

use master::allocator;
use master::leader::core::{Core, Pings, Rate, Removal, Settings, Share};
use master::leader::event::{Action, CallId, Event, Origin, Proposal, SessionId, WaiterId};
use master::leader::{Administration, Call, ProposeFailure, Request, Ruling, Transaction};
use master::state::command::{Command, CommandKind, SourceAddr};
use master::state::transactions::{Member, TransactionId};
use master::state::{Moment, State};

use super::lines::{Line, failure, members, operation, registration};
use super::notation::list;
use super::schedulers;

#[test]
fn leader() {
    super::run_all("leader", || {
        let mut play = Play::new();
        move |line: &str| play.line(line)
    });
}

struct Play {
    state: State,
    core: Core,
    index: u64,
    now: Timestamp,
    term: Term,
    operations: u64,
    proposed: Vec<(Origin, Proposal)>,
}

impl Play {
    fn new() -> Self {
        Self {
            state: State::default(),
            core: Core::new(settings(None, None)),
            index: 0,
            now: Timestamp::default(),
            term: Term(0),
            operations: 0,
            proposed: Vec::new(),
        }
    }

    fn line(&mut self, text: &str) -> Vec<String> {
        let line = Line::new(text);
        let events = match line.words[0] {
            "state" => {
                let (_, command) = text.split_once(' ').unwrap();
                let (response, _) = self.apply(&super::lines::command(command));
                return vec![response.to_string()];
            }
            "settings" => {
                let seconds = |name| line.named.get(name).map(|text| text.parse().unwrap());
                let settings = settings(seconds("timeout"), seconds("interval"));
                self.core = Core::new(Settings { removal: removal(&line), ..settings });
                return Vec::new();
            }
            "offers" => {
                let offers = self.core.outstanding_offers();
                return offers.iter().map(|offer| format!("{offer}")).collect();
            }
            "commit" => self.commit(),
            "unknown" => self.unknown(),
            "full" => self.full(),
            "transact" => vec![transact(text, &line)],
            "rule" => vec![ruling(text, &line)],
            "administer" => vec![administer(text, &line)],
            _ => match asks::event(text, &line) {
                Some(event) => vec![event],
                None => vec![self.event(&line)],
            },
        };
        let mut actions = Vec::new();
        for event in events.into_iter().chain([Event::InboxDrained]) {
            actions.extend(self.core.step(&self.state, event, self.now));
        }
        let mut lines = Vec::new();
        for action in actions {
            lines.push(action.to_string());
            if let Action::Propose(origin, proposal) = action {
                self.proposed.push((origin, proposal));
            }
        }
        lines
    }

    fn event(&mut self, line: &Line<'_>) -> Event {
        let session_id = || SessionId(line.words[1][1..].parse().unwrap());
        let seq = |at: usize| Seq(line.words[at].parse().unwrap());
        let said = |message| Event::SessionSpoke { session_id: session_id(), message };
        match line.words[0] {
            "office" => {
                self.term = Term(line.words[1].parse().unwrap());
                self.operations = 0;
                Event::OfficeTaken { term: self.term, wall: self.now }
            }
            "lost" => Event::OfficeLost,
            "call" => Event::CallArrived {
                call_id: CallId(line.words[1][1..].parse().unwrap()),
                request: Box::new(Request::Operate(Call {
                    principal: line.principal(),
                    source: SourceAddr("script".to_owned()),
                    key: line.key(),
                    if_version: line.versions().into_values().next(),
                    agent_id: AgentId::parse(line.words[2]).unwrap(),
                    operation: operation(line.words[3], line.words[4], line),
                })),
            },
            "wait" => Event::WaitArrived {
                waiter_id: WaiterId(line.words[1][1..].parse().unwrap()),
                operation_id: OperationId::parse(line.words[2]).unwrap(),
            },
            "open" => Event::SessionOpened {
                session_id: session_id(),
                principal: None,
                address: SourceAddr(line.words[1].to_owned()),
            },
            "close" => Event::SessionClosed { session_id: session_id() },
            "register" => said(AgentMessage::Register(Box::new(registration(line.words[2], line)))),
            "report" => said(AgentMessage::Report {
                upto: seq(2),
                exceptions: line.words[3..].iter().map(|word| failure(word)).collect(),
            }),
            "resend" => said(AgentMessage::Resend { from: seq(2) }),
            "pong" => said(AgentMessage::Pong),
            "farewell" => said(AgentMessage::Unregister),
            "status" => said(AgentMessage::Statuses(updates(line).0)),
            "exited" => said(AgentMessage::Exited(updates(line).1)),
            "words" => said(AgentMessage::FrameworkMessage {
                executor: executor(line.words[2], line.words[3]),
                data: line.words[4].as_bytes().to_vec().into(),
            }),
            "total" => {
                said(AgentMessage::Total { applied_seq: seq(2), resources: list(line.words[3]) })
            }
            "barrier" => Event::BarrierEnded { passed: line.words[1] == "passed" },
            "tick" => {
                self.now = self.now + Duration::from_secs(line.words[1].parse().unwrap());
                Event::Ticked { has_quorum: line.words.get(2) != Some(&"noquorum") }
            }
            other => panic!("no such line: {other}"),
        }
    }

    fn commit(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let mut effects = Vec::new();
        for (origin, proposal) in std::mem::take(&mut self.proposed) {
            let command = self.stamp(proposal);
            let (response, of_command) = self.apply(&command);
            effects.extend(of_command);
            events.push(Event::Decided { origin, response });
        }
        events.push(Event::Applied { effects });
        events
    }

    fn unknown(&mut self) -> Vec<Event> {
        let proposed = std::mem::take(&mut self.proposed);
        let events = proposed.into_iter().map(|(origin, proposal)| {
            self.stamp(proposal);
            let id = format!("{}-{}", self.term, self.operations);
            let operation_id = OperationId::parse(id).unwrap();
            Event::Undecided { origin, failure: ProposeFailure::Unknown { operation_id } }
        });
        events.collect()
    }

    fn full(&mut self) -> Vec<Event> {
        let proposed = std::mem::take(&mut self.proposed).into_iter();
        let failure = ProposeFailure::Overloaded { retry_after: Duration::from_secs(1) };
        let undecided =
            |(origin, _): (Origin, _)| Event::Undecided { origin, failure: failure.clone() };
        proposed.map(undecided).collect()
    }

    fn stamp(&mut self, proposal: Proposal) -> Command {
        let kind = match proposal {
            Proposal::FormCluster => {
                CommandKind::FormCluster { cluster_id: ClusterId::parse("c").unwrap() }
            }
            Proposal::TakeOffice => {
                let (master_id, advertise) = (MasterId(1), "m1:5050".to_owned());
                CommandKind::TakeOffice { master_id, advertise, term: self.term }
            }
            Proposal::Register { registration, .. } => CommandKind::RegisterAgent(registration),
            Proposal::Request(request) => {
                self.operations += 1;
                return stamped(*request, &format!("{}-{}", self.term, self.operations));
            }
            Proposal::Accept { accept, .. } => {
                self.operations += 1;
                let name = format!("{}-{}", self.term, self.operations);
                CommandKind::Accept { name: OperationId::parse(name).unwrap(), accept }
            }
            Proposal::Administer(administration) => administration.kind,
            Proposal::Plain { kind, .. } => *kind,
            Proposal::Confirm { agent_id, upto, exceptions } => {
                CommandKind::Confirm { agent_id, upto, exceptions }
            }
            Proposal::RecordDivergence { agent_id, foreign, missing, held } => {
                let held = Some(held);
                CommandKind::RecordDivergence { agent_id, foreign, missing, held }
            }
            Proposal::RaiseAlarm { agent_id, text } => CommandKind::RaiseAlarm { agent_id, text },
        };
        let source = SourceAddr("script".to_owned());
        Command { principal: None, source, key: None, if_versions: BTreeMap::new(), kind }
    }

    fn apply(
        &mut self,
        command: &Command,
    ) -> (master::state::Response, Vec<master::state::Effect>) {
        self.index += 1;
        let now = Moment { index: LogIndex(self.index), clock: self.now, wall: self.now };
        self.state.apply(now, command)
    }
}

/// An operator's command about an agent.
fn administer(text: &str, line: &Line<'_>) -> Event {
    let command = text.splitn(3, ' ').nth(2).unwrap();
    let Command { principal, source, kind, .. } = super::lines::command(command);
    let call_id = CallId(line.words[1][1..].parse().unwrap());
    let (key, if_versions) = (None, BTreeMap::new());
    let administration = Box::new(Administration { principal, source, key, if_versions, kind });
    Event::AdministrationArrived { call_id, administration }
}

/// What an agent says of tasks, read as a command of the state scripts.
fn updates(line: &Line<'_>) -> (Vec<StatusUpdate>, Vec<ExecutorExit>) {
    let named = line.named.iter().map(|(name, value)| format!("{name}={value}"));
    let words = line.words[2..].iter().map(|word| (*word).to_owned());
    let rest: Vec<String> = words.chain(named).collect();
    let asked = format!("{} agent {}", line.words[0], rest.join(" "));
    match super::lines::command(&asked).kind {
        CommandKind::UpdateTasks { updates, exited, .. } => (updates, exited),
        other => panic!("no update: {other}"),
    }
}

fn executor(framework: &str, executor: &str) -> ExecutorName {
    schedulers::executor_names(&format!("{framework}/{executor}")).remove(0)
}

fn settings(timeout: Option<u64>, interval: Option<u64>) -> Settings {
    let allocator = allocator::Settings {
        allocation_interval: Duration::from_secs(interval.unwrap_or(1)),
        ..allocator::Settings::default()
    };
    Settings {
        pings: Pings { interval: Duration::from_secs(15), missed_max: 2 },
        allocator,
        offer_timeout: timeout.map(Duration::from_secs),
        agent_reregister_timeout: Duration::from_secs(600),
        weights: BTreeMap::new(),
        removal: Removal::default(),
    }
}

/// `limit=PERCENT rate=N/SECONDS`
fn removal(line: &Line<'_>) -> Removal {
    let rate = line.named.get("rate").map(|text| {
        let (count, per) = text.split_once('/').unwrap();
        let per = Duration::from_secs(per.parse().unwrap());
        Rate { count: count.parse().unwrap(), per }
    });
    let percent = u32::try_from(line.number("limit", 100)).unwrap();
    Removal { limit: Share(percent * 10_000), rate }
}

fn transact(text: &str, line: &Line<'_>) -> Event {
    let transaction = Transaction {
        principal: line.principal(),
        source: SourceAddr("script".to_owned()),
        key: line.key(),
        if_versions: line.versions(),
        operations: members(text, 2),
    };
    let call_id = CallId(line.words[1][1..].parse().unwrap());
    Event::CallArrived { call_id, request: Box::new(Request::Transact(transaction)) }
}

/// `rule C quota …` and `rule C weigh …`, as in the state scripts.
fn ruling(text: &str, line: &Line<'_>) -> Event {
    let rule = super::lines::rule(text.splitn(3, ' ').nth(2).unwrap());
    let source = SourceAddr("script".to_owned());
    let ruling = Ruling { principal: line.principal(), source, key: line.key(), rule };
    let call_id = CallId(line.words[1][1..].parse().unwrap());
    Event::CallArrived { call_id, request: Box::new(Request::Rule(ruling)) }
}

fn stamped(request: Request, name: &str) -> Command {
    let id = |text: String| OperationId::parse(text).unwrap();
    match request {
        Request::Operate(call) => {
            let Call { principal, source, key, if_version, agent_id, operation } = call;
            let if_versions = if_version.map(|version| (agent_id.clone(), version));
            let if_versions = if_versions.into_iter().collect();
            let operation_id = id(name.to_owned());
            let kind = CommandKind::Operate { agent_id, operation_id, operation };
            Command { principal, source, key, if_versions, kind }
        }
        Request::Transact(transaction) => {
            let Transaction { principal, source, key, if_versions, operations } = transaction;
            let members = operations.into_iter().zip(1..).map(|((agent_id, operation), number)| {
                Member { agent_id, operation_id: id(format!("{name}.{number}")), operation }
            });
            let transaction_id = TransactionId::parse(name).unwrap();
            let kind = CommandKind::Transact { transaction_id, members: members.collect() };
            Command { principal, source, key, if_versions, kind }
        }
        Request::Rule(Ruling { principal, source, key, rule }) => {
            let (if_versions, kind) = (BTreeMap::new(), CommandKind::SetRule(Box::new(rule)));
            Command { principal, source, key, if_versions, kind }
        }
    }
}
