//! One partition of a topic.
//!
//! - this file: what it is, and what others ask of it
//! - `append`: check, assign offsets, stamp, write
//! - `transact`: markers, verification, the last stable offset
//! - `aborted`: which transactions were aborted, however long ago
//! - `read`: whole batches by offset, records by timestamp
//! - `retain`: delete what is old or too much
//! - `clean`: keep the last record of every key
//! - `usage`: what clients write to it and read from it
//! - `persist`: open from the newest checkpoint, write the next one

mod aborted;
mod append;
mod clean;
mod persist;
mod read;
mod retain;
mod transact;
mod usage;

use std::{
    fmt,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use metrics::Counter;
use millrace_budget::{Budget, Charge};
use millrace_model::{Cause, Offset, TopicId, TopicPartition};
use millrace_stream::Stream;
use millrace_tasks::Supervisor;
use millrace_time::SharedClock;
use parking_lot::{Mutex, RwLock};

use self::usage::UsageCounters;
pub use self::{
    append::{AppendOrigin, AppendTicket, Appended},
    read::{Isolation, ReadResult, TimestampOffset},
    usage::Usage,
};
pub(crate) use self::{
    clean::{CleanError, Cleaned, CleanerTools, Dirty},
    persist::Patience,
    retain::DeletionMetrics,
};
use crate::{
    aborted_index::AbortedBounds,
    config::TopicConfig,
    leader_epochs::{EpochEnd, LeaderEpochs},
    producers::Producers,
    replay_debt::ReplayDebt,
    segments::Segments,
    time_index::TimeIndex,
    transactions::Transactions,
};

/// Called with the new high watermark after it has moved. Must be quick and must not block.
pub(crate) type AdvanceListener = Arc<dyn Fn(Offset) + Send + Sync>;

/// What a partition is opened on.
pub(crate) struct PartitionParts {
    pub(crate) id: TopicPartition,
    pub(crate) topic_id: TopicId,
    /// The stream of batches.
    pub(crate) data: Stream,
    /// The stream of checkpoints, and of blocks of aborted transactions.
    pub(crate) meta: Stream,
    pub(crate) config: Arc<TopicConfig>,
    /// `None`: each opening is an epoch of its own.
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) producer_memory: Budget,
    pub(crate) aborted_bounds: AbortedBounds,
    pub(crate) clock: SharedClock,
    pub(crate) debt: Arc<ReplayDebt>,
    pub(crate) deletions: Arc<DeletionMetrics>,
    pub(crate) tasks: Supervisor,
}

/// One partition of a topic.
pub struct PartitionLog {
    id: TopicPartition,
    topic_id: TopicId,
    data: Stream,
    meta: Stream,
    config: RwLock<Arc<TopicConfig>>,
    leader_epoch: i32,
    producer_expiration_ms: i64,
    /// What the producers of all partitions may cost.
    producer_memory: Budget,
    aborted_bounds: AbortedBounds,
    clock: SharedClock,
    debt: Arc<ReplayDebt>,
    deletions: Arc<DeletionMetrics>,
    tasks: Supervisor,
    state: Mutex<State>,
    /// False where no transaction is open and all markers are durable. Is set before a transaction's first batch is appended,
    /// so that who reads the high watermark first and this then needs no lock to know that all below is stable.
    is_unstable: AtomicBool,
    /// What the producers cost here. Locked under `state`.
    producer_charge: Mutex<Charge>,
    /// Held while something is appended to the meta stream: a checkpoint, or a block of aborted transactions.
    checkpointing: tokio::sync::Mutex<persist::Written>,
    /// Since when all work is refused.
    closed: OnceLock<Duration>,
    /// Why it did not open, where it did not: then nothing is read from it or written to it.
    unopened_because: RwLock<Option<Cause>>,
    usage: UsageCounters,
    bytes_in: Counter,
    records_in: Counter,
}

/// What is known about the data up to its next offset. Under the lock that orders appends.
#[derive(Debug, Default)]
struct State {
    producers: Producers,
    transactions: Transactions,
    time_index: TimeIndex,
    segments: Segments,
    leader_epochs: LeaderEpochs,
    /// Bytes of batches since the last checkpoint.
    dirty_bytes: u64,
    /// When the first of them came.
    dirty_since: Option<Duration>,
    /// Everything below has been cleaned by log compaction.
    first_dirty: Offset,
    /// Log compaction, or the index of aborted transactions, has changed something since the last checkpoint.
    cleaner_changed: bool,
}

