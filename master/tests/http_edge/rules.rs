//! Quota and weights as operators' clients see them: both forms of the calls, their codes, who
//! may make them, and who sees what of them.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::calls::{Answer, call, send};
use crate::support::{Agent, Cluster, client, json};

/// `ops` may change what is of `ads`, `viewer` may see it.
const ACLS: &str = r#"{
    "update_quotas": [
        {"principals": {"values": ["ops"]}, "roles": {"values": ["ads"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "get_quotas": [
        {"principals": {"values": ["viewer"]}, "roles": {"values": ["ads"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "update_weights": [
        {"principals": {"values": ["ops"]}, "roles": {"values": ["ads"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "view_roles": [
        {"principals": {"values": ["viewer"]}, "roles": {"values": ["ads"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}]}"#;

fn update(role: &str, guarantees: &Value, limits: &Value) -> Value {
    let config = json!({"role": role, "guarantees": guarantees, "limits": limits});
    json!({"type": "UPDATE_QUOTA", "update_quota": {"quota_configs": [config]}})
}

fn cpus(amount: f64) -> Value {
    json!({"cpus": {"value": amount}})
}

fn request(address: &str, method: Method, path: &str) -> RequestBuilder {
    client().request(method, format!("http://{address}{path}"))
}

async fn quotas(address: &str) -> Value {
    call(address, "", &json!({"type": "GET_QUOTA"})).await.json()["get_quota"]["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_in_both_forms() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let agent = Agent::register(&leader, "a1", "cpus:4;mem:512;cpus(ads):1").await;
    assert_eq!(json(&leader, "/quota").await.unwrap(), json!({}));

    let answer = call(&leader, "", &update("ads", &cpus(1.0), &cpus(2.5))).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, ""));
    assert_eq!(answer.header("content-type"), None);
    let scalar = |value: f64| json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": value}});
    let expected = json!({
        "infos": [{"role": "ads", "guarantee": [scalar(1.0)]}],
        "configs": [{"role": "ads", "guarantees": cpus(1.0), "limits": cpus(2.5)}]});
    assert_eq!(quotas(&leader).await, expected);
    assert_eq!(json(&leader, "/master/quota").await.unwrap(), expected);
    let roles = json(&leader, "/roles").await.unwrap();
    let quota = json!({"role": "ads", "guarantee": {"cpus": 1.0}, "limit": {"cpus": 2.5},
        "consumed": {"cpus": 1.0}});
    assert_eq!(roles["roles"][0]["quota"], quota);
    let metrics = json(&leader, "/metrics/snapshot").await.unwrap();
    let prefix = "allocator/mesos/quota/roles/ads/resources/cpus";
    for (name, value) in
        [("guarantee", 1.0), ("limit", 2.5), ("consumed", 1.0), ("offered_or_allocated", 1.0)]
    {
        assert_eq!(metrics[format!("{prefix}/{name}")], value, "{name}");
    }

    // The old form: the guarantee is the limit, only where there is none, and 409 is its answer
    // when there is not enough.
    let set = |role: &str, amount: f64| {
        let body = json!({"role": role, "guarantee": [scalar(amount)]});
        request(&leader, Method::POST, "/quota").body(body.to_string())
    };
    assert_eq!(send(set("ads", 1.0)).await.status, 400);
    let refused = send(set("web", 4.5)).await;
    assert_eq!(refused.status, 409);
    assert!(
        refused.text.contains("cpus:5.5") && refused.text.contains("there is 5"),
        "{refused:?}"
    );
    assert_eq!(send(set("web", 2.0)).await.status, 200);
    assert_eq!(quotas(&leader).await["configs"][1]["limits"], cpus(2.0));
    let remove = |role: &str| request(&leader, Method::DELETE, &format!("/quota/{role}"));
    assert_eq!(send(remove("web")).await.status, 200);
    assert_eq!(send(remove("web")).await.status, 400);
    let remove = json!({"type": "REMOVE_QUOTA", "remove_quota": {"role": "web"}});
    assert_eq!(call(&leader, "", &remove).await.status, 400);
    assert_eq!(send(request(&leader, Method::PUT, "/quota")).await.status, 405);

    // An empty quota is none.
    assert_eq!(call(&leader, "", &update("ads", &json!({}), &json!({}))).await.status, 200);
    assert_eq!(quotas(&leader).await, json!({}));
    drop(agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_quotas_are_refused_in_order() {
    let cluster = Cluster::start(1, 1, &["--roles=ads,web"]).await;
    let leader = cluster.leader().await;
    let _agent = Agent::register(&leader, "a1", "cpus:4;mem:512;cpus(ads):1").await;
    let none = json!({});
    for (call_of, expected) in [
        (update("db", &none, &cpus(1.0)), "Unknown role 'db'"),
        (update("web", &cpus(3.0), &cpus(2.0)), "the guarantee cpus:3 exceeds the limit 2"),
        (update("web", &json!({"cpus": {"value": -1}}), &none), "'guarantees' of 'cpus' is -1"),
        (update("web", &json!({"cpus": {"value": "NaN"}}), &none), ""),
        (update("web", &json!({"cpus": {"value": "Infinity"}}), &none), "is inf"),
        (update("web", &json!({"cpus": {"value": f64::MAX}}), &none), ""),
        (update("web", &none, &json!({"disk": {"value": 1_099_511_627_777_u64}})), "is more than"),
        (update("ads", &none, &cpus(0.5)), "consumes cpus:1 already, the limit would be 0.5"),
        (update("ads", &cpus(5.5), &none), "all guarantees would come to cpus:5.5, there is 5"),
        (json!({"type": "UPDATE_QUOTA"}), "Expecting 'update_quota' to be present"),
    ] {
        let answer = call(&leader, "", &call_of).await;
        assert_eq!(answer.status, 400, "{call_of}");
        assert!(answer.text.contains(expected), "{call_of}: {}", answer.text);
    }
    assert_eq!(quotas(&leader).await, json!({}));

    // By force it does not count what is there; a dry run says it and does nothing.
    let mut forced = update("ads", &cpus(5.5), &json!({"mem": {"value": 0}}));
    forced["update_quota"]["force"] = json!(true);
    let dry = call(&leader, "?dry_run=true", &forced).await.json();
    assert_eq!((&dry["would_be_accepted"], &dry["failing"]), (&json!(true), &json!([])));
    assert_eq!(quotas(&leader).await, json!({}));
    let dry = call(&leader, "?dry_run=true", &update("ads", &none, &cpus(0.5))).await.json();
    assert_eq!(dry["failing"][0]["available"], json!(["consumed cpus:1"]), "{dry}");
    assert_eq!(call(&leader, "", &forced).await.status, 200);
    let metrics = json(&leader, "/metrics/snapshot").await.unwrap();
    assert_eq!(metrics["allocator/mesos/quota/roles/ads/resources/mem/limit"], 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_rules() {
    let cluster = Cluster::start(1, 1, &[]).await;
    let leader = cluster.leader().await;
    let keyed = async |key: &str, call: &Value| -> Answer {
        let request = request(&leader, Method::POST, "/api/v1").json(call);
        send(request.header("Idempotency-Key", key)).await
    };
    let weights = |weight: f64| {
        let infos = json!([{"role": "ads", "weight": weight}]);
        json!({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": infos}})
    };
    assert_eq!(keyed("k1", &weights(2.0)).await.status, 200);
    assert_eq!(call(&leader, "", &weights(3.0)).await.status, 200);
    // The repeat is answered, and does not set it back.
    assert_eq!(keyed("k1", &weights(2.0)).await.status, 200);
    assert_eq!(json(&leader, "/weights").await.unwrap(), json!([{"role": "ads", "weight": 3.0}]));
    assert_eq!(keyed("k1", &weights(4.0)).await.status, 422);
    let conditional = request(&leader, Method::POST, "/api/v1").json(&weights(1.0));
    assert_eq!(send(conditional.header("If-Match", "\"3\"")).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_are_printed_as_they_were_given() {
    let cluster = Cluster::start(1, 1, &["--weights=ads=2.5,web=1"]).await;
    let leader = cluster.leader().await;
    let first = json!([{"role": "ads", "weight": 2.5}, {"role": "web", "weight": 1.0}]);
    assert_eq!(json(&leader, "/weights").await.unwrap(), first);
    let put = |body: &str| request(&leader, Method::PUT, "/weights").body(body.to_owned());
    let good = r#"[{"role":"ads/eu","weight":0.0000015},{"role":"*","weight":3.2}]"#;
    let answer = send(put(good)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, None));
    for bad in ["", "{}", "[]", "[1]", r#"[{"role":"a//b","weight":1}]"#, r#"[{"weight":1}]"#] {
        assert_eq!(send(put(bad)).await.status, 400, "{bad}");
    }
    assert_eq!(send(request(&leader, Method::POST, "/weights")).await.status, 405);
    let answer = call(&leader, "", &json!({"type": "GET_WEIGHTS"})).await.json();
    let infos = answer["get_weights"]["weight_infos"].as_array().unwrap();
    assert_eq!(infos.len(), 4);
    assert_eq!(infos[0], json!({"role": "*", "weight": 3.2}));
    assert_eq!(infos[2], json!({"role": "ads/eu", "weight": 0.0000015}));
    let roles = call(&leader, "", &json!({"type": "GET_ROLES"})).await.json();
    let roles = roles["get_roles"]["roles"].as_array().unwrap();
    let weights: Vec<(&str, f64)> = roles
        .iter()
        .map(|role| (role["name"].as_str().unwrap(), role["weight"].as_f64().unwrap()))
        .collect();
    assert_eq!(weights, [("*", 3.2), ("ads", 2.5), ("ads/eu", 0.0000015), ("web", 1.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_for_who_may_set_and_see_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let entries = ["ops", "other", "viewer"].map(|name| json!({"principal": name, "secret": name}));
    std::fs::write(&file, json!({"credentials": entries}).to_string()).unwrap();
    let credentials = format!("--credentials={}", file.display());
    let acls = format!("--acls={ACLS}");
    let flags = [credentials.as_str(), acls.as_str(), "--authenticate-http-readwrite"];
    let cluster = Cluster::start(1, 1, &flags).await;
    let leader = cluster.leader().await;
    let by = async |name: &str, query: &str, call: &Value| -> Answer {
        let request = request(&leader, Method::POST, &format!("/api/v1{query}")).json(call);
        send(request.basic_auth(name, Some(name))).await
    };
    let limit = |role: &str| update(role, &json!({}), &cpus(1.0));
    let weigh = |role: &str| {
        let infos = json!([{"role": role, "weight": 2}]);
        json!({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": infos}})
    };
    for rule in [limit, weigh] {
        assert_eq!(call(&leader, "", &rule("ads")).await.status, 401);
        for query in ["", "?dry_run=true"] {
            assert_eq!(by("other", query, &rule("ads")).await.status, 403);
            assert_eq!(by("ops", query, &rule("web")).await.status, 403);
        }
        assert_eq!(by("ops", "", &rule("ads")).await.status, 200);
    }
    let remove = request(&leader, Method::DELETE, "/quota/ads").basic_auth("other", Some("other"));
    assert_eq!(send(remove).await.status, 403);
    for (name, count) in [("viewer", 1), ("ops", 0)] {
        let read = |path: &str| request(&leader, Method::GET, path).basic_auth(name, Some(name));
        let quotas = send(read("/quota")).await.json();
        assert_eq!(quotas["configs"].as_array().map_or(0, Vec::len), count, "{name}");
        let weights = send(read("/weights")).await.json();
        assert_eq!(weights.as_array().unwrap().len(), count, "{name}");
    }
}
