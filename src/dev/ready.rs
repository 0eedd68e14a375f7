//! Waits until a started cluster serves, and says what runs where. Uses the public API only.

use std::fs;
use std::path::Path;
use std::time::Duration;

use chaos::client::{Client, Credential};
use chaos::cluster::{Cluster, Member};
use chaos::observe;
use serde_json::Value;

use super::refused;
use crate::cli::table;
use crate::exit::Failure;

/// How long a start may take: elections and registrations are a matter of a second or two.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster that serves.
pub(super) struct Ready {
    /// Place of the leader in the list of masters.
    leader: usize,
    /// The leader's `/slaves`.
    slaves: Value,
}

/// What a look at the cluster may find.
enum Seen {
    Ready(Ready),
    Dead(Member),
}

/// Waits until a leader serves and every agent is registered. One of the `started` processes
/// that ends meanwhile is a failure at once, with its last words.
pub(super) async fn wait(cluster: &Cluster, started: &[Member]) -> Result<Ready, Failure> {
    let credential = match cluster.members().next() {
        Some(first @ Member::Master(_)) => Credential::of_master(cluster.argv(first)),
        _ => Ok(None),
    };
    let client =
        credential.and_then(Client::new).map_err(|error| refused(&format!("{error:#}")))?;
    let seen = chaos::wait::until("the cluster serves", DEADLINE, async || {
        if let Some(dead) = started.iter().find(|member| !cluster.is_alive(**member)) {
            return Ok(Seen::Dead(*dead));
        }
        look(&client, cluster).await.map(Seen::Ready)
    });
    match seen.await.map_err(|error| refused(&format!("{error:#}")))? {
        Seen::Ready(ready) => Ok(ready),
        Seen::Dead(member) => Err(Failure::Refused(format!(
            "dev: {} has ended: {} (log: {})",
            cluster.name(member),
            last_line(cluster.log(member)),
            cluster.log(member).display()
        ))),
    }
}

async fn look(client: &Client, cluster: &Cluster) -> Result<Ready, String> {
    let mut missing = String::new();
    for (leader, master) in cluster.layout().masters.iter().enumerate() {
        match client.get(&master.http, "/slaves").await {
            Ok(slaves) => {
                let absent = cluster.layout().agents.iter().find(|agent| {
                    !observe::slave(&slaves, &agent.http)
                        .is_some_and(|entry| entry["active"] == true)
                });
                return match absent {
                    Some(agent) => Err(format!("{} is not registered", agent.name)),
                    None => Ok(Ready { leader, slaves }),
                };
            }
            Err(error) => missing = error,
        }
    }
    Err(missing)
}

fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no log").to_owned()
}

/// The table of processes and three lines to try next.
pub(super) fn describe(cluster: &Cluster, ready: &Ready) -> String {
    let layout = cluster.layout();
    let mut rows = Vec::new();
    for (place, master) in layout.masters.iter().enumerate() {
        let role = if place == ready.leader { "leader" } else { "follower" };
        let pid = master.pid.to_string();
        rows.push([
            master.id.to_string(),
            role.into(),
            master.http.clone(),
            pid,
            master.log.clone(),
        ]);
    }
    for agent in &layout.agents {
        let entry = observe::slave(&ready.slaves, &agent.http);
        let id = entry.and_then(|entry| entry["id"].as_str()).unwrap_or(&agent.name);
        let pid = agent.pid.to_string();
        rows.push([id.to_owned(), "agent".into(), agent.http.clone(), pid, agent.log.clone()]);
    }
    let table = table::render(&["ID", "ROLE", "ADDRESS", "PID", "LOG"], &rows);
    let program = cluster.argv(Member::Master(0)).first().map_or("holdfast", String::as_str);
    format!(
        "{table}\n\
         Try next:\n  \
         {program} --master {} status\n  \
         curl -s http://{}/slaves\n  \
         {program} drill leader-kill --dir {}\n",
        cluster.masters().join(","),
        layout.masters[ready.leader].http,
        cluster.dir().display(),
    )
}
