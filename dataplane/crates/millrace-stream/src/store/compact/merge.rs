//! From the objects of one group to those that replace them.
//!
//! Blocks are taken over as they stand: nothing is decoded, and each checksum is compared when its
//! block passes through. A group is read once, every input from its beginning to its end, because inputs
//! and outputs have the same order, that of (stream, offset). So the memory is bounded whatever the
//! inputs hold: a window for each of them, and what the outputs that are being written hold.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use millrace_meta::{Compaction, ObjectContents, ObjectKind, StreamObject, StreamSetObject};
use millrace_model::{ObjectId, StreamId, StreamRange};
use millrace_objects::{
    ASSEMBLY_BYTES_MAX, BlockRef, Corrupt, CorruptKind, CorruptPart, ObjectAssembly, ObjectKey,
    ObjectReader, ObjectStorage,
};

use super::CompactError;
use crate::store::StoreInner;

/// Memory for what was read of a group and not written yet, bytes; all inputs share it, and each has a
/// block at least: with the defaults, 64 of 512 KiB.
const WINDOWS_BYTES: u64 = 32 * 1024 * 1024;

/// The memory of one compaction, bytes: the windows, and two objects that are being written, that of
/// the small streams and that of a large one. A block beyond the usual size comes on top, and what is
/// known of the inputs' ranges: with a thousand streams in each of 16 inputs, 4 MB.
pub const COMPACTION_BYTES_MAX: u64 = WINDOWS_BYTES + 2 * ASSEMBLY_BYTES_MAX;

/// Blocks are read in one request although something that is not wanted lies between them, as long as
/// it is less than this, bytes: about what a request costs.
const GAP_BYTES: u64 = 64 * 1024;

/// Objects that one group becomes at most: the metadata records them in one transaction, and uploads
/// wait for it. Where more streams have enough for objects of their own, the largest get them.
const OUTPUTS_MAX: usize = 1_000;

/// Indexes that are read at the same time.
const INDEXES_AT_ONCE: usize = 8;

/// One input, opened.
struct Input {
    reader: Arc<ObjectReader>,
    contents: ObjectContents,
}

/// What one input holds of one stream without a gap, and is wanted.
struct Piece {
    input: usize,
    range: StreamRange,
    blocks: Vec<BlockRef>,
}

/// What becomes one range of one output.
#[derive(Default)]
struct Stretch {
    pieces: Vec<Piece>,
}

/// What a group becomes.
pub(super) struct Merge {
    inputs: Vec<Input>,
    /// In the order of (stream, offset); `true`: an object of its own.
    stretches: Vec<(Stretch, bool)>,
}

/// What a merge has come to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moved {
    pub(super) inputs: u64,
    pub(super) input_bytes: u64,
    pub(super) output_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) outputs: u64,
}

impl Stretch {
    fn is_one_of(&self, streams: &BTreeSet<StreamId>) -> bool {
        let first = self.pieces.first();
        first.is_some_and(|first| streams.contains(&first.range.stream))
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(Piece::bytes).sum()
    }

    fn range(&self) -> Option<StreamRange> {
        let (first, last) = (self.pieces.first()?, self.pieces.last()?);
        Some(StreamRange {
            end: last.range.end,
            ..first.range
        })
    }
}

impl Piece {
    fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.size)).sum()
    }

    /// Of a live range, what its object has. Entries of a stream follow each other without gaps, so
    /// there is a block for whatever can be read: `None` where the object and the metadata differ.
    fn of(input: usize, reader: &ObjectReader, live: &millrace_meta::LiveRange) -> Option<Self> {
        let StreamRange { stream, start, end } = live.range;
        let blocks = reader.find(stream, live.readable_from, end);
        let first = blocks.first()?;
        let start = if live.readable_from == start {
            start
        } else {
            first.start.min(live.readable_from).max(start)
        };
        Some(Self {
            input,
            range: StreamRange { stream, start, end },
            blocks: blocks.to_vec(),
        })
    }
}

