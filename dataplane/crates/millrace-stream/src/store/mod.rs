//! The stream store. [`StreamStore`] is its one facade; each component keeps its own state.
//!
//! | component | what it does |
//! |---|---|
//! | `open` | builds the store from what a crash left, and starts its tasks |
//! | `append` | room for an entry, its place in the log and in the open block, the size of blocks |
//! | `upload` | sealed block → objects → commit |
//! | `evict` | frees memory: committed blocks leave it, payloads of others are offloaded to the log |
//! | `read_back` | reads offloaded payloads from the log, for their upload or for a reader |
//! | `halt` | a stream with a damaged record in the log stops, and no other |
//! | `compact` | merges small objects into large ones |
//! | `rewrite` | drops and replaces entries that are in objects, for log compaction |
//! | `trim` | moves the start of a stream, and deletes objects that nothing refers to |

mod append;
mod compact;
mod evict;
mod halt;
mod open;
mod read_back;
mod rewrite;
mod trim;
mod upload;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use millrace_blockcache::BlockCache;
use millrace_budget::Budget;
use millrace_meta::MetaStore;
use millrace_model::{Cause, FailureClass, NodeEpoch, NodeId, Offset, StreamId};
use millrace_objects::ObjectStorage;
use millrace_tasks::Supervisor;
use millrace_time::{SharedClock, SharedRandom};
use millrace_wal::Wal;
use parking_lot::RwLock;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use self::{
    append::Appends,
    compact::{CompactionReport, Compactor},
    evict::Evictor,
    trim::LogTrims,
    upload::Uploads,
};
pub use self::{
    append::Permit,
    compact::{COMPACTION_BYTES_MAX, CompactError},
    rewrite::{EntryFilter, Outcome, RewriteError, RewriteGroup, Rewriter, Rewritten},
};
pub(crate) use self::{append::Placement, compact::Kind, read_back::ReadBackError};
use crate::{
    cache::CachedRun,
    committed::CommittedStream,
    config::StreamConfig,
    error::{AppendError, FlushError, OpenError},
    failure::Failure,
    metrics::StoreMetrics,
    recovery::{RecoveredLog, RecoveryReport},
    share::{LiveShare, Share},
    state::StreamState,
    stream::Stream,
};

/// What the store is built on.
pub struct StreamParts {
    /// The log.
    pub wal: Wal,
    /// What its recovery found.
    pub recovered: RecoveredLog,
    /// The bucket.
    pub storage: ObjectStorage,
    /// The same bucket for what nobody waits for: compaction and deletion.
    pub background: ObjectStorage,
    /// What is in the bucket.
    pub meta: Arc<dyn MetaStore>,
    /// Reads from the bucket.
    pub block_cache: BlockCache,
    /// Time.
    pub clock: SharedClock,
    /// Randomness, for pauses between retries.
    pub random: SharedRandom,
    /// The name under which the cluster's objects are kept.
    pub cluster_id: String,
    /// This broker, and the epoch of its present start.
    pub node: (NodeId, NodeEpoch),
    /// Supervises the store's tasks.
    pub tasks: Supervisor,
    /// Settings.
    pub config: StreamConfig,
}

/// All streams of a broker, over one log and one bucket. Cheap to clone. Dropping the last clone
/// without [`StreamStore::close`] stops everything at once, as a crash would.
#[derive(Debug, Clone)]
pub struct StreamStore {
    inner: Arc<StoreInner>,
    _tasks: Arc<Tasks>,
}

/// The store's background tasks; they end when this is dropped.
#[derive(Debug)]
struct Tasks {
    _handles: Vec<AbortOnDropHandle<()>>,
}

/// What the components share, and the components.
pub(crate) struct StoreInner {
    pub(crate) wal: Wal,
    pub(crate) meta: Arc<dyn MetaStore>,
    pub(crate) block_cache: BlockCache,
    /// The bucket for what nobody waits for: compaction and deletion.
    background: ObjectStorage,
    clock: SharedClock,
    random: SharedRandom,
    cluster_id: String,
    node_epoch: NodeEpoch,
    config: StreamConfig,
    pub(crate) tasks: Supervisor,
    failure: Arc<Failure>,
    metrics: StoreMetrics,
    streams: RwLock<HashMap<StreamId, Arc<StreamState>>>,
    /// The memory for entries.
    budget: Budget,
    closing: AtomicBool,
    /// The part of the cluster's objects that are compacted and deleted here.
    share: LiveShare,
    recovery: RecoveryReport,
    append: Appends,
    upload: Uploads,
    evict: Evictor,
    compact: Compactor,
    log_trims: LogTrims,
}

