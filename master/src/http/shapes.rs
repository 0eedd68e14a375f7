//! The JSON shapes of `/slaves` and `/state` (spec §6.2): an agent with its summaries and its
//! resources in full. Numbers become doubles here and nowhere before. Pure. Must not know how the
//! state was read. Next: `read.rs`.

use std::collections::BTreeMap;

use resources::collection::Resources;
use resources::form::{Format, ResourceForm};
use resources::id::{ClusterId, MasterId};
use resources::message::{Attribute, AttributeValue};
use resources::resource::Resource;
use resources::time::Timestamp;
use resources::value::{Scalar, Value};
use serde::Serialize;

use super::about::AGENT_CAPABILITIES;
use crate::config::Address;
use crate::leader::View;
use crate::state::agents::Agent;

/// Names that a summary always holds.
const ALWAYS: [&str; 4] = ["cpus", "gpus", "mem", "disk"];

/// Amounts by name: numbers for scalars, texts for ranges and sets.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Summary(BTreeMap<String, Amount>);

/// One amount of a summary.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Amount {
    Number(f64),
    Text(String),
}

impl Summary {
    pub(crate) fn of<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Self {
        let mut sums: BTreeMap<String, Value> =
            ALWAYS.into_iter().map(|name| (name.to_owned(), Value::Scalar(Scalar::ZERO))).collect();
        for resource in resources {
            let name = match resource.revocable {
                true => format!("{}_revocable", resource.name),
                false => resource.name.clone(),
            };
            sums.entry(name)
                .and_modify(|sum| *sum = sum.add(&resource.value))
                .or_insert_with(|| resource.value.clone());
        }
        Self(sums.into_iter().map(|(name, value)| (name, amount(&value))).collect())
    }
}

fn amount(value: &Value) -> Amount {
    match value {
        Value::Scalar(scalar) => Amount::Number(scalar.to_f64()),
        Value::Ranges(ranges) => Amount::Text(ranges.to_string()),
        Value::Set(items) => Amount::Text(items.to_string()),
    }
}

/// An agent as `/slaves` and `/state` show it.
#[derive(Debug, Serialize)]
pub(crate) struct Slave<'a> {
    id: &'a str,
    hostname: &'a str,
    port: u16,
    pid: String,
    version: &'a str,
    attributes: BTreeMap<&'a str, Amount>,
    registered_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reregistered_time: Option<f64>,
    active: bool,
    deactivated: bool,
    capabilities: &'static [&'static str],
    resources: Summary,
    used_resources: Summary,
    offered_resources: Summary,
    reserved_resources: BTreeMap<String, Summary>,
    unreserved_resources: Summary,
    resource_version: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    full: Option<Full>,
}

/// The keys that only `/slaves` has.
#[derive(Debug, Serialize)]
struct Full {
    reserved_resources_full: BTreeMap<String, Vec<ResourceForm>>,
    unreserved_resources_full: Vec<ResourceForm>,
    used_resources_full: Vec<ResourceForm>,
    offered_resources_full: Vec<ResourceForm>,
}

/// Whether the resources stand there object by object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Full,
    Summaries,
}

/// An agent that is on record and has not come back under this leader.
#[derive(Debug, Serialize)]
pub(crate) struct RecoveredSlave<'a> {
    id: &'a str,
    hostname: &'a str,
    port: u16,
    attributes: BTreeMap<&'a str, Amount>,
}

/// The body of `/slaves`.
#[derive(Debug, Serialize)]
pub(crate) struct Slaves<'a> {
    pub(crate) slaves: Vec<Slave<'a>>,
    pub(crate) recovered_slaves: Vec<RecoveredSlave<'a>>,
    /// Unreachable agents, of which this version makes none: an agent that is away stays.
    pub(crate) unreachable_slaves: Vec<Slave<'a>>,
}

