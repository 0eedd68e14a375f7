//! The agent's `/state` (spec §6.3) from a picture of the agent. Pure; paths and methods are in
//! `http.rs`.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use resources::collection::Resources;
use resources::form::Format;
use resources::message::{Attribute, AttributeValue};
use resources::resource::Resource;
use resources::value;

use super::{Server, frameworks};
use crate::core::event::Unavailable;
use crate::driver::View;

/// What agents of Mesos 1.11 announce; every one is obeyed here or has no effect yet.
const CAPABILITIES: [&str; 8] = [
    "MULTI_ROLE",
    "HIERARCHICAL_ROLE",
    "RESERVATION_REFINEMENT",
    "RESOURCE_PROVIDER",
    "RESIZE_VOLUME",
    "AGENT_OPERATION_FEEDBACK",
    "AGENT_DRAINING",
    "TASK_RESOURCE_LIMITS",
];

/// The whole answer.
pub(super) fn state(view: &View, server: &Server) -> Value {
    let info = &view.identity.info;
    let total = &view.total;
    let by_role = |set: &Resources, value: &dyn Fn(&Resources) -> Value| -> Value {
        let reservations = set.reservations();
        let entries = reservations.iter().map(|(role, set)| (role.to_string(), value(set)));
        Value::Object(entries.collect())
    };
    let used = view.used();
    let unreserved = total.unreserved();
    let mut state = super::about::version();
    let rest = json!({
        "id": view.agent_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        "pid": format!("slave(1)@{}", address(&info.host, info.port)),
        "hostname": info.hostname,
        "start_time": seconds(server.started_at),
        "capabilities": CAPABILITIES,
        "attributes": attributes(&info.attributes),
        "resources": summary(total),
        "reserved_resources": by_role(total, &summary),
        "unreserved_resources": summary(&unreserved),
        "reserved_resources_full": by_role(total, &full),
        "unreserved_resources_full": full(&unreserved),
        "reserved_resources_allocated": by_role(&used, &summary),
        "unreserved_resources_allocated": summary(&used.unreserved()),
        "resource_providers": [],
        "flags": server.flags,
        "frameworks": frameworks::frameworks(view),
        "completed_frameworks": frameworks::completed_frameworks(view),
        "volumes": frameworks::volumes(view),
        "checkpoint_id": view.identity.checkpoint_id,
        "boot_counter": view.identity.boot_counter,
        "applied_seq": view.applied_seq,
        "resource_version": view.applied_seq,
        "unacknowledged": view.ended.iter().map(|end| end.settled.seq).collect::<Vec<_>>(),
        "unavailable": unavailable(&view.unavailable),
    });
    if let (Value::Object(state), Value::Object(rest)) = (&mut state, rest) {
        state.extend(rest);
    }
    state
}

fn address(host: &str, port: u16) -> String {
    crate::config::Address { host: host.to_owned(), port }.to_string()
}

/// Seconds since 1970, as Mesos shows times.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// `/slaves`-like summary: amounts by name, ranges and sets as text (spec §6.2).
pub(super) fn summary(resources: &Resources) -> Value {
    let mut sums: BTreeMap<String, value::Value> = BTreeMap::new();
    for resource in resources.iter() {
        let suffix = if resource.revocable { "_revocable" } else { "" };
        sums.entry(format!("{}{suffix}", resource.name))
            .and_modify(|sum| *sum = sum.add(&resource.value))
            .or_insert_with(|| resource.value.clone());
    }
    let mut object: Map<String, Value> = ["cpus", "gpus", "mem", "disk"]
        .map(|name| (name.to_owned(), json!(0.0)))
        .into_iter()
        .collect();
    for (name, sum) in sums {
        let value = match sum {
            value::Value::Scalar(scalar) => json!(scalar.to_f64()),
            value::Value::Ranges(_) | value::Value::Set(_) => json!(sum.to_string()),
        };
        object.insert(name, value);
    }
    Value::Object(object)
}

fn full(resources: &Resources) -> Value {
    list(resources.iter())
}

/// Resources in endpoint form.
fn list<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Value {
    Value::Array(resources.into_iter().map(form).collect())
}

fn form(resource: &Resource) -> Value {
    let form = resource.to_form(Format::Endpoint).expect("endpoint form exists for every stack");
    serde_json::to_value(form).expect("a form is plain JSON")
}

/// The volumes in endpoint form, each with what is wrong.
fn unavailable(found: &[Unavailable]) -> Value {
    let volumes = found.iter().map(|Unavailable { volume, reason }| {
        let mut volume = form(volume);
        if let Value::Object(volume) = &mut volume {
            volume.insert("reason".to_owned(), json!(reason));
        }
        volume
    });
    Value::Array(volumes.collect())
}

fn attributes(attributes: &[Attribute]) -> Value {
    let entry = |attribute: &Attribute| {
        let value = match &attribute.value {
            AttributeValue::Scalar(scalar) => json!(scalar.to_f64()),
            AttributeValue::Ranges(ranges) => json!(ranges.to_string()),
            AttributeValue::Text(text) => json!(text),
        };
        (attribute.name.clone(), value)
    };
    Value::Object(attributes.iter().map(entry).collect())
}
