//! `holdfast weight list|set`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use resources::role::Role;
use resources::weight::Weight;
use serde_json::{Value, json};

use super::client::Client;
use super::mutation::Mutation;
use super::output::{Listing, Output, text};
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the weights that were given; other roles weigh 1
    List,
    /// Give roles a weight: how much more than its neighbours each is due
    Set(Set),
}

/// Flags of `weight set`.
#[derive(Debug, Args)]
pub(super) struct Set {
    /// Roles with their weights; `*` may have one, too
    #[arg(required = true, value_name = "ROLE=WEIGHT", value_parser = weighted)]
    weights: Vec<(Role, Weight)>,
    #[command(flatten)]
    mutation: Mutation,
}

fn weighted(text: &str) -> Result<(Role, Weight), String> {
    let (role, weight) = text.rsplit_once('=').ok_or("expected role=weight")?;
    let role = Role::parse(role).map_err(|error| error.to_string())?;
    let weight = weight.parse::<Weight>().map_err(|error| error.to_string())?;
    Ok((role, weight))
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::List => {
            let answer = client.get("/weights").await?;
            list(answer.as_array().map_or(&[], Vec::as_slice)).print(output)
        }
        Command::Set(set) => {
            let call = update(set.weights)?;
            set.mutation.send(client, output, "/api/v1", &call, None).await
        }
    }
}

fn update(weights: Vec<(Role, Weight)>) -> Result<Value, Failure> {
    let mut known = BTreeMap::new();
    for (role, weight) in weights {
        if known.insert(role.clone(), weight).is_some() {
            return Err(Failure::Usage(format!("role {role} is given twice")));
        }
    }
    let infos = known
        .iter()
        .map(|(role, weight)| json!({"role": role.as_str(), "weight": weight.to_f64()}));
    let infos: Vec<Value> = infos.collect();
    Ok(json!({"type": "UPDATE_WEIGHTS", "update_weights": {"weight_infos": infos}}))
}

fn list(weights: &[Value]) -> Listing {
    let cells = |entry: &Value| {
        let weight = entry["weight"].to_string();
        vec![text(&entry["role"]), weight.trim_end_matches(".0").to_owned()]
    };
    let rows = weights.iter().map(cells).collect();
    Listing { headers: vec!["ROLE", "WEIGHT"], narrow: 2, rows, json: json!(weights) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_calls() {
        for bad in ["ads", "ads=", "ads=0", "ads=-1", "a//b=1", "=1"] {
            assert!(weighted(bad).is_err(), "{bad}");
        }
        let weights = vec![weighted("ads=2.5").unwrap(), weighted("*=1").unwrap()];
        let expected = json!([{"role": "*", "weight": 1.0}, {"role": "ads", "weight": 2.5}]);
        let call = update(weights.clone()).unwrap();
        assert_eq!(call["update_weights"]["weight_infos"], expected);
        let twice = [weights.clone(), weights].concat();
        assert!(matches!(update(twice), Err(Failure::Usage(_))));
        assert_eq!(list(expected.as_array().unwrap()).rows[1], ["ads", "2.5"]);
    }
}
