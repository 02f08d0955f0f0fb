//! Rewriting: entries of one stream that are in objects are dropped or replaced, for log compaction.
//!
//! What it guarantees:
//! - A group of objects is replaced at one moment, by objects with the same ranges, and only if all of its inputs are still what
//!   was read: the metadata refuses anything else. A crash leaves either the inputs or the outputs.
//! - Every committed range ends with an entry: the last entry of a group is never dropped. So behind every offset of a range there is a
//!   block.
//! - It takes turns with object compaction, group by group, and has its tier of the network.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    ops::ControlFlow,
    sync::Arc,
};

use bytes::Bytes;
use millrace_meta::{
    Compaction, CompactionError, ObjectKind, ObjectRange, ReserveError, StoreFailure, StreamObject,
};
use millrace_model::{Cause, Classified, FailureClass, ObjectId, Offset, StreamId, StreamRange};
use millrace_objects::{
    BlockRef, GetError, InvalidEntry, ObjectBuilder, ObjectKey, ObjectReader, PutError, ReadError,
    StreamEntry,
};

use super::{StoreInner, compact::CompactError};
use crate::{entry::Entry, state::StreamState};

/// Inputs of one group, bytes, unless one object has more.
const GROUP_BYTES: u64 = 32 * 1024 * 1024;

/// An output is closed once it has this many bytes.
const OUTPUT_BYTES: u64 = 16 * 1024 * 1024;

/// Blocks are read in requests of at most this many bytes, or of one block.
const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// Objects asked of the metadata at once.
const PAGE: usize = 1_000;

/// Objects of one rewrite: bounds the memory for what is known of them.
const OBJECTS_MAX: usize = 100_000;

/// Streams that a split gives objects of their own, at most: their number is bounded by what one transaction takes.
const APART_MAX: usize = 500;

/// How often stream-set objects are split before they are too often replaced by others.
const SPLITS_MAX: usize = 8;

/// What becomes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It stays as it is.
    Keep,
    /// It stays with another payload.
    Replace(Bytes),
    /// It goes.
    Drop,
}

/// Decides on the entries of a group, in their order.
pub trait EntryFilter: Send {
    /// What becomes of an entry. The last one of the group must not be dropped.
    ///
    /// # Errors
    /// The entry cannot be read, or the group is not to be replaced.
    fn filter(&mut self, entry: &Entry, is_last: bool) -> Result<Outcome, Cause>;

    /// Called after the last entry, before the group is replaced.
    ///
    /// # Errors
    /// The group is not to be replaced.
    fn check(&mut self) -> Result<(), Cause>;
}

/// Objects that are rewritten together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewriteGroup {
    objects: Vec<ObjectRange>,
}

/// What the rewrite of a group has come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Whether the objects were replaced; they were not where nothing was to be dropped.
    pub replaced: bool,
    /// Bytes of the blocks that were read.
    pub input_bytes: u64,
    /// Bytes of those that replace them.
    pub output_bytes: u64,
    /// Payload of the entries that were read.
    pub input_payload: u64,
    /// Payload of the entries that stay.
    pub output_payload: u64,
}

