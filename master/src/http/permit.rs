//! Whether a mutating call may go on: its form first, then what its caller may do. Whoever may
//! not do it learns nothing about the state; dry runs, repeats under a key and each operation of
//! a transaction pass here too. Must not know whether the resources are there.
//! Next: `execute.rs`.

use std::sync::Arc;

use resources::id::{AgentId, Principal};
use resources::operation::Operation;
use resources::resource::Resource;
use resources::validate;

use super::App;
use super::error::{Failure, Refused};
use super::incoming::Incoming;
use super::options::Earnest;
use crate::leader::Consistency;
use crate::state::Frozen;
use crate::state::operations::name;
use crate::state::rejection::Rejection;

/// An operation with the agent it is for.
pub(crate) type Asked = (AgentId, Operation);

/// Checks one operation.
pub(crate) async fn operation(
    app: &App,
    incoming: &Incoming,
    earnest: Earnest,
    asked: &Asked,
) -> Result<(), Failure> {
    let state = on_record(app, incoming, std::slice::from_ref(asked)).await?;
    check(app, incoming, earnest, asked, state.as_deref())
}

/// Checks each operation of a transaction.
pub(crate) async fn transaction(
    app: &App,
    incoming: &Incoming,
    earnest: Earnest,
    members: &[Asked],
) -> Result<(), Failure> {
    let state = on_record(app, incoming, members).await?;
    for (position, asked) in members.iter().enumerate() {
        check(app, incoming, earnest, asked, state.as_deref())
            .map_err(|failure| Failure::Member { position, failure: Box::new(failure) })?;
    }
    Ok(())
}

fn check(
    app: &App,
    incoming: &Incoming,
    earnest: Earnest,
    (agent_id, operation): &Asked,
    state: Option<&Frozen>,
) -> Result<(), Failure> {
    let principal = incoming.principal.as_ref();
    // A dry run names every failing check, and those of form are the state's checks too.
    if earnest == Earnest::Real {
        well_formed(app, incoming, agent_id, operation)?;
    }
    let creator = |volume: &Resource| -> Option<Option<Principal>> {
        let agent = state?.agent(agent_id)?;
        let stored = agent.total.find_volume(volume.reservation_role()?, volume.volume_id()?)?;
        Some(stored.disk.as_ref()?.persistence.as_ref()?.principal.clone())
    };
    app.config.authorizer.operation(principal, operation, creator).map_err(Failure::from)
}

fn well_formed(
    app: &App,
    incoming: &Incoming,
    agent_id: &AgentId,
    operation: &Operation,
) -> Result<(), Failure> {
    let principal = incoming.principal.as_ref();
    let Err(invalid) = validate::operation(operation, principal) else { return Ok(()) };
    let rejection = Rejection::Invalid {
        agent_id: agent_id.clone(),
        operation: name(operation).to_owned(),
        reason: invalid.to_string(),
    };
    let mut refused = Refused::new(rejection, &app.viewer(incoming));
    refused.index = invalid.place().map(|(_, index)| index);
    Err(Failure::Refused(Box::new(refused)))
}

/// The state, where somebody's right depends on who created a volume.
async fn on_record(
    app: &App,
    incoming: &Incoming,
    asked: &[Asked],
) -> Result<Option<Arc<Frozen>>, Failure> {
    let authorizer = &app.config.authorizer;
    match asked.iter().any(|(_, operation)| authorizer.asks_for_creators(operation)) {
        // The leader has applied everything that it has answered.
        true => Ok(Some(app.view(incoming, Consistency::Stale).await?.state)),
        false => Ok(None),
    }
}
