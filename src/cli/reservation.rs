//! `holdfast reservation list|create|delete`.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use resources::id::Principal;
use resources::resource::{Label, Reservation, ReservationKind, Resource};
use resources::role::Role;
use serde_json::{Value, json};

use super::agent;
use super::client::Client;
use super::output::{Listing, Output};
use super::resource::{self, Held, Mutation};
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List what is reserved on which agent for whom
    List,
    /// Reserve unreserved resources of an agent for a role
    Create(Create),
    /// Give reserved resources back
    Delete(Delete),
}

/// Flags of `reservation create`.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// Agent: its id, the end of it, or its host name
    #[arg(long)]
    agent: String,
    /// For which role
    #[arg(long, value_parser = resource::role)]
    role: Role,
    /// What, as in `cpus:1;mem:128`
    #[arg(long, value_name = "TEXT")]
    resources: String,
    /// A label of the reservation; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = resource::label)]
    label: Vec<Label>,
    #[command(flatten)]
    mutation: Mutation,
}

/// Flags of `reservation delete`.
#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Agent: its id, the end of it, or its host name
    #[arg(long)]
    agent: String,
    /// Role of the reservation
    #[arg(long, value_parser = resource::role)]
    role: Role,
    /// What, as in `cpus:1;mem:128` [default: all of it that is no volume]
    #[arg(long, value_name = "TEXT")]
    resources: Option<String>,
    /// A label of the reservation, where several differ by labels; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = resource::label)]
    label: Vec<Label>,
    #[command(flatten)]
    mutation: Mutation,
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    principal: Option<&str>,
    command: Command,
) -> Result<(), Failure> {
    let agents = agent::all(client).await?;
    match command {
        Command::List => list(&agents)?.print(output),
        Command::Create(create) => {
            let agent = agent::id(agent::find(&agents, &create.agent)?)?;
            let reservation = Reservation {
                kind: ReservationKind::Dynamic,
                role: create.role,
                principal: principal.map(Principal::new),
                labels: resource::labels(&create.label),
            };
            let wanted = resource::parse("--resources", &create.resources)?;
            let wanted: Vec<Resource> = wanted
                .into_iter()
                .map(|wanted| wanted.push_reservation(reservation.clone()))
                .collect();
            let wanted = resource::wire(&wanted)?;
            create.mutation.execute(client, output, agent, "RESERVE_RESOURCES", &wanted).await
        }
        Command::Delete(delete) => {
            let agent = agent::find(&agents, &delete.agent)?;
            let unwanted = unwanted(&resource::reserved(agent)?, principal, &delete)?;
            let agent = agent::id(agent)?;
            delete.mutation.execute(client, output, agent, "UNRESERVE_RESOURCES", &unwanted).await
        }
    }
}

/// The resources to give back. Reservations have no ids: role, principal and labels must point
/// at one stack of the agent.
fn unwanted(
    held: &[Held],
    principal: Option<&str>,
    delete: &Delete,
) -> Result<Vec<Value>, Failure> {
    let labels = resource::labels(&delete.label);
    let fitting: Vec<&Held> = held
        .iter()
        .filter(|held| held.volume_id.is_none() && held.role == delete.role.as_str())
        .filter(|held| held.resource.is_dynamically_reserved())
        .filter(|held| principal.is_none_or(|principal| held.principal() == principal))
        .filter(|held| labels.is_empty() || held.top().is_some_and(|top| top.labels == labels))
        .collect();
    let stacks: BTreeSet<&[Reservation]> =
        fitting.iter().map(|held| held.resource.reservations.as_slice()).collect();
    let mut stacks = stacks.into_iter();
    let (Some(stack), None) = (stacks.next(), stacks.next()) else {
        let role = &delete.role;
        return Err(match fitting.is_empty() {
            true => Failure::Refused(format!(
                "nothing is dynamically reserved for '{role}' there that is no volume"
            )),
            false => Failure::Usage(format!(
                "several reservations for '{role}' differ by principal or labels; say which by \
                 --principal and --label (see: holdfast reservation list -o wide)"
            )),
        });
    };
    let Some(text) = &delete.resources else {
        return Ok(fitting.iter().map(|held| held.json.clone()).collect());
    };
    let mut unwanted = resource::parse("--resources", text)?;
    for resource in &mut unwanted {
        resource.reservations = stack.to_vec();
    }
    resource::wire(&unwanted)
}

fn list(agents: &[Value]) -> Result<Listing, Failure> {
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for agent in agents {
        let id = agent::id(agent)?;
        let held = resource::reserved(agent)?;
        let stacks: BTreeSet<&[Reservation]> =
            held.iter().map(|held| held.resource.reservations.as_slice()).collect();
        for stack in stacks {
            let Some(top) = stack.last() else { continue };
            let of_stack = held.iter().filter(|held| held.resource.reservations == stack);
            let texts: Vec<&str> = of_stack.clone().map(|held| held.text.as_str()).collect();
            let json: Vec<&Value> = of_stack.map(|held| &held.json).collect();
            let principal = top.principal.as_ref().map_or("", Principal::as_str);
            rows.push(vec![
                id.to_owned(),
                top.role.to_string(),
                top.kind.to_string(),
                principal.to_owned(),
                texts.join("; "),
                if top.labels.is_empty() { String::new() } else { top.labels.to_string() },
                stack[..stack.len() - 1]
                    .iter()
                    .map(|below| below.role.to_string())
                    .collect::<Vec<_>>()
                    .join(" < "),
            ]);
            all.push(json!({
                "agent_id": id,
                "role": top.role,
                "type": top.kind.to_string(),
                "principal": top.principal,
                "labels": top.labels,
                "resources": json,
            }));
        }
    }
    let headers = ["AGENT", "ROLE", "TYPE", "PRINCIPAL", "RESOURCES", "LABELS", "REFINES"];
    Ok(Listing { headers: headers.to_vec(), narrow: 5, rows, json: json!(all) })
}