/// The store at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamMetrics {
    /// Streams that are open.
    pub streams: u64,
    /// Memory charged for entries, bytes.
    pub cache_used_bytes: u64,
    /// Its bound.
    pub cache_capacity_bytes: u64,
    /// Payload that is not in objects yet, bytes.
    pub pending_bytes: u64,
    /// What the last start found in the log.
    pub recovery: RecoveryReport,
}

/// How a store ended. Whatever was acknowledged is safe in any case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// Everything is in objects.
    Uploaded,
    /// The bucket was too slow: the log, closed in peace, keeps the rest for the next start.
    InLog {
        /// Payload that is not in objects, bytes.
        pending_bytes: u64,
    },
    /// Everything is in objects but what halted streams have: the log, closed in peace, keeps that.
    Halted {
        /// The halted streams, ascending.
        streams: Vec<StreamId>,
    },
    /// The device failed or hangs, or another broker took over; the reason.
    Failed(Cause),
}

impl StreamStore {
    /// Opens the store: sorts out what the log has, opens the streams it belongs to, and begins to
    /// upload it. Appends may begin at once. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(parts: StreamParts) -> Result<Self, OpenError> {
        let (inner, handles) = open::open(parts).await?;
        Ok(Self {
            inner,
            _tasks: Arc::new(Tasks { _handles: handles }),
        })
    }

    /// Takes ownership of a stream; the second call gives the same stream.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open_stream(&self, id: StreamId) -> Result<Stream, OpenError> {
        let mut opened = self.open_streams(&[id]).await?;
        opened.pop().ok_or(OpenError::UnknownStream(id))
    }

    /// The same for many at the price of one metadata transaction.
    ///
    /// # Errors
    /// See [`OpenError`]; one unknown stream fails the call.
    pub async fn open_streams(&self, ids: &[StreamId]) -> Result<Vec<Stream>, OpenError> {
        self.inner.open_streams(ids).await?;
        let streams = self.inner.streams.read();
        let handle = |id: &StreamId| {
            let state = streams.get(id).ok_or(OpenError::UnknownStream(*id))?;
            Ok(Stream::new(Arc::clone(state), Arc::clone(&self.inner)))
        };
        ids.iter().map(handle).collect()
    }

    /// Takes ownership of as many of the streams as are free, at the price of one metadata transaction. The others belong to
    /// another broker, or were deleted. [`StreamStore::opened`] tells which.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open_free(&self, ids: &[StreamId]) -> Result<(), OpenError> {
        self.inner.open_streams(ids).await
    }

    /// A stream that is open.
    #[must_use]
    pub fn opened(&self, id: StreamId) -> Option<Stream> {
        let state = self.inner.streams.read().get(&id).cloned()?;
        Some(Stream::new(state, Arc::clone(&self.inner)))
    }

    /// All streams that are open.
    #[must_use]
    pub fn open_ids(&self) -> Vec<StreamId> {
        self.inner.streams.read().keys().copied().collect()
    }

    /// A stream as far as it is in objects, whoever owns it.
    #[must_use]
    pub fn committed(&self, id: StreamId) -> CommittedStream {
        CommittedStream::new(id, Arc::clone(&self.inner))
    }

    /// Sets which objects of the cluster are compacted and deleted by this store.
    pub fn set_share(&self, share: Share) {
        self.inner.share.set(share);
    }

    /// Forgets streams that were deleted in the metadata, or given up once all of them was in objects: they take no more
    /// appends, and what they have in memory or in the log is not uploaded.
    pub fn discard_streams(&self, ids: &[StreamId]) {
        self.inner.discard_streams(ids);
    }

    /// Uploads everything that has been appended so far and waits until it is committed.
    ///
    /// # Errors
    /// See [`FlushError`].
    pub async fn flush(&self) -> Result<(), FlushError> {
        self.inner.flush().await
    }

    /// Runs one pass of compaction now, whatever the interval.
    ///
    /// # Errors
    /// See [`CompactError`]; a group that could not be compacted is counted in the report instead.
    pub async fn compact_now(&self) -> Result<CompactionReport, CompactError> {
        self.inner.run_compaction().await
    }

    /// Declares the store fenced, because its storage belongs to another: nothing more is acknowledged,
    /// and [`failed`](Self::failed) answers with the reason.
    pub fn fail(&self, reason: &str) {
        let reason = Cause::of(FailureClass::Fenced, reason);
        self.inner.failure.declare(reason);
    }

    /// Refuses further appends, uploads what there is within the configured wait, and closes the
    /// log. Whatever is not uploaded by then stays in the log for the next start.
    pub async fn close(&self) -> Closed {
        self.inner.closing.store(true, Ordering::Release);
        let wait = self.inner.config.close_wait;
        // A compaction ends at its next step. One that is cut off would leave parts in the bucket.
        let (flushed, compacting) = tokio::join!(
            timeout(wait, self.inner.flush()),
            timeout(wait, self.inner.compact.idle()),
        );
        if compacting.is_err() {
            tracing::warn!(?wait, "a compaction did not end in time; it is broken off");
        }
        let pending_bytes = self.inner.metrics.pending_bytes();
        if flushed.is_err() {
            tracing::warn!(
                ?wait,
                pending_bytes,
                "uploads did not finish in time; the log keeps the rest, which the next start recovers"
            );
        }
        // Without it, the next start only reads more.
        if timeout(wait, self.inner.trim_log()).await.is_err() {
            tracing::warn!(
                ?wait,
                "the metadata was not backed up in time; the log keeps more"
            );
        }
        let closed = timeout(wait, self.inner.wal.close()).await;
        match (closed, flushed) {
            (Err(_), _) => {
                let silent = "the write-ahead log's device does not answer";
                Closed::Failed(Cause::of(FailureClass::Transient, silent))
            }
            (Ok(Err(error)), _) => Closed::Failed(Cause::new(error)),
            (_, Ok(Err(error))) => Closed::Failed(Cause::new(error)),
            (Ok(Ok(())), Ok(Ok(()))) => match self.inner.log_trims.held() {
                streams if streams.is_empty() => Closed::Uploaded,
                streams => Closed::Halted { streams },
            },
            (Ok(Ok(())), Err(_)) => Closed::InLog { pending_bytes },
        }
    }

    /// Changes the memory for entries (`s3.wal.cache.size`), in bytes. More lets in at once who
    /// waits for memory. Less takes effect by eviction: what is committed goes at once, the rest when
    /// it is, or when somebody waits for its memory; nothing is lost.
    pub fn set_cache_bytes(&self, bytes: u64) {
        self.inner.resize(|sizing| sizing.cache_bytes = bytes);
    }

    /// Changes how much is uploaded at once (`s3.wal.upload.threshold`), in bytes. A quarter of the
    /// cache is the most that takes effect.
    pub fn set_upload_threshold_bytes(&self, bytes: u64) {
        self.inner
            .resize(|sizing| sizing.upload_threshold_bytes = bytes);
    }

    /// One past the last acknowledged offset of each open stream.
    #[must_use]
    pub fn confirmed_ends(&self) -> Vec<(StreamId, Offset)> {
        let streams = self.inner.streams.read();
        let end = |(&id, state): (&StreamId, &Arc<StreamState>)| (id, state.confirm_offset());
        streams.iter().map(end).collect()
    }

    /// The store now.
    #[must_use]
    pub fn metrics(&self) -> StreamMetrics {
        let inner = &self.inner;
        StreamMetrics {
            streams: inner.streams.read().len() as u64,
            cache_used_bytes: inner.budget.used(),
            cache_capacity_bytes: inner.budget.capacity(),
            pending_bytes: inner.metrics.pending_bytes(),
            recovery: inner.recovery,
        }
    }

    /// Resolves with the reason once the store has failed: the device, or the ownership. The broker
    /// must stop then; restarting it recovers what was acknowledged.
    pub async fn failed(&self) -> Cause {
        self.inner.failure.wait().await
    }

    /// The reason, where the store has failed.
    #[must_use]
    pub fn failure(&self) -> Option<Cause> {
        self.inner.failure.reason()
    }
}