impl PartitionLog {
    /// Which partition this is.
    #[must_use]
    pub fn id(&self) -> &TopicPartition {
        &self.id
    }

    /// The id of its topic.
    #[must_use]
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// Why the partition is offline; `None` where it is served. It did not open, or one of its streams is
    /// halted.
    #[must_use]
    pub fn offline(&self) -> Option<Cause> {
        let unopened = self.unopened_because.read().clone();
        unopened.or_else(|| self.halted().cloned())
    }

    /// What clients have written to it and read from it since it was opened.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.usage.get()
    }

    /// A client was sent so many bytes of it.
    pub fn note_read(&self, bytes: u64) {
        self.usage.add(bytes);
    }

    /// Why one of its streams is halted, if so.
    pub(crate) fn halted(&self) -> Option<&Cause> {
        self.data.halted().or_else(|| self.meta.halted())
    }

    /// The first offset that can be read.
    #[must_use]
    pub fn start_offset(&self) -> Offset {
        self.data.start_offset()
    }

    /// One past the last durable offset; records from here on are not shown to anybody.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.data.confirm_offset()
    }

    /// One past the last offset that is in objects, which every broker can read.
    #[must_use]
    pub fn committed_offset(&self) -> Offset {
        self.data.committed_offset()
    }

    /// The next offset to be assigned.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.data.next_offset()
    }

    /// Grows with every change of the leader; where the broker is alone, with every restart.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Where `epoch` ends (KIP-320): one past the last offset that was appended under it, or under
    /// the last epoch before it that appended anything. `None` for an epoch that has not started.
    #[must_use]
    pub fn epoch_end(&self, epoch: i32) -> Option<EpochEnd> {
        let (current, end) = (self.leader_epoch(), self.end_offset());
        self.state.lock().leader_epochs.end_of(epoch, current, end)
    }

    /// Bytes of the batches from the log start to the log's end, those that are not durable yet
    /// included. Where the log start is not where retention puts it, but inside of a segment, this is
    /// off by less than one step (see [`PartitionLog::bytes_between`]).
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.state.lock().segments.size_bytes()
    }

    /// Bytes of the batches between two offsets, as far as the log has them. An estimate: each of the
    /// two is off by less than one step, unless it is the log's end. A step is the largest of
    /// 256 KiB, 1/128 of the most that the log has held, and one batch; inside of it, bytes are
    /// spread evenly over offsets. Takes no longer for more records.
    #[must_use]
    pub fn bytes_between(&self, from: Offset, to: Offset) -> u64 {
        self.state.lock().segments.bytes_between(from, to)
    }

    /// What its topic lives by, now.
    pub(crate) fn config(&self) -> Arc<TopicConfig> {
        Arc::clone(&self.config.read())
    }

    /// What its topic lives by from now on.
    pub(crate) fn set_config(&self, config: Arc<TopicConfig>) {
        *self.config.write() = config;
    }

    /// Calls `listener` with the high watermark whenever it has moved.
    pub fn on_advance(&self, listener: AdvanceListener) {
        self.data.on_confirm(listener);
    }

    /// Refuses all work from now on. Whoever waits for new records looks again, and learns it.
    pub(crate) fn shut(&self) {
        self.refuse_work();
        self.data.wake_listeners();
    }

    fn refuse_work(&self) {
        self.closed.get_or_init(|| self.clock.now());
    }

    /// Whether all work is refused.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    /// Since when all work is refused, if it is.
    #[must_use]
    pub fn closed_since(&self) -> Option<Duration> {
        self.closed.get().copied()
    }

    /// Takes note of a batch that no checkpoint covers.
    fn owe(&self, state: &mut State, bytes: u64) {
        state.dirty_bytes += bytes;
        state.dirty_since.get_or_insert_with(|| self.clock.now());
        self.debt.owe(state.dirty_bytes, bytes);
    }

    /// Takes note of batches whose checkpoint was not written after all: a restart would replay them.
    fn owe_again(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.dirty_bytes += bytes;
        state.dirty_since.get_or_insert_with(|| self.clock.now());
        self.debt.owe_again(bytes);
    }
}

impl Drop for PartitionLog {
    fn drop(&mut self) {
        self.debt.settle(self.state.get_mut().dirty_bytes);
    }
}

impl fmt::Debug for PartitionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionLog")
            .field("id", &self.id)
            .field("data", &self.data.id())
            .field("start", &self.start_offset())
            .field("high_watermark", &self.high_watermark())
            .finish_non_exhaustive()
    }
}