impl Merge {
    /// Opens the inputs and says what becomes of them. A stretch of one stream with `split_bytes` or
    /// more gets objects of its own, of at most `object_bytes_max` each; `None`: all are such. So do all stretches
    /// of the streams `apart`.
    pub(super) async fn prepare(
        store: &StoreInner,
        contents: Vec<ObjectContents>,
        split_bytes: Option<u64>,
        apart: &BTreeSet<StreamId>,
    ) -> Result<Self, CompactError> {
        let open = |contents: ObjectContents| async move {
            let key = ObjectKey::of(&store.cluster_id, contents.object);
            let wanted = contents.live.first().map(|live| live.range);
            let reader = ObjectReader::open_for(&store.background, key, contents.size, wanted);
            let reader = reader.await?;
            let reader = Arc::new(reader);
            Ok::<_, CompactError>(Input { reader, contents })
        };
        let inputs: Vec<Input> = stream::iter(contents)
            .map(open)
            .buffered(INDEXES_AT_ONCE)
            .try_collect()
            .await?;
        let mut pieces = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            for live in &input.contents.live {
                let piece = Piece::of(at, &input.reader, live);
                pieces.push(piece.ok_or_else(|| missing(store, input, live))?);
            }
        }
        let bytes_max = store.config.compaction.object_bytes_max;
        let mut stretches = Vec::new();
        for stretch in joined(pieces) {
            let is_apart = stretch.is_one_of(apart);
            if is_apart || split_bytes.is_none_or(|split| stretch.bytes() >= split) {
                stretches.extend(cut(stretch, bytes_max).map(|stretch| (stretch, true)));
            } else {
                stretches.push((stretch, false));
            }
        }
        if split_bytes.is_some() {
            // One is left for the set.
            keep_largest(&mut stretches, apart, OUTPUTS_MAX - 1);
        }
        let mut small = stretches.iter_mut().filter(|(_, own)| !own);
        if let (Some((_, own)), None) = (small.next(), small.next()) {
            *own = true;
        }
        Ok(Self { inputs, stretches })
    }

    /// Bytes of the inputs.
    pub(super) fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.contents.size).sum()
    }

    /// Bytes of them that are wanted.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.stretches
            .iter()
            .map(|(stretch, _)| stretch.bytes())
            .sum()
    }

    /// How many objects it becomes.
    pub(super) fn outputs(&self) -> usize {
        let own = self.stretches.iter().filter(|(_, own)| *own).count();
        own + usize::from(own < self.stretches.len())
    }

    /// Writes the outputs under the ids from `first_id` on, as many as [`Merge::outputs`] says.
    pub(super) async fn write(
        self,
        store: &StoreInner,
        first_id: ObjectId,
    ) -> Result<(Compaction, Moved), CompactError> {
        let mut writer = Writer::new(store, &self, first_id);
        let written = writer.write_all(&self).await;
        if written.is_err() {
            writer.abort().await;
        }
        written?;
        let moved = Moved {
            inputs: self.inputs.len() as u64,
            input_bytes: self.input_bytes(),
            ..writer.moved
        };
        Ok((writer.compaction, moved))
    }
}

/// The index of an object lacks what the metadata says it holds.
fn missing(store: &StoreInner, input: &Input, live: &millrace_meta::LiveRange) -> CompactError {
    store.background.corrupt().report(CorruptPart {
        key: input.reader.key().clone(),
        kind: CorruptKind::Index,
        position: 0,
        range: Some(live.range),
        reason: Corrupt::Contradiction {
            what: "the index lacks a range that the metadata names",
        },
    });
    CompactError::Missing {
        object: input.contents.object,
        stream: live.range.stream,
        offset: live.readable_from,
    }
}

/// Sorts pieces and puts together those that lie side by side.
fn joined(mut pieces: Vec<Piece>) -> Vec<Stretch> {
    pieces.sort_unstable_by_key(|piece| piece.range);
    let mut stretches: Vec<Stretch> = Vec::new();
    for piece in pieces {
        let follows = |stretch: &&mut Stretch| {
            stretch.range().is_some_and(|range| {
                range.stream == piece.range.stream && range.end == piece.range.start
            })
        };
        match stretches.last_mut().filter(follows) {
            Some(stretch) => stretch.pieces.push(piece),
            None => stretches.push(Stretch {
                pieces: vec![piece],
            }),
        }
    }
    stretches
}

/// Cuts a stretch into nearly equal ones of at most `bytes_max`, or of one block.
fn cut(stretch: Stretch, bytes_max: u64) -> impl Iterator<Item = Stretch> {
    let bytes = stretch.bytes();
    let target = bytes / bytes.div_ceil(bytes_max.max(1)).max(1);
    let (mut cuts, mut open, mut open_bytes) = (Vec::new(), Stretch::default(), 0);
    for piece in stretch.pieces {
        let Piece {
            input,
            mut range,
            blocks,
        } = piece;
        let mut taken = Vec::new();
        for block in blocks {
            let size = u64::from(block.size);
            if open_bytes > 0 && open_bytes + size > target {
                // Every range ends with an entry: what lies before the block belongs to the object behind.
                let end = taken.last().map_or(range.start, |last: &BlockRef| last.end);
                push(&mut open, input, StreamRange { end, ..range }, &mut taken);
                cuts.push(std::mem::take(&mut open));
                range.start = end;
                open_bytes = 0;
            }
            open_bytes += size;
            taken.push(block);
        }
        push(&mut open, input, range, &mut taken);
    }
    cuts.push(open);
    cuts.into_iter()
        .filter(|stretch| !stretch.pieces.is_empty())
}

