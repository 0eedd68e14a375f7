//! `holdfast framework list|inspect|teardown`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::call::{Key, Mutating};
use super::client::Client;
use super::mutation::confirm;
use super::output::{Listing, Output, print, print_json, text};
use super::{resource, table};
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the frameworks
    List {
        /// Those that were removed lately, too
        #[arg(long)]
        all: bool,
    },
    /// Show one framework with its offers and executors
    Inspect {
        /// Id of the framework, the end of it, or its name
        framework: String,
    },
    /// Remove a framework and kill its tasks; its reservations and volumes stay
    Teardown(Teardown),
}

/// Flags of `framework teardown`.
#[derive(Debug, Args)]
pub(super) struct Teardown {
    /// Id of the framework, the end of it, or its name
    framework: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Say whether it would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::List { all: removed } => {
            let mut frameworks = all(client).await?;
            frameworks.retain(|framework| removed || framework["state"] != COMPLETED);
            list(&frameworks).print(output)
        }
        Command::Inspect { framework } => {
            let frameworks = all(client).await?;
            inspect(find(&frameworks, &framework)?, output)
        }
        Command::Teardown(teardown) => {
            let mut frameworks = all(client).await?;
            frameworks.retain(|framework| framework["state"] != COMPLETED);
            let framework = find(&frameworks, &teardown.framework)?;
            end(client, output, framework, &teardown).await
        }
    }
}

const COMPLETED: &str = "completed";

/// Every framework that the leader knows, the removed ones last, with a key `state` added.
pub(super) async fn all(client: &mut Client) -> Result<Vec<Value>, Failure> {
    let mut answer = client.get("/frameworks").await?;
    let mut frameworks = Vec::new();
    for (key, removed) in [("frameworks", None), ("completed_frameworks", Some(COMPLETED))] {
        for mut framework in answer[key].as_array_mut().into_iter().flat_map(|list| list.drain(..))
        {
            let state = removed.unwrap_or_else(|| match framework["active"].as_bool() {
                Some(true) => "active",
                _ => "away",
            });
            framework["state"] = json!(state);
            frameworks.push(framework);
        }
    }
    Ok(frameworks)
}

/// The framework that `name` means: its id, a unique end of an id, or a unique name.
pub(super) fn find<'a>(frameworks: &'a [Value], name: &str) -> Result<&'a Value, Failure> {
    let id = |framework: &&'a Value| framework["id"].as_str().unwrap_or_default();
    if let Some(framework) = frameworks.iter().find(|framework| id(framework) == name) {
        return Ok(framework);
    }
    let fitting: Vec<&Value> = frameworks
        .iter()
        .filter(|framework| {
            let is_end = id(framework).strip_suffix(name).is_some_and(|rest| rest.ends_with('-'));
            is_end || framework["name"] == name
        })
        .collect();
    match fitting.as_slice() {
        [framework] => Ok(framework),
        [] => Err(Failure::Refused(format!(
            "no framework is called '{name}'; see: holdfast framework list"
        ))),
        several => {
            let ids: Vec<&str> = several.iter().map(id).collect();
            Err(Failure::Usage(format!("'{name}' may mean any of {}", ids.join(", "))))
        }
    }
}

