//! The only door into the log: here, and nowhere else, time is stamped and ids are minted.
//! Proposals are collected into the batch being built; few large batches are in flight. Must
//! not decide what is proposed. Next: `outbox.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use raft::{Batch, Committed, Node, ProposeError};
use rand::Rng as _;
use resources::id::{ClusterId, MasterId, OperationId, Term};
use resources::time::Timestamp;

use super::clock::Clock;
use super::core::RETRY_AFTER;
use super::event::{Event, Origin, Proposal};
use super::request::{Administration, Call, ProposeFailure, Request, Ruling, Transaction};
use crate::machine::Replica;
use crate::state::codec::encoded_bytes;
use crate::state::command::{Command, CommandKind, Response, SourceAddr};
use crate::state::limits::COMMAND_BYTES_MAX;
use crate::state::rejection::Rejection;
use crate::state::transactions::{Member, TransactionId};

/// Bytes of one batch, at most.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Commands of one batch, at most.
const BATCH_COMMANDS_MAX: usize = 1_024;
/// Batches on their way, at most. More of them are smaller ones, with an fsync each.
const BATCHES_IN_FLIGHT_MAX: usize = 2;
/// Commands that wait for a batch, at most.
const QUEUED_COMMANDS_MAX: usize = 16_384;
/// Letters and digits of a cluster id: 95 random bits.
const CLUSTER_ID_LETTERS: usize = 19;

/// Builds batches for one term after the other.
pub(super) struct Proposer {
    master_id: MasterId,
    advertise: String,
    clock: Clock,
    office: Option<Office>,
    queue: VecDeque<Queued>,
    in_flight: usize,
}

/// What a term adds to commands.
struct Office {
    term: Term,
    /// Operations named so far.
    operations: u64,
}

struct Queued {
    ticket: Ticket,
    command: Command,
    bytes: u64,
}

/// Whom a command belongs to.
pub(super) struct Ticket {
    origin: Origin,
    operation_id: Option<OperationId>,
}

/// A batch that has left.
pub(super) struct Flight {
    tickets: Vec<Ticket>,
    batch: Batch<Command>,
}

/// A batch that came back.
pub(super) struct Landed {
    tickets: Vec<Ticket>,
    outcome: Result<Committed<Response>, ProposeError>,
}

impl Flight {
    pub(super) async fn fly(self, node: Node<Replica>) -> Landed {
        let Self { tickets, batch } = self;
        Landed { tickets, outcome: node.propose(batch).await }
    }
}

impl Proposer {
    pub(super) const fn new(master_id: MasterId, advertise: String, clock: Clock) -> Self {
        Self { master_id, advertise, clock, office: None, queue: VecDeque::new(), in_flight: 0 }
    }

    /// A term begins at this cluster time.
    pub(super) fn take_office(&mut self, term: Term, clock: Timestamp) {
        self.clock.begin(clock);
        self.office = Some(Office { term, operations: 0 });
    }

    /// The term ended: what has not left was never proposed.
    pub(super) fn lose_office(&mut self) -> Vec<Event> {
        self.clock.end();
        self.office = None;
        let queue = std::mem::take(&mut self.queue);
        let refused = queue.into_iter().map(|queued| {
            let (origin, failure) = (queued.ticket.origin, ProposeFailure::NotLeader);
            Event::Undecided { origin, failure }
        });
        refused.collect()
    }

    /// Cluster time. It stands still while nobody leads.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now().unwrap_or_default()
    }

    /// Puts a proposal into the batch being built. Gives the id that was minted for it, or what
    /// became of it at once.
    pub(super) fn add(
        &mut self,
        origin: Origin,
        proposal: Proposal,
    ) -> Result<Option<OperationId>, Box<Event>> {
        let undecided = |origin, failure| Err(Box::new(Event::Undecided { origin, failure }));
        let Some(office) = self.office.as_mut() else {
            return undecided(origin, ProposeFailure::NotLeader);
        };
        if self.queue.len() >= QUEUED_COMMANDS_MAX {
            return undecided(origin, ProposeFailure::Overloaded { retry_after: RETRY_AFTER });
        }
        let source = SourceAddr(format!("master {}", self.master_id));
        let (command, operation_id) =
            stamp(office, (self.master_id, &self.advertise), source, proposal);
        let bytes = encoded_bytes(&command);
        if bytes > COMMAND_BYTES_MAX {
            let rejection = Rejection::TooLarge { bytes, bytes_max: COMMAND_BYTES_MAX };
            let response = Response::Rejected(rejection);
            return Err(Box::new(Event::Decided { origin, response }));
        }
        let ticket = Ticket { origin, operation_id: operation_id.clone() };
        self.queue.push_back(Queued { ticket, command, bytes });
        Ok(operation_id)
    }

    /// The next batch, if one may leave.
    pub(super) fn next_flight(&mut self) -> Option<Flight> {
        if self.in_flight >= BATCHES_IN_FLIGHT_MAX || self.queue.is_empty() {
            return None;
        }
        let (mut tickets, mut commands, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(next) = self.queue.front() {
            bytes += next.bytes;
            let is_full = commands.len() >= BATCH_COMMANDS_MAX || bytes > BATCH_BYTES_MAX;
            if is_full && !commands.is_empty() {
                break;
            }
            if let Some(queued) = self.queue.pop_front() {
                tickets.push(queued.ticket);
                commands.push(queued.command);
            }
        }
        self.in_flight += 1;
        Some(Flight { tickets, batch: Batch { at: self.now(), wall: wall_time(), commands } })
    }

    /// What became of a batch, for each of its commands.
    pub(super) fn landed(&mut self, landed: Landed) -> Vec<Event> {
        self.in_flight -= 1;
        let Landed { tickets, outcome } = landed;
        match outcome {
            Ok(committed) => {
                let decided = tickets.into_iter().zip(committed.responses);
                let decided = decided
                    .map(|(ticket, response)| Event::Decided { origin: ticket.origin, response });
                decided.collect()
            }
            Err(error) => {
                let undecided = tickets.into_iter().map(|ticket| ticket.undecided(&error));
                undecided.collect()
            }
        }
    }
}

