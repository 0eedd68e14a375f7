//! Waiting for a state, with a deadline. The only place of this crate that lets time pass.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// A short pause between two attempts of a client that is refused at once.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// Lets a drawn time pass, so that what is broken is broken at any moment of what goes on.
pub async fn some(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Asks `probe` until it gives `Ok`, at most `deadline` long. `Err` says what is still missing.
///
/// # Errors
/// When the deadline has passed; the message holds the last thing that was missing.
pub async fn until<T, F>(what: &str, deadline: Duration, mut probe: F) -> anyhow::Result<T>
where
    F: AsyncFnMut() -> Result<T, String>,
{
    let begin = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(missing) if begin.elapsed() > deadline => {
                bail!("{what}: not within {} s: {missing}", deadline.as_secs())
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