/// Leaves objects of their own to the `own_max` largest stretches that have them, those of the streams `apart` first.
fn keep_largest(stretches: &mut [(Stretch, bool)], apart: &BTreeSet<StreamId>, own_max: usize) {
    let mut own: Vec<&mut (Stretch, bool)> = stretches.iter_mut().filter(|(_, own)| *own).collect();
    own.sort_by_cached_key(|(stretch, _)| Reverse((stretch.is_one_of(apart), stretch.bytes())));
    for (_, own) in own.into_iter().skip(own_max) {
        *own = false;
    }
}

fn push(stretch: &mut Stretch, input: usize, range: StreamRange, blocks: &mut Vec<BlockRef>) {
    let blocks = std::mem::take(blocks);
    if !blocks.is_empty() {
        stretch.pieces.push(Piece {
            input,
            range,
            blocks,
        });
        return;
    }
    // A range whose block went elsewhere.
    if let Some(last) = stretch.pieces.last_mut() {
        last.range.end = range.end;
    }
}

/// Writes the outputs of a merge.
struct Writer<'a> {
    store: &'a StoreInner,
    feeds: Vec<Feed>,
    next_id: u64,
    set: Option<(ObjectId, ObjectAssembly, Vec<StreamRange>)>,
    /// The object of one stream that is being written.
    single: Option<ObjectAssembly>,
    compaction: Compaction,
    moved: Moved,
}

impl<'a> Writer<'a> {
    fn new(store: &'a StoreInner, merge: &Merge, first_id: ObjectId) -> Self {
        let window = WINDOWS_BYTES / (merge.inputs.len().max(1) as u64);
        let feed = |input: &Input| Feed {
            reader: Arc::clone(&input.reader),
            wanted: VecDeque::new(),
            at_hand: VecDeque::new(),
            window,
        };
        let mut feeds: Vec<Feed> = merge.inputs.iter().map(feed).collect();
        let stretches = merge.stretches.iter();
        for piece in stretches.flat_map(|(stretch, _)| &stretch.pieces) {
            let feed = feeds.get_mut(piece.input);
            let feed = feed.expect("a piece is of one of the inputs");
            feed.wanted.extend(&piece.blocks);
        }
        Self {
            store,
            feeds,
            next_id: first_id.get(),
            set: None,
            single: None,
            compaction: Compaction {
                node_epoch: store.node_epoch,
                inputs: merge.inputs.iter().map(|i| i.contents.object).collect(),
                stream_set: None,
                stream_objects: Vec::new(),
            },
            moved: Moved::default(),
        }
    }

    fn assembly(&mut self) -> (ObjectId, ObjectAssembly) {
        let id = ObjectId(self.next_id);
        self.next_id += 1;
        let key = ObjectKey::of(&self.store.cluster_id, id);
        let copy_from = self.store.config.compaction.copy_from_bytes;
        let storage = self.store.background.clone();
        (id, ObjectAssembly::new(storage, key, copy_from))
    }

    async fn write_all(&mut self, merge: &Merge) -> Result<(), CompactError> {
        // Objects of one stream are worth a copy by the store; of a set, small pieces are gathered.
        let of_streams = |input: &Input| input.contents.kind == ObjectKind::Stream;
        let copies = merge.inputs.iter().all(of_streams);
        for (stretch, own) in &merge.stretches {
            self.store.check_compacting()?;
            let Some(range) = stretch.range() else {
                continue;
            };
            if *own {
                self.write_single(merge, stretch, range, copies).await?;
            } else {
                self.extend_set(stretch, range).await?;
            }
        }
        if let Some((id, assembly, ranges)) = self.set.take() {
            let size = self.finished(assembly.finish().await?);
            self.compaction.stream_set = Some(StreamSetObject { id, size, ranges });
        }
        Ok(())
    }

    async fn write_single(
        &mut self,
        merge: &Merge,
        stretch: &Stretch,
        range: StreamRange,
        copies: bool,
    ) -> Result<(), CompactError> {
        let (id, assembly) = self.assembly();
        let assembly = self.single.insert(assembly);
        for piece in &stretch.pieces {
            self.store.check_compacting()?;
            if copies {
                let input = merge.inputs.get(piece.input);
                let input = input.expect("a piece is of one of the inputs");
                assembly.take_over(&input.reader, &piece.blocks).await?;
                continue;
            }
            for block in &piece.blocks {
                let bytes = next(&mut self.feeds, piece.input, &self.store.background).await?;
                assembly.append(block, bytes).await?;
            }
        }
        let assembly = self.single.take().expect("it has just been written");
        let size = self.finished(assembly.finish().await?);
        let object = StreamObject { id, size, range };
        self.compaction.stream_objects.push(object);
        Ok(())
    }

