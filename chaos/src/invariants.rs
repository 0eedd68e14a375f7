//! What must hold between a history and what is found. Pure: data in, violations out.
//! Next: `report.rs`.

use std::collections::BTreeSet;

use crate::history::{Expectation, History, MARK, Object, POOL_MILLI, Subject};
use crate::observe::{Group, Groups};

/// What `place` (a master or an agent, as named in messages) holds of the agents, against the
/// history: acknowledged calls stand, removed objects are gone, calls with unknown outcome are
/// there once or not at all, and nothing else is there. `groups` is by agent; agents without an
/// entry are not judged.
#[must_use]
pub fn check(history: &History, place: &str, groups: &[(usize, &Groups)]) -> Vec<String> {
    let mut violations = Vec::new();
    for (agent, groups) in groups {
        for ((_, object), expectation) in history.iter().filter(|(subject, _)| subject.0 == *agent)
        {
            if let Err(found) = judge(object, expectation, groups) {
                violations.push(format!("{place}: {object:?} must be {expectation:?}: {found}"));
            }
        }
        violations.extend(strangers(history, place, *agent, groups));
    }
    violations
}

fn judge(object: &Object, expectation: Expectation, groups: &Groups) -> Result<(), String> {
    let empty = Group::default();
    let group = match object {
        Object::Mark { label } | Object::Pool { label } => groups.get(label),
        Object::Volume { pool, .. } => groups.get(pool),
    }
    .unwrap_or(&empty);
    let found = format!("found {:?} and volumes {:?}", group.plain, group.volumes);
    let (all, nothing) = match object {
        Object::Mark { .. } => {
            let wanted = MARK.map(|(name, milli)| (name.to_owned(), milli));
            (group.plain == wanted && group.volumes.is_empty(), is_empty(group))
        }
        // Volumes come out of the pool and go back into it: their sum never changes.
        Object::Pool { .. } => {
            let amounts = group.plain.iter().chain(&group.volumes).map(|(_, milli)| milli);
            (amounts.sum::<i64>() == POOL_MILLI, is_empty(group))
        }
        Object::Volume { id, milli, .. } => {
            let sizes: Vec<i64> =
                group.volumes.iter().filter(|(held, _)| held == id).map(|(_, s)| *s).collect();
            (sizes == [*milli], sizes.is_empty())
        }
    };
    let holds = match expectation {
        Expectation::Present => all,
        Expectation::Absent => nothing,
        Expectation::Either => all || nothing,
    };
    if holds { Ok(()) } else { Err(found) }
}

fn is_empty(group: &Group) -> bool {
    group.plain.is_empty() && group.volumes.is_empty()
}

/// Objects of this run that nobody asked for on this agent.
fn strangers(history: &History, place: &str, agent: usize, groups: &Groups) -> Vec<String> {
    let mut labels = BTreeSet::new();
    let mut volumes = BTreeSet::new();
    for ((_, object), _) in history.iter().filter(|(subject, _)| subject.0 == agent) {
        match object {
            Object::Mark { label } | Object::Pool { label } => {
                labels.insert(label.as_str());
            }
            Object::Volume { id, .. } => {
                volumes.insert(id.as_str());
            }
        }
    }
    let strange_labels = groups.keys().filter(|label| !labels.contains(label.as_str()));
    let held = groups.values().flat_map(|group| &group.volumes);
    let strange_volumes = held.map(|(id, _)| id).filter(|id| !volumes.contains(id.as_str()));
    strange_labels
        .chain(strange_volumes)
        .map(|name| format!("{place}: holds {name}, which nobody asked for"))
        .collect()
}

/// Objects of unknown outcome that `groups` settles: they are what the leader says from now on.
#[must_use]
pub fn settle(history: &History, groups: &[Groups]) -> Vec<(Subject, Expectation)> {
    let mut settled = Vec::new();
    for (subject, expectation) in history.iter() {
        let Some(held) = groups.get(subject.0) else { continue };
        if expectation == Expectation::Either {
            let now = match judge(&subject.1, Expectation::Present, held) {
                Ok(()) => Expectation::Present,
                Err(_) => Expectation::Absent,
            };
            settled.push((subject.clone(), now));
        }
    }
    settled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Outcome;
    use crate::history::Change;

    fn mark(label: &str) -> Subject {
        (0, Object::Mark { label: label.to_owned() })
    }

    type Amounts<'a> = &'a [(&'a str, i64)];

    fn groups(entries: &[(&str, Amounts<'_>, Amounts<'_>)]) -> Groups {
        let own = |list: Amounts<'_>| list.iter().map(|(n, m)| ((*n).to_owned(), *m)).collect();
        entries
            .iter()
            .map(|(label, plain, volumes)| {
                let group = Group { plain: own(plain), volumes: own(volumes), resources: vec![] };
                ((*label).to_owned(), group)
            })
            .collect()
    }

    fn violations(history: &History, held: &Groups) -> usize {
        check(history, "here", &[(0, held)]).len()
    }

    #[test]
    fn marks() {
        let mut history = History::default();
        history.record(&mark("a"), Change::Make, &Outcome::Accepted);
        let unknown = Outcome::Unknown { reason: "reset".into() };
        history.record(&mark("b"), Change::Make, &unknown);
        let whole: Amounts<'_> = &[("disk", 1), ("mem", 1)];
        let half: Amounts<'_> = &[("disk", 1)];
        let twice: Amounts<'_> = &[("disk", 2), ("mem", 2)];

        for (held, expected) in [
            (groups(&[("a", whole, &[])]), 0),
            (groups(&[("a", whole, &[]), ("b", whole, &[])]), 0),
            (groups(&[]), 1),
            (groups(&[("a", half, &[])]), 1),
            (groups(&[("a", whole, &[]), ("b", half, &[])]), 1),
            (groups(&[("a", whole, &[]), ("b", twice, &[])]), 1),
            (groups(&[("a", whole, &[]), ("c", whole, &[])]), 1),
        ] {
            assert_eq!(violations(&history, &held), expected, "{held:?}");
        }
        history.record(&mark("a"), Change::Remove, &Outcome::Accepted);
        assert_eq!(violations(&history, &groups(&[])), 0);
        assert_eq!(violations(&history, &groups(&[("a", whole, &[])])), 1);
    }

    #[test]
    fn pools_are_conserved() {
        let mut history = History::default();
        let pool = (0, Object::Pool { label: "p".into() });
        let volume = (0, Object::Volume { pool: "p".into(), id: "v".into(), milli: 8000 });
        history.record(&pool, Change::Make, &Outcome::Accepted);
        history.record(&volume, Change::Make, &Outcome::Accepted);
        let plain: Amounts<'_> = &[("disk", 8000)];
        for (held, expected) in [
            (groups(&[("p", plain, &[("v", 8000)])]), 0),
            (groups(&[("p", &[("disk", 16000)], &[])]), 1),
            (groups(&[("p", &[("disk", 7999)], &[("v", 8000)])]), 1),
            (groups(&[("p", &[], &[("v", 8000), ("w", 8000)])]), 1),
            (groups(&[]), 2),
        ] {
            assert_eq!(violations(&history, &held), expected, "{held:?}");
        }
    }
}
