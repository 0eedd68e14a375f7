//! Resources as operators write them (`cpus:1;mem:128`) and as masters list them. Built on the
//! vocabulary crate: the same parser and the same text as everywhere. Next: `agent.rs`.

use resources::form::{Format, ResourceForm};
use resources::parse;
use resources::resource::{Label, Labels, Reservation, Resource};
use resources::role::Role;
use resources::value::Value as Amount;
use serde_json::{Value, json};

use crate::exit::Failure;

/// A reserved resource of an agent.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// The resource.
    pub(super) resource: Resource,
    /// Role of the top reservation.
    pub(super) role: String,
    /// The id, when it is a volume.
    pub(super) volume_id: Option<String>,
    /// Without its reservations, in one line.
    pub(super) text: String,
    /// As the master sent it; fit to be posted back.
    pub(super) json: Value,
}

impl Held {
    /// The top reservation.
    pub(super) fn top(&self) -> Option<&Reservation> {
        self.resource.reservations.last()
    }

    /// Principal of the top reservation.
    pub(super) fn principal(&self) -> &str {
        let principal = self.top().and_then(|top| top.principal.as_ref());
        principal.map_or("", resources::id::Principal::as_str)
    }
}

/// Every reserved resource of an entry of `/slaves`.
pub(super) fn reserved(agent: &Value) -> Result<Vec<Held>, Failure> {
    let roles = agent["reserved_resources_full"].as_object();
    let lists = roles.into_iter().flat_map(|roles| roles.values()).filter_map(Value::as_array);
    lists.flatten().map(held).collect()
}

/// A reserved resource as the master lists it.
pub(super) fn held(json: &Value) -> Result<Held, Failure> {
    let resource = read(json)?;
    Ok(Held {
        role: resource.reservation_role().map(ToString::to_string).unwrap_or_default(),
        volume_id: resource.volume_id().map(ToString::to_string),
        text: resource.to_unreserved().to_string(),
        json: json.clone(),
        resource,
    })
}

/// A resource as the master lists it.
pub(super) fn read(json: &Value) -> Result<Resource, Failure> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::Refused(format!("the master lists an unreadable resource: {error}"))
    };
    let form: ResourceForm =
        serde_json::from_value(json.clone()).map_err(|error| unreadable(&error))?;
    Resource::try_from(form).map_err(|error| unreadable(&error))
}

/// Reads `cpus:1;mem:128`.
pub(super) fn parse(flag: &str, text: &str) -> Result<Vec<Resource>, Failure> {
    let parsed = parse::resources_text(text, &Role::star())
        .map_err(|error| Failure::Usage(format!("{flag} '{text}': {error}")))?;
    let parsed: Vec<Resource> = parsed.iter().cloned().collect();
    if parsed.is_empty() {
        return Err(Failure::Usage(format!("{flag} '{text}': expected resources like cpus:1")));
    }
    Ok(parsed)
}

/// Reads a role that something can be reserved for.
pub(super) fn role(text: &str) -> Result<Role, String> {
    let role = Role::parse(text).map_err(|error| error.to_string())?;
    if role.is_star() { Err("'*' means unreserved".to_owned()) } else { Ok(role) }
}

/// Reads a label: `key=value`, or `key` alone.
pub(super) fn label(text: &str) -> Result<Label, String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    if key.is_empty() {
        return Err("expected key=value".to_owned());
    }
    Ok(Label { key: key.to_owned(), value })
}

/// Labels as one sorted set.
pub(super) fn labels(labels: &[Label]) -> Labels {
    Labels::from(labels.to_vec())
}

/// Resources as an operator call carries them.
pub(super) fn wire(resources: &[Resource]) -> Result<Vec<Value>, Failure> {
    let broken = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    let forms = resources.iter().map(|resource| {
        let form = resource.to_form(Format::Post).map_err(|error| broken(&error))?;
        serde_json::to_value(form).map_err(|error| broken(&error))
    });
    forms.collect()
}

/// One of Mesos' summaries, `{"cpus": 4.0, …}`, in one line without the zeros.
pub(super) fn summary(summary: &Value) -> String {
    let entries = summary.as_object().into_iter().flatten();
    let texts: Vec<String> = entries
        .filter(|(_, amount)| amount.as_f64() != Some(0.0))
        .map(|(name, amount)| match amount.as_str() {
            Some(text) => format!("{name}:{text}"),
            None => format!("{name}:{}", amount.to_string().trim_end_matches(".0")),
        })
        .collect();
    texts.join(" ")
}

/// An amount of a scalar resource as `{"value": …}`.
pub(super) fn scalar(value: &Amount) -> Value {
    let amount = value.as_scalar().map(resources::value::Scalar::to_f64);
    json!({"value": amount})
}

/// The body of an operator call that names resources, or volumes, of an agent.
pub(super) fn body(agent_id: &str, list: &str, resources: &[Value]) -> Value {
    json!({"agent_id": {"value": agent_id}, list: resources})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_leave_zeros_out() {
        let value = json!({"cpus": 4.0, "gpus": 0.0, "mem": 0.5, "ports": "[1-2]"});
        assert_eq!(summary(&value), "cpus:4 mem:0.5 ports:[1-2]");
        assert_eq!(summary(&Value::Null), "");
    }

    #[test]
    fn resources_of_the_command_line() {
        assert_eq!(parse("--resources", "cpus:1;mem:128").unwrap().len(), 2);
        for bad in ["", "cpus", "cpus:x:y", ";"] {
            assert!(matches!(parse("--resources", bad), Err(Failure::Usage(_))), "{bad}");
        }
        assert!(role("*").is_err());
        assert_eq!(label("a=b=c").unwrap().value.as_deref(), Some("b=c"));
        assert!(label("=x").is_err());
    }

    #[test]
    fn listed_resources_come_back() {
        let agent = json!({"reserved_resources_full": {"ads": [
            {"name": "disk", "type": "SCALAR", "scalar": {"value": 512.0}, "role": "ads",
             "reservation": {"principal": "ops"},
             "reservations": [{"type": "DYNAMIC", "role": "ads", "principal": "ops"}],
             "disk": {"persistence": {"id": "v1", "principal": "ops"},
                      "volume": {"mode": "RW", "container_path": "data"}}},
        ]}});
        let held = reserved(&agent).unwrap();
        assert_eq!(held[0].role, "ads");
        assert_eq!(held[0].principal(), "ops");
        assert_eq!(held[0].volume_id.as_deref(), Some("v1"));
        assert_eq!(held[0].text, "disk[v1:data]:512");
    }
}
