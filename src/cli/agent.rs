//! `holdfast agent list|inspect|reconcile`, and how an agent is named on the command line.

mod reconcile;

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Listing, Output, print_json};
use super::{resource, table};
use crate::exit::Failure;

use self::reconcile::Reconcile;

/// Words after `agent` that ask for agents rather than run one.
pub(super) const WORDS: [&str; 3] = ["list", "inspect", "reconcile"];

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the agents
    List,
    /// Show one agent with its resources
    Inspect {
        /// Id of the agent, the end of it, or its host name
        agent: String,
    },
    Reconcile(Reconcile),
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let slaves = all(client).await?;
    match command {
        Command::List => list(&slaves)?.print(output),
        Command::Inspect { agent } => inspect(client, find(&slaves, &agent)?, output).await,
        Command::Reconcile(reconcile) => {
            let agent = id(find(&slaves, reconcile.agent())?)?;
            reconcile.run(client, output, agent).await
        }
    }
}

/// Every agent that the leader knows, with a key `state` added.
pub(super) async fn all(client: &mut Client) -> Result<Vec<Value>, Failure> {
    let mut answer = client.get("/slaves").await?;
    let mut agents = Vec::new();
    for (key, unlisted) in [("slaves", None), ("unreachable_slaves", Some("unreachable"))] {
        let Some(list) = answer[key].as_array_mut() else { continue };
        for mut agent in list.drain(..) {
            let state = unlisted.unwrap_or_else(|| match agent["active"].as_bool() {
                Some(true) => "active",
                _ if agent["deactivated"] == true => "deactivated",
                _ => "away",
            });
            agent["state"] = json!(state);
            agents.push(agent);
        }
    }
    Ok(agents)
}

/// The agent that `name` means: its id, a unique end of an id, or a unique host name.
pub(super) fn find<'a>(agents: &'a [Value], name: &str) -> Result<&'a Value, Failure> {
    let id = |agent: &&'a Value| agent["id"].as_str().unwrap_or_default();
    if let Some(agent) = agents.iter().find(|agent| id(agent) == name) {
        return Ok(agent);
    }
    let mut fitting: Vec<&Value> = agents
        .iter()
        .filter(|agent| {
            let is_end = id(agent).strip_suffix(name).is_some_and(|rest| rest.ends_with('-'));
            is_end || agent["hostname"] == name
        })
        .collect();
    match (fitting.pop(), fitting.len()) {
        (Some(agent), 0) => Ok(agent),
        (None, _) => {
            Err(Failure::Refused(format!("no agent is called '{name}'; see: holdfast agent list")))
        }
        (Some(last), _) => {
            fitting.push(last);
            let ids: Vec<&str> = fitting.iter().map(id).collect();
            Err(Failure::Usage(format!("'{name}' may mean any of {}", ids.join(", "))))
        }
    }
}

/// The id of an agent.
pub(super) fn id(agent: &Value) -> Result<&str, Failure> {
    agent["id"].as_str().ok_or_else(|| Failure::Refused("an agent without an id".to_owned()))
}

fn address(agent: &Value) -> &str {
    agent["pid"].as_str().and_then(|pid| pid.rsplit_once('@')).map_or("", |(_, address)| address)
}

fn list(agents: &[Value]) -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    for agent in agents {
        let version = agent["resource_version"].as_u64();
        let reserved = resource::reserved(agent)?;
        let volumes = reserved.iter().filter(|held| held.volume_id.is_some()).count();
        rows.push(vec![
            id(agent)?.to_owned(),
            agent["state"].as_str().unwrap_or_default().to_owned(),
            address(agent).to_owned(),
            resource::summary(&agent["resources"]),
            volumes.to_string(),
            resource::summary(&agent["unreserved_resources"]),
            version.map(|version| version.to_string()).unwrap_or_default(),
            agent["hostname"].as_str().unwrap_or_default().to_owned(),
        ]);
    }
    let headers =
        ["ID", "STATE", "ADDRESS", "RESOURCES", "VOLUMES", "UNRESERVED", "VERSION", "HOST"];
    Ok(Listing { headers: headers.to_vec(), narrow: 5, rows, json: json!(agents) })
}

async fn inspect(client: &mut Client, agent: &Value, output: Output) -> Result<(), Failure> {
    let id = id(agent)?;
    let entry = client.get(&format!("/api/v1/agents/{id}")).await?;
    if output == Output::Json {
        let mut agent = agent.clone();
        for key in ["status", "discrepancy", "unavailable"] {
            agent[key] = entry[key].clone();
        }
        return print_json(&agent);
    }
    let mut facts = vec![
        ["id".to_owned(), id.to_owned()],
        ["state".to_owned(), agent["state"].as_str().unwrap_or_default().to_owned()],
        ["address".to_owned(), address(agent).to_owned()],
        ["host".to_owned(), agent["hostname"].as_str().unwrap_or_default().to_owned()],
        ["total".to_owned(), resource::summary(&agent["resources"])],
        ["unreserved".to_owned(), resource::summary(&agent["unreserved_resources"])],
    ];
    for held in resource::reserved(agent)? {
        facts.push([format!("reserved for {}", held.role), held.text]);
    }
    for form in entry["unavailable"].as_array().into_iter().flatten() {
        let text = format!("{}; see the agent's own /state for why", resource::read(form)?);
        facts.push(["unavailable".to_owned(), text]);
    }
    let facts = table::render(&["", ""], &facts).replacen('\n', "", 1).replacen("-  -", "", 1);
    match &entry["discrepancy"] {
        Value::Null => super::print(&facts),
        discrepancy => super::print(&format!("{facts}{}", reconcile::text(discrepancy)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_agents() {
        let agents = [
            json!({"id": "c1-S1", "hostname": "a"}),
            json!({"id": "c1-S11", "hostname": "b"}),
            json!({"id": "c1-S2", "hostname": "b"}),
        ];
        let found =
            |name| find(&agents, name).map(|agent| agent["id"].as_str().unwrap().to_owned());
        assert_eq!(found("c1-S1").unwrap(), "c1-S1");
        assert_eq!(found("S1").unwrap(), "c1-S1");
        assert_eq!(found("a").unwrap(), "c1-S1");
        assert!(matches!(found("b"), Err(Failure::Usage(_))));
        assert!(matches!(found("1"), Err(Failure::Refused(_))));
    }
}
