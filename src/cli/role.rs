//! `holdfast role list`.

use clap::Subcommand;
use serde_json::{Value, json};

use super::client::Client;
use super::output::{Listing, Output};
use super::resource;
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List roles with a framework, a reservation or an allocation, and the roles above them
    List,
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    let Command::List = command;
    let answer = client.get("/roles").await?;
    list(answer["roles"].as_array().map_or(&[], Vec::as_slice)).print(output)
}

const HEADERS: [&str; 8] =
    ["ROLE", "WEIGHT", "FRAMEWORKS", "RESERVED", "ALLOCATED", "OFFERED", "GUARANTEE", "LIMIT"];

fn list(roles: &[Value]) -> Listing {
    let cells = |role: &Value| {
        vec![
            role["name"].as_str().unwrap_or_default().to_owned(),
            role["weight"].to_string().trim_end_matches(".0").to_owned(),
            role["frameworks"].as_array().map_or(0, Vec::len).to_string(),
            resource::summary(&role["reserved"]),
            resource::summary(&role["allocated"]),
            resource::summary(&role["offered"]),
            resource::summary(&role["quota"]["guarantee"]),
            limits(&role["quota"]["limit"]),
        ]
    };
    let rows = roles.iter().map(cells).collect();
    Listing { headers: HEADERS.to_vec(), narrow: 5, rows, json: json!(roles) }
}

/// A limit of nothing is one.
fn limits(limits: &Value) -> String {
    let entries = limits.as_object().into_iter().flatten();
    let texts =
        entries.map(|(name, limit)| format!("{name}:{}", limit.to_string().trim_end_matches(".0")));
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row() {
        let role = json!({"name": "ads", "weight": 1.0, "frameworks": ["c-0001"],
            "reserved": {"disk": 100.0}, "allocated": {}, "offered": {"cpus": 1.5},
            "quota": {"limit": {"mem": 0.0}}});
        let expected = ["ads", "1", "1", "disk:100", "", "cpus:1.5", "", "mem:0"];
        assert_eq!(list(&[role]).rows[0], expected);
    }
}
