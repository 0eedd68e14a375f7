//! `holdfast operation list|inspect|wait`.

use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Listing, Output, print_json};
use super::{resource, table};
use crate::exit::Failure;

const PATH: &str = "/api/v1/operations";

/// Pause between two looks at an operation.
const PAUSE: Duration = Duration::from_millis(50);

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List operations that are pending or have lately ended
    List,
    /// Show one operation
    Inspect {
        /// Id of the operation
        id: String,
    },
    /// Wait until the agent has finished an operation, or failed to
    Wait {
        /// Id of the operation
        id: String,
        /// How long
        #[arg(long, value_name = "DURATION", default_value = "30s")]
        #[arg(value_parser = resource::duration)]
        timeout: Duration,
    },
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::List => {
            let answer = client.get(PATH).await?;
            let operations = answer.as_array().or_else(|| answer["operations"].as_array());
            list(operations.map_or(&[], Vec::as_slice)).print(output)
        }
        Command::Inspect { id } => show(&client.get(&path(&id)?).await?, output),
        Command::Wait { id, timeout } => {
            let begin = Instant::now();
            loop {
                let operation = client.get(&path(&id)?).await?;
                match state(&operation) {
                    "PENDING" if begin.elapsed() < timeout => tokio::time::sleep(PAUSE).await,
                    "PENDING" => {
                        return Err(Failure::Unknown(format!(
                            "operation {id} is still pending after {} ms",
                            begin.elapsed().as_millis()
                        )));
                    }
                    "FINISHED" => return show(&operation, output),
                    other => {
                        let reason = text(&operation["message"]);
                        return Err(Failure::Refused(format!("operation {id} {other}: {reason}")));
                    }
                }
            }
        }
    }
}

fn path(id: &str) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || !id.chars().all(is_plain) {
        return Err(Failure::Usage(format!("'{id}' is no operation id")));
    }
    Ok(format!("{PATH}/{id}"))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `OPERATION_PENDING` as `PENDING`.
fn state(operation: &Value) -> &str {
    let state = operation["state"].as_str().unwrap_or_default();
    state.strip_prefix("OPERATION_").unwrap_or(state)
}

fn cells(operation: &Value) -> Vec<String> {
    let resources = operation["resources"].as_array().into_iter().flatten();
    let resources: Vec<String> = resources
        .map(|resource| {
            let amount = text(&resource["scalar"]["value"]);
            format!("{}:{}", text(&resource["name"]), amount.trim_end_matches(".0"))
        })
        .collect();
    vec![
        text(&operation["operation_id"]),
        text(&operation["type"]),
        state(operation).to_owned(),
        text(&operation["agent_id"]),
        text(&operation["message"]),
        text(&operation["principal"]),
        text(&operation["submitted_at"]),
        text(&operation["settled_at"]),
        resources.join(" "),
    ]
}

const HEADERS: [&str; 9] =
    ["ID", "TYPE", "STATE", "AGENT", "MESSAGE", "PRINCIPAL", "SUBMITTED", "SETTLED", "RESOURCES"];

fn list(operations: &[Value]) -> Listing {
    let rows = operations.iter().map(cells).collect();
    Listing { headers: HEADERS.to_vec(), narrow: 5, rows, json: json!(operations) }
}

fn show(operation: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return print_json(operation);
    }
    let facts: Vec<[String; 2]> =
        HEADERS.iter().map(|h| h.to_lowercase()).zip(cells(operation)).map(Into::into).collect();
    super::print(&table::render(&["FIELD", "VALUE"], &facts))
}