impl<'a> Slaves<'a> {
    /// All agents, or the one with this id.
    pub(crate) fn of(view: &'a View, slave_id: Option<&str>, detail: Detail) -> Self {
        let wanted = || {
            let is_wanted = move |agent: &&Agent| slave_id.is_none_or(|id| agent.id.as_str() == id);
            view.state.agents().filter(is_wanted)
        };
        Self {
            slaves: wanted().map(|agent| Slave::of(view, agent, detail)).collect(),
            recovered_slaves: wanted()
                .filter(|agent| !view.has_returned(&agent.id))
                .map(RecoveredSlave::of)
                .collect(),
            unreachable_slaves: Vec::new(),
        }
    }
}

impl<'a> Slave<'a> {
    pub(crate) fn of(view: &View, agent: &'a Agent, detail: Detail) -> Self {
        let total = &agent.total;
        let reserved = total.reservations();
        let unreserved = total.unreserved();
        // Tasks and offers come with frameworks: until then nothing is used or offered.
        let (used, offered) = (Resources::new(), Resources::new());
        let full = (detail == Detail::Full).then(|| Full {
            reserved_resources_full: reserved
                .iter()
                .map(|(role, resources)| (role.to_string(), forms(resources)))
                .collect(),
            unreserved_resources_full: forms(&unreserved),
            used_resources_full: forms(&used),
            offered_resources_full: forms(&offered),
        });
        Self {
            id: agent.id.as_str(),
            hostname: &agent.info.hostname,
            port: agent.info.port,
            pid: pid(agent),
            version: &agent.info.version,
            attributes: attributes(&agent.info.attributes),
            registered_time: seconds(agent.registered_at),
            reregistered_time: agent.reregistered_at.map(seconds),
            active: view.is_connected(&agent.id),
            deactivated: false,
            capabilities: AGENT_CAPABILITIES,
            resources: Summary::of(total.iter()),
            used_resources: Summary::of(used.iter()),
            offered_resources: Summary::of(offered.iter()),
            reserved_resources: reserved
                .iter()
                .map(|(role, resources)| (role.to_string(), Summary::of(resources.iter())))
                .collect(),
            unreserved_resources: Summary::of(unreserved.iter()),
            resource_version: agent.resource_version,
            full,
        }
    }
}

impl Slave<'_> {
    /// Whether its agent has a session.
    pub(crate) const fn is_active(&self) -> bool {
        self.active
    }
}

impl<'a> RecoveredSlave<'a> {
    fn of(agent: &'a Agent) -> Self {
        Self {
            id: agent.id.as_str(),
            hostname: &agent.info.hostname,
            port: agent.info.port,
            attributes: attributes(&agent.info.attributes),
        }
    }
}

/// The address of an agent in the form from which Mesos' tools take host and port.
pub(crate) fn pid(agent: &Agent) -> String {
    format!("slave(1)@{}", authority(&agent.info.host, agent.info.port))
}

/// `<cluster id>-M<id>`; nothing until the cluster is formed, because no id is invented.
pub(crate) fn master_id(cluster_id: Option<&ClusterId>, master_id: MasterId) -> String {
    cluster_id.map(|cluster_id| format!("{cluster_id}-M{master_id}")).unwrap_or_default()
}

/// The address of a master in Mesos' form.
pub(crate) fn master_pid(advertise: &Address) -> String {
    format!("master@{advertise}")
}

/// `host:port`, with brackets round an IPv6 address.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Resources in the endpoint form, object by object.
pub(crate) fn forms(resources: &Resources) -> Vec<ResourceForm> {
    resources.iter().map(form).collect()
}

/// One resource in the endpoint form.
pub(crate) fn form(resource: &Resource) -> ResourceForm {
    resource.to_form(Format::Endpoint).expect("only the pre-refinement form has no refinements")
}

fn attributes(attributes: &[Attribute]) -> BTreeMap<&str, Amount> {
    let shown = attributes.iter().map(|attribute| {
        let amount = match &attribute.value {
            AttributeValue::Scalar(scalar) => Amount::Number(scalar.to_f64()),
            AttributeValue::Ranges(ranges) => Amount::Text(ranges.to_string()),
            AttributeValue::Text(text) => Amount::Text(text.clone()),
        };
        (attribute.name.as_str(), amount)
    });
    shown.collect()
}

