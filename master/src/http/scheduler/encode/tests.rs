//! Events as frameworks read them.

use std::sync::Arc;

use proto::convert::framework;
use resources::id::{FrameworkId, OfferId, OperationId, TaskId, UpdateId};
use resources::message::{AgentInfo, ExecutorExit};
use resources::parse;
use resources::role::Role;
use resources::task::{ExecutorName, StatusReason, StatusSource, TaskState, TaskStatus};
use resources::time::Timestamp;
use serde_json::{Value, json};

use super::*;

fn info(capabilities: &[&str]) -> Arc<resources::framework::FrameworkInfo> {
    let capabilities: Vec<Value> = capabilities.iter().map(|kind| json!({"type": kind})).collect();
    let wire = json!({"user": "u", "name": "n", "capabilities": capabilities});
    let wire = proto::json::decode(wire.to_string().as_bytes()).unwrap();
    Arc::new(framework::from_wire(wire, None).unwrap())
}

fn encoder(capabilities: &[&str]) -> Encoder {
    let mut encoder = Encoder::new(Media::Json, None);
    let id = FrameworkId::parse("c-0000").unwrap();
    let subscribed = read(&mut encoder, SchedulerEvent::Subscribed(id, info(capabilities)));
    assert_eq!(subscribed["subscribed"]["framework_id"], json!({"value": "c-0000"}));
    assert_eq!(subscribed["subscribed"]["heartbeat_interval_seconds"], 15.0);
    encoder
}

/// One event is one record: its length in bytes, a line feed, and so many bytes in one line.
fn read(encoder: &mut Encoder, event: SchedulerEvent) -> Value {
    let record = encoder.record(event).expect("an event for the wire");
    let text = std::str::from_utf8(&record).unwrap();
    let (length, body) = text.split_once('\n').unwrap();
    assert_eq!(length.parse(), Ok(body.len()), "{text}");
    assert!(!body.contains('\n') && body.is_ascii(), "{body}");
    serde_json::from_str(body).unwrap()
}

fn offers() -> SchedulerEvent {
    SchedulerEvent::Offers(vec![Offer {
        offer_id: OfferId::parse("c-O1-0").unwrap(),
        framework_id: FrameworkId::parse("c-0000").unwrap(),
        role: Role::parse("ads").unwrap(),
        agent_id: AgentId::parse("c-S0").unwrap(),
        agent: Arc::new(AgentInfo {
            hostname: "knöten".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 5061,
            version: "1.11.0".to_owned(),
            attributes: parse::attributes("rack:r1").unwrap(),
            resources: Vec::new(),
        }),
        resources: parse::resources_text("cpus:2;disk(ads):5;ports:[1-9]", &Role::star()).unwrap(),
        executor_ids: Vec::new(),
        unavailability: None,
    }])
}

