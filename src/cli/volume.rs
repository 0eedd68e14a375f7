//! `holdfast volume list|inspect|create|destroy|grow|shrink`.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use resources::id::{Principal, VolumeId};
use resources::resource::{Persistence, Resource, VolumeMode, VolumeMount};
use resources::role::Role;
use resources::value::Value as Amount;
use serde_json::{Value, json};

use super::client::Client;
use super::mutation::{IfVersion, Mutation, confirm};
use super::output::{Listing, Output, print_json};
use super::resource::{self, Held};
use super::{agent, table};
use crate::exit::Failure;

/// The commands of this noun.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the persistent volumes
    List,
    /// Show one volume
    Inspect(Inspect),
    /// Create a volume from disk that is reserved for its role
    Create(Create),
    /// Destroy a volume with its data; the disk stays reserved
    Destroy(Destroy),
    /// Add reserved disk to a volume; its data stays
    Grow(Resize),
    /// Take disk from a volume; its data stays
    Shrink(Resize),
}

/// Flags of `volume inspect`.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// Id of the volume
    id: String,
    /// Agent, where several hold a volume of that id
    #[arg(long)]
    agent: Option<String>,
    /// Role, where several have a volume of that id
    #[arg(long)]
    role: Option<String>,
}

/// Flags of `volume create`.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// Agent: its id, the end of it, or its host name
    #[arg(long)]
    agent: String,
    /// Role that the disk is reserved for
    #[arg(long, value_parser = resource::role)]
    role: Role,
    /// Id of the volume: unique per role on the agent
    #[arg(long, value_parser = volume_id)]
    id: VolumeId,
    /// Size in MB
    #[arg(long, value_name = "MB")]
    size: String,
    /// Where tasks see it: one name in their sandbox
    #[arg(long, value_name = "NAME")]
    path: String,
    /// Root of a PATH or MOUNT disk [default: the disk of the work directory]
    #[arg(long, value_name = "DIR")]
    root: Option<String>,
    /// Let several tasks use it at a time
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    version: IfVersion,
    #[command(flatten)]
    mutation: Mutation,
}

/// Which volume.
#[derive(Debug, Args)]
struct Which {
    /// Agent: its id, the end of it, or its host name
    #[arg(long)]
    agent: String,
    /// Role of the volume
    #[arg(long)]
    role: String,
    /// Id of the volume
    #[arg(long)]
    id: String,
}

impl Which {
    /// The agent's id, and the volume.
    async fn find(&self, client: &mut Client) -> Result<(String, Held), Failure> {
        let agents = agent::all(client).await?;
        let agent = agent::find(&agents, &self.agent)?;
        let held = resource::reserved(agent)?;
        let agent = agent::id(agent)?;
        let is_it =
            |held: &Held| held.volume_id.as_ref() == Some(&self.id) && held.role == self.role;
        let volume = held.into_iter().find(is_it).ok_or_else(|| {
            let (id, role) = (&self.id, &self.role);
            Failure::Refused(format!("agent {agent} has no volume '{id}' of role '{role}'"))
        })?;
        Ok((agent.to_owned(), volume))
    }
}

/// Flags of `volume destroy`.
#[derive(Debug, Args)]
pub(super) struct Destroy {
    #[command(flatten)]
    which: Which,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Also when its directory is missing: what is in it would be lost to everybody
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    version: IfVersion,
    #[command(flatten)]
    mutation: Mutation,
}

/// Flags of `volume grow` and `volume shrink`.
#[derive(Debug, Args)]
pub(super) struct Resize {
    #[command(flatten)]
    which: Which,
    /// How many MB
    #[arg(long, value_name = "MB")]
    by: String,
    #[command(flatten)]
    version: IfVersion,
    #[command(flatten)]
    mutation: Mutation,
}

fn volume_id(text: &str) -> Result<VolumeId, String> {
    text.parse().map_err(|error: resources::id::InvalidId| error.to_string())
}

