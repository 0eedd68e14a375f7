//! JSON in, JSON out: one case per rule of spec §1.10.

use std::fmt::Debug;

use prost::{Message, Name};
use proto::json::{decode, encode, encode_response};
use proto::mesos::v1::{
    self, AgentInfo, ContainerId, Filters, FrameworkInfo, Labels, MasterInfo, Resource, TaskInfo,
    TaskStatus, Value, agent, master, quota, scheduler,
};

fn check<M: Message + Name + Default>(input: &str, expected: &str) {
    let message: M = decode(input.as_bytes()).unwrap_or_else(|e| panic!("{input}: {e}"));
    assert_eq!(String::from_utf8(encode(&message)).unwrap(), expected, "{input}");
    let again: M = decode(expected.as_bytes()).unwrap();
    assert_eq!(encode(&again), expected.as_bytes(), "what is printed reads as the same");
}

fn refuse<M: Message + Name + Default + Debug>(input: &str, expected: &str) {
    match decode::<M>(input.as_bytes()) {
        Ok(message) => panic!("{input} was taken for {message:?}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{input}"),
    }
}

fn check_answer<M: Message + Name>(response: &M, expected: &str) {
    assert_eq!(String::from_utf8(encode_response(response)).unwrap(), expected);
}

#[test]
fn numbers() {
    check::<Filters>(r#"{"refuse_seconds":5}"#, r#"{"refuse_seconds":5.0}"#);
    check::<Filters>(r#"{"refuse_seconds":" 5.25 "}"#, r#"{"refuse_seconds":5.25}"#);
    check::<Filters>(r#"{"refuse_seconds":"Infinity"}"#, r#"{"refuse_seconds":"Infinity"}"#);
    check::<Filters>(r#"{"refuse_seconds":"-Infinity"}"#, r#"{"refuse_seconds":"-Infinity"}"#);
    check::<Filters>(r#"{"refuse_seconds":1e300}"#, r#"{"refuse_seconds":1e+300}"#);
    check::<v1::TimeInfo>(
        r#"{"nanoseconds":1796052023752642048}"#,
        r#"{"nanoseconds":1796052023752642048}"#,
    );
    check::<v1::TimeInfo>(
        r#"{"nanoseconds":"-9223372036854775808"}"#,
        r#"{"nanoseconds":-9223372036854775808}"#,
    );
    check::<v1::value::Range>(
        r#"{"begin":18446744073709551615,"end":3.0}"#,
        r#"{"begin":18446744073709551615,"end":3}"#,
    );
    check::<v1::Address>(r#"{"port":-1}"#, r#"{"port":-1}"#);
    check::<v1::Address>(r#"{"port":"5050"}"#, r#"{"port":5050}"#);
}

#[test]
fn numbers_refused() {
    refuse::<Filters>(
        r#"{"refuse_seconds":"NaN"}"#,
        "Failed to parse 'NaN' as a JSON number for field 'refuse_seconds'",
    );
    refuse::<Filters>(
        r#"{"refuse_seconds":true}"#,
        "Not expecting a JSON boolean for field 'refuse_seconds'",
    );
    refuse::<Filters>(
        r#"{"refuse_seconds":[1]}"#,
        "Not expecting a JSON array for field 'refuse_seconds'",
    );
    for (port, shown) in [
        ("2147483648", "2147483648"),
        ("-2147483649", "-2147483649"),
        ("1e400", ""),
        ("5050.5", "5050.5"),
        ("1e30", "1e+30"),
        ("\"99999999999999999999\"", "1e+20"),
    ] {
        let error = decode::<v1::Address>(format!(r#"{{"port":{port}}}"#).as_bytes())
            .expect_err(port)
            .to_string();
        if shown.is_empty() {
            assert!(error.starts_with("Failed to parse body into JSON: number out of"), "{error}");
        } else {
            assert_eq!(error, format!("Number {shown} is out of range for field 'port'"));
        }
    }
    for number in ["-1", "18446744073709551616", "1.8446744073709552e19"] {
        let error = decode::<v1::value::Range>(format!(r#"{{"begin":{number}}}"#).as_bytes());
        assert!(error.expect_err(number).to_string().contains("is out of range"), "{number}");
    }
}

#[test]
fn booleans() {
    check::<v1::KillPolicy>("{}", "{}");
    check::<v1::environment::Variable>(
        r#"{"name":"A","type":"SECRET"}"#,
        r#"{"name":"A","type":"SECRET"}"#,
    );
    let health = r#"{"healthy":true}"#;
    check::<master::response::GetHealth>(r#"{"healthy":"true"}"#, health);
    check::<master::response::GetHealth>(r#"{"healthy":true}"#, health);
    refuse::<master::response::GetHealth>(
        r#"{"healthy":"yes"}"#,
        "Failed to parse 'yes' as a JSON boolean for field 'healthy'",
    );
    refuse::<master::response::GetHealth>(
        r#"{"healthy":1}"#,
        "Not expecting a JSON number for field 'healthy'",
    );
}

#[test]
fn enums() {
    check::<master::Call>(r#"{"type":"GET_HEALTH"}"#, r#"{"type":"GET_HEALTH"}"#);
    check::<master::Call>(r#"{"type":"get_health"}"#, "{}");
    check::<master::Call>(r#"{"type":"FROM_THE_FUTURE"}"#, "{}");
    refuse::<master::Call>(r#"{"type":1}"#, "Not expecting a JSON number for field 'type'");
    refuse::<Value>(r#"{"type":"SCALE"}"#, "Failed to find enum for 'SCALE' of field 'type'");
    check::<v1::volume::source::SandboxPath>(
        r#"{"type":"SELF","path":"p"}"#,
        r#"{"type":"SELF","path":"p"}"#,
    );
    let newer = master::Call { r#type: Some(1_000), ..Default::default() };
    assert_eq!(encode(&newer), b"{}", "numbers without a name are not printed");
}

#[test]
fn texts_and_bytes() {
    check::<v1::Label>(r#"{"key":"\u00fc\"\u0001\n"}"#, "{\"key\":\"ü\\\"\\u0001\\n\"}");
    check::<v1::Uuid>(r#"{"value":"aGk="}"#, r#"{"value":"aGk="}"#);
    check::<v1::Uuid>(r#"{"value":"aGk"}"#, r#"{"value":"aGk="}"#);
    check::<v1::Uuid>(r#"{"value":""}"#, r#"{"value":""}"#);
    refuse::<v1::Label>(r#"{"key":1}"#, "Not expecting a JSON number for field 'key'");
    refuse::<scheduler::call::Acknowledge>(
        r#"{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":{"value":"aGk="}}"#,
        "Not expecting a JSON object for field 'uuid'",
    );
    let error = decode::<v1::Uuid>(br#"{"value":"?"}"#).unwrap_err().to_string();
    assert!(error.starts_with("Failed to base64 decode bytes field 'value': "), "{error}");
}

#[test]
fn unknown_members_and_nulls() {
    check::<v1::Label>(r#"{"key":"k","value":null,"other":{"deep":[1]}}"#, r#"{"key":"k"}"#);
    check::<v1::TaskId>(r#"{"value":"t","slave_id":{"value":"S0"}}"#, r#"{"value":"t"}"#);
    check::<Labels>(r#"{"labels":[null,{"key":"k"}]}"#, r#"{"labels":[{"key":"k"}]}"#);
    // Names are those of the .proto file alone.
    refuse::<master::call::MarkAgentGone>(
        r#"{"agentId":{"value":"S0"}}"#,
        "Missing required fields: agent_id",
    );
}

#[test]
fn lists_and_maps() {
    check::<scheduler::call::Revive>(r#"{"roles":"x"}"#, r#"{"roles":["x"]}"#);
    check::<Labels>(r#"{"labels":{"key":"k"}}"#, r#"{"labels":[{"key":"k"}]}"#);
    check::<Labels>(r#"{"labels":[]}"#, "{}");
    check::<v1::health_check::HttpCheckInfo>(
        r#"{"port":1,"statuses":["200",201]}"#,
        r#"{"port":1,"statuses":[200,201],"protocol":"IPv4"}"#,
    );
    check::<quota::QuotaConfig>(
        r#"{"role":"r","limits":{"mem":{"value":"1"},"cpus":{"value":0}}}"#,
        r#"{"role":"r","limits":{"cpus":{"value":0.0},"mem":{"value":1.0}}}"#,
    );
    refuse::<quota::QuotaConfig>(
        r#"{"role":"r","limits":{"cpus":null}}"#,
        "Not expecting a JSON null for field 'limits'",
    );
    refuse::<quota::QuotaConfig>(
        r#"{"role":"r","limits":{"cpus":{}}}"#,
        "Missing required fields: limits[0].value.value",
    );
    refuse::<quota::QuotaConfig>(
        r#"{"role":"r","limits":"cpus"}"#,
        "Not expecting a JSON string for field 'limits'",
    );
}

#[test]
fn defaults_are_printed_unless_deprecated() {
    check::<FrameworkInfo>(
        r#"{"user":"u","name":"n"}"#,
        r#"{"user":"u","name":"n","failover_timeout":0.0,"checkpoint":false}"#,
    );
    check::<AgentInfo>(r#"{"hostname":"h"}"#, r#"{"hostname":"h","port":5051}"#);
    check::<Filters>("{}", r#"{"refuse_seconds":5.0}"#);
    check::<v1::environment::Variable>(r#"{"name":"A"}"#, r#"{"name":"A","type":"VALUE"}"#);
    check::<Resource>(
        r#"{"name":"cpus","type":"SCALAR","scalar":{"value":1}}"#,
        r#"{"name":"cpus","type":"SCALAR","scalar":{"value":1.0}}"#,
    );
    check::<v1::DrainConfig>("{}", r#"{"mark_gone":false}"#);
    check::<master::call::DrainAgent>(
        r#"{"agent_id":{"value":"a"},"max_grace_period":{"seconds":600,"nanos":5}}"#,
        "{\"agent_id\":{\"value\":\"a\"},\"max_grace_period\":{\"seconds\":600,\"nanos\":5},\
         \"mark_gone\":false}",
    );
}

#[test]
fn presence_alone_prints_empty_objects() {
    check::<Resource>(
        r#"{"name":"disk","type":"SCALAR","scalar":{"value":1.5},"shared":{},"revocable":{"a":1}}"#,
        r#"{"name":"disk","type":"SCALAR","scalar":{"value":1.5},"revocable":{},"shared":{}}"#,
    );
}

#[test]
fn oneofs() {
    let constraint = r#"{"selector":{"attribute_name":"rack"},"predicate":{"not_exists":{}}}"#;
    check::<scheduler::AttributeConstraint>(constraint, constraint);
    let constraint = r#"{"selector":{"pseudoattribute_type":"ZONE"},"predicate":{"exists":{}}}"#;
    check::<scheduler::AttributeConstraint>(constraint, constraint);
}

#[test]
fn missing_fields_are_named_at_any_depth() {
    refuse::<MasterInfo>("{}", "Missing required fields: id, ip, port");
    refuse::<master::Call>(
        r#"{"type":"RESERVE_RESOURCES","reserve_resources":{"agent_id":{},"resources":[
            {"name":"cpus","type":"SCALAR","scalar":{"value":1}},
            {"type":"SCALAR","scalar":{}},
            {"name":"disk","type":null,"disk":{"persistence":{}}}]}}"#,
        "Missing required fields: reserve_resources.agent_id.value, \
         reserve_resources.resources[1].name, reserve_resources.resources[1].scalar.value, \
         reserve_resources.resources[2].type, \
         reserve_resources.resources[2].disk.persistence.id",
    );
    let many = format!(r#"{{"labels":[{}{{}}]}}"#, "{},".repeat(1_000));
    let error = decode::<Labels>(many.as_bytes()).unwrap_err().to_string();
    assert!(error.ends_with("labels[15].key, ..."), "{error}");
}

#[test]
fn no_json() {
    for broken in ["", "{", "{\"type\":}", "{} {}", "nonsense", "{\"a\":\"\u{1}\"}"] {
        let error = decode::<master::Call>(broken.as_bytes()).expect_err(broken).to_string();
        assert!(error.starts_with("Failed to parse body into JSON: "), "{broken}: {error}");
    }
    for other in ["[]", "null", "\"GET_HEALTH\"", "3"] {
        refuse::<master::Call>(other, "Expecting a JSON object");
    }
    let error = decode::<master::Call>(b"{\"type\":\"\xff\"}").unwrap_err().to_string();
    assert!(error.starts_with("Failed to parse body into JSON: "), "{error}");
    refuse::<master::Call>(
        r#"{"type":"GET_HEALTH","get_metrics":"x"}"#,
        "Not expecting a JSON string for field 'get_metrics'",
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| {
        let inner = r#"{"value":"c"}"#.to_owned();
        (1..depth).fold(inner, |inner, _| format!(r#"{{"value":"c","parent":{inner}}}"#))
    };
    assert!(decode::<ContainerId>(nested(65).as_bytes()).is_ok());
    refuse::<ContainerId>(
        &nested(66),
        "Messages are nested deeper than 64 levels at field 'parent'",
    );
    let bomb = format!(r#"{{"value":"c","x":{}1{}}}"#, "[".repeat(200_000), "]".repeat(200_000));
    assert!(decode::<ContainerId>(bomb.as_bytes()).is_err());
}

#[test]
fn answers_keep_their_arrays() {
    let get_state = master::response::GetState {
        get_tasks: Some(Default::default()),
        get_executors: Some(Default::default()),
        get_frameworks: Some(Default::default()),
        get_agents: Some(Default::default()),
    };
    let state = master::Response {
        r#type: Some(master::response::Type::GetState.into()),
        get_state: Some(get_state.clone()),
        ..Default::default()
    };
    check_answer(
        &state,
        "{\"type\":\"GET_STATE\",\"get_state\":{\
         \"get_tasks\":{\"tasks\":[],\"completed_tasks\":[],\"unreachable_tasks\":[]},\
         \"get_executors\":{\"executors\":[]},\
         \"get_frameworks\":{\"frameworks\":[],\"completed_frameworks\":[]},\
         \"get_agents\":{\"agents\":[],\"recovered_agents\":[]}}}",
    );
    let event = master::event::Subscribed {
        get_state: Some(get_state),
        heartbeat_interval_seconds: Some(15.0),
    };
    assert_eq!(
        String::from_utf8(encode(&event)).unwrap(),
        "{\"get_state\":{\"get_tasks\":{},\"get_executors\":{},\"get_frameworks\":{},\
         \"get_agents\":{}},\"heartbeat_interval_seconds\":15.0}",
        "events omit them",
    );
    check_answer(
        &master::Response {
            r#type: Some(master::response::Type::GetOperations.into()),
            get_operations: Some(Default::default()),
            ..Default::default()
        },
        r#"{"type":"GET_OPERATIONS","get_operations":{}}"#,
    );
    check_answer(
        &agent::Response {
            r#type: Some(agent::response::Type::GetTasks.into()),
            get_tasks: Some(Default::default()),
            ..Default::default()
        },
        "{\"type\":\"GET_TASKS\",\"get_tasks\":{\"pending_tasks\":[],\"queued_tasks\":[],\
         \"launched_tasks\":[],\"terminated_tasks\":[],\"completed_tasks\":[]}}",
    );
}

#[test]
fn bodies_of_real_clients() {
    // npm mesos-framework: nulls for whatever is unset.
    check::<TaskInfo>(
        r#"{"name":"t","task_id":{"value":"t"},"agent_id":{"value":"S0"},
            "slave_id":{"value":"S0"},"resources":[],"executor":null,"data":"aGk=","labels":null,
            "command":{"value":"true","shell":"true","uris":null},"container":null}"#,
        "{\"name\":\"t\",\"task_id\":{\"value\":\"t\"},\"agent_id\":{\"value\":\"S0\"},\
         \"data\":\"aGk=\",\"command\":{\"value\":\"true\",\"shell\":true}}",
    );
    // Whatever this version leaves out of a message is skipped.
    check::<v1::ContainerInfo>(
        r#"{"type":"DOCKER","docker":{"image":"busybox"}}"#,
        r#"{"type":"DOCKER"}"#,
    );
    check::<TaskStatus>(
        r#"{"task_id":{"value":"t"},"state":"TASK_RUNNING","reason":"REASON_OF_TOMORROW",
            "timestamp":1796052022.738912}"#,
        r#"{"task_id":{"value":"t"},"state":"TASK_RUNNING","timestamp":1796052022.738912}"#,
    );
}
