//! Reads a stretch of a stream from its objects.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures_util::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, future::BoxFuture, stream};
use millrace_meta::{MetaStore, ObjectRange, StoreFailure};
use millrace_model::{ObjectId, Offset, StreamId, StreamRange};
use millrace_objects::{
    self as objects, BlockRef, ObjectKey, ObjectReader, ObjectStorage, StreamEntry,
};
use millrace_time::SharedClock;

use crate::{
    config::{BlockCacheConfig, Sources},
    single_flight::SingleFlight,
    stats::BlockCacheStats,
};

/// Objects asked of the metadata at once: one read rarely crosses more.
const OBJECTS_PER_ASK: usize = 4;

/// How often a read begins again on fresh metadata, because an object that it was told of is gone:
/// each time one compaction or trim must have come in between.
const FRESH_STARTS_MAX: u32 = 3;

/// Blocks of one read that are loaded at the same time; bounds what one reader can ask of the store.
const BLOCKS_AT_ONCE: usize = 4;

/// The share of the budget that is for object indexes, which are small and spare whole requests.
const INDEX_SHARE: u64 = 16;

/// Reads what has left the log cache. A clone is the same cache.
#[derive(Debug, Clone)]
pub struct BlockCache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    cluster: String,
    bytes: AtomicU64,
    prefetch_max_bytes: AtomicU64,
    storage: ObjectStorage,
    meta: Arc<dyn MetaStore>,
    indexes: Arc<SingleFlight<ObjectId, ObjectReader, objects::ReadError>>,
    blocks: Arc<SingleFlight<(ObjectId, u64), Vec<StreamEntry>, objects::ReadError>>,
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
    /// An object could not be read: try later, or report it where it is corrupt.
    #[error(transparent)]
    Object(Arc<objects::ReadError>),
    /// The metadata could not be asked: try later.
    #[error(transparent)]
    Meta(#[from] StoreFailure),
}

impl BlockCache {
    /// An empty cache over `sources`, where `meta` says what is in them.
    #[must_use]
    pub fn new(
        config: BlockCacheConfig,
        sources: Sources,
        meta: Arc<dyn MetaStore>,
        _clock: SharedClock,
    ) -> Self {
        let index_bytes = config.bytes / INDEX_SHARE;
        let inner = Inner {
            cluster: config.cluster,
            bytes: AtomicU64::new(config.bytes),
            prefetch_max_bytes: AtomicU64::new(config.prefetch_max_bytes),
            storage: sources.miss,
            meta,
            indexes: Arc::new(SingleFlight::new("index", index_bytes)),
            blocks: Arc::new(SingleFlight::new("block", config.bytes - index_bytes)),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Reads entries of `stream` from the one that holds `start` up to, not including, `end`: at
    /// least one, then more while their payloads sum up to at most `max_bytes`. The first may begin
    /// before `start`, the last may reach behind `end`. Ends early where what is committed ends; is
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
            starts += 1;
            let error = match self.inner.read_once(stream, start, end, max_bytes).await {
                Ok(entries) => return Ok(entries),
                Err(error) => error,
            };
            let vanished = matches!(&error, ReadError::Object(gone) if gone.is_not_found());
            if !vanished || starts >= FRESH_STARTS_MAX {
                return Err(error);
            }
            tracing::debug!(%stream, start, "an object vanished under a read; asking the metadata");
        }
    }

    /// The memory that the cache holds now, in bytes.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.inner.indexes.used_bytes() + self.inner.blocks.used_bytes()
    }

    /// Changes the budget, in bytes, at once; what is above a smaller one is evicted.
    pub fn set_bytes(&self, bytes: u64) {
        self.inner.bytes.store(bytes, Ordering::Relaxed);
        let index_bytes = bytes / INDEX_SHARE;
        self.inner.indexes.set_budget(index_bytes);
        self.inner.blocks.set_budget(bytes - index_bytes);
    }

    /// Changes how far one reader may prefetch, in bytes; 0 for not at all.
    pub fn set_prefetch_max_bytes(&self, bytes: u64) {
        self.inner
            .prefetch_max_bytes
            .store(bytes, Ordering::Relaxed);
    }

    /// What the cache has done and holds.
    #[must_use]
    pub fn stats(&self) -> BlockCacheStats {
        BlockCacheStats {
            size_bytes: self.inner.bytes.load(Ordering::Relaxed),
            used_bytes: self.used_bytes(),
            ..BlockCacheStats::default()
        }
    }
}

/// Entries that a read has gathered so far.
struct Gathered {
    /// Entries from here on are not wanted.
    end: Offset,
    max_bytes: usize,
    entries: Vec<StreamEntry>,
    /// From here on it continues.
    next: Offset,
    bytes: usize,
    /// No further entry is wanted, or none would fit.
    done: bool,
}

