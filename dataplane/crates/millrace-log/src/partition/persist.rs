//! Checkpoints: opening from the newest, writing the next.
//!
//! A checkpoint covers the data up to some offset, and it is in another stream than the data: after
//! a crash one may be there without the other. So it is written only once everything it covers is
//! durable. Otherwise a producer's last batch could be lost while the checkpoint remembers its
//! sequence, and the producer's retry would be taken for a duplicate and acknowledged for nothing.
//!
//! The stream of checkpoints also has the blocks of older aborted transactions (`aborted`). It is trimmed up to the newest checkpoint, or
//! up to the first block that this one refers to.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use millrace_model::{Cause, Classified, FailureClass, Offset};
use millrace_record::{TransactionEnd, header_of};
use millrace_stream::{Entry, FetchError, Stream};
use parking_lot::{Mutex, RwLock};
use tokio::time::timeout;

use super::{
    PartitionLog, PartitionParts, State, UsageCounters, aborted::IndexError, append::Extent,
};
use crate::{
    aborted_index::is_block,
    checkpoint::{self, Checkpoint, Kept},
    error::{AppendError, CheckpointFault, OpenError, ReadError},
    transactions::TRANSACTIONS_MAX,
};

/// A checkpoint is due this long after the first batch that is not covered.
const CHECKPOINT_AGE: Duration = Duration::from_secs(60);

/// Old checkpoints are trimmed when the stream has this many entries to spare, for each trim is a metadata transaction.
const CHECKPOINTS_KEPT_MAX: u64 = 16;

/// Bytes per read of a replay: large enough that the round trips to the bucket do not dominate.
const REPLAY_BYTES: usize = 4 * 1024 * 1024;

/// The first pause before an opening asks the bucket again, and the longest.
const OPEN_PAUSE_MIN: Duration = Duration::from_millis(100);
const OPEN_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a start waits for one read from the bucket: longer than a slow GET of [`REPLAY_BYTES`] takes. A
/// later attempt, which nobody waits for, waits longer.
const OPEN_WAIT: Duration = Duration::from_secs(15);
const REOPEN_WAIT: Duration = Duration::from_secs(60);

/// How long partitions that open wait for the bucket. The first that has waited in vain has done so for
/// all: the others, thousands perhaps, then open from what the broker itself has, or are offline.
#[derive(Debug)]
pub(crate) struct Patience {
    wait: Duration,
    is_out: AtomicBool,
}

impl Patience {
    fn new(wait: Duration) -> Self {
        let is_out = AtomicBool::new(false);
        Self { wait, is_out }
    }

    /// That of a start.
    pub(crate) fn of_start() -> Self {
        Self::new(OPEN_WAIT)
    }

    /// That of a later attempt, which nobody waits for.
    pub(crate) fn of_retry() -> Self {
        Self::new(REOPEN_WAIT)
    }
}

/// Which checkpoints there are.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The data's end in the newest one.
    covers: Option<Offset>,
}

/// A checkpoint that is to be written.
struct Snapshot {
    /// Up to where it covers the data.
    end: Offset,
    payload: Bytes,
    /// Bytes of batches that are not owed any more with it.
    bytes: u64,
    /// Where the first block is that it refers to.
    needs_from: Option<Offset>,
}

/// Why a checkpoint was not written. The one before it stands.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error("older aborted transactions: {0}")]
    Index(#[from] IndexError),
    #[error(
        "{0} aborted transactions are in memory, more than a checkpoint may have; a restart replays more"
    )]
    TooManyAborted(usize),
    #[error("the old ones were not trimmed: {0}")]
    Trim(#[from] millrace_stream::TrimError),
}

impl PartitionLog {
    /// Opens a partition from its newest checkpoint and the batches behind it. Where these are corrupt,
    /// missing or not understood, or the bucket does not answer, the partition is offline: it is there,
    /// and says why it is not served.
    ///
    /// # Errors
    /// See [`OpenError`]; only what concerns the whole broker.
    pub(crate) async fn open(
        parts: PartitionParts,
        patience: &Patience,
    ) -> Result<Arc<Self>, OpenError> {
        let log = Arc::new(Self::unopened(parts));
        match log.restore(patience).await {
            Ok(()) => Ok(log),
            Err(error) if error.class() == FailureClass::Fenced => Err(error),
            Err(error) => {
                log.take_offline(Cause::new(error));
                Ok(log)
            }
        }
    }

