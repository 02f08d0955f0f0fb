//! The fence of brokers on one machine: a page in a file beside the log.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use millrace_model::NodeEpoch;

use super::{FenceError, LogFence};

const MAGIC: u64 = u64::from_le_bytes(*b"MRFENCE1");
/// The magic number, the log's id, its owner's epoch, and their sum.
const WORDS: usize = 4;
const PAGE_BYTES: usize = WORDS * 8;
/// A reader may meet a writer between two bytes. It happens once per takeover, and takes a moment.
const TORN_READS_MAX: u32 = 1_000;

/// The fence of brokers on one machine: a file beside the log, which they share through the page cache. It need not
/// survive the machine, because no former owner does; it does so all the same.
#[derive(Debug)]
pub struct SharedPage {
    file: File,
    wal_id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    wal_id: u64,
    epoch: NodeEpoch,
}

impl SharedPage {
    /// Opens the file at `path`, or creates it, for the log with this id.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(path: &Path, wal_id: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        Ok(Self { file, wal_id })
    }

    /// What the file says; `None` where nothing was ever written.
    fn read(&self) -> io::Result<Option<Page>> {
        for _ in 0..TORN_READS_MAX {
            let mut bytes = [0; PAGE_BYTES];
            match self.file.read_exact_at(&mut bytes, 0) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
            if let Some(page) = Page::decode(&bytes) {
                return Ok(Some(page));
            }
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its file is corrupt; delete it while no broker runs",
        ))
    }

    /// What `acquire` does while the file is locked.
    fn raise(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        if let Some(page) = self.read()?
            && page.wal_id == self.wal_id
            && page.epoch > epoch
        {
            let current = page.epoch;
            return Err(FenceError::Fenced { epoch, current });
        }
        let page = Page {
            wal_id: self.wal_id,
            epoch,
        };
        self.file.write_all_at(&page.encode(), 0)?;
        self.file.sync_data()?;
        Ok(())
    }
}

impl LogFence for SharedPage {
    fn acquire(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        // Of two that take the log over at once, the earlier epoch must not overwrite the later one.
        self.file.lock()?;
        let raised = self.raise(epoch);
        self.file.unlock()?;
        raised
    }

    fn check(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        let blank = Page {
            wal_id: self.wal_id,
            epoch: NodeEpoch(0),
        };
        let page = self.read()?.unwrap_or(blank);
        let current = page.epoch;
        if page.wal_id != self.wal_id {
            Err(FenceError::Replaced { current })
        } else if current != epoch {
            Err(FenceError::Fenced { epoch, current })
        } else {
            Ok(())
        }
    }
}

impl Page {
    fn words(self) -> [u64; WORDS] {
        let Self { wal_id, epoch } = self;
        let sum = MAGIC.rotate_left(1) ^ wal_id.rotate_left(2) ^ epoch.get().rotate_left(3);
        [MAGIC, wal_id, epoch.get(), sum]
    }

    fn encode(self) -> [u8; PAGE_BYTES] {
        let mut bytes = [0; PAGE_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// `None` where the bytes are no page, or those of two.
    fn decode(bytes: &[u8; PAGE_BYTES]) -> Option<Self> {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().ok()?);
        }
        let [_, wal_id, epoch, _] = words;
        let page = Self {
            wal_id,
            epoch: NodeEpoch(epoch),
        };
        (page.words() == words).then_some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAL: u64 = 42;

    fn epoch(n: u64) -> NodeEpoch {
        NodeEpoch(n)
    }

    #[test]
    fn a_later_epoch_fences_an_earlier_one_for_good() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("wal.fence");
        let (old, new) = (
            SharedPage::open(&path, WAL).expect("opens"),
            SharedPage::open(&path, WAL).expect("opens"),
        );
        assert!(old.check(epoch(1)).is_err(), "nobody owns the log yet");
        old.acquire(epoch(1)).expect("acquires");
        old.acquire(epoch(1)).expect("acquires again");
        old.check(epoch(1)).expect("owns the log");
        new.acquire(epoch(3)).expect("takes over");
        new.check(epoch(3)).expect("owns the log");
        let fenced = old.check(epoch(1)).expect_err("fenced");
        assert_eq!(
            fenced.to_string(),
            "epoch 1 no longer owns the write-ahead log: epoch 3 has taken it over"
        );
        for late in [1, 2] {
            assert!(matches!(
                old.acquire(epoch(late)),
                Err(FenceError::Fenced { .. })
            ));
        }
        new.check(epoch(3)).expect("still owns the log");
    }

    #[test]
    fn of_several_that_take_over_at_once_the_latest_owns_the_log() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("wal.fence");
        std::thread::scope(|scope| {
            for n in 1..=16 {
                let path = &path;
                scope.spawn(move || {
                    let page = SharedPage::open(path, WAL).expect("opens");
                    let _ = page.acquire(epoch(n));
                });
            }
        });
        let page = SharedPage::open(&path, WAL).expect("opens");
        page.check(epoch(16)).expect("owns the log");
    }

    #[test]
    fn a_damaged_page_lets_nobody_acknowledge() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("wal.fence");
        let page = SharedPage::open(&path, WAL).expect("opens");
        page.acquire(epoch(1)).expect("acquires");
        page.file.write_all_at(&[7], 9).expect("writes");
        assert!(matches!(page.check(epoch(1)), Err(FenceError::Io(_))));
        assert!(matches!(page.acquire(epoch(2)), Err(FenceError::Io(_))));
    }
    #[test]
    fn a_new_log_begins_with_any_epoch_and_its_predecessor_acknowledges_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("wal.fence");
        let old = SharedPage::open(&path, WAL).expect("opens");
        old.acquire(epoch(9)).expect("acquires");
        let new = SharedPage::open(&path, WAL + 1).expect("opens");
        new.acquire(epoch(1)).expect("acquires");
        new.check(epoch(1)).expect("owns the log");
        assert!(matches!(
            old.check(epoch(9)),
            Err(FenceError::Replaced { .. })
        ));
    }
}
