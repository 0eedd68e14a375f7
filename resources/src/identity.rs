//! What makes two resources "the same" (metadata equality, spec §1.6), as a borrowed key by
//! which `collection.rs` orders and finds them without a copy. Not part of it: how a volume is
//! mounted, and who created it.

use std::borrow::Borrow;
use std::cmp::Ordering;

use crate::id::{ProviderId, VolumeId};
use crate::resource::{DiskSource, Reservation, Resource};
use crate::role::Role;
use crate::value::{Value, ValueKind};

/// The key. Its order puts volumes last, by (role, id), so that one of them is found by a range.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity<'a> {
    volume: Option<(Option<&'a Role>, &'a VolumeId)>,
    name: &'a str,
    kind: ValueKind,
    reservations: &'a [Reservation],
    has_disk: bool,
    source: Option<&'a DiskSource>,
    allocation_role: Option<&'a Role>,
    revocable: bool,
    shared: bool,
    provider_id: Option<&'a ProviderId>,
    /// The value of what is never divided or merged: there, another value is another thing.
    whole: Option<&'a Value>,
}

/// Anything that a set of resources can be asked by.
pub(crate) trait Identified {
    /// Its key.
    fn identity(&self) -> Identity<'_>;
}

impl Identified for Resource {
    fn identity(&self) -> Identity<'_> {
        Identity {
            volume: self.volume_id().map(|id| (self.reservation_role(), id)),
            name: &self.name,
            kind: self.value.kind(),
            reservations: &self.reservations,
            has_disk: self.disk.is_some(),
            source: self.disk_source(),
            allocation_role: self.allocation_role.as_ref(),
            revocable: self.revocable,
            shared: self.shared,
            provider_id: self.provider_id.as_ref(),
            whole: (self.shared || self.is_indivisible()).then_some(&self.value),
        }
    }
}

/// The lowest key of all volumes with this role and id.
pub(crate) struct VolumeProbe<'a> {
    pub(crate) role: Option<&'a Role>,
    pub(crate) id: &'a VolumeId,
}

impl Identified for VolumeProbe<'_> {
    fn identity(&self) -> Identity<'_> {
        Identity {
            volume: Some((self.role, self.id)),
            name: "",
            kind: ValueKind::Scalar,
            reservations: &[],
            has_disk: false,
            source: None,
            allocation_role: None,
            revocable: false,
            shared: false,
            provider_id: None,
            whole: None,
        }
    }
}

impl PartialEq for dyn Identified + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for dyn Identified + '_ {}

impl PartialOrd for dyn Identified + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Identified + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

/// One entry of a set: a resource and how often it is there. Compares by identity only.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) resource: Resource,
    /// Shares of a shared volume, or copies of an equal indivisible thing; 1 for all else.
    pub(crate) count: u64,
}

impl Identified for Held {
    fn identity(&self) -> Identity<'_> {
        self.resource.identity()
    }
}

impl<'a> Borrow<dyn Identified + 'a> for Held {
    fn borrow(&self) -> &(dyn Identified + 'a) {
        self
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}