impl Ticket {
    fn undecided(self, error: &ProposeError) -> Event {
        let failure = match (error, self.operation_id) {
            (ProposeError::Unknown, Some(operation_id)) => ProposeFailure::Unknown { operation_id },
            (ProposeError::NotLeader { .. }, _) => ProposeFailure::NotLeader,
            (ProposeError::TooLarge { .. }, _) => {
                ProposeFailure::Overloaded { retry_after: RETRY_AFTER }
            }
            (ProposeError::NoQuorum | ProposeError::Stopped | ProposeError::Unknown, _) => {
                ProposeFailure::NoLeader
            }
        };
        Event::Undecided { origin: self.origin, failure }
    }
}

/// The command of a proposal, with the ids that only a leader gives.
fn stamp(
    office: &mut Office,
    (master_id, advertise): (MasterId, &str),
    own: SourceAddr,
    proposal: Proposal,
) -> (Command, Option<OperationId>) {
    let (principal, source, kind) = match proposal {
        Proposal::FormCluster => {
            (None, own, CommandKind::FormCluster { cluster_id: random_cluster_id() })
        }
        Proposal::TakeOffice => {
            let (advertise, term) = (advertise.to_owned(), office.term);
            (None, own, CommandKind::TakeOffice { master_id, advertise, term })
        }
        Proposal::Register { principal, source, registration } => {
            (principal, source, CommandKind::RegisterAgent(registration))
        }
        Proposal::Request(request) => {
            let (command, operation_id) = stamp_request(office, *request);
            return (command, Some(operation_id));
        }
        Proposal::Accept { principal, source, accept } => {
            let name = fresh_name(office);
            let kind = CommandKind::Accept { name: name.clone(), accept };
            let if_versions = BTreeMap::new();
            return (Command { principal, source, key: None, if_versions, kind }, Some(name));
        }
        Proposal::Administer(administration) => {
            let Administration { principal, source, key, if_versions, kind } = *administration;
            return (Command { principal, source, key, if_versions, kind }, None);
        }
        Proposal::Plain { principal, source, kind } => (principal, source.unwrap_or(own), *kind),
        Proposal::Confirm { agent_id, upto, exceptions } => {
            (None, own, CommandKind::Confirm { agent_id, upto, exceptions })
        }
        Proposal::RecordDivergence { agent_id, foreign, missing, held } => {
            let held = Some(held);
            (None, own, CommandKind::RecordDivergence { agent_id, foreign, missing, held })
        }
        Proposal::RaiseAlarm { agent_id, text } => {
            (None, own, CommandKind::RaiseAlarm { agent_id, text })
        }
    };
    (Command { principal, source, key: None, if_versions: BTreeMap::new(), kind }, None)
}

/// The command of a request, under its fresh name. A transaction is named like an operation, and
/// its operations after it.
fn stamp_request(office: &mut Office, request: Request) -> (Command, OperationId) {
    let operation_id = fresh_name(office);
    let command = match request {
        Request::Operate(call) => {
            let Call { principal, source, key, if_version, agent_id, operation } = call;
            let if_versions = if_version.map(|version| (agent_id.clone(), version));
            let if_versions = if_versions.into_iter().collect();
            let operation_id = operation_id.clone();
            let kind = CommandKind::Operate { agent_id, operation_id, operation };
            Command { principal, source, key, if_versions, kind }
        }
        Request::Transact(transaction) => {
            let Transaction { principal, source, key, if_versions, operations } = transaction;
            let numbered = operations.into_iter().zip(1u32..);
            let members = numbered.map(|((agent_id, operation), number)| {
                let operation_id = id(format!("{operation_id}.{number}"));
                Member { agent_id, operation_id, operation }
            });
            let transaction_id = TransactionId::from(operation_id.clone());
            let kind = CommandKind::Transact { transaction_id, members: members.collect() };
            Command { principal, source, key, if_versions, kind }
        }
        Request::Rule(ruling) => {
            let Ruling { principal, source, key, rule } = ruling;
            let (if_versions, kind) = (BTreeMap::new(), CommandKind::SetRule(Box::new(rule)));
            Command { principal, source, key, if_versions, kind }
        }
    };
    (command, operation_id)
}

/// A name that no operation has had and none will have.
fn fresh_name(office: &mut Office) -> OperationId {
    office.operations += 1;
    id(format!("{}-{}", office.term, office.operations))
}

fn id(text: String) -> OperationId {
    OperationId::parse(text).expect("digits, dashes and dots are an id")
}

fn random_cluster_id() -> ClusterId {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = rand::rng();
    let letter = |_| char::from(LETTERS[random.random_range(0..LETTERS.len())]);
    let text: String = (0..CLUSTER_ID_LETTERS).map(letter).collect();
    ClusterId::parse(text).expect("letters and digits are an id")
}

/// Wall time, for display only.
pub(super) fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default() + since
}
