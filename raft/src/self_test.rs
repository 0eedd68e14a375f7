//! The disk, measured at each start: an election needs several syncs within its timeout, and a
//! timeout below a sync's time would never give a leader. Must not know what is stored.
//! Next: `bootstrap.rs`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config::NodeConfig;
use crate::env::{Disk, Environment, OpenError};
use crate::error::StartError;
use crate::status::Timing;

const FILE: &str = "sync-test";
/// Writes that are measured.
const WRITES: usize = 50;
/// On a slow disk fewer have to do, so that the start does not wait for them all.
const WRITES_MIN: usize = 10;
const PATIENCE: Duration = Duration::from_millis(500);
const BLOCK: [u8; 4096] = [0x5a; 4096];

/// The timeout shall hold this many of the slowest syncs.
const SYNCS_PER_TIMEOUT: u32 = 4;
/// How far a slow disk raises the timing. Beyond that the disk is at fault.
const HEARTBEAT_MAX: Duration = Duration::from_millis(200);
const ELECTION_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// Measures the disk and returns the timing that it allows, with one warning if that is slower
/// than what was configured.
pub(crate) async fn timing(
    environment: &Environment,
    config: &NodeConfig,
) -> Result<Timing, StartError> {
    let path = config.work_dir.join(FILE);
    let sync_p99 = match environment.disk.known_sync() {
        Some(time) => time,
        None => measured(environment, &path)
            .await
            .map_err(|source| StartError::Io { path: path.clone(), source })?,
    };
    let timing = adapted(config.heartbeat, config.election_timeout, sync_p99);
    if timing.election_timeout > config.election_timeout {
        tracing::warn!(
            ?sync_p99,
            heartbeat = ?timing.heartbeat,
            election_timeout = ?timing.election_timeout,
            "the disk is slow: timeouts are raised"
        );
    }
    Ok(timing)
}

/// The configured timing, raised where the timeout does not hold enough syncs.
fn adapted(heartbeat: Duration, election_timeout: Duration, sync_p99: Duration) -> Timing {
    let wanted = sync_p99.saturating_mul(SYNCS_PER_TIMEOUT).min(ELECTION_TIMEOUT_MAX);
    if wanted <= election_timeout {
        return Timing { heartbeat, election_timeout, sync_p99 };
    }
    // As the defaults do: three heartbeats within the shortest timeout.
    let heartbeat = heartbeat.max((wanted / 3).min(HEARTBEAT_MAX));
    Timing { heartbeat, election_timeout: wanted, sync_p99 }
}

async fn measured(environment: &Environment, path: &Path) -> io::Result<Duration> {
    let (done, result) = oneshot::channel();
    let (disk, path) = (environment.disk.clone(), path.to_owned());
    let job = Box::new(move || drop(done.send(measure(&disk, &path))));
    environment.executor.blocking(job).await;
    result.await.map_err(|_| io::Error::other("the measurement was cancelled"))?
}

fn measure(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Duration> {
    let file = disk.open(path).map_err(|error| match error {
        OpenError::InUse => io::ErrorKind::ResourceBusy.into(),
        OpenError::Io(error) => error,
    })?;
    let began = Instant::now();
    let mut times = Vec::with_capacity(WRITES);
    // Each write extends the file, as a growing log does.
    let mut offset = 0;
    while times.len() < WRITES && (times.len() < WRITES_MIN || began.elapsed() < PATIENCE) {
        let started = Instant::now();
        file.write(offset, &BLOCK)?;
        file.sync_data()?;
        times.push(started.elapsed());
        offset += BLOCK.len() as u64;
    }
    drop(file);
    disk.remove(path)?;
    times.sort_unstable();
    Ok(times[(times.len() - 1) * 99 / 100])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Heartbeat and timeout after a measurement, in milliseconds.
    fn check(configured: (u64, u64), sync_p99: u64, expected: (u64, u64)) {
        let timing = adapted(millis(configured.0), millis(configured.1), millis(sync_p99));
        let found = (timing.heartbeat, timing.election_timeout);
        assert_eq!(found, (millis(expected.0), millis(expected.1)), "{sync_p99} ms");
        assert_eq!(timing.sync_p99, millis(sync_p99));
    }

    #[test]
    fn slow_disks_raise_the_timing_up_to_a_limit() {
        check((100, 300), 1, (100, 300));
        check((100, 300), 75, (100, 300));
        check((100, 300), 78, (104, 312));
        check((100, 300), 150, (200, 600));
        check((100, 300), 2000, (200, 1000));
        check((100, 2000), 2000, (100, 2000));
        check((250, 300), 100, (250, 400));
    }

    #[tokio::test]
    async fn real_disk_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let sync_p99 = measured(&Environment::os(), &path).await.unwrap();
        assert!(sync_p99 > Duration::ZERO);
        assert!(!path.exists());
    }
}
