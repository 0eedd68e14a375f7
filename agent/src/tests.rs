//! The agent as a whole, without sockets: killed at every step, damaged, restarted with other
//! flags, and led through the field's known failures. Each file is one theme; all use `rig`.

mod bad_input;
mod crash;
mod field_reports;
mod restart;
pub(crate) mod rig;
