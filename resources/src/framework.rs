//! What a framework says of itself (spec §1.9.1 `FrameworkInfo`), as far as anybody decides by
//! it; the rest travels in `wire`. Must not know sessions or offers. Next: `task.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::capability::FrameworkCapability;
use crate::id::{FrameworkId, Principal};
use crate::opaque::Opaque;
use crate::quantity::Quantities;
use crate::role::Role;

/// A framework as it subscribed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameworkInfo {
    /// Shown to users.
    pub name: String,
    /// Whom its tasks run as, unless they say.
    pub user: String,
    /// Who it is; filled in from its authentication when it does not say.
    pub principal: Option<Principal>,
    /// Roles that it wants offers for.
    pub roles: BTreeSet<Role>,
    /// What it can cope with.
    pub capabilities: BTreeSet<FrameworkCapability>,
    /// How long its tasks outlive its connection.
    pub failover_timeout: Duration,
    /// Whether its tasks outlive their agent's process.
    pub checkpoint: bool,
    /// Where its scheduler runs.
    #[serde(default)]
    pub hostname: String,
    /// Its own minimum of an offer per role, alternatives (`offer_filters`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub min_allocatable: BTreeMap<Role, Vec<Quantities>>,
    /// `mesos.v1.FrameworkInfo` as it was given, without an id.
    #[serde(default)]
    pub wire: Opaque,
}

impl FrameworkInfo {
    /// Whether it can cope with this.
    #[must_use]
    pub fn has(&self, capability: FrameworkCapability) -> bool {
        self.capabilities.contains(&capability)
    }
    /// `mesos.v1.FrameworkInfo` as others are told of it: with its id, and with what counts
    /// where that is not what it said itself. On the wire a later field replaces an earlier
    /// one, so that these follow what was given.
    #[must_use]
    pub fn named(&self, id: &FrameworkId) -> Opaque {
        const USER: u8 = 1 << 3 | LENGTH;
        const ID: u8 = 3 << 3 | LENGTH;
        const CHECKPOINT: u8 = 5 << 3;
        const PRINCIPAL: u8 = 8 << 3 | LENGTH;
        let mut wire = self.wire.as_bytes().to_vec();
        field(&mut wire, USER, self.user.as_bytes());
        wire.extend([CHECKPOINT, u8::from(self.checkpoint)]);
        if let Some(principal) = &self.principal {
            field(&mut wire, PRINCIPAL, principal.as_str().as_bytes());
        }
        let mut value = Vec::new();
        field(&mut value, 1 << 3 | LENGTH, id.as_str().as_bytes());
        field(&mut wire, ID, &value);
        wire.into()
    }
}

/// The wire type of texts and messages.
const LENGTH: u8 = 2;

fn field(wire: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    wire.push(tag);
    let mut length = bytes.len();
    while length >= 0x80 {
        wire.push(u8::try_from(length & 0x7f | 0x80).expect("eight bits"));
        length >>= 7;
    }
    wire.push(u8::try_from(length).expect("seven bits"));
    wire.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those of Mesos' numbers: user 1, id 3 (value 1), checkpoint 5, principal 8.
    #[test]
    fn what_counts_follows_what_was_given() {
        let info = FrameworkInfo {
            name: "f".to_owned(),
            user: "root".to_owned(),
            principal: Some(Principal::new("ops")),
            roles: BTreeSet::new(),
            capabilities: BTreeSet::new(),
            failover_timeout: Duration::ZERO,
            checkpoint: true,
            hostname: String::new(),
            min_allocatable: BTreeMap::new(),
            wire: vec![0x12, 1, b'f'].into(),
        };
        let id = FrameworkId::parse("x".repeat(200)).unwrap();
        let named = info.named(&id);
        let (given, rest) = named.as_bytes().split_at(3);
        assert_eq!(given, info.wire.as_bytes());
        let (overlay, id_field) = rest.split_at(13);
        assert_eq!(overlay, b"\x0a\x04root\x28\x01\x42\x03ops");
        // 200 bytes and their head of 3 are 203, which is 0xcb 0x01 on the wire.
        assert_eq!(id_field[..6], [0x1a, 0xcb, 0x01, 0x0a, 0xc8, 0x01]);
        assert_eq!(&id_field[6..], id.as_str().as_bytes());
    }
}
