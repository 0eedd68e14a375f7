//! Answers of `/api/v1` as wire messages (spec §5.3). Pure. Must not know in which encoding they
//! go out. Next: `operator.rs`.

use proto::convert;
use proto::mesos::v1::master::Response;
use proto::mesos::v1::master::response::{
    GetAgents, GetExecutors, GetFlags, GetFrameworks, GetHealth, GetMaster, GetMetrics,
    GetOperations, GetRoles, GetState, GetTasks, GetVersion, Type, get_agents,
};
use proto::mesos::v1::{
    self, Address, Flag, MasterInfo, Metric, Operation, OperationStatus, TimeInfo, Uuid,
    VersionInfo, agent_info, master_info,
};
use resources::form::Format;
use resources::time::Timestamp;

use super::about;
use super::roles::Roles;
use super::shapes;
use crate::auth::Viewer;
use crate::config::Config;
use crate::leader::View;
use crate::metrics::Sample;
use crate::state::agents::Agent;
use crate::state::operations::{OperationRecord, OperationState};

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

pub(crate) fn agents(view: &View, viewer: &Viewer<'_>) -> Response {
    Response { get_agents: Some(get_agents(view, viewer)), ..of(Type::GetAgents) }
}

/// Frameworks and allocated resources come with the scheduler API: there are none.
pub(crate) fn roles(roles: &Roles) -> Response {
    let roles = roles.entries().map(|entry| v1::Role {
        name: entry.name().to_owned(),
        weight: entry.weight(),
        ..v1::Role::default()
    });
    Response { get_roles: Some(GetRoles { roles: roles.collect() }), ..of(Type::GetRoles) }
}

pub(crate) fn state(view: &View, viewer: &Viewer<'_>) -> Response {
    // Frameworks, tasks and executors come with the scheduler API: there are none.
    let get_state = GetState {
        get_tasks: Some(GetTasks::default()),
        get_executors: Some(GetExecutors::default()),
        get_frameworks: Some(GetFrameworks::default()),
        get_agents: Some(get_agents(view, viewer)),
    };
    Response { get_state: Some(get_state), ..of(Type::GetState) }
}

/// Operations that are on their way. Those of operators are done with once they ended; where
/// they can still be looked up is `/api/v1/operations`.
pub(crate) fn operations(view: &View, viewer: &Viewer<'_>) -> Response {
    let operations = view
        .state
        .operations()
        .filter(|record| !record.is_settled() && viewer.sees_operation(&record.operation))
        .map(operation)
        .collect();
    Response { get_operations: Some(GetOperations { operations }), ..of(Type::GetOperations) }
}

fn operation(record: &OperationRecord) -> Operation {
    let uuid = Uuid { value: record.uuid().to_vec().into() };
    let agent_id = v1::AgentId { value: record.agent_id.to_string() };
    let state = match record.state {
        OperationState::Pending => v1::OperationState::OperationPending,
        OperationState::Finished => v1::OperationState::OperationFinished,
        OperationState::Failed => v1::OperationState::OperationFailed,
    };
    let latest_status = OperationStatus {
        operation_id: Some(v1::OperationId { value: record.operation_id.to_string() }),
        state: state.into(),
        message: record.message.clone(),
        converted_resources: Vec::new(),
        uuid: Some(uuid.clone()),
        agent_id: Some(agent_id.clone()),
        resource_provider_id: None,
    };
    Operation {
        framework_id: None,
        agent_id: Some(agent_id),
        info: convert::operation::to_wire(&record.operation, None, Format::Post),
        statuses: Vec::new(),
        latest_status,
        uuid,
    }
}

fn get_agents(view: &View, viewer: &Viewer<'_>) -> GetAgents {
    GetAgents {
        agents: view.state.agents().map(|agent| self::agent(view, viewer, agent)).collect(),
        recovered_agents: view
            .state
            .agents()
            .filter(|agent| !view.has_returned(&agent.id))
            .map(|agent| agent_info(agent, viewer))
            .collect(),
    }
}

