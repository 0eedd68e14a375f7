//! Wire formats of Holdfast and of the Mesos v1 API. Must not know what a message leads to.
//!
//! Reading order: [`mesos`] and [`holdfast`] (generated from `proto/`), [`json`] (JSON ⇄
//! protobuf by descriptor, and the check of `required`), [`recordio`] (framing of streams),
//! [`convert`] (the only code that turns wire messages into domain values).

pub mod convert;
pub mod json;
pub mod recordio;

mod generated {
    #![allow(
        missing_docs,
        unreachable_pub,
        elided_lifetimes_in_paths,
        clippy::all,
        clippy::allow_attributes_without_reason,
        clippy::large_futures,
        clippy::too_many_lines,
        reason = "generated code"
    )]
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

pub use generated::{holdfast, mesos};
