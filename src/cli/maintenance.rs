//! `holdfast maintenance schedule|set|status|start|stop`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::Client;
use super::mutation::{Mutation, confirm};
use super::output::{Listing, Output};
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the windows: which machines are out of service when
    Schedule,
    /// Replace the whole schedule
    Set(Set),
    /// List the machines that drain or are down, and what frameworks said about them
    Status,
    /// Take machines of the schedule down: their tasks are lost, what is reserved stays
    Start(Machines),
    /// Bring machines up again; they leave the schedule
    Stop(Machines),
}

/// Flags of `maintenance set`.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// File of the schedule in Mesos' JSON: {"windows": [{"machine_ids": …, "unavailability": …}]}
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    mutation: Mutation,
}

/// Flags of `maintenance start` and `maintenance stop`.
#[derive(Debug, Args)]
pub(super) struct Machines {
    /// Machines as the schedule names them: HOSTNAME, IP, or HOSTNAME@IP
    #[arg(required = true, value_name = "MACHINE")]
    machines: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    mutation: Mutation,
}

/// The machine of that name: as the schedule has it, because a host may be called by its address;
/// of one that is not in it, what the name looks like.
fn machine(known: &[Value], text: &str) -> Value {
    let is_ip = |text: &str| text.parse::<std::net::Ipv4Addr>().is_ok();
    if let Some(machine) = known.iter().find(|machine| name(machine) == text) {
        return machine.clone();
    }
    match text.split_once('@') {
        Some((hostname, ip)) => json!({"hostname": hostname, "ip": ip}),
        None if is_ip(text) => json!({"ip": text}),
        None => json!({"hostname": text}),
    }
}

/// Every machine of the schedule.
async fn scheduled(client: &mut Client) -> Result<Vec<Value>, Failure> {
    let schedule = client.get("/maintenance/schedule").await?;
    let windows = schedule["windows"].as_array().cloned().unwrap_or_default();
    let machines = |window: &Value| window["machine_ids"].as_array().cloned().unwrap_or_default();
    Ok(windows.iter().flat_map(machines).collect())
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let (call, mutation) = match command {
        Command::Schedule => {
            let schedule = client.get("/maintenance/schedule").await?;
            return windows(&schedule).print(output);
        }
        Command::Status => {
            let status = client.get("/maintenance/status").await?;
            return machines(&status).print(output);
        }
        Command::Set(set) => (update(&set)?, set.mutation),
        Command::Start(asked) => {
            if !(asked.yes || asked.mutation.is_dry_run()) {
                confirm(&format!("Take {} machines down?", asked.machines.len()))?;
            }
            let known = scheduled(client).await?;
            let machines = asked.machines.iter().map(|text| machine(&known, text));
            let body = json!({"machines": machines.collect::<Vec<_>>()});
            (json!({"type": "START_MAINTENANCE", "start_maintenance": body}), asked.mutation)
        }
        Command::Stop(asked) => {
            let known = scheduled(client).await?;
            let machines = asked.machines.iter().map(|text| machine(&known, text));
            let body = json!({"machines": machines.collect::<Vec<_>>()});
            (json!({"type": "STOP_MAINTENANCE", "stop_maintenance": body}), asked.mutation)
        }
    };
    mutation.send(client, output, "/api/v1", &call, None).await
}

fn update(set: &Set) -> Result<Value, Failure> {
    let fail = |reason: String| Failure::Usage(format!("{}: {reason}", set.file.display()));
    let text = std::fs::read_to_string(&set.file).map_err(|error| fail(error.to_string()))?;
    let schedule: Value = serde_json::from_str(&text).map_err(|error| fail(error.to_string()))?;
    let body = json!({"schedule": schedule});
    Ok(json!({"type": "UPDATE_MAINTENANCE_SCHEDULE", "update_maintenance_schedule": body}))
}

fn name(machine: &Value) -> String {
    let part = |key: &str| machine[key].as_str().filter(|text| !text.is_empty());
    match (part("hostname"), part("ip")) {
        (Some(hostname), Some(ip)) => format!("{hostname}@{ip}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => String::new(),
    }
}

fn seconds(nanoseconds: &Value) -> String {
    nanoseconds.as_i64().map(|ns| format!("{}s", ns / 1_000_000_000)).unwrap_or_default()
}

fn windows(schedule: &Value) -> Listing {
    let windows = schedule["windows"].as_array().map_or(&[][..], Vec::as_slice);
    let mut rows = Vec::new();
    for window in windows {
        let machines = window["machine_ids"].as_array().into_iter().flatten();
        let when = &window["unavailability"];
        rows.push(vec![
            machines.map(name).collect::<Vec<_>>().join(", "),
            seconds(&when["start"]["nanoseconds"]),
            seconds(&when["duration"]["nanoseconds"]),
        ]);
    }
    let headers = vec!["MACHINES", "START", "DURATION"];
    Listing { headers, narrow: 3, rows, json: json!(windows) }
}

fn machines(status: &Value) -> Listing {
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let mut rows = Vec::new();
    for draining in list("draining_machines") {
        let statuses = draining["statuses"].as_array().into_iter().flatten();
        let said = statuses.map(|status| {
            let framework = status["framework_id"]["value"].as_str().unwrap_or_default();
            format!("{framework} {}", status["status"].as_str().unwrap_or_default())
        });
        let said = said.collect::<Vec<_>>().join(", ");
        rows.push(vec![name(&draining["id"]), "draining".to_owned(), said]);
    }
    for down in list("down_machines") {
        rows.push(vec![name(&down), "down".to_owned(), String::new()]);
    }
    let headers = vec!["MACHINE", "STATE", "FRAMEWORKS"];
    Listing { headers, narrow: 3, rows, json: status.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_machines() {
        assert_eq!(machine(&[], "web1"), json!({"hostname": "web1"}));
        assert_eq!(machine(&[], "10.0.0.1"), json!({"ip": "10.0.0.1"}));
        let called_so = json!({"hostname": "10.0.0.1"});
        assert_eq!(machine(std::slice::from_ref(&called_so), "10.0.0.1"), called_so);
        let both = machine(&[], "web1@10.0.0.1");
        assert_eq!(name(&both), "web1@10.0.0.1");
        let status = json!({"draining_machines": [{"id": both, "statuses": [
            {"framework_id": {"value": "c-0001"}, "status": "ACCEPT"}]}],
            "down_machines": [{"ip": "10.0.0.2"}]});
        let rows = machines(&status).rows;
        assert_eq!(rows[0], ["web1@10.0.0.1", "draining", "c-0001 ACCEPT"]);
        assert_eq!(rows[1], ["10.0.0.2", "down", ""]);
    }
}