impl StoreInner {
    /// Fails while the store takes no appends.
    pub(crate) fn check_open(&self) -> Result<(), AppendError> {
        self.failure.check()?;
        if self.closing.load(Ordering::Acquire) {
            return Err(AppendError::Closed);
        }
        Ok(())
    }

    async fn open_streams(&self, ids: &[StreamId]) -> Result<(), OpenError> {
        if self.closing.load(Ordering::Acquire) {
            return Err(OpenError::Closed);
        }
        let missing: Vec<StreamId> = {
            let streams = self.streams.read();
            ids.iter()
                .copied()
                .filter(|id| !streams.contains_key(id))
                .collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let opened = self.meta.open_streams(&missing, self.node_epoch).await?;
        let mut streams = self.streams.write();
        for meta in opened {
            // Opening is idempotent within a node epoch, so whoever comes second loses nothing.
            streams.entry(meta.id).or_insert_with(|| {
                let end = meta.end.max(meta.start);
                let ids = (meta.id, meta.epoch);
                let run = CachedRun::default();
                let failure = Arc::clone(&self.failure);
                Arc::new(StreamState::new(ids, meta.start, end, run, failure))
            });
        }
        Ok(())
    }

    fn discard_streams(&self, ids: &[StreamId]) {
        let mut streams = self.streams.write();
        for state in ids.iter().filter_map(|id| streams.remove(id)) {
            let mut inner = state.lock();
            inner.discarded = true;
            inner.cached.clear();
        }
        drop(streams);
        self.log_trims.release(ids);
    }
}

impl fmt::Debug for StoreInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreInner")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
