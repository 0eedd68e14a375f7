//! Whether the volumes of an operation agree with those of the agent (spec §2.2, CREATE 4,
//! DESTROY 5 and 6), and what of an agent's resources is free. Whether amounts suffice is in
//! `conversion.rs`.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::brief;
use crate::collection::Resources;
use crate::id::VolumeId;
use crate::operation::Operation;
use crate::resource::Resource;
use crate::role::Role;

/// What stands in the way of an operation on volumes.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum VolumeConflict {
    /// CREATE of a name that the agent has.
    #[error(
        "volumes[{index}]: persistence ID '{}' is not unique: the agent has one for the role '{}'",
        brief::text(id.as_str()), brief::text(role.as_str())
    )]
    Exists {
        /// Position in the request.
        index: usize,
        /// For whom.
        role: Role,
        /// The name.
        id: VolumeId,
    },
    /// DESTROY of what the agent does not have.
    #[error("Persistent volumes not found: volumes[{index}] is {}", brief::resource(volume))]
    NotFound {
        /// Position in the request.
        index: usize,
        /// What was asked for.
        volume: Box<Resource>,
    },
    /// DESTROY of what a task uses.
    #[error("Persistent volumes in use: volumes[{index}] is {}", brief::resource(volume))]
    InUse {
        /// Position in the request.
        index: usize,
        /// What is used.
        volume: Box<Resource>,
    },
}

impl Operation {
    /// Compares its volumes with those of the agent, role and id of each by itself: an equal
    /// shared volume is a duplicate too (decisions A7). `total` and `used` (by tasks and
    /// executors that have not ended) are unallocated, as `self` must be.
    ///
    /// # Errors
    /// The first volume that does not agree.
    pub fn volume_conflict(
        &self,
        total: &Resources,
        used: &Resources,
    ) -> Result<(), VolumeConflict> {
        match self {
            Self::Create { volumes } => numbered(volumes, |index, volume| {
                match volume.reservation_role().zip(volume.volume_id()) {
                    Some((role, id)) if total.find_volume(role, id).is_some() => {
                        Err(VolumeConflict::Exists { index, role: role.clone(), id: id.clone() })
                    }
                    Some(_) | None => Ok(()),
                }
            }),
            Self::Destroy { volumes } => {
                numbered(volumes, |index, volume| {
                    if total.contains_one(volume) {
                        return Ok(());
                    }
                    Err(VolumeConflict::NotFound { index, volume: Box::new(volume.clone()) })
                })?;
                numbered(volumes, |index, volume| {
                    if !used.contains_one(volume) {
                        return Ok(());
                    }
                    Err(VolumeConflict::InUse { index, volume: Box::new(volume.clone()) })
                })
            }
            Self::Reserve { .. }
            | Self::Unreserve { .. }
            | Self::Grow { .. }
            | Self::Shrink { .. }
            | Self::Launch(_) => Ok(()),
        }
    }
}

fn numbered(
    volumes: &[Resource],
    check: impl Fn(usize, &Resource) -> Result<(), VolumeConflict>,
) -> Result<(), VolumeConflict> {
    volumes.iter().enumerate().try_for_each(|(index, volume)| check(index, volume))
}

impl Resources {
    /// What is left for operations while `used` is in use: shared volumes stay.
    #[must_use]
    pub fn available(&self, used: &Self) -> Self {
        let mut available = self.clone();
        available.subtract_all(&used.filter(|resource| !resource.shared));
        available
    }
}
