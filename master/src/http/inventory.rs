//! What is reserved and which volumes there are, across all agents, under names that stay: for
//! `GET /api/v1/reservations` and `GET /api/v1/volumes` (contract, extensions). Pure but for
//! reading the query. Must not be needed by any Mesos client. Next: `server.rs`.

use std::collections::BTreeMap;

use axum::response::Response;
use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::resource::{DiskSourceKind, Label, Reservation, ReservationKind, Resource};
use resources::stable::{VolumeKey, reservation_id};
use serde::Serialize;

use super::error::Failure;
use super::incoming::Incoming;
use super::{App, read, shapes};
use crate::leader::View;
use crate::state::agents::Agent;
use crate::state::presence::Presence;

/// One reservation: everything on an agent under one reservation stack.
#[derive(Serialize)]
struct ReservationEntry {
    reservation_id: String,
    agent_id: String,
    hostname: String,
    agent_state: &'static str,
    /// Of the top of the stack, which owns it.
    role: String,
    #[serde(rename = "type")]
    kind: &'static str,
    principal: Option<String>,
    labels: Vec<Label>,
    /// Sums by name; a volume's disk counts, a shared one's once.
    quantities: BTreeMap<String, f64>,
    /// Whether the agent has it on its disk as it stands here.
    confirmed: bool,
    /// Names of the volumes in it.
    volumes: Vec<String>,
    resources: Vec<ResourceForm>,
}

/// One volume.
#[derive(Serialize)]
struct VolumeEntry {
    /// `<agent>/<role>/<id>`.
    volume: String,
    id: String,
    agent_id: String,
    hostname: String,
    agent_state: &'static str,
    role: String,
    reservation_id: String,
    creator: Option<String>,
    size: f64,
    shared: bool,
    container_path: Option<String>,
    disk_type: &'static str,
    /// Whether the agent has it on its disk as it stands here.
    confirmed: bool,
    /// Whether its directory is missing or not the one that was made.
    unavailable: bool,
    resource: ResourceForm,
}

/// All reservations that the reader may see; of one agent with `?agent_id=`, of one role with
/// `?role=`.
pub(super) fn reservations(
    app: &App,
    view: &View,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    let (query, viewer) = (incoming.query()?, app.viewer(incoming));
    let is_wanted = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    let agents = view.state.agents().filter(|agent| is_wanted("agent_id", agent.id.as_str()));
    let entries = agents.flat_map(|agent| {
        let reservations = viewer.visible(&agent.total).by_reservation();
        let entries =
            reservations.into_iter().map(|(stack, held)| reservation(agent, &stack, &held));
        entries.collect::<Vec<_>>()
    });
    let entries: Vec<_> = entries.filter(|entry| is_wanted("role", &entry.role)).collect();
    read::json(incoming, &entries)
}

fn reservation(agent: &Agent, stack: &[Reservation], held: &Resources) -> ReservationEntry {
    let top = stack.last();
    let names = held.volumes().filter_map(|volume| VolumeKey::of(&agent.id, volume));
    ReservationEntry {
        reservation_id: reservation_id(&agent.id, stack).to_string(),
        agent_id: agent.id.to_string(),
        hostname: agent.info.hostname.clone(),
        agent_state: state_of(agent),
        role: top.map(|top| top.role.to_string()).unwrap_or_default(),
        kind: match top.map(|top| top.kind) {
            Some(ReservationKind::Dynamic) => "DYNAMIC",
            Some(ReservationKind::Static) | None => "STATIC",
        },
        principal: top.and_then(|top| top.principal.as_ref()).map(ToString::to_string),
        labels: top.map(|top| top.labels.as_slice().to_vec()).unwrap_or_default(),
        quantities: sums(held),
        confirmed: agent.has_confirmed(held),
        volumes: names.map(|name| name.to_string()).collect(),
        resources: shapes::forms(held),
    }
}

/// What is held by an agent that is unreachable or has left is kept for its return, and no call
/// changes it until then.
const fn state_of(agent: &Agent) -> &'static str {
    match agent.presence {
        Presence::Here | Presence::Away(_) => "registered",
        Presence::Unreachable { .. } => "unreachable",
        Presence::Unregistered { .. } => "unregistered",
    }
}

fn sums(held: &Resources) -> BTreeMap<String, f64> {
    held.quantities().into_iter().map(|(name, sum)| (name, sum.to_f64())).collect()
}

/// All volumes that the reader may see; of one agent with `?agent_id=`, of one role with
/// `?role=`.
pub(super) fn volumes(app: &App, view: &View, incoming: &Incoming) -> Result<Response, Failure> {
    let (query, viewer) = (incoming.query()?, app.viewer(incoming));
    let is_wanted = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    let agents = view.state.agents().filter(|agent| is_wanted("agent_id", agent.id.as_str()));
    let entries = agents.flat_map(|agent| {
        let volumes = agent.total.volumes().filter(|volume| viewer.sees(volume));
        volumes.filter_map(|held| volume(agent, held)).collect::<Vec<_>>()
    });
    let entries: Vec<_> = entries.filter(|entry| is_wanted("role", &entry.role)).collect();
    read::json(incoming, &entries)
}

fn volume(agent: &Agent, held: &Resource) -> Option<VolumeEntry> {
    let key = VolumeKey::of(&agent.id, held)?;
    let disk = held.disk.as_ref()?;
    let is_same = |other: &Resource| {
        other.reservation_role() == Some(&key.role) && other.volume_id() == Some(&key.volume_id)
    };
    Some(VolumeEntry {
        volume: key.to_string(),
        id: key.volume_id.to_string(),
        agent_id: agent.id.to_string(),
        hostname: agent.info.hostname.clone(),
        agent_state: state_of(agent),
        reservation_id: reservation_id(&agent.id, &held.reservations).to_string(),
        creator: disk.persistence.as_ref()?.principal.as_ref().map(ToString::to_string),
        size: held.value.as_scalar().unwrap_or_default().to_f64(),
        shared: held.shared,
        container_path: disk.volume.as_ref().map(|mount| mount.container_path.clone()),
        disk_type: match disk.source.as_ref().map(|source| source.kind) {
            None => "ROOT",
            Some(DiskSourceKind::Path) => "PATH",
            Some(DiskSourceKind::Mount) => "MOUNT",
            Some(DiskSourceKind::Block) => "BLOCK",
            Some(DiskSourceKind::Raw) => "RAW",
        },
        confirmed: agent.has_confirmed(&[held].into_iter().collect()),
        unavailable: agent.unavailable.iter().any(is_same),
        resource: shapes::form(held),
        role: key.role.to_string(),
    })
}
