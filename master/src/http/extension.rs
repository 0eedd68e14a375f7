//! Reads that Mesos does not have: this master's place in the cluster, agents with their
//! sequence numbers, operations by id. Must not be needed by any Mesos client.
//! Next: `transaction.rs`, `reconcile.rs`, `inventory.rs`.

use axum::response::Response;
use resources::form::ResourceForm;
use resources::id::{AgentId, LogIndex, OperationId};
use resources::resource::Resource;
use serde::Serialize;

use super::App;
use super::error::Failure;
use super::incoming::Incoming;
use super::read::json;
use super::reconcile::Discrepancy;
use super::{reconcile, shapes};
use crate::auth::Viewer;
use crate::leader::{Leadership, View};
use crate::state::activation::Activation;
use crate::state::agents::Agent;
use crate::state::gone::Gone;
use crate::state::operations::{OperationRecord, name};
use crate::state::presence::Presence;

/// The body of `/api/v1/server`.
#[derive(Serialize)]
struct Server {
    id: u64,
    role: &'static str,
    term: u64,
    leader: Option<Leader>,
    last_log: u64,
    committed: u64,
    applied: u64,
    digest: Digest,
    cluster_id: Option<String>,
    advertise: String,
    /// How long the disk has owed an answer, when it is late.
    disk_stalled_seconds: Option<f64>,
    version: &'static str,
}

#[derive(Serialize)]
struct Leader {
    id: u64,
    advertise: String,
}

/// Hash of all batches and responses up to an index: equal on every master.
#[derive(Serialize)]
struct Digest {
    index: u64,
    sha256: String,
}

/// What this master knows of itself; never redirected.
pub(super) fn server(app: &App, incoming: &Incoming) -> Result<Response, Failure> {
    let status = app.handle.status();
    let own = &app.config;
    let (role, leader) = match app.handle.leadership() {
        Leadership::Leading { .. } => {
            let advertise = own.advertise.to_string();
            ("leader", Some(Leader { id: own.id.0, advertise }))
        }
        Leadership::Following { master_id, advertise } => {
            ("follower", Some(Leader { id: master_id.0, advertise }))
        }
        Leadership::Unknown => ("candidate", None),
    };
    let (index, sha256) = status.digest;
    let server = Server {
        id: own.id.0,
        role,
        term: status.term.0,
        leader,
        last_log: number(status.last_log),
        committed: number(status.committed),
        applied: number(status.applied),
        digest: Digest { index: index.0, sha256: hex(&sha256) },
        cluster_id: status.cluster_id,
        advertise: own.advertise.to_string(),
        disk_stalled_seconds: status.disk_stalled.map(|stalled| stalled.as_secs_f64()),
        version: super::about::HOLDFAST_VERSION,
    };
    json(incoming, &server)
}

/// One entry of `/api/v1/agents`.
#[derive(Serialize)]
struct AgentEntry<'a> {
    id: &'a str,
    checkpoint_id: &'a str,
    hostname: &'a str,
    address: String,
    version: &'a str,
    status: String,
    connected: bool,
    presence: &'static str,
    /// While it is away: in how many seconds it is unreachable.
    unreachable_in: Option<f64>,
    /// Wall time since which it is unreachable, or unregistered, or gone.
    absent_since: Option<f64>,
    activation: &'static str,
    drain: Option<DrainEntry>,
    tasks: usize,
    resource_version: u64,
    confirmed_seq: u64,
    last_seq: u64,
    pending: usize,
    unavailable: Vec<ResourceForm>,
    total: Vec<ResourceForm>,
    /// How its disk differs from the log; none when it does not.
    discrepancy: Option<Discrepancy>,
}

/// How an agent is being drained, or was.
#[derive(Serialize)]
struct DrainEntry {
    since: f64,
    max_grace_secs: Option<f64>,
    mark_gone: bool,
}

