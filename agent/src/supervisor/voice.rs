//! The words of a supervisor: numbered, written to the file of the run, and pointed out to
//! whoever is connected. Next: `supervisor/sandbox.rs`.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::runner::job::{Record, Said, WORDS, framed};

/// From a failed write to the next attempt.
const RETRY: Duration = Duration::from_secs(1);

/// Where a supervisor speaks.
pub(super) struct Voice {
    file: File,
    /// Bytes of whole records in the file.
    length: u64,
    number: u64,
    /// Records that could not be written.
    pending: Vec<u8>,
    retry_at: Option<Instant>,
    listeners: Vec<UnixStream>,
}

impl Voice {
    pub(super) fn open(run: &Path) -> io::Result<Self> {
        let file = File::options().create_new(true).append(true).open(run.join(WORDS))?;
        let (pending, listeners) = (Vec::new(), Vec::new());
        Ok(Self { file, length: 0, number: 0, pending, retry_at: None, listeners })
    }

    /// One more agent that is told of new words.
    pub(super) fn listen(&mut self, stream: UnixStream) {
        // One that does not read is not waited for.
        if stream.set_nonblocking(false).is_ok()
            && stream.set_write_timeout(Some(Duration::from_millis(10))).is_ok()
        {
            // It may have missed the words of a moment ago.
            let mut stream = stream;
            if stream.write(&[0]).is_ok() {
                self.listeners.push(stream);
            }
        }
    }

    /// Says it: written in one piece, durable if nothing follows on it.
    pub(super) fn say(&mut self, words: Vec<Said>) {
        if words.is_empty() {
            return;
        }
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        let is_final = words.iter().any(super::is_final);
        for said in words {
            self.number += 1;
            let record = Record { number: self.number, at, said };
            self.pending.extend(framed(&record).unwrap_or_default());
        }
        self.write(is_final);
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    pub(super) fn retry(&mut self) {
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.write(true);
        }
    }

    /// The last words are worth waiting for: a full disk may get room again.
    pub(super) fn finish(&mut self) {
        while !self.pending.is_empty() {
            std::thread::sleep(RETRY);
            self.write(true);
        }
    }

    fn write(&mut self, is_final: bool) {
        let written = self.file.write_all(&self.pending);
        let synced = written.and_then(|()| if is_final { self.file.sync_data() } else { Ok(()) });
        if synced.is_err() {
            // Half a record would hide those behind it. If this fails too, the next attempt
            // may do.
            let _cut = self.file.set_len(self.length);
            self.retry_at = Some(Instant::now() + RETRY);
            return;
        }
        self.length += self.pending.len() as u64;
        self.pending.clear();
        self.retry_at = None;
        // One that is gone is forgotten; one that has bytes unread looks anyway.
        self.listeners.retain(|mut listener| match listener.write(&[0]) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        });
    }
}