    async fn extend_set(
        &mut self,
        stretch: &Stretch,
        range: StreamRange,
    ) -> Result<(), CompactError> {
        if self.set.is_none() {
            let (id, assembly) = self.assembly();
            self.set = Some((id, assembly, Vec::new()));
        }
        let Some((_, assembly, ranges)) = &mut self.set else {
            return Ok(());
        };
        for piece in &stretch.pieces {
            for block in &piece.blocks {
                let bytes = next(&mut self.feeds, piece.input, &self.store.background).await?;
                assembly.append(block, bytes).await?;
            }
        }
        ranges.push(range);
        Ok(())
    }

    fn finished(&mut self, assembled: millrace_objects::Assembled) -> u64 {
        self.moved.output_bytes += assembled.size;
        self.moved.copied_bytes += assembled.copied_bytes;
        self.moved.outputs += 1;
        assembled.size
    }

    /// Leaves nothing of objects that were not finished.
    async fn abort(&mut self) {
        if let Some(assembly) = self.single.take() {
            assembly.abort().await;
        }
        if let Some((_, assembly, _)) = self.set.take() {
            assembly.abort().await;
        }
    }
}

/// The wanted blocks of one input, one after the other.
struct Feed {
    reader: Arc<ObjectReader>,
    wanted: VecDeque<BlockRef>,
    at_hand: VecDeque<Bytes>,
    /// Read at once, bytes, or one block.
    window: u64,
}

impl Feed {
    async fn fill(&mut self, storage: &ObjectStorage) -> Result<(), CompactError> {
        let Some(first) = self.wanted.pop_front() else {
            return Ok(());
        };
        let mut window = vec![first];
        let mut reached = first.position + u64::from(first.size);
        let end = first.position + self.window;
        while let Some(next) = self.wanted.front() {
            let next_end = next.position + u64::from(next.size);
            if next_end > end || next.position > reached + GAP_BYTES {
                break;
            }
            reached = next_end;
            window.extend(self.wanted.pop_front());
        }
        let read = self.reader.read_blocks(storage, &window).await?;
        self.at_hand.extend(read);
        Ok(())
    }
}

async fn next(
    feeds: &mut [Feed],
    input: usize,
    storage: &ObjectStorage,
) -> Result<Bytes, CompactError> {
    let feed = feeds.get_mut(input).expect("every input has a feed");
    if feed.at_hand.is_empty() {
        feed.fill(storage).await?;
    }
    let block = feed.at_hand.pop_front();
    Ok(block.expect("a feed has all the blocks that are wanted of its input"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stretch of one block.
    fn stretch(stream: u64, size: u32) -> Stretch {
        let (stream, start, end) = (StreamId(stream), 0, 1);
        let block = BlockRef {
            stream,
            start,
            end,
            position: 0,
            size,
            entries: 1,
        };
        Stretch {
            pieces: vec![Piece {
                input: 0,
                range: StreamRange { stream, start, end },
                blocks: vec![block],
            }],
        }
    }

    #[test]
    fn only_the_largest_get_objects_where_there_are_too_many() {
        let plan = [(9, true), (3, true), (1, false), (7, true), (3, true)];
        let mut stretches: Vec<(Stretch, bool)> = (0..)
            .zip(plan)
            .map(|(stream, (size, own))| (stretch(stream, size), own))
            .collect();
        let own = |stretches: &[(Stretch, bool)]| -> Vec<bool> {
            stretches.iter().map(|(_, own)| *own).collect()
        };
        let apart = BTreeSet::new();
        keep_largest(&mut stretches, &apart, 4);
        assert_eq!(own(&stretches), [true, true, false, true, true]);
        keep_largest(&mut stretches, &apart, 2);
        assert_eq!(own(&stretches), [true, false, false, true, false]);
        stretches[1].1 = true;
        keep_largest(&mut stretches, &BTreeSet::from([StreamId(1)]), 2);
        assert_eq!(own(&stretches), [true, true, false, false, false]);
    }

    #[test]
    fn a_cut_in_a_gap_leaves_the_gap_to_the_object_behind() {
        let stream = StreamId(1);
        let block = |start, end, position| BlockRef {
            stream,
            start,
            end,
            position,
            size: 10,
            entries: 1,
        };
        let piece = |(start, end), blocks: &[BlockRef]| Piece {
            input: 0,
            range: StreamRange { stream, start, end },
            blocks: blocks.to_vec(),
        };
        let pieces = vec![
            piece((0, 60), &[block(5, 9, 0), block(50, 60, 10)]),
            piece((60, 90), &[block(80, 90, 20)]),
        ];
        let ranges: Vec<_> = cut(Stretch { pieces }, 10)
            .map(|stretch| stretch.range().expect("not empty"))
            .map(|range| (range.start, range.end))
            .collect();
        assert_eq!(ranges, [(0, 9), (9, 60), (60, 90)]);
    }
}