/// One entry of `/api/v1/agents?gone=true`, oldest first.
#[derive(Serialize)]
struct GoneEntry<'a> {
    id: &'a str,
    checkpoint_id: &'a str,
    hostname: &'a str,
    address: String,
    presence: &'static str,
    absent_since: f64,
    /// Its last reservations and volumes, of agents that went lately.
    held: Vec<ResourceForm>,
}

/// Agents on record, whether they are there or not; with `?gone=true` those which were given up.
pub(super) fn agents(app: &App, view: &View, incoming: &Incoming) -> Result<Response, Failure> {
    let viewer = app.viewer(incoming);
    if incoming.query()?.get("gone").is_some_and(|gone| gone == "true") {
        let gone = view.state.gone_agents().map(|gone| gone_entry(&viewer, gone));
        return json(incoming, &gone.collect::<Vec<_>>());
    }
    let entries: Vec<AgentEntry<'_>> =
        view.state.agents().map(|agent| entry(view, &viewer, agent)).collect();
    json(incoming, &entries)
}

fn entry<'a>(view: &View, viewer: &Viewer<'_>, agent: &'a Agent) -> AgentEntry<'a> {
    let forms = |resources: &mut dyn Iterator<Item = &Resource>| {
        resources.filter(|resource| viewer.sees(resource)).map(shapes::form).collect()
    };
    AgentEntry {
        id: agent.id.as_str(),
        checkpoint_id: agent.checkpoint_id.as_str(),
        hostname: &agent.info.hostname,
        address: shapes::authority(&agent.info.host, agent.info.port),
        version: &agent.info.version,
        status: agent.status.to_string(),
        connected: view.is_connected(&agent.id),
        presence: match agent.presence {
            Presence::Here => "HERE",
            Presence::Away(_) => "AWAY",
            Presence::Unreachable { .. } => "UNREACHABLE",
            Presence::Unregistered { .. } => "UNREGISTERED",
        },
        unreachable_in: agent
            .presence
            .away()
            .map(|away| away.deadline.since(view.now).as_secs_f64()),
        absent_since: match agent.presence {
            Presence::Here | Presence::Away(_) => None,
            Presence::Unreachable { since: at } | Presence::Unregistered { at } => {
                Some(shapes::seconds(at))
            }
        },
        activation: match agent.activation {
            Activation::Active => "ACTIVE",
            Activation::Deactivated => "DEACTIVATED",
            Activation::Draining(_) => "DRAINING",
            Activation::Drained(_) => "DRAINED",
        },
        drain: agent.activation.drain().map(|drain| DrainEntry {
            since: shapes::seconds(drain.since),
            max_grace_secs: drain.max_grace.map(|grace| grace.as_secs_f64()),
            mark_gone: drain.mark_gone,
        }),
        tasks: agent.tasks.size(),
        resource_version: agent.resource_version,
        confirmed_seq: agent.confirmed_seq.0,
        last_seq: agent.last_given().0,
        pending: agent.pending.size(),
        unavailable: forms(&mut agent.unavailable.iter()),
        total: forms(&mut agent.total.iter()),
        discrepancy: reconcile::discrepancy(agent, viewer),
    }
}

/// One agent.
pub(super) fn agent(
    app: &App,
    view: &View,
    incoming: &Incoming,
    id: &str,
) -> Result<Response, Failure> {
    let agent = AgentId::parse(id).ok().and_then(|id| view.state.agent(&id));
    match agent {
        Some(agent) => json(incoming, &entry(view, &app.viewer(incoming), agent)),
        None => Err(Failure::NotFound(format!("No agent found with ID '{id}'"))),
    }
}

fn gone_entry<'a>(viewer: &Viewer<'_>, gone: &'a Gone) -> GoneEntry<'a> {
    GoneEntry {
        id: gone.agent_id.as_str(),
        checkpoint_id: gone.checkpoint_id.as_str(),
        hostname: &gone.info.hostname,
        address: shapes::authority(&gone.info.host, gone.info.port),
        presence: "GONE",
        absent_since: shapes::seconds(gone.at),
        held: gone.held.iter().filter(|held| viewer.sees(held)).map(shapes::form).collect(),
    }
}

