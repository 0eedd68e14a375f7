//! The weather: what goes wrong, how often and how long.

use std::time::Duration;

/// What happens to the machines.
#[derive(Debug, Clone)]
pub(crate) struct Storm {
    /// How long things go wrong.
    pub(crate) lasts: Duration,
    /// A crash or a partition this often.
    pub(crate) every: Duration,
    /// Whether syncs do nothing.
    pub(crate) disks_lie: bool,
    /// Whether connections are cut, and knocks answered at random: wrong, late, or not at all,
    /// on each machine in its own way.
    pub(crate) knocks_lie: bool,
}

impl Default for Storm {
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(15),
            every: Duration::from_millis(1500),
            disks_lie: false,
            knocks_lie: false,
        }
    }
}
