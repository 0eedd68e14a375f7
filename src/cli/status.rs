//! `holdfast status`: every master given, whether they agree, and a summary of the agents.

use serde_json::{Value, json};

use super::client::Client;
use super::output::{Output, print, print_json};
use super::{agent, resource, table};
use crate::exit::Failure;

/// A master by its address, and what it says of itself or why it does not.
type Seen = (String, Result<Value, String>);

/// Runs it.
pub(super) async fn run(client: &mut Client, output: Output) -> Result<(), Failure> {
    let servers = all(client).await;
    let agents = agent::all(client).await;
    if output == Output::Json {
        let agents = agents?;
        return print_json(&json!({"servers": json(&servers), "agents": counts(&agents)?}));
    }
    print(&render(&servers))?;
    let counts = counts(&agents?)?;
    print(&format!(
        "\n{} agents ({} active), {} roles with reservations, {} volumes\n",
        counts["total"], counts["active"], counts["roles"], counts["volumes"]
    ))
}

/// The masters alone: `holdfast server status`.
pub(super) async fn servers(client: &mut Client, output: Output) -> Result<(), Failure> {
    let servers = all(client).await;
    if output == Output::Json {
        return print_json(&json(&servers));
    }
    print(&render(&servers))
}

/// Every master given, and the leader.
async fn all(client: &Client) -> Vec<Seen> {
    let mut addresses = client.masters().to_vec();
    let mut servers = Vec::new();
    while servers.len() < addresses.len() {
        let address = addresses[servers.len()].clone();
        let seen = client.get_at(&address, "/api/v1/server").await;
        // The leader may be none of the masters given: those that are know where it is.
        let leader = seen.as_ref().ok().and_then(|server| server["leader"]["advertise"].as_str());
        if let Some(leader) = leader.filter(|leader| !addresses.iter().any(|a| a == leader)) {
            addresses.push(leader.to_owned());
        }
        servers.push((address, seen));
    }
    servers
}

fn json(servers: &[Seen]) -> Value {
    let servers = servers.iter().map(|(address, seen)| match seen {
        Ok(server) => json!({"address": address, "server": server}),
        Err(error) => json!({"address": address, "error": error}),
    });
    servers.collect()
}

fn render(servers: &[Seen]) -> String {
    let rows: Vec<Vec<String>> = servers.iter().map(|(at, seen)| row(at, seen)).collect();
    table::render(&["ID", "ROLE", "ADDRESS", "TERM", "APPLIED", "DIGEST"], &rows)
}

fn row(address: &str, seen: &Result<Value, String>) -> Vec<String> {
    match seen {
        Ok(server) => {
            let digest = server["digest"]["sha256"].as_str().unwrap_or_default();
            vec![
                server["id"].to_string(),
                server["role"].as_str().unwrap_or_default().to_owned(),
                address.to_owned(),
                server["term"].to_string(),
                server["applied"].to_string(),
                digest.chars().take(12).collect(),
            ]
        }
        Err(error) => {
            let role = format!("({error})");
            vec![
                String::new(),
                role,
                address.to_owned(),
                String::new(),
                String::new(),
                String::new(),
            ]
        }
    }
}

fn counts(agents: &[Value]) -> Result<Value, Failure> {
    let mut roles = std::collections::BTreeSet::new();
    let mut volumes = 0;
    for agent in agents {
        for held in resource::reserved(agent)? {
            volumes += usize::from(held.volume_id.is_some());
            roles.insert(held.role);
        }
    }
    let active = agents.iter().filter(|agent| agent["state"] == "active").count();
    Ok(json!({"total": agents.len(), "active": active, "roles": roles.len(), "volumes": volumes}))
}
