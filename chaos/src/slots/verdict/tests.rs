//! Violations that are planted are found, each of them.

use super::super::{Asked, Step};
use super::*;

fn volume(id: &str, milli: i64) -> Holding {
    Holding::Volume { id: id.into(), milli }
}

fn slot(label: &str, holding: Holding) -> Slot {
    let mut slot = Slot::new(0, label.into());
    slot.holding = holding;
    slot
}

fn group(plain: &[i64], volumes: &[(&str, i64)]) -> Group {
    Group {
        plain: plain.iter().map(|milli| ("disk".to_owned(), *milli)).collect(),
        volumes: volumes.iter().map(|(id, milli)| ((*id).to_owned(), *milli)).collect(),
        resources: Vec::new(),
    }
}

fn groups(entries: &[(&str, Group)]) -> Groups {
    entries.iter().map(|(label, group)| ((*label).to_owned(), group.clone())).collect()
}

fn asked(step: Step, before: Holding, after: Holding, outcome: Outcome, id: &str) -> Asked {
    let operation_id = (outcome == Outcome::Accepted).then(|| id.to_owned());
    Asked { step, before, after, outcome: Some(outcome), operation_id }
}

fn statuses(entries: &[(&str, &[&str])]) -> Statuses {
    let own = |states: &[&str]| states.iter().map(|state| (*state).to_owned()).collect();
    entries.iter().map(|(id, states)| ((*id).to_owned(), own(states))).collect()
}

#[test]
fn holdings_against_groups() {
    let slots = [slot("p", Holding::Pool), slot("v", volume("v1", 4_000))];
    let right =
        || groups(&[("p", group(&[16_000], &[])), ("v", group(&[12_000], &[("v1", 4_000)]))]);
    assert_eq!(held("here", &slots, 0, &right()), Vec::<String>::new());
    assert_eq!(held("here", &slots, 1, &Groups::new()), Vec::<String>::new(), "another agent");
    for (label, planted, what) in [
        ("v", group(&[12_000], &[]), "the volume is gone"),
        ("v", group(&[10_500], &[("v1", 5_500)]), "another size"),
        ("v", group(&[12_000], &[("v2", 4_000)]), "another volume"),
        ("v", group(&[8_000], &[("v1", 4_000), ("v1", 4_000)]), "the volume twice"),
        ("v", group(&[13_000], &[("v1", 4_000)]), "more disk than there was"),
        ("p", group(&[15_999], &[]), "less disk than there was"),
        ("p", group(&[], &[]), "the reservation is gone"),
        ("x", group(&[1], &[]), "what nobody asked for"),
    ] {
        let mut found = right();
        found.insert(label.to_owned(), planted);
        assert_eq!(held("here", &slots, 0, &found).len(), 1, "{what}");
    }
}

#[test]
fn directories_against_volumes() {
    let slots = [slot("p", Holding::Pool), slot("v", volume("v1", 4_000))];
    let marked = BTreeSet::from(["v1".to_owned()]);
    let right = BTreeMap::from([("v1".to_owned(), Contents::Marked)]);
    let judge = |marked: &BTreeSet<String>, found: &BTreeMap<String, Contents>| {
        on_disk("here", &slots, 0, marked, found).len()
    };
    assert_eq!(judge(&marked, &right), 0);
    let empty = BTreeMap::from([("v1".to_owned(), Contents::Empty)]);
    assert_eq!(judge(&BTreeSet::new(), &empty), 0, "nothing was written yet");
    assert_eq!(judge(&marked, &empty), 1, "the data is gone");
    assert_eq!(judge(&marked, &BTreeMap::new()), 1, "removed behind its back");
    let other = BTreeMap::from([("v1".to_owned(), Contents::Other("cut".into()))]);
    assert_eq!(judge(&marked, &other), 1, "other data");
    let mut more = right.clone();
    more.insert("v2".to_owned(), Contents::Empty);
    assert_eq!(judge(&marked, &more), 1, "a directory that no record knows");
    assert_eq!(lost("here", &marked, &right).len(), 0);
    assert_eq!(lost("here", &marked, &empty).len(), 1);
}

#[test]
fn a_directory_removed_behind_the_back_is_seen() {
    let work_dir = tempfile::tempdir().unwrap();
    let work_dir = work_dir.path();
    let folder = crate::disk::folder(work_dir).join("v1");
    std::fs::create_dir_all(&folder).unwrap();
    crate::disk::mark(work_dir, "v1").unwrap();
    let slots = [slot("v", volume("v1", 4_000))];
    let marked = BTreeSet::from(["v1".to_owned()]);
    let judge = || {
        let found = crate::disk::volumes(work_dir, "v").unwrap();
        on_disk("here", &slots, 0, &marked, &found).len()
    };
    assert_eq!(judge(), 0);
    crate::disk::remove(&folder).unwrap();
    assert_eq!(judge(), 1);
    std::fs::create_dir_all(&folder).unwrap();
    assert_eq!(judge(), 1, "made anew, and empty");
}

