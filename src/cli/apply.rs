//! `holdfast apply -f FILE`: several operations as one transaction. The file is the body of
//! `POST /api/v1/transaction`, in JSON or TOML; an agent may be named as on the command line.
//! Must not know what an operation does.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use serde_json::{Map, Value, json};

use super::agent;
use super::client::Client;
use super::mutation::Mutation;
use super::output::Output;
use crate::exit::Failure;

const PATH: &str = "/api/v1/transaction";
const OPERATIONS: &str = "operations";
const VERSIONS: &str = "if_versions";

/// What the file holds, for `--help`.
const FORM: &str = "\
The file: {\"operations\": [{\"agent_id\": \"S0\", \"type\": \"RESERVE\",
           \"reserve\": {\"resources\": [...]}}, ...], \"if_versions\": {\"S0\": 12}}
Each operation is Mesos' Offer.Operation with its agent beside it; the agent is an id, the end of
one, or a host name. Later operations see what earlier ones make.";

/// Flags of `apply`.
#[derive(Debug, Args)]
#[command(after_help = FORM)]
pub(super) struct Apply {
    /// File with the operations: JSON, or TOML when its name ends so; - is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    mutation: Mutation,
}

/// Runs it.
pub(super) async fn run(client: &mut Client, output: Output, apply: Apply) -> Result<(), Failure> {
    let mut body = read(&apply.file)?;
    let agents = agent::all(client).await?;
    resolve(&mut body, &agents)?;
    apply.mutation.send(client, output, PATH, &Value::Object(body), None).await
}

/// The object that the file holds.
fn read(path: &Path) -> Result<Map<String, Value>, Failure> {
    let usage = |what: String| Failure::Usage(format!("--file {}: {what}", path.display()));
    let mut text = String::new();
    if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map_err(|error| usage(error.to_string()))?;
    } else {
        text = fs::read_to_string(path).map_err(|error| usage(error.to_string()))?;
    }
    let parsed: Value = match path.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(&text).map_err(|error| usage(error.message().to_owned()))?,
        Some("yaml" | "yml") => return Err(usage("YAML is not built in; use JSON".to_owned())),
        _ => serde_json::from_str(&text).map_err(|error| usage(error.to_string()))?,
    };
    match parsed {
        Value::Object(body) if body.get(OPERATIONS).is_some_and(Value::is_array) => Ok(body),
        _ => Err(usage(format!("expected an object with a list '{OPERATIONS}'"))),
    }
}

/// Puts ids in the place of the names of agents.
fn resolve(body: &mut Map<String, Value>, agents: &[Value]) -> Result<(), Failure> {
    let id = |name: &str| agent::id(agent::find(agents, name)?).map(str::to_owned);
    for operation in body.get_mut(OPERATIONS).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(name) = operation["agent_id"].as_str() {
            operation["agent_id"] = json!(id(name)?);
        }
    }
    if let Some(versions) = body.get_mut(VERSIONS).and_then(Value::as_object_mut) {
        let named = std::mem::take(versions);
        for (name, version) in named {
            versions.insert(id(&name)?, version);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_by_name() {
        let agents = [json!({"id": "c1-S1", "hostname": "a"})];
        let mut body = json!({"operations": [{"agent_id": "S1"}, {"agent_id": {"value": "x"}}],
            "if_versions": {"a": 7}});
        let object = body.as_object_mut().unwrap();
        resolve(object, &agents).unwrap();
        let expected = json!({"operations": [{"agent_id": "c1-S1"}, {"agent_id": {"value": "x"}}],
            "if_versions": {"c1-S1": 7}});
        assert_eq!(body, expected);
        let mut unknown = json!({"operations": [{"agent_id": "S2"}]});
        assert!(resolve(unknown.as_object_mut().unwrap(), &agents).is_err());
    }

    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            read(&path)
        };
        let operation = json!([{"agent_id": "S1", "type": "RESERVE"}]);
        let object =
            written("a.json", r#"{"operations": [{"agent_id": "S1", "type": "RESERVE"}]}"#);
        assert_eq!(object.unwrap()[OPERATIONS], operation);
        let table = "[[operations]]\nagent_id = \"S1\"\ntype = \"RESERVE\"\n";
        assert_eq!(written("a.toml", table).unwrap()[OPERATIONS], operation);
        for (name, text) in
            [("b.json", "[]"), ("c.json", "{"), ("d.toml", "="), ("e.yaml", "a: 1"), ("f", "{}")]
        {
            assert!(matches!(written(name, text), Err(Failure::Usage(_))), "{name}");
        }
    }
}