impl Gathered {
    fn new(start: Offset, end: Offset, max_bytes: usize) -> Self {
        Self {
            end,
            max_bytes,
            entries: Vec::new(),
            next: start,
            bytes: 0,
            done: start >= end,
        }
    }

    /// Takes what fits of a block's entries.
    fn take(&mut self, entries: &[StreamEntry]) {
        for entry in entries {
            let entry_end = entry.end_offset().unwrap_or(Offset::MAX);
            if self.done || entry_end <= self.next {
                continue;
            }
            let bytes = self.bytes.saturating_add(entry.payload.len());
            if entry.base_offset >= self.end || (bytes > self.max_bytes && !self.entries.is_empty())
            {
                self.done = true;
                return;
            }
            self.bytes = bytes;
            self.entries.push(entry.clone());
            self.pass(entry_end);
            self.done |= bytes >= self.max_bytes;
        }
    }

    /// Goes on to `offset`: what lies before it has been taken or does not exist.
    fn pass(&mut self, offset: Offset) {
        if !self.done {
            self.next = self.next.max(offset);
            self.done = self.next >= self.end;
        }
    }
}

impl Inner {
    async fn read_once(
        &self,
        stream: StreamId,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, ReadError> {
        let mut got = Gathered::new(start, end, max_bytes);
        while !got.done {
            let before = got.next;
            for range in self
                .meta
                .objects_of(stream, got.next, OBJECTS_PER_ASK)
                .await?
            {
                if range.range.start > got.next {
                    break;
                }
                self.read_object(&range, &mut got).await?;
                if got.done {
                    break;
                }
            }
            if got.next == before {
                break;
            }
        }
        if got.entries.is_empty() && start < end {
            return Err(ReadError::Missing {
                stream,
                offset: got.next,
            });
        }
        Ok(got.entries)
    }

    /// Gathers what one object has.
    async fn read_object(&self, range: &ObjectRange, got: &mut Gathered) -> Result<(), ReadError> {
        let StreamRange { stream, end, .. } = range.range;
        let index = self.index(range).await?;
        loop {
            let wanted = index.find(stream, got.next, end.min(got.end));
            if got.done || wanted.is_empty() {
                break;
            }
            let loads: Vec<_> = window(wanted, got.max_bytes.saturating_sub(got.bytes))
                .iter()
                .map(|&block| {
                    self.block(range.object, &index, block)
                        .map_ok(move |e| (block, e))
                })
                .collect();
            let mut loads = stream::iter(loads).buffered(BLOCKS_AT_ONCE);
            while let Some((block, entries)) = loads.try_next().await? {
                got.take(&entries);
                got.pass(block.end);
            }
        }
        got.pass(end);
        Ok(())
    }

    /// The index of an object.
    async fn index(&self, range: &ObjectRange) -> Result<Arc<ObjectReader>, ReadError> {
        let key = ObjectKey::of(&self.cluster, range.object);
        let (storage, size) = (self.storage.clone(), range.size);
        let load = || {
            async move {
                let index = ObjectReader::open(&storage, key, size).await?;
                let bytes = index.index_bytes() as u64;
                Ok((index, bytes))
            }
            .boxed()
        };
        self.indexes
            .get(range.object, load)
            .await
            .map_err(ReadError::Object)
    }

    /// The entries of one block.
    fn block(
        &self,
        object: ObjectId,
        index: &Arc<ObjectReader>,
        block: BlockRef,
    ) -> BoxFuture<'static, Result<Arc<Vec<StreamEntry>>, ReadError>> {
        let (blocks, indexes) = (Arc::clone(&self.blocks), Arc::clone(&self.indexes));
        let (storage, index) = (self.storage.clone(), Arc::clone(index));
        async move {
            let load = || {
                async move {
                    let entries = index.read_block(&storage, &block).await?;
                    let overhead = entries.len() * size_of::<StreamEntry>();
                    Ok((entries, u64::from(block.size) + overhead as u64))
                }
                .boxed()
            };
            let loaded = blocks.get((object, block.position), load).await;
            loaded.map_err(|error| {
                if error.is_not_found() {
                    indexes.forget(&object);
                }
                ReadError::Object(error)
            })
        }
        .boxed()
    }
}

/// The first of `blocks`, and as many more as are needed for `bytes`.
fn window(blocks: &[BlockRef], bytes: usize) -> &[BlockRef] {
    let mut sum = 0_usize;
    let needed = blocks.iter().take_while(|block| {
        let before = sum;
        sum = sum.saturating_add(block.size as usize);
        before == 0 || before < bytes
    });
    let needed = needed.count();
    blocks.get(..needed).unwrap_or_default()
}
