//! Field reports about reservations as frameworks meet them, R08, R09 and R11: what tasks use and
//! offers hold, and who is offered what lies in layers or moves.

use chaos::cluster::Member;
use chaos::process::Signal;
use serde_json::{Value, json};

use crate::ask::{Answer, CHECKPOINTED};
use crate::harness::{DEADLINE, Dev, operator_call};
use crate::scheduler::{Framework, amount, info, launch, plain, reserved_for, volume_for};

const QUICK: [&str; 2] = ["--master-flag", "allocation-interval=50ms"];

/// A quick cluster with one agent that declares this.
fn start(masters: u16, declared: &str) -> Dev {
    Dev::start_with(masters, 1, &[&QUICK[..], &["--agent-resources", declared]].concat())
}

/// The same amount with these layers, bottom first.
fn layered(amount: f64, layers: &[(&str, &str)]) -> Value {
    let layer = |(kind, role): &(&str, &str)| json!({"type": kind, "role": role});
    let mut resource = plain("cpus", amount);
    resource["reservations"] = layers.iter().map(layer).collect();
    resource
}

/// For whom cpus in an offer are reserved, and how many; nobody's are `*`'s.
fn cpus(offer: &Value) -> Vec<(String, f64)> {
    let resources = offer["resources"].as_array().unwrap().iter();
    let of_name = resources.filter(|resource| resource["name"] == "cpus");
    let mut owned: Vec<(String, f64)> = of_name
        .map(|resource| {
            let top = resource["reservations"].as_array().and_then(|stack| stack.last());
            let owner = top.and_then(|top| top["role"].as_str()).unwrap_or("*");
            (owner.to_owned(), resource["scalar"]["value"].as_f64().unwrap())
        })
        .collect();
    owned.sort_by(|a, b| a.partial_cmp(b).unwrap());
    owned
}

fn owned(amounts: &[(&str, f64)]) -> Vec<(String, f64)> {
    amounts.iter().map(|(owner, amount)| ((*owner).to_owned(), *amount)).collect()
}

/// The next offer with these cpus, giving back what comes before.
async fn offer_of(framework: &mut Framework, wanted: &[(&str, f64)]) -> Value {
    loop {
        let offers = framework.offers().await;
        if let Some(found) = offers.iter().find(|offer| cpus(offer) == owned(wanted)) {
            return found.clone();
        }
        framework.decline(0.0, &offers).await;
    }
}

/// What came since the first OFFERS, or comes next: what this framework holds.
async fn later_offers(framework: &mut Framework) -> Vec<Value> {
    let offers = |event: &Value| event["offers"]["offers"].as_array().cloned();
    let later: Vec<Value> = framework.told.iter().filter_map(offers).skip(1).flatten().collect();
    if later.is_empty() { framework.offers().await } else { later }
}

/// R08: what a task uses and what carries a volume stays as it is and the refusal names what
/// stands in the way; an offer of what goes is taken back.
#[tokio::test]
async fn r08_unreserve_spares_tasks_and_takes_offers_back() {
    let dev = start(1, "cpus:4;mem:1024;disk:1024");
    let (cpus, disk) = (reserved_for("r", "cpus", 2.0), reserved_for("r", "disk", 100.0));
    let (one, volume) = (reserved_for("r", "cpus", 1.0), volume_for("r", "v1", 100.0));
    let held = [cpus.clone(), disk.clone()];
    dev.call(0, "RESERVE_RESOURCES", &held).await.expect("reserve", 202, "");
    dev.call(0, "CREATE_VOLUMES", std::slice::from_ref(&volume)).await.expect("create", 202, "");
    let total = dev.slave(0).await["resources"].clone();
    let mut framework = Framework::subscribe(&dev, "r").await;
    let offer = framework.offers().await[0].clone();
    let used = [one.clone(), volume.clone(), plain("mem", 32.0)];
    framework.accept(&[&offer], &[launch("t1", &offer, &used, "sleep 1000")]).await;
    framework.reaches("t1", "TASK_RUNNING").await;
    let offered = later_offers(&mut framework).await;
    assert_eq!(offered.len(), 1, "{offered:?}");

    let agent_id = dev.agent_id(0).await;
    let refused = async |kind: &str, resource: &Value, (status, blocker): (u16, &str)| {
        let call = operator_call(&agent_id, kind, std::slice::from_ref(resource));
        let answer: Answer = dev.post("/api/v1", &[("holdfast-errors", "json")], &call).await;
        answer.expect(kind, status, "");
        let blocked_by = answer.json()["blocked_by"].to_string();
        assert!(blocked_by.contains(blocker), "{kind}: {}", answer.text);
        assert_eq!(dev.slave(0).await["resources"], total, "{kind}");
    };
    refused("UNRESERVE_RESOURCES", &cpus, (409, "t1")).await;
    refused("UNRESERVE_RESOURCES", &disk, (409, "v1")).await;
    refused("DESTROY_VOLUMES", &volume, (400, "t1")).await;
    let is_rescinded = |event: &Value| event["rescind"]["offer_id"] == offered[0]["id"];
    assert!(!framework.told.iter().any(is_rescinded), "a refusal takes nothing back");

    dev.call(0, "UNRESERVE_RESOURCES", std::slice::from_ref(&one)).await.expect(
        "what is free",
        202,
        "",
    );
    framework.next("the offer taken back", |event| is_rescinded(event).then_some(())).await;
    assert_eq!(dev.slave(0).await["resources"], total, "what is free");

    let task = json!({"task_id": {"value": "t1"}, "agent_id": {"value": agent_id}});
    framework.call("KILL", "kill", task).await;
    framework.reaches("t1", "TASK_KILLED").await;
    dev.call(0, "DESTROY_VOLUMES", &[volume]).await.expect("destroy", 202, "");
    dev.call(0, "UNRESERVE_RESOURCES", &[one, disk]).await.expect("the rest", 202, "");
    assert_eq!(dev.slave(0).await["resources"], total, "nothing is lost or made");
    assert_eq!(dev.reserved_on(0).await, json!({}));
}

