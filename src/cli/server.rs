//! `holdfast server list|status|add|promote|remove|replace|transfer-leader`: the masters.

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::call::{Key, Mutating};
use super::client::Client;
use super::mutation::confirm;
use super::output::{Listing, Output, text};
use super::status;
use crate::exit::Failure;

/// How long a master may take for a change: a replacement has to catch up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a change is asked for whose answer was lost.
const ATTEMPTS_MAX: u32 = 3;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the members: voters and learners, and how far each one's log is
    List,
    /// Show the masters given and the leader as each sees itself
    Status,
    /// Take a master in as a learner; it runs with --join or is started with an empty --work-dir
    Add {
        /// Its number, never used before in this cluster
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        id: u64,
        /// Its peer address
        #[arg(value_name = "HOST:PORT")]
        peer: String,
    },
    /// Make a learner that has caught up a voter
    Promote {
        /// Its number
        id: u64,
    },
    /// Let a member go; a leader hands leadership over first
    Remove {
        /// Its number
        id: u64,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Put a new master in the place of a member, in one step
    Replace {
        /// Who goes
        old: u64,
        /// Who comes, or the same number at another address
        new: u64,
        /// The peer address of who comes
        #[arg(value_name = "HOST:PORT")]
        peer: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Give leadership to another voter
    TransferLeader {
        /// To whom [default: the one with the longest log]
        to: Option<u64>,
    },
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let (call, body) = match command {
        Command::List => {
            let members = client.get("/api/v1/servers").await?;
            return list(&members).print(output);
        }
        Command::Status => return status::servers(client, output).await,
        Command::Add { id, peer } => ("add", json!({"id": id, "peer": peer})),
        Command::Promote { id } => ("promote", json!({"id": id})),
        Command::Remove { id, yes } => {
            if !yes {
                confirm(&format!("Remove master {id} from the cluster?"))?;
            }
            ("remove", json!({"id": id}))
        }
        Command::Replace { old, new, peer, yes } => {
            if !yes {
                confirm(&format!("Replace master {old} by master {new} at {peer}?"))?;
            }
            ("replace", json!({"old": old, "new": new, "peer": peer}))
        }
        Command::TransferLeader { to } => ("transfer-leader", json!({"to": to})),
    };
    change(client, call, &body).await?;
    // Of whoever leads by now: only the leader knows how the others are.
    list(&client.get("/api/v1/servers").await?).print(output)
}

/// Asks for a change, again when the answer is lost: a change that is done already is done.
async fn change(client: &mut Client, call: &str, body: &Value) -> Result<(), Failure> {
    let path = format!("/api/v1/servers/{call}");
    let mut attempt = 1;
    loop {
        let call =
            Mutating { path: path.clone(), body, wait: PATIENCE, key: Key::None, if_version: None };
        match client.execute(&call).await {
            Ok(_) => return Ok(()),
            Err(Failure::Unknown(_)) if attempt < ATTEMPTS_MAX => attempt += 1,
            Err(failure) => return Err(failure),
        }
    }
}

fn list(members: &Value) -> Listing {
    let rows = members.as_array().into_iter().flatten().map(cells).collect();
    let headers = ["ID", "ROLE", "STATE", "PEER", "ADDRESS", "LAG", "MATCHED"];
    Listing { headers: headers.to_vec(), narrow: 6, rows, json: members.clone() }
}

fn cells(member: &Value) -> Vec<String> {
    let state = match (member["leader"].as_bool(), member["answering"].as_bool()) {
        (Some(true), _) => "leader",
        (_, Some(true)) => "answering",
        (_, Some(false)) => "silent",
        (_, None) => "",
    };
    vec![
        text(&member["id"]),
        text(&member["role"]),
        state.to_owned(),
        text(&member["peer"]),
        text(&member["advertise"]),
        text(&member["lag"]),
        text(&member["matched"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_as_lines() {
        let member = |leader: bool, answering: Value| {
            json!({"id": 2, "role": "voter", "leader": leader, "peer": "a:6051",
                "advertise": null, "answering": answering, "matched": 7, "lag": 0})
        };
        let state = |member: Value| cells(&member)[2].clone();
        assert_eq!(state(member(true, json!(true))), "leader");
        assert_eq!(state(member(false, json!(true))), "answering");
        assert_eq!(state(member(false, json!(false))), "silent");
        assert_eq!(state(member(false, Value::Null)), "");
        let expected = ["2", "voter", "", "a:6051", "", "0", "7"];
        assert_eq!(cells(&member(false, Value::Null)), expected);
    }
}
