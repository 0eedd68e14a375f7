//! The one map from a refusal to a status, a text and headers (style guide 22). Texts are Mesos'
//! plain ones; the JSON form goes out only to who asks for it by `Holdfast-Errors: json`. Must
//! not decide anything. Next: `redirect.rs`, `operator.rs`.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use resources::id::{AgentId, OperationId};
use serde::Serialize;

use crate::auth::Realm;
use crate::leader::ProposeFailure;
use crate::state::rejection::Rejection;

/// Names the operation that an answer is about.
pub(crate) const OPERATION_ID: HeaderName = HeaderName::from_static("holdfast-operation-id");
/// Asks for errors in another form.
const ERRORS: HeaderName = HeaderName::from_static("holdfast-errors");
/// How long a client waits before it asks again where nothing better is known.
const RETRY_DEFAULT: Duration = Duration::from_secs(1);

/// Why a request has no proper answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    BadRequest(String),
    Unauthenticated(Realm),
    NotFound(String),
    MethodNotAllowed { allowed: &'static [Method], received: Method },
    NotAcceptable,
    UnsupportedMediaType,
    TooLarge { bytes_max: usize },
    NotImplemented(String),
    Redirect { location: String },
    NoLeader,
    Overloaded { what: &'static str, retry_after: Duration },
    OutcomeUnknown { operation_id: OperationId },
    NotSettled { operation_id: OperationId, agent_id: AgentId, waited: Duration },
    AgentFailed { operation_id: OperationId, agent_id: AgentId, reason: String },
    Rejected { agent_id: AgentId, rejection: Box<Rejection> },
}

/// The form in which a client wants errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    Text,
    Json,
}

impl ErrorForm {
    /// What the request asks for.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match headers.get(ERRORS) {
            Some(value) if value.as_bytes().eq_ignore_ascii_case(b"json") => Self::Json,
            _ => Self::Text,
        }
    }
}

/// The JSON form of an error.
#[derive(Serialize)]
struct Report<'a> {
    code: &'static str,
    message: &'a str,
    agent_id: Option<&'a str>,
    wanted: Option<Vec<String>>,
    available: Option<Vec<String>>,
    blocked_by: Option<Vec<&'a str>>,
    hint: Option<&'static str>,
}

impl Failure {
    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::BadRequest(text.into())
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Redirect { .. } => StatusCode::TEMPORARY_REDIRECT,
            Self::NoLeader | Self::Overloaded { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::OutcomeUnknown { .. } | Self::NotSettled { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::AgentFailed { .. } => StatusCode::CONFLICT,
            Self::Rejected { rejection, .. } => rejection_status(rejection),
        }
    }