    /// Whether the partition did not open, for a reason that may pass.
    pub(crate) fn may_reopen(&self) -> bool {
        let unopened = self.unopened_because.read();
        let may_pass = |cause: &Cause| cause.class().is_transient();
        !self.is_closed() && unopened.as_ref().is_some_and(may_pass)
    }

    /// Tries again to open a partition that is offline because the bucket did not answer.
    pub(crate) async fn reopen(&self, patience: &Patience) {
        match self.restore(patience).await {
            Ok(()) => {
                *self.unopened_because.write() = None;
                tracing::info!(partition = %self.id, "the partition is served");
            }
            Err(error) if error.class().is_transient() => {
                tracing::debug!(partition = %self.id, %error, "the partition stays offline");
                self.forget_state();
            }
            Err(error) => self.take_offline(Cause::new(error)),
        }
    }

    fn unopened(parts: PartitionParts) -> Self {
        let PartitionParts {
            id,
            topic_id,
            data,
            meta,
            config,
            leader_epoch,
            producer_expiration_ms,
            producer_memory,
            aborted_bounds,
            clock,
            debt,
            deletions,
            tasks,
        } = parts;
        let opening = || i32::try_from(data.epoch().get()).unwrap_or(i32::MAX);
        let topic = id.topic.to_string();
        Self {
            usage: UsageCounters::default(),
            bytes_in: metrics::counter!("millrace_topic_bytes_in_total", "topic" => topic.clone()),
            records_in: metrics::counter!("millrace_topic_records_in_total", "topic" => topic),
            leader_epoch: leader_epoch.unwrap_or_else(opening),
            id,
            topic_id,
            data,
            meta,
            config: RwLock::new(config),
            producer_expiration_ms,
            producer_charge: Mutex::new(producer_memory.take_anyway(0)),
            producer_memory,
            aborted_bounds,
            clock,
            debt,
            deletions,
            tasks,
            state: Mutex::default(),
            is_unstable: AtomicBool::default(),
            checkpointing: tokio::sync::Mutex::default(),
            closed: OnceLock::new(),
            unopened_because: RwLock::default(),
        }
    }

    /// Finds out what is known about the data.
    async fn restore(&self, patience: &Patience) -> Result<(), OpenError> {
        let checkpoint = self.newest_checkpoint(patience).await;
        let checkpoint = checkpoint.map_err(|source| OpenError::Checkpoint {
            partition: self.id.clone(),
            source,
        })?;
        let from = match checkpoint {
            None => self.start_offset(),
            Some(Checkpoint {
                end,
                producers,
                transactions,
                time_index,
                segments,
                leader_epochs,
                first_dirty,
            }) => {
                self.checkpointing.lock().await.covers = Some(end);
                *self.state.lock() = State {
                    producers,
                    transactions,
                    time_index,
                    segments,
                    leader_epochs,
                    first_dirty,
                    ..State::default()
                };
                end.max(self.start_offset())
            }
        };
        // The checkpoint may be older than the last trim.
        self.trim_state(self.start_offset());
        let replayed = self.replay(from, patience).await;
        replayed.map_err(|source| OpenError::Replay {
            partition: self.id.clone(),
            source,
        })?;
        self.state_is_restored();
        Ok(())
    }

    fn take_offline(&self, cause: Cause) {
        tracing::error!(
            partition = %self.id,
            class = %cause.class(),
            %cause,
            "the partition is offline; all others are served"
        );
        if cause.class() == FailureClass::Corrupt {
            metrics::counter!("millrace_corrupt_reads_total", "kind" => "partition").increment(1);
        }
        self.forget_state();
        *self.unopened_because.write() = Some(cause);
    }

    /// Forgets what an opening found out before it failed.
    fn forget_state(&self) {
        let state = std::mem::take(&mut *self.state.lock());
        self.debt.settle(state.dirty_bytes);
    }