/// Seconds since the Unix epoch of a wall time.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.since(Timestamp::default()).as_secs_f64()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use resources::id::{AgentId, CheckpointId, LogIndex, OperationId, Principal, Seq, Term};
    use resources::message::{AgentInfo, Registration};
    use resources::operation::Operation;
    use resources::parse;
    use resources::role::Role;
    use serde_json::json;

    use super::*;
    use crate::leader::{Leadership, MasterIdentity};
    use crate::state::command::{Command, CommandKind, Response, SourceAddr};
    use crate::state::{Moment, State};

    fn apply(state: &mut State, index: u64, kind: CommandKind) -> Response {
        let clock = Timestamp::from_nanos(index);
        let wall = Timestamp::from_nanos(1_500_000_000 + index * 1_000_000_000);
        let principal = Some(Principal::new("ops"));
        let source = SourceAddr("test".to_owned());
        let command = Command { principal, source, key: None, kind };
        state.apply(Moment { index: LogIndex(index), clock, wall }, &command).0
    }

    fn reserved(form: &str) -> Resource {
        let form: ResourceForm = serde_json::from_str(form).unwrap();
        Resource::try_from(form).unwrap()
    }

    /// A cluster with one agent, a reservation on it, and a volume on a part of that.
    pub(crate) fn view() -> View {
        let mut state = State::default();
        let cluster_id = ClusterId::parse("c").unwrap();
        apply(&mut state, 1, CommandKind::FormCluster { cluster_id });
        let resources = "cpus:8;mem:1024;disk:1000;ports:[31000-32000,33000-33001];gpus(eng):2";
        let resources = parse::resources_text(resources, &Role::star()).unwrap();
        let registration = Registration {
            checkpoint_id: CheckpointId::parse("k").unwrap(),
            boot_counter: 1,
            agent_id: None,
            fence: None,
            resources_digest: resources.digest(),
            info: AgentInfo {
                hostname: "h1".to_owned(),
                host: "127.0.0.1".to_owned(),
                port: 5061,
                version: "1.11.0".to_owned(),
                attributes: parse::attributes("rack:r1;level:3;ids:[1-2,4-5]").unwrap(),
                resources: resources.iter().cloned().collect(),
            },
            applied_seq: Seq(0),
            settled: Vec::new(),
            unavailable: Vec::new(),
        };
        apply(&mut state, 2, CommandKind::RegisterAgent(Box::new(registration)));
        let disk = r#"{"name":"disk","type":"SCALAR","scalar":{"value":100},"role":"ads",
            "reservation":{"principal":"ops"}}"#;
        let volume = r#"{"name":"disk","type":"SCALAR","scalar":{"value":60},"role":"ads",
            "reservation":{"principal":"ops"},"disk":{"persistence":{"id":"v1","principal":"ops"},
            "volume":{"container_path":"data","mode":"RW"}}}"#;
        let reserve = Operation::Reserve { resources: vec![reserved(disk)], source: Vec::new() };
        let create = Operation::Create { volumes: vec![reserved(volume)] };
        for (index, operation) in [(3, reserve), (4, create)] {
            let agent_id = AgentId::parse("c-S0").unwrap();
            let operation_id = OperationId::parse(format!("1-{index}")).unwrap();
            let kind = CommandKind::Operate { agent_id, operation_id, operation };
            let response = apply(&mut state, index, kind);
            assert!(matches!(response, Response::Accepted { .. }), "{response}");
        }
        View {
            state: Arc::new(state.freeze()),
            applied: LogIndex(4),
            term: Term(1),
            sessions: Arc::default(),
            returned: Arc::default(),
            identity: MasterIdentity {
                id: MasterId(1),
                advertise: "127.0.0.1:5050".to_owned(),
                started_at: Timestamp::default(),
            },
            elected_at: None,
            leadership: Leadership::Leading { term: Term(1) },
        }
    }

    #[test]
    fn slaves_has_every_key() {
        let view = view();
        let slaves = serde_json::to_value(Slaves::of(&view, None, Detail::Full)).unwrap();
        let scalar = |name: &str, value: f64| json!({"name": name, "type": "SCALAR", "scalar": {"value": value}, "role": "*"});
        let reservation = json!([{"type": "DYNAMIC", "role": "ads", "principal": "ops"}]);
        let none = json!({"cpus": 0.0, "disk": 0.0, "gpus": 0.0, "mem": 0.0});
        let attributes = json!({"rack": "r1", "level": 3.0, "ids": "[1-2, 4-5]"});
        let expected = json!({
            "id": "c-S0", "hostname": "h1", "port": 5061, "pid": "slave(1)@127.0.0.1:5061",
            "version": "1.11.0", "attributes": attributes, "registered_time": 3.5,
            "active": false, "deactivated": false, "resource_version": 4,
            "capabilities": ["MULTI_ROLE", "HIERARCHICAL_ROLE", "RESERVATION_REFINEMENT",
                "RESOURCE_PROVIDER", "RESIZE_VOLUME", "AGENT_OPERATION_FEEDBACK",
                "AGENT_DRAINING", "TASK_RESOURCE_LIMITS"],
            "resources": {"cpus": 8.0, "disk": 1000.0, "gpus": 2.0, "mem": 1024.0,
                "ports": "[31000-32000, 33000-33001]"},
            "unreserved_resources": {"cpus": 8.0, "disk": 900.0, "gpus": 0.0, "mem": 1024.0,
                "ports": "[31000-32000, 33000-33001]"},
            "used_resources": none, "offered_resources": none,
            "used_resources_full": [], "offered_resources_full": [],
            "reserved_resources": {
                "ads": {"cpus": 0.0, "disk": 100.0, "gpus": 0.0, "mem": 0.0},
                "eng": {"cpus": 0.0, "disk": 0.0, "gpus": 2.0, "mem": 0.0}},
            "reserved_resources_full": {
                "ads": [
                    {"name": "disk", "type": "SCALAR", "scalar": {"value": 40.0}, "role": "ads",
                        "reservation": {"principal": "ops"}, "reservations": reservation},
                    {"name": "disk", "type": "SCALAR", "scalar": {"value": 60.0}, "role": "ads",
                        "reservation": {"principal": "ops"}, "reservations": reservation,
                        "disk": {"persistence": {"id": "v1", "principal": "ops"},
                            "volume": {"container_path": "data", "mode": "RW"}}}],
                "eng": [{"name": "gpus", "type": "SCALAR", "scalar": {"value": 2.0}, "role": "eng",
                    "reservations": [{"type": "STATIC", "role": "eng"}]}]},
            "unreserved_resources_full": [
                scalar("cpus", 8.0), scalar("disk", 900.0), scalar("mem", 1024.0),
                json!({"name": "ports", "type": "RANGES", "role": "*", "ranges": {"range": [
                    {"begin": 31000, "end": 32000}, {"begin": 33000, "end": 33001}]}})],
        });
        assert_eq!(slaves["slaves"][0], expected);
        assert_eq!(
            slaves["recovered_slaves"],
            json!([{"id": "c-S0", "hostname": "h1", "port": 5061, "attributes": attributes}])
        );
        assert_eq!(slaves["unreachable_slaves"], json!([]));
        let other = Slaves::of(&view, Some("c-S1"), Detail::Full);
        assert_eq!((other.slaves.len(), other.recovered_slaves.len()), (0, 0));
        let brief = Slaves::of(&view, Some("c-S0"), Detail::Summaries);
        let brief = serde_json::to_value(brief).unwrap();
        assert!(brief["slaves"][0].get("reserved_resources_full").is_none());
    }

    #[test]
    fn revocable_resources_have_a_name_of_their_own() {
        let mut cpus = reserved(r#"{"name":"cpus","type":"SCALAR","scalar":{"value":1}}"#);
        let plain = cpus.clone();
        cpus.revocable = true;
        let summary = serde_json::to_value(Summary::of([&cpus, &plain, &plain])).unwrap();
        assert_eq!((&summary["cpus"], &summary["cpus_revocable"]), (&json!(2.0), &json!(1.0)));
    }
}
