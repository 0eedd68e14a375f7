//! The comparison at re-registration: what an agent says of its disk against what the log says
//! of it, one row per outcome. A pure query: the leader asks it to see whether anything has to
//! be written at all, `apply` asks it again and writes. Next: `codec.rs`.
//!
//! | work directory | its last order | its digest | outcome |
//! |---|---|---|---|
//! | of another cluster, or declares the impossible | | | refused |
//! | unknown | none | of what it declares | admitted |
//! | unknown | some | | refused: ahead of the log |
//! | unknown, obeyed an earlier incarnation | some | of what it declares | admitted, counts on |
//! | unknown, obeyed an earlier incarnation | some | differs | admitted, DIVERGED |
//! | known | after the last one given | | refused: ahead of the log |
//! | known, obeyed an earlier incarnation | after the last one given | equal | counts on |
//! | known, obeyed an earlier incarnation | after the last one given | differs | DIVERGED |
//! | known | before what it confirmed | | REGRESSED |
//! | known, an operator chose | where it stood then | as then | told from where it counts |
//! | known | other operations than given | | DIVERGED, nothing confirmed |
//! | known | between | differs | confirmed, DIVERGED |
//! | known, given up | any | | refused: gone |
//! | known | what it confirmed | equal | nothing to write |
//! | known | between | equal | confirmed |
//! | known | any of the last three, and it declares otherwise | | rebased, or refused |
//! | known, id thrown away, other identity | any | | superseded: the same under a new id |
//!
//! A REGRESSED or DIVERGED agent tells its total, and each object that differs stands on record
//! (`reconcile/difference.rs`) until an operator chooses for all of them (`reconcile/choices.rs`):
//! what it holds and the log does not know is *foreign*, what the log knows and it does not hold
//! is *missing*. A volume whose directory is missing is no difference of the books: it stays on
//! record, and is unavailable until it is back. A directory without a record is never looked at.
//! Nothing here removes data.
//!
//! An agent that was away, unreachable or unregistered is here again whatever else is found,
//! which has to be written. What runs is compared in `reconcile/running.rs`: tasks that the agent
//! must know of and does not are lost, which has to be written; what it runs and should not is
//! only asked to end.

mod choices;
mod difference;
mod incarnation;
mod running;

use std::collections::BTreeMap;
use std::sync::Arc;

use resources::collection::Resources;
use resources::conversion::apply_checkpointed;
use resources::id::{AgentId, Seq};
use resources::message::{AgentInfo, Outcome, Registration};

use super::State;
use super::agents::{Agent, AgentStatus, undeclarable};
use super::command::Standing;
use super::operations::OperationRecord;
use super::presence::Presence;
use super::rejection::RegistrationRefusal;

pub use self::choices::{Choice, ReconcileRefusal};
pub use self::difference::{Difference, Held};
use self::running::Lost;
pub use self::running::surplus;

/// What a registration comes to.
#[derive(Debug)]
pub enum Comparison {
    /// A new agent.
    Admit,
    /// Known, and as the log says: no entry needed.
    Unchanged {
        /// Its id.
        agent_id: AgentId,
        /// How its disk compares.
        standing: Standing,
    },
    /// Known, and only further than the log says: an ordinary report will do.
    Confirm {
        /// Its id.
        agent_id: AgentId,
        /// The last order that it carried out.
        upto: Seq,
        /// Those which failed.
        exceptions: BTreeMap<Seq, String>,
    },
    /// Known, and something about it changes.
    Change(Box<Reregistered>),
    /// It may not register.
    Refuse(RegistrationRefusal),
}

/// The new value of a known agent.
#[derive(Debug)]
pub struct Reregistered {
    /// What to put on record.
    pub(super) agent: Box<Agent>,
    /// Its id until now.
    pub(super) known_as: AgentId,
    /// Whether it keeps it.
    pub(super) naming: Naming,
    /// Operations that ended by it.
    pub(super) settled: Vec<Arc<OperationRecord>>,
    /// What an operator must see.
    pub(super) alarm: Option<String>,
    /// What does not run any longer.
    pub(super) lost: Lost,
}

/// What becomes of an agent's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    /// It stays.
    Keeps,
    /// A new one takes its place.
    Supersedes,
}

