//! The status, text and headers of every refusal, and its JSON form.

use resources::id::{LogIndex, Principal, Seq, VolumeId};
use resources::message::Retry;
use resources::resource::Resource;
use resources::role::Role;
use serde_json::{Value, json};

use super::*;
use crate::auth::{Acls, Authorizer, Viewer};
use crate::state::keys::{IdempotencyKey, KeyQuota};
use crate::state::rejection::{RegistrationRefusal, Rejection};

fn agent_id() -> AgentId {
    AgentId::parse("c-S0").unwrap()
}

fn operation_id() -> OperationId {
    OperationId::parse("3-7").unwrap()
}

fn rejected(rejection: Rejection) -> Failure {
    let authorizer = Authorizer::default();
    Failure::Refused(Box::new(Refused::new(rejection, &Viewer::new(&authorizer, None))))
}

fn resource(text: &str) -> Vec<Resource> {
    let parsed = resources::parse::resources_text(text, &Role::star()).unwrap();
    parsed.iter().cloned().collect()
}

fn check(failure: &Failure, status: u16, text: &str, header: Option<(&str, &str)>) {
    let response = failure.clone().into_response(ErrorForm::Text);
    assert_eq!(response.status().as_u16(), status, "{failure:?}");
    assert!(failure.text().contains(text), "{}", failure.text());
    if let Some((name, value)) = header {
        assert_eq!(response.headers()[name].to_str().unwrap(), value, "{failure:?}");
    }
}

/// Every kind of refusal by the state with its status and a part of its text.
fn rejections() -> Vec<(Rejection, u16, &'static str)> {
    let (agent_id, operation_id) = (agent_id(), operation_id());
    let id = || agent_id.clone();
    let (role, volume_id) = (Role::parse("a").unwrap(), VolumeId::parse("v").unwrap());
    let volume = || Box::new(resource("disk(a):5").remove(0));
    let key = IdempotencyKey::parse("k").unwrap();
    let quota = KeyQuota::Cluster;
    let invalid = Rejection::Invalid {
        agent_id: id(),
        operation: "RESERVE".to_owned(),
        reason: "why".to_owned(),
    };
    let member = Rejection::Member { position: 3, rejection: Box::new(invalid.clone()) };
    let full = Rejection::KeyTableFull { quota, keys: 9, keys_max: 9, bytes: 1, bytes_max: 100 };
    vec![
        (Rejection::UnknownAgent { agent_id: id() }, 400, "No agent found with specified ID"),
        (invalid, 400, "Invalid RESERVE operation on agent c-S0: why"),
        (
            Rejection::VolumeExists { agent_id: id(), role, volume_id, existing: volume() },
            400,
            "agent c-S0: Persistence ID 'v' is not unique: there is disk",
        ),
        (
            Rejection::VolumesNotFound {
                agent_id: id(),
                volumes: resource("disk(a):9"),
                available: resource("disk(a):5"),
            },
            400,
            "Persistent volumes not found on agent c-S0: ",
        ),
        (
            Rejection::Insufficient {
                agent_id: id(),
                wanted: resource("cpus:2"),
                available: resource("cpus:1;mem:3"),
                blocked_by: vec![operation_id.clone()],
                volumes: Vec::new(),
                tasks: Vec::new(),
            },
            409,
            "cpus:1; mem:3 does not contain cpus:2; held by unconfirmed operations 3-7",
        ),
        (
            Rejection::SharesRemain { agent_id: id(), volume: volume(), shares: 2 },
            409,
            "2 more shares",
        ),
        (Rejection::Overloaded { agent_id: id(), pending: 4096 }, 503, "4096 unconfirmed orders"),
        (
            Rejection::Regressed { agent_id: id(), applied_seq: Seq(1), confirmed_seq: Seq(2) },
            409,
            "Agent c-S0 is at order 1",
        ),
        (Rejection::Diverged { agent_id: id() }, 409, "c-S0"),
        (Rejection::VersionMoved { agent_id: id(), wanted: 3, found: 4 }, 412, "version 4"),
        (Rejection::DuplicateOperation { operation_id }, 409, "3-7"),
        (Rejection::KeyReused { key, index: LogIndex(5) }, 422, "'k'"),
        (full, 429, "9 keys"),
        (Rejection::TooLarge { bytes: 9, bytes_max: 8 }, 413, "9 bytes"),
        (Rejection::TransactionSize { operations: 0 }, 400, "1 to 1024"),
        (member, 400, "Operation 3 of the transaction: Invalid RESERVE operation on agent c-S0"),
        (
            Rejection::NeverGiven { agent_id: id(), upto: Seq(2), given: Seq(1) },
            409,
            "reports order 2",
        ),
        (Rejection::Registration(RegistrationRefusal::OtherDigest), 409, "digest"),
        (Rejection::Fault { index: LogIndex(5), what: "w".to_owned() }, 500, "Fault at index 5"),
    ]
}

#[test]
fn rejections_of_the_state() {
    for (rejection, status, text) in rejections() {
        let header = matches!(status, 503 | 429).then_some(("retry-after", "1"));
        check(&rejected(rejection), status, text, header);
    }
    assert_eq!(RegistrationRefusal::NoCluster.retry(), Retry::Later);
}

