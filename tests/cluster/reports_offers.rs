//! Field reports about offers: R02, O01, O02, O03, O05, O06, O08 and H03.

use chaos::client::Outcome;
use chaos::cluster::Member;
use chaos::process::Signal;
use chaos::wait;
use reqwest::Method;
use serde_json::{Value, json};

use crate::ask::once;
use crate::harness::{DEADLINE, Dev, reserved};
use crate::scheduler::{Framework, amount, info, reserve, reserved_for};

/// Offers come soon, so that many rounds of them fit in a test.
const QUICK: [&str; 2] = ["--master-flag", "allocation-interval=50ms"];

/// What one agent of a test cluster declares.
const WHOLE: [&str; 2] = ["--agent-resources", "cpus:4;mem:1024;disk:1024"];

fn flags() -> Vec<&'static str> {
    [QUICK, WHOLE].concat()
}

fn is_whole(resources: &Value) -> bool {
    (amount(resources, "cpus"), amount(resources, "mem"), amount(resources, "disk"))
        == (4.0, 1024.0, 1024.0)
}

/// The next offer that holds all of an agent, giving back what comes beside it.
async fn whole_offer(framework: &mut Framework) -> Value {
    whole_offers(framework, 1).await.remove(0)
}

/// So many offers that each hold all of an agent, giving back what comes beside them.
async fn whole_offers(framework: &mut Framework, count: usize) -> Vec<Value> {
    let mut whole = Vec::new();
    while whole.len() < count {
        let (fitting, others): (Vec<Value>, Vec<Value>) =
            framework.offers().await.into_iter().partition(|offer| is_whole(&offer["resources"]));
        framework.decline(0.0, &others).await;
        whole.extend(fitting);
    }
    framework.decline(0.0, &whole.split_off(count)).await;
    whole
}

/// R02: RESERVE is for the role of the offer. Whatever else it says is refused by name, and the
/// resources come back.
#[tokio::test]
async fn r02_reserve_is_for_the_role_of_the_offer() {
    let dev = Dev::start_with(1, 1, &flags());
    let mut framework = Framework::subscribe(&dev, "a").await;
    for role in ["b", "*", "", "a/b", "aa"] {
        let offer = whole_offer(&mut framework).await;
        let id = format!("for '{}'", role.replace('/', " below "));
        let operation = reserve(&id, &[reserved_for(role, "cpus", 1.0)]);
        framework.accept(&[&offer], &[operation]).await;
        let status = framework.feedback(&id).await;
        assert_eq!(status["state"], "OPERATION_ERROR", "{status}");
        assert_eq!(status["uuid"], Value::Null, "nobody acknowledges it");
    }
    let offer = whole_offer(&mut framework).await;
    framework.accept(&[&offer], &[reserve("for 'a'", &[reserved_for("a", "cpus", 1.0)])]).await;
    assert_eq!(framework.feedback("for 'a'").await["state"], "OPERATION_FINISHED");
    let roles = dev.read("/roles").await;
    let named = roles["roles"].as_array().unwrap().iter().map(|role| role["name"].clone());
    assert!(!named.collect::<Vec<_>>().contains(&json!("b")), "{roles}");
}