#[test]
fn each_operation_has_one_final_status() {
    let create =
        || asked(Step::Create, Holding::Pool, volume("v1", 4_000), Outcome::Accepted, "o1");
    let done = group(&[12_000], &[("v1", 4_000)]);
    let judge = |listed: &[(&str, &[&str])], failures| {
        let mut slot = slot("v", Holding::Pool);
        slot.asked.push(create());
        let resolved = resolve(&mut slot, &statuses(listed), Some(&done), failures);
        (resolved.violations.len(), slot.holding)
    };
    let made = volume("v1", 4_000);
    assert_eq!(judge(&[("o1", &[FINISHED])], Failures::Forbidden), (0, made));
    assert_eq!(judge(&[("o1", &[FAILED])], Failures::Allowed), (0, Holding::Pool));
    assert_eq!(judge(&[("o1", &[FAILED])], Failures::Forbidden), (1, Holding::Pool));
    for listed in [&[("o1", &["OPERATION_PENDING"][..])][..], &[("o1", &[FINISHED, FAILED])], &[]] {
        assert_eq!(judge(listed, Failures::Allowed).0, 1, "{listed:?}");
    }
}

#[test]
fn steps_build_on_what_was_done() {
    let mut slot = slot("v", Holding::Nothing);
    let reserve = asked(Step::Reserve, Holding::Nothing, Holding::Pool, Outcome::Accepted, "o1");
    let create = asked(Step::Create, Holding::Pool, volume("v1", 1), Outcome::Accepted, "o2");
    slot.asked = vec![reserve, create];
    let listed = statuses(&[("o1", &[FAILED]), ("o2", &[FINISHED])]);
    let resolved = resolve(&mut slot, &listed, None, Failures::Allowed);
    assert_eq!(resolved.violations.len(), 1, "a volume out of nothing");
    assert_eq!((resolved.finished, resolved.failed), (1, 1));
}

#[test]
fn unknown_outcomes_are_what_is_held() {
    let unknown = || Outcome::Unknown { reason: "reset".into() };
    for (found, expected) in
        [(group(&[16_000], &[]), Holding::Pool), (group(&[], &[]), Holding::Nothing)]
    {
        let mut slot = slot("v", Holding::Nothing);
        slot.asked.push(asked(Step::Reserve, Holding::Nothing, Holding::Pool, unknown(), ""));
        let resolved = resolve(&mut slot, &Statuses::new(), Some(&found), Failures::Forbidden);
        assert_eq!((resolved.violations.len(), slot.holding), (0, expected));
    }
    let mut refused = slot("v", Holding::Nothing);
    let refusal = Outcome::Refused { status: 409, text: "no".into() };
    refused.asked.push(asked(Step::Reserve, Holding::Nothing, Holding::Pool, refusal, ""));
    let resolved = resolve(&mut refused, &Statuses::new(), None, Failures::Allowed);
    assert_eq!(resolved.violations.len(), 1);
}

#[test]
fn refused_is_only_what_built_on_a_failure() {
    let refusal = |status| Outcome::Refused { status, text: "no such".into() };
    let create = asked(Step::Create, Holding::Pool, volume("v1", 1), Outcome::Accepted, "o1");
    for (state, status, expected) in [
        (FAILED, 409, 0),
        (FINISHED, 409, 1),
        (FAILED, 400, 0),
        (FINISHED, 400, 1),
        (FAILED, 403, 1),
    ] {
        let mut slot = slot("v", Holding::Pool);
        let grow = asked(Step::Grow, volume("v1", 1), volume("v1", 2), refusal(status), "");
        slot.asked = vec![create.clone(), grow];
        let listed = statuses(&[("o1", &[state])]);
        let resolved = resolve(&mut slot, &listed, None, Failures::Allowed);
        assert_eq!(resolved.violations.len(), expected, "{state} {status}");
    }
}

#[test]
fn final_statuses_stay() {
    let finals = BTreeMap::from([("o1".to_owned(), FINISHED.to_owned())]);
    for (listed, expected) in [
        (statuses(&[("o1", &[FINISHED])]), 0),
        // It was forgotten in its time.
        (statuses(&[]), 0),
        (statuses(&[("o1", &[FAILED])]), 1),
        (statuses(&[("o1", &["OPERATION_PENDING"])]), 1),
        (statuses(&[("o1", &[FINISHED, FINISHED])]), 1),
    ] {
        assert_eq!(unchanged(&finals, &listed).len(), expected, "{listed:?}");
    }
}
