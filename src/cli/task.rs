//! `holdfast task list`.

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Listing, Output, text};
use super::{framework, resource};
use crate::exit::Failure;

/// States of tasks that run no longer.
const ENDED: [&str; 8] = [
    "TASK_FINISHED",
    "TASK_FAILED",
    "TASK_KILLED",
    "TASK_ERROR",
    "TASK_LOST",
    "TASK_DROPPED",
    "TASK_GONE",
    "TASK_GONE_BY_OPERATOR",
];

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the tasks
    List {
        /// Only those of this framework: its id, the end of it, or its name
        #[arg(long)]
        framework: Option<String>,
        /// Those that ended lately, too
        #[arg(long)]
        all: bool,
    },
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let Command::List { framework, all } = command;
    let owner = match &framework {
        Some(name) => {
            let frameworks = framework::all(client).await?;
            Some(framework::find(&frameworks, name)?["id"].clone())
        }
        None => None,
    };
    let mut answer = client.get("/tasks?limit=-1&order=asc").await?;
    let mut tasks: Vec<Value> =
        answer["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default();
    tasks.retain(|task| {
        let is_wanted = owner.as_ref().is_none_or(|owner| task["framework_id"] == *owner);
        is_wanted && (all || !ENDED.contains(&task["state"].as_str().unwrap_or_default()))
    });
    list(&tasks).print(output)
}

/// `TASK_RUNNING` as `RUNNING`.
fn state(task: &Value) -> &str {
    let state = task["state"].as_str().unwrap_or_default();
    state.strip_prefix("TASK_").unwrap_or(state)
}

const HEADERS: [&str; 10] =
    ["ID", "STATE", "FRAMEWORK", "AGENT", "RESOURCES", "NAME", "ROLE", "EXECUTOR", "USER", "SINCE"];

fn list(tasks: &[Value]) -> Listing {
    let cells = |task: &Value| {
        vec![
            text(&task["id"]),
            state(task).to_owned(),
            text(&task["framework_id"]),
            text(&task["slave_id"]),
            resource::summary(&task["resources"]),
            text(&task["name"]),
            text(&task["role"]),
            text(&task["executor_id"]),
            text(&task["user"]),
            text(&task["statuses"][0]["timestamp"]),
        ]
    };
    let rows = tasks.iter().map(cells).collect();
    Listing { headers: HEADERS.to_vec(), narrow: 5, rows, json: json!(tasks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row() {
        let task = json!({"id": "t1", "state": "TASK_RUNNING", "framework_id": "c-0001",
            "slave_id": "c-S0", "resources": {"cpus": 1.0, "disk": 0.0}, "statuses": []});
        let listing = list(&[task]);
        assert_eq!(listing.rows[0][..5], ["t1", "RUNNING", "c-0001", "c-S0", "cpus:1"]);
        assert_eq!(listing.rows[0].len(), HEADERS.len());
        assert_eq!(listing.rows[0][9], "");
    }
}
