//! What the metadata gives to its backup: changed pages, and now and then the whole file.
//!
//! The database is in WAL mode and never checkpoints by itself (`wal_autocheckpoint=0`); only
//! [`BackupSource::capture`] does, while it holds the writer and has read everything that was
//! committed. So between two calls the database file stands still, and can be read as a snapshot at
//! leisure, while transactions go to the journal.
//!
//! Nothing here waits for the bucket: a commit never does.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use sqlx::SqliteConnection;
use tokio::sync::watch;

use super::{Inner, SqliteMeta, journal::JournalReader};
use crate::StoreFailure;

/// The journal is given back to the database from this size on, in bytes: SQLite's own default of
/// 1,000 pages.
pub(super) const CHECKPOINT_BYTES: u64 = 4 << 20;

/// Bytes of the database in one part of a snapshot: bounds the memory, and how long changed pages
/// wait behind it.
const PART_BYTES: usize = 4 << 20;

/// Everything that was committed since the last call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPages {
    /// The first transaction.
    pub first_revision: u64,
    /// The last one.
    pub last_revision: u64,
    /// The pages, as [`crate::sqlite::Restore::apply`] takes them.
    pub body: Vec<u8>,
}

/// What [`BackupSource::capture`] found.
#[derive(Debug, Default)]
pub struct Captured {
    /// Changes on top of everything that was given before; `None` where there are none, or where only
    /// a new snapshot can go on.
    pub changes: Option<ChangedPages>,
    /// A snapshot begins: call [`BackupSource::next_part`] until it is whole. A former one that was
    /// under way is void.
    pub snapshot: Option<SnapshotStart>,
}

/// A snapshot that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotStart {
    /// The last transaction that it has.
    pub revision: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What was given before goes on without a gap: it can be relied on until the snapshot is whole.
    pub continues: bool,
}

/// A part of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Nothing follows.
    pub is_last: bool,
}

/// Hands the metadata over to its backup. There is one at most per store.
#[derive(Debug)]
pub struct BackupSource {
    inner: Arc<Inner>,
    path: PathBuf,
    journal: JournalReader,
    backed_up: watch::Sender<u64>,
    /// The last revision that was given, in a snapshot or as changes; `None`: only a snapshot can go
    /// on.
    given: Option<u64>,
    snapshot: Option<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    file: Arc<File>,
    file_bytes: u64,
    offset: u64,
}

impl SqliteMeta {
    /// Begins the backup: from now on [`crate::MetaStore::backed_up`] waits for
    /// [`BackupSource::backed_up_to`]. A second call voids what the first one gave.
    #[must_use]
    pub fn begin_backup(&self) -> BackupSource {
        let (backed_up, receiver) = watch::channel(0);
        *self.inner.backed_up.lock() = Some(receiver);
        BackupSource {
            inner: Arc::clone(&self.inner),
            path: self.inner.path.clone(),
            journal: JournalReader::new(&self.inner.path),
            backed_up,
            given: None,
            snapshot: None,
        }
    }
}

impl BackupSource {
    /// Word of each new revision.
    #[must_use]
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    /// Resolves when somebody waits for the backup who should not wait for long.
    pub async fn wanted(&self) {
        self.inner.backup_wanted.notified().await;
    }

    /// What was captured last was not put: only a snapshot can go on.
    pub fn start_over(&mut self) {
        self.void();
    }

    /// Says that the bucket has every change up to `revision`.
    pub fn backed_up_to(&self, revision: u64) {
        self.backed_up.send_if_modified(|reached| {
            let further = revision > *reached;
            *reached = (*reached).max(revision);
            further
        });
    }

    /// Takes what was committed since the last call, and begins a snapshot where one is wanted or
    /// nothing else can go on. A reader that is in the way puts the snapshot off to a later call.
    ///
    /// # Errors
    /// The store failed; call again.
    pub async fn capture(&mut self, wants_snapshot: bool) -> Result<Captured, StoreFailure> {
        let inner = Arc::clone(&self.inner);
        let is_behind = inner.index_behind.load(Ordering::SeqCst);
        if self.given == Some(*inner.revision.borrow()) && !is_behind && !wants_snapshot {
            return Ok(Captured::default());
        }
        let mut writer = inner.writer().await?;
        let revision = *inner.revision.borrow();
        let changes = self.read_changes(revision).await?;
        let continues = self.given.is_some();
        let wants_snapshot = wants_snapshot || self.given.is_none();
        if !wants_snapshot && (self.snapshot.is_some() || !self.is_checkpoint_due()) {
            return Ok(Captured {
                changes,
                snapshot: None,
            });
        }
        if !checkpoint(&mut writer).await? || !wants_snapshot {
            return Ok(Captured {
                changes,
                snapshot: None,
            });
        }
        let file = File::open(&self.path).map_err(unreadable)?;
        let file_bytes = file.metadata().map_err(unreadable)?.len();
        self.given = Some(revision);
        self.snapshot = Some(Snapshot {
            file: Arc::new(file),
            file_bytes,
            offset: 0,
        });
        Ok(Captured {
            changes,
            snapshot: Some(SnapshotStart {
                revision,
                file_bytes,
                continues,
            }),
        })
    }

