//! Consensus as a library: one deterministic [`Machine`], replicated between masters.
//!
//! It knows no word of the domain: to it a command is a value that can be encoded. Nothing
//! outside this crate names the consensus library or the database below it.
//!
//! Reading order: [`machine`] (what a caller implements), [`node`] (what a caller uses),
//! [`membership`], [`config`], [`error`], [`status`], [`leadership`], [`env`] (clock, disk,
//! sockets and threads as traits, so that a simulation runs the same code), then the inside:
//! `assembly` and `self_test` and `bootstrap` (how a node starts), `members` and `formation` (whom
//! it may trust), `supervisor`, `types`, `codec`, `database`, `log_store` and `log_writer`,
//! `snapshot`, `archive` and `restore` (backups), `state_machine`, `reads`, `failover`,
//! `registry`, `upkeep`, `handover`, `watchdog`, `network`, and [`runtime`].

/// What of the consensus library's own lines is worth a reader's time, as a filter of `tracing`: a
/// peer that is away is no news to followers of our lines, and neither is a core that was told to
/// stop to those who still ask it. One that breaks ends the process with a line of ours.
pub const LOG_FILTER: &str = "openraft=error,openraft::raft::raft_inner=off";

pub mod machine;
pub mod node;

pub mod membership;

pub mod config;
pub mod env;
pub mod error;
pub mod leadership;
pub mod runtime;
pub mod status;

mod archive;
mod assembly;
mod bootstrap;
mod codec;
mod database;
mod failover;
mod formation;
mod handover;
mod log_store;
mod log_writer;
mod members;
mod network;
mod reads;
mod registry;
mod restore;
mod self_test;
mod snapshot;
mod state_machine;
mod supervisor;
mod types;
mod upkeep;
mod watchdog;

#[cfg(test)]
mod storage_tests;

pub use archive::{Archive, BadArchive, Export};
pub use config::{Limits, NodeConfig};
pub use env::Environment;
pub use error::{ClusterIdError, FatalError, ProposeError, StartError, Wiped};
pub use leadership::Leadership;
pub use machine::{AppliedBatch, Batch, Chunk, Committed, CorruptSnapshot, Machine};
pub use membership::{Member, MembershipError, Role};
pub use node::Node;
pub use restore::{Restoration, restore};
pub use status::{FailoverCounts, PeerStatus, Status, Timing};
