//! Whether each volume is still where it was made, looked for from time to time: a disk may be
//! unmounted, a directory moved, while the agent runs. Changes nothing. Next: `notes.rs`.

use std::collections::BTreeMap;
use std::sync::mpsc::{self as thread_channel, RecvTimeoutError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::{debug, error, info};

use resources::resource::Resource;

use super::handle::Input;
use crate::core::event::{Event, Look, VolumeKey, VolumeRecord};
use crate::volumes::Volumes;

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(10);

/// A volume, and what it is known by.
pub(crate) type Made = (Resource, VolumeRecord);

/// Says which volumes there are.
#[derive(Debug)]
pub(crate) struct Lookout(thread_channel::Sender<Vec<Made>>);

impl Lookout {
    /// These from now on.
    pub(crate) fn set(&self, made: Vec<Made>) {
        if self.0.send(made).is_err() {
            debug!("volumes are not looked for any more");
        }
    }
}

/// Starts to look. Ends by itself when nobody says any more which volumes there are.
pub(super) fn start(volumes: Volumes, inputs: mpsc::Sender<Input>) -> std::io::Result<Lookout> {
    let (wanted_tx, wanted) = thread_channel::channel();
    super::spawn("agent-lookout", move || {
        let mut made: Vec<Made> = Vec::new();
        let mut last: BTreeMap<VolumeKey, Option<String>> = BTreeMap::new();
        let mut next_at = Instant::now() + INTERVAL;
        loop {
            match wanted.recv_timeout(next_at.saturating_duration_since(Instant::now())) {
                Ok(next) => made = next,
                Err(RecvTimeoutError::Timeout) => {
                    let looks: Vec<Look> = made.iter().filter_map(|m| look(&volumes, m)).collect();
                    tell(&last, &looks);
                    last = looks.iter().map(|l| (l.key.clone(), l.wrong.clone())).collect();
                    if inputs.blocking_send(Input::Event(Event::Looked(looks))).is_err() {
                        return;
                    }
                    next_at = Instant::now() + INTERVAL;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })?;
    Ok(Lookout(wanted_tx))
}

/// What there is of one volume.
pub(crate) fn look(volumes: &Volumes, (volume, record): &Made) -> Option<Look> {
    let wrong = volumes.look(volume, record).err();
    Some(Look { key: VolumeKey::of(volume)?, record: *record, wrong })
}

fn tell(last: &BTreeMap<VolumeKey, Option<String>>, looks: &[Look]) {
    for Look { key, record: _, wrong } in looks {
        match (last.get(key), wrong) {
            (Some(Some(_)), None) => info!(volume = %key, "the volume is back"),
            (Some(None), Some(reason)) => {
                error!(volume = %key, reason, "the volume is unavailable")
            }
            (Some(_) | None, Some(_) | None) => {}
        }
    }
}
