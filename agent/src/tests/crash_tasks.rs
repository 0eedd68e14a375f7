//! Kills the agent at every step while it launches tasks, also while it recovers: each task is
//! started once, or reported and never started (architecture §4).

use std::collections::BTreeSet;
use std::fs;

use resources::message::Order;
use resources::task::TaskState;

use super::pilot::{Task, launch};
use super::rig::{Agent, Kind, Rig, STARTED};

const TASKS: [&str; 3] = ["t1", "t2", "t3"];

fn plot() -> (Rig, Vec<Vec<Order>>) {
    let mut rig = Rig::new(Kind::Root);
    let reserve = rig.reserve(64);
    let create = rig.create(&[("v1", 64)]);
    let task = |id: &str| Task::shell(id, "true");
    let with_volume = task("t1").with(rig.volume("v1", 64));
    let batches = vec![
        vec![reserve, create, launch(3, &[with_volume], None, true)],
        vec![launch(4, &[task("t2")], None, true), launch(5, &[task("t3")], None, true)],
    ];
    (rig, batches)
}

fn state_of(agent: &Agent, id: &str) -> TaskState {
    let mut tasks = agent.recovered.core.tasks();
    let found = tasks.find(|(name, _, _)| name.task_id.as_str() == id);
    found.unwrap_or_else(|| panic!("{id} is unknown")).2.state
}

#[test]
fn killed_anywhere_while_tasks_are_launched() {
    let mut places = BTreeSet::new();
    for fuel in 1.. {
        let (rig, batches) = plot();
        drop(rig.start());
        let end = rig.live(fuel, &mut places, |agent| agent.serve(&batches));
        let mut recoveries = 1;
        while rig.live(recoveries, &mut places, |_| ()).is_none() {
            recoveries += 1;
        }
        let mut agent = rig.start();
        agent.serve(&batches);
        let started = fs::read_to_string(rig.work_dir().join(STARTED)).unwrap_or_default();
        for id in TASKS {
            let starts = started.lines().filter(|line| *line == id).count();
            let state = state_of(&agent, id);
            let is_true = match state {
                // The agent itself starts nothing here: it may have died right behind the proof.
                TaskState::Staging => starts <= 1,
                TaskState::Lost => starts == 0,
                _ => false,
            };
            assert!(is_true, "{id} {state}, started {starts} times, killed at {fuel}");
        }
        if end.is_some() {
            assert_eq!(started.lines().count(), TASKS.len());
            assert!(fuel > 8, "the agent was killed only {fuel} times");
            break;
        }
    }
    for place in [
        "an executor is looked for",
        "the directory of a run is made",
        "the next action",
        "the proof is there",
    ] {
        assert!(places.contains(place), "{places:?}");
    }
}
