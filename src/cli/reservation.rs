//! `holdfast reservation list|create|delete`.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use resources::id::Principal;
use resources::resource::{Label, Reservation, ReservationKind, Resource};
use resources::role::Role;
use serde_json::Value;

use super::agent;
use super::client::Client;
use super::mutation::{IfVersion, Mutation};
use super::output::{Listing, Output};
use super::resource::{self, Held};
use crate::exit::Failure;

const PATH: &str = "/api/v1/reservations";

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
    version: IfVersion,
    #[command(flatten)]
    mutation: Mutation,
}

/// Flags of `reservation delete`.
#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Id of the reservation (see: reservation list); or say which by the flags below
    #[arg(conflicts_with_all = ["agent", "role", "label"])]
    #[arg(required_unless_present_all = ["agent", "role"])]
    id: Option<String>,
    /// Agent: its id, the end of it, or its host name
    #[arg(long, requires = "role")]
    agent: Option<String>,
    /// Role of the reservation
    #[arg(long, value_parser = resource::role, requires = "agent")]
    role: Option<Role>,
    /// What, as in `cpus:1;mem:128` [default: all of it that is no volume]
    #[arg(long, value_name = "TEXT")]
    resources: Option<String>,
    /// A label of the reservation, where several differ by labels; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = resource::label)]
    label: Vec<Label>,
    #[command(flatten)]
    version: IfVersion,
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
    match command {
        Command::List => list(&client.get(PATH).await?)?.print(output),
        Command::Create(create) => {
            let agents = agent::all(client).await?;
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
            let body = resource::body(agent, "resources", &resource::wire(&wanted)?);
            let (version, kind) = (&create.version, "RESERVE_RESOURCES");
            create.mutation.execute(client, output, version, kind, body).await
        }
        Command::Delete(delete) => {
            let (agent, held) = of_reservation(client, &delete).await?;
            let body = resource::body(&agent, "resources", &unwanted(&held, principal, &delete)?);
            let (version, kind) = (&delete.version, "UNRESERVE_RESOURCES");
            delete.mutation.execute(client, output, version, kind, body).await
        }
    }
}

/// The agent that `reservation delete` means, and what it holds: only that of the reservation
/// when it is named by its id.
async fn of_reservation(
    client: &mut Client,
    delete: &Delete,
) -> Result<(String, Vec<Held>), Failure> {
    let Some(id) = &delete.id else {
        let agents = agent::all(client).await?;
        let agent = agent::find(&agents, delete.agent.as_deref().unwrap_or_default())?;
        return Ok((agent::id(agent)?.to_owned(), resource::reserved(agent)?));
    };
    let all = client.get(PATH).await?;
    let mut entries = all.as_array().into_iter().flatten();
    let entry = entries.find(|entry| entry["reservation_id"] == id.as_str()).ok_or_else(|| {
        Failure::Refused(format!("there is no reservation '{id}'; see: holdfast reservation list"))
    })?;
    let agent = entry["agent_id"].as_str().unwrap_or_default().to_owned();
    let resources = entry["resources"].as_array().into_iter().flatten();
    Ok((agent, resources.map(resource::held).collect::<Result<_, _>>()?))
}

/// The resources to give back: where no id says which reservation, role, principal and labels must
/// point at one stack of the agent.
fn unwanted(
    held: &[Held],
    principal: Option<&str>,
    delete: &Delete,
) -> Result<Vec<Value>, Failure> {
    let (labels, is_named) = (resource::labels(&delete.label), delete.id.is_some());
    let fitting: Vec<&Held> = held
        .iter()
        .filter(|held| held.volume_id.is_none())
        .filter(|held| delete.role.as_ref().is_none_or(|role| held.role == role.as_str()))
        .filter(|held| held.resource.is_dynamically_reserved())
        .filter(|held| is_named || principal.is_none_or(|name| held.principal() == name))
        .filter(|held| labels.is_empty() || held.top().is_some_and(|top| top.labels == labels))
        .collect();
    let stacks: BTreeSet<&[Reservation]> =
        fitting.iter().map(|held| held.resource.reservations.as_slice()).collect();
    let mut stacks = stacks.into_iter();
    let (Some(stack), None) = (stacks.next(), stacks.next()) else {
        return Err(match fitting.is_empty() {
            true => Failure::Refused(
                "nothing is dynamically reserved there that is no volume".to_owned(),
            ),
            false => Failure::Usage(
                "several reservations of that role differ by principal or labels; say which by \
                 its id (see: holdfast reservation list)"
                    .to_owned(),
            ),
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

const HEADERS: [&str; 10] = [
    "ID",
    "AGENT",
    "ROLE",
    "TYPE",
    "PRINCIPAL",
    "RESOURCES",
    "LABELS",
    "VOLUMES",
    "REFINES",
    "CONFIRMED",
];

fn list(all: &Value) -> Result<Listing, Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for entry in all.as_array().into_iter().flatten() {
        let label = |label: &Value| match label["value"].as_str() {
            Some(value) => format!("{}={value}", text(&label["key"])),
            None => text(&label["key"]),
        };
        let labels = entry["labels"].as_array().into_iter().flatten().map(label);
        let volumes = entry["volumes"].as_array().into_iter().flatten().map(text);
        rows.push(vec![
            text(&entry["reservation_id"]),
            text(&entry["agent_id"]),
            text(&entry["role"]),
            text(&entry["type"]),
            text(&entry["principal"]),
            resource::summary(&entry["quantities"]),
            labels.collect::<Vec<_>>().join(" "),
            volumes.collect::<Vec<_>>().join(" "),
            below(&entry["resources"][0])?,
            if entry["confirmed"] == true { "yes" } else { "no" }.to_owned(),
        ]);
    }
    Ok(Listing { headers: HEADERS.to_vec(), narrow: 6, rows, json: all.clone() })
}

/// The roles that the reservation of this resource refines.
fn below(resource: &Value) -> Result<String, Failure> {
    let stack = resource::read(resource)?.reservations;
    let below = stack.iter().rev().skip(1).map(|below| below.role.to_string());
    Ok(below.collect::<Vec<_>>().join(" < "))
}