    /// Reads the journal's new transactions while the writer is held. They are worth something only
    /// on top of what was given before, without a gap.
    async fn read_changes(&mut self, revision: u64) -> Result<Option<ChangedPages>, StoreFailure> {
        let mut journal = std::mem::replace(&mut self.journal, JournalReader::new(&self.path));
        let read = tokio::task::spawn_blocking(move || {
            let pages = journal.read();
            (journal, pages)
        });
        let (journal, pages) = read
            .await
            .map_err(|error| StoreFailure::Database(Box::new(error)))?;
        self.journal = journal;
        let pages = pages.map_err(unreadable)?;
        let Some(given) = self.given else {
            return Ok(None);
        };
        if revision > given && pages.commits >= revision - given {
            self.given = Some(revision);
            let body = pages.encode();
            return Ok(Some(ChangedPages {
                first_revision: given + 1,
                last_revision: revision,
                body,
            }));
        }
        if revision != given || pages.commits > 0 {
            tracing::warn!(
                given,
                revision,
                transactions = pages.commits,
                "another program has changed the metadata's journal; the backup begins with a new snapshot"
            );
            self.void();
        }
        Ok(None)
    }

    /// Only a snapshot can go on.
    fn void(&mut self) {
        self.given = None;
        self.snapshot = None;
    }

    fn is_checkpoint_due(&self) -> bool {
        self.journal.read_bytes() >= CHECKPOINT_BYTES
    }

    /// The next part of the snapshot that is under way; `None` where none is.
    ///
    /// # Errors
    /// The file cannot be read; call again.
    pub async fn next_part(&mut self) -> Result<Option<FilePart>, StoreFailure> {
        let Some(snapshot) = &mut self.snapshot else {
            return Ok(None);
        };
        let rest = snapshot.file_bytes.saturating_sub(snapshot.offset);
        let length = usize::try_from(rest).unwrap_or(PART_BYTES).min(PART_BYTES);
        let (file, offset) = (Arc::clone(&snapshot.file), snapshot.offset);
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes)
        });
        let read = read
            .await
            .map_err(|error| StoreFailure::Database(Box::new(error)))?;
        let bytes = read.map_err(unreadable)?;
        snapshot.offset += length as u64;
        let is_last = snapshot.offset >= snapshot.file_bytes;
        if is_last {
            self.snapshot = None;
        }
        Ok(Some(FilePart {
            offset,
            bytes,
            is_last,
        }))
    }

    /// Keeps the journal within its bound while the bucket does not take what is due, also before the
    /// first capture. Where that gives changes back that nobody has captured, the backup begins with a
    /// new snapshot.
    ///
    /// # Errors
    /// The store failed; call again.
    pub async fn bound_journal(&mut self) -> Result<(), StoreFailure> {
        let inner = Arc::clone(&self.inner);
        if self.journal.file_bytes() < inner.options.journal_bytes_max {
            return Ok(());
        }
        let mut writer = inner.writer().await?;
        let revision = *inner.revision.borrow();
        // Even an incomplete checkpoint changes the file that a snapshot is read from. The file keeps
        // its length when its journal begins again, so most calls find everything captured.
        let loses_snapshot = self.snapshot.is_some();
        let loses_changes = self.given.is_some_and(|given| given != revision);
        if checkpoint(&mut writer).await? && loses_changes || loses_snapshot {
            tracing::warn!(
                revision,
                "the metadata's journal is full, and the bucket does not take it; the backup goes on \
                 with a snapshot"
            );
            self.void();
        }
        Ok(())
    }
}

/// Brings everything that is committed from the journal into the database file; false where a reader
/// is in the way.
async fn checkpoint(writer: &mut SqliteConnection) -> Result<bool, StoreFailure> {
    let (busy, frames, done): (i64, i64, i64) = sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)")
        .fetch_one(writer)
        .await?;
    Ok(busy == 0 && frames == done)
}

fn unreadable(error: io::Error) -> StoreFailure {
    StoreFailure::Database(Box::new(error))
}
