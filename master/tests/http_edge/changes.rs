//! Keys, versions, dry runs and transactions: how a client changes things safely.

use serde_json::{Value, json};

use crate::calls::{Answer, call, reservation, reserved_cpus, send, static_disk, volume};
use crate::support::{Agent, Cluster, client, get, json};

async fn cluster() -> (Cluster, String, Agent) {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:8;disk(ads):1000").await;
    (cluster, leader, agent)
}

async fn with(leader: &str, headers: &[(&str, &str)], path: &str, body: &Value) -> Answer {
    let mut request = client().post(format!("http://{leader}{path}")).json(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(request).await
}

async fn reserved(leader: &str) -> Value {
    let slaves = json(leader, "/slaves").await.unwrap();
    slaves["slaves"][0]["reserved_resources"]["ads"]["cpus"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_under_a_key_gets_the_same_answer_and_does_nothing() {
    let (_cluster, leader, agent) = cluster().await;
    let keyed = |key: &'static str, cpus: f64| {
        let (body, leader) = (reservation(&agent, cpus), leader.clone());
        async move { with(&leader, &[("Idempotency-Key", key)], "/api/v1", &body).await }
    };
    let first = keyed("k", 1.0).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let again = keyed("k", 1.0).await;
    let ids = [&first, &again].map(|answer| answer.header("holdfast-operation-id").unwrap());
    assert_eq!((again.status, ids[0]), (202, ids[1]));
    assert_eq!(first.header("etag"), again.header("etag"));
    assert_eq!(reserved(&leader).await, 1.0);
    let other = keyed("k", 2.0).await;
    assert_eq!(other.status, 422, "{}", other.text);
    // A refusal by the state is an outcome too, and stays one when there would be room.
    assert_eq!(keyed("much", 8.0).await.status, 409);
    let free = json!({"type": "UNRESERVE_RESOURCES", "unreserve_resources":
        {"agent_id": {"value": agent.id.as_str()}, "resources": [reserved_cpus("ads", 1.0)]}});
    assert_eq!(call(&leader, "", &free).await.status, 202);
    assert_eq!(keyed("much", 8.0).await.status, 409);
    assert_eq!(keyed("more", 8.0).await.status, 202);
    // Bad form is no outcome: the key is still free.
    assert_eq!(keyed("form", -1.0).await.status, 400);
    let long = "k".repeat(129);
    let answer = with(&leader, &[("Idempotency-Key", &long)], "/api/v1", &free).await;
    assert_eq!(answer.status, 400, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_has_moved_is_412() {
    let (_cluster, leader, agent) = cluster().await;
    let agents = json(&leader, "/api/v1/agents").await.unwrap();
    let seen = agents[0]["resource_version"].as_u64().unwrap();
    let at = |version: String| {
        let (body, leader) = (reservation(&agent, 1.0), leader.clone());
        async move { with(&leader, &[("If-Match", &version)], "/api/v1", &body).await }
    };
    let first = at(format!("\"{seen}\"")).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let etag = first.header("etag").unwrap().to_owned();
    let stale = at(seen.to_string()).await;
    assert_eq!(stale.status, 412, "{}", stale.text);
    assert_eq!(reserved(&leader).await, 1.0);
    assert_eq!(at(etag).await.status, 202);
    assert_eq!(at("*".to_owned()).await.status, 202);
    assert_eq!(at("W/\"1\"".to_owned()).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let (_cluster, leader, agent) = cluster().await;
    let before = json(&leader, "/api/v1/server").await.unwrap()["last_log"].clone();
    let answer = call(&leader, "?dry_run=true", &reservation(&agent, 1.5)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let run = answer.json();
    assert_eq!((&run["would_be_accepted"], &run["failing"]), (&json!(true), &json!([])));
    let change = &run["changes"][0];
    assert_eq!(change["agent_id"], agent.id.as_str());
    assert_eq!(change["removed"][0]["scalar"]["value"], 1.5);
    assert_eq!(change["added"][0]["role"], "ads");

    let too_much = call(&leader, "?dry_run=true", &reservation(&agent, 9.0)).await.json();
    assert_eq!((&too_much["would_be_accepted"], &too_much["changes"]), (&json!(false), &json!([])));
    let failing = &too_much["failing"][0];
    assert_eq!((&failing["status"], &failing["wanted"]), (&json!(409), &json!(["cpus:9"])));
    assert_eq!(failing["available"], json!(["cpus:8"]));
    assert_eq!(failing.get("index"), None);
    assert_eq!(json(&leader, "/api/v1/server").await.unwrap()["last_log"], before);
    assert_eq!(call(&leader, "?dry_run=maybe", &reservation(&agent, 1.0)).await.status, 400);
}

fn member(agent: &Agent, kind: &str, key: &str, list: &str, resource: &Value) -> Value {
    json!({"agent_id": agent.id.as_str(), "type": kind, key: {list: [resource]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_carried_out_whole() {
    let (_cluster, leader, first) = cluster().await;
    let second = Agent::register(&leader, "a2", "cpus:4").await;
    let body = json!({"operations": [
        member(&first, "RESERVE", "reserve", "resources", &reserved_cpus("ads", 2.0)),
        member(&second, "RESERVE", "reserve", "resources", &reserved_cpus("ads", 3.0)),
        member(&first, "CREATE", "create", "volumes", &volume("ads", "v1", 100.0)),
    ]});
    let dry = with(&leader, &[], "/api/v1/transaction?dry_run=true", &body).await;
    assert_eq!(dry.json()["changes"].as_array().unwrap().len(), 2, "{}", dry.text);
    let query = "?wait=checkpointed&timeout=10s";
    let key = [("Idempotency-Key", "t")];
    let done = with(&leader, &key, &format!("/api/v1/transaction{query}"), &body).await;
    assert_eq!(done.status, 202, "{}", done.text);
    let answer = done.json();
    let id = answer["transaction_id"].as_str().unwrap();
    assert_eq!(done.header("holdfast-transaction-id"), Some(id));
    assert_eq!(answer["operation_ids"].as_array().unwrap().len(), 3);
    assert!(answer["resource_versions"][second.id.as_str()].is_u64(), "{answer}");
    let again = with(&leader, &key, "/api/v1/transaction", &body).await;
    assert_eq!((again.status, again.json()), (202, answer.clone()));

    let record = json(&leader, &format!("/api/v1/transactions/{id}")).await.unwrap();
    assert_eq!(record["state"], "TRANSACTION_FINISHED", "{record}");
    assert_eq!((&record["pending"], &record["failed"]), (&json!(0), &json!([])));
    assert_eq!(record["operation_ids"], answer["operation_ids"]);
    assert_eq!(record["operations"][2]["type"], "CREATE");
    assert_eq!(record["operations"][2]["transaction_id"], id);
    assert_eq!(get(&leader, "/api/v1/transactions/none").await.unwrap().0, 404);
    assert_eq!(get(&leader, "/api/v1/transactions/%00").await.unwrap().0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_cannot_be_whole_leaves_nothing() {
    let (_cluster, leader, agent) = cluster().await;
    let before = json(&leader, "/slaves").await.unwrap();
    let body = json!({"operations": [
        member(&agent, "RESERVE", "reserve", "resources", &reserved_cpus("ads", 5.0)),
        member(&agent, "RESERVE", "reserve", "resources", &reserved_cpus("ads", 5.0)),
    ]});
    let errors = [("Holdfast-Errors", "json")];
    let refused = with(&leader, &errors, "/api/v1/transaction", &body).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let report = refused.json();
    assert_eq!((&report["index"], &report["wanted"]), (&json!(1), &json!(["cpus:5"])));
    assert_eq!(report["available"], json!(["cpus:3"]));
    assert_eq!(report["blocked_by"], json!(["operations[0]"]));
    let wrong = json!({"operations": [
        member(&agent, "RESERVE", "reserve", "resources", &reserved_cpus("ads", 1.0)),
        member(&agent, "CREATE", "create", "volumes", &static_disk("ads", 1.0)),
    ]});
    let refused = with(&leader, &errors, "/api/v1/transaction", &wrong).await;
    assert_eq!((refused.status, &refused.json()["index"]), (400, &json!(1)), "{}", refused.text);
    let stale = json!({"operations": [body["operations"][0]],
        "if_versions": {agent.id.as_str(): 1}});
    assert_eq!(with(&leader, &[], "/api/v1/transaction", &stale).await.status, 412);
    let many = vec![body["operations"][0].clone(); 1025];
    let refused = with(&leader, &[], "/api/v1/transaction", &json!({"operations": many})).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert_eq!(json(&leader, "/slaves").await.unwrap(), before);
    let url = format!("http://{leader}/api/v1/transaction");
    assert_eq!(send(client().get(&url)).await.status, 405);
    let typed = client().post(&url).header("content-type", "application/x-protobuf");
    assert_eq!(send(typed.body("x")).await.status, 415);
}