/// Runs one.
pub(super) async fn run(
    client: &mut Client,
    output: Output,
    principal: Option<&str>,
    command: Command,
) -> Result<(), Failure> {
    match command {
        Command::List => list(&volumes(&agent::all(client).await?)?).print(output),
        Command::Inspect(inspect) => {
            let agents = agent::all(client).await?;
            let agent = inspect.agent.map(|name| agent::find(&agents, &name)).transpose()?;
            let agent = agent.map(agent::id).transpose()?;
            let mut fitting = volumes(&agents)?;
            fitting.retain(|volume| {
                volume.id() == inspect.id
                    && agent.is_none_or(|agent| volume.agent == agent)
                    && inspect.role.as_ref().is_none_or(|role| volume.held.role == *role)
            });
            show(&fitting, &inspect.id, output)
        }
        Command::Create(create) => {
            let agents = agent::all(client).await?;
            let agent = agent::find(&agents, &create.agent)?;
            let volume = volume(&resource::reserved(agent)?, principal, &create)?;
            let body = resource::body(agent::id(agent)?, "volumes", &resource::wire(&[volume])?);
            let (version, kind) = (&create.version, "CREATE_VOLUMES");
            create.mutation.execute(client, output, version, kind, body).await
        }
        Command::Destroy(destroy) => {
            let (agent, volume) = destroy.which.find(client).await?;
            if !(destroy.yes || destroy.mutation.is_dry_run()) {
                confirm(&format!("Destroy {} on agent {agent} with its data?", volume.text))?;
            }
            let body = resource::body(&agent, "volumes", &[volume.json]);
            let (version, kind) = (&destroy.version, "DESTROY_VOLUMES");
            let mutation = destroy.mutation.forced(destroy.force);
            mutation.execute(client, output, version, kind, body).await
        }
        Command::Grow(grow) => {
            let (agent, volume) = grow.which.find(client).await?;
            let mut addition = volume.resource.clone();
            addition.value = megabytes("--by", &grow.by)?;
            addition.shared = false;
            if let Some(disk) = &mut addition.disk {
                (disk.persistence, disk.volume) = (None, None);
            }
            addition.disk = addition.disk.filter(|disk| disk.source.is_some());
            let addition = &resource::wire(&[addition])?[0];
            let body = json!({
                "agent_id": {"value": agent}, "volume": volume.json, "addition": addition,
            });
            grow.mutation.execute(client, output, &grow.version, "GROW_VOLUME", body).await
        }
        Command::Shrink(shrink) => {
            let (agent, volume) = shrink.which.find(client).await?;
            let subtract = resource::scalar(&megabytes("--by", &shrink.by)?);
            let body = json!({
                "agent_id": {"value": agent}, "volume": volume.json, "subtract": subtract,
            });
            shrink.mutation.execute(client, output, &shrink.version, "SHRINK_VOLUME", body).await
        }
    }
}

/// A number of MB as the amount of a disk.
fn megabytes(flag: &str, text: &str) -> Result<Amount, Failure> {
    let parsed = resource::parse(flag, &format!("disk:{text}"))?;
    match parsed.as_slice() {
        [disk] => Ok(disk.value.clone()),
        _ => Err(Failure::Usage(format!("{flag} '{text}': expected a number"))),
    }
}

