//! `holdfast agent drain|deactivate|reactivate|gone`: commands about a whole agent. Must not know
//! how agents are listed.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{find, id, standings};
use crate::cli::call::{Key, Mutating};
use crate::cli::client::Client;
use crate::cli::mutation::{confirm, duration, key, show_dry_run};
use crate::cli::output::{Output, print, print_json, text};
use crate::cli::resource;
use crate::exit::Failure;

/// How often a drain is looked at.
const PAUSE: Duration = Duration::from_millis(250);

/// Flags of every command about an agent.
#[derive(Debug, Args)]
pub(in crate::cli) struct Change {
    /// Id of the agent, the end of it, or its host name
    agent: String,
    /// Say what would become of it, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Name of this call: the same command with the same key is done once, and tells its outcome
    /// again [default: made for this call]
    #[arg(long, value_name = "TEXT", value_parser = key)]
    key: Option<String>,
}

/// Flags of `agent gone`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Gone {
    #[command(flatten)]
    change: Change,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Flags of `agent drain`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Drain {
    #[command(flatten)]
    change: Change,
    /// How long a task may take to end by itself, at most [default: its own policy]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    max_grace_period: Option<Duration>,
    /// Give the agent up for ever once nothing is left on it
    #[arg(long)]
    mark_gone: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Wait until nothing is left on it
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "DURATION", default_value = "10mins", value_parser = duration)]
    timeout: Duration,
}

pub(super) async fn gone(
    client: &mut Client,
    output: Output,
    command: Gone,
) -> Result<(), Failure> {
    let agent = named(client, &command.change.agent).await?;
    if !(command.yes || command.change.dry_run) {
        confirm(&format!("Give up agent {} for ever, {}?", text(&agent["id"]), loss(&agent)?))?;
    }
    let body = json!({"agent_id": {"value": agent["id"]}});
    command.change.send(client, output, &agent, ("MARK_AGENT_GONE", body, "gone")).await
}

pub(super) async fn deactivate(
    client: &mut Client,
    output: Output,
    change: Change,
) -> Result<(), Failure> {
    let agent = named(client, &change.agent).await?;
    let body = json!({"agent_id": {"value": agent["id"]}});
    change.send(client, output, &agent, ("DEACTIVATE_AGENT", body, "deactivated")).await
}

pub(super) async fn reactivate(
    client: &mut Client,
    output: Output,
    change: Change,
) -> Result<(), Failure> {
    let agent = named(client, &change.agent).await?;
    let body = json!({"agent_id": {"value": agent["id"]}});
    change.send(client, output, &agent, ("REACTIVATE_AGENT", body, "active")).await
}

pub(super) async fn drain(
    client: &mut Client,
    output: Output,
    command: Drain,
) -> Result<(), Failure> {
    let agent = named(client, &command.change.agent).await?;
    if !(command.yes || command.change.dry_run) {
        let (id, tasks) = (text(&agent["id"]), &agent["tasks"]);
        confirm(&match command.mark_gone {
            true => format!("Drain agent {id} and give it up for ever, {}?", loss(&agent)?),
            false => format!("Drain agent {id} and end its {tasks} tasks?"),
        })?;
    }
    let mut body = json!({"agent_id": {"value": agent["id"]}, "mark_gone": command.mark_gone});
    if let Some(grace) = command.max_grace_period {
        let (seconds, nanos) = (grace.as_secs(), grace.subsec_nanos());
        body["max_grace_period"] = json!({"seconds": seconds, "nanos": nanos});
    }
    let is_waiting = command.wait && !command.change.dry_run;
    let shown = if is_waiting { None } else { Some(output) };
    command.change.execute(client, shown, &agent, ("DRAIN_AGENT", body, "draining")).await?;
    if is_waiting {
        let id = id(&agent)?;
        let state = drained(client, id, command.timeout).await?;
        return show(output, id, state);
    }
    Ok(())
}

impl Change {
    async fn send(
        &self,
        client: &mut Client,
        output: Output,
        agent: &Value,
        call: (&str, Value, &str),
    ) -> Result<(), Failure> {
        self.execute(client, Some(output), agent, call).await
    }

    /// Makes the call of this type, and shows what the agent is from then on, if somebody wants
    /// to know.
    async fn execute(
        &self,
        client: &mut Client,
        output: Option<Output>,
        agent: &Value,
        (kind, body, state): (&str, Value, &str),
    ) -> Result<(), Failure> {
        let call = Mutating {
            path: format!("/api/v1{}", if self.dry_run { "?dry_run=true" } else { "" }),
            body: &json!({"type": kind, kind.to_lowercase(): body}),
            wait: Duration::ZERO,
            key: match &self.key {
                Some(key) => Key::Given(key.clone()),
                None if self.dry_run => Key::None,
                None => Key::Made(format!("cli-{:032x}", rand::random::<u128>())),
            },
            if_version: None,
        };
        let accepted = client.execute(&call).await?;
        match output {
            None => Ok(()),
            Some(output) if self.dry_run => {
                let answer = accepted.body.unwrap_or_default();
                let tasks = answer["tasks"].as_u64().unwrap_or_default();
                if tasks > 0 && output != Output::Json {
                    print(&format!("{tasks} tasks would end\n"))?;
                }
                show_dry_run(&answer, output)
            }
            Some(output) => show(output, id(agent)?, state),
        }
    }
}

fn show(output: Output, id: &str, state: &str) -> Result<(), Failure> {
    match output {
        Output::Json => print_json(&json!({"agent_id": id, "state": state})),
        Output::Table | Output::Wide | Output::Yaml => print(&format!("agent {id} is {state}\n")),
    }
}

/// The agent that is meant, whether it is there or not.
async fn named(client: &mut Client, name: &str) -> Result<Value, Failure> {
    let agents = standings(client).await?;
    find(&agents, name).cloned()
}

/// What goes with an agent.
fn loss(agent: &Value) -> Result<String, Failure> {
    let forms = agent["total"].as_array().into_iter().flatten();
    let held: Vec<_> = forms.map(resource::held).collect::<Result<_, _>>()?;
    let volumes = held.iter().filter(|held| held.volume_id.is_some()).count();
    let reserved = held.iter().filter(|held| !held.role.is_empty()).count() - volumes;
    Ok(format!("with {} tasks, {reserved} reservations and {volumes} volumes", agent["tasks"]))
}

/// Waits until nothing is left on an agent; says what it is then.
async fn drained(
    client: &mut Client,
    id: &str,
    timeout: Duration,
) -> Result<&'static str, Failure> {
    let deadline = Instant::now() + timeout;
    loop {
        let agents = standings(client).await?;
        let agent = agents.iter().find(|agent| agent["id"] == id);
        let left = match agent {
            None => return Ok("gone"),
            Some(agent) => match agent["activation"].as_str() {
                Some("DRAINING") => format!(
                    "{} tasks and {} operations are left, and it is {}",
                    agent["tasks"],
                    agent["pending"],
                    text(&agent["presence"])
                ),
                Some("DRAINED") => return Ok("drained"),
                _ => {
                    let text = format!("agent {id} was reactivated before it was drained");
                    return Err(Failure::Refused(text));
                }
            },
        };
        if Instant::now() >= deadline {
            let text = format!("agent {id} still drains after {timeout:?}: {left}");
            return Err(Failure::Unknown(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
