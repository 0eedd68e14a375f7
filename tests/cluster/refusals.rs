//! U02: refusals help. Whatever the reason, the JSON form names the object, what was wanted, what
//! is available and what stands in the way, with a next step; the plain text is Mesos' class.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Dev, operator_call, reserved, volume};

struct Refusal {
    what: &'static str,
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: Value,
    status: u16,
}

fn refusal(what: &'static str, status: u16, body: Value) -> Refusal {
    Refusal { what, path: "/api/v1", headers: Vec::new(), body, status }
}

fn changed(mut resource: Value, pointer: &str, value: Value) -> Value {
    *resource.pointer_mut(pointer).unwrap() = value;
    resource
}

/// Of wrong form: nothing of the state is needed to see it.
fn of_form(agent: &str) -> Vec<Refusal> {
    let reserve = |resource| operator_call(agent, "RESERVE_RESOURCES", &[resource]);
    let create = |volume| operator_call(agent, "CREATE_VOLUMES", &[volume]);
    let cpus = || reserved("cpus", 1.0);
    let role = "/reservations/0/role";
    let path = "/disk/volume/container_path";
    let unreserved = json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": 1}});
    vec![
        refusal("no such call", 400, json!({"type": "MAKE_COFFEE"})),
        refusal("no member", 400, json!({"type": "RESERVE_RESOURCES"})),
        refusal("empty list", 400, operator_call(agent, "RESERVE_RESOURCES", &[])),
        refusal("negative", 400, reserve(reserved("cpus", -1.0))),
        refusal("rounds to nothing", 400, reserve(reserved("cpus", 0.0001))),
        refusal("no number can hold it", 400, reserve(reserved("cpus", 1e300))),
        refusal("role *", 400, reserve(changed(cpus(), role, json!("*")))),
        refusal("role ..", 400, reserve(changed(cpus(), role, json!("..")))),
        refusal("unreserved", 400, reserve(unreserved)),
        refusal("reserve a volume", 400, reserve(volume("v1", 1.0))),
        refusal("id with a slash", 400, create(volume("a/b", 1.0))),
        refusal("id of dots", 400, create(volume("..", 1.0))),
        refusal("absolute path", 400, create(changed(volume("v9", 1.0), path, json!("/x")))),
        refusal("path upwards", 400, create(changed(volume("v9", 1.0), path, json!("..")))),
        refusal(
            "id twice",
            400,
            operator_call(agent, "CREATE_VOLUMES", &[volume("v9", 1.0), volume("v9", 2.0)]),
        ),
        Refusal {
            headers: vec![("idempotency-key", "")],
            ..refusal("an empty key", 400, reserve(cpus()))
        },
        Refusal {
            headers: vec![("if-match", "soon")],
            ..refusal("no version", 400, reserve(cpus()))
        },
        Refusal { path: "/api/v1?wait=maybe", ..refusal("no such wait", 400, reserve(cpus())) },
        Refusal { path: "/api/v1?dry_run=maybe", ..refusal("no such run", 400, reserve(cpus())) },
        Refusal { path: "/api/v1/transaction", ..refusal("no operations", 400, json!({})) },
        Refusal { path: "/no/such/path", ..refusal("no such path", 404, json!({})) },
    ]
}