/// Removes it. The call has no key: when its answer is lost, a look at the frameworks tells.
async fn end(
    client: &mut Client,
    output: Output,
    framework: &Value,
    teardown: &Teardown,
) -> Result<(), Failure> {
    let id = text(&framework["id"]);
    let tasks = framework["tasks"].as_array().map_or(0, Vec::len);
    if !(teardown.yes || teardown.dry_run) {
        let name = text(&framework["name"]);
        confirm(&format!("Remove framework {id} '{name}' and kill its {tasks} tasks?"))?;
    }
    let query = if teardown.dry_run { "?dry_run=true" } else { "" };
    let call = Mutating {
        path: format!("/api/v1{query}"),
        body: &json!({"type": "TEARDOWN", "teardown": {"framework_id": {"value": id}}}),
        wait: std::time::Duration::ZERO,
        key: Key::None,
        if_version: None,
    };
    match client.execute(&call).await {
        Ok(_) => {}
        Err(Failure::Unknown(reason)) if !teardown.dry_run => {
            let now = all(client).await?;
            if !now.iter().any(|other| other["id"] == *id && other["state"] == COMPLETED) {
                return Err(Failure::Unknown(reason));
            }
        }
        Err(failure) => return Err(failure),
    }
    let state = if teardown.dry_run { "would be removed" } else { "removed" };
    match output {
        Output::Json => print_json(&json!({"framework_id": id, "state": state})),
        Output::Table | Output::Wide | Output::Yaml => {
            print(&format!("framework {id} {state}, {tasks} tasks\n"))
        }
    }
}

fn roles(framework: &Value) -> String {
    let roles = framework["roles"].as_array().into_iter().flatten().map(text);
    let role = framework.get("role").map(text);
    role.into_iter().chain(roles).collect::<Vec<_>>().join(",")
}

const HEADERS: [&str; 11] = [
    "ID",
    "NAME",
    "STATE",
    "ROLES",
    "TASKS",
    "USED",
    "OFFERED",
    "USER",
    "PRINCIPAL",
    "HOST",
    "REGISTERED",
];

fn cells(framework: &Value) -> Vec<String> {
    let tasks = framework["tasks"].as_array().map_or(0, Vec::len);
    vec![
        text(&framework["id"]),
        text(&framework["name"]),
        text(&framework["state"]),
        roles(framework),
        tasks.to_string(),
        resource::summary(&framework["used_resources"]),
        resource::summary(&framework["offered_resources"]),
        text(&framework["user"]),
        text(&framework["principal"]),
        text(&framework["hostname"]),
        text(&framework["registered_time"]),
    ]
}

fn list(frameworks: &[Value]) -> Listing {
    let rows = frameworks.iter().map(cells).collect();
    Listing { headers: HEADERS.to_vec(), narrow: 6, rows, json: json!(frameworks) }
}

fn inspect(framework: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return print_json(framework);
    }
    let mut facts: Vec<[String; 2]> =
        HEADERS.iter().map(|h| h.to_lowercase()).zip(cells(framework)).map(Into::into).collect();
    let capabilities = framework["capabilities"].as_array().into_iter().flatten().map(text);
    let capabilities = capabilities.collect::<Vec<_>>().join(" ");
    facts.push(["capabilities".to_owned(), capabilities]);
    facts.push(["failover timeout".to_owned(), format!("{} s", framework["failover_timeout"])]);
    for executor in framework["executors"].as_array().into_iter().flatten() {
        let (id, agent) = (text(&executor["executor_id"]), text(&executor["slave_id"]));
        facts.push(["executor".to_owned(), format!("{id} on {agent}")]);
    }
    for offer in framework["offers"].as_array().into_iter().flatten() {
        let (id, what) = (text(&offer["id"]), resource::summary(&offer["resources"]));
        facts.push(["offer".to_owned(), format!("{id} {what}")]);
    }
    print(&table::render(&["FIELD", "VALUE"], &facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_frameworks() {
        let frameworks = [
            json!({"id": "c-0001", "name": "web"}),
            json!({"id": "c-0002", "name": "db"}),
            json!({"id": "c-0003", "name": "db"}),
        ];
        let found = |name| find(&frameworks, name).map(|framework| text(&framework["id"]));
        for name in ["c-0001", "0001", "web"] {
            assert_eq!(found(name).unwrap(), "c-0001", "{name}");
        }
        assert!(matches!(found("db"), Err(Failure::Usage(_))));
        assert!(matches!(found("1"), Err(Failure::Refused(_))));
    }

    #[test]
    fn one_role_or_several() {
        assert_eq!(roles(&json!({"role": "*"})), "*");
        assert_eq!(roles(&json!({"roles": ["a", "b/c"]})), "a,b/c");
    }
}
