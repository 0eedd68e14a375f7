//! Removes what a framework of a drill left behind. Next: `ground.rs`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::cluster::Cluster;
use crate::observe;
use crate::wait;

/// How long all of it may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Destroys the volumes whose labels begin with `run`, and gives the reservations back.
pub(super) async fn sweep(client: &Client, cluster: &Cluster, run: &str) -> anyhow::Result<()> {
    remove(client, cluster, run, "DESTROY_VOLUMES").await?;
    remove(client, cluster, run, "UNRESERVE_RESOURCES").await
}

async fn remove(client: &Client, cluster: &Cluster, run: &str, kind: &str) -> anyhow::Result<()> {
    let are_volumes = kind == "DESTROY_VOLUMES";
    let (key, list) = match are_volumes {
        true => ("destroy_volumes", "volumes"),
        false => ("unreserve_resources", "resources"),
    };
    wait::until(kind, DEADLINE, async || {
        let leader = observe::leader(client, cluster, DEADLINE).await;
        let leader = leader.map_err(|error| format!("{error:#}"))?;
        let address = &cluster.masters()[leader];
        let groups = observe::master(client, cluster, address, run).await;
        let mut left = 0;
        let slaves = client.get(address, "/slaves").await?;
        for (place, groups) in groups.map_err(|error| format!("{error:#}"))?.iter().enumerate() {
            let all = groups.values().flat_map(|group| &group.resources);
            let chosen = all.filter(|held| held["disk"]["persistence"].is_object() == are_volumes);
            let chosen: Vec<Value> = chosen.cloned().collect();
            if chosen.is_empty() {
                continue;
            }
            left += chosen.len();
            let http = &cluster.layout().agents[place].http;
            let agent = observe::slave(&slaves, http).map(|entry| &entry["id"]);
            let call = json!({"type": kind, key: {"agent_id": {"value": agent}, list: chosen}});
            let outcome = client.call(address, &call).await;
            tracing::debug!(kind, ?outcome, "clean-up");
        }
        if left == 0 { Ok(()) } else { Err(format!("{left} are there")) }
    })
    .await
}