/// By the state: an agent with a volume v1 of 64 MB, and 64 MB of reserved disk beside it.
fn by_state(agent: &str) -> Vec<Refusal> {
    let call = |kind: &str, resources: &[Value]| operator_call(agent, kind, resources);
    let disk = |amount| reserved("disk", amount);
    let resize = |kind: &str, member: &str, size: f64, part: Value| {
        let mut body = json!({"agent_id": {"value": agent}, "volume": volume("v1", size)});
        body[member] = part;
        json!({"type": kind, kind.to_lowercase(): body})
    };
    let grow = |size, by| resize("GROW_VOLUME", "addition", size, disk(by));
    let shrink = |size, by: f64| resize("SHRINK_VOLUME", "subtract", size, json!({"value": by}));
    let member = json!({"agent_id": agent, "type": "RESERVE",
                        "reserve": {"resources": [reserved("cpus", 1e6)]}});
    let fine = call("RESERVE_RESOURCES", &[reserved("cpus", 1.0)]);
    vec![
        refusal("too much", 409, call("RESERVE_RESOURCES", &[reserved("cpus", 1e6)])),
        refusal("not reserved", 409, call("UNRESERVE_RESOURCES", &[reserved("cpus", 1.0)])),
        refusal("under a volume", 409, call("UNRESERVE_RESOURCES", &[disk(128.0)])),
        refusal("no such disk", 409, call("CREATE_VOLUMES", &[volume("v9", 1e6)])),
        refusal("id in use", 400, call("CREATE_VOLUMES", &[volume("v1", 1.0)])),
        refusal("no such volume", 400, call("DESTROY_VOLUMES", &[volume("v9", 1.0)])),
        refusal("grow by too much", 409, grow(64.0, 1e6)),
        refusal("grow another size", 409, grow(63.0, 1.0)),
        refusal("shrink by too much", 400, shrink(64.0, 64.0)),
        refusal("shrink another size", 409, shrink(63.0, 1.0)),
        Refusal { headers: vec![("if-match", "999999")], ..refusal("moved", 412, fine) },
        Refusal {
            path: "/api/v1/transaction",
            ..refusal("a member", 409, json!({"operations": [member]}))
        },
    ]
}

#[tokio::test]
async fn u02_every_refusal_names_what_helps() {
    let dev = Dev::start(1, 1);
    let agent = dev.agent_id(0).await;
    dev.call(0, "RESERVE_RESOURCES", &[reserved("disk", 128.0)]).await.expect("disk", 202, "");
    dev.call(0, "CREATE_VOLUMES", &[volume("v1", 64.0)]).await.expect("volume", 202, "");
    let unknown = operator_call("nobody-S9", "RESERVE_RESOURCES", &[reserved("cpus", 1.0)]);
    let unknown = refusal("an unknown agent", 400, unknown);
    let (of_form, by_state) = (of_form(&agent), by_state(&agent));
    assert!(of_form.len() + by_state.len() >= 30);
    let index = dev.last_log().await;
    let mut wrong = Vec::new();
    for (is_by_state, refusal) in of_form
        .into_iter()
        .chain([unknown])
        .map(|refusal| (false, refusal))
        .chain(by_state.into_iter().map(|refusal| (true, refusal)))
    {
        if let Err(reason) = check(&dev, &agent, is_by_state, &refusal).await {
            wrong.push(format!("{}: {reason}", refusal.what));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(dev.last_log().await, index, "a refusal is no log entry");
    dev.assert_no_errors();
}

async fn check(dev: &Dev, agent: &str, is_by_state: bool, refusal: &Refusal) -> Result<(), String> {
    let body = refusal.body.to_string();
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(&refusal.headers);
    let plain = dev.ask(Method::POST, refusal.path, &headers, &body).await;
    headers.push(("holdfast-errors", "json"));
    let answer = dev.ask(Method::POST, refusal.path, &headers, &body).await;
    let text = format!("{} {}", answer.status, answer.text);
    if (plain.status, answer.status) != (refusal.status, refusal.status) {
        return Err(format!("{} and {text}, expected {}", plain.status, refusal.status));
    }
    if plain.text.trim_start().starts_with('{') || plain.text.is_empty() {
        return Err(format!("the plain form is '{}'", plain.text));
    }
    let error: Value = serde_json::from_str(&answer.text).map_err(|e| format!("{e}: {text}"))?;
    let is_text = |key: &str| error[key].as_str().is_some_and(|text| !text.trim().is_empty());
    let is_full = |key: &str| error[key].as_array().is_some_and(|list| !list.is_empty());
    for key in ["code", "message", "hint"] {
        if !is_text(key) || error[key].to_string().to_lowercase().contains("internal") {
            return Err(format!("'{key}' says nothing: {text}"));
        }
    }
    if is_by_state && error["agent_id"] != agent {
        return Err(format!("does not name the agent: {text}"));
    }
    // An empty list is an answer too: nothing of the kind is there.
    let is_known = error["available"].is_array() && error["blocked_by"].is_array();
    if is_by_state && refusal.status == 409 && !(is_full("wanted") && is_known) {
        return Err(format!("names no numbers: {text}"));
    }
    Ok(())
}
