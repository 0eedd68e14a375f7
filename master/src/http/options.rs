//! What a client asks about a mutating call beside the call itself: when to be answered, under
//! which key, on which version, or only for the sake of knowing (contract, extensions). Must not
//! know what the call does. Next: `permit.rs`.

use std::time::Duration;

use http::HeaderName;
use http::header::IF_MATCH;

use super::error::Failure;
use super::incoming::Incoming;
use crate::state::keys::IdempotencyKey;

/// Name of a call, chosen by its caller.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// How long `?wait=checkpointed` waits when the client does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);
/// How long it waits at most.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// When the client wants its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// When a quorum has it and it is applied.
    Committed,
    /// When the agent has it on its disk.
    Checkpointed { timeout: Duration },
}

/// Whether the call is to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earnest {
    /// It is.
    Real,
    /// The client only wants to know what would come of it.
    DryRun,
}

/// Everything that goes with a mutating call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) earnest: Earnest,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) if_version: Option<u64>,
}

impl Options {
    /// What the headers and the query say.
    pub(crate) fn of(incoming: &Incoming) -> Result<Self, Failure> {
        let query = incoming.query()?;
        let timeout = match query.get("timeout") {
            None => WAIT_DEFAULT,
            Some(text) => resources::parse::duration(text)
                .map_err(|error| Failure::bad_request(format!("Malformed 'timeout': {error}")))?,
        };
        let wait = match query.get("wait").map(String::as_str) {
            None | Some("committed") => Wait::Committed,
            Some("checkpointed") => Wait::Checkpointed { timeout: timeout.min(WAIT_MAX) },
            Some(other) => return Err(neither("wait", ["committed", "checkpointed"], other)),
        };
        let earnest = match query.get("dry_run").map(String::as_str) {
            None | Some("false") => Earnest::Real,
            Some("true") => Earnest::DryRun,
            Some(other) => return Err(neither("dry_run", ["true", "false"], other)),
        };
        let key = single(incoming, &IDEMPOTENCY_KEY)?
            .map(|text| IdempotencyKey::parse(text).map_err(|error| malformed(&error)))
            .transpose()?;
        let if_version = single(incoming, &IF_MATCH)?.map(version).transpose()?.flatten();
        Ok(Self { wait, earnest, key, if_version })
    }
}

fn neither(name: &str, [one, other]: [&str; 2], found: &str) -> Failure {
    Failure::bad_request(format!("Expecting '{name}' to be '{one}' or '{other}', found '{found}'"))
}

fn malformed(error: &impl std::fmt::Display) -> Failure {
    Failure::bad_request(format!("Malformed header {IDEMPOTENCY_KEY}: {error}"))
}

/// The value of a header that may stand there once.
fn single<'a>(incoming: &'a Incoming, name: &HeaderName) -> Result<Option<&'a str>, Failure> {
    let mut values = incoming.headers().get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Failure::bad_request(format!("The header {name} stands there twice")));
    }
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| Failure::bad_request(format!("The header {name} is not UTF-8")))?;
    Ok(Some(text))
}

/// A version as `ETag` gives it, or as a bare number; `*` is any.
fn version(text: &str) -> Result<Option<u64>, Failure> {
    let text = text.trim();
    if text == "*" {
        return Ok(None);
    }
    let bare = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    let is_number = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
    match bare.parse() {
        Ok(version) if is_number => Ok(Some(version)),
        _ => Err(Failure::bad_request(
            "Expecting If-Match to be one resource_version of an agent, such as \"12\"",
        )),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;

    use super::*;

    fn options(query: &str, headers: &[(&str, &str)]) -> Result<Options, u16> {
        let mut request = Request::builder().uri(format!("/x?{query}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let incoming = Incoming::new(request.body(Body::empty()).unwrap());
        Options::of(&incoming).map_err(|failure| failure.status().as_u16())
    }

    #[test]
    fn defaults() {
        let expected =
            Options { wait: Wait::Committed, earnest: Earnest::Real, key: None, if_version: None };
        assert_eq!(options("", &[]), Ok(expected.clone()));
        assert_eq!(options("wait=committed&dry_run=false", &[("If-Match", "*")]), Ok(expected));
    }

    #[test]
    fn everything_at_once() {
        let headers = [("Idempotency-Key", "k 1"), ("If-Match", "\"12\"")];
        let options = options("wait=checkpointed&timeout=1hrs&dry_run=true", &headers).unwrap();
        assert_eq!(options.wait, Wait::Checkpointed { timeout: WAIT_MAX });
        assert_eq!(options.earnest, Earnest::DryRun);
        assert_eq!(options.key, Some(IdempotencyKey::parse("k 1").unwrap()));
        assert_eq!(options.if_version, Some(12));
    }

    #[test]
    fn mistakes_are_400() {
        for query in ["wait=maybe", "timeout=5", "dry_run=1", "dry_run="] {
            assert_eq!(options(query, &[]), Err(400), "{query}");
        }
        let long = "k".repeat(129);
        for (name, value) in [
            ("Idempotency-Key", ""),
            ("Idempotency-Key", long.as_str()),
            ("Idempotency-Key", "a\tb"),
            ("If-Match", ""),
            ("If-Match", "W/\"1\""),
            ("If-Match", "\"1\", \"2\""),
            ("If-Match", "+1"),
            ("If-Match", "-1"),
            ("If-Match", "99999999999999999999"),
        ] {
            assert_eq!(options("", &[(name, value)]), Err(400), "{name}: {value}");
        }
        let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
        assert_eq!(options("", &twice), Err(400));
        let longest = "k".repeat(128);
        assert!(options("", &[("Idempotency-Key", longest.as_str())]).is_ok());
    }
}
