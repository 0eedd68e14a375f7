//! What a master that refuses says, as people read it: the message in one line, then one indented
//! line each for what was wanted, what is available, what stands in the way and what to do next.
//! Also which exit code a status is. Must not know what was asked. Next: `output.rs`.

use reqwest::StatusCode;
use serde_json::{Map, Value};

use crate::exit::{DETAIL, Failure};

/// Keys of the JSON form of an error that carry more than the message, with their labels.
const DETAILS: [(&str, &str); 5] = [
    ("index", "element"),
    ("wanted", "wanted"),
    ("available", "available"),
    ("blocked_by", "blocked by"),
    ("hint", "next"),
];

/// The failure that an answer of this status is.
pub(super) fn failure(status: StatusCode, body: &[u8]) -> Failure {
    let text = text(status, body);
    match status {
        StatusCode::CONFLICT
        | StatusCode::PRECONDITION_FAILED
        | StatusCode::UNPROCESSABLE_ENTITY => Failure::Conflict(text),
        // Said before anything was done.
        StatusCode::NOT_IMPLEMENTED => Failure::Refused(text),
        status if status.is_server_error() => Failure::Unknown(text),
        _ => Failure::Refused(text),
    }
}

/// The message, with the status, and the details below it.
pub(super) fn text(status: StatusCode, body: &[u8]) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(error)) => report(status.as_u16(), &error),
        Ok(_) | Err(_) => {
            let text = String::from_utf8_lossy(body);
            let text = text.trim();
            let reason = status.canonical_reason().unwrap_or_default();
            format!("{} ({})", if text.is_empty() { reason } else { text }, status.as_u16())
        }
    }
}

/// The JSON form of an error.
pub(super) fn report(status: u16, error: &Map<String, Value>) -> String {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("refused");
    let message: Vec<&str> = message.lines().map(str::trim).collect();
    let mut text = format!("{} ({status})", message.join(" "));
    for (key, label) in DETAILS {
        if let Some(detail) = error.get(key).and_then(detail) {
            text = format!("{text}\n{DETAIL}{label}: {detail}");
        }
    }
    text
}

/// A text, a number, or a list of these, when there is something in it.
fn detail(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(detail).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, body: &str, expected: Failure) {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(failure(status, body.as_bytes()), expected);
    }

    #[test]
    fn exit_codes_by_status() {
        let text = |status: u16| format!("x ({status})");
        for status in [400, 401, 403, 404, 405, 413, 415, 429, 501] {
            check(status, "x", Failure::Refused(text(status)));
        }
        for status in [409, 412, 422] {
            check(status, "x", Failure::Conflict(text(status)));
        }
        for status in [500, 502, 504] {
            check(status, "x", Failure::Unknown(text(status)));
        }
        check(404, "", Failure::Refused("Not Found (404)".to_owned()));
    }

    #[test]
    fn details_stand_below_the_message() {
        let body = r#"{"code": "FailedPrecondition", "message": "not\nenough", "agent_id": "c-S0",
            "wanted": ["cpus:2", "mem:1"], "available": null, "blocked_by": [], "hint": "wait",
            "index": 1}"#;
        let expected =
            "not enough (409)\n  element: 1\n  wanted: cpus:2, mem:1\n  next: wait".to_owned();
        check(409, body, Failure::Conflict(expected));
    }
}
