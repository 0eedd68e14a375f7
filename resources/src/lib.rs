//! The shared vocabulary of Holdfast and its arithmetic. Pure: no clock, randomness, hash map,
//! float arithmetic, lock, thread, `async` or I/O.
//!
//! Reading order: [`id`], [`time`], [`role`], [`value`], [`resource`] (text: `display.rs`),
//! [`form`] (the three wire formats; in by `upgrade.rs`, out by `downgrade.rs`, leniency in
//! `lenient.rs`), [`validate`], [`collection`] (key: `identity.rs`, hash: `digest.rs`),
//! [`operation`], [`conversion`], [`parse`], [`quantity`], [`compatibility`],
//! [`volume_path`], [`message`] (what master and agent tell each other).
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

pub mod collection;
pub mod compatibility;
pub mod conversion;
mod digest;
mod display;
mod downgrade;
pub mod form;
pub mod id;
mod identity;
mod lenient;
pub mod message;
pub mod operation;
pub mod parse;
pub mod quantity;
pub mod resource;
pub mod role;
pub mod time;
mod upgrade;
pub mod validate;
pub mod value;
pub mod volume_path;
