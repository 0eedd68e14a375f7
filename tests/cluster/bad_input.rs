//! Input that must be refused: the status and the class of text, nothing written, no process
//! ended.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{DEADLINE, Dev, operator_call, reserved, volume};

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

struct Case {
    what: &'static str,
    method: Method,
    path: &'static str,
    content_type: Option<&'static str>,
    body: Vec<u8>,
    status: u16,
    part: &'static str,
}

fn v1(what: &'static str, body: impl ToString, status: u16, part: &'static str) -> Case {
    Case {
        what,
        method: Method::POST,
        path: "/api/v1",
        content_type: Some(JSON),
        body: body.to_string().into_bytes(),
        status,
        part,
    }
}

fn cases(agent: &str) -> Vec<Case> {
    let call = |kind: &str, resources: &[Value]| operator_call(agent, kind, resources);
    let reserve = |resource: Value| call("RESERVE_RESOURCES", &[resource]);
    let with = |path: &[&str], value: Value| {
        let mut resource = reserved("cpus", 1.0);
        let (last, parents) = path.split_last().unwrap();
        let mut at = &mut resource["reservations"][0];
        for key in parents {
            at = &mut at[*key];
        }
        at[*last] = value;
        resource
    };
    let mut nameless = reserved("cpus", 1.0);
    nameless.as_object_mut().unwrap().remove("name");
    let stranger = operator_call("nobody-S9", "RESERVE_RESOURCES", &[reserved("cpus", 1.0)]);
    let unreserved = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}});
    let mut bare = volume("v9", 1.0);
    bare.as_object_mut().unwrap().remove("reservations");
    let form = |what, path, body: String, part| Case {
        content_type: Some(FORM),
        path,
        ..v1(what, body, 400, part)
    };
    let mut cases = vec![
        v1("broken JSON", "{\"type\":", 400, "JSON"),
        v1("no object", "[]", 400, ""),
        v1("empty body", "", 400, ""),
        v1("no type", "{}", 400, "Expecting 'type' to be present"),
        v1("unknown type", json!({"type": "MAKE_COFFEE"}), 400, "Expecting 'type'"),
        v1("no member", json!({"type": "RESERVE_RESOURCES"}), 400, "reserve_resources"),
        v1("missing field", reserve(nameless), 400, "name"),
        v1("unknown agent", stranger, 400, "No agent found with specified ID"),
        v1("reserve what is no reservation", reserve(unreserved), 400, "Invalid RESERVE operation"),
        v1("empty list", call("RESERVE_RESOURCES", &[]), 400, ""),
        v1("role *", reserve(with(&["role"], json!("*"))), 400, ""),
        v1("role with a blank", reserve(with(&["role"], json!("a b"))), 400, ""),
        v1("role ..", reserve(with(&["role"], json!(".."))), 400, ""),
        v1("negative", reserve(reserved("cpus", -1.0)), 400, ""),
        v1("too much", reserve(reserved("cpus", 1e6)), 409, ""),
        v1("unreserved volume", call("CREATE_VOLUMES", &[bare]), 400, ""),
        v1("volume on nothing", call("CREATE_VOLUMES", &[volume("v9", 1.0)]), 409, ""),
        v1("volume id with a slash", call("CREATE_VOLUMES", &[volume("a/b", 1.0)]), 400, ""),
        v1("unknown volume", call("DESTROY_VOLUMES", &[volume("v9", 1.0)]), 400, "not found"),
        v1("nothing to give back", call("UNRESERVE_RESOURCES", &[reserved("cpus", 1.0)]), 409, ""),
        form("no agent", "/reserve", "resources=[]".into(), "slaveId"),
        form("no resources", "/master/reserve", format!("slaveId={agent}"), "resources"),
        form("no JSON", "/unreserve", format!("slaveId={agent}&resources=%7B"), ""),
        form("no volumes", "/create-volumes", format!("slaveId={agent}"), "volumes"),
    ];
    let fine = call("RESERVE_RESOURCES", &[reserved("cpus", 1.0)]);
    cases.extend([
        Case { content_type: Some("text/plain"), ..v1("content type", &fine, 415, "Content-Type") },
        Case { content_type: None, ..v1("no content type", &fine, 400, "Content-Type") },
        Case { method: Method::PUT, ..v1("method", &fine, 405, "405 Method Not Allowed") },
        Case { path: "/no/such/path", ..v1("path", &fine, 404, "") },
        Case { body: vec![b' '; (8 << 20) + 1], ..v1("8 MiB and a byte", "", 413, "") },
        Case {
            content_type: Some("application/x-protobuf"),
            ..v1("no protobuf", "\u{7f}\u{7f}\u{7f}", 400, "")
        },
    ]);
    cases
}

/// The answer of a master that serves: 503 says nothing about the request, so it is made again.
async fn answer(request: &reqwest::RequestBuilder) -> (u16, String) {
    chaos::wait::until("an answer", DEADLINE, async || {
        let request = request.try_clone().expect("the body is in memory");
        let response = request.send().await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| error.to_string())?;
        if status == 503 { Err(text) } else { Ok((status, text)) }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let dev = Dev::start(1, 1);
    let address = dev.leader_address().await;
    let agent = dev.agent_id(0).await;
    let http = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build().unwrap();
    let before = dev.slave(0).await;
    let mut wrong = Vec::new();
    for case in cases(&agent) {
        let mut request =
            http.request(case.method, format!("http://{address}{}", case.path)).body(case.body);
        if let Some(content_type) = case.content_type {
            request = request.header("content-type", content_type);
        }
        let (status, text) = answer(&request).await;
        if status != case.status || !text.contains(case.part) {
            wrong.push(format!(
                "{}: {status} '{text}', expected {} with '{}'",
                case.what, case.status, case.part
            ));
        }
    }
    let request = http.post(format!("http://{address}/api/v1"));
    let request = request.header("content-type", JSON).header("accept", "text/html");
    let (status, text) = answer(&request.body(r#"{"type":"GET_HEALTH"}"#)).await;
    assert_eq!(status, 406, "{text}");

    assert!(wrong.is_empty(), "{wrong:#?}");
    let after = dev.slave(0).await;
    assert_eq!(after["resources"], before["resources"]);
    assert_eq!(after["reserved_resources_full"], before["reserved_resources_full"]);
    assert_eq!(after["resource_version"], before["resource_version"]);
    for member in dev.cluster.members() {
        assert!(dev.cluster.is_alive(member), "{}", dev.cluster.name(member));
    }
    dev.assert_no_errors();
}
