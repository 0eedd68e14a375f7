//! The JSON form of a refusal (contract, extensions): every key always stands there but `index`.
//! Must not decide anything. Next: `../redirect.rs`.

use http::StatusCode;
use resources::id::AgentId;
use serde::Serialize;

use super::Failure;

/// The JSON form of an error.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) agent_id: Option<String>,
    pub(crate) wanted: Option<Vec<String>>,
    pub(crate) available: Option<Vec<String>>,
    pub(crate) blocked_by: Option<Vec<String>>,
    pub(crate) hint: String,
    /// The place of what is wrong in the list of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u64>,
}

impl Failure {
    /// The name of the status in the JSON form, that of gRPC.
    pub(super) fn code(&self) -> &'static str {
        match self.status() {
            StatusCode::BAD_REQUEST
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE => "InvalidArgument",
            StatusCode::UNAUTHORIZED => "Unauthenticated",
            StatusCode::FORBIDDEN => "PermissionDenied",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => "Unimplemented",
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::TOO_MANY_REQUESTS => "ResourceExhausted",
            StatusCode::CONFLICT => "FailedPrecondition",
            StatusCode::PRECONDITION_FAILED => "Aborted",
            StatusCode::GATEWAY_TIMEOUT => "DeadlineExceeded",
            StatusCode::TEMPORARY_REDIRECT | StatusCode::SERVICE_UNAVAILABLE => "Unavailable",
            _ => "Internal",
        }
    }

    /// The JSON form with this message.
    pub(crate) fn report(&self, message: &str) -> Report {
        let mut report = Report {
            code: self.code(),
            message: message.to_owned(),
            agent_id: None,
            wanted: None,
            available: None,
            blocked_by: None,
            hint: self.hint(),
            index: None,
        };
        self.fill(&mut report);
        report
    }

    fn fill(&self, report: &mut Report) {
        let text = |agent_id: &AgentId| agent_id.to_string();
        match self {
            Self::BadRequest { index, .. } => report.index = index.map(|index| index as u64),
            Self::NotSettled { agent_id, .. } => report.agent_id = agent_id.as_ref().map(text),
            Self::AgentFailed { agent_id, .. } => report.agent_id = Some(text(agent_id)),
            Self::TooLarge { bytes_max } => {
                report.available = Some(vec![format!("{bytes_max} bytes")])
            }
            Self::Refused(refused) => {
                let rejection = &refused.rejection;
                report.agent_id = rejection.agent_id().map(text);
                report.wanted = Some(rejection.wanted());
                if !refused.is_veiled {
                    report.available = Some(rejection.available());
                    report.blocked_by = Some(rejection.blocked_by());
                }
                report.index = refused.place();
            }
            Self::Member { position, failure } => {
                failure.fill(report);
                report.index = Some(*position as u64);
            }
            Self::Unauthenticated(_)
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::MethodNotAllowed { .. }
            | Self::NotAcceptable
            | Self::UnsupportedMediaType
            | Self::NotImplemented(_)
            | Self::Redirect { .. }
            | Self::NoLeader
            | Self::Overloaded { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Members(_)
            | Self::Internal(_) => {}
        }
    }

    /// The JSON form with the text of the answer.
    pub(crate) fn full_report(&self) -> Report {
        self.report(&self.text())
    }
}
