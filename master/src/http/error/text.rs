//! The texts of refusals, and the next step for whoever gets one. What a client sent is repeated
//! within bounds: no number of hundreds of digits, no megabytes. Next: `report.rs`.

use std::fmt::Write as _;

use raft::MembershipError;

use super::Failure;

/// Longest text of an answer.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Longest row of digits that is repeated as it is.
const DIGITS_MAX: usize = 40;
/// How much of a longer one is.
const DIGITS_SHOWN: usize = 12;

impl Failure {
    /// The text of the answer; Mesos' own words where Mesos has them.
    pub(super) fn text(&self) -> String {
        tame(match self {
            Self::BadRequest { text, .. } | Self::NotFound(text) | Self::NotImplemented(text) => {
                text.clone()
            }
            Self::Unauthenticated(_) => "401 Unauthorized.".to_owned(),
            Self::Forbidden(reason) => format!("403 Forbidden: {reason}"),
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
            Self::NotSettled { operation_id, agent_id, waited } => {
                let who = match agent_id {
                    Some(agent_id) => format!("agent {agent_id} has"),
                    None => "not every agent has".to_owned(),
                };
                let negation = if agent_id.is_some() { "not " } else { "" };
                format!(
                    "Operation {operation_id} is committed; {who} {negation}confirmed it within \
                     {waited:?}"
                )
            }
            Self::AgentFailed { operation_id, agent_id, reason } => {
                format!("Operation {operation_id} failed on agent {agent_id}: {reason}")
            }
            Self::Refused(refused) => refused.text(),
            Self::Member { position, failure } => {
                format!("Operation {position} of the transaction: {}", failure.text())
            }
            Self::Members(error) => sentence(&error.to_string()),
            Self::Internal(_) => "500 Internal Server Error.".to_owned(),
        })
    }

    /// The next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::BadRequest { .. } => "Correct the request; nothing was done",
            Self::Unauthenticated(_) => "Send the credentials of a principal by Basic",
            Self::Forbidden(_) => "Ask for a rule in the access control lists; nothing was done",
            Self::NotFound(_) => "Check the path or the id; finished operations are forgotten",
            Self::MethodNotAllowed { .. } => "Use a method that Allow names",
            Self::NotAcceptable => "Accept application/json or application/x-protobuf",
            Self::UnsupportedMediaType => "Send application/json or application/x-protobuf",
            Self::TooLarge { .. } => "Split the request",
            Self::NotImplemented(_) => "Use a version that serves it; nothing was done",
            Self::Redirect { .. } => "Ask the leader named by Location",
            Self::NoLeader => "Try again; the masters are electing a leader",
            Self::Overloaded { .. } => "Try again after Retry-After seconds",
            Self::OutcomeUnknown { .. } | Self::NotSettled { .. } => {
                "Ask for /api/v1/operations/<id> or /api/v1/transactions/<id>"
            }
            Self::AgentFailed { .. } => "Remove the cause on the agent and try again",
            Self::Refused(refused) if refused.is_veiled => {
                "Ask for less, or ask somebody who may see the role"
            }
            Self::Refused(refused) => return refused.rejection.hint(),
            Self::Member { failure, .. } => return failure.hint(),
            Self::Members(error) => members(error),
            Self::Internal(_) => "Look at the master's log and report this as a defect",
        }
        .to_owned()
    }
}

/// The next step when the members stay as they are.
const fn members(error: &MembershipError) -> &'static str {
    match error {
        MembershipError::NotLeader { .. } | MembershipError::NoQuorum => {
            "Try again; the masters are electing a leader"
        }
        MembershipError::InProgress | MembershipError::Stopped => {
            "Try again after Retry-After seconds"
        }
        MembershipError::NotAMember { .. } => "Look at the members: holdfast server list",
        MembershipError::AlreadyMember { .. } => {
            "Remove it first, or replace it by itself at the new address"
        }
        MembershipError::AddressTaken { .. } => "Give the new master an address of its own",
        MembershipError::Unreachable { .. } => {
            "Start it with --join and an empty --work-dir, and check its --peer-listen"
        }
        MembershipError::Refused { .. } => {
            "Start it with --join, an --id that was never used, and an empty --work-dir"
        }
        MembershipError::NotCaughtUp { .. } => {
            "Wait until its lag in holdfast server list is small, and try again"
        }
        MembershipError::NotAnswering { .. } => "Start it, or see why its peers do not hear it",
        MembershipError::QuorumLost { .. } => {
            "Bring silent masters back first, or remove or replace those that are lost"
        }
        MembershipError::Impossible { .. } => "Look at the members: holdfast server list",
        MembershipError::Unknown => {
            "Look at the members before the call is repeated, which does no harm"
        }
    }
}

/// Begins a text with a capital.
pub(in crate::http) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Cuts rows of digits and the text itself to what somebody can read.
fn tame(text: String) -> String {
    let is_long = |digits: usize| digits > DIGITS_MAX;
    let mut tamed = String::new();
    let mut rest = text.as_str();
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[begin..].bytes().take_while(u8::is_ascii_digit).count();
        let shown = if is_long(digits) { DIGITS_SHOWN } else { digits };
        tamed.push_str(&rest[..begin + shown]);
        if is_long(digits) {
            // Writing to a string cannot fail.
            let _ = write!(tamed, "… ({digits} digits)");
        }
        rest = &rest[begin + digits..];
    }
    tamed.push_str(rest);
    if tamed.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX).rev().find(|at| tamed.is_char_boundary(*at));
        tamed.truncate(end.unwrap_or_default());
        tamed.push('…');
    }
    tamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_stay_readable() {
        let long = format!("scalar 1{} is too much", "0".repeat(300));
        assert_eq!(tame(long), "scalar 100000000000… (301 digits) is too much");
        for short in ["", "a 12 b", "18446744073709551615", "ü1"] {
            assert_eq!(tame(short.to_owned()), short);
        }
        let cut = tame("ü".repeat(TEXT_BYTES_MAX));
        assert!(cut.ends_with("ü…") && cut.len() < TEXT_BYTES_MAX + 4);
    }
}