/// The volume to create: it takes over the reservations and the source of the disk it is cut from.
fn volume(held: &[Held], principal: Option<&str>, create: &Create) -> Result<Resource, Failure> {
    let size = megabytes("--size", &create.size)?;
    let root = |resource: &Resource| resource.disk_source().map(|source| source.root.clone());
    let wanted = create.root.clone().map(Some);
    let mut fitting: Vec<&Held> = held
        .iter()
        .filter(|held| held.resource.name == "disk" && held.volume_id.is_none())
        .filter(|held| held.role == create.role.as_str() && root(&held.resource) == wanted)
        .collect();
    if fitting.iter().any(|held| Some(held.principal()) == principal) {
        fitting.retain(|held| Some(held.principal()) == principal);
    }
    if fitting.iter().any(|held| held.resource.value.contains(&size)) {
        fitting.retain(|held| held.resource.value.contains(&size));
    }
    let stacks: BTreeSet<_> = fitting.iter().map(|held| &held.resource.reservations).collect();
    let (Some(disk), 0 | 1) = (fitting.first(), stacks.len()) else {
        let role = &create.role;
        return Err(match fitting.is_empty() {
            true => Failure::Conflict(format!(
                "no such disk is reserved for '{role}' there; reserve some first: holdfast \
                 reservation create"
            )),
            false => Failure::Usage(format!(
                "several reservations of disk for '{role}' differ by principal or labels; say \
                 which by --principal"
            )),
        });
    };
    let mut volume = disk.resource.clone();
    let reserver = volume.reservations.last().and_then(|top| top.principal.clone());
    volume.value = size;
    volume.shared = create.shared;
    let details = volume.disk.get_or_insert_default();
    details.persistence = Some(Persistence {
        id: create.id.clone(),
        principal: principal.map(Principal::new).or(reserver),
    });
    details.volume =
        Some(VolumeMount { container_path: create.path.clone(), mode: VolumeMode::Rw });
    Ok(volume)
}

/// A volume with the agent it is on.
struct Volume {
    agent: String,
    held: Held,
}

impl Volume {
    fn id(&self) -> &str {
        self.held.volume_id.as_deref().unwrap_or_default()
    }

    fn cells(&self) -> Vec<String> {
        let disk = &self.held.json["disk"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let source = &disk["source"];
        let root = [&source["path"]["root"], &source["mount"]["root"]];
        let root = root.into_iter().find_map(Value::as_str).unwrap_or_default();
        vec![
            self.id().to_owned(),
            self.held.role.clone(),
            self.agent.clone(),
            self.held.json["scalar"]["value"].to_string().trim_end_matches(".0").to_owned(),
            text(&disk["volume"]["container_path"]),
            text(&disk["persistence"]["principal"]),
            match source["type"].as_str() {
                Some(kind) => format!("{kind} {root}").trim().to_owned(),
                None => "ROOT".to_owned(),
            },
        ]
    }

    fn json(&self) -> Value {
        json!({
            "id": self.id(),
            "role": self.held.role,
            "agent_id": self.agent,
            "resource": self.held.json,
        })
    }
}

const HEADERS: [&str; 7] = ["ID", "ROLE", "AGENT", "MB", "PATH", "CREATOR", "DISK"];

fn volumes(agents: &[Value]) -> Result<Vec<Volume>, Failure> {
    let mut all = Vec::new();
    for agent in agents {
        let id = agent::id(agent)?;
        let held = resource::reserved(agent)?.into_iter();
        let held = held.filter(|held| held.volume_id.is_some());
        all.extend(held.map(|held| Volume { agent: id.to_owned(), held }));
    }
    Ok(all)
}

fn list(volumes: &[Volume]) -> Listing {
    let rows = volumes.iter().map(Volume::cells).collect();
    let json = volumes.iter().map(Volume::json).collect::<Vec<_>>();
    Listing { headers: HEADERS.to_vec(), narrow: 5, rows, json: json!(json) }
}

fn show(fitting: &[Volume], id: &str, output: Output) -> Result<(), Failure> {
    let [volume] = fitting else {
        return Err(match fitting.is_empty() {
            true => Failure::Refused(format!("there is no such volume '{id}'")),
            false => Failure::Usage(format!(
                "{} volumes are called '{id}'; say which by --agent and --role",
                fitting.len()
            )),
        });
    };
    if output == Output::Json {
        return print_json(&volume.json());
    }
    let facts: Vec<[String; 2]> =
        HEADERS.iter().map(|h| h.to_lowercase()).zip(volume.cells()).map(Into::into).collect();
    super::print(&table::render(&["FIELD", "VALUE"], &facts))
}
