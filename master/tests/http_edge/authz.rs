//! Who may do what: every mutating call by every way, the stored creator, and reads.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::calls::{Answer, form_body, reserved_cpus, send, static_disk, volume};
use crate::support::{Agent, Cluster, client, get, json};

/// `ops` may do everything for `ads`, `other` everything for `web`, nobody else anything.
const ACLS: &str = r#"{
    "register_agents": [{"principals": {"values": ["agent"]}, "agents": {"type": "ANY"}}],
    "reserve_resources": [
        {"principals": {"values": ["agent"]}, "roles": {"type": "ANY"}},
        {"principals": {"values": ["ops"]}, "roles": {"values": ["ads"]}},
        {"principals": {"values": ["other"]}, "roles": {"values": ["web"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "unreserve_resources": [
        {"principals": {"values": ["ops"]}, "reserver_principals": {"values": ["ops"]}},
        {"principals": {"values": ["other"]}, "reserver_principals": {"values": ["other"]}},
        {"principals": {"type": "ANY"}, "reserver_principals": {"type": "NONE"}}],
    "create_volumes": [
        {"principals": {"values": ["ops"]}, "roles": {"values": ["ads"]}},
        {"principals": {"values": ["other"]}, "roles": {"values": ["web"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "destroy_volumes": [
        {"principals": {"values": ["ops"]}, "creator_principals": {"values": ["ops"]}},
        {"principals": {"values": ["other"]}, "creator_principals": {"values": ["other"]}},
        {"principals": {"type": "ANY"}, "creator_principals": {"type": "NONE"}}],
    "resize_volumes": [
        {"principals": {"values": ["ops"]}, "roles": {"values": ["ads"]}},
        {"principals": {"values": ["other"]}, "roles": {"values": ["web"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "view_roles": [
        {"principals": {"values": ["ops"]}, "roles": {"type": "ANY"}},
        {"principals": {"values": ["denied"]}, "roles": {"values": ["web"]}},
        {"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}],
    "view_flags": [
        {"principals": {"values": ["ops"]}, "flags": {"type": "ANY"}},
        {"principals": {"type": "ANY"}, "flags": {"type": "NONE"}}],
    "get_endpoints": [{"principals": {"type": "ANY"}, "paths": {"type": "NONE"}}]}"#;

/// A cluster whose mutating calls ask for credentials; reads are nobody's.
async fn guarded() -> (Cluster, String, Agent) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("credentials");
    let entries =
        ["ops", "other", "denied", "agent"].map(|name| json!({"principal": name, "secret": name}));
    std::fs::write(&file, json!({"credentials": entries}).to_string()).unwrap();
    let credentials = format!("--credentials={}", file.display());
    let acls = format!("--acls={ACLS}");
    let flags = [credentials.as_str(), acls.as_str(), "--authenticate-http-readwrite"];
    let cluster = Cluster::start(1, 1, &flags).await;
    let leader = cluster.leader().await;
    let resources = "cpus:8;disk(ads):1000;disk(web):1000";
    let agent = Agent::register_as(&leader, Some(("agent", "agent")), "a1", resources).await;
    (cluster, leader, agent)
}

/// As in Mesos, an agent with static reservations needs the permission for each of their roles,
/// and for `*` when some of its resources are unreserved: `ops` has the one for `ads` alone.
/// Nothing of a refused registration is on record.
#[tokio::test(flavor = "multi_thread")]
async fn agents_need_permissions_to_register() {
    let (_cluster, leader, _agent) = guarded().await;
    for (principal, resources, is_admitted) in [
        ("ops", "cpus:1", true),
        ("ops", "cpus(ads):1", true),
        ("ops", "cpus(ads):1;mem:1", false),
        ("denied", "cpus(ads):1", false),
    ] {
        let name = format!("{principal}-{}", resources.len());
        let credential = Some((principal, principal));
        let registered = Agent::try_register_as(&leader, credential, &name, resources).await;
        let refusal = registered.err().map(|status| status.code());
        let expected = (!is_admitted).then_some(tonic::Code::PermissionDenied);
        assert_eq!(refusal, expected, "{principal} {resources}");
    }
    let agents = json(&leader, "/api/v1/agents").await.unwrap();
    assert_eq!(agents.as_array().unwrap().len(), 3);
}

/// One operation as `Offer.Operation`.
fn operation(kind: &str) -> Value {
    match kind {
        "RESERVE" => {
            json!({"type": kind, "reserve": {"resources": [reserved_cpus("ads", 1.0)]}})
        }
        "UNRESERVE" => {
            json!({"type": kind, "unreserve": {"resources": [reserved_cpus("ads", 1.0)]}})
        }
        "CREATE" => json!({"type": kind, "create": {"volumes": [volume("ads", "v1", 100.0)]}}),
        "DESTROY" => json!({"type": kind, "destroy": {"volumes": [volume("ads", "v1", 100.0)]}}),
        "GROW_VOLUME" => json!({"type": kind, "grow_volume":
            {"volume": volume("ads", "v1", 100.0), "addition": static_disk("ads", 50.0)}}),
        "SHRINK_VOLUME" => json!({"type": kind, "shrink_volume":
            {"volume": volume("ads", "v1", 150.0), "subtract": {"value": 50.0}}}),
        other => panic!("{other}"),
    }
}

/// The same by every way in: `/api/v1`, the unversioned endpoint, a transaction, a dry run, and
/// under a key.
fn ways(leader: &str, agent_id: &str, operation: &Value) -> Vec<(&'static str, RequestBuilder)> {
    let kind = operation["type"].as_str().unwrap();
    let (call, member, endpoint) = match kind {
        "RESERVE" => ("RESERVE_RESOURCES", "reserve", Some(("reserve", "resources"))),
        "UNRESERVE" => ("UNRESERVE_RESOURCES", "unreserve", Some(("unreserve", "resources"))),
        "CREATE" => ("CREATE_VOLUMES", "create", Some(("create-volumes", "volumes"))),
        "DESTROY" => ("DESTROY_VOLUMES", "destroy", Some(("destroy-volumes", "volumes"))),
        "GROW_VOLUME" => ("GROW_VOLUME", "grow_volume", None),
        "SHRINK_VOLUME" => ("SHRINK_VOLUME", "shrink_volume", None),
        other => panic!("{other}"),
    };
    let mut asked = operation[member].clone();
    asked["agent_id"] = json!({"value": agent_id});
    let v1 = json!({"type": call, call.to_lowercase(): asked});
    let mut first = operation.clone();
    first["agent_id"] = json!(agent_id);
    let transaction = json!({"operations": [first]});
    let post = |path: &str| client().post(format!("http://{leader}{path}"));
    let mut ways = vec![
        ("dry run", post("/api/v1?dry_run=true").json(&v1)),
        ("transaction, dry run", post("/api/v1/transaction?dry_run=true").json(&transaction)),
        ("key", post("/api/v1").json(&v1).header("Idempotency-Key", "k")),
        ("transaction", post("/api/v1/transaction").json(&transaction)),
    ];
    if let Some((path, field)) = endpoint {
        let list = operation[member][field].to_string();
        let body = form_body(&[("slaveId", agent_id), (field, list.as_str())]);
        ways.push(("endpoint", post(&format!("/{path}")).body(body)));
    }
    // Once the agent has confirmed it no further entry comes.
    ways.push(("v1", post("/api/v1?wait=checkpointed").json(&v1)));
    ways
}

async fn state(leader: &str, agent: &Agent) -> (Value, Value) {
    let server = json(leader, "/api/v1/server").await.unwrap();
    let call = json!({"type": "GET_AGENTS"});
    let request = client().post(format!("http://{leader}/api/v1")).json(&call);
    let agents = send(request.basic_auth("ops", Some("ops"))).await.json();
    assert!(agents.to_string().contains(agent.id.as_str()), "{agents}");
    (agents, server["last_log"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn z01_every_operation_is_checked_by_every_way_and_denial_leaves_no_trace() {
    let (_cluster, leader, agent) = guarded().await;
    let id = agent.id.as_str();
    for kind in ["RESERVE", "UNRESERVE", "CREATE", "GROW_VOLUME", "SHRINK_VOLUME", "DESTROY"] {
        let operation = operation(kind);
        let before = state(&leader, &agent).await;
        for principal in ["denied", "other"] {
            // The caller must be named by what it reserves or creates: that is a rule of form.
            let theirs = operation.to_string().replace("\"ops\"", &format!("\"{principal}\""));
            let mine: Value = match kind {
                "RESERVE" | "CREATE" => serde_json::from_str(&theirs).unwrap(),
                _ => operation.clone(),
            };
            for (way, request) in ways(&leader, id, &mine) {
                let answer = send(request.basic_auth(principal, Some(principal))).await;
                assert_eq!(answer.status, 403, "{kind} {principal} {way}: {}", answer.text);
                assert!(answer.text.contains("may not"), "{}", answer.text);
            }
        }
        for (way, request) in ways(&leader, id, &operation) {
            assert_eq!(send(request).await.status, 401, "{kind} nobody {way}");
        }
        assert_eq!(state(&leader, &agent).await, before, "{kind} left a trace");
        let (_, v1) = ways(&leader, id, &operation).pop().unwrap();
        let allowed = send(v1.basic_auth("ops", Some("ops"))).await;
        assert_eq!(allowed.status, 202, "{kind}: {}", allowed.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creator_is_who_created_it_not_whom_the_request_names() {
    let (_cluster, leader, agent) = guarded().await;
    let id = agent.id.as_str();
    let by = |principal: &'static str, operation: &Value| {
        let (_, v1) = ways(&leader, id, operation).pop().unwrap();
        send(v1.basic_auth(principal, Some(principal)))
    };
    assert_eq!(by("ops", &operation("CREATE")).await.status, 202);
    let claimed = operation("DESTROY").to_string().replace("\"ops\"", "\"other\"");
    let claimed: Value = serde_json::from_str(&claimed).unwrap();
    let denied = by("other", &claimed).await;
    assert_eq!(denied.status, 403, "{}", denied.text);
    assert!(!denied.text.contains("ops"), "a creator is not for everybody: {}", denied.text);
    assert_eq!(by("ops", &claimed).await.status, 202, "a claim harms nobody who may");
    let gone = by("other", &claimed).await;
    assert_eq!(gone.status, 400, "what is not there is not found: {}", gone.text);
}

/// The place of the operation that is not permitted stands in the answer.
#[tokio::test(flavor = "multi_thread")]
async fn one_forbidden_operation_forbids_its_transaction() {
    let (_cluster, leader, agent) = guarded().await;
    let mut operations = vec![operation("RESERVE"), operation("CREATE")];
    operations.push(json!({"type": "CREATE",
        "create": {"volumes": [volume("web", "v2", 10.0)]}}));
    for operation in &mut operations {
        operation["agent_id"] = json!(agent.id.as_str());
    }
    let before = state(&leader, &agent).await;
    let request = client()
        .post(format!("http://{leader}/api/v1/transaction"))
        .json(&json!({"operations": operations}))
        .header("Holdfast-Errors", "json")
        .basic_auth("ops", Some("ops"));
    let answer = send(request).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    let report = answer.json();
    assert_eq!((&report["code"], &report["index"]), (&json!("PermissionDenied"), &json!(2)));
    assert_eq!(state(&leader, &agent).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn z03_secrets_of_unseen_roles_leak_nowhere() {
    let (_cluster, leader, agent) = guarded().await;
    let secret =
        json!({"type": "CREATE", "create": {"volumes": [volume("ads", "topsecret", 77.0)]}});
    let (_, v1) = ways(&leader, agent.id.as_str(), &secret).pop().unwrap();
    let accepted = send(v1.basic_auth("ops", Some("ops"))).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let operation_id = accepted.header("holdfast-operation-id").unwrap().to_owned();
    let hidden = |what: &str, text: &str| {
        for word in ["topsecret", "\"ads\"", "(ads)"] {
            assert!(!text.contains(word), "{what} tells {word}: {text}");
        }
    };
    for path in [
        "/slaves",
        "/state",
        "/roles",
        "/api/v1/agents",
        "/api/v1/operations",
        "/api/v1/reservations",
        "/api/v1/volumes",
    ] {
        let (status, text) = get(&leader, path).await.unwrap();
        assert_eq!(status, 200, "{path}: {text}");
        hidden(path, &text);
    }
    let one = get(&leader, &format!("/api/v1/operations/{operation_id}")).await.unwrap();
    assert_eq!(one.0, 404);
    hidden("the operation", &one.1);
    for kind in ["GET_AGENTS", "GET_STATE", "GET_OPERATIONS", "GET_ROLES", "GET_VERSION"] {
        let ask = |principal: &'static str| {
            let request = client().post(format!("http://{leader}/api/v1"));
            send(request.json(&json!({"type": kind})).basic_auth(principal, Some(principal)))
        };
        let answer = ask("denied").await;
        assert_eq!(answer.status, 200);
        hidden(kind, &answer.text);
        let whole = ask("ops").await;
        let is_secret = ["GET_AGENTS", "GET_STATE", "GET_ROLES"].contains(&kind);
        assert!(!is_secret || whole.text.contains("\"ads\""), "{kind}: {}", whole.text);
    }
    // Somebody may see one role and not the other; sums stay whole.
    let slaves = json(&leader, "/slaves").await.unwrap();
    assert_eq!(slaves["slaves"][0]["resources"]["disk"], 2000.0);
}

/// Refusals tell nothing of it either.
async fn refused(leader: &str, principal: &'static str, body: &Value) -> Answer {
    let request = client().post(format!("http://{leader}/api/v1")).json(body);
    send(request.basic_auth(principal, Some(principal))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_and_metrics_are_for_whom_the_lists_name() {
    let (_cluster, leader, _agent) = guarded().await;
    for path in ["/flags", "/metrics", "/metrics/snapshot"] {
        let (status, text) = get(&leader, path).await.unwrap();
        assert_eq!(status, 403, "{path}");
        assert!(text.starts_with("403 Forbidden"), "{text}");
    }
    let state = json(&leader, "/state").await.unwrap();
    assert!(state.get("flags").is_none());
    let flags = json!({"type": "GET_FLAGS"});
    assert_eq!(refused(&leader, "denied", &flags).await.status, 403);
    let shown = refused(&leader, "ops", &flags).await;
    assert!(shown.text.contains("register_agents"), "{}", shown.text);
    // Mesos does not guard this one.
    assert_eq!(refused(&leader, "denied", &json!({"type": "GET_METRICS"})).await.status, 200);
}
