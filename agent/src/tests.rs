//! The agent as a whole, without sockets: killed at every step, damaged, restarted with other
//! flags, and led through the field's known failures. Each file is one theme; all use `rig`.

mod bad_input;
mod crash;
mod crash_tasks;
mod custom;
mod field_reports;
pub(crate) mod pilot;
mod restart;
pub(crate) mod rig;
mod supervised;
pub(crate) mod task_words;
mod volume_reports;
