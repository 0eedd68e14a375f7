//! The shapes of `/slaves` and `/state`, key by key, and what a reader who may not see a role is
//! shown.

mod work;

use std::collections::BTreeMap;
use std::sync::Arc;

use resources::id::{AgentId, CheckpointId, LogIndex, OperationId, Principal, Seq, Term};
use resources::message::{AgentInfo, Registration};
use resources::operation::Operation;
use resources::parse;
use resources::role::Role;
use serde_json::json;

use super::*;
use crate::auth::{Acls, Authorizer, Viewer};
use crate::http::offers::Offers;
use crate::http::picture::Picture;
use crate::leader::{Leadership, MasterIdentity, View};
use crate::state::command::{Command, CommandKind, Response, SourceAddr};
use crate::state::{Moment, State};

fn apply(state: &mut State, index: u64, kind: CommandKind) -> Response {
    let clock = Timestamp::from_nanos(index);
    let wall = Timestamp::from_nanos(1_500_000_000 + index * 1_000_000_000);
    let principal = Some(Principal::new("ops"));
    let source = SourceAddr("test".to_owned());
    let if_versions = BTreeMap::new();
    let command = Command { principal, source, key: None, if_versions, kind };
    state.apply(Moment { index: LogIndex(index), clock, wall }, &command).0
}

fn reserved(form: &str) -> Resource {
    let form: ResourceForm = serde_json::from_str(form).unwrap();
    Resource::try_from(form).unwrap()
}

/// A cluster with one agent, a reservation on it, and a volume on a part of that.
pub(crate) fn view() -> View {
    of(&state())
}

fn of(state: &State) -> View {
    View {
        state: Arc::new(state.freeze()),
        applied: LogIndex(4),
        now: state.clock(),
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

fn state() -> State {
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
        tasks: Vec::new(),
        executors: Vec::new(),
    };
    apply(&mut state, 2, CommandKind::RegisterAgent(Box::new(registration)));
    let disk = r#"{"name":"disk","type":"SCALAR","scalar":{"value":100},"role":"ads",
        "reservation":{"principal":"ops"}}"#;
    let reserve = Operation::Reserve { resources: vec![reserved(disk)], source: Vec::new() };
    let create = Operation::Create { volumes: vec![reserved(VOLUME)] };
    for (index, operation) in [(3, reserve), (4, create)] {
        let agent_id = AgentId::parse("c-S0").unwrap();
        let operation_id = OperationId::parse(format!("1-{index}")).unwrap();
        let kind = CommandKind::Operate { agent_id, operation_id, operation };
        let response = apply(&mut state, index, kind);
        assert!(matches!(response, Response::Accepted { .. }), "{response}");
    }
    state
}

const VOLUME: &str = r#"{"name":"disk","type":"SCALAR","scalar":{"value":60},"role":"ads",
    "reservation":{"principal":"ops"},"disk":{"persistence":{"id":"v1","principal":"ops"},
    "volume":{"container_path":"data","mode":"RW"}}}"#;

#[test]
fn slaves_has_every_key() {
    let (view, offers, authorizer) = (view(), Offers::default(), Authorizer::default());
    let viewer = Viewer::new(&authorizer, None);
    let picture = Picture { view: &view, offers: &offers, viewer };
    let slaves = serde_json::to_value(Slaves::of(&picture, None, Detail::Full)).unwrap();
    let scalar = |name: &str, value: f64| {
        let scalar = json!({"value": value});
        json!({"name": name, "type": "SCALAR", "scalar": scalar, "role": "*"})
    };
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
    let other = Slaves::of(&picture, Some("c-S1"), Detail::Full);
    assert_eq!((other.slaves.len(), other.recovered_slaves.len()), (0, 0));
    let brief = Slaves::of(&picture, Some("c-S0"), Detail::Summaries);
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

#[test]
fn what_a_reader_may_not_see_is_left_out() {
    let rules = r#"{"view_roles":[{"principals":{"values":["svc"]},"roles":{"values":["ads"]}},
        {"principals":{"type":"ANY"},"roles":{"type":"NONE"}}]}"#;
    let authorizer = Authorizer::new(Acls::parse(rules).unwrap());
    let (view, offers) = (view(), Offers::default());
    let reserved = |principal: Option<&str>| {
        let principal = principal.map(Principal::new);
        let viewer = Viewer::new(&authorizer, principal.as_ref());
        let picture = Picture { view: &view, offers: &offers, viewer };
        let slaves = Slaves::of(&picture, None, Detail::Full);
        let slave = serde_json::to_value(&slaves.slaves[0]).unwrap();
        let names = |key: &str| {
            let roles = slave[key].as_object().unwrap();
            roles.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(slave["resources"]["disk"], 1000.0, "sums stay whole");
        (names("reserved_resources"), names("reserved_resources_full"))
    };
    assert_eq!(reserved(Some("svc")), ("ads".to_owned(), "ads".to_owned()));
    assert_eq!(reserved(None), (String::new(), String::new()));
}
