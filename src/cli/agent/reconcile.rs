//! `holdfast agent reconcile`: what differs on an agent whose disk is not what the masters know,
//! and what becomes of each object. Next: `../volume.rs`.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::super::call::{Key, Mutating};
use super::super::client::Client;
use super::super::mutation::confirm;
use super::super::output::{Output, print, print_json};
use super::super::{refusal, resource};
use crate::exit::{DETAIL, Failure};

/// Settle how an agent's disk differs from what the masters know. Nothing on the disk is removed
#[derive(Debug, Args)]
pub(in crate::cli) struct Reconcile {
    /// Id of the agent, the end of it, or its host name
    agent: String,
    /// Take over whatever it holds and give up whatever it does not, but for what is named
    #[arg(long)]
    accept: bool,
    /// Take over an object that only the agent knows
    #[arg(long, value_name = "OBJECT")]
    adopt: Vec<String>,
    /// Give up an object that the agent does not hold
    #[arg(long, value_name = "OBJECT")]
    forget: Vec<String>,
    /// Make an object again that the agent does not hold; a volume is empty then
    #[arg(long, value_name = "OBJECT")]
    recreate: Vec<String>,
    /// Show what would come of it, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Reconcile {
    /// The agent as it was named.
    pub(super) fn agent(&self) -> &str {
        &self.agent
    }

    /// Chooses, or shows what there is to choose when nothing is chosen.
    pub(super) async fn run(
        &self,
        client: &mut Client,
        output: Output,
        id: &str,
    ) -> Result<(), Failure> {
        let agent = client.get(&format!("/api/v1/agents/{id}")).await?;
        let discrepancy = &agent["discrepancy"];
        let names = [&self.adopt, &self.forget, &self.recreate];
        if !self.accept && names.iter().all(|names| names.is_empty()) {
            return show(discrepancy, output);
        }
        let body = json!({
            "digest": discrepancy["digest"],
            "accept": self.accept,
            "adopt": self.adopt,
            "forget": self.forget,
            "recreate": self.recreate,
        });
        let gives_up = discrepancy["missing"].as_array().is_some_and(|missing| !missing.is_empty());
        if gives_up && !(self.yes || self.dry_run) {
            print(&text(discrepancy)?)?;
            confirm("The masters give up what the agent does not hold. Go on?")?;
        }
        let query = if self.dry_run { "?dry_run=true" } else { "" };
        let call = Mutating {
            path: format!("/api/v1/agents/{id}/reconcile{query}"),
            body: &body,
            wait: Duration::ZERO,
            key: Key::None,
            if_version: None,
        };
        let answer = client.execute(&call).await?.body.unwrap_or_default();
        self.shown(&answer, output)
    }

    fn shown(&self, answer: &Value, output: Output) -> Result<(), Failure> {
        if output == Output::Json {
            print_json(answer)?;
        } else {
            for key in ["adopted", "forgotten", "recreated"] {
                for form in answer[key].as_array().into_iter().flatten() {
                    print(&format!("{key}: {}\n", resource::read(form)?))?;
                }
            }
        }
        let failing = answer["failing"].as_array().and_then(|failing| failing.first());
        if let Some(failing) = failing.and_then(Value::as_object) {
            let report = refusal::report(409, failing);
            return Err(Failure::Conflict(format!("dry run: it would be refused: {report}")));
        }
        if output == Output::Json {
            return Ok(());
        }
        print(match (self.dry_run, answer["is_cut"] == true) {
            (true, _) => "nothing was done: the call would be accepted\n",
            (false, true) => "done; more differs than one call names: look at the agent again\n",
            (false, false) => "done: the agent goes on with what it holds\n",
        })
    }
}

/// What differs, for people.
pub(super) fn text(discrepancy: &Value) -> Result<String, Failure> {
    let word = |key: &str| discrepancy[key].as_str().unwrap_or_default().to_owned();
    let mut text = format!("{}\n", word("standing"));
    for (key, what) in [
        ("foreign", "the agent holds it, the masters do not know it"),
        ("missing", "the masters know it, the agent does not hold it"),
    ] {
        for object in discrepancy[key].as_array().into_iter().flatten() {
            let (name, form) = (&object["name"], &object["resource"]);
            let name = name.as_str().unwrap_or_default();
            text.push_str(&format!("{name}: {}\n{DETAIL}{what}\n", resource::read(form)?));
            let step = object["next_step"].as_str().unwrap_or_default();
            text.push_str(&format!("{DETAIL}{step}\n"));
        }
    }
    if discrepancy["is_cut"] == true {
        text.push_str("and more\n");
    }
    text.push_str(&format!("next: {}\n", word("next_step")));
    Ok(text)
}

fn show(discrepancy: &Value, output: Output) -> Result<(), Failure> {
    match (output, discrepancy) {
        (Output::Json, discrepancy) => print_json(discrepancy),
        (_, Value::Null) => print("nothing differs: the agent holds what the masters know\n"),
        (_, discrepancy) => print(&text(discrepancy)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_shown_with_its_name_and_the_next_step() {
        let discrepancy = json!({
            "standing": "REGRESSED", "foreign": [], "is_cut": false, "next_step": "choose",
            "missing": [{"name": "missing-1", "next_step": "--forget", "resource":
                {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}}}],
        });
        let expected = format!(
            "REGRESSED\nmissing-1: cpus:1\n{DETAIL}the masters know it, the agent does not hold \
             it\n{DETAIL}--forget\nnext: choose\n"
        );
        assert_eq!(text(&discrepancy).unwrap(), expected);
    }
}
