//! Answers of the server, without sockets.

use axum::http::Request;
use axum::http::header::ACCEPT;
use tokio::sync::watch;

use super::*;
use crate::driver::Driver;
use crate::recovery::recover;
use crate::tests::rig;

#[test]
fn routing() {
    for (path, expected) in [
        ("/state", "/state"),
        ("/state/", "/state"),
        ("/slave(1)/state", "/state"),
        ("/slave%281%29/api/v1", "/api/v1"),
        ("/api/v1/state", "/api/v1"),
        ("/api/v1/executor", "/api/v1/executor"),
        ("/slave(1)/api/v1/executor", "/api/v1/executor"),
        ("/metrics", "/metrics"),
        ("/slave(1)/metrics/snapshot", "/metrics/snapshot"),
        ("/flags", "/flags"),
        ("/statement", ""),
        ("/slave(1)", ""),
        ("/", ""),
    ] {
        assert_eq!(route(path), expected, "{path}");
    }
}

fn server(driver: Option<Handle>) -> Server {
    let (_sender, driver) = watch::channel(driver);
    Server {
        driver,
        flags: [("k".to_owned(), "v".to_owned())].into(),
        started_at: SystemTime::now(),
    }
}

async fn text(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8_lossy(&body).into_owned())
}

async fn get(server: &Server, path: &str) -> (u16, String) {
    text(answer(server, Request::get(path).body(Body::empty()).unwrap()).await).await
}

async fn post(server: &Server, call: &str) -> (u16, String) {
    let request = Request::post("/slave(1)/api/v1").header(CONTENT_TYPE, "application/json");
    text(answer(server, request.body(Body::from(call.to_owned())).unwrap()).await).await
}

