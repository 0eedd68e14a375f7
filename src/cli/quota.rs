//! `holdfast quota list|set|remove`.

use clap::{Args, Subcommand};
use resources::quantity::{InvalidQuantities, Limits, Quantities};
use resources::role::Role;
use resources::value::Scalar;
use serde_json::{Map, Value, json};

use super::client::Client;
use super::mutation::{Mutation, confirm};
use super::output::{Listing, Output, text};
use super::resource;
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the quotas, with what each role consumes
    List,
    /// Give a role a quota, in place of the one that it has
    Set(Set),
    /// Take away the quota of a role
    Remove(Remove),
}

/// Flags of `quota set`.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// The role; it lies below no other
    #[arg(value_parser = resource::role)]
    role: Role,
    /// What is kept for it, such as cpus:4;mem:1024
    #[arg(long, value_name = "LIST", default_value = "", value_parser = Quantities::parse)]
    guarantee: Quantities,
    /// What it never exceeds; what is not named is unlimited
    #[arg(long, value_name = "LIST", default_value = "", value_parser = limits)]
    limit: Limits,
    /// Do it even if the role consumes more already, or there is not enough for all guarantees
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    mutation: Mutation,
}

/// Flags of `quota remove`.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The role
    #[arg(value_parser = resource::role)]
    role: Role,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    mutation: Mutation,
}

fn limits(text: &str) -> Result<Limits, InvalidQuantities> {
    Limits::parse(text)
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::List => {
            let quotas = client.get("/quota").await?;
            let roles = client.get("/roles").await?;
            list(&quotas, &roles).print(output)
        }
        Command::Set(set) => {
            let call = update(&set)?;
            set.mutation.send(client, output, "/api/v1", &call, None).await
        }
        Command::Remove(remove) => {
            if !(remove.yes || remove.mutation.is_dry_run()) {
                confirm(&format!("Take away the quota of role {}?", remove.role))?;
            }
            let call = json!({"type": "REMOVE_QUOTA",
                "remove_quota": {"role": remove.role.as_str()}});
            remove.mutation.send(client, output, "/api/v1", &call, None).await
        }
    }
}

fn update(set: &Set) -> Result<Value, Failure> {
    if set.guarantee.is_empty() && set.limit.0.is_empty() {
        let text = "nothing is guaranteed or limited; see: holdfast quota remove";
        return Err(Failure::Usage(text.to_owned()));
    }
    let limits = set.limit.0.iter().map(|(name, amount)| (name.as_str(), *amount));
    let config = json!({
        "role": set.role.as_str(),
        "guarantees": scalars(set.guarantee.iter()),
        "limits": scalars(limits),
    });
    Ok(json!({"type": "UPDATE_QUOTA",
        "update_quota": {"force": set.force, "quota_configs": [config]}}))
}

fn scalars<'a>(amounts: impl Iterator<Item = (&'a str, Scalar)>) -> Value {
    let entry =
        |(name, amount): (&str, Scalar)| (name.to_owned(), json!({"value": amount.to_f64()}));
    Value::Object(amounts.map(entry).collect())
}

const HEADERS: [&str; 4] = ["ROLE", "GUARANTEE", "LIMIT", "CONSUMED"];

fn list(quotas: &Value, roles: &Value) -> Listing {
    let configs = quotas["configs"].as_array().map_or(&[][..], Vec::as_slice);
    let consumed = |role: &Value| {
        let mut roles = roles["roles"].as_array().into_iter().flatten();
        let entry = roles.find(|entry| entry["name"] == *role);
        entry.map(|entry| resource::summary(&entry["quota"]["consumed"])).unwrap_or_default()
    };
    let cells = |config: &Value| {
        vec![
            text(&config["role"]),
            amounts(&config["guarantees"]),
            amounts(&config["limits"]),
            consumed(&config["role"]),
        ]
    };
    let rows = configs.iter().map(cells).collect();
    Listing { headers: HEADERS.to_vec(), narrow: 4, rows, json: json!(configs) }
}

/// `cpus:1; mem:0`; a limit of nothing is one.
fn amounts(scalars: &Value) -> String {
    let entries: Map<String, Value> = scalars.as_object().cloned().unwrap_or_default();
    let texts = entries.iter().map(|(name, scalar)| {
        format!("{name}:{}", scalar["value"].to_string().trim_end_matches(".0"))
    });
    texts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row() {
        let quotas = json!({"configs": [{"role": "ads", "guarantees": {"cpus": {"value": 1.5}},
            "limits": {"cpus": {"value": 2.0}, "mem": {"value": 0.0}}}]});
        let roles = json!({"roles": [{"name": "web"},
            {"name": "ads", "quota": {"consumed": {"cpus": 1.0}}}]});
        let expected = ["ads", "cpus:1.5", "cpus:2; mem:0", "cpus:1"];
        assert_eq!(list(&quotas, &roles).rows, [expected.map(str::to_owned)]);
    }
}
