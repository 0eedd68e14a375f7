//! The status, text and headers of every refusal.

use resources::id::{LogIndex, Seq, VolumeId};
use resources::resource::Resource;
use resources::role::Role;

use super::*;

fn agent_id() -> AgentId {
    AgentId::parse("c-S0").unwrap()
}

fn operation_id() -> OperationId {
    OperationId::parse("3-7").unwrap()
}

fn rejected(rejection: Rejection) -> Failure {
    Failure::Rejected { agent_id: agent_id(), rejection: Box::new(rejection) }
}

fn resource(text: &str) -> Vec<Resource> {
    let parsed = resources::parse::resources_text(text, &Role::star()).unwrap();
    parsed.iter().cloned().collect()
}

fn check(failure: Failure, status: u16, text: &str, header: Option<(&str, &str)>) {
    let response = failure.clone().into_response(ErrorForm::Text);
    assert_eq!(response.status().as_u16(), status, "{failure:?}");
    assert!(failure.text().contains(text), "{}", failure.text());
    if let Some((name, value)) = header {
        assert_eq!(response.headers()[name].to_str().unwrap(), value, "{failure:?}");
    }
}

#[test]
fn rejections() {
    let agent_id = agent_id();
    let operation_id = operation_id();
    let unknown = Rejection::UnknownAgent { agent_id: agent_id.clone() };
    check(rejected(unknown), 400, "No agent found with specified ID", None);
    let invalid = Rejection::Invalid {
        agent_id: agent_id.clone(),
        operation: "RESERVE".to_owned(),
        reason: "why".to_owned(),
    };
    check(rejected(invalid), 400, "Invalid RESERVE operation on agent c-S0: why", None);
    let (role, volume_id) = (Role::parse("a").unwrap(), VolumeId::parse("v").unwrap());
    let exists = Rejection::VolumeExists { role, volume_id };
    check(rejected(exists), 400, "agent c-S0: Persistence ID 'v' is not unique", None);
    let missing = Rejection::VolumesNotFound { volumes: Vec::new() };
    check(rejected(missing), 400, "Persistent volumes not found", None);
    let insufficient = Rejection::Insufficient {
        wanted: resource("cpus:2"),
        available: resource("cpus:1;mem:3"),
        blocked_by: vec![operation_id.clone()],
    };
    let text = "cpus:1; mem:3 does not contain cpus:2; held by unconfirmed operations 3-7";
    check(rejected(insufficient), 409, text, None);
    let full = Rejection::Overloaded { agent_id: agent_id.clone(), pending: 4096 };
    check(rejected(full), 503, "4096 unconfirmed orders", Some(("retry-after", "1")));
    let regressed = Rejection::Regressed {
        agent_id: agent_id.clone(),
        applied_seq: Seq(1),
        confirmed_seq: Seq(2),
    };
    check(rejected(regressed), 409, "Agent c-S0 is at order 1", None);
    check(rejected(Rejection::Diverged { agent_id }), 409, "", None);
    check(rejected(Rejection::DuplicateOperation { operation_id }), 409, "3-7", None);
    check(rejected(Rejection::TooLarge { bytes: 9, bytes_max: 8 }), 413, "9 bytes", None);
    let fault = Rejection::Fault { index: LogIndex(5), what: "w".to_owned() };
    check(rejected(fault), 500, "Fault at index 5", None);
}

#[test]
fn failures_of_the_edge() {
    let realm = Failure::Unauthenticated(Realm::Readwrite);
    let challenge = ("www-authenticate", "Basic realm=\"mesos-master-readwrite\"");
    check(realm, 401, "401 Unauthorized.", Some(challenge));
    let method = Failure::MethodNotAllowed { allowed: &[Method::POST], received: Method::GET };
    let text = "405 Method Not Allowed. Expecting one of { 'POST' }, but received 'GET'.";
    check(method, 405, text, Some(("allow", "POST")));
    let location = "//h:1/master/x".to_owned();
    check(Failure::Redirect { location }, 307, "", Some(("location", "//h:1/master/x")));
    check(Failure::NoLeader, 503, "No leader elected", Some(("retry-after", "1")));
    check(ProposeFailure::NoLeader.into(), 503, "No leader elected", None);
    let retry_after = Duration::from_millis(1200);
    let overloaded = ProposeFailure::Overloaded { retry_after }.into();
    check(overloaded, 503, "", Some(("retry-after", "2")));
    let unknown = ProposeFailure::Unknown { operation_id: operation_id() }.into();
    check(unknown, 504, "unknown", Some(("holdfast-operation-id", "3-7")));
    check(Failure::TooLarge { bytes_max: 8 }, 413, "8 bytes", None);
    check(Failure::NotAcceptable, 406, "", None);
    check(Failure::UnsupportedMediaType, 415, "", None);
}

#[test]
fn the_json_form_has_every_key() {
    let rejection = Rejection::Insufficient {
        wanted: resource("cpus:2"),
        available: Vec::new(),
        blocked_by: vec![operation_id()],
    };
    let failure = rejected(rejection);
    let text = failure.text();
    let report = serde_json::to_value(failure.report(&text)).unwrap();
    let expected = serde_json::json!({
        "code": "FailedPrecondition",
        "message": "nothing does not contain cpus:2; held by unconfirmed operations 3-7",
        "agent_id": "c-S0", "wanted": ["cpus:2"], "available": [], "blocked_by": ["3-7"],
        "hint": "the same call may succeed later",
    });
    assert_eq!(report, expected);
}
