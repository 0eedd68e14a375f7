//! The HTTP edge of a real master in this process, as clients see it. Tests that stand for a
//! field report begin with its number. Reading order: `support.rs`, `calls.rs`, `basics.rs`,
//! `authz.rs`, `changes.rs`, `agents.rs`, `reads.rs`, `scheduler.rs`, `frameworks.rs`, `rules.rs`,
//! `maintenance.rs`, `bad_input.rs`.
#![expect(clippy::unwrap_used, reason = "a helper that fails has to fail its test")]

mod accept;
mod agents;
mod authz;
mod bad_input;
mod basics;
mod calls;
mod changes;
mod frameworks;
mod maintenance;
mod reads;
mod rules;
mod scheduler;
mod support;
