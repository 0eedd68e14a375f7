//! Answers that Mesos 1.11.0 gave: read and printed again they are the same JSON.

use serde_json::Value;

use proto::json::{decode, encode_response};
use proto::mesos::v1::master;

const ANSWERS: &str = include_str!("../data/mesos-1.11-answers.json");

/// Mesos prints one key that its v1 messages do not have: it writes `AgentInfo` from the
/// internal message of older versions.
fn without_checkpoint(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.contains_key("hostname") {
                members.remove("checkpoint");
            }
            members.values_mut().for_each(without_checkpoint);
        }
        Value::Array(items) => items.iter_mut().for_each(without_checkpoint),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn answers_of_mesos_are_printed_as_mesos_prints_them() {
    let mut answers: Value = serde_json::from_str(ANSWERS).unwrap();
    let answers = answers.as_object_mut().unwrap();
    assert_eq!(answers.len(), 5);
    for (name, answer) in answers {
        let json = serde_json::to_vec(answer).unwrap();
        let message: master::Response = decode(&json).unwrap_or_else(|e| panic!("{name}: {e}"));
        let printed: Value = serde_json::from_slice(&encode_response(&message)).unwrap();
        without_checkpoint(answer);
        assert_eq!(&printed, answer, "{name}");
    }
}