/// Compares a registration with the log.
#[must_use]
pub fn compare(state: &State, registration: &Registration) -> Comparison {
    if let Some(refusal) = foreign_to(state, registration).or_else(|| undeclarable(registration)) {
        return Comparison::Refuse(refusal);
    }
    if let Some(gone) = state.gone_agent_of(&registration.checkpoint_id) {
        let agent_id = gone.agent_id.clone();
        return Comparison::Refuse(RegistrationRefusal::Gone { agent_id });
    }
    let Some(known) = state.agent_of(&registration.checkpoint_id) else {
        return compare_new(state, registration);
    };
    match reregistered(state, known, registration) {
        Ok(found) => outcome(known, registration, found),
        Err(refusal) => Comparison::Refuse(refusal),
    }
}

fn foreign_to(state: &State, registration: &Registration) -> Option<RegistrationRefusal> {
    let Some(ours) = state.cluster_id() else { return Some(RegistrationRefusal::NoCluster) };
    if let Some(machine) = state.machine_down(&registration.info) {
        return Some(RegistrationRefusal::MachineDown { machine: machine.clone() });
    }
    let fence = registration.fence.as_ref()?;
    if fence.cluster_id != *ours {
        let theirs = fence.cluster_id.clone();
        return Some(RegistrationRefusal::OtherCluster { theirs, ours: ours.clone() });
    }
    (fence.incarnation > state.incarnation()).then(|| RegistrationRefusal::NewerIncarnation {
        theirs: fence.incarnation.0,
        ours: state.incarnation().0,
    })
}

fn compare_new(state: &State, registration: &Registration) -> Comparison {
    if registration.applied_seq > Seq(0) {
        if state.is_from_before(registration) {
            return Comparison::Admit;
        }
        let (applied_seq, given) = (registration.applied_seq, Seq(0));
        return Comparison::Refuse(RegistrationRefusal::AheadOfLog { applied_seq, given });
    }
    if declared(registration).digest() == registration.resources_digest {
        Comparison::Admit
    } else {
        Comparison::Refuse(RegistrationRefusal::OtherDigest)
    }
}

fn declared(registration: &Registration) -> Resources {
    registration.info.resources.iter().cloned().collect()
}

fn outcome(known: &Agent, registration: &Registration, found: Reregistered) -> Comparison {
    let agent_id = known.id.clone();
    let is_kept = found.naming == Naming::Keeps && found.lost.is_empty();
    if is_kept && *found.agent == *known {
        return Comparison::Unchanged { agent_id, standing: known.status.standing() };
    }
    let says_the_same = found.agent.info == known.info
        && found.agent.boot_counter == known.boot_counter
        && found.agent.unavailable == known.unavailable
        && found.agent.presence == known.presence
        && (found.agent.adopts.is_none() || found.agent.adopts == known.adopts);
    let is_in_step = known.status == AgentStatus::Registered && found.agent.status == known.status;
    if is_kept && says_the_same && is_in_step {
        let (upto, exceptions) = (registration.applied_seq, exceptions(known, registration));
        return Comparison::Confirm { agent_id, upto, exceptions };
    }
    Comparison::Change(Box::new(found))
}