/// O01: an ACCEPT that fails in any way gives everything back.
#[tokio::test]
async fn o01_failed_accepts_give_everything_back() {
    let dev = Dev::start_with(1, 2, &flags());
    let mut framework = Framework::subscribe(&dev, "a").await;
    let operation = |n: usize| reserve(&format!("op{n}"), &[reserved_for("a", "cpus", 1.0)]);
    let unknown = json!({"id": {"value": "nobody-O1-1"}});
    for round in 0..5 {
        let mut offers = whole_offers(&mut framework, 2).await;
        let (second, first) = (offers.remove(1), offers.remove(0));
        assert_ne!(first["agent_id"], second["agent_id"]);
        if round != 2 {
            framework.decline(0.0, std::slice::from_ref(&second)).await;
        }
        let operations = [operation(round)];
        match round {
            0 => framework.accept(&[&first, &unknown], &operations).await,
            1 => framework.accept(&[&first, &first], &operations).await,
            2 => framework.accept(&[&first, &second], &operations).await,
            3 => {
                framework.decline(0.0, std::slice::from_ref(&first)).await;
                framework.accept(&[&first], &operations).await;
            }
            _ => {
                framework.accept(&[&first], &[]).await;
                break;
            }
        }
        let status = framework.feedback(&format!("op{round}")).await;
        assert_eq!(status["state"], "OPERATION_ERROR", "{status}");
    }
    for offer in whole_offers(&mut framework, 2).await {
        framework.accept(&[&offer], &[]).await;
    }
    for agent in 0..2 {
        assert_eq!(dev.reserved_on(agent).await, json!({}));
        assert_eq!(amount_of(&dev.slave(agent).await["used_resources"], "cpus"), 0.0);
    }

    framework.call("TEARDOWN", "teardown", json!({})).await;

    // TEARDOWN among calls in flight.
    for _ in 0..5 {
        let mut doomed = Framework::subscribe(&dev, "b").await;
        let offers = doomed.offers().await;
        let accepts = (0..20).map(|n| {
            let operation = reserve(&format!("op{n}"), &[reserved_for("b", "cpus", 0.1)]);
            let body = json!({
                "offer_ids": [offers[0]["id"]],
                "operations": [operation],
                "filters": {"refuse_seconds": 0.0},
            });
            doomed.try_call("ACCEPT", "accept", body)
        });
        let accepts = futures::future::join_all(accepts);
        let (_, torn) = tokio::join!(accepts, doomed.try_call("TEARDOWN", "teardown", json!({})));
        assert_eq!(torn, Outcome::Accepted);
        doomed.ended().await;
    }
    // Whatever was reserved before the end is offered to the role, and nothing is missing.
    let mut last = Framework::subscribe(&dev, "b").await;
    whole_offers(&mut last, 2).await;
    dev.assert_no_errors();
}

fn amount_of(scalars: &Value, name: &str) -> f64 {
    scalars[name].as_f64().unwrap_or_default()
}

/// O02: offers of a scheduler that is gone come to others at once; offers of an agent that is
/// gone are rescinded, and an ACCEPT of one is answered by name.
#[tokio::test]
async fn o02_offers_do_not_outlive_their_ends() {
    let dev = Dev::start_with(1, 1, &flags());
    let mut hoarder = Framework::subscribe(&dev, "a").await;
    whole_offer(&mut hoarder).await;
    let mut heir = Framework::subscribe(&dev, "b").await;
    drop(hoarder);
    let offer = whole_offer(&mut heir).await;

    dev.cluster.signal(Member::Agent(0), Signal::KILL).unwrap();
    heir.next("RESCIND", |event| (event["rescind"]["offer_id"] == offer["id"]).then_some(())).await;
    heir.accept(&[&offer], &[reserve("late", &[reserved_for("b", "cpus", 1.0)])]).await;
    let status = heir.feedback("late").await;
    assert!(status["state"] == "OPERATION_ERROR" || status["state"] == "OPERATION_DROPPED");
}

