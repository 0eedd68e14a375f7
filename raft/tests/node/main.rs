//! Nodes through the public interface of the crate: clusters on real sockets and files, leaders
//! that die, failing disks, directories that must be refused.
#![allow(clippy::unwrap_used, reason = "an assumption that fails ends the test")]

mod backups;
mod cluster;
mod failover;
mod faults;
mod harness;
mod membership;
mod refusals;
mod stalls;
#[allow(dead_code, reason = "each test binary uses a part")]
#[path = "../support/mod.rs"]
mod support;
mod wiped;
