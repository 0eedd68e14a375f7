//! Routes, checks in their order, waits, redirects: what holds for every request.

use serde_json::{Value, json};

use crate::calls::{call, form, reservation, send};
use crate::support::{Agent, Cluster, client, get, json, until};

const JSON: &str = "application/json";

#[tokio::test(flavor = "multi_thread")]
async fn routes_methods_and_forms() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let url = |path: &str| format!("http://{leader}{path}");

    for path in ["/health", "/master/health", "/ready", "/version", "/state", "/master/slaves/"] {
        assert_eq!(get(&leader, path).await.unwrap().0, 200, "{path}");
        assert_eq!(send(client().head(url(path))).await.status, 200, "HEAD {path}");
    }
    assert_eq!(get(&leader, "/nothing").await.unwrap().0, 404);
    assert_eq!(get(&leader, "/redirect/x").await.unwrap().0, 404);
    let redirect = send(client().get(url("/redirect"))).await;
    assert_eq!((redirect.status, redirect.text.as_str()), (307, ""));
    assert_eq!(redirect.header("location"), Some(format!("//{leader}").as_str()));
    assert_eq!(redirect.header("content-length"), Some("0"));

    let wrong = send(client().get(url("/api/v1"))).await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert!(wrong.text.starts_with("405 Method Not Allowed. Expecting one of { 'POST' }"));
    let wrong = send(client().post(url("/slaves"))).await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, HEAD")));

    let post = |kind: Option<&str>, accept: Option<&str>, body: &str| {
        let mut request = client().post(url("/api/v1/")).body(body.to_owned());
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        send(request)
    };
    let health = r#"{"type":"GET_HEALTH"}"#;
    let good = post(Some(JSON), None, health).await;
    assert_eq!((good.status, good.header("content-type")), (200, Some(JSON)));
    let body: Value = serde_json::from_str(&good.text).unwrap();
    assert_eq!(body, json!({"type": "GET_HEALTH", "get_health": {"healthy": true}}));
    let binary = post(Some(JSON), Some("application/x-protobuf"), health).await;
    assert_eq!(binary.header("content-type"), Some("application/x-protobuf"));
    let binary = post(Some("application/x-protobuf"), None, "\u{8}\u{1}").await;
    assert_eq!((binary.status, binary.text), (200, good.text));
    for (kind, accept, body, status, text) in [
        (None, None, health, 400, "Expecting 'Content-Type' to be present"),
        (Some("text/plain"), None, health, 415, "Expecting 'Content-Type' of application/json"),
        (Some("application/json; charset=utf-8"), None, health, 415, ""),
        (Some(JSON), None, "{nope", 400, ""),
        (Some(JSON), None, "[]", 400, ""),
        (Some(JSON), None, r#"{"type":5,"zzz":[]}"#, 400, ""),
        (Some(JSON), None, "{}", 400, "Expecting 'type' to be present"),
        (Some(JSON), None, r#"{"type":"RESERVE_RESOURCE"}"#, 400, "Expecting 'type'"),
        (Some(JSON), None, r#"{"type":"CREATE_VOLUMES"}"#, 400, "'create_volumes' to be present"),
        (Some(JSON), Some("image/png"), health, 406, ""),
        (Some(JSON), None, r#"{"type":"UNKNOWN"}"#, 501, ""),
        (
            Some(JSON),
            None,
            r#"{"type":"GET_LOGGING_LEVEL"}"#,
            501,
            "GET_LOGGING_LEVEL is not served",
        ),
        (Some(JSON), None, r#"{"type":"TEARDOWN"}"#, 400, "'teardown' to be present"),
        (Some("application/x-protobuf"), None, "\u{8}", 400, ""),
    ] {
        let answer = post(kind, accept, body).await;
        assert_eq!(answer.status, status, "{kind:?} {accept:?} {body}: {}", answer.text);
        assert!(answer.text.contains(text), "{body}: {}", answer.text);
    }
    let scheduler = send(client().post(url("/master/api/v1/scheduler"))).await;
    assert_eq!(scheduler.status, 400);

    let large = vec![b' '; (8 << 20) + 1];
    let answer = send(client().post(url("/api/v1")).header("content-type", JSON).body(large));
    assert_eq!(answer.await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn reserve_create_destroy_unreserve() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8;mem:1024;disk:1000;ports:[1-9]").await;
    let id = agent.id.as_str();

    let accepted = call(&leader, "", &reservation(&agent, 1.5)).await;
    assert_eq!((accepted.status, accepted.text.as_str()), (202, ""));
    assert_eq!(accepted.header("content-type"), None);
    assert!(accepted.header("holdfast-operation-id").is_some());
    let disk = r#"[{"name":"disk","type":"SCALAR","scalar":{"value":100},"role":"ads",
        "reservation":{"principal":"ops"}}]"#;
    let fields = [("slaveId", id), ("resources", disk)];
    assert_eq!(form(&leader, "/master/reserve", &fields).await.status, 202);
    let volume = r#"[{"name":"disk","type":"SCALAR","scalar":{"value":60},"role":"ads",
        "reservation":{"principal":"ops"},"disk":{"persistence":{"id":"v1","principal":"ops"},
        "volume":{"container_path":"data","mode":"RW"}}}]"#;
    let fields = [("slaveId", id), ("volumes", volume)];
    assert_eq!(form(&leader, "/create-volumes", &fields).await.status, 202);

    let slaves = json(&leader, "/slaves").await.unwrap();
    let slave = &slaves["slaves"][0];
    assert_eq!(slaves["recovered_slaves"], json!([]));
    assert_eq!(slave["active"], true);
    assert_eq!(slave["pid"], "slave(1)@127.0.0.1:5061");
    assert_eq!(slave["attributes"], json!({"rack": "r1", "level": 3.0}));
    assert_eq!(
        slave["reserved_resources"],
        json!({"ads": {"cpus": 1.5, "disk": 100.0, "gpus": 0.0, "mem": 0.0}})
    );
    assert_eq!(slave["unreserved_resources"]["ports"], "[1-9]");
    let full = slave["reserved_resources_full"]["ads"].as_array().unwrap();
    assert_eq!(full.len(), 3, "{full:?}");
    let cpus = full.iter().find(|resource| resource["name"] == "cpus").unwrap();
    assert_eq!(
        *cpus,
        json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.5}, "role": "ads",
            "reservation": {"principal": "ops"},
            "reservations": [{"type": "DYNAMIC", "role": "ads", "principal": "ops"}]})
    );
    let state = json(&leader, "/state").await.unwrap();
    assert!(state["slaves"][0].get("reserved_resources_full").is_none());
    assert_eq!(state["activated_slaves"], 1.0);

    // Refusals, each with its status and the words of Mesos.
    let duplicate = form(&leader, "/create-volumes", &fields).await;
    assert_eq!(duplicate.status, 400);
    assert!(duplicate.text.contains("Persistence ID 'v1' is not unique"), "{}", duplicate.text);
    let more = call(&leader, "", &reservation(&agent, 50.0)).await;
    assert_eq!(more.status, 409);
    assert!(more.text.contains(" does not contain "), "{}", more.text);
    let fields = [("slaveId", "no-such"), ("resources", disk)];
    let unknown = form(&leader, "/reserve", &fields).await;
    assert_eq!((unknown.status, unknown.text.as_str()), (400, "No agent found with specified ID"));
    let fields = [("slaveId", id), ("resources", disk)];
    let under = form(&leader, "/unreserve", &fields).await;
    assert_eq!(under.status, 409, "{}", under.text);

    // What /slaves prints can be posted back.
    let pasted: Vec<&Value> = full.iter().filter(|resource| resource["disk"].is_object()).collect();
    let pasted = serde_json::to_string(&pasted).unwrap();
    let fields = [("slaveId", id), ("volumes", pasted.as_str())];
    assert_eq!(form(&leader, "/destroy-volumes", &fields).await.status, 202);
    let again = form(&leader, "/destroy-volumes", &fields).await;
    assert_eq!(again.status, 400);
    assert!(again.text.contains("Persistent volumes not found"), "{}", again.text);
    let fields = [("slaveId", id), ("resources", disk)];
    assert_eq!(form(&leader, "/unreserve", &fields).await.status, 202);
    assert_eq!(form(&leader, "/unreserve", &fields).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn h01_answers_wait_for_the_agent_on_demand() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8").await;
    let waited = call(&leader, "?wait=checkpointed&timeout=10s", &reservation(&agent, 1.0)).await;
    assert_eq!(waited.status, 202, "{}", waited.text);
    let id = waited.header("holdfast-operation-id").unwrap();
    let record = json(&leader, &format!("/api/v1/operations/{id}")).await.unwrap();
    assert_eq!(record["state"], "OPERATION_FINISHED");
    assert_eq!(record["type"], "RESERVE");

    agent.obey.send_replace(false);
    let waited = call(&leader, "?wait=checkpointed&timeout=50ms", &reservation(&agent, 1.0)).await;
    assert_eq!(waited.status, 504, "{}", waited.text);
    let id = waited.header("holdfast-operation-id").unwrap().to_owned();
    let pending = call(&leader, "", &json!({"type": "GET_OPERATIONS"})).await;
    assert!(pending.text.contains("OPERATION_PENDING"), "{}", pending.text);
    agent.obey.send_replace(true);
    until("it is confirmed", async || {
        let record = json(&leader, &format!("/api/v1/operations/{id}")).await.unwrap();
        record["state"] == "OPERATION_FINISHED"
    })
    .await;

    assert_eq!(call(&leader, "?wait=maybe", &reservation(&agent, 1.0)).await.status, 400);
    assert_eq!(get(&leader, "/api/v1/operations/none").await.unwrap().0, 404);
    let agents = json(&leader, "/api/v1/agents").await.unwrap();
    assert_eq!(agents[0]["id"], agent.id.as_str());
    assert_eq!(agents[0]["connected"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_in_json_only_on_demand() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8").await;
    let ask = |name: &'static str, value: &'static str| {
        let url = format!("http://{leader}/api/v1");
        send(client().post(url).json(&reservation(&agent, 9.0)).header(name, value))
    };
    let text = ask("Accept", JSON).await;
    assert_eq!(text.status, 409);
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    let json = ask("Holdfast-Errors", "json").await;
    assert_eq!((json.status, json.header("content-type")), (409, Some(JSON)));
    let report: Value = serde_json::from_str(&json.text).unwrap();
    assert_eq!(report["code"], "FailedPrecondition");
    assert_eq!(report["agent_id"], agent.id.as_str());
    assert_eq!(report["wanted"], json!(["cpus:9"]));
    assert_eq!(report["blocked_by"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_before_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    std::fs::write(&file, r#"{"credentials":[{"principal":"ops","secret":"s:t"}]}"#).unwrap();
    let flag = format!("--credentials={}", file.display());
    let cluster = Cluster::start(3, 1, &[&flag, "--authenticate-http"]).await;
    let address = &cluster.addresses[0];
    for path in ["/health", "/version"] {
        assert_eq!(get(address, path).await.unwrap().0, 200, "{path}");
    }
    for (path, realm) in [
        ("/slaves", "mesos-master-readonly"),
        ("/api/v1", "mesos-master-readwrite"),
        ("/reserve", "mesos-master-readwrite"),
        ("/api/v1/scheduler", "mesos-master-scheduler"),
    ] {
        let url = format!("http://{address}{path}");
        let none = send(client().get(&url)).await;
        assert_eq!((none.status, none.text.as_str()), (401, "401 Unauthorized."), "{path}");
        let realm = format!("Basic realm=\"{realm}\"");
        assert_eq!(none.header("www-authenticate"), Some(realm.as_str()));
        assert_eq!(send(client().get(&url).basic_auth("ops", Some("s"))).await.status, 401);
        let right = send(client().get(&url).basic_auth("ops", Some("s:t"))).await;
        // Two of three masters are missing, and leadership comes before the method.
        assert_eq!((right.status, right.text.as_str()), (503, "No leader elected"), "{path}");
        assert_eq!(right.header("retry-after"), Some("1"));
    }
}

/// There is no peer whose answer could show a lone master that it still leads.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_master_goes_on_leading_while_nothing_happens() {
    let cluster = Cluster::start(1, 1, &["--heartbeat-interval=20ms", "--election-timeout=50ms"]);
    let cluster = cluster.await;
    let leader = cluster.leader().await;
    let begin = std::time::Instant::now();
    // Ten of the longest election timeouts.
    until("a second of leadership", async || {
        let server = json(&leader, "/api/v1/server").await.unwrap();
        assert_eq!(server["role"], "leader", "after {:?}: {server}", begin.elapsed());
        begin.elapsed().as_secs() >= 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h03_followers_redirect_and_answer_stale_reads() {
    let cluster = Cluster::start(3, 3, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8").await;
    let follower = cluster.addresses.iter().find(|address| **address != leader).unwrap();
    until("the follower knows the leader", async || {
        let server = json(follower, "/api/v1/server").await.unwrap();
        server["leader"]["advertise"] == leader.as_str()
    })
    .await;
    for (path, location) in [
        ("/slaves?slave_id=x", "/master/slaves?slave_id=x"),
        ("/master/reserve", "/master/reserve"),
        ("/api/v1", "/master/api/v1"),
        ("/api/v1/scheduler", "/master/api/v1/scheduler"),
        ("/redirect", ""),
    ] {
        for method in [reqwest::Method::GET, reqwest::Method::POST, reqwest::Method::HEAD] {
            let request = client().request(method.clone(), format!("http://{follower}{path}"));
            let answer = send(request).await;
            assert_eq!((answer.status, answer.text.as_str()), (307, ""), "{method} {path}");
            let expected = format!("//{leader}{location}");
            assert_eq!(answer.header("location"), Some(expected.as_str()));
            assert_eq!(answer.header("content-length"), Some("0"));
        }
    }
    assert_eq!(call(&leader, "", &reservation(&agent, 2.0)).await.status, 202);
    let listed = json!({"type": "GET_AGENTS"});
    until("the follower has applied it", async || {
        let slaves = json(follower, "/slaves?consistency=stale").await.unwrap();
        slaves["slaves"][0]["reserved_resources"]["ads"]["cpus"] == 2.0
    })
    .await;
    assert_eq!(call(follower, "?consistency=stale", &listed).await.status, 200);
    assert_eq!(call(follower, "?consistency=stale", &reservation(&agent, 1.0)).await.status, 307);
    let metrics = json(follower, "/metrics/snapshot").await.unwrap();
    assert_eq!(metrics["master/elected"], 0.0);
    let metrics = json(&leader, "/metrics/snapshot").await.unwrap();
    assert_eq!(metrics["master/elected"], 1.0);
    assert_eq!(metrics["master/cpus_total"], 8.0);
}