#[test]
fn offers_follow_the_capabilities() {
    let mut old = encoder(&[]);
    assert_eq!(read(&mut old, SchedulerEvent::Heartbeat), json!({"type": "HEARTBEAT"}));
    let event = read(&mut old, offers());
    assert_eq!(event["type"], "OFFERS");
    let offer = &event["offers"]["offers"][0];
    assert_eq!(offer["hostname"], "knöten");
    assert_eq!(offer["url"]["address"]["ip"], "127.0.0.1");
    assert!(offer.get("allocation_info").is_none());
    let named = |name: &str| {
        let list = offer["resources"].as_array().unwrap();
        list.iter().find(|resource| resource["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (named("cpus")["role"].clone(), named("disk")["role"].clone()),
        (json!("*"), json!("ads"))
    );
    assert_eq!(named("ports")["ranges"]["range"][0], json!({"begin": 1, "end": 9}));

    let capabilities = ["MULTI_ROLE", "RESERVATION_REFINEMENT"];
    assert_eq!(old.record(SchedulerEvent::Updated(info(&capabilities))), None);
    let event = read(&mut old, offers());
    let offer = &event["offers"]["offers"][0];
    assert_eq!(offer["allocation_info"], json!({"role": "ads"}));
    for resource in offer["resources"].as_array().unwrap() {
        assert_eq!(resource["allocation_info"], json!({"role": "ads"}));
        assert!(resource.get("reservation").is_none());
    }
}

fn status(uuid: Option<UpdateId>) -> TaskStatus {
    TaskStatus {
        task_id: TaskId::parse("t").unwrap(),
        state: TaskState::Running,
        agent_id: Some(AgentId::parse("c-S0").unwrap()),
        executor_id: Some(ExecutorId::parse("t").unwrap()),
        source: StatusSource::Executor,
        reason: None,
        message: None,
        uuid,
        at: Timestamp::from_nanos(1_500_000_000),
        unreachable_at: None,
        healthy: None,
        data: resources::opaque::Opaque::default(),
        wire: resources::opaque::Opaque::default(),
    }
}

fn notice(encoder: &mut Encoder, notice: Notice) -> Value {
    read(encoder, SchedulerEvent::Notice(Box::new(notice)))
}

#[test]
fn statuses_of_tasks() {
    let mut encoder = encoder(&[]);
    let event = notice(&mut encoder, Notice::Task(status(Some(UpdateId([0; 16])))));
    let update = &event["update"]["status"];
    assert_eq!(event["type"], "UPDATE");
    assert_eq!((&update["state"], &update["timestamp"]), (&json!("TASK_RUNNING"), &json!(1.5)));
    assert_eq!(update["uuid"], "AAAAAAAAAAAAAAAAAAAAAA==");
    assert_eq!(update["executor_id"], json!({"value": "t"}));
    let reconciled = TaskStatus { reason: Some(StatusReason::Reconciliation), ..status(None) };
    let event = notice(&mut encoder, Notice::Task(reconciled));
    assert_eq!(event["update"]["status"]["reason"], "REASON_RECONCILIATION");
    assert!(event["update"]["status"].get("uuid").is_none());
}

#[test]
fn statuses_of_operations_losses_and_errors() {
    let mut encoder = encoder(&[]);
    let made = parse::resources_text("cpus(ads):1", &Role::star()).unwrap();
    let status = OperationStatus {
        own_id: OperationId::parse("op").unwrap(),
        state: FeedbackState::Recorded(OperationState::Finished),
        message: None,
        converted: made.iter().cloned().collect(),
        agent_id: Some(AgentId::parse("c-S0").unwrap()),
        uuid: Some(UpdateId([1; 16])),
    };
    let event = notice(&mut encoder, Notice::Operation(status.clone()));
    let update = &event["update_operation_status"]["status"];
    assert_eq!(update["state"], "OPERATION_FINISHED");
    assert_eq!(update["operation_id"], json!({"value": "op"}));
    assert_eq!(update["converted_resources"][0]["role"], "ads");
    assert!(update["uuid"]["value"].is_string());
    let unknown = OperationStatus { state: FeedbackState::Unknown, uuid: None, ..status };
    let event = notice(&mut encoder, Notice::Operation(unknown));
    assert_eq!(event["update_operation_status"]["status"]["state"], "OPERATION_UNKNOWN");

    let agent_id = AgentId::parse("c-S0").unwrap();
    let event = notice(&mut encoder, Notice::AgentLost(agent_id.clone()));
    assert_eq!(event, json!({"type": "FAILURE", "failure": {"agent_id": {"value": "c-S0"}}}));
    let executor = ExecutorName {
        framework_id: FrameworkId::parse("c-0000").unwrap(),
        executor_id: ExecutorId::parse("e").unwrap(),
    };
    let exit = ExecutorExit { executor, status: 9 };
    let event = notice(&mut encoder, Notice::ExecutorExited { agent_id, exit });
    assert_eq!((&event["failure"]["status"], &event["type"]), (&json!(9), &json!("FAILURE")));
    let event = notice(&mut encoder, Notice::Error("Framework failed over".to_owned()));
    assert_eq!(event, json!({"type": "ERROR", "error": {"message": "Framework failed over"}}));
}

#[test]
fn letters_beyond_ascii_are_escaped() {
    let json = ascii("{\"a\":\"ü\u{1f600}\"}".as_bytes().to_vec());
    assert_eq!(json, br#"{"a":"\u00fc\ud83d\ude00"}"#);
    let read: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(read["a"], "ü\u{1f600}");
}
