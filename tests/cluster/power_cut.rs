//! Every process killed at once while calls are in flight: what was acknowledged is there after
//! the next start, on all masters and on the agents' disks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chaos::client::{Client, Outcome};
use chaos::cluster::Member;
use chaos::drills::workload::Workload;
use chaos::history::{Change, History, Object};
use chaos::observe::{self, Groups};
use chaos::process::Signal;
use chaos::{invariants, wait};

use crate::harness::{DEADLINE, Dev, assert_success};

const RUN: &str = "cut-";
const CALLERS: usize = 4;
const ACKNOWLEDGED_BEFORE: usize = 40;

#[tokio::test]
async fn all_five_killed_at_once_lose_no_acknowledged_call() {
    let mut dev = Dev::start(3, 2);
    let leader = dev.leader_address().await;
    let workload = Arc::new(Workload {
        client: Client::new(None).unwrap(),
        masters: dev.cluster.masters(),
        agents: vec![dev.agent_id(0).await, dev.agent_id(1).await],
    });
    let is_cut = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (workload, leader) = (Arc::clone(&workload), leader.clone());
            let (is_cut, acknowledged) = (Arc::clone(&is_cut), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                let mut calls = Vec::new();
                for number in 0.. {
                    let label = format!("{RUN}{caller}-{number}");
                    let subject = (number % 2, Object::Mark { label });
                    let call = workload.call(&subject, Change::Make);
                    let outcome = workload.client.call(&leader, &call).await;
                    acknowledged
                        .fetch_add(usize::from(outcome == Outcome::Accepted), Ordering::Relaxed);
                    calls.push((subject, outcome));
                    if is_cut.load(Ordering::Relaxed) {
                        break;
                    }
                }
                calls
            })
        })
        .collect();
    wait::until("acknowledged calls", DEADLINE, async || {
        let count = acknowledged.load(Ordering::Relaxed);
        if count >= ACKNOWLEDGED_BEFORE { Ok(()) } else { Err(count.to_string()) }
    })
    .await
    .unwrap();
    let members: Vec<Member> = dev.cluster.members().collect();
    for member in &members {
        dev.cluster.signal(*member, Signal::KILL).unwrap();
    }
    is_cut.store(true, Ordering::Relaxed);
    let mut history = History::default();
    for caller in callers {
        for (subject, outcome) in caller.await.unwrap() {
            history.record(&subject, Change::Make, &outcome);
        }
    }
    assert!(history.refused.is_empty(), "{:?}", history.refused);
    dev.cluster.ended(&members, DEADLINE).await.unwrap();

    assert_success(&dev.resume());
    let masters = dev.cluster.masters();
    observe::digests_agree(&dev.client, &masters, DEADLINE).await.unwrap();
    for master in &masters {
        let held = observe::master(&dev.client, &dev.cluster, master, RUN).await.unwrap();
        let by_agent: Vec<(usize, &Groups)> = held.iter().enumerate().collect();
        assert_eq!(invariants::check(&history, master, &by_agent), Vec::<String>::new());
        history.settle(invariants::settle(&history, &held));
    }
    for (place, agent) in dev.cluster.layout().agents.iter().enumerate() {
        wait::until("the agent holds them too", DEADLINE, async || {
            let held = observe::agent(&dev.client, &agent.http, RUN).await;
            let held = held.map_err(|error| format!("{error:#}"))?;
            let violations = invariants::check(&history, &agent.name, &[(place, &held)]);
            if violations.is_empty() { Ok(()) } else { Err(violations.join("; ")) }
        })
        .await
        .unwrap();
    }
}
