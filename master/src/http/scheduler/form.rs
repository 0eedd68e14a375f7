//! A scheduler's call as a whole (spec §4.1, 5 to 7): its bytes, its type, and the member that
//! its type names. Must not know any framework. Next: `framework.rs`.

use proto::mesos::v1;
use proto::mesos::v1::scheduler::Call;
use proto::mesos::v1::scheduler::call::Type;
use resources::id::Principal;

use super::super::error::Failure;
use super::super::incoming::Incoming;
use super::super::negotiate::{self, Media};

/// Bytes of a UUID.
const UUID_BYTES: usize = 16;

/// Reads the call and its type.
pub(super) async fn decode(incoming: &mut Incoming) -> Result<(Type, Call), Failure> {
    let media = negotiate::of_request(incoming.headers())?;
    let body = incoming.bytes().await?;
    let call: Call = match media {
        Media::Json => proto::json::decode(&body).map_err(|error| {
            Failure::bad_request(format!("Failed to convert JSON into Call protobuf: {error}"))
        }),
        Media::Protobuf => proto::json::decode_binary(&body).map_err(|error| {
            Failure::bad_request(format!("Failed to parse body into Call protobuf: {error}"))
        }),
    }?;
    match call.r#type.and_then(|number| Type::try_from(number).ok()) {
        Some(kind) => Ok((kind, call)),
        None => Err(invalid("Expecting 'type' to be present")),
    }
}

fn invalid(reason: &str) -> Failure {
    Failure::bad_request(format!("Failed to validate scheduler::Call: {reason}"))
}

fn expect(is_there: bool, member: &str) -> Result<(), Failure> {
    match is_there {
        true => Ok(()),
        false => Err(invalid(&format!("Expecting '{member}' to be present"))),
    }
}

/// Checks the call as a whole.
pub(super) fn check(
    kind: Type,
    call: &Call,
    authenticated: Option<&Principal>,
) -> Result<(), Failure> {
    if kind == Type::Subscribe {
        return check_subscribe(call, authenticated);
    }
    expect(call.framework_id.is_some(), "framework_id")?;
    match kind {
        Type::Accept => expect(call.accept.is_some(), "accept"),
        Type::Decline => expect(call.decline.is_some(), "decline"),
        Type::AcceptInverseOffers => {
            expect(call.accept_inverse_offers.is_some(), "accept_inverse_offers")
        }
        Type::DeclineInverseOffers => {
            expect(call.decline_inverse_offers.is_some(), "decline_inverse_offers")
        }
        Type::Kill => expect(call.kill.is_some(), "kill"),
        Type::Shutdown => expect(call.shutdown.is_some(), "shutdown"),
        Type::Acknowledge => {
            expect(call.acknowledge.is_some(), "acknowledge")?;
            uuid(call.acknowledge.as_ref().map_or(&[], |acknowledged| &acknowledged.uuid))
        }
        Type::AcknowledgeOperationStatus => {
            let acknowledged = call.acknowledge_operation_status.as_ref();
            expect(acknowledged.is_some(), "acknowledge_operation_status")?;
            uuid(acknowledged.map_or(&[], |acknowledged| &acknowledged.uuid))?;
            let has_agent = acknowledged.is_some_and(|known| known.agent_id.is_some());
            expect(has_agent, "acknowledge_operation_status.agent_id")
        }
        Type::Reconcile => expect(call.reconcile.is_some(), "reconcile"),
        Type::ReconcileOperations => {
            expect(call.reconcile_operations.is_some(), "reconcile_operations")
        }
        Type::Message => expect(call.message.is_some(), "message"),
        Type::Request => expect(call.request.is_some(), "request"),
        Type::UpdateFramework => {
            let update = call.update_framework.as_ref();
            expect(update.is_some(), "update_framework")?;
            same_id(call, update.map(|update| &update.framework_info), "update_framework")
        }
        Type::Subscribe | Type::Unknown | Type::Teardown | Type::Revive | Type::Suppress => Ok(()),
    }
}

fn check_subscribe(call: &Call, authenticated: Option<&Principal>) -> Result<(), Failure> {
    let info = call.subscribe.as_ref().map(|subscribe| &subscribe.framework_info);
    expect(info.is_some(), "subscribe")?;
    same_id(call, info, "subscribe")?;
    let named = info.and_then(|info| info.principal.as_deref());
    match (authenticated, named) {
        (Some(principal), Some(named)) if principal.as_str() != named => Err(invalid(&format!(
            "Authenticated principal '{principal}' does not match principal '{named}' set in \
                 `FrameworkInfo`"
        ))),
        _ => Ok(()),
    }
}

/// The id stands in two places of a call, or in neither. The empty one is none.
fn same_id(call: &Call, info: Option<&v1::FrameworkInfo>, member: &str) -> Result<(), Failure> {
    let text = |id: Option<&v1::FrameworkId>| id.map(|id| id.value.clone()).unwrap_or_default();
    let (outer, inner) =
        (text(call.framework_id.as_ref()), text(info.and_then(|info| info.id.as_ref())));
    match outer == inner {
        true => Ok(()),
        false => Err(invalid(&format!("'framework_id' differs from '{member}.framework_info.id'"))),
    }
}

fn uuid(bytes: &[u8]) -> Result<(), Failure> {
    match bytes.len() {
        UUID_BYTES => Ok(()),
        other => Err(invalid(&format!("Not a valid UUID: 'uuid' has {other} bytes, not 16"))),
    }
}
