//! Looks at a checkpoint file without changing a byte of it: what the store would write, such as
//! a repair after a crash, goes to memory. So a start that is refused leaves the work directory
//! as it found it. Knows pages, not rows. Next: `load.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// Unit of what is kept in memory.
const PAGE_BYTES: usize = 4_096;

/// A file as it is, with changes beside it. Takes the same locks as the store itself.
#[derive(Debug)]
pub(super) struct Overlay {
    file: FileBackend,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    /// Length of what is seen.
    len: u64,
    /// Bytes of the file that are still seen: shrinking hides what is behind.
    file_len: u64,
    /// Pages that differ from the file, by number.
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Overlay {
    /// Looks at `file`, which must be open for writing, as the locks ask for it.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let file = FileBackend::new(file).map_err(io::Error::other)?;
        let changes = Changes { len, file_len: len, pages: BTreeMap::new() };
        Ok(Self { file, changes: Mutex::new(changes) })
    }

    /// Bytes of the file itself; zeros behind what is seen of it.
    fn read_file(&self, changes: &Changes, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = changes.file_len.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        let (there, behind) = out.split_at_mut(there);
        behind.fill(0);
        if there.is_empty() { Ok(()) } else { self.file.read(offset, there) }
    }
}

/// The pages that a stretch of bytes touches: number, where in the page, how many bytes.
fn stretches(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done as u64;
        let start = usize::try_from(at % PAGE_BYTES as u64).unwrap_or_default();
        let count = (PAGE_BYTES - start).min(len - done);
        done += count;
        Some((at / PAGE_BYTES as u64, start, count))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes.lock().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if offset.saturating_add(out.len() as u64) > changes.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = out;
        for (number, start, count) in stretches(offset, rest.len()) {
            let (head, tail) = rest.split_at_mut(count);
            rest = tail;
            match changes.pages.get(&number) {
                Some(page) => head.copy_from_slice(&page[start..start + count]),
                None => {
                    self.read_file(&changes, number * PAGE_BYTES as u64 + start as u64, head)?
                }
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = &mut *changes;
        changes.file_len = changes.file_len.min(len);
        // What comes back when the length grows again must be zeros.
        let first_gone = len.div_ceil(PAGE_BYTES as u64);
        changes.pages.split_off(&first_gone);
        let start = usize::try_from(len % PAGE_BYTES as u64).unwrap_or_default();
        if let Some(page) = changes.pages.get_mut(&(len / PAGE_BYTES as u64)) {
            page[start..].fill(0);
        }
        changes.len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = data;
        for (number, start, count) in stretches(offset, data.len()) {
            let (head, tail) = rest.split_at(count);
            rest = tail;
            if !changes.pages.contains_key(&number) {
                let mut page = Box::new([0; PAGE_BYTES]);
                self.read_file(&changes, number * PAGE_BYTES as u64, page.as_mut_slice())?;
                changes.pages.insert(number, page);
            }
            if let Some(page) = changes.pages.get_mut(&number) {
                page[start..start + count].copy_from_slice(head);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(overlay: &Overlay, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![9; len];
        overlay.read(offset, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn file_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let before = vec![7; PAGE_BYTES + 10];
        std::fs::write(&path, &before).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let overlay = Overlay::new(file).unwrap();
        overlay.set_len(3 * PAGE_BYTES as u64).unwrap();
        overlay.write(PAGE_BYTES as u64 - 1, &[1, 2, 3]).unwrap();
        assert_eq!(seen(&overlay, PAGE_BYTES as u64 - 2, 5), [7, 1, 2, 3, 7]);
        assert_eq!(seen(&overlay, PAGE_BYTES as u64 + 9, 3), [7, 0, 0]);
        assert!(overlay.read(3 * PAGE_BYTES as u64, &mut [0]).is_err());

        overlay.set_len(PAGE_BYTES as u64 + 1).unwrap();
        overlay.set_len(PAGE_BYTES as u64 + 4).unwrap();
        assert_eq!(seen(&overlay, PAGE_BYTES as u64, 4), [2, 0, 0, 0], "what was cut off is gone");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