/// Why a group was not replaced. Its objects are as they were.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// A stream-set object was not split, or the store is being closed.
    #[error(transparent)]
    Compact(#[from] CompactError),
    /// No ids for the outputs.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// The outputs were not committed.
    #[error(transparent)]
    Commit(#[from] CompactionError),
    /// The metadata could not be asked.
    #[error(transparent)]
    Meta(#[from] StoreFailure),
    /// An input could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An output could not be written.
    #[error(transparent)]
    Put(#[from] PutError),
    /// The entries are out of order: report it.
    #[error("a rewritten entry is not sound: {0}")]
    Entry(#[from] InvalidEntry),
    /// The filter refused.
    #[error("{0}")]
    Refused(Cause),
    /// Stream-set objects with the stream come up faster than they are split.
    #[error("stream {0} gets new stream-set objects faster than they can be split")]
    Unsettled(StreamId),
    /// An object is not in the bucket, although the metadata refers to it: report it.
    #[error(
        "object {object} of stream {stream} is not in the bucket, although the metadata refers to it"
    )]
    Lost {
        /// The object.
        object: ObjectId,
        /// The stream.
        stream: StreamId,
    },
    /// The stream has more objects than one rewrite takes.
    #[error("stream {0} has more than {OBJECTS_MAX} objects")]
    TooMany(StreamId),
}

impl Classified for RewriteError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Compact(error) => error.class(),
            Self::Reserve(error) => error.class(),
            Self::Commit(error) => error.class(),
            Self::Meta(error) => error.class(),
            Self::Read(error) => error.class(),
            Self::Put(error) => error.class(),
            Self::Refused(cause) => cause.class(),
            Self::Entry(_) | Self::Lost { .. } => FailureClass::Corrupt,
            Self::Unsettled(_) => FailureClass::Gone,
            Self::TooMany(_) => FailureClass::Rejected,
        }
    }
}

impl RewriteGroup {
    /// The offsets that it covers.
    #[must_use]
    pub fn range(&self) -> (Offset, Offset) {
        let start = self.objects.first().map_or(0, |first| first.range.start);
        let end = self.objects.last().map_or(start, |last| last.range.end);
        (start, end)
    }
}

/// Rewrites what a stream has in objects. Cheap to clone.
#[derive(Clone)]
pub struct Rewriter {
    state: Arc<StreamState>,
    store: Arc<StoreInner>,
}

impl Rewriter {
    pub(crate) fn new(state: Arc<StreamState>, store: Arc<StoreInner>) -> Self {
        Self { state, store }
    }