fn agent(view: &View, viewer: &Viewer<'_>, agent: &Agent) -> get_agents::Agent {
    let total = agent.total.iter().filter(|resource| viewer.sees(resource));
    get_agents::Agent {
        agent_info: agent_info(agent, viewer),
        active: view.is_connected(&agent.id),
        version: agent.info.version.clone(),
        pid: Some(shapes::pid(agent)),
        registered_time: Some(time(agent.registered_at)),
        reregistered_time: agent.reregistered_at.map(time),
        total_resources: convert::resource::list_to_wire(total, Format::Endpoint),
        allocated_resources: Vec::new(),
        offered_resources: Vec::new(),
        capabilities: capabilities(),
        resource_providers: Vec::new(),
        deactivated: Some(false),
        drain_info: None,
        estimated_drain_start_time: None,
    }
}

fn agent_info(agent: &Agent, viewer: &Viewer<'_>) -> v1::AgentInfo {
    let declared = agent.info.resources.iter().filter(|resource| viewer.sees(resource));
    v1::AgentInfo {
        hostname: agent.info.hostname.clone(),
        resources: convert::resource::list_to_wire(declared, Format::Post),
        attributes: agent.info.attributes.iter().map(convert::attribute::to_wire).collect(),
        id: Some(v1::AgentId { value: agent.id.to_string() }),
        port: Some(i32::from(agent.info.port)),
        domain: None,
    }
}

fn capabilities() -> Vec<agent_info::Capability> {
    about::AGENT_CAPABILITIES
        .iter()
        .filter_map(|name| agent_info::capability::Type::from_str_name(name))
        .map(|kind| agent_info::Capability { r#type: Some(kind.into()) })
        .collect()
}

fn time(at: Timestamp) -> TimeInfo {
    TimeInfo { nanoseconds: i64::try_from(at.as_nanos()).unwrap_or(i64::MAX) }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use serde_json::{Value, json};

    use super::*;
    use crate::auth::Authorizer;
    use crate::http::shapes::tests::view;

    fn everything() -> Viewer<'static> {
        static OPEN: LazyLock<Authorizer> = LazyLock::new(Authorizer::default);
        Viewer::new(&OPEN, None)
    }

    fn printed(response: &Response) -> Value {
        serde_json::from_slice(&proto::json::encode_response(response)).unwrap()
    }

    #[test]
    fn agents_come_in_the_endpoint_form() {
        let answer = printed(&agents(&view(), &everything()));
        assert_eq!(answer["type"], "GET_AGENTS");
        let agent = &answer["get_agents"]["agents"][0];
        assert_eq!(agent["pid"], "slave(1)@127.0.0.1:5061");
        assert_eq!(agent["agent_info"]["id"], json!({"value": "c-S0"}));
        assert_eq!(agent["registered_time"]["nanoseconds"], 3_500_000_000_u64);
        let total = agent["total_resources"].as_array().unwrap();
        let volume = total.iter().find(|resource| resource["disk"].is_object()).unwrap();
        assert_eq!((&volume["role"], &volume["scalar"]["value"]), (&json!("ads"), &json!(60.0)));
        assert_eq!(volume["reservation"], json!({"principal": "ops"}));
        let declared = agent["agent_info"]["resources"][0].as_object().unwrap();
        assert!(!declared.contains_key("role"), "{declared:?}");
        assert_eq!(answer["get_agents"]["recovered_agents"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn the_version_is_that_of_compatibility_and_that_of_this_program() {
        let version = &printed(&version())["get_version"]["version_info"];
        assert_eq!(version["version"], "1.11.0");
        assert_eq!(version["holdfast_version"], about::HOLDFAST_VERSION);
    }

    #[test]
    fn state_holds_its_empty_lists() {
        let state = &printed(&state(&view(), &everything()))["get_state"];
        assert_eq!(state["get_frameworks"]["frameworks"], json!([]));
        assert_eq!(state["get_tasks"]["tasks"], json!([]));
        assert_eq!(state["get_executors"]["executors"], json!([]));
        assert_eq!(state["get_agents"]["agents"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn pending_operations_are_listed() {
        let answer = printed(&operations(&view(), &everything()));
        let listed = answer["get_operations"]["operations"].as_array().unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0]["latest_status"]["state"], "OPERATION_PENDING");
        assert_eq!(listed[0]["info"]["type"], "RESERVE");
        assert_eq!(listed[1]["info"]["create"]["volumes"][0]["scalar"]["value"], 60.0);
        assert!(listed[0]["uuid"]["value"].is_string());
    }
}
