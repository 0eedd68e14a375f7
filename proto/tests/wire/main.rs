//! Tests of the wire formats through the crate's public face.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod binary;
mod convert;
mod golden;
mod laws;
mod recorded;
mod samples;
mod session;
mod tasks;