/// O03: what an unconfirmed operation took is nobody else's, also under the next leader.
#[tokio::test]
async fn o03_pending_operations_hold_their_inputs() {
    let dev = Dev::start_with(3, 1, &flags());
    let mut framework = Framework::subscribe(&dev, "a").await;
    let offer = whole_offer(&mut framework).await;
    dev.cluster.signal(Member::Agent(0), Signal::STOP).unwrap();
    framework.accept(&[&offer], &[reserve("all", &[reserved_for("a", "disk", 1024.0)])]).await;

    let leader = Member::Master(dev.leader().await);
    dev.cluster.signal(leader, Signal::KILL).unwrap();
    dev.cluster.ended(&[leader], DEADLINE).await.unwrap();
    framework.resubscribe().await;
    let body = json!({"operations": [{"operation_id": {"value": "all"},
        "agent_id": offer["agent_id"]}]});
    framework.call("RECONCILE_OPERATIONS", "reconcile_operations", body).await;
    assert_eq!(framework.feedback("all").await["state"], "OPERATION_PENDING");

    let agent_id = offer["agent_id"]["value"].as_str().unwrap();
    let wanted = [reserved("disk", 1.0)];
    let call = crate::harness::operator_call(agent_id, "RESERVE_RESOURCES", &wanted);
    let answer = dev.post("/api/v1", &[("holdfast-errors", "json")], &call).await;
    answer.expect("disk that is pending", 409, "");
    let pending = dev.read("/api/v1/operations").await;
    let pending = pending[0]["operation_id"].as_str().unwrap().to_owned();
    assert!(answer.json()["blocked_by"].to_string().contains(&pending), "{}", answer.text);

    dev.cluster.signal(Member::Agent(0), Signal::CONT).unwrap();
    assert_eq!(framework.feedback("all").await["state"], "OPERATION_FINISHED");
    framework.call("TEARDOWN", "teardown", json!({})).await;
    let mut other = Framework::subscribe(&dev, "b").await;
    loop {
        let offers = other.offers().await;
        assert!(offers.iter().all(|offer| amount(&offer["resources"], "disk") == 0.0));
        if offers.iter().any(|offer| amount(&offer["resources"], "cpus") == 4.0) {
            break;
        }
        other.decline(0.0, &offers).await;
    }
    let reserved = dev.reserved_on(0).await;
    assert_eq!(amount(&reserved["a"], "disk"), 1024.0, "{reserved}");
}

/// O05: what is reserved goes to its role and to roles below it, and to nobody else.
#[tokio::test]
async fn o05_reserved_resources_go_to_their_role() {
    let dev = Dev::start_with(1, 1, &flags());
    for role in ["a", "a/b", "c"] {
        let mut resource = reserved("disk", 100.0);
        resource["reservations"][0]["role"] = json!(role);
        let wanted = [resource];
        dev.call(0, "RESERVE_RESOURCES", &wanted).await.expect("reserve", 202, "");
    }
    let roles = [("a", &["a"][..]), ("a/b", &["a", "a/b"]), ("c", &["c"]), ("d", &[])];
    let frameworks = roles.map(|(role, may_see)| asks_for_its_own(&dev, role, may_see));
    futures::future::join_all(frameworks).await;
}

/// Takes offers until what is reserved for `role` came five times; all of them may be of
/// `may_see` only.
async fn asks_for_its_own(dev: &Dev, role: &str, may_see: &[&str]) {
    let mut framework = Framework::subscribe(dev, role).await;
    let mut own = 0;
    while own < 5 {
        let offers = framework.offers().await;
        let owners: Vec<&str> = offers.iter().flat_map(owners).collect();
        framework.decline(0.0, &offers).await;
        assert!(owners.iter().all(|owner| may_see.contains(owner)), "{role}: {owners:?}");
        if may_see.is_empty() || owners.contains(&role) {
            own += 1;
        }
    }
    // What it holds by now is for the others.
    framework.call("TEARDOWN", "teardown", json!({})).await;
}

/// For whom the resources of an offer are reserved.
fn owners(offer: &Value) -> Vec<&str> {
    let resources = offer["resources"].as_array().unwrap().iter();
    let stacks = resources.filter_map(|resource| resource["reservations"].as_array());
    stacks.filter_map(|stack| stack.last()?["role"].as_str()).collect()
}

