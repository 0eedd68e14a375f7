//! Black-box drills: real processes, the public API, checked histories. This crate imports none
//! of ours, so that a fault of the product cannot hide inside its own checker.
//!
//! Reading order: [`process`] (what the kernel knows of a process), [`cluster`] (a local cluster
//! and its `cluster.json`), [`wait`] (states with deadlines), [`client`] (one call to one address),
//! [`scheduler`] (a framework's stream of events),
//! [`history`] (what was asked and how it ended), [`observe`] (what masters, agents and disks
//! hold), [`invariants`] (what must hold between the two), [`slots`] and [`disk`] (the same for
//! drills on agents), [`report`], [`drills`].

pub mod client;
pub mod cluster;
pub mod disk;
pub mod drills;
pub mod history;
pub mod invariants;
pub mod namespace;
pub mod observe;
pub mod process;
pub mod proxy;
pub mod report;
pub mod scheduler;
pub mod slots;
pub mod wait;
