//! Consensus as a library: one deterministic [`Machine`], replicated between masters.
//!
//! It knows no word of the domain: to it a command is a value that can be encoded. Nothing
//! outside this crate names the consensus library or the database below it.
//!
//! Reading order: [`machine`] (what a caller implements), [`node`] (what a caller uses),
//! [`config`], [`error`], [`status`], [`leadership`], [`env`] (clock, disk, sockets and threads as
//! traits, so that a simulation runs the same code), then the inside: `assembly` and
//! `self_test` and `bootstrap` (how a node starts), `supervisor`, `types`, `codec`, `database`,
//! `log_store` and `log_writer`, `snapshot`, `state_machine`, `reads`, `failover`, `upkeep`,
//! `network`, and [`runtime`].

pub mod machine;
pub mod node;

pub mod config;
pub mod env;
pub mod error;
pub mod leadership;
pub mod runtime;
pub mod status;

mod assembly;
mod bootstrap;
mod codec;
mod database;
mod failover;
mod log_store;
mod log_writer;
mod network;
mod reads;
mod self_test;
mod snapshot;
mod state_machine;
mod supervisor;
mod types;
mod upkeep;

#[cfg(test)]
mod storage_tests;

pub use config::{Limits, NodeConfig};
pub use env::Environment;
pub use error::{ClusterIdError, FatalError, ProposeError, StartError};
pub use leadership::Leadership;
pub use machine::{AppliedBatch, Batch, Chunk, Committed, CorruptSnapshot, Machine};
pub use node::Node;
pub use status::{FailoverCounts, PeerStatus, Status, Timing};