    /// The objects that hold offsets of `from..end`, in groups and in their order. Those that hold other streams as well are
    /// split first, for all streams `apart` at once.
    ///
    /// # Errors
    /// See [`RewriteError`].
    pub async fn groups(
        &self,
        (from, end): (Offset, Offset),
        apart: &BTreeSet<StreamId>,
    ) -> Result<Vec<RewriteGroup>, RewriteError> {
        let id = self.state.id;
        let mut own = BTreeSet::from([id]);
        own.extend(apart.iter().take(APART_MAX));
        for _ in 0..SPLITS_MAX {
            let objects = self.objects((from, end)).await?;
            let sets = sets_of(&objects);
            if sets.is_empty() {
                let inputs_max = self.store.config.compaction.inputs_max;
                return Ok(grouped(objects, GROUP_BYTES, inputs_max));
            }
            let config = &self.store.config.compaction;
            for group in grouped(sets, config.set_bytes_max, config.inputs_max) {
                let sets: Vec<ObjectId> = group.objects.iter().map(|set| set.object).collect();
                match self.store.split_sets(&sets, &own).await {
                    Ok(()) => {}
                    // Replaced meanwhile: the next round sees what became of them.
                    Err(error) if error.class() == FailureClass::Gone => {
                        self.store.check_compacting()?;
                        let error = self.or_lost(error.into(), (from, end)).await;
                        if matches!(error, RewriteError::Lost { .. }) {
                            return Err(error);
                        }
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Err(RewriteError::Unsettled(id))
    }

    async fn objects(
        &self,
        (mut from, end): (Offset, Offset),
    ) -> Result<Vec<ObjectRange>, RewriteError> {
        let id = self.state.id;
        let mut objects: Vec<ObjectRange> = Vec::new();
        while from < end {
            let page = self.store.meta.objects_of(id, from, PAGE).await?;
            let Some(last) = page.last() else {
                break;
            };
            from = last.range.end;
            objects.extend(page.into_iter().filter(|object| object.range.start < end));
            if objects.len() > OBJECTS_MAX {
                return Err(RewriteError::TooMany(id));
            }
        }
        Ok(objects)
    }

    /// An error of reading objects of `range`. One that says that an object is not there becomes [`RewriteError::Lost`] where the
    /// metadata still refers to that object; otherwise it was replaced meanwhile.
    async fn or_lost(&self, error: RewriteError, range: (Offset, Offset)) -> RewriteError {
        let Some(key) = not_found(&error) else {
            return error;
        };
        let Ok(objects) = self.objects(range).await else {
            return error;
        };
        let cluster = &self.store.cluster_id;
        let mut ids = objects.iter().map(|object| object.object);
        match ids.find(|&id| ObjectKey::of(cluster, id) == *key) {
            Some(object) => RewriteError::Lost {
                object,
                stream: self.state.id,
            },
            None => error,
        }
    }

    /// Shows the entries of `from..end` that are in objects to `visit`, in their order, until it has seen enough.
    /// Returns the bytes of the blocks that were read.
    ///
    /// # Errors
    /// See [`RewriteError`].
    pub async fn scan(
        &self,
        range: (Offset, Offset),
        visit: &mut (dyn FnMut(&Entry) -> Result<ControlFlow<()>, Cause> + Send),
    ) -> Result<u64, RewriteError> {
        match self.scan_objects(range, visit).await {
            Err(error) => Err(self.or_lost(error, range).await),
            scanned => scanned,
        }
    }

    async fn scan_objects(
        &self,
        (from, end): (Offset, Offset),
        visit: &mut (dyn FnMut(&Entry) -> Result<ControlFlow<()>, Cause> + Send),
    ) -> Result<u64, RewriteError> {
        let objects = self.objects((from, end)).await?;
        let mut reader = EntryReader::new(&self.store, objects, from);
        while let Some(entry) = reader.next().await? {
            if entry.base_offset >= end {
                break;
            }
            let seen = visit(&plain(&entry)).map_err(RewriteError::Refused)?;
            if seen.is_break() {
                break;
            }
            tokio::task::yield_now().await;
        }
        Ok(reader.read_bytes)
    }

    /// Replaces the objects of a group by others without the entries that `filter` drops.
    ///
    /// # Errors
    /// See [`RewriteError`]; of class `Gone` where the objects were replaced or trimmed away meanwhile.
    pub async fn rewrite(
        &self,
        group: &RewriteGroup,
        filter: &mut dyn EntryFilter,
    ) -> Result<Rewritten, RewriteError> {
        let _turn = self.store.compact.turn.lock().await;
        self.store.check_compacting()?;
        let mut outputs = Outputs::new(&self.store, group.range().0);
        let result = self.write_outputs(group, filter, &mut outputs).await;
        let unused = !matches!(result, Ok(Rewritten { replaced: true, .. }));
        if unused && !outputs.ids.is_empty() {
            self.store.release(&outputs.ids).await;
        }
        match result {
            Err(error) => Err(self.or_lost(error, group.range()).await),
            rewritten => rewritten,
        }
    }

    async fn write_outputs(
        &self,
        group: &RewriteGroup,
        filter: &mut dyn EntryFilter,
        outputs: &mut Outputs<'_>,
    ) -> Result<Rewritten, RewriteError> {
        let start = self.state.start_offset();
        let mut reader = EntryReader::new(&self.store, group.objects.clone(), start);
        let mut done = Rewritten::default();
        while let Some(mut entry) = reader.next().await? {
            let is_last = reader.is_exhausted();
            done.input_payload += entry.payload.len() as u64;
            let outcome = filter.filter(&plain(&entry), is_last);
            match outcome.map_err(RewriteError::Refused)? {
                Outcome::Keep => {}
                Outcome::Replace(payload) => {
                    done.replaced = true;
                    entry.payload = payload;
                }
                Outcome::Drop => {
                    debug_assert!(!is_last, "a group ends with an entry");
                    done.replaced = true;
                    continue;
                }
            }
            done.output_payload += entry.payload.len() as u64;
            let end = entry.end_offset().unwrap_or(Offset::MAX);
            outputs.builder.add(entry)?;
            if outputs.builder.size() >= OUTPUT_BYTES && !is_last {
                outputs.close(self.state.id, end).await?;
            }
            tokio::task::yield_now().await;
        }
        done.input_bytes = reader.read_bytes;
        filter.check().map_err(RewriteError::Refused)?;
        if !done.replaced {
            return Ok(done);
        }
        outputs.close(self.state.id, group.range().1).await?;
        self.store.check_compacting()?;
        done.output_bytes = outputs.objects.iter().map(|object| object.size).sum();
        let compaction = Compaction {
            node_epoch: self.store.node_epoch,
            inputs: group.objects.iter().map(|object| object.object).collect(),
            stream_set: None,
            stream_objects: std::mem::take(&mut outputs.objects),
        };
        self.store.commit_compaction(compaction).await?;
        // Reads that begin from now on are of the outputs.
        let end = group.range().1;
        self.state.lock().cached.evict_below(end);
        self.store.block_cache.forget_stream(self.state.id);
        Ok(done)
    }
}

/// The object that was not there, where that is why something could not be read.
fn not_found(error: &RewriteError) -> Option<&ObjectKey> {
    let (RewriteError::Read(read) | RewriteError::Compact(CompactError::Read(read))) = error else {
        return None;
    };
    match read {
        ReadError::Get(GetError::NotFound { key }) => Some(key),
        _ => None,
    }
}

/// The stream sets among the objects, each once. A set holds several ranges of a stream where another broker wrote the offsets in
/// between, which are in other objects.
fn sets_of(objects: &[ObjectRange]) -> Vec<ObjectRange> {
    let mut seen = BTreeSet::new();
    let is_set = |object: &&ObjectRange| object.kind == ObjectKind::StreamSet;
    let sets = objects.iter().filter(is_set);
    sets.filter(|set| seen.insert(set.object))
        .copied()
        .collect()
}

/// Groups of objects that follow each other, of at most `bytes_max` and `objects_max` each, or of one object.
fn grouped(objects: Vec<ObjectRange>, bytes_max: u64, objects_max: usize) -> Vec<RewriteGroup> {
    let mut groups: Vec<RewriteGroup> = Vec::new();
    let mut bytes = 0_u64;
    for object in objects {
        bytes = bytes.saturating_add(object.size);
        match groups.last_mut() {
            Some(group) if bytes <= bytes_max && group.objects.len() < objects_max => {
                group.objects.push(object);
            }
            _ => {
                bytes = object.size;
                groups.push(RewriteGroup {
                    objects: vec![object],
                });
            }
        }
    }
    groups
}

fn plain(entry: &StreamEntry) -> Entry {
    Entry {
        base_offset: entry.base_offset,
        count: entry.count,
        payload: entry.payload.clone(),
    }
}

/// The entries of objects, one after the other.
struct EntryReader<'a> {
    store: &'a StoreInner,
    objects: VecDeque<ObjectRange>,
    /// Entries that end at or below it are passed over.
    from: Offset,
    reader: Option<ObjectReader>,
    blocks: VecDeque<BlockRef>,
    entries: VecDeque<StreamEntry>,
    /// Bytes of the blocks that were read so far.
    read_bytes: u64,
}

impl<'a> EntryReader<'a> {
    fn new(store: &'a StoreInner, objects: Vec<ObjectRange>, from: Offset) -> Self {
        Self {
            store,
            objects: objects.into(),
            from,
            reader: None,
            blocks: VecDeque::new(),
            entries: VecDeque::new(),
            read_bytes: 0,
        }
    }

    /// Whether the entry that was given last is the last one.
    fn is_exhausted(&self) -> bool {
        self.objects.is_empty() && self.blocks.is_empty() && self.entries.is_empty()
    }

    async fn next(&mut self) -> Result<Option<StreamEntry>, RewriteError> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Ok(Some(entry));
            }
            self.store.check_compacting()?;
            if self.blocks.is_empty() && !self.open_next().await? {
                return Ok(None);
            }
            self.read_window().await?;
        }
    }

