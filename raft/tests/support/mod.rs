//! What the tests of this crate share: a machine, a simulated disk, a network with faults, a
//! recorder of fatal errors.

pub(crate) mod disk;
pub(crate) mod faulty;
pub(crate) mod register;
pub(crate) mod stall;

use std::sync::Arc;

use parking_lot::Mutex;
use raft::FatalError;
use raft::env::FatalHook;

/// Writes fatal errors down instead of ending the process.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    /// Writes something down as fatal.
    pub(crate) fn note(&self, error: String) {
        self.0.lock().push(error);
    }

    /// What was fatal so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl FatalHook for Recorder {
    fn fatal(&self, error: &FatalError) {
        self.0.lock().push(error.to_string());
    }
}
