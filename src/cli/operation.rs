//! `holdfast operation list|inspect|wait`.

use std::time::{Duration, Instant};

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Listing, Output, print_json, text};
use super::{mutation, table};
use crate::exit::Failure;

const PATH: &str = "/api/v1/operations";
const TRANSACTIONS: &str = "/api/v1/transactions";

/// Pause between two looks at an operation.
const PAUSE: Duration = Duration::from_millis(50);

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List operations that are pending or have lately ended
    List,
    /// Show one operation, or the transaction of that id
    Inspect {
        /// Id of the operation or transaction
        id: String,
    },
    /// Wait until the agents have finished an operation or transaction, or failed to
    Wait {
        /// Id of the operation or transaction
        id: String,
        /// How long
        #[arg(long, value_name = "DURATION", default_value = "30s")]
        #[arg(value_parser = mutation::duration)]
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
        Command::Inspect { id } => show(&find(client, &id).await?, output),
        Command::Wait { id, timeout } => {
            let begin = Instant::now();
            loop {
                let operation = find(client, &id).await?;
                match state(&operation) {
                    "PENDING" | "COMMITTED" if begin.elapsed() < timeout => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    "PENDING" | "COMMITTED" => {
                        return Err(Failure::Unknown(format!(
                            "{id} is still pending after {} ms",
                            begin.elapsed().as_millis()
                        )));
                    }
                    "FINISHED" => return show(&operation, output),
                    other => {
                        let reason = reasons(&operation);
                        return Err(Failure::Refused(format!("{id} is {other}: {reason}")));
                    }
                }
            }
        }
    }
}

/// The operation of that id, or else the transaction.
async fn find(client: &mut Client, id: &str) -> Result<Value, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if id.is_empty() || !id.chars().all(is_plain) {
        return Err(Failure::Usage(format!("'{id}' is no operation id")));
    }
    if let Some(operation) = client.find(&format!("{PATH}/{id}")).await? {
        return Ok(operation);
    }
    let transaction = client.find(&format!("{TRANSACTIONS}/{id}")).await?;
    transaction.ok_or_else(|| {
        Failure::Refused(format!("no operation or transaction '{id}' is on record any more"))
    })
}

/// Why it failed: the messages of its members, where it is a transaction.
fn reasons(operation: &Value) -> String {
    let members = operation["operations"].as_array().into_iter().flatten();
    let messages = std::iter::once(operation).chain(members).map(|entry| text(&entry["message"]));
    messages.filter(|message| !message.is_empty()).collect::<Vec<_>>().join("; ")
}

/// `OPERATION_PENDING` as `PENDING`, `TRANSACTION_PARTIAL` as `PARTIAL`.
fn state(operation: &Value) -> &str {
    let state = operation["state"].as_str().unwrap_or_default();
    state.split_once('_').map_or(state, |(_, state)| state)
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
    if let Some(members) = operation["operations"].as_array() {
        let id = text(&operation["transaction_id"]);
        super::print(&format!("transaction {id}: {}\n\n", state(operation)))?;
        return list(members).print(output);
    }
    let facts: Vec<[String; 2]> =
        HEADERS.iter().map(|h| h.to_lowercase()).zip(cells(operation)).map(Into::into).collect();
    super::print(&table::render(&["FIELD", "VALUE"], &facts))
}
