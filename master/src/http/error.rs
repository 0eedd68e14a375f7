//! The one map from a refusal to a status and headers (style guide 22). Texts are Mesos' plain
//! ones; the JSON form goes out only to who asks for it by `Holdfast-Errors: json`. Must not
//! decide anything. Reading order: this file, `error/refused.rs` (what the state refuses),
//! `error/text.rs`, `error/report.rs` (the JSON form). Next: `redirect.rs`.

mod refused;
mod report;
mod text;

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proto::convert::InvalidWire;
use raft::MembershipError;
use resources::id::{AgentId, OperationId};

use crate::auth::{Forbidden, Realm};
use crate::leader::ProposeFailure;

pub(crate) use refused::Refused;
pub(crate) use report::Report;
pub(super) use text::sentence;

/// Names the operation that an answer is about.
pub(crate) const OPERATION_ID: HeaderName = HeaderName::from_static("holdfast-operation-id");
/// Asks for errors in another form.
const ERRORS: HeaderName = HeaderName::from_static("holdfast-errors");
/// How long a client waits before it asks again where nothing better is known.
const RETRY_DEFAULT: Duration = Duration::from_secs(1);

/// Why a request has no proper answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    /// The form is wrong; `index` is the place of the wrong element in its list.
    BadRequest {
        text: String,
        index: Option<usize>,
    },
    Unauthenticated(Realm),
    /// Who may not do what, as a sentence.
    Forbidden(String),
    NotFound(String),
    MethodNotAllowed {
        allowed: &'static [Method],
        received: Method,
    },
    NotAcceptable,
    UnsupportedMediaType,
    TooLarge {
        bytes_max: usize,
    },
    NotImplemented(String),
    Redirect {
        location: String,
    },
    NoLeader,
    Overloaded {
        what: &'static str,
        retry_after: Duration,
    },
    OutcomeUnknown {
        operation_id: OperationId,
    },
    NotSettled {
        operation_id: OperationId,
        agent_id: Option<AgentId>,
        waited: Duration,
    },
    AgentFailed {
        operation_id: OperationId,
        agent_id: AgentId,
        reason: String,
    },
    /// The state says no.
    Refused(Box<Refused>),
    /// One operation of a transaction fails by itself.
    Member {
        position: usize,
        failure: Box<Failure>,
    },
    /// The members of the cluster stay as they are, or the outcome is unknown.
    Members(MembershipError),
    /// A defect of this program; the text is for the log.
    Internal(String),
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

impl Failure {
    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::BadRequest { text: text.into(), index: None }
    }

    /// A list with a wrong element in it.
    pub(crate) fn bad_element(text: impl Into<String>, index: usize) -> Self {
        Self::BadRequest { text: text.into(), index: Some(index) }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest { .. } => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
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
            Self::Refused(refused) => refused.status(),
            Self::Member { failure, .. } => failure.status(),
            Self::Members(error) => members(error),
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
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
            Self::Refused(refused) if refused.asks_to_come_again() => {
                put(RETRY_AFTER, &whole_seconds(RETRY_DEFAULT));
            }
            Self::Member { failure, .. } => failure.put_headers(headers),
            Self::Members(error) if members(error) == StatusCode::SERVICE_UNAVAILABLE => {
                put(RETRY_AFTER, &whole_seconds(RETRY_DEFAULT));
            }
            Self::BadRequest { .. }
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::NotAcceptable
            | Self::UnsupportedMediaType
            | Self::TooLarge { .. }
            | Self::NotImplemented(_)
            | Self::Refused(_)
            | Self::Members(_)
            | Self::Internal(_) => {}
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

impl From<InvalidWire> for Failure {
    fn from(error: InvalidWire) -> Self {
        let index = match &error {
            InvalidWire::Element { index, .. } => Some(*index),
            _ => None,
        };
        Self::BadRequest { text: error.to_string(), index }
    }
}

impl From<Forbidden> for Failure {
    fn from(forbidden: Forbidden) -> Self {
        Self::Forbidden(forbidden.to_string())
    }
}

/// The status of a membership that did not change: 409 for what stands in the way, 503 for what
/// passes by itself.
const fn members(error: &MembershipError) -> StatusCode {
    match error {
        MembershipError::NotAMember { .. } => StatusCode::NOT_FOUND,
        MembershipError::AlreadyMember { .. }
        | MembershipError::AddressTaken { .. }
        | MembershipError::Unreachable { .. }
        | MembershipError::Refused { .. }
        | MembershipError::NotCaughtUp { .. }
        | MembershipError::NotAnswering { .. }
        | MembershipError::QuorumLost { .. }
        | MembershipError::Impossible { .. } => StatusCode::CONFLICT,
        MembershipError::NotLeader { .. }
        | MembershipError::InProgress
        | MembershipError::NoQuorum
        | MembershipError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        MembershipError::Unknown => StatusCode::GATEWAY_TIMEOUT,
    }
}

/// Seconds for `Retry-After`, at least one.
fn whole_seconds(duration: Duration) -> String {
    duration.as_millis().div_ceil(1000).max(1).to_string()
}

#[cfg(test)]
mod tests;
