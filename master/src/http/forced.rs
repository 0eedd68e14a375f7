//! DESTROY of a volume whose directory is not there, or is not the one that was made: the data may
//! still be somewhere, and nobody would know of it any more. It takes `?force=true`. Must not
//! decide anything else. Next: `execute.rs`.

use resources::operation::Operation;
use resources::resource::Resource;

use super::App;
use super::error::Failure;
use super::incoming::Incoming;
use super::permit::Asked;
use crate::leader::Consistency;

/// Whether no operation gives up a volume that is unavailable, unless the caller insists.
pub(super) async fn check(app: &App, incoming: &Incoming, asked: &[Asked]) -> Result<(), Failure> {
    let is_forced = match incoming.query()?.get("force").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let text = format!("Expecting 'force' to be 'true' or 'false', found '{other}'");
            return Err(Failure::bad_request(text));
        }
    };
    let destroys = |(_, operation): &Asked| matches!(operation, Operation::Destroy { .. });
    if is_forced || !asked.iter().any(destroys) {
        return Ok(());
    }
    // The leader has applied everything that it has answered.
    let state = app.view(incoming, Consistency::Stale).await?.state;
    for (position, (agent_id, operation)) in asked.iter().enumerate() {
        let Operation::Destroy { volumes } = operation else { continue };
        let Some(agent) = state.agent(agent_id) else { continue };
        let names = |of: &Resource, other: &Resource| {
            of.reservation_role() == other.reservation_role() && of.volume_id() == other.volume_id()
        };
        let is_gone = |volume: &&Resource| agent.unavailable.iter().any(|of| names(of, volume));
        let Some(volume) = volumes.iter().find(is_gone) else { continue };
        let text = format!(
            "Invalid DESTROY operation on agent {agent_id}: Persistent volume {volume} is \
             unavailable: its directory is missing or not the one that was made, and its data may \
             be elsewhere; put it back, or give it up with ?force=true"
        );
        let failure = Failure::bad_request(text);
        return Err(match asked.len() {
            1 => failure,
            _ => Failure::Member { position, failure: Box::new(failure) },
        });
    }
    Ok(())
}