/// O06: a refusal lasts as long as it says, a year at most, and covers what was declined.
#[tokio::test]
async fn o06_refusals_cover_what_was_declined() {
    let dev = Dev::start_with(1, 1, &flags());
    for seconds in [1e12, 1e300] {
        let mut framework = Framework::subscribe(&dev, "a").await;
        let offer = whole_offer(&mut framework).await;
        framework.decline(seconds, std::slice::from_ref(&offer)).await;
        // Rounds of offers are counted by another framework, which gets the same ones.
        let mut witness = Framework::subscribe(&dev, "b").await;
        for _ in 0..5 {
            let offers = witness.offers().await;
            witness.decline(0.0, &offers).await;
        }
        witness.call("TEARDOWN", "teardown", json!({})).await;
        framework.call("REVIVE", "revive", json!({})).await;
        framework.offers().await;
        let offers = framework.told.iter().filter(|event| event["type"] == "OFFERS");
        assert_eq!(offers.count(), 2, "one before the refusal, one after its end");
        framework.call("TEARDOWN", "teardown", json!({})).await;
        framework.ended().await;
    }
    // More than was declined is offered.
    let held = [reserved_as("a", 1000.0)];
    dev.call(0, "RESERVE_RESOURCES", &held).await.expect("reserve", 202, "");
    let mut framework = Framework::subscribe(&dev, "b").await;
    let offers = framework.offers().await;
    assert_eq!(amount(&offers[0]["resources"], "disk"), 24.0);
    framework.decline(1e12, &offers).await;
    dev.call(0, "UNRESERVE_RESOURCES", &held).await.expect("unreserve", 202, "");
    assert_eq!(amount(&framework.offers().await[0]["resources"], "disk"), 1024.0);
}

fn reserved_as(role: &str, amount: f64) -> Value {
    let mut resource = reserved("disk", amount);
    resource["reservations"][0]["role"] = json!(role);
    resource
}

/// O08: calls of a subscription take effect in the order in which they are sent.
#[tokio::test]
async fn o08_calls_take_effect_in_order() {
    let dev = Dev::start_with(1, 1, &flags());
    let mut framework = Framework::subscribe(&dev, "a").await;
    for _ in 0..20 {
        let offer = whole_offer(&mut framework).await;
        framework.accept_refusing(3600.0, &[&offer], &[]).await;
        framework.call("REVIVE", "revive", json!({})).await;
    }
    let offer = whole_offer(&mut framework).await;
    let operation = reserve("last", &[reserved_for("a", "cpus", 1.0)]);
    framework.accept(&[&offer], &[operation]).await;
    framework.call("TEARDOWN", "teardown", json!({})).await;
    let reserved = dev.reserved_on(0).await;
    assert_eq!(amount(&reserved["a"], "cpus"), 1.0, "{reserved}");
}

/// H03: whoever does not lead sends a scheduler to the leader, body and method kept.
#[tokio::test]
async fn h03_every_master_shows_the_way() {
    let mut dev = Dev::start(3, 1);
    let call = json!({"type": "SUBSCRIBE", "subscribe": {"framework_info": info("a")}});
    for is_after in [false, true] {
        let leader = dev.leader().await;
        let masters = dev.cluster.masters();
        for (place, address) in masters.iter().enumerate() {
            if place == leader || !dev.cluster.is_alive(Member::Master(place)) {
                continue;
            }
            for (method, path) in [
                (Method::POST, "/api/v1/scheduler"),
                (Method::POST, "/master/api/v1/scheduler?x=1"),
                (Method::GET, "/api/v1/scheduler"),
            ] {
                let answer = wait::until("a known leader", DEADLINE, async || {
                    let headers = [("content-type", "application/json")];
                    let body = call.to_string();
                    let answer = once(method.clone(), address, path, &headers, &body).await;
                    let answer = answer.map_err(|error| error.to_string())?;
                    if answer.status == 503 { Err(answer.text) } else { Ok(answer) }
                })
                .await
                .unwrap();
                answer.expect(path, 307, "");
                let tail = path.strip_prefix("/master").unwrap_or(path);
                let wanted = format!("//{}/master{tail}", masters[leader]);
                assert_eq!(answer.header("location"), wanted);
            }
        }
        if !is_after {
            let killed = Member::Master(leader);
            dev.cluster.signal(killed, Signal::KILL).unwrap();
            dev.cluster.ended(&[killed], DEADLINE).await.unwrap();
            let mut framework = Framework::subscribe(&dev, "a").await;
            let offers = framework.offers().await;
            assert!(amount(&offers[0]["resources"], "cpus") > 0.0, "{offers:?}");
        }
    }
    crate::harness::assert_success(&dev.resume());
}
