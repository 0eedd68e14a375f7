//! Whose directory it is: rows that stand beside the log in its file. Must not know what the
//! entries mean.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use openraft::EntryPayload;
use prost::Message;
use proto::holdfast::raft as wire;

use super::LogStore;
use crate::log_writer::{Change, IDENTITY, STORE, STORES, STORES_VERSION};
use crate::machine::Machine;
use crate::members::Stores;
use crate::types::Membership;

impl<M: Machine> LogStore<M> {
    /// The owner of the directory, if it has one.
    pub(crate) fn identity(&self) -> Option<wire::Identity> {
        self.shared.memory.read().identity.clone()
    }

    /// Makes `identity` durable, then visible.
    pub(crate) async fn set_identity(&self, identity: wire::Identity) -> io::Result<()> {
        self.write(Change::Meta(IDENTITY, identity.encode_to_vec())).await?;
        self.shared.memory.write().identity = Some(identity);
        Ok(())
    }

    /// The random number of the directory, if it has one.
    pub(crate) fn store(&self) -> Option<u64> {
        self.shared.memory.read().store
    }

    /// Makes the number of the directory durable, then visible.
    pub(crate) async fn set_store(&self, store: u64) -> io::Result<()> {
        self.write(Change::Meta(STORE, store.to_be_bytes().to_vec())).await?;
        self.shared.memory.write().store = Some(store);
        Ok(())
    }

    /// The directories of the members, as they were last written.
    pub(crate) fn stores(&self) -> Stores {
        self.shared.memory.read().stores.clone()
    }

    /// Makes what is known of the members' directories durable.
    pub(crate) async fn set_stores(&self, stores: &Stores) -> io::Result<()> {
        let known = |(node, store): (&u64, &u64)| wire::KnownStore { node: *node, store: *store };
        let stores = stores.iter().map(known).collect();
        let row = wire::KnownStores { version: STORES_VERSION, stores };
        self.write(Change::Meta(STORES, row.encode_to_vec())).await
    }

    /// Whether anything was ever promised from this directory, as it changes.
    pub(crate) fn stake(&self) -> Arc<AtomicBool> {
        self.shared.stake.clone()
    }

    /// The newest membership in the log, committed or not.
    pub(crate) fn membership(&self) -> Option<Membership> {
        let memory = self.shared.memory.read();
        let mut entries = memory.entries.values().rev();
        entries.find_map(|entry| match &entry.payload {
            EntryPayload::Membership(membership) => Some(membership.clone()),
            EntryPayload::Blank | EntryPayload::Normal(_) => None,
        })
    }
}