    /// The name of the status in the JSON form, that of gRPC.
    fn code(&self) -> &'static str {
        match self.status() {
            StatusCode::BAD_REQUEST
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE => "InvalidArgument",
            StatusCode::UNAUTHORIZED => "Unauthenticated",
            StatusCode::FORBIDDEN => "PermissionDenied",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => "Unimplemented",
            StatusCode::PAYLOAD_TOO_LARGE => "ResourceExhausted",
            StatusCode::CONFLICT => "FailedPrecondition",
            StatusCode::GATEWAY_TIMEOUT => "DeadlineExceeded",
            StatusCode::TEMPORARY_REDIRECT | StatusCode::SERVICE_UNAVAILABLE => "Unavailable",
            _ => "Internal",
        }
    }

    /// The text of the answer; Mesos' own words where Mesos has them.
    fn text(&self) -> String {
        match self {
            Self::BadRequest(text) | Self::NotFound(text) | Self::NotImplemented(text) => {
                text.clone()
            }
            Self::Unauthenticated(_) => "401 Unauthorized.".to_owned(),
            Self::MethodNotAllowed { allowed, received } => {
                let allowed: Vec<String> = allowed.iter().map(|m| format!("'{m}'")).collect();
                format!(
                    "405 Method Not Allowed. Expecting one of {{ {} }}, but received '{received}'.",
                    allowed.join(", ")
                )
            }
            Self::NotAcceptable => {
                "Expecting 'Accept' to allow application/json or application/x-protobuf".to_owned()
            }
            Self::UnsupportedMediaType => {
                "Expecting 'Content-Type' of application/json or application/x-protobuf".to_owned()
            }
            Self::TooLarge { bytes_max } => {
                format!("The request body is larger than {bytes_max} bytes")
            }
            Self::Redirect { .. } => String::new(),
            Self::NoLeader => "No leader elected".to_owned(),
            Self::Overloaded { what, .. } => format!("Overloaded: {what}"),
            Self::OutcomeUnknown { operation_id } => format!(
                "The outcome of operation {operation_id} is unknown: it may or may not be carried \
                 out"
            ),
            Self::NotSettled { operation_id, agent_id, waited } => format!(
                "Operation {operation_id} is committed; agent {agent_id} has not confirmed it \
                 within {waited:?}"
            ),
            Self::AgentFailed { operation_id, agent_id, reason } => {
                format!("Operation {operation_id} failed on agent {agent_id}: {reason}")
            }
            Self::Rejected { agent_id, rejection } => rejection_text(agent_id, rejection),
        }
    }

    /// What the caller may do about it.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Redirect { .. } => Some("ask the leader named by Location"),
            Self::NoLeader => Some("try again; the masters are electing a leader"),
            Self::Overloaded { .. } => Some("try again after Retry-After seconds"),
            Self::OutcomeUnknown { .. } | Self::NotSettled { .. } => {
                Some("ask for /api/v1/operations/<id>")
            }
            Self::Rejected { rejection, .. } if rejection.is_retryable() => {
                Some("the same call may succeed later")
            }
            Self::BadRequest(_)
            | Self::Unauthenticated(_)
            | Self::NotFound(_)
            | Self::MethodNotAllowed { .. }
            | Self::NotAcceptable
            | Self::UnsupportedMediaType
            | Self::TooLarge { .. }
            | Self::NotImplemented(_)
            | Self::AgentFailed { .. }
            | Self::Rejected { .. } => None,
        }
    }

    fn report<'a>(&'a self, message: &'a str) -> Report<'a> {
        let mut report = Report {
            code: self.code(),
            message,
            agent_id: None,
            wanted: None,
            available: None,
            blocked_by: None,
            hint: self.hint(),
        };
        match self {
            Self::NotSettled { agent_id, .. } | Self::AgentFailed { agent_id, .. } => {
                report.agent_id = Some(agent_id.as_str());
            }
            Self::Rejected { agent_id, rejection } => {
                report.agent_id = Some(agent_id.as_str());
                if let Rejection::Insufficient { wanted, available, blocked_by } = &**rejection {
                    let lines = |list: &[_]| list.iter().map(|r: &_| shown(r)).collect();
                    report.wanted = Some(lines(wanted));
                    report.available = Some(lines(available));
                    report.blocked_by = Some(blocked_by.iter().map(OperationId::as_str).collect());
                }
            }
            _ => {}
        }
        report
    }

    fn put_headers(&self, headers: &mut HeaderMap) {
        let mut put = |name: HeaderName, text: &str| {
            if let Ok(value) = HeaderValue::from_str(text) {
                headers.insert(name, value);
            }
        };
        match self {
            Self::Unauthenticated(realm) => {
                put(WWW_AUTHENTICATE, &format!("Basic realm=\"{}\"", realm.name()));
            }
            Self::MethodNotAllowed { allowed, .. } => {
                let allowed: Vec<&str> = allowed.iter().map(Method::as_str).collect();
                put(ALLOW, &allowed.join(", "));
            }
            Self::Redirect { location } => {
                put(LOCATION, location);
                put(CONTENT_LENGTH, "0");
            }
            Self::NoLeader => put(RETRY_AFTER, &whole_seconds(RETRY_DEFAULT)),
            Self::Overloaded { retry_after, .. } => put(RETRY_AFTER, &whole_seconds(*retry_after)),
            Self::OutcomeUnknown { operation_id }
            | Self::NotSettled { operation_id, .. }
            | Self::AgentFailed { operation_id, .. } => put(OPERATION_ID, operation_id.as_str()),
            Self::Rejected { rejection, .. }
                if rejection_status(rejection) == StatusCode::SERVICE_UNAVAILABLE =>
            {
                put(RETRY_AFTER, &whole_seconds(RETRY_DEFAULT));
            }
            _ => {}
        }
    }

    /// The answer to the client.
    pub(crate) fn into_response(self, form: ErrorForm) -> Response {
        let text = self.text();
        let (body, content_type) = match form {
            _ if text.is_empty() => (String::new(), None),
            ErrorForm::Text => (text, Some(HeaderValue::from_static("text/plain; charset=utf-8"))),
            ErrorForm::Json => (
                serde_json::to_string(&self.report(&text)).unwrap_or(text),
                Some(HeaderValue::from_static("application/json")),
            ),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        if let Some(content_type) = content_type {
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        self.put_headers(response.headers_mut());
        response
    }
}

impl From<ProposeFailure> for Failure {
    fn from(failure: ProposeFailure) -> Self {
        match failure {
            ProposeFailure::NotLeader | ProposeFailure::NoLeader => Self::NoLeader,
            ProposeFailure::Overloaded { retry_after } => {
                Self::Overloaded { what: "too many calls are waiting", retry_after }
            }
            ProposeFailure::Unknown { operation_id } => Self::OutcomeUnknown { operation_id },
        }
    }
}

fn rejection_status(rejection: &Rejection) -> StatusCode {
    match rejection {
        Rejection::UnknownAgent { .. }
        | Rejection::Invalid { .. }
        | Rejection::VolumeExists { .. }
        | Rejection::VolumesNotFound { .. } => StatusCode::BAD_REQUEST,
        Rejection::Insufficient { .. }
        | Rejection::Regressed { .. }
        | Rejection::Diverged { .. }
        | Rejection::DuplicateOperation { .. }
        | Rejection::ClusterFormed { .. }
        | Rejection::NeverGiven { .. }
        | Rejection::Registration(_) => StatusCode::CONFLICT,
        Rejection::Overloaded { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Rejection::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Rejection::Fault { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn rejection_text(agent_id: &AgentId, rejection: &Rejection) -> String {
    match rejection {
        Rejection::UnknownAgent { .. } => "No agent found with specified ID".to_owned(),
        Rejection::Invalid { agent_id, operation, reason } => {
            format!("Invalid {operation} operation on agent {agent_id}: {reason}")
        }
        Rejection::VolumeExists { volume_id, .. } => format!(
            "Invalid CREATE operation on agent {agent_id}: Persistence ID '{volume_id}' is not \
             unique"
        ),
        Rejection::VolumesNotFound { .. } => {
            "Invalid DESTROY operation: Persistent volumes not found".to_owned()
        }
        Rejection::Insufficient { wanted, available, blocked_by } => {
            let lines = |list: &[_]| match list {
                [] => "nothing".to_owned(),
                list => list.iter().map(|r: &_| shown(r)).collect::<Vec<_>>().join("; "),
            };
            let mut text = format!("{} does not contain {}", lines(available), lines(wanted));
            if !blocked_by.is_empty() {
                let ids: Vec<&str> = blocked_by.iter().map(OperationId::as_str).collect();
                text.push_str("; held by unconfirmed operations ");
                text.push_str(&ids.join(", "));
            }
            text
        }
        Rejection::Overloaded { .. }
        | Rejection::Regressed { .. }
        | Rejection::Diverged { .. }
        | Rejection::DuplicateOperation { .. }
        | Rejection::TooLarge { .. }
        | Rejection::ClusterFormed { .. }
        | Rejection::NeverGiven { .. }
        | Rejection::Registration(_)
        | Rejection::Fault { .. } => {
            let text = rejection.to_string();
            let mut letters = text.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        }
    }
}

fn shown(resource: &resources::resource::Resource) -> String {
    resource.to_string()
}

/// Seconds for `Retry-After`, at least one.
fn whole_seconds(duration: Duration) -> String {
    duration.as_millis().div_ceil(1000).max(1).to_string()
}

#[cfg(test)]
mod tests;