/// The known agent as it would be after this registration.
fn reregistered(
    state: &State,
    known: &Agent,
    registration: &Registration,
) -> Result<Reregistered, RegistrationRefusal> {
    let (applied_seq, given) = (registration.applied_seq, known.last_given());
    let is_ahead = applied_seq > given;
    let is_open = known.status.standing() == Standing::Diverged;
    if is_ahead && !is_open && !state.is_from_before(registration) {
        return Err(RegistrationRefusal::AheadOfLog { applied_seq, given });
    }
    let mut agent = known.clone();
    let mut found = Vec::new();
    let mut settled = Vec::new();
    let is_told = is_to_be_told(known, registration);
    let is_regressed = applied_seq < known.confirmed_seq && !is_told;
    if is_ahead {
        if agent.is_held(registration) {
            agent.count_from(applied_seq, registration);
        } else {
            found.push(format!("at order {applied_seq}, last given {given}"));
        }
    } else if !is_regressed && !is_told {
        match other_operation(known, registration) {
            Some(what) => found.push(what),
            None => {
                let moved = agent.confirm_upto(applied_seq, &exceptions(known, registration));
                settled = moved.settled;
                found.extend(moved.discrepancy);
            }
        }
    }
    rebase(&mut agent, registration)?;
    if !is_regressed
        && found.is_empty()
        && agent.confirmed().digest() != registration.resources_digest
    {
        found.push(format!("another digest at order {applied_seq}"));
    }
    agent.status = if is_regressed {
        found.push(format!("at order {applied_seq}, had confirmed {}", known.confirmed_seq));
        match &known.status {
            AgentStatus::Regressed { applied_seq: stood, .. } if *stood == applied_seq => {
                known.status.clone()
            }
            AgentStatus::Registered
            | AgentStatus::Regressed { .. }
            | AgentStatus::Diverged { .. } => AgentStatus::regressed(applied_seq),
        }
    } else if found.is_empty() {
        AgentStatus::Registered
    } else {
        match &known.status {
            // What is known of the difference stays.
            AgentStatus::Diverged { .. } => known.status.clone(),
            AgentStatus::Registered | AgentStatus::Regressed { .. } => AgentStatus::diverged(),
        }
    };
    let naming = naming(known, registration);
    if *agent.info != registration.info {
        agent.info = Arc::new(registration.info.clone());
    }
    agent.boot_counter = registration.boot_counter;
    agent.presence = Presence::Here;
    agent.unavailable = registration.unavailable.clone();
    let is_news = agent.status != known.status && !found.is_empty();
    let alarm = is_news.then(|| format!("{}: {}", known.id, found.join(", ")));
    let known_as = known.id.clone();
    let lost = Lost::of(known, registration);
    Ok(Reregistered { agent: Box::new(agent), known_as, naming, settled, alarm, lost })
}

/// Whether an operator chose for it, and it has not heard of that.
fn is_to_be_told(known: &Agent, registration: &Registration) -> bool {
    let stood = known.adopts.filter(|held| held.applied_seq == registration.applied_seq);
    stood.is_some() && known.confirmed().digest() == registration.resources_digest
}

/// Orders that it reports as failed and that are still open here.
fn exceptions(known: &Agent, registration: &Registration) -> BTreeMap<Seq, String> {
    let open = registration.settled.iter().filter(|settled| settled.seq > known.confirmed_seq);
    let failed = open.filter_map(|settled| match &settled.outcome {
        Outcome::Finished => None,
        Outcome::Failed { reason } => Some((settled.seq, reason.clone())),
    });
    failed.collect()
}

/// Under one incarnation an order's number names one operation on both sides, and the agent
/// keeps each outcome until it is acknowledged.
fn other_operation(known: &Agent, registration: &Registration) -> Option<String> {
    let reported: BTreeMap<Seq, _> =
        registration.settled.iter().map(|s| (s.seq, &s.operation_id)).collect();
    known.pending.range(..=registration.applied_seq).find_map(|(seq, record)| {
        let ours = &record.operation_id;
        match reported.get(seq) {
            Some(theirs) if *theirs == ours => None,
            Some(theirs) => Some(format!("order {seq} is {ours} here, {theirs} there")),
            None => Some(format!("order {seq} ({ours}) is done there without an outcome")),
        }
    })
}

/// Lays what it holds over what it declares now. Its own policy decides whether it may declare
/// otherwise; here it only has to fit.
fn rebase(agent: &mut Agent, registration: &Registration) -> Result<(), RegistrationRefusal> {
    let base = declared(registration);
    if base == agent.base {
        return Ok(());
    }
    let incompatible = |reason: String| RegistrationRefusal::Incompatible { reason };
    let confirmed = apply_checkpointed(&base, &agent.confirmed().checkpointed())
        .map_err(|misfit| incompatible(misfit.to_string()))?;
    agent.base = base;
    match agent.refold(confirmed, &[]).first() {
        None => Ok(()),
        Some(record) => Err(incompatible(format!("incompatible agent resources for {record}"))),
    }
}

/// An agent that threw its id away and is another to its users gets a new one. Without the
/// second condition a lost answer to a first registration would cost an id.
fn naming(known: &Agent, registration: &Registration) -> Naming {
    let identity =
        |info: &AgentInfo| (info.hostname.clone(), info.attributes.clone(), info.resources.clone());
    if registration.agent_id.is_none()
        && registration.boot_counter > known.boot_counter
        && identity(&registration.info) != identity(&known.info)
    {
        Naming::Supersedes
    } else {
        Naming::Keeps
    }
}