    /// The newest checkpoint of data that is there. One of more data is passed over: that data was lost, and
    /// somebody has accepted it. One before it may refer to blocks that were replaced since, and is passed over then.
    async fn newest_checkpoint(
        &self,
        patience: &Patience,
    ) -> Result<Option<Checkpoint>, CheckpointFault> {
        let (start, data_end) = (self.meta.start_offset(), self.data.next_offset());
        let mut end = self.meta.confirm_offset();
        while let Some(newest) = end.checked_sub(1).filter(|&newest| newest >= start) {
            // One entry: it comes whatever its size.
            let found = self.fetch_patiently(patience, &self.meta, newest, 1);
            let found = found.await?;
            let Some(entry) = found.into_iter().next() else {
                break;
            };
            end = entry.base_offset;
            if is_block(&entry.payload) {
                continue;
            }
            let checkpoint = checkpoint::decode(entry.payload)?;
            let covered = checkpoint.end;
            if covered > data_end {
                tracing::warn!(partition = %self.id, covered, data_end, "a checkpoint covers lost data");
                continue;
            }
            let index = checkpoint.transactions.index();
            let needs_from = index.needs_from(self.start_offset());
            if needs_from.is_none_or(|needed| needed >= start) {
                return Ok(Some(checkpoint));
            }
            tracing::warn!(partition = %self.id, covered, "a checkpoint refers to what was trimmed");
        }
        Ok(None)
    }

