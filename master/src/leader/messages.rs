//! Orders cut into messages that stay far below what a stream takes at once. Must not know
//! sessions. Next: `propose.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

use resources::message::{MasterMessage, Order};
use resources::operation::Operation;
use resources::resource::Resource;

/// Orders in one message, at most.
const ORDERS_PER_MESSAGE_MAX: usize = 64;
/// Estimated bytes of the orders in one message, at most; one order may be larger.
const ORDERS_BYTES_MAX: usize = 512 << 10;

/// The orders in as few messages as fit.
pub(super) fn in_messages(orders: Vec<Order>) -> impl Iterator<Item = MasterMessage> {
    let mut rest = orders.into_iter().peekable();
    std::iter::from_fn(move || {
        let mut message = vec![rest.next()?];
        let mut bytes = weight(&message[0].operation);
        while message.len() < ORDERS_PER_MESSAGE_MAX
            && let Some(next) = rest.peek()
            && bytes + weight(&next.operation) <= ORDERS_BYTES_MAX
        {
            bytes += weight(&next.operation);
            message.extend(rest.next());
        }
        Some(MasterMessage::Orders(message))
    })
}

/// Rough size of an operation on the wire.
fn weight(operation: &Operation) -> usize {
    let all = |resources: &[Resource]| resources.iter().map(resource_weight).sum::<usize>();
    match operation {
        Operation::Reserve { resources, source } => all(resources) + all(source),
        Operation::Unreserve { resources } => all(resources),
        Operation::Create { volumes } | Operation::Destroy { volumes } => all(volumes),
        Operation::Grow { volume, addition } => resource_weight(volume) + resource_weight(addition),
        Operation::Shrink { volume, subtract: _ } => resource_weight(volume),
        Operation::Launch(launch) => {
            let executor = launch.executor.iter().map(|e| (&e.resources, &e.wire));
            let tasks = launch.tasks.iter().map(|task| (&task.resources, &task.wire));
            let parts = executor.chain(tasks).map(|(held, wire)| all(held) + wire.as_bytes().len());
            launch.framework.as_bytes().len() + parts.sum::<usize>()
        }
    }
}

fn resource_weight(resource: &Resource) -> usize {
    const BESIDES_LABELS: usize = 512;
    let labels = resource.reservations.iter().flat_map(|level| level.labels.as_slice());
    let bytes = labels.map(|l| l.key.len() + l.value.as_ref().map_or(0, String::len));
    BESIDES_LABELS + bytes.sum::<usize>()
}