    async fn open_next(&mut self) -> Result<bool, RewriteError> {
        let Some(object) = self.objects.pop_front() else {
            return Ok(false);
        };
        let StreamRange { stream, start, end } = object.range;
        let key = ObjectKey::of(&self.store.cluster_id, object.object);
        let (storage, wanted) = (&self.store.background, Some(object.range));
        let reader = ObjectReader::open_for(storage, key, object.size, wanted).await?;
        let found = reader.find(stream, self.from.max(start), end);
        self.blocks = found.iter().copied().collect();
        self.reader = Some(reader);
        Ok(true)
    }

    async fn read_window(&mut self) -> Result<(), RewriteError> {
        let Some(reader) = &self.reader else {
            return Ok(());
        };
        let (mut window, mut bytes) = (Vec::new(), 0);
        while let Some(block) = self.blocks.front() {
            bytes += u64::from(block.size);
            if bytes > WINDOW_BYTES && !window.is_empty() {
                break;
            }
            window.extend(self.blocks.pop_front());
        }
        let found = reader.read_blocks(&self.store.background, &window).await?;
        self.read_bytes += window
            .iter()
            .map(|block| u64::from(block.size))
            .sum::<u64>();
        for (block, bytes) in window.iter().zip(&found) {
            let entries = ObjectReader::decode(block, bytes).map_err(|reason| {
                let (storage, key) = (&self.store.background, reader.key());
                ObjectReader::corrupt(storage, key, block, reason)
            })?;
            let from = self.from;
            let ends_behind = |entry: &StreamEntry| entry.end_offset().is_none_or(|end| end > from);
            self.entries.extend(entries.into_iter().filter(ends_behind));
        }
        Ok(())
    }
}

