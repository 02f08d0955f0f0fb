//! The public interface of the cache.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use millrace_budget::Budget;
use millrace_meta::{MetaStore, StoreFailure};
use millrace_model::{Classified, FailureClass, Offset, StreamId};
use millrace_objects::{self as objects, StreamEntry};
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    config::{BlockCacheConfig, Sources},
    locate::Locator,
    metrics::{BlockCacheMetrics, Metrics},
    read::{Gathered, ROOM_WAIT_MAX, is_missing},
    state::State,
};

/// How often a read begins again on fresh metadata, because an object that it was told of is gone:
/// each time one compaction or trim must have come in between.
const FRESH_STARTS_MAX: u32 = 5;

/// The share of the budget that is for object indexes, which are small and spare whole requests.
const INDEX_SHARE: u64 = 16;

/// Blocks that are read beside the budget at one time. Bounds what is beside it to as many blocks.
pub const BYPASSES_MAX: usize = 64;

/// How often idle readers are looked for, and gauges brought up to date.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Reads what has left the log cache. A clone is the same cache.
#[derive(Debug, Clone)]
pub struct BlockCache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) tasks: Supervisor,
    pub(crate) sources: Sources,
    pub(crate) locator: Locator,
    pub(crate) clock: SharedClock,
    /// The memory of the data blocks.
    pub(crate) budget: Budget,
    /// Blocks that are read beside it: bounded by their number, and counted here.
    pub(crate) outside: Budget,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) bypasses: Semaphore,
    /// How long a read waits for room at present.
    pub(crate) room_wait: Mutex<Duration>,
    pub(crate) state: Mutex<State>,
}

/// Why a stretch could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No object holds the offset: it has been trimmed, or is not committed yet.
    #[error("no object holds offset {offset} of stream {stream}")]
    Missing {
        /// The stream.
        stream: StreamId,
        /// The offset.
        offset: Offset,
    },
    /// An object could not be read; its class says whether to try later.
    #[error(transparent)]
    Object(Arc<objects::ReadError>),
    /// The metadata could not be asked: try later.
    #[error(transparent)]
    Meta(#[from] StoreFailure),
    /// Loads that others had started failed again and again: try later.
    #[error("the loads that the read waited for were given up")]
    Unsettled,
}

impl Classified for ReadError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Missing { .. } => FailureClass::Gone,
            Self::Object(error) => error.class(),
            Self::Meta(error) => error.class(),
            Self::Unsettled => FailureClass::Transient,
        }
    }
}

