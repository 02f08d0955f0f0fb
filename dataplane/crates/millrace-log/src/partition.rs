//! One partition of a topic.
//!
//! - this file: what it is, and what others ask of it
//! - `append`: judge, assign offsets, stamp, write
//! - `read`: whole batches by offset, records by timestamp
//! - `persist`: open from the newest checkpoint, write the next one

mod append;
mod persist;
mod read;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use metrics::Counter;
use millrace_model::{Offset, TopicId, TopicPartition};
use millrace_stream::Stream;
use millrace_time::SharedClock;
use parking_lot::Mutex;

pub use self::{
    append::{AppendOrigin, AppendTicket, Appended},
    read::{ReadResult, TimestampOffset},
};
use crate::{
    config::TopicConfig, error::TrimError, producers::Producers, replay_debt::ReplayDebt,
    time_index::TimeIndex,
};

/// Called with the new high watermark after it has moved. Must be quick and must not block.
pub type AdvanceListener = Arc<dyn Fn(Offset) + Send + Sync>;

/// What a partition is opened on.
pub(crate) struct PartitionParts {
    pub(crate) id: TopicPartition,
    pub(crate) topic_id: TopicId,
    /// The stream of batches.
    pub(crate) data: Stream,
    /// The stream of checkpoints.
    pub(crate) meta: Stream,
    pub(crate) config: Arc<TopicConfig>,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) clock: SharedClock,
    pub(crate) debt: Arc<ReplayDebt>,
}

/// One partition of a topic.
pub struct PartitionLog {
    id: TopicPartition,
    topic_id: TopicId,
    data: Stream,
    meta: Stream,
    config: Arc<TopicConfig>,
    producer_expiration_ms: i64,
    clock: SharedClock,
    debt: Arc<ReplayDebt>,
    state: Mutex<State>,
    /// Held while a checkpoint is written: they are written one after the other.
    checkpointing: tokio::sync::Mutex<persist::Written>,
    closed: AtomicBool,
    bytes_in: Counter,
    records_in: Counter,
}

/// What is known about the data up to its next offset. Under the lock that orders appends.
#[derive(Debug, Default)]
struct State {
    producers: Producers,
    time_index: TimeIndex,
    /// Bytes of batches since the last checkpoint.
    dirty_bytes: u64,
    /// When the first of them came.
    dirty_since: Option<Duration>,
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

    /// The next offset to be assigned.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.data.next_offset()
    }

    /// Counts the openings of this partition, so it grows with every restart of its broker.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        i32::try_from(self.data.epoch().get()).unwrap_or(i32::MAX)
    }

    /// Deletes the records below `new_start`, which is at most the high watermark. Durable when it
    /// returns the log start offset. The batch that contains `new_start` stays whole.
    ///
    /// # Errors
    /// See [`TrimError`].
    pub async fn trim(&self, new_start: Offset) -> Result<Offset, TrimError> {
        if self.is_closed() {
            return Err(TrimError::Closed);
        }
        let start = self
            .data
            .trim(new_start)
            .await
            .map_err(|error| match error {
                millrace_stream::TrimError::AboveConfirmed { offset, confirmed } => {
                    TrimError::OutOfRange {
                        offset,
                        high_watermark: confirmed,
                    }
                }
                millrace_stream::TrimError::Meta(reason) => TrimError::Storage(reason),
            })?;
        self.state.lock().time_index.trim(start);
        Ok(start)
    }

    /// Calls `listener` with the high watermark whenever it has moved.
    pub fn on_advance(&self, listener: AdvanceListener) {
        self.data.on_confirm(listener);
    }

    /// Refuses all work from now on.
    pub(crate) fn shut(&self) {
        self.closed.store(true, Ordering::Release);
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

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
