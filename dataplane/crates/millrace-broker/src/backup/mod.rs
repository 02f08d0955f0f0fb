//! Keeps a backup of the metadata in the bucket: what changed within the last quarter of a second, and
//! now and then everything. `BACKUP.md` of `millrace-meta` gives the format and the reasons.
//!
//! The way of a change: a transaction commits in SQLite's journal → [`BackupSource::capture`] →
//! [`ChainWriter::put`] → [`BackupSource::backed_up_to`], which those wait for who trim the log, delete
//! objects, or serve a new topic. A commit itself waits for nothing here.

mod history;
mod metrics;
#[cfg(test)]
mod tests;
mod watermarks;

use std::time::Duration;

use millrace_meta::{
    StoreFailure,
    sqlite::{BackupSource, ChangedPages, FilePart, SnapshotStart},
};
use millrace_model::{Offset, StreamId};
use millrace_objects::chain::{
    CHAIN_BODY_BYTES_MAX, ChainWriter, Draft, ItemKind, PutItemError, SnapshotPart, Watermark,
};
use millrace_time::SharedClock;

use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use self::{history::History, metrics::Metrics, watermarks::Watermarks};

/// Changes are put at most this often: four requests per second while the metadata changes all the
/// time, and far below the second within which a change must be in the bucket.
const PUT_INTERVAL: Duration = Duration::from_millis(250);

/// How far streams are acknowledged is put this often while that is all that changes. A recovery
/// without the write-ahead log names what is missing up to about this long before the end.
const WATERMARK_INTERVAL: Duration = Duration::from_secs(1);

/// A snapshot follows when the changes since the last one have more bytes than it, or than this;
const SNAPSHOT_AFTER_BYTES_MIN: u64 = 8 << 20;

/// or when they are more items than this, which bounds the requests of a recovery.
const SNAPSHOT_AFTER_ITEMS: u64 = 1_000;

/// Items below this size are compressed where they are; larger ones on a thread that may block.
const SEAL_INLINE_BYTES: usize = 64 << 10;

/// The pause after a failure that may pass. The bucket has been asked many times by then.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// While something is awaited from the bucket, the journal's size and the gauge are looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A successor keeps what it finds in the chain for longer than this before it deletes it: the window of
/// a recovery has minutes.
const REPLACED_AFTER: Duration = Duration::from_secs(30);

/// One past the last acknowledged offset of each stream, as it is now.
pub(crate) type ConfirmedEnds = Box<dyn Fn() -> Vec<(StreamId, Offset)> + Send + Sync>;

/// What the task works with.
pub(crate) struct BackupParts {
    pub(crate) source: BackupSource,
    /// The claimed chain; comes once the bucket is known to be ours.
    pub(crate) claimed: oneshot::Receiver<ChainWriter>,
    pub(crate) ends: ConfirmedEnds,
    pub(crate) clock: SharedClock,
    /// How far back a recovery can go: as long as an object outlives its last reference.
    pub(crate) window: Duration,
}

/// The task, while it runs.
pub(crate) struct Backup {
    source: BackupSource,
    writer: ChainWriter,
    ends: ConfirmedEnds,
    clock: SharedClock,
    watermarks: Watermarks,
    history: History,
    metrics: Metrics,
    /// A snapshot that is under way.
    snapshot: Option<Progress>,
    /// This start has put a whole snapshot, and everything since.
    is_based: bool,
    /// The last revision that was put.
    put_revision: u64,
    last_put: LastPut,
    since_snapshot: Since,
}

/// When an item was put, by the clock that never jumps, and by the one that goes on while the machine is
/// paused.
#[derive(Debug, Clone, Copy)]
struct LastPut {
    at: Duration,
    wall_ms: i64,
}

impl LastPut {
    fn now(clock: &SharedClock) -> Self {
        let (at, wall_ms) = (clock.now(), clock.wall_ms());
        Self { at, wall_ms }
    }

    /// Whether nothing was put for so long that a successor may have claimed the chain and deleted the
    /// items in which this start would have met it.
    fn is_long_ago(self, clock: &SharedClock) -> bool {
        let quiet = clock.now().saturating_sub(self.at);
        let quiet_ms = clock.wall_ms().saturating_sub(self.wall_ms);
        quiet >= REPLACED_AFTER
            || u128::try_from(quiet_ms).is_ok_and(|ms| ms >= REPLACED_AFTER.as_millis())
    }
}

/// A snapshot that is under way.
#[derive(Debug, Clone, Copy)]
struct Progress {
    start: SnapshotStart,
    first_seq: Option<u64>,
}

/// What was put since the last snapshot began.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    items: u64,
    bytes: u64,
    /// Bytes of the last snapshot in the bucket.
    snapshot_bytes: u64,
}

