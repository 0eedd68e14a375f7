//! What makes two resources "the same" (metadata equality, spec §1.6), as bytes by which
//! `collection.rs` orders and finds them. Not part of it: how a volume is mounted, and who
//! created it. How the bytes are made is in `encode.rs`.

use std::sync::Arc;

use crate::encode::Encoder;
use crate::id::VolumeId;
use crate::resource::Resource;
use crate::role::Role;

/// The key. Its order puts volumes last, by (role, id), so that one of them is found by a range.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(Arc<[u8]>);

impl Key {
    /// The first byte of the key of every volume, and of no other resource.
    pub(crate) const VOLUMES: &'static [u8] = &[1];

    pub(crate) fn of(resource: &Resource) -> Self {
        let mut encoder = Encoder::new();
        let volume = resource.volume_id().map(|id| (resource.reservation_role(), id));
        encoder.optional(volume, volume_name);
        encoder.text(&resource.name);
        encoder.kind(resource.value.kind());
        encoder.reservations(&resource.reservations);
        encoder.flag(resource.disk.is_some());
        encoder.optional(resource.disk_source(), Encoder::disk_source);
        encoder.optional_text(resource.allocation_role.as_ref().map(Role::as_str));
        encoder.flag(resource.revocable);
        encoder.flag(resource.shared);
        encoder.optional_text(resource.provider_id.as_ref().map(|id| id.as_str()));
        // The value of what is never divided or merged: there, another value is another thing.
        let whole = (resource.shared || resource.is_indivisible()).then_some(&resource.value);
        encoder.optional(whole, Encoder::value);
        Self(encoder.finish().into())
    }
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
    /// What the keys of all volumes with this role and id begin with.
    pub(crate) fn of_volume(role: &Role, id: &VolumeId) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.optional(Some((Some(role), id)), volume_name);
        encoder.finish()
    }
}

#[cfg(test)]
impl Key {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

fn volume_name(encoder: &mut Encoder, (role, id): (Option<&Role>, &VolumeId)) {
    encoder.optional_text(role.map(Role::as_str));
    encoder.text(id.as_str());
}

/// One entry of a set: a resource and how often it is there. Behind a counter in every set, so
/// that sets share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) resource: Resource,
    /// Shares of a shared volume, or copies of an equal indivisible thing; 1 for all else.
    pub(crate) count: u64,
}