impl BlockCache {
    /// An empty cache over `sources`, where `meta` says what is in them.
    #[must_use]
    pub fn new(
        config: BlockCacheConfig,
        sources: Sources,
        meta: Arc<dyn MetaStore>,
        clock: SharedClock,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let index_bytes = config.bytes / INDEX_SHARE;
        let budget = Budget::new(config.bytes - index_bytes);
        let (storage, counted) = (sources.miss.clone(), Arc::clone(&metrics));
        let locator = Locator::new(config.cluster, meta, storage, index_bytes, counted);
        let state = State::new(
            config.eviction,
            config.prefetch_max_bytes,
            budget.clone(),
            Arc::clone(&metrics),
        );
        let inner = Inner {
            tasks: config.tasks,
            sources,
            locator,
            clock,
            budget,
            outside: Budget::new(0),
            metrics,
            bypasses: Semaphore::new(BYPASSES_MAX),
            room_wait: Mutex::new(ROOM_WAIT_MAX),
            state: Mutex::new(state),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Reads entries of `stream` from the one that holds `start` up to, not including, `end`: at
    /// least one, then more while their payloads sum up to at most `max_bytes`. The first may begin
    /// before `start`, the last may reach behind `end`. Ends early where what is committed ends,
    /// where memory is short, and before what cannot be read, which the next read meets first; is
    /// empty only where compaction has left nothing in the stretch.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(
        &self,
        stream: StreamId,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, ReadError> {
        let mut starts = 0;
        loop {
            let mut got = Gathered::new(start, end, max_bytes);
            let read = match got.is_wanted() {
                true => self.inner.read_once(stream, &mut got).await,
                false => Ok(()),
            };
            match read {
                Ok(()) if is_missing(&got) => {
                    let offset = got.next;
                    return Err(ReadError::Missing { stream, offset });
                }
                Ok(()) => {
                    let payload = |entry: &StreamEntry| entry.payload.len() as u64;
                    let delivered = got.entries.iter().map(payload).sum();
                    self.inner.metrics.delivered_bytes.add(delivered);
                    return Ok(got.entries);
                }
                Err(error) if !error.is_not_found() => return Err(error),
                Err(error) => {
                    starts += 1;
                    if starts >= FRESH_STARTS_MAX {
                        return Err(error);
                    }
                    tracing::debug!(%stream, start, "an object vanished under a read; asking the metadata");
                }
            }
        }
    }

    /// The memory that the cache holds now, in bytes, with what is on its way and what answers
    /// still hold; without what is being read beside the budget
    /// ([`BlockCacheMetrics::bypass_bytes`]).
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.inner.used_bytes()
    }

    /// Forgets where the blocks of a stream are, because its objects were replaced by others that hold less: reads that begin from
    /// now on find those.
    pub fn forget_stream(&self, stream: StreamId) {
        self.inner.state.lock().forget_stream(stream);
        self.inner.dispatch();
    }

    /// Changes the budget, in bytes, at once; what is above a smaller one is evicted, or goes when its
    /// load has ended or the answers that hold it have left.
    pub fn set_bytes(&self, bytes: u64) {
        let index_bytes = bytes / INDEX_SHARE;
        self.inner.locator.set_bytes(index_bytes);
        self.inner.budget.set_capacity(bytes - index_bytes);
        let now = self.inner.clock.now();
        self.inner.state.lock().serve_those_who_wait(now);
    }

    /// Changes how far one reader may prefetch, in bytes; 0 for not at all.
    pub fn set_prefetch_max_bytes(&self, bytes: u64) {
        self.inner.state.lock().prefetch_max_bytes = bytes;
    }

    /// What the cache has done and holds.
    #[must_use]
    pub fn metrics(&self) -> BlockCacheMetrics {
        self.inner.snapshot()
    }
}

impl Inner {
    fn used_bytes(&self) -> u64 {
        self.locator.used_bytes() + self.budget.used()
    }

    fn snapshot(&self) -> BlockCacheMetrics {
        let (readers, windows, loads) = {
            let state = self.state.lock();
            (state.readers(), state.windows(), state.queue.in_flight())
        };
        let metrics = &self.metrics;
        BlockCacheMetrics {
            size_bytes: self.locator.size_bytes() + self.budget.capacity(),
            used_bytes: self.used_bytes(),
            peak_bytes: self.budget.peak() + self.outside.peak(),
            bypass_bytes: self.outside.used(),
            hits: metrics.hits.get(),
            misses: metrics.misses.get(),
            requests: metrics.requests.get(),
            fetched_bytes: metrics.fetched_bytes.get(),
            delivered_bytes: metrics.delivered_bytes.get(),
            evicted_unread_bytes: metrics.evicted_unread_bytes.get(),
            evicted_unread_blocks: metrics.evicted_unread_blocks.get(),
            readers: readers as u64,
            prefetch_window_max_bytes: windows.last().copied().unwrap_or(0),
            prefetch_window_median_bytes: windows.get(windows.len() / 2).copied().unwrap_or(0),
            loads_in_flight: loads as u64,
            waits_for_room: metrics.waits_for_room.get(),
            bypasses: metrics.bypasses.get(),
        }
    }

    /// Sees to it that idle readers are looked for, as long as there are readers.
    pub(crate) fn sweep(self: &Arc<Self>) {
        let is_news = !std::mem::replace(&mut self.state.lock().is_swept, true);
        if is_news {
            let sweeping = keep_sweeping(Arc::downgrade(self));
            self.tasks.spawn(Task::BlockCacheSweep, sweeping);
        }
    }
}

async fn keep_sweeping(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(inner) = inner.upgrade() else {
            return;
        };
        let now = inner.clock.now();
        let is_idle = {
            let mut state = inner.state.lock();
            state.expire(now);
            let is_idle = state.is_idle();
            state.is_swept = !is_idle;
            is_idle
        };
        inner.metrics.show(&inner.snapshot());
        if is_idle {
            return;
        }
    }
}