#[tokio::test]
async fn before_recovery() {
    let server = server(None);
    assert_eq!(get(&server, "/health").await, (200, String::new()));
    assert_eq!(get(&server, "/slave(1)/state").await.0, 503);
    assert_eq!(post(&server, "{}").await.0, 503);
    let (status, version) = get(&server, "/version").await;
    assert_eq!(status, 200);
    assert!(version.contains(r#""version":"1.11.0""#), "{version}");
    let version: Value = serde_json::from_str(&version).unwrap();
    assert!(version["build_time"].as_f64().unwrap() > 1.0e9, "{version}");
    assert!(version["build_date"].as_str().unwrap().starts_with("20"), "{version}");
    assert!(version["build_user"].is_string() && version["holdfast_version"].is_string());
    let (status, snapshot) = get(&server, "/metrics/snapshot").await;
    assert_eq!(status, 200);
    assert!(snapshot.contains(r#""slave/registered":0.0"#), "{snapshot}");
    assert!(get(&server, "/metrics").await.1.contains("\nagent_recovering 1\n"));
    let (status, flags) = get(&server, "/slave(1)/flags").await;
    assert_eq!((status, flags.as_str()), (200, r#"{"flags":{"k":"v"}}"#));
    assert_eq!(get(&server, "/nowhere").await.0, 404);
    let (_, wrapped) = get(&server, "/version?jsonp=f").await;
    assert!(wrapped.starts_with("f({") && wrapped.ends_with("});"), "{wrapped}");
}

#[tokio::test]
async fn state_and_calls() {
    let folder = tempfile::tempdir().unwrap();
    let resources = "cpus:4;cpus(ads):2;mem:64;disk:1000;ports:[1-3,7-9]";
    let flags = ["--resources", resources, "--attributes", "rack:a;n:2"];
    let driver =
        Driver::start(recover(&rig::config(folder.path(), &flags)).unwrap(), rig::program())
            .unwrap();
    let mut progress = driver.handle().state();
    progress.wait_for(|state| *state == State::Ready).await.unwrap();
    let server = server(Some(driver.handle()));

    let (status, state) = get(&server, "/slave(1)/state").await;
    assert_eq!(status, 200);
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["resources"]["cpus"], json!(6.0));
    assert_eq!(state["resources"]["gpus"], json!(0.0));
    assert_eq!(state["resources"]["ports"], json!("[1-3, 7-9]"));
    assert_eq!(state["unreserved_resources"]["cpus"], json!(4.0));
    assert_eq!(state["reserved_resources"]["ads"]["cpus"], json!(2.0));
    let full = &state["reserved_resources_full"]["ads"][0];
    assert_eq!(full["role"], json!("ads"));
    assert_eq!(full["reservations"], json!([{"role": "ads", "type": "STATIC"}]));
    assert_eq!(full["scalar"], json!({"value": 2.0}));
    assert_eq!(state["unreserved_resources_full"].as_array().map(Vec::len), Some(4));
    assert_eq!(state["attributes"], json!({"n": 2.0, "rack": "a"}));
    assert_eq!(state["applied_seq"], json!(0));
    assert_eq!(state["unavailable"], json!([]));

    assert_eq!(get(&server, "/api/v1").await.0, 405);
    assert_eq!(post(&server, "{").await.0, 400);
    assert_eq!(post(&server, r#"{"type":"NOTHING"}"#).await.0, 400);
    assert_eq!(post(&server, r#"{"type":"PRUNE_IMAGES"}"#).await.0, 501);
    let (status, health) = post(&server, r#"{"type":"GET_HEALTH"}"#).await;
    assert_eq!(status, 200);
    assert_eq!(health, r#"{"type":"GET_HEALTH","get_health":{"healthy":true}}"#);
    let (status, agent) = post(&server, r#"{"type":"GET_AGENT"}"#).await;
    assert_eq!(status, 200);
    let agent: Value = serde_json::from_str(&agent).unwrap();
    assert_eq!(agent["get_agent"]["agent_info"]["hostname"], json!("127.0.0.1"));
    for call in ["GET_STATE", "GET_OPERATIONS", "GET_FLAGS", "GET_VERSION"] {
        assert_eq!(post(&server, &format!(r#"{{"type":"{call}"}}"#)).await.0, 200, "{call}");
    }
    let request = Request::post("/api/v1").header(CONTENT_TYPE, "text/plain");
    let (status, _) = text(answer(&server, request.body(Body::empty()).unwrap()).await).await;
    assert_eq!(status, 415);
    let request = Request::post("/api/v1").header(CONTENT_TYPE, "application/json");
    let request = request.header(ACCEPT, "text/html").body(Body::from(r#"{"type":"GET_HEALTH"}"#));
    assert_eq!(text(answer(&server, request.unwrap()).await).await.0, 406);
    driver.stop().await;
}

/// Operations of a batch: one done, one failed, and their end not acknowledged.
#[tokio::test]
async fn operations_and_metrics() {
    let mut rig = rig::Rig::new(rig::Kind::Root);
    let batch = vec![rig.reserve(100), rig.create(&[("v1", 64)]), rig.create(&[("v2", 64)])];
    let mut agent = rig.start();
    agent.serve(&[batch]);
    let driver = Driver::start(agent.recovered, rig::program()).unwrap();
    let mut progress = driver.handle().state();
    progress.wait_for(|state| *state == State::Ready).await.unwrap();
    let server = server(Some(driver.handle()));
    let (status, text) = post(&server, r#"{"type":"GET_OPERATIONS"}"#).await;
    assert_eq!(status, 200);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let operations = answer["get_operations"]["operations"].as_array().unwrap();
    let told: Vec<_> = operations
        .iter()
        .map(|operation| {
            let status = &operation["latest_status"];
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&status["operation_id"]["value"]), text(&status["state"]))
        })
        .collect();
    let expected = [("o1", "FINISHED"), ("o2", "FINISHED"), ("o3", "FAILED")]
        .map(|(id, state)| (id.to_owned(), format!("OPERATION_{state}")));
    assert_eq!(told, expected);
    assert_eq!(operations[1]["info"]["type"], json!("CREATE"));
    assert_eq!(operations[1]["agent_id"]["value"], json!("S0"));
    let volume = &operations[1]["info"]["create"]["volumes"][0];
    assert_eq!(volume["disk"]["persistence"]["id"], json!("v1"));
    let reason = operations[2]["latest_status"]["message"].as_str().unwrap();
    assert!(reason.contains("insufficient resources"), "{reason}");

    let (_, snapshot) = get(&server, "/metrics/snapshot").await;
    let snapshot: Value = serde_json::from_str(&snapshot).unwrap();
    for (name, expected) in [
        ("slave/registered", 0.0),
        ("slave/recovery_errors", 0.0),
        ("slave/cpus_total", 4.0),
        ("slave/mem_total", 64.0),
        ("slave/disk_total", 1_000.0),
        ("slave/disk_used", 0.0),
        ("slave/gpus_percent", 0.0),
    ] {
        assert_eq!(snapshot[name], json!(expected), "{name}");
    }
    assert!(snapshot["slave/uptime_secs"].is_f64());
    let (_, text) = get(&server, "/metrics").await;
    for line in [
        "agent_applied_seq 3",
        "agent_orders_unacknowledged 3",
        "agent_resources_total{resource=\"disk\"} 1000",
        "agent_volumes 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let (_, metrics) = post(&server, r#"{"type":"GET_METRICS"}"#).await;
    assert!(metrics.contains("slave/disk_total"), "{metrics}");
    driver.stop().await;
}
