//! What all mutating commands share: `--dry-run`, `--wait`, `--timeout`, `--key`, `--if-version`,
//! the call itself, and how its outcome is shown. Must not know what a call changes.
//! Next: `resource.rs`.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use clap::{Args, ValueEnum};
use resources::parse;
use serde_json::{Value, json};

use super::call::{Key, Mutating};
use super::client::Client;
use super::output::{Output, print, print_json};
use super::{refusal, resource};
use crate::exit::{DETAIL, Failure};

/// What a mutating command waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Wait {
    /// A quorum of masters has it, and it is applied
    Committed,
    /// The agent has it on its disk
    Checkpointed,
}

impl Wait {
    fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Checkpointed => "checkpointed",
        }
    }
}

/// Flags of every mutating command.
#[derive(Debug, Args)]
pub(super) struct Mutation {
    /// Show what would change, or every check that fails, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until the agent has it on its disk, or for less with =committed
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, value_name = "STATE")]
    #[arg(default_value = "committed", default_missing_value = "checkpointed")]
    wait: Wait,
    /// How long to wait for the agent
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// Name of this call: the same command with the same key is done once, and tells its outcome
    /// again [default: made for this call]
    #[arg(long, value_name = "TEXT", value_parser = key)]
    key: Option<String>,
    /// Whether what is in the way of nothing but care is to be done
    #[arg(skip)]
    is_forced: bool,
}

/// Flag of mutating commands on one agent.
#[derive(Debug, Args)]
pub(super) struct IfVersion {
    /// Do it only while the agent's resources have this version (see: agent list)
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<u64>,
}

/// Parses a duration of the command line.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse::duration(text).map_err(|error| error.to_string())
}

/// Parses an idempotency key: what fits into a header, in the bounds of the masters.
pub(super) fn key(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match is_plain && text.trim() == text && (1..=128).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 128 printable ASCII characters".to_owned()),
    }
}

impl Mutation {
    /// The same call, done in spite of what only warns.
    pub(super) fn forced(self, is_forced: bool) -> Self {
        Self { is_forced, ..self }
    }

    /// Whether nothing is to be done.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Makes the operator call of that type on resources (or volumes) of one agent, and prints
    /// under which operation id it was accepted.
    pub(super) async fn execute(
        &self,
        client: &mut Client,
        output: Output,
        version: &IfVersion,
        kind: &str,
        body: Value,
    ) -> Result<(), Failure> {
        let call = json!({"type": kind, kind.to_lowercase(): body});
        self.send(client, output, "/api/v1", &call, version.if_version).await
    }

    /// POSTs `body` to `path` and prints what came of it.
    pub(super) async fn send(
        &self,
        client: &mut Client,
        output: Output,
        path: &str,
        body: &Value,
        if_version: Option<u64>,
    ) -> Result<(), Failure> {
        let call = Mutating {
            path: format!("{path}{}", self.query()),
            body,
            wait: if self.wait == Wait::Checkpointed { self.timeout } else { Duration::ZERO },
            key: match &self.key {
                Some(key) => Key::Given(key.clone()),
                None if self.dry_run => Key::None,
                None => Key::Made(format!("cli-{:032x}", rand::random::<u128>())),
            },
            if_version,
        };
        let accepted = client.execute(&call).await?;
        if self.dry_run {
            return show_dry_run(&accepted.body.unwrap_or_default(), output);
        }
        let state = self.wait.name();
        if output == Output::Json {
            let mut shown = json!({"operation_id": accepted.operation_id, "state": state});
            let further = accepted.body.as_ref().and_then(Value::as_object);
            for (key, value) in further.into_iter().flatten() {
                shown[key] = value.clone();
            }
            return print_json(&shown);
        }
        let members = accepted.body.as_ref().and_then(|body| body["operation_ids"].as_array());
        let noun = if members.is_some() { "transaction" } else { "operation" };
        let id = accepted.operation_id.map(|id| format!(": {noun} {id}")).unwrap_or_default();
        let members = members.map(|ids| format!(" of {} operations", ids.len()));
        print(&format!("{state}{id}{}\n", members.unwrap_or_default()))
    }

    fn query(&self) -> String {
        let force = if self.is_forced { "&force=true" } else { "" };
        if self.dry_run {
            return format!("?dry_run=true{force}");
        }
        match self.wait {
            Wait::Committed => format!("?wait=committed{force}"),
            Wait::Checkpointed => {
                format!("?wait=checkpointed&timeout={}ms{force}", self.timeout.as_millis())
            }
        }
    }
}

/// What would change by agent, or the checks that fail; a failure when there are any.
pub(super) fn show_dry_run(answer: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        print_json(answer)?;
    } else {
        for change in answer["changes"].as_array().into_iter().flatten() {
            print(&shown_change(change)?)?;
        }
    }
    let failing = answer["failing"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(first) = failing.first() else {
        let text = "nothing was done: the call would be accepted\n";
        return if output == Output::Json { Ok(()) } else { print(text) };
    };
    let reports: Vec<String> = failing
        .iter()
        .filter_map(|check| Some(refusal::report(status(check), check.as_object()?)))
        .collect();
    let text = format!(
        "dry run: {} of the checks would fail: {}",
        failing.len(),
        reports.join(&format!("\n{DETAIL}and: "))
    );
    Err(match status(first) {
        409 | 412 | 422 => Failure::Conflict(text),
        _ => Failure::Refused(text),
    })
}

fn status(check: &Value) -> u16 {
    check["status"].as_u64().and_then(|status| status.try_into().ok()).unwrap_or(400)
}

fn shown_change(change: &Value) -> Result<String, Failure> {
    let agent = change["agent_id"].as_str().unwrap_or_default();
    let mut text = format!("agent {agent}, version {}\n", change["resource_version"]);
    for (key, sign) in [("removed", '-'), ("added", '+')] {
        for form in change[key].as_array().into_iter().flatten() {
            text = format!("{text}{DETAIL}{sign} {}\n", resource::read(form)?);
        }
    }
    Ok(text)
}

/// Asks on the terminal; without one, the answer must come by flag.
pub(super) fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage("this cannot be undone: add --yes".to_owned()));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stderr().flush().and_then(|()| io::stdin().read_line(&mut answer));
    match read {
        Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        Ok(_) | Err(_) => Err(Failure::Refused("nothing was done".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        assert!(key("deploy 17/b").is_ok());
        for bad in ["", " a", "a\nb", "ä", &"k".repeat(129)] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn dry_runs_end_as_the_call_would() {
        let fine = json!({"changes": [], "failing": []});
        assert_eq!(show_dry_run(&fine, Output::Table), Ok(()));
        let check = |status: u16| json!({"failing": [{"status": status, "message": "m"}]});
        let conflict = show_dry_run(&check(409), Output::Table);
        assert!(matches!(conflict, Err(Failure::Conflict(_))));
        assert!(matches!(show_dry_run(&check(400), Output::Table), Err(Failure::Refused(_))));
    }

    #[test]
    fn changes_are_shown_with_their_reservations() {
        let change = json!({"agent_id": "c-S0", "resource_version": 7, "removed": [
            {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}}], "added": []});
        assert_eq!(shown_change(&change).unwrap(), "agent c-S0, version 7\n  - cpus:1\n");
    }
}
