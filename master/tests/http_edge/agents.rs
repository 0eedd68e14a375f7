//! Commands about whole agents, and what readers see of agents that are drained, unreachable or
//! gone.

use serde_json::{Value, json};

use crate::calls::{Answer, call, reservation, send};
use crate::support::{Agent, Cluster, client, get, json, until, until_some};

const UNKNOWN: &str = "No agent found with specified ID";
const NAMES: [&str; 4] = ["MARK_AGENT_GONE", "DRAIN_AGENT", "DEACTIVATE_AGENT", "REACTIVATE_AGENT"];

async fn cluster(flags: &[&str]) -> (Cluster, String, Agent) {
    let cluster = Cluster::start(1, 1, flags).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8;disk(ads):100").await;
    (cluster, leader, agent)
}

fn about(name: &str, id: &str) -> Value {
    json!({"type": name, name.to_lowercase(): {"agent_id": {"value": id}}})
}

fn text(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.text.as_str())
}

async fn slave(leader: &str) -> Value {
    json(leader, "/slaves").await.unwrap()["slaves"][0].clone()
}

/// What a leader did is told with its next tick.
async fn counted(leader: &str, name: &str) {
    until(name, async || metric(leader, name).await == 1.0).await;
}

async fn metric(leader: &str, name: &str) -> f64 {
    json(leader, "/metrics/snapshot").await.unwrap()[name].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_marked_gone_takes_everything_along_and_stays_away() {
    let (_cluster, leader, agent) = cluster(&[]).await;
    let id = agent.id.as_str();
    let gone = about("MARK_AGENT_GONE", id);
    let rehearsed = call(&leader, "?dry_run=true", &gone).await.json();
    assert_eq!((&rehearsed["would_be_accepted"], &rehearsed["tasks"]), (&json!(true), &json!(0)));
    assert_eq!(rehearsed["changes"][0]["removed"][0]["name"], "cpus");
    assert_eq!(slave(&leader).await["id"], id, "nothing was done");
    for _ in ["first", "again"] {
        let answer = call(&leader, "", &gone).await;
        assert_eq!((text(&answer), answer.header("content-type")), ((200, ""), None));
    }
    let slaves = json(&leader, "/slaves").await.unwrap();
    for list in ["slaves", "recovered_slaves", "unreachable_slaves"] {
        assert_eq!(slaves[list], json!([]), "{list}");
    }
    assert_eq!(json(&leader, "/api/v1/volumes").await.unwrap(), json!([]));
    let kept = json(&leader, "/api/v1/agents?gone=true").await.unwrap();
    assert_eq!((&kept[0]["id"], &kept[0]["presence"]), (&json!(id), &json!("GONE")));
    assert_eq!(text(&call(&leader, "", &reservation(&agent, 1.0)).await), (400, UNKNOWN));
    counted(&leader, "master/slave_removals").await;
    assert_eq!(metric(&leader, "master/cpus_total").await, 0.0);
    let refusal = Agent::try_register_as(&leader, None, "a1", "cpus:8;disk(ads):100").await;
    let refusal = refusal.err().unwrap().message().to_owned();
    assert!(refusal.contains("retry: Never") && refusal.contains("end_tasks: true"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_are_not_there() {
    let (_cluster, leader, _agent) = cluster(&[]).await;
    for name in NAMES {
        let status = if name == "MARK_AGENT_GONE" { 404 } else { 400 };
        for id in ["c-S9", "a/b", ""] {
            let answer = call(&leader, "", &about(name, id)).await;
            assert_eq!(text(&answer), (status, UNKNOWN), "{name} {id}");
        }
        let rehearsed = call(&leader, "?dry_run=true", &about(name, "c-S9")).await.json();
        assert_eq!(rehearsed["would_be_accepted"], false);
        assert_eq!(rehearsed["failing"][0]["status"], status, "{name}");
        let bare = call(&leader, "", &json!({"type": name})).await;
        let member = name.to_lowercase();
        assert_eq!(bare.status, 400);
        assert!(bare.text.contains(&format!("'{member}' to be present")), "{}", bare.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deactivated_agent_is_known_and_not_used() {
    let (_cluster, leader, agent) = cluster(&[]).await;
    let id = agent.id.as_str();
    let active = call(&leader, "", &about("REACTIVATE_AGENT", id)).await;
    assert_eq!(active.status, 400, "{}", active.text);
    assert!(active.text.contains("not deactivated"), "{}", active.text);
    for _ in ["first", "again"] {
        let answer = call(&leader, "", &about("DEACTIVATE_AGENT", id)).await;
        assert_eq!(text(&answer), (200, ""));
    }
    let shown = slave(&leader).await;
    assert_eq!((&shown["active"], &shown["deactivated"]), (&json!(false), &json!(true)));
    assert_eq!(metric(&leader, "master/slaves_connected").await, 1.0);
    assert_eq!(metric(&leader, "master/slaves_active").await, 0.0);
    assert_eq!(metric(&leader, "master/slaves_inactive").await, 1.0);
    let answer = call(&leader, "", &json!({"type": "GET_AGENTS"})).await.json();
    let listed = &answer["get_agents"]["agents"][0];
    assert_eq!((&listed["active"], &listed["deactivated"]), (&json!(false), &json!(true)));
    let state = json(&leader, "/state").await.unwrap();
    assert_eq!(
        (&state["activated_slaves"], &state["deactivated_slaves"]),
        (&json!(0.0), &json!(1.0)),
    );
    // It is still an agent: operators may reserve on it.
    assert_eq!(call(&leader, "", &reservation(&agent, 1.0)).await.status, 202);
    assert_eq!(text(&call(&leader, "", &about("REACTIVATE_AGENT", id)).await), (200, ""));
    assert_eq!(slave(&leader).await["active"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_under_a_key_is_answered_and_not_done_again() {
    let (_cluster, leader, agent) = cluster(&[]).await;
    let id = agent.id.as_str();
    let ask = async |headers: &[(&str, &str)], body: &Value| {
        let mut request = client().post(format!("http://{leader}/api/v1")).json(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        send(request).await
    };
    let (off, on) = (about("DEACTIVATE_AGENT", id), about("REACTIVATE_AGENT", id));
    for query in ["", "?dry_run=true"] {
        let request = client().post(format!("http://{leader}/api/v1{query}")).json(&off);
        let answer = send(request.header("If-Match", "\"99\"")).await;
        match query {
            "" => assert_eq!(answer.status, 412, "{}", answer.text),
            _ => assert_eq!(answer.json()["failing"][0]["status"], 412),
        }
    }
    assert_eq!(text(&ask(&[("Idempotency-Key", "off")], &off).await), (200, ""));
    for _ in ["first", "again"] {
        assert_eq!(text(&ask(&[("Idempotency-Key", "on")], &on).await), (200, ""));
    }
    assert_eq!(ask(&[], &on).await.status, 400, "it is active");
    assert_eq!(text(&ask(&[("Idempotency-Key", "off")], &off).await), (200, ""));
    assert_eq!(slave(&leader).await["active"], true, "the repeat did nothing");
    assert_eq!(ask(&[("Idempotency-Key", "off")], &on).await.status, 422);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_tasks_is_drained_at_once() {
    let (_cluster, leader, agent) = cluster(&[]).await;
    let id = agent.id.as_str();
    let mut drain = about("DRAIN_AGENT", id);
    drain["drain_agent"]["max_grace_period"] = json!({"seconds": 30});
    assert_eq!(text(&call(&leader, "", &drain).await), (200, ""));
    let shown = until_some("the agent is drained", async || {
        let shown = slave(&leader).await;
        (shown["drain_info"]["state"] == "DRAINED").then_some(shown)
    })
    .await;
    let config =
        json!({"max_grace_period": {"nanoseconds": 30_000_000_000_u64}, "mark_gone": false});
    assert_eq!(shown["drain_info"]["config"], config);
    assert!(shown["estimated_drain_start_time_seconds"].is_number());
    assert_eq!((&shown["active"], &shown["deactivated"]), (&json!(false), &json!(true)));
    let answer = call(&leader, "", &json!({"type": "GET_AGENTS"})).await.json();
    let listed = &answer["get_agents"]["agents"][0];
    assert_eq!(listed["drain_info"], shown["drain_info"]);
    assert!(listed["estimated_drain_start_time"]["nanoseconds"].is_number());
    assert_eq!(text(&call(&leader, "", &about("REACTIVATE_AGENT", id)).await), (200, ""));
    assert_eq!(slave(&leader).await.get("drain_info"), None);
    drain["drain_agent"]["mark_gone"] = json!(true);
    assert_eq!(text(&call(&leader, "", &drain).await), (200, ""));
    until("the agent is gone", async || {
        let kept = json(&leader, "/api/v1/agents?gone=true").await.unwrap();
        kept[0]["id"] == id
    })
    .await;
    assert_eq!(text(&call(&leader, "", &drain).await), (400, UNKNOWN));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_about_agents_have_permissions_of_their_own() {
    let rule = |key: &str, names: Value| {
        json!([{"principals": {"values": names}, "agents": {"type": "ANY"}},
            {"principals": {"type": "ANY"}, "agents": {"type": "NONE"}}])
        .as_array()
        .map(|rules| (key.to_owned(), json!(rules)))
        .unwrap()
    };
    let acls: serde_json::Map<String, Value> = [
        rule("mark_agents_gone", json!(["undertaker"])),
        rule("drain_agents", json!(["drainer", "undertaker"])),
        rule("deactivate_agents", json!(["switch"])),
        rule("reactivate_agents", json!(["switch"])),
    ]
    .into_iter()
    .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let entries =
        ["drainer", "undertaker", "switch"].map(|name| json!({"principal": name, "secret": name}));
    std::fs::write(&file, json!({"credentials": entries}).to_string()).unwrap();
    let credentials = format!("--credentials={}", file.display());
    let acls = format!("--acls={}", Value::from(acls));
    let flags = [credentials.as_str(), acls.as_str(), "--authenticate-http-readwrite"];
    let (_cluster, leader, agent) = cluster(&flags).await;
    let ask = async |principal: &str, query: &str, body: &Value| {
        let request = client().post(format!("http://{leader}/api/v1{query}")).json(body);
        send(request.basic_auth(principal, Some(principal))).await
    };
    let mut then_gone = about("DRAIN_AGENT", agent.id.as_str());
    then_gone["drain_agent"]["mark_gone"] = json!(true);
    for (principal, body) in [
        ("drainer", about("MARK_AGENT_GONE", agent.id.as_str())),
        ("drainer", then_gone.clone()),
        ("drainer", about("DEACTIVATE_AGENT", "c-S9")),
        ("undertaker", about("REACTIVATE_AGENT", "c-S9")),
        ("switch", about("DRAIN_AGENT", agent.id.as_str())),
    ] {
        for query in ["", "?dry_run=true"] {
            let answer = ask(principal, query, &body).await;
            assert_eq!(answer.status, 403, "{principal} {body}: {}", answer.text);
            assert!(answer.text.contains(&format!("'{principal}' may not")), "{}", answer.text);
        }
    }
    let agents = json(&leader, "/api/v1/agents").await.unwrap();
    assert_eq!(agents[0]["activation"], "ACTIVE", "denial leaves no trace");
    assert_eq!(ask("undertaker", "?dry_run=true", &then_gone).await.status, 200);
    let plain = about("DRAIN_AGENT", agent.id.as_str());
    assert_eq!(text(&ask("drainer", "", &plain).await), (200, ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn v06_what_an_unreachable_agent_holds_stays_on_record() {
    let flags = ["--agent-ping-timeout=1s", "--max-agent-ping-timeouts=1"];
    let (_cluster, leader, agent) = cluster(&flags).await;
    let id = agent.id.clone();
    let answer = call(&leader, "?wait=checkpointed", &reservation(&agent, 1.0)).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    drop(agent);
    let away = until_some("the agent is unreachable", async || {
        let slaves = json(&leader, "/slaves").await.unwrap();
        (slaves["slaves"] == json!([])).then_some(slaves)
    })
    .await;
    assert_eq!(away["recovered_slaves"], json!([]));
    let kept = &away["unreachable_slaves"][0];
    assert_eq!((&kept["id"], &kept["active"]), (&json!(id.as_str()), &json!(false)));
    assert_eq!(kept["reserved_resources"]["ads"]["cpus"], 1.0);
    assert!(kept["unreachable_time"].is_number());
    let listed = json(&leader, "/api/v1/agents").await.unwrap();
    assert_eq!(listed[0]["presence"], "UNREACHABLE");
    let held = json(&leader, "/api/v1/reservations").await.unwrap();
    assert_eq!(held[0]["agent_state"], "unreachable");
    let state = json(&leader, "/state").await.unwrap();
    assert_eq!((&state["unreachable_slaves"], &state["slaves"]), (&json!(1.0), &json!([])));
    let answer = call(&leader, "", &json!({"type": "GET_AGENTS"})).await.json();
    assert_eq!(answer["get_agents"]["agents"], json!([]));
    assert_eq!(metric(&leader, "master/slaves_unreachable").await, 1.0);
    counted(&leader, "master/slave_unreachable_completed").await;
    counted(&leader, "master/slave_removals/reason_unhealthy").await;
    assert_eq!(metric(&leader, "master/disk_total").await, 0.0);
    let prometheus = get(&leader, "/metrics").await.unwrap().1;
    assert!(prometheus.contains("master_agents{state=\"unreachable\"} 1\n"), "{prometheus}");
    let unreserve = json!({"type": "UNRESERVE_RESOURCES", "unreserve_resources": {
        "agent_id": {"value": id.as_str()},
        "resources": [crate::calls::reserved_cpus("ads", 1.0)]}});
    assert_eq!(text(&call(&leader, "", &unreserve).await), (400, UNKNOWN));
}
