//! Requests as Mesos' clients make them, and their answers.

use serde_json::{Value, json};

use crate::support::{Agent, client};

/// Status, headers of interest, and text of an answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        text: response.text().await.unwrap(),
    }
}

/// A call of `/api/v1`.
pub(crate) async fn call(address: &str, query: &str, call: &Value) -> Answer {
    send(client().post(format!("http://{address}/api/v1{query}")).json(call)).await
}

/// A form body of an unversioned endpoint.
pub(crate) fn form_body(fields: &[(&str, &str)]) -> String {
    let escape = |text: &str| -> String { text.bytes().map(|b| format!("%{b:02x}")).collect() };
    let pairs: Vec<String> =
        fields.iter().map(|(key, value)| format!("{key}={}", escape(value))).collect();
    pairs.join("&")
}

pub(crate) async fn form(address: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    send(client().post(format!("http://{address}{path}")).body(form_body(fields))).await
}

/// A reservation of cpus for the role `ads`.
pub(crate) fn reservation(agent: &Agent, cpus: f64) -> Value {
    json!({"type": "RESERVE_RESOURCES", "reserve_resources": {
        "agent_id": {"value": agent.id.as_str()}, "resources": [reserved_cpus("ads", cpus)]}})
}

pub(crate) fn reserved_cpus(role: &str, cpus: f64) -> Value {
    json!({"name": "cpus", "type": "SCALAR", "scalar": {"value": cpus},
        "reservations": [{"type": "DYNAMIC", "role": role, "principal": "ops"}]})
}

/// Disk, statically reserved for a role.
pub(crate) fn static_disk(role: &str, size: f64) -> Value {
    json!({"name": "disk", "type": "SCALAR", "scalar": {"value": size},
        "reservations": [{"type": "STATIC", "role": role}]})
}

/// A volume of `ops` on such disk.
pub(crate) fn volume(role: &str, id: &str, size: f64) -> Value {
    let mut volume = static_disk(role, size);
    volume["disk"] = json!({"persistence": {"id": id, "principal": "ops"},
        "volume": {"container_path": "data", "mode": "RW"}});
    volume
}