impl Since {
    fn is_snapshot_due(&self) -> bool {
        self.items >= SNAPSHOT_AFTER_ITEMS
            || self.bytes >= self.snapshot_bytes.max(SNAPSHOT_AFTER_BYTES_MIN)
    }
}

impl Backup {
    /// Waits for the claim; `None` where there will be none.
    pub(crate) async fn claimed(parts: BackupParts) -> Option<Self> {
        let BackupParts {
            mut source,
            claimed,
            ends,
            clock,
            window,
        } = parts;
        let metrics = Metrics::new();
        let behind = Behind::new(&clock, &metrics);
        let writer = behind.watch(&mut source, claimed).await.ok()?;
        Some(Self {
            history: History::new(window),
            put_revision: *source.revisions().borrow(),
            last_put: LastPut::now(&clock),
            source,
            writer,
            ends,
            clock,
            watermarks: Watermarks::default(),
            metrics,
            snapshot: None,
            is_based: false,
            since_snapshot: Since::default(),
        })
    }

    /// Backs up for ever; gives the reason why it may not go on.
    pub(crate) async fn run(mut self) -> PutItemError {
        let mut revisions = self.source.revisions();
        loop {
            let began = self.clock.now();
            if let Err(error) = self.step().await {
                match error {
                    StepError::Put(fenced) => return fenced,
                    StepError::Meta(error) => {
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "the metadata cannot be read for its backup; retrying"
                        );
                        // What was captured may not have been put.
                        self.start_over();
                        sleep(RETRY_PAUSE).await;
                    }
                }
                continue;
            }
            if self.snapshot.is_some() {
                continue;
            }
            if !self.is_based {
                // A reader is in the way of the snapshot.
                sleep(PUT_INTERVAL).await;
                continue;
            }
            let spent = self.clock.now().saturating_sub(began);
            let soon = PUT_INTERVAL.saturating_sub(spent);
            if timeout(soon, self.source.wanted()).await.is_ok() {
                continue;
            }
            let later = WATERMARK_INTERVAL.saturating_sub(PUT_INTERVAL);
            // Whichever comes first, it is time to look.
            tokio::select! {
                _ = revisions.changed() => {}
                () = self.source.wanted() => {}
                () = sleep(later) => {}
            }
        }
    }

    /// Only a new snapshot can go on.
    fn start_over(&mut self) {
        self.source.start_over();
        self.snapshot = None;
        self.is_based = false;
    }

    /// Puts what there is: changes, watermarks, and a part of a snapshot.
    async fn step(&mut self) -> Result<(), StepError> {
        let wants_snapshot = self.snapshot.is_none() && self.since_snapshot.is_snapshot_due();
        let captured = self.source.capture(wants_snapshot).await?;
        let marks = self.watermarks.changed((self.ends)());
        match captured.changes {
            Some(changes) => self.put_changes(changes, marks).await?,
            None if !marks.is_empty() => self.put_watermarks(marks).await?,
            None => {}
        }
        if let Some(start) = captured.snapshot {
            // Until it is whole, changes go on from the former one, unless that was void.
            self.is_based &= start.continues;
            self.snapshot = Some(Progress {
                start,
                first_seq: None,
            });
            self.since_snapshot = Since::default();
        }
        if let Some(part) = self.source.next_part().await? {
            self.put_part(part).await?;
        } else if self.snapshot.take().is_some() {
            // The journal was given back meanwhile, and the next call begins a new one.
            self.is_based = false;
        }
        self.collect_garbage().await;
        Ok(())
    }

    async fn put_changes(
        &mut self,
        changes: ChangedPages,
        watermarks: Vec<Watermark>,
    ) -> Result<(), StepError> {
        debug_assert!(changes.body.len() <= CHAIN_BODY_BYTES_MAX);
        let draft = Draft {
            first_revision: changes.first_revision,
            watermarks,
            body: changes.body,
            ..Draft::empty(ItemKind::Frames, changes.last_revision)
        };
        let (_, size) = self.put(draft, "changes").await?;
        self.since_snapshot.items += 1;
        self.since_snapshot.bytes += size;
        self.reached(changes.last_revision);
        Ok(())
    }

    async fn put_watermarks(&mut self, watermarks: Vec<Watermark>) -> Result<(), StepError> {
        let draft = Draft {
            watermarks,
            ..Draft::empty(ItemKind::Frames, self.put_revision)
        };
        self.put(draft, "watermarks").await?;
        self.since_snapshot.items += 1;
        Ok(())
    }

    async fn put_part(&mut self, part: FilePart) -> Result<(), StepError> {
        let Some(progress) = self.snapshot else {
            return Ok(());
        };
        let SnapshotStart {
            revision,
            file_bytes,
            ..
        } = progress.start;
        let draft = Draft {
            part: SnapshotPart {
                offset: part.offset,
                file_bytes,
            },
            body: part.bytes,
            ..Draft::empty(ItemKind::Snapshot, revision)
        };
        let (seq, size) = self.put(draft, "snapshot").await?;
        self.since_snapshot.snapshot_bytes += size;
        let first_seq = progress.first_seq.unwrap_or(seq);
        if !part.is_last {
            self.snapshot = Some(Progress {
                first_seq: Some(first_seq),
                ..progress
            });
            return Ok(());
        }
        self.snapshot = None;
        self.is_based = true;
        self.writer.snapshot_complete(first_seq);
        self.history.completed(first_seq, self.clock.now());
        // All watermarks again, so that older items are not needed for them.
        self.watermarks.forget();
        // Nothing may rely on a snapshot that no item names: a start that claims the chain right behind
        // its last part would name the snapshot before it.
        self.put_revision = self.put_revision.max(revision);
        let marks = self.watermarks.changed((self.ends)());
        self.put_watermarks(marks).await?;
        self.reached(revision);
        tracing::info!(
            seq = first_seq,
            revision,
            bytes = file_bytes,
            "metadata snapshot is in the bucket"
        );
        Ok(())
    }

    /// Everything up to `revision` is in the chain; that counts once there is a snapshot below it.
    fn reached(&mut self, revision: u64) {
        self.put_revision = self.put_revision.max(revision);
        if self.is_based {
            self.source.backed_up_to(self.put_revision);
        }
    }

    /// Puts one item, however long it takes; gives its place and its bytes.
    async fn put(&mut self, draft: Draft, kind: &'static str) -> Result<(u64, u64), StepError> {
        let next = self.writer.next_item(self.clock.wall_ms());
        let item = if draft.body.len() <= SEAL_INLINE_BYTES {
            next.seal(draft)
        } else {
            tokio::task::spawn_blocking(move || next.seal(draft))
                .await
                .map_err(|error| StoreFailure::Database(Box::new(error)))?
        };
        let (writer, metrics) = (&mut self.writer, &self.metrics);
        let (last_put, clock) = (self.last_put, &self.clock);
        let put = async {
            loop {
                let put = match writer.put(&item).await {
                    Ok(()) if last_put.is_long_ago(clock) => writer.check_last(item.seq()).await,
                    put => put,
                };
                match put {
                    Err(error @ (PutItemError::Store(_) | PutItemError::Check(_))) => {
                        metrics.failed();
                        tracing::warn!(
                            error = &error as &dyn std::error::Error,
                            "the metadata backup cannot be written; retrying"
                        );
                        sleep(RETRY_PAUSE).await;
                    }
                    settled => return settled,
                }
            }
        };
        let behind = Behind::new(clock, metrics);
        let put = behind.watch(&mut self.source, put).await;
        put.map_err(StepError::Put)?;
        self.last_put = LastPut::now(&self.clock);
        self.metrics.put(kind, item.size());
        if self.is_based {
            self.metrics.behind(Duration::ZERO);
        }
        Ok((item.seq(), item.size()))
    }

    /// Deletes what no recovery within the window needs. What fails is deleted later.
    async fn collect_garbage(&mut self) {
        let now = self.clock.now();
        let Some(seq) = self.history.due(now, self.writer.item_count()) else {
            return;
        };
        match self.writer.delete_below(seq).await {
            Ok(items) => {
                self.history.deleted_below(seq);
                self.metrics.deleted(items);
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "old items of the metadata backup were not deleted; trying later"
                );
                self.history.put_off(now);
            }
        }
    }
}

/// How long the bucket has kept the backup waiting.
struct Behind<'a> {
    clock: &'a SharedClock,
    since: Duration,
    metrics: &'a Metrics,
}

impl<'a> Behind<'a> {
    fn new(clock: &'a SharedClock, metrics: &'a Metrics) -> Self {
        let since = clock.now();
        Self {
            clock,
            since,
            metrics,
        }
    }

    /// Awaits something from the bucket, however long it takes. Meanwhile the gauge grows, and the journal
    /// stays within its bound.
    async fn watch<T>(&self, source: &mut BackupSource, awaited: impl Future<Output = T>) -> T {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            if let Ok(arrived) = timeout(LOOK_INTERVAL, &mut awaited).await {
                return arrived;
            }
            let behind = self.clock.now().saturating_sub(self.since);
            self.metrics.behind(behind);
            if let Err(error) = source.bound_journal().await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "the metadata's journal cannot be bounded; retrying");
            }
        }
    }
}

/// Why a step did not end.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Meta(#[from] StoreFailure),
    #[error(transparent)]
    Put(PutItemError),
}
