//! The product as its users meet it: real processes of the built program, the public API, the
//! files on disk. Each test owns a cluster, its ports and its folder.
//!
//! Reading order: [`harness`], [`ask`], [`scheduler`], then the tests by what they are about.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ask;
mod backups;
mod harness;

mod bad_input;
mod dev_stop;
mod drill;
mod frameworks;
mod idempotency;
mod observed;
mod operator;
mod power_cut;
mod reconcile;
mod redirects;
mod refusals;
mod reports_agents;
mod reports_offers;
mod reports_reservations;
mod reports_streams;
mod reports_values;
mod reports_volumes;
mod rules;
mod scheduler;
mod servers;
mod start_up;
mod transactions;
mod unavailable;
mod volumes;
