//! The shared vocabulary of Holdfast and its arithmetic. Pure: no clock, randomness, hash map,
//! float arithmetic, lock, thread, `async` or I/O.
//!
//! Reading order: [`id`], [`time`], [`role`], [`value`], [`resource`] (text: `display.rs`),
//! [`form`] (the three wire formats; in by `upgrade.rs`, out by `downgrade.rs`, leniency in
//! `lenient.rs`), [`opaque`], [`framework`], [`task`], [`kill_policy`], [`operation`],
//! [`validate`] (the rules: `rules.rs`, [`framework_rules`], [`task_rules`], [`capability`];
//! quotes in messages: [`brief`]), [`collection`] (key: `identity.rs`, `encode.rs`; tree:
//! `trie.rs`; hash: `digest.rs`), [`persistent`] (the tree of all else), [`conversion`],
//! [`earlier`], [`conflict`], [`stable`] (names of reservations and volumes), [`parse`],
//! [`quantity`], [`quota`], [`weight`], [`compatibility`], [`volume_path`], [`machine`],
//! [`message`] (what master and agent tell each other).
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

pub mod brief;
pub mod capability;
pub mod collection;
pub mod compatibility;
pub mod conflict;
pub mod conversion;
mod digest;
mod display;
mod downgrade;
pub mod earlier;
mod encode;
pub mod form;
pub mod framework;
pub mod framework_rules;
pub mod id;
mod identity;
pub mod kill_policy;
mod lenient;
pub mod machine;
pub mod message;
pub mod opaque;
pub mod operation;
pub mod parse;
pub mod persistent;
pub mod quantity;
pub mod quota;
pub mod resource;
pub mod role;
mod rules;
pub mod stable;
pub mod task;
pub mod task_rules;
pub mod time;
mod trie;
mod upgrade;
pub mod validate;
pub mod value;
pub mod volume_path;
pub mod weight;
