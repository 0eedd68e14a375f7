//! Operations on an agent's resources (spec §2.2). What each consumes and makes is in
//! `conversion.rs`; whether a request is well formed in `validate.rs`.

use serde::{Deserialize, Serialize};

use crate::resource::Resource;
use crate::value::Scalar;

/// A change of an agent's resources that needs no resource provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::large_enum_variant,
    reason = "the lists of the common variants are on the heap; boxes would only hide the volume"
)]
pub enum Operation {
    /// Push a dynamic reservation, or go from one stack to another when `source` is given.
    Reserve {
        /// What it becomes.
        resources: Vec<Resource>,
        /// What it was, when not simply `resources` with the top reservation popped.
        source: Vec<Resource>,
    },
    /// Pop the top reservation.
    Unreserve {
        /// Dynamically reserved resources.
        resources: Vec<Resource>,
    },
    /// Turn reserved disk into persistent volumes.
    Create {
        /// The volumes.
        volumes: Vec<Resource>,
    },
    /// Turn volumes back into reserved disk; their data is removed.
    Destroy {
        /// The volumes.
        volumes: Vec<Resource>,
    },
    /// Add reserved disk to a volume.
    Grow {
        /// The volume as it is.
        volume: Resource,
        /// Disk of the same reservation and source.
        addition: Resource,
    },
    /// Take disk out of a volume.
    Shrink {
        /// The volume as it is.
        volume: Resource,
        /// How much, less than its size.
        subtract: Scalar,
    },
}