/// The objects that a group becomes.
struct Outputs<'a> {
    store: &'a StoreInner,
    /// Where the open one starts.
    start: Offset,
    builder: ObjectBuilder,
    objects: Vec<StreamObject>,
    /// All ids that were reserved.
    ids: Vec<ObjectId>,
}

impl<'a> Outputs<'a> {
    fn new(store: &'a StoreInner, start: Offset) -> Self {
        Self {
            store,
            start,
            builder: ObjectBuilder::new(store.config.object_block_bytes),
            objects: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Writes the open object, which ends at `end`.
    async fn close(&mut self, stream: StreamId, end: Offset) -> Result<(), RewriteError> {
        let store = self.store;
        let id = store.meta.reserve_objects(store.node_epoch, 1).await?;
        self.ids.push(id);
        let builder = ObjectBuilder::new(store.config.object_block_bytes);
        let built = std::mem::replace(&mut self.builder, builder).finish();
        let key = ObjectKey::of(&store.cluster_id, id);
        store.background.put(&key, built.chunks).await?;
        let start = std::mem::replace(&mut self.start, end);
        self.objects.push(StreamObject {
            id,
            size: built.size,
            range: StreamRange { stream, start, end },
        });
        Ok(())
    }
}

impl fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rewriter").field(&self.state.id).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another broker led the stream while this one's first and last set were written; the two were merged.
    #[test]
    fn a_set_with_two_ranges_of_a_stream_is_split_once() {
        let object = |object, kind, (start, end)| ObjectRange {
            object: ObjectId(object),
            kind,
            size: 100,
            range: StreamRange {
                stream: StreamId(1),
                start,
                end,
            },
        };
        let objects = [
            object(9, ObjectKind::StreamSet, (0, 10)),
            object(4, ObjectKind::StreamSet, (10, 20)),
            object(9, ObjectKind::StreamSet, (20, 30)),
            object(12, ObjectKind::Stream, (30, 40)),
        ];
        let sets: Vec<_> = sets_of(&objects)
            .iter()
            .map(|set| set.object.get())
            .collect();
        assert_eq!(sets, [9, 4]);
    }
}
