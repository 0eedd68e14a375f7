//! What must hold between the slots of a drill and what is found at the leader, at the agents and
//! on their disks. Pure: data in, violations out. Next: `../drills/ground.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Holding, Slot};
use crate::client::Outcome;
use crate::disk::Contents;
use crate::history::POOL_MILLI;
use crate::observe::{Group, Groups};

/// State of an operation that was done.
pub const FINISHED: &str = "OPERATION_FINISHED";

/// State of an operation that was not.
pub const FAILED: &str = "OPERATION_FAILED";

/// Answer to an operation on more than there is.
const CONFLICT: u16 = 409;
/// Status of a call for a volume that is not there, as Mesos has it.
const BAD_REQUEST: u16 = 400;

/// State of operations by their ids, as often as each is listed.
pub type Statuses = BTreeMap<String, Vec<String>>;

/// Whether operations may fail: only where a disk is full, or a checkpoint was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failures {
    /// What was accepted must be done.
    Forbidden,
    /// It may fail too, without any effect.
    Allowed,
}

/// What became of the steps of a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Steps that were done.
    pub finished: usize,
    /// Steps that failed.
    pub failed: usize,
    /// Their ids with their final states.
    pub finals: Vec<(String, String)>,
    /// What did not hold.
    pub violations: Vec<String>,
}

/// Finds out what the steps of `slot` came to: each accepted one has exactly one final status,
/// and the slot holds what these amount to. `group` is what the leader has under its label.
pub fn resolve(
    slot: &mut Slot,
    statuses: &Statuses,
    group: Option<&Group>,
    failures: Failures,
) -> Resolved {
    let mut resolved = Resolved::default();
    let mut held = slot.holding.clone();
    for asked in std::mem::take(&mut slot.asked) {
        let name = format!("{:?} of {}", asked.step, slot.label);
        match (&asked.outcome, &asked.operation_id) {
            (None | Some(Outcome::NotExecuted { .. }), _) => {}
            (Some(Outcome::Accepted), Some(id)) => match statuses.get(id).map(Vec::as_slice) {
                Some([state]) if state == FINISHED => {
                    if held != asked.before {
                        let text = format!("{name} ({id}) is done, though {held:?} was held");
                        resolved.violations.push(text);
                    }
                    held = asked.after;
                    resolved.finished += 1;
                    resolved.finals.push((id.clone(), state.clone()));
                }
                Some([state]) if state == FAILED => {
                    if failures == Failures::Forbidden {
                        resolved.violations.push(format!("{name} ({id}) failed"));
                    }
                    resolved.failed += 1;
                    resolved.finals.push((id.clone(), state.clone()));
                }
                found => {
                    let text = format!("{name} ({id}) has no one final status: {found:?}");
                    resolved.violations.push(text);
                }
            },
            (Some(Outcome::Accepted), None) => {
                resolved.violations.push(format!("{name} was accepted without an id"));
            }
            // What it built on has failed: there is too little, or no such volume.
            (Some(Outcome::Refused { status: CONFLICT | BAD_REQUEST, .. }), _)
                if held != asked.before => {}
            (Some(Outcome::Refused { status, text }), _) => {
                resolved.violations.push(format!("{name} was refused: {status} {text}"));
            }
            // Nobody knows its id: what is held decides.
            (Some(Outcome::Unknown { .. }), _) => {
                if matches(&asked.after, group) {
                    held = asked.after;
                }
            }
        }
    }
    slot.holding = held;
    resolved
}

/// Whether `group` is exactly what `holding` says.
fn matches(holding: &Holding, group: Option<&Group>) -> bool {
    let empty = Group::default();
    let group = group.unwrap_or(&empty);
    let plain: i64 = group.plain.iter().map(|(_, milli)| milli).sum();
    match holding {
        Holding::Nothing => group.plain.is_empty() && group.volumes.is_empty(),
        Holding::Pool => plain == POOL_MILLI && group.volumes.is_empty(),
        Holding::Volume { id, milli } => {
            plain == POOL_MILLI - milli && group.volumes == [(id.clone(), *milli)]
        }
    }
}

/// What `place` (a master or an agent, as named in messages) holds on the agent, against the
/// slots: each slot's label holds what it must, and there is no other label of this run.
#[must_use]
pub fn held(place: &str, slots: &[Slot], agent: usize, groups: &Groups) -> Vec<String> {
    let of_agent = || slots.iter().filter(|slot| slot.agent == agent);
    let wrong = of_agent().filter_map(|slot| {
        let group = groups.get(&slot.label);
        let found = group.map(|group| (&group.plain, &group.volumes));
        (!matches(&slot.holding, group)).then(|| {
            format!("{place}: {} must hold {:?}: found {found:?}", slot.label, slot.holding)
        })
    });
    let labels: BTreeSet<&str> = of_agent().map(|slot| slot.label.as_str()).collect();
    let strange = groups.keys().filter(|label| !labels.contains(label.as_str()));
    let strange = strange.map(|label| format!("{place}: holds {label}, which nobody asked for"));
    wrong.chain(strange).collect()
}

/// What lies on the agent's disk, against the slots: no volume without a directory, no directory
/// without a volume, and each marker that was written is whole.
#[must_use]
pub fn on_disk(
    place: &str,
    slots: &[Slot],
    agent: usize,
    marked: &BTreeSet<String>,
    found: &BTreeMap<String, Contents>,
) -> Vec<String> {
    let of_agent = slots.iter().filter(|slot| slot.agent == agent);
    let wanted: BTreeSet<&str> = of_agent.filter_map(Slot::volume).collect();
    let mut violations = Vec::new();
    for id in &wanted {
        match found.get(*id) {
            None => violations.push(format!("{place}: volume {id} has no directory")),
            Some(Contents::Marked) => {}
            Some(Contents::Empty) if !marked.contains(*id) => {}
            Some(other) => violations.push(format!("{place}: volume {id} holds {other:?}")),
        }
    }
    let strange = found.keys().filter(|id| !wanted.contains(id.as_str()));
    violations.extend(strange.map(|id| format!("{place}: directory {id} belongs to no volume")));
    violations
}

/// Volumes with data that must not be lost, whatever the records say.
#[must_use]
pub fn lost(
    place: &str,
    wanted: &BTreeSet<String>,
    found: &BTreeMap<String, Contents>,
) -> Vec<String> {
    let gone = wanted.iter().filter(|id| found.get(*id) != Some(&Contents::Marked));
    gone.map(|id| format!("{place}: the data of {id} is gone: {:?}", found.get(id))).collect()
}

/// A final status never changes.
#[must_use]
pub fn unchanged(finals: &BTreeMap<String, String>, statuses: &Statuses) -> Vec<String> {
    let listed = finals.iter().filter_map(|(id, state)| Some((id, state, statuses.get(id)?)));
    let changed = listed.filter(|(_, state, now)| now.as_slice() != [(*state).clone()]);
    changed.map(|(id, state, now)| format!("operation {id} was {state} and is {now:?}")).collect()
}

#[cfg(test)]
mod tests;
