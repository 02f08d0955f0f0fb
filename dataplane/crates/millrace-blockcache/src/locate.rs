//! The blocks that follow in a stream, from the metadata and the objects' indexes.

use std::sync::Arc;

use futures_util::{FutureExt, future::join_all};
use millrace_meta::{MetaStore, ObjectRange};
use millrace_model::{ObjectId, Offset, StreamId, StreamRange};
use millrace_objects::{self as objects, ObjectKey, ObjectReader, ObjectStorage};

use crate::{
    block::BlockId,
    block_cache::ReadError,
    metrics::Metrics,
    reader::{Located, Place},
    single_flight::SingleFlight,
};

/// Objects asked of the metadata at once, at most. Their indexes are read at the same time.
pub(crate) const OBJECTS_PER_ASK_MAX: usize = 8;

/// Finds blocks. Keeps the indexes that it has read, within a budget.
#[derive(Debug)]
pub(crate) struct Locator {
    cluster: String,
    meta: Arc<dyn MetaStore>,
    storage: ObjectStorage,
    indexes: Arc<SingleFlight<ObjectId, ObjectReader, objects::ReadError>>,
    metrics: Arc<Metrics>,
}

impl Locator {
    pub(crate) fn new(
        cluster: String,
        meta: Arc<dyn MetaStore>,
        storage: ObjectStorage,
        index_bytes: u64,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            cluster,
            meta,
            storage,
            indexes: Arc::new(SingleFlight::new(index_bytes)),
            metrics,
        }
    }

    /// The budget of the indexes, in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.indexes.budget_bytes()
    }

    /// The memory of the indexes, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.indexes.used_bytes()
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.indexes.set_budget(bytes);
    }

    /// Forgets an index whose object is gone.
    pub(crate) fn forget(&self, object: ObjectId) {
        self.indexes.forget(&object);
    }

    /// What holds `stream` from `from` on up to `end`, as far as so many objects go; together without
    /// a gap. Empty where nothing holds `from`.
    pub(crate) async fn locate(
        &self,
        stream: StreamId,
        (from, end): (Offset, Offset),
        objects: usize,
    ) -> Result<Vec<Located>, ReadError> {
        let ranges = self.meta.objects_of(stream, from, objects).await?;
        let mut reached = from;
        let continues = |range: &ObjectRange| {
            let StreamRange { start, end: to, .. } = range.range;
            let continues = start <= reached && reached < to.min(end);
            reached = reached.max(to);
            continues
        };
        let ranges: Vec<_> = ranges.into_iter().take_while(continues).collect();
        let indexes = join_all(ranges.iter().map(|range| self.index(range))).await;
        let mut located: Vec<Located> = Vec::new();
        for (range, index) in ranges.iter().zip(indexes) {
            let from = located.last().map_or(from, |last| last.to);
            match index {
                Ok(index) => append(&mut located, range, &index, from),
                // What lies before it can be read; the next search starts at the fault.
                Err(_) if !located.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(located)
    }

    /// The index of an object. In the tier of a miss, for prefetches too: it is small, and a reader may
    /// come to wait for it.
    async fn index(&self, range: &ObjectRange) -> Result<Arc<ObjectReader>, ReadError> {
        let key = ObjectKey::of(&self.cluster, range.object);
        let (storage, size, wanted) = (self.storage.clone(), range.size, Some(range.range));
        let metrics = Arc::clone(&self.metrics);
        let load = || {
            async move {
                let index = ObjectReader::open_for(&storage, key, size, wanted).await?;
                let bytes = index.index_bytes() as u64;
                metrics.fetched_bytes.add(index.read_bytes());
                metrics.requests.add(1);
                Ok((index, bytes))
            }
            .boxed()
        };
        let loaded = self.indexes.get(range.object, load).await;
        loaded.map_err(ReadError::Object)
    }
}

/// Appends what one object has from `from` on, up to the end of its range: blocks, each of which
/// reaches back to where the one before it ended.
fn append(located: &mut Vec<Located>, range: &ObjectRange, index: &ObjectReader, from: Offset) {
    let (stream, end) = (range.range.stream, range.range.end);
    let mut reached = from;
    for block in index.find(stream, from, end) {
        let id = BlockId {
            object: range.object,
            position: block.position,
        };
        let place = Place {
            id,
            key: index.key().clone(),
            block: *block,
        };
        let to = block.end.min(end);
        located.push(Located {
            from: reached,
            to,
            place: Some(place),
        });
        reached = to;
    }
    if reached < end {
        located.push(Located {
            from: reached,
            to: end,
            place: None,
        });
    }
}