/// One entry of `/api/v1/operations`.
#[derive(Serialize)]
pub(super) struct OperationEntry<'a> {
    operation_id: &'a str,
    agent_id: &'a str,
    seq: u64,
    #[serde(rename = "type")]
    kind: &'static str,
    state: String,
    message: Option<&'a str>,
    principal: Option<&'a str>,
    submitted_at: f64,
    settled_at: Option<f64>,
    transaction_id: Option<&'a str>,
    /// The framework that asked, and its own name for it.
    framework_id: Option<&'a str>,
    framework_operation_id: Option<&'a str>,
    resources: Vec<ResourceForm>,
}

impl<'a> From<&'a OperationRecord> for OperationEntry<'a> {
    fn from(record: &'a OperationRecord) -> Self {
        let converted: Vec<Resource> = record.operation.converted();
        Self {
            operation_id: record.operation_id.as_str(),
            agent_id: record.agent_id.as_str(),
            seq: record.seq.0,
            kind: name(&record.operation),
            state: record.state.to_string(),
            message: record.message.as_deref(),
            principal: record.principal.as_ref().map(resources::id::Principal::as_str),
            submitted_at: shapes::seconds(record.submitted_at),
            settled_at: record.settled_at.map(shapes::seconds),
            transaction_id: record.transaction_id.as_ref().map(|id| id.as_str()),
            framework_id: record.framework_id.as_ref().map(|id| id.as_str()),
            framework_operation_id: record.own_id.as_ref().map(OperationId::as_str),
            resources: converted.iter().map(shapes::form).collect(),
        }
    }
}

/// Operations that are pending or ended lately, in the order of their acceptance; of one agent
/// with `?agent_id=`, in one state with `?state=`.
pub(super) fn operations(app: &App, view: &View, incoming: &Incoming) -> Result<Response, Failure> {
    let (query, viewer) = (incoming.query()?, app.viewer(incoming));
    let is_wanted = |key: &str, value: &str| query.get(key).is_none_or(|wanted| wanted == value);
    let mut records: Vec<&OperationRecord> = view
        .state
        .operations()
        .filter(|record| is_wanted("agent_id", record.agent_id.as_str()))
        .filter(|record| is_wanted("state", &record.state.to_string()))
        .filter(|record| viewer.sees_operation(&record.operation))
        .collect();
    records.sort_by_cached_key(|record| (record.index, place(&record.operation_id), record.seq));
    let entries: Vec<OperationEntry<'_>> = records.into_iter().map(OperationEntry::from).collect();
    json(incoming, &entries)
}

/// Where an operation stands in its entry of the log: the numbers of its id, `<term>-<n>` or
/// `<term>-<n>.<m>`. Its text would put 1-10 before 1-9, and the orders of several agents are
/// not numbered together.
fn place(id: &OperationId) -> Vec<u64> {
    id.as_str().split(['-', '.']).map_while(|number| number.parse().ok()).collect()
}

/// One that the reader may not see looks like one that is not there.
pub(super) fn operation(
    app: &App,
    view: &View,
    incoming: &Incoming,
    id: &str,
) -> Result<Response, Failure> {
    let viewer = app.viewer(incoming);
    let record = OperationId::parse(id).ok().and_then(|id| view.state.operation(&id));
    match record.filter(|record| viewer.sees_operation(&record.operation)) {
        Some(record) => json(incoming, &OperationEntry::from(record)),
        None => Err(Failure::NotFound(format!("No operation found with ID '{id}'"))),
    }
}

/// An index as a number, 0 for none yet.
fn number(index: Option<LogIndex>) -> u64 {
    index.map_or(0, |index| index.0)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_stand_in_the_order_of_their_numbers() {
        let ascending = ["other", "1-2", "1-9", "1-10", "1-10.1", "1-10.2", "1-10.10", "2-1"];
        let mut ids = ascending.map(|id| OperationId::parse(id).unwrap());
        ids.sort();
        ids.sort_by_key(place);
        assert_eq!(ids.each_ref().map(OperationId::as_str), ascending);
    }
}
