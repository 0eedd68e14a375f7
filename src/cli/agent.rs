//! `holdfast agent list|inspect`, and how an agent is named on the command line. Next:
//! `agent/commands.rs`, `agent/reconcile.rs`.

mod commands;
mod reconcile;

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Listing, Output, print_json, text};
use super::{resource, table};
use crate::exit::Failure;

use self::reconcile::Reconcile;

/// Words after `agent` that ask for agents rather than run one.
pub(super) const WORDS: [&str; 7] =
    ["list", "inspect", "drain", "deactivate", "reactivate", "gone", "reconcile"];

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the agents
    List {
        /// Those that were given up, instead
        #[arg(long)]
        gone: bool,
    },
    /// Show one agent with its resources
    Inspect {
        /// Id of the agent, the end of it, or its host name
        agent: String,
    },
    /// Deactivate an agent and end its tasks; its reservations and volumes stay
    Drain(commands::Drain),
    /// Offer nothing of an agent any longer; its tasks go on
    Deactivate(commands::Change),
    /// Offer an agent again that was deactivated or drained
    Reactivate(commands::Change),
    /// Give up an agent for ever, with its tasks, reservations and volumes
    Gone(commands::Gone),
    Reconcile(Reconcile),
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::List { gone: true } => {
            let gone = client.get("/api/v1/agents?gone=true").await?;
            list_gone(&gone).print(output)
        }
        Command::List { gone: false } => list(&in_full(client).await?)?.print(output),
        Command::Inspect { agent } => {
            let agents = in_full(client).await?;
            inspect(client, find(&agents, &agent)?, output).await
        }
        Command::Reconcile(reconcile) => {
            let slaves = all(client).await?;
            let agent = id(find(&slaves, reconcile.agent())?)?;
            reconcile.run(client, output, agent).await
        }
        Command::Drain(drain) => commands::drain(client, output, drain).await,
        Command::Deactivate(change) => commands::deactivate(client, output, change).await,
        Command::Reactivate(change) => commands::reactivate(client, output, change).await,
        Command::Gone(gone) => commands::gone(client, output, gone).await,
    }
}

/// Every agent on record, there or not, as the masters keep account of it.
async fn standings(client: &mut Client) -> Result<Vec<Value>, Failure> {
    let answer = client.get("/api/v1/agents").await?;
    Ok(answer.as_array().cloned().unwrap_or_default())
}

/// Every agent on record, with all that is known of it.
async fn in_full(client: &mut Client) -> Result<Vec<Value>, Failure> {
    let mut agents = all(client).await?;
    for standing in standings(client).await? {
        let known = agents.iter().position(|agent| agent["id"] == standing["id"]);
        let place = known.unwrap_or_else(|| {
            let pid = format!("slave(1)@{}", text(&standing["address"]));
            let (id, hostname) = (&standing["id"], &standing["hostname"]);
            agents.push(json!({"id": id, "hostname": hostname, "pid": pid}));
            agents.len() - 1
        });
        for key in STANDING {
            agents[place][key] = standing[key].clone();
        }
        agents[place]["state"] = json!(state(&standing));
    }
    Ok(agents)
}

/// What is told of an agent beside its resources.
const STANDING: [&str; 6] =
    ["presence", "unreachable_in", "absent_since", "activation", "drain", "status"];

/// In one word or two: whether it is to be used, and whether it is there.
fn state(standing: &Value) -> String {
    let there = match standing["presence"].as_str() {
        Some("UNREACHABLE") => Some("unreachable"),
        Some("UNREGISTERED") => Some("unregistered"),
        Some("HERE") if standing["connected"] == true => None,
        _ => Some("away"),
    };
    let used = match standing["activation"].as_str() {
        Some(used) if used != "ACTIVE" => Some(used.to_lowercase()),
        _ => None,
    };
    match (used, there) {
        (Some(used), Some(there)) => format!("{used}, {there}"),
        (Some(used), None) => used,
        (None, there) => there.unwrap_or("active").to_owned(),
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
    ];
    facts.extend(absence(agent));
    facts.extend([
        ["address".to_owned(), address(agent).to_owned()],
        ["host".to_owned(), agent["hostname"].as_str().unwrap_or_default().to_owned()],
        ["total".to_owned(), resource::summary(&agent["resources"])],
        ["unreserved".to_owned(), resource::summary(&agent["unreserved_resources"])],
    ]);
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

/// How long an agent is waited for, or since when it is not; and how it is drained.
fn absence(agent: &Value) -> Vec<[String; 2]> {
    let mut facts = Vec::new();
    if let Some(seconds) = agent["unreachable_in"].as_f64() {
        facts.push(["unreachable".to_owned(), format!("in {seconds:.0} s, unless it comes back")]);
    }
    if let Some(since) = agent["absent_since"].as_f64() {
        facts.push(["absent since".to_owned(), format!("{since:.0} (Unix time)")]);
    }
    let drain = &agent["drain"];
    if drain.is_object() {
        let grace = drain["max_grace_secs"].as_f64();
        let grace = grace.map_or("as each task asks".to_owned(), |secs| format!("{secs} s"));
        let then = if drain["mark_gone"] == true { ", then gone" } else { "" };
        facts.push(["drain".to_owned(), format!("grace {grace}{then}")]);
    }
    facts
}

fn list_gone(gone: &Value) -> Listing {
    let rows = gone.as_array().into_iter().flatten().map(|agent| {
        let held = agent["held"].as_array().map_or(0, Vec::len);
        let keys = ["id", "hostname", "address", "absent_since", "checkpoint_id"];
        let mut row: Vec<String> = keys.iter().map(|key| text(&agent[*key])).collect();
        row.insert(4, held.to_string());
        row
    });
    let headers = ["ID", "HOST", "ADDRESS", "SINCE", "HELD", "CHECKPOINT"];
    Listing { headers: headers.to_vec(), narrow: 5, rows: rows.collect(), json: gone.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_in_words() {
        let of = |presence: &str, connected: bool, activation: &str| {
            let connected = json!(connected);
            state(&json!({
                "presence": presence, "connected": connected, "activation": activation}))
        };
        assert_eq!(of("HERE", true, "ACTIVE"), "active");
        assert_eq!(of("HERE", false, "ACTIVE"), "away");
        assert_eq!(of("AWAY", false, "DRAINING"), "draining, away");
        assert_eq!(of("UNREACHABLE", false, "ACTIVE"), "unreachable");
        assert_eq!(of("UNREGISTERED", false, "DRAINED"), "drained, unregistered");
        assert_eq!(of("HERE", true, "DEACTIVATED"), "deactivated");
    }

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