#[test]
fn failures_of_the_edge() {
    let realm = Failure::Unauthenticated(Realm::Readwrite);
    let challenge = ("www-authenticate", "Basic realm=\"mesos-master-readwrite\"");
    check(&realm, 401, "401 Unauthorized.", Some(challenge));
    check(&Failure::Forbidden("x may not".to_owned()), 403, "403 Forbidden: x may not", None);
    let method = Failure::MethodNotAllowed { allowed: &[Method::POST], received: Method::GET };
    let text = "405 Method Not Allowed. Expecting one of { 'POST' }, but received 'GET'.";
    check(&method, 405, text, Some(("allow", "POST")));
    let location = "//h:1/master/x".to_owned();
    check(&Failure::Redirect { location }, 307, "", Some(("location", "//h:1/master/x")));
    check(&Failure::NoLeader, 503, "No leader elected", Some(("retry-after", "1")));
    check(&ProposeFailure::NoLeader.into(), 503, "No leader elected", None);
    let retry_after = Duration::from_millis(1200);
    let overloaded = ProposeFailure::Overloaded { retry_after }.into();
    check(&overloaded, 503, "", Some(("retry-after", "2")));
    let unknown = ProposeFailure::Unknown { operation_id: operation_id() }.into();
    check(&unknown, 504, "unknown", Some(("holdfast-operation-id", "3-7")));
    check(&Failure::TooLarge { bytes_max: 8 }, 413, "8 bytes", None);
    check(&Failure::NotAcceptable, 406, "", None);
    check(&Failure::UnsupportedMediaType, 415, "", None);
    check(&Failure::Internal("secret".to_owned()), 500, "500 Internal Server Error.", None);
    let member = Failure::Member { position: 4, failure: Box::new(Failure::NoLeader) };
    let text = "Operation 4 of the transaction: No leader elected";
    check(&member, 503, text, Some(("retry-after", "1")));
}

fn report(failure: &Failure) -> Value {
    serde_json::to_value(failure.full_report()).unwrap()
}

#[test]
fn the_json_form_has_every_key() {
    let rejection = Rejection::Insufficient {
        agent_id: agent_id(),
        wanted: resource("cpus:2"),
        available: Vec::new(),
        blocked_by: vec![operation_id()],
        volumes: Vec::new(),
        tasks: Vec::new(),
    };
    let hint = rejection.hint();
    let expected = json!({
        "code": "FailedPrecondition",
        "message": "Agent c-S0 has no such resources; wanted cpus:2; held by unconfirmed \
            operations 3-7",
        "agent_id": "c-S0", "wanted": ["cpus:2"], "available": [],
        "blocked_by": ["operation 3-7"], "hint": hint,
    });
    assert_eq!(report(&rejected(rejection)), expected);
    let element = report(&Failure::bad_element("wrong", 2));
    assert_eq!((&element["index"], &element["code"]), (&json!(2), &json!("InvalidArgument")));
}

/// Every error names its object, what was wanted and is there, and the next step.
#[test]
fn u02_each_json_error_helps() {
    for (rejection, _, _) in rejections() {
        let report = report(&rejected(rejection.clone()));
        for key in ["code", "message", "hint"] {
            assert!(!report[key].as_str().unwrap().is_empty(), "{key} of {rejection:?}");
        }
        assert_ne!(report["message"], "internal error");
        for key in ["wanted", "available", "blocked_by"] {
            assert!(report[key].is_array(), "{key} of {rejection:?}");
        }
        let about_agent = rejection.agent_id().map(ToString::to_string);
        assert_eq!(report["agent_id"].as_str().map(str::to_owned), about_agent);
    }
    let hints = report(&Failure::Forbidden(String::new()));
    assert!(hints["hint"].as_str().unwrap().contains("access control"));
}

/// What a reader may not see is not told by an error either (Z03).
#[test]
fn z03_errors_keep_secrets() {
    let acls = r#"{"view_roles":[{"principals":{"type":"ANY"},"roles":{"type":"NONE"}}]}"#;
    let authorizer = Authorizer::new(Acls::parse(acls).unwrap());
    let principal = Principal::new("v");
    let viewer = Viewer::new(&authorizer, Some(&principal));
    let secret = || resource("disk(zz-secret):12345");
    let agent_id = agent_id();
    for rejection in [
        Rejection::Insufficient {
            agent_id: agent_id.clone(),
            wanted: resource("disk:1"),
            available: secret(),
            blocked_by: vec![operation_id()],
            volumes: secret(),
            tasks: Vec::new(),
        },
        Rejection::VolumeExists {
            agent_id: agent_id.clone(),
            role: Role::parse("a").unwrap(),
            volume_id: VolumeId::parse("v").unwrap(),
            existing: Box::new(secret().remove(0)),
        },
        Rejection::VolumesNotFound { agent_id, volumes: resource("disk:1"), available: secret() },
    ] {
        let refused = Failure::Refused(Box::new(Refused::new(rejection, &viewer)));
        let shown = format!("{} {}", refused.text(), report(&refused));
        for word in ["zz-secret", "12345", "3-7"] {
            assert!(!shown.contains(word), "{shown}");
        }
    }
}
