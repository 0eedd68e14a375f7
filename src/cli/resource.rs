//! Resources as operators write them (`cpus:1;mem:128`) and as masters list them. Built on the
//! vocabulary crate: the same parser and the same text as everywhere. Next: `agent.rs`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use resources::form::{Format, ResourceForm};
use resources::parse;
use resources::resource::{Label, Labels, Reservation, Resource};
use resources::role::Role;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Output, print, print_json};
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
    let mut all = Vec::new();
    let roles = agent["reserved_resources_full"].as_object();
    for json in roles.into_iter().flat_map(|roles| roles.values()).filter_map(Value::as_array) {
        for json in json {
            let unreadable = |error: &dyn std::fmt::Display| {
                Failure::Refused(format!("the master lists an unreadable resource: {error}"))
            };
            let form: ResourceForm =
                serde_json::from_value(json.clone()).map_err(|error| unreadable(&error))?;
            let resource = Resource::try_from(form).map_err(|error| unreadable(&error))?;
            all.push(Held {
                role: resource.reservation_role().map(ToString::to_string).unwrap_or_default(),
                volume_id: resource.volume_id().map(ToString::to_string),
                text: resource.to_unreserved().to_string(),
                json: json.clone(),
                resource,
            });
        }
    }
    Ok(all)
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

/// What a mutating command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Wait {
    /// A quorum of masters has it, and it is applied
    Committed,
    /// The agent has it on its disk
    Checkpointed,
}

/// Flags of every mutating command.
#[derive(Debug, Args)]
pub(super) struct Mutation {
    /// Wait until the agent has it on its disk, or for less with =committed
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, value_name = "STATE")]
    #[arg(default_value = "committed", default_missing_value = "checkpointed")]
    wait: Wait,
    /// How long to wait for the agent
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
}

/// Parses a duration of the command line.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse::duration(text).map_err(|error| error.to_string())
}

impl Mutation {
    /// Makes the call of that type on resources (or volumes) of one agent, and prints under
    /// which operation id it was accepted.
    pub(super) async fn execute(
        &self,
        client: &mut Client,
        output: Output,
        agent_id: &str,
        kind: &str,
        resources: &[Value],
    ) -> Result<(), Failure> {
        let list = if kind.ends_with("VOLUMES") { "volumes" } else { "resources" };
        let body = json!({"agent_id": {"value": agent_id}, list: resources});
        let call = json!({"type": kind, kind.to_lowercase(): body});
        let (query, wait) = match self.wait {
            Wait::Committed => ("?wait=committed".to_owned(), Duration::ZERO),
            Wait::Checkpointed => {
                let millis = self.timeout.as_millis();
                (format!("?wait=checkpointed&timeout={millis}ms"), self.timeout)
            }
        };
        let accepted = client.execute(&query, &call, wait).await?;
        let state = match self.wait {
            Wait::Committed => "committed",
            Wait::Checkpointed => "checkpointed",
        };
        if output == Output::Json {
            return print_json(&json!({"operation_id": accepted.operation_id, "state": state}));
        }
        let id = accepted.operation_id.map(|id| format!(": operation {id}")).unwrap_or_default();
        print(&format!("{state}{id}\n"))
    }
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
