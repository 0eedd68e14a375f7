//! What masters, agents and disks hold of a drill, read through the public API only.
//! Judges nothing. Next: `invariants.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::client::Client;
use crate::cluster::Cluster;
use crate::wait;

/// Key of the label under which every object of a drill is reserved.
pub const LABEL_KEY: &str = "drill";

/// What is reserved under one label on one agent: `(name, thousandths)`, sorted. Groups are equal
/// when they hold the same amounts, whatever the JSON they came in.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Resources that are no volume.
    pub plain: Vec<(String, i64)>,
    /// Volumes by id.
    pub volumes: Vec<(String, i64)>,
    /// The resources as they came, fit to be posted back.
    pub resources: Vec<Value>,
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        (&self.plain, &self.volumes) == (&other.plain, &other.volumes)
    }
}

/// Groups by label.
pub type Groups = BTreeMap<String, Group>;

/// The groups of one `reserved_resources_full` whose label starts with `run`.
///
/// # Errors
/// When the answer has another shape than the Mesos API gives it.
pub fn groups(reserved_full: &Value, run: &str) -> anyhow::Result<Groups> {
    let mut groups = Groups::new();
    let roles = reserved_full.as_object().context("reserved_resources_full is no object")?;
    let resources = roles.values().filter_map(Value::as_array).flatten();
    for resource in resources {
        let Some(label) = label(resource).filter(|label| label.starts_with(run)) else {
            continue;
        };
        let group = groups.entry(label.to_owned()).or_default();
        let name = resource["name"].as_str().context("a resource without name")?;
        let amount = milli(&resource["scalar"]["value"])?;
        match resource["disk"]["persistence"]["id"].as_str() {
            Some(id) => group.volumes.push((id.to_owned(), amount)),
            None => group.plain.push((name.to_owned(), amount)),
        }
        group.resources.push(resource.clone());
    }
    for group in groups.values_mut() {
        group.plain.sort();
        group.volumes.sort();
    }
    Ok(groups)
}

/// Value of our label on the top reservation.
fn label(resource: &Value) -> Option<&str> {
    let top = resource["reservations"].as_array()?.last()?;
    let labels = top["labels"]["labels"].as_array()?;
    labels.iter().find(|label| label["key"] == LABEL_KEY)?["value"].as_str()
}

/// Thousandths, exactly: the decimal text is cut, no float is multiplied.
fn milli(value: &Value) -> anyhow::Result<i64> {
    let number = value.as_f64().context("a scalar without value")?;
    let text = format!("{number:.3}").replace('.', "");
    text.parse().with_context(|| format!("{number} is no amount"))
}

/// Groups of each agent of the cluster, by the agent's place in the cluster's list, as the master
/// at `address` has applied them.
///
/// # Errors
/// When the master does not answer or an agent is missing.
pub async fn master(
    client: &Client,
    cluster: &Cluster,
    address: &str,
    run: &str,
) -> anyhow::Result<Vec<Groups>> {
    let answer = client
        .get(address, "/slaves?consistency=stale")
        .await
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut all = Vec::new();
    for agent in &cluster.layout().agents {
        let entry = slave(&answer, &agent.http)
            .with_context(|| format!("{address} does not list {}", agent.name))?;
        all.push(groups(&entry["reserved_resources_full"], run)?);
    }
    Ok(all)
}

/// The entry of `/slaves` for the agent that listens on `http`.
#[must_use]
pub fn slave<'a>(slaves: &'a Value, http: &str) -> Option<&'a Value> {
    listed(&slaves["slaves"], http)
}

/// The same among the agents that are unreachable.
#[must_use]
pub fn unreachable<'a>(slaves: &'a Value, http: &str) -> Option<&'a Value> {
    listed(&slaves["unreachable_slaves"], http)
}

fn listed<'a>(entries: &'a Value, http: &str) -> Option<&'a Value> {
    let entries = entries.as_array()?;
    entries.iter().find(|entry| {
        entry["pid"].as_str().and_then(|pid| pid.rsplit_once('@')).is_some_and(|(_, at)| at == http)
    })
}

/// Groups that the agent at `address` has on its disk.
///
/// # Errors
/// When the agent does not answer.
pub async fn agent(client: &Client, address: &str, run: &str) -> anyhow::Result<Groups> {
    let state = client.get(address, "/state").await.map_err(|error| anyhow::anyhow!("{error}"))?;
    groups(&state["reserved_resources_full"], run)
}

/// Address and number of the master that leads and serves.
///
/// # Errors
/// When none does within `deadline`.
pub async fn leader(
    client: &Client,
    cluster: &Cluster,
    deadline: Duration,
) -> anyhow::Result<usize> {
    wait::until("a leader", deadline, async || {
        let mut last = "no master".to_owned();
        for (place, master) in cluster.layout().masters.iter().enumerate() {
            match client.get(&master.http, "/slaves").await {
                Ok(_) => return Ok(place),
                Err(error) => last = error,
            }
        }
        Err(last)
    })
    .await
}

/// Waits until all `masters` have applied the same index with the same digest; returns it.
/// Different digests at one index are an error at once: waiting cannot mend them.
///
/// # Errors
/// When they differ, or do not agree within `deadline`.
pub async fn digests_agree(
    client: &Client,
    masters: &[String],
    deadline: Duration,
) -> anyhow::Result<u64> {
    let seen = wait::until("digests agree", deadline, async || {
        let mut seen: Vec<(u64, String)> = Vec::new();
        for address in masters {
            let server = client.get(address, "/api/v1/server").await?;
            let index = server["digest"]["index"].as_u64();
            let index = index.ok_or_else(|| format!("{address} names no digest: {server}"))?;
            if server["applied"].as_u64() != Some(index) {
                return Err(format!("{address} applies: {server}"));
            }
            seen.push((index, server["digest"]["sha256"].to_string()));
        }
        let indices: Vec<u64> = seen.iter().map(|(index, _)| *index).collect();
        match indices.windows(2).all(|pair| pair[0] == pair[1]) {
            true => Ok(seen),
            false => Err(format!("applied indices are {indices:?}")),
        }
    })
    .await?;
    let (index, first) = seen.first().context("no masters")?;
    anyhow::ensure!(
        seen.iter().all(|(_, digest)| digest == first),
        "digests differ at index {index}: {seen:?}"
    );
    Ok(*index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn groups_by_label() {
        let reservation = |label: &str| {
            json!([{"type": "DYNAMIC", "role": "drill",
                    "labels": {"labels": [{"key": "drill", "value": label}]}}])
        };
        let full = json!({"drill": [
            {"name": "mem", "scalar": {"value": 0.001}, "reservations": reservation("run-1")},
            {"name": "disk", "scalar": {"value": 8.5}, "reservations": reservation("run-2"),
             "disk": {"persistence": {"id": "v"}}},
            {"name": "mem", "scalar": {"value": 1}, "reservations": reservation("other-1")},
            {"name": "mem", "scalar": {"value": 1}, "reservations": [{"role": "drill"}]},
        ]});
        let groups = groups(&full, "run-").unwrap();
        assert_eq!(groups.len(), 2);
        assert_eq!(groups["run-1"].plain, [("mem".to_owned(), 1)]);
        assert_eq!(groups["run-2"].volumes, [("v".to_owned(), 8500)]);
    }
}
