//! Answers of `/api/v1` as wire messages (spec §5.3). Pure. Must not know in which encoding they
//! go out. Reading order: this file, `answers/agents.rs`, `answers/frameworks.rs`,
//! `answers/tasks.rs`, `answers/operations.rs`. Next: `operator.rs`.

mod agents;
mod frameworks;
mod operations;
mod tasks;

use proto::convert;
use proto::mesos::v1::master::Response;
use proto::mesos::v1::master::response::{
    GetFlags, GetHealth, GetMaintenanceSchedule, GetMaintenanceStatus, GetMaster, GetMetrics,
    GetQuota, GetRoles, GetState, GetVersion, GetWeights, Type,
};
use proto::mesos::v1::{
    self, Address, Flag, MasterInfo, Metric, TimeInfo, VersionInfo, master_info,
};
use resources::collection::Resources;
use resources::form::Format;
use resources::id::{AgentId, FrameworkId};
use resources::time::Timestamp;

use super::about;
use super::picture::Picture;
use super::roles::Roles;
use super::shapes;
use super::usage::Usage;
use crate::config::Config;
use crate::leader::View;
use crate::leader::scheduler::InverseAnswer;
use crate::metrics::Sample;

fn of(kind: Type) -> Response {
    Response { r#type: Some(kind.into()), ..Response::default() }
}

pub(crate) fn health() -> Response {
    Response { get_health: Some(GetHealth { healthy: true }), ..of(Type::GetHealth) }
}

pub(crate) fn version() -> Response {
    let about = about::version();
    let version_info = VersionInfo {
        version: about.version.to_owned(),
        build_date: Some(about.build_date),
        build_time: Some(about.build_time),
        build_user: Some(about.build_user.to_owned()),
        holdfast_version: Some(about.holdfast_version.to_owned()),
        ..VersionInfo::default()
    };
    Response { get_version: Some(GetVersion { version_info }), ..of(Type::GetVersion) }
}

pub(crate) fn flags(config: &Config) -> Response {
    let flags = config
        .flags
        .iter()
        .map(|(name, value)| Flag { name: name.clone(), value: Some(value.clone()) })
        .collect();
    Response { get_flags: Some(GetFlags { flags }), ..of(Type::GetFlags) }
}

pub(crate) fn metrics(samples: &[Sample]) -> Response {
    let metrics = samples
        .iter()
        .filter_map(|sample| Some((sample.mesos.as_deref()?, sample.value)))
        .map(|(name, value)| Metric { name: name.to_owned(), value: Some(value) })
        .collect();
    Response { get_metrics: Some(GetMetrics { metrics }), ..of(Type::GetMetrics) }
}

pub(crate) fn master(view: &View, config: &Config) -> Response {
    let ip = config.advertise.ipv4();
    let capabilities = [
        master_info::capability::Type::AgentUpdate,
        master_info::capability::Type::AgentDraining,
        master_info::capability::Type::QuotaV2,
    ];
    let master_info = MasterInfo {
        id: shapes::master_id(view.state.cluster_id(), config.id),
        // Network order read on a little-endian machine, as Mesos prints it.
        ip: ip.map_or(0, |ip| u32::from_le_bytes(ip.octets())),
        port: u32::from(config.advertise.port()),
        pid: Some(shapes::master_pid(&config.advertise)),
        hostname: Some(config.advertise.host().to_owned()),
        version: Some(about::VERSION.to_owned()),
        address: Some(Address {
            hostname: Some(config.advertise.host().to_owned()),
            ip: ip.map(|ip| ip.to_string()),
            port: i32::from(config.advertise.port()),
        }),
        domain: None,
        capabilities: capabilities
            .into_iter()
            .map(|kind| master_info::Capability { r#type: Some(kind.into()) })
            .collect(),
    };
    let get_master = GetMaster {
        master_info: Some(master_info),
        start_time: Some(shapes::seconds(view.identity.started_at)),
        elected_time: view.elected_at.map(shapes::seconds),
    };
    Response { get_master: Some(get_master), ..of(Type::GetMaster) }
}

pub(crate) fn agents(picture: &Picture<'_>) -> Response {
    Response { get_agents: Some(agents::get(picture)), ..of(Type::GetAgents) }
}

pub(crate) fn frameworks(picture: &Picture<'_>) -> Response {
    let usage = Usage::of(&picture.view.state);
    let get_frameworks = Some(frameworks::get(picture, &usage));
    Response { get_frameworks, ..of(Type::GetFrameworks) }
}

pub(crate) fn executors(picture: &Picture<'_>) -> Response {
    let usage = Usage::of(&picture.view.state);
    let get_executors = Some(frameworks::get_executors(picture, &usage));
    Response { get_executors, ..of(Type::GetExecutors) }
}

pub(crate) fn tasks(picture: &Picture<'_>) -> Response {
    Response { get_tasks: Some(tasks::get(picture)), ..of(Type::GetTasks) }
}

pub(crate) fn operations(picture: &Picture<'_>) -> Response {
    Response { get_operations: Some(operations::get(picture)), ..of(Type::GetOperations) }
}

pub(crate) fn roles(roles: &Roles<'_>) -> Response {
    let roles = roles.entries().map(|entry| v1::Role {
        name: entry.name().to_owned(),
        weight: entry.weight(),
        frameworks: entry.frameworks().map(framework_id).collect(),
        resources: to_wire(entry.in_use(), Format::Post),
    });
    Response { get_roles: Some(GetRoles { roles: roles.collect() }), ..of(Type::GetRoles) }
}

pub(crate) fn quota(picture: &Picture<'_>) -> Response {
    let get_quota = GetQuota { status: super::quota::status(picture) };
    Response { get_quota: Some(get_quota), ..of(Type::GetQuota) }
}

pub(crate) fn maintenance_schedule(picture: &Picture<'_>) -> Response {
    let schedule = super::maintenance::schedule(picture);
    Response {
        get_maintenance_schedule: Some(GetMaintenanceSchedule { schedule }),
        ..of(Type::GetMaintenanceSchedule)
    }
}

pub(crate) fn maintenance_status(picture: &Picture<'_>, answers: &[InverseAnswer]) -> Response {
    let status = super::maintenance::status(picture, answers);
    Response {
        get_maintenance_status: Some(GetMaintenanceStatus { status }),
        ..of(Type::GetMaintenanceStatus)
    }
}

pub(crate) fn weights(picture: &Picture<'_>) -> Response {
    let get_weights = GetWeights { weight_infos: super::weights::infos(picture) };
    Response { get_weights: Some(get_weights), ..of(Type::GetWeights) }
}

pub(crate) fn state(picture: &Picture<'_>) -> Response {
    let usage = Usage::of(&picture.view.state);
    let get_state = GetState {
        get_tasks: Some(tasks::get(picture)),
        get_executors: Some(frameworks::get_executors(picture, &usage)),
        get_frameworks: Some(frameworks::get(picture, &usage)),
        get_agents: Some(agents::get(picture)),
    };
    Response { get_state: Some(get_state), ..of(Type::GetState) }
}

fn framework_id(id: &FrameworkId) -> v1::FrameworkId {
    v1::FrameworkId { value: id.to_string() }
}

fn agent_id(id: &AgentId) -> v1::AgentId {
    v1::AgentId { value: id.to_string() }
}

fn to_wire(resources: &Resources, format: Format) -> Vec<v1::Resource> {
    convert::resource::list_to_wire(resources.iter(), format)
}

fn time(at: Timestamp) -> TimeInfo {
    TimeInfo { nanoseconds: i64::try_from(at.as_nanos()).unwrap_or(i64::MAX) }
}

#[cfg(test)]
mod tests;