/// R09: each layer is offered to its owner and to roles below it. A popped one goes to the owner
/// below it in the stack, and not to everybody.
#[tokio::test]
async fn r09_layers_are_offered_to_their_owners() {
    let dev = start(1, "cpus:1;cpus(eng):3;mem:64;disk:64");
    let eng = ("STATIC", "eng");
    let (db, pg) = (("DYNAMIC", "eng/db"), ("DYNAMIC", "eng/db/pg"));
    let top = [layered(0.5, &[eng, db, pg])];
    dev.call(0, "RESERVE_RESOURCES", &[layered(1.0, &[eng, db])]).await.expect("db", 202, "");
    dev.call(0, "RESERVE_RESOURCES", &top).await.expect("pg", 202, "");
    let all = [("*", 1.0), ("eng", 2.0), ("eng/db", 0.5), ("eng/db/pg", 0.5)];
    for (role, seen) in [("ops", 1), ("eng", 2), ("eng/db", 3), ("eng/db/pg", 4)] {
        let mut framework = Framework::subscribe(&dev, role).await;
        let offers = framework.offers().await;
        assert_eq!(cpus(&offers[0]), owned(&all[..seen]), "{role}");
        framework.call("TEARDOWN", "teardown", json!({})).await;
        framework.ended().await;
    }
    // Who knows nothing of layers is offered none, whatever its role.
    let mut plain_info = info("eng/db/pg");
    let capabilities = plain_info["capabilities"].as_array_mut().unwrap();
    capabilities.retain(|capability| capability["type"] != "RESERVATION_REFINEMENT");
    let mut framework = Framework::subscribe_as(&dev, plain_info).await;
    let offers = framework.offers().await;
    assert_eq!(amount(&offers[0]["resources"], "cpus"), 3.0, "{offers:?}");
    framework.call("TEARDOWN", "teardown", json!({})).await;
    framework.ended().await;

    let mut owner = Framework::subscribe(&dev, "eng/db").await;
    assert_eq!(cpus(&owner.offers().await[0]), owned(&all[..3]));
    dev.call(0, "UNRESERVE_RESOURCES", &top).await.expect("pop", 202, "");
    assert_eq!(cpus(&owner.offers().await[0]), owned(&[("eng/db", 0.5)]));
}

/// R11: what moves from one role to another is offered to nobody else, whenever the leader dies.
#[tokio::test]
async fn r11_what_moves_is_nobody_elses() {
    let dev = start(3, "cpus:4;mem:1024;disk:1024");
    let agent_id = dev.agent_id(0).await;
    let moved = |from: &str, to: &str| {
        let resources = [reserved_for(to, "cpus", 1.0)];
        let mut call = operator_call(&agent_id, "RESERVE_RESOURCES", &resources);
        call["reserve_resources"]["source"] = json!([reserved_for(from, "cpus", 1.0)]);
        call
    };
    let held = [reserved_for("a", "cpus", 1.0)];
    dev.call(0, "RESERVE_RESOURCES", &held).await.expect("a", 202, "");
    let mut watcher = Framework::subscribe(&dev, "c").await;
    for _ in 0..10 {
        for (from, to) in [("a", "b"), ("b", "a")] {
            dev.post(CHECKPOINTED, &[], &moved(from, to)).await.expect("move", 202, "");
            offer_of_all_but_one(&mut watcher).await;
        }
    }
    let leader = Member::Master(dev.leader().await);
    dev.post("/api/v1", &[], &moved("a", "b")).await.expect("the last move", 202, "");
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    watcher.resubscribe().await;
    for _ in 0..3 {
        offer_of_all_but_one(&mut watcher).await;
    }
    watcher.call("TEARDOWN", "teardown", json!({})).await;
    let mut owner = Framework::subscribe(&dev, "b").await;
    offer_of(&mut owner, &[("*", 3.0), ("b", 1.0)]).await;
}

/// Takes the next offer, and gives it back. What moves is no part of it.
async fn offer_of_all_but_one(watcher: &mut Framework) {
    let offers = watcher.offers().await;
    for offer in &offers {
        assert_eq!(cpus(offer), owned(&[("*", 3.0)]));
    }
    watcher.decline(0.0, &offers).await;
}