    /// Reads what opening cannot do without, again and again as long as the patience lasts. Opening
    /// without its state would accept duplicates. Nothing but what may pass is retried.
    async fn fetch_patiently(
        &self,
        patience: &Patience,
        stream: &Stream,
        from: Offset,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, FetchError> {
        let silent = || {
            let silent = "the bucket does not answer";
            FetchError::Storage(Cause::of(FailureClass::Transient, silent))
        };
        // What the broker itself has takes as long as the device does, and needs no patience.
        if let Some(found) = stream.fetch_local(from, Offset::MAX, max_bytes).await? {
            return Ok(found);
        }
        if patience.is_out.load(Ordering::Acquire) {
            return Err(silent());
        }
        let mut failed = None;
        let fetching = async {
            let mut pause = OPEN_PAUSE_MIN;
            loop {
                match stream.fetch(from, Offset::MAX, max_bytes).await {
                    Err(error) if error.class().is_transient() => {
                        tracing::warn!(partition = %self.id, %error, "opening waits for the bucket");
                        failed = Some(error);
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(OPEN_PAUSE_MAX);
                    }
                    settled => return settled,
                }
            }
        };
        match timeout(patience.wait, fetching).await {
            Ok(settled) => settled,
            Err(_) => {
                patience.is_out.store(true, Ordering::Release);
                Err(failed.unwrap_or_else(silent))
            }
        }
    }

    /// Takes note of the batches from `from` on, as if they were appended now.
    async fn replay(&self, mut from: Offset, patience: &Patience) -> Result<(), ReadError> {
        let (end, now_ms) = (self.data.confirm_offset(), self.clock.wall_ms());
        while from < end {
            let found = self.fetch_patiently(patience, &self.data, from, REPLAY_BYTES);
            let found = found.await.map_err(|error| self.read_error(from, error))?;
            if found.is_empty() {
                break;
            }
            from = self.replay_batches(&found, now_ms)?;
            self.index_aborted_if_due().await;
        }
        Ok(())
    }

    /// Takes note of batches that follow each other; gives where they end.
    fn replay_batches(&self, found: &[Entry], now_ms: i64) -> Result<Offset, ReadError> {
        let mut state = self.state.lock();
        let mut end = 0;
        for entry in found {
            let corrupt = |error| ReadError::Corrupt {
                offset: entry.base_offset,
                cause: Cause::of(FailureClass::Corrupt, error),
            };
            let header = header_of(&entry.payload).map_err(corrupt)?;
            let marker = TransactionEnd::of(&entry.payload).map_err(corrupt)?;
            let bytes = entry.payload.len() as u64;
            let extent = Extent {
                base_offset: entry.base_offset,
                end_offset: entry.end_offset(),
                bytes,
            };
            state.note((&header, marker), extent, now_ms);
            self.owe(&mut state, bytes);
            end = entry.end_offset();
        }
        Ok(end)
    }

    /// Whether so much has come since the last checkpoint that the next one should be written:
    /// `bytes_max` or more, or something long ago.
    pub(crate) fn checkpoint_is_due(&self, bytes_max: u64) -> bool {
        let state = self.state.lock();
        let age = state
            .dirty_since
            .map(|since| self.clock.now().saturating_sub(since));
        state.dirty_bytes >= bytes_max || age.is_some_and(|age| age >= CHECKPOINT_AGE)
    }

    /// Writes a checkpoint of everything that has been appended so far, if anything has since the
    /// last one. Durable when it returns.
    ///
    /// # Errors
    /// See [`CheckpointError`].
    pub(crate) async fn checkpoint(&self) -> Result<(), CheckpointError> {
        if self.offline().is_some() {
            // Nothing is known that could be written.
            return Ok(());
        }
        let mut written = self.checkpointing.lock().await;
        self.index_aborted(&mut written).await?;
        let Some(Snapshot {
            end,
            payload,
            bytes,
            needs_from,
        }) = self.snapshot(written.covers)?
        else {
            return Ok(());
        };
        if self.halted().is_some() {
            // A batch that its stream has refused since may be in the snapshot: were it written, the
            // batch would be a duplicate once the stream goes on.
            return Ok(());
        }
        let base_offset = match self.append_checkpoint(end, payload).await {
            Ok(base_offset) => base_offset,
            Err(error) => {
                self.owe_again(bytes);
                self.state.lock().cleaner_changed = true;
                return Err(error.into());
            }
        };
        written.covers = Some(end);
        let needs_from = needs_from.map_or(base_offset, |needed| needed.min(base_offset));
        let spare = needs_from.saturating_sub(self.meta.start_offset());
        if spare >= CHECKPOINTS_KEPT_MAX {
            self.meta.trim(needs_from).await?;
        }
        if !self.is_closed() {
            self.tidy_blocks(&mut written).await;
        }
        Ok(())
    }

    /// Appends a checkpoint once the data up to `end` is durable; returns its offset when it is
    /// durable itself.
    async fn append_checkpoint(&self, end: Offset, payload: Bytes) -> Result<Offset, AppendError> {
        self.data.when_confirmed(end).await?;
        let (base_offset, _) = self.append_meta(payload).await?;
        Ok(base_offset)
    }

    /// What is known now; `None` where the checkpoint at `covered` says it all.
    fn snapshot(&self, covered: Option<Offset>) -> Result<Option<Snapshot>, CheckpointError> {
        let mut state = self.state.lock();
        let end = self.data.next_offset();
        if covered.unwrap_or(0) == end && !state.cleaner_changed {
            return Ok(None);
        }
        let aborted = state.transactions.aborted().len();
        if aborted > TRANSACTIONS_MAX {
            // Could not be read back. Blocks cannot be written now.
            return Err(CheckpointError::TooManyAborted(aborted));
        }
        let since_ms = self
            .clock
            .wall_ms()
            .saturating_sub(self.producer_expiration_ms);
        state.producers.expire(since_ms);
        self.charge_producers(&state);
        let bytes = std::mem::take(&mut state.dirty_bytes);
        self.debt.settle(bytes);
        state.dirty_since = None;
        state.cleaner_changed = false;
        let State {
            producers,
            transactions,
            time_index,
            segments,
            leader_epochs,
            first_dirty,
            ..
        } = &*state;
        let kept = Kept {
            producers,
            transactions,
            time_index,
            segments,
            leader_epochs,
            first_dirty: *first_dirty,
        };
        Ok(Some(Snapshot {
            end,
            payload: checkpoint::encode(end, since_ms, kept),
            bytes,
            needs_from: transactions.index().needs_from(self.start_offset()),
        }))
    }

    /// Refuses further appends and writes the last checkpoint.
    ///
    /// # Errors
    /// See [`CheckpointError`].
    pub(crate) async fn close(&self) -> Result<(), CheckpointError> {
        {
            let _no_append_under_way = self.state.lock();
            self.refuse_work();
        }
        // Without the lock: whoever is woken may ask for the last stable offset.
        self.data.wake_listeners();
        self.checkpoint().await
    }
}
