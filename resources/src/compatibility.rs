//! Whether an agent may keep its id over a restart with other flags, under the `additive`
//! policy (spec §7.5). Pure comparison; what follows from it is the agent's.

use thiserror::Error;

use crate::collection::Resources;
use crate::message::{Attribute, AttributeValue};
use crate::resource::Resource;

/// What an agent no longer has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Incompatibility {
    /// A resource shrank or went.
    #[error("resource {0} is no longer declared in full")]
    Resource(Box<Resource>),
    /// An attribute changed or went.
    #[error("attribute '{0}' changed or is gone")]
    Attribute(String),
}

/// Every old resource must still be there with the same metadata and at least its value.
///
/// # Errors
/// The first that is not.
pub fn additive_resources(old: &Resources, new: &Resources) -> Result<(), Incompatibility> {
    match old.iter().find(|resource| !new.contains_one(resource)) {
        Some(lost) => Err(Incompatibility::Resource(Box::new(lost.clone()))),
        None => Ok(()),
    }
}

/// Every old attribute must still be there: scalars and texts equal, ranges not smaller.
///
/// # Errors
/// The first that is not.
pub fn additive_attributes(old: &[Attribute], new: &[Attribute]) -> Result<(), Incompatibility> {
    let kept = |old: &&Attribute| {
        new.iter().any(|new| new.name == old.name && is_kept(&old.value, &new.value))
    };
    match old.iter().find(|attribute| !kept(attribute)) {
        Some(lost) => Err(Incompatibility::Attribute(lost.name.clone())),
        None => Ok(()),
    }
}

fn is_kept(old: &AttributeValue, new: &AttributeValue) -> bool {
    match (old, new) {
        (AttributeValue::Ranges(old), AttributeValue::Ranges(new)) => new.contains(old),
        (AttributeValue::Ranges(_) | AttributeValue::Scalar(_) | AttributeValue::Text(_), _) => {
            old == new
        }
    }
}

/// Whether two lists of attributes hold the same, in any order.
#[must_use]
pub fn equal_attributes(left: &[Attribute], right: &[Attribute]) -> bool {
    let sorted = |list: &[Attribute]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    sorted(left) == sorted(right)
}
