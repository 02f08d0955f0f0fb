//! Where each stream's ranges are, and what may be done to them.
//!
//! A store with one writer keeps all of it in memory: it is rebuilt from the database at open and changed only after a
//! transaction has committed. A store that others write too loads the part that a change is about within the change's
//! transaction. Lookups cost O(log ranges of the stream), whatever the number of objects.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Bound,
    time::Duration,
};

use millrace_model::{NodeEpoch, ObjectId, Offset, StreamEpoch, StreamId, StreamRange};

use crate::{
    CommitError, Compaction, LiveRange, ObjectContents, ObjectKind, ObjectRange, StreamMeta,
    StreamObject, StreamSetObject, StreamSetSummary, StreamSummary, Upload, retired::Retired,
};

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Streams that exist.
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    /// Committed objects with at least one live range.
    objects: HashMap<ObjectId, Object>,
    /// Those of them that are stream sets.
    stream_sets: BTreeSet<ObjectId>,
    /// Objects that are to be deleted.
    pub(crate) retired: Retired,
    /// The next stream id: a stream below it that is not in `streams` has been deleted.
    pub(crate) next_stream: u64,
}

#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) epoch: StreamEpoch,
    pub(crate) owner: Option<NodeEpoch>,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// Live ranges by their start; they do not overlap.
    spans: BTreeMap<Offset, Span>,
    /// Those of them that are in stream objects.
    stream_objects: usize,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    end: Offset,
    object: ObjectId,
}

#[derive(Debug)]
struct Object {
    kind: ObjectKind,
    size: u64,
    /// Its ranges.
    ranges: usize,
    /// Those of them that are in their stream's `spans`.
    live: usize,
}

/// An object of an upload, whatever its kind.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub(crate) id: ObjectId,
    pub(crate) kind: ObjectKind,
    pub(crate) size: u64,
    pub(crate) ranges: Vec<StreamRange>,
}

impl Committed {
    /// The objects of `upload`.
    pub(crate) fn of(upload: Upload) -> Vec<Self> {
        Self::both(upload.stream_set, upload.stream_objects)
    }

    /// The outputs of `compaction`.
    pub(crate) fn outputs_of(compaction: Compaction) -> Vec<Self> {
        Self::both(compaction.stream_set, compaction.stream_objects)
    }

    fn both(set: Option<StreamSetObject>, streams: Vec<StreamObject>) -> Vec<Self> {
        let set = set.into_iter().map(|object| Self {
            id: object.id,
            kind: ObjectKind::StreamSet,
            size: object.size,
            ranges: object.ranges,
        });
        let streams = streams.into_iter().map(|object| Self {
            id: object.id,
            kind: ObjectKind::Stream,
            size: object.size,
            ranges: vec![object.range],
        });
        set.chain(streams).collect()
    }

    /// Whether a range has no offsets, or there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() || self.ranges.iter().any(|range| range.start >= range.end)
    }
}

impl Stream {
    pub(crate) fn new(
        epoch: StreamEpoch,
        owner: Option<NodeEpoch>,
        start: Offset,
        end: Offset,
    ) -> Self {
        Self {
            epoch,
            owner,
            start,
            end,
            spans: BTreeMap::new(),
            stream_objects: 0,
        }
    }

    pub(crate) fn meta(&self, id: StreamId) -> StreamMeta {
        StreamMeta {
            id,
            epoch: self.epoch,
            start: self.start,
            end: self.end,
        }
    }

    /// Whether a range from `start` on continues the stream. A gap is one only if it is readable:
    /// what was trimmed before it was uploaded need not be uploaded.
    fn continues_at(&self, end: Offset, start: Offset) -> bool {
        start == end || (end < start && start <= self.start)
    }
}

impl Index {
    /// An index without streams, when `next_stream` is the next one to be created.
    pub(crate) fn new(next_stream: u64) -> Self {
        Self {
            next_stream,
            ..Self::default()
        }
    }

    /// Checks that `objects` may be committed under `node_epoch`.
    pub(crate) fn check(
        &self,
        objects: &[Committed],
        node_epoch: NodeEpoch,
    ) -> Result<(), CommitError> {
        if let Some(object) = objects.iter().find(|object| object.is_empty()) {
            return Err(CommitError::EmptyRange(object.id));
        }
        let mut ranges: Vec<_> = objects.iter().flat_map(|object| &object.ranges).collect();
        ranges.sort_unstable();
        let mut ends: HashMap<StreamId, Offset> = HashMap::new();
        for &&StreamRange { stream, start, end } in &ranges {
            let Some(known) = self.streams.get(&stream) else {
                if stream.get() >= self.next_stream {
                    return Err(CommitError::UnknownStream(stream));
                }
                continue;
            };
            if known.owner != Some(node_epoch) {
                return Err(CommitError::NotOwner(stream));
            }
            let expected = ends.insert(stream, end).unwrap_or(known.end);
            if !known.continues_at(expected, start) {
                return Err(CommitError::Discontinuous {
                    stream,
                    expected,
                    got: start,
                });
            }
        }
        Ok(())
    }

    /// Whether any of `ranges` can still be read.
    pub(crate) fn any_live(&self, ranges: &[StreamRange]) -> bool {
        ranges.iter().any(|range| self.is_live(range))
    }

    /// Those of `ranges` whose stream exists but has been trimmed beyond them.
    pub(crate) fn trimmed<'a>(&self, ranges: &'a [StreamRange]) -> Vec<&'a StreamRange> {
        let trimmed =
            |range: &&StreamRange| self.streams.contains_key(&range.stream) && !self.is_live(range);
        ranges.iter().filter(trimmed).collect()
    }

    fn is_live(&self, range: &StreamRange) -> bool {
        self.streams
            .get(&range.stream)
            .is_some_and(|stream| range.end > stream.start)
    }

    /// Adds a committed object.
    pub(crate) fn add(&mut self, object: Committed) {
        let (ranges, mut live) = (object.ranges.len(), 0);
        for range in object.ranges {
            let is_live = self.is_live(&range);
            let Some(stream) = self.streams.get_mut(&range.stream) else {
                continue;
            };
            stream.end = stream.end.max(range.end);
            if is_live {
                live += 1;
                stream.stream_objects += usize::from(object.kind == ObjectKind::Stream);
                stream.spans.insert(
                    range.start,
                    Span {
                        end: range.end,
                        object: object.id,
                    },
                );
            }
        }
        if live > 0 {
            let Committed { id, kind, size, .. } = object;
            if kind == ObjectKind::StreamSet {
                self.stream_sets.insert(id);
            }
            let object = Object {
                kind,
                size,
                ranges,
                live,
            };
            self.objects.insert(id, object);
        }
    }

    /// The ranges of `stream` that end behind `from`.
    pub(crate) fn objects_of(
        &self,
        stream: StreamId,
        from: Offset,
        limit: usize,
    ) -> Vec<ObjectRange> {
        let Some(known) = self.streams.get(&stream) else {
            return Vec::new();
        };
        let from = from.max(known.start);
        let covering = known
            .spans
            .range(..=from)
            .next_back()
            .filter(|(_, span)| span.end > from);
        let first = covering.map_or(from, |(&start, _)| start);
        let found = known.spans.range(first..).filter_map(|(&start, span)| {
            let object = self.objects.get(&span.object)?;
            let range = StreamRange {
                stream,
                start,
                end: span.end,
            };
            Some(ObjectRange {
                object: span.object,
                size: object.size,
                range,
                kind: object.kind,
            })
        });
        found.take(limit).collect()
    }

    /// The objects that die when, of each of these streams, all below the offset goes away
    /// (`Offset::MAX`: all).
    pub(crate) fn dying(&self, trims: &[(StreamId, Offset)]) -> Vec<ObjectId> {
        let mut lost: HashMap<ObjectId, usize> = HashMap::new();
        for (stream, below) in trims {
            let spans = self
                .streams
                .get(stream)
                .into_iter()
                .flat_map(|known| known.spans.values());
            for span in spans.take_while(|span| span.end <= *below) {
                *lost.entry(span.object).or_default() += 1;
            }
        }
        let dies = |&(id, lost): &(ObjectId, usize)| {
            self.objects
                .get(&id)
                .is_some_and(|object| object.live == lost)
        };
        let mut dying: Vec<_> = lost.into_iter().filter(dies).map(|(id, _)| id).collect();
        dying.sort_unstable();
        dying
    }

    /// Moves a stream's start.
    pub(crate) fn trim(&mut self, stream: StreamId, new_start: Offset) {
        let Some(known) = self.streams.get_mut(&stream) else {
            return;
        };
        known.start = known.start.max(new_start);
        let start = known.start;
        while let Some(first) = known
            .spans
            .first_entry()
            .filter(|span| span.get().end <= start)
        {
            let object = first.remove().object;
            let kind = self.objects.get(&object).map(|object| object.kind);
            known.stream_objects -= usize::from(kind == Some(ObjectKind::Stream));
            release(&mut self.objects, &mut self.stream_sets, object);
        }
    }

    /// Removes streams and all their ranges.
    pub(crate) fn remove_streams(&mut self, streams: &HashSet<StreamId>) {
        for stream in streams {
            let Some(removed) = self.streams.remove(stream) else {
                continue;
            };
            for span in removed.spans.into_values() {
                release(&mut self.objects, &mut self.stream_sets, span.object);
            }
        }
    }

    /// Notes that objects are to be deleted.
    pub(crate) fn retire(&mut self, objects: impl IntoIterator<Item = ObjectId>, now: Duration) {
        self.retired.extend(objects, now);
    }

    /// Stream-set objects behind `after`.
    pub(crate) fn stream_sets(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Vec<StreamSetSummary> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.stream_sets.range((from, Bound::Unbounded));
        let summary = |&object: &ObjectId| {
            let known = self.objects.get(&object)?;
            let share = known.size / (known.ranges.max(1) as u64);
            Some(StreamSetSummary {
                object,
                size: known.size,
                live_bytes: if known.live == known.ranges {
                    known.size
                } else {
                    share * known.live as u64
                },
            })
        };
        behind.filter_map(summary).take(limit).collect()
    }

    /// Streams behind `after`.
    pub(crate) fn stream_summaries(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> Vec<StreamSummary> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.streams.range((from, Bound::Unbounded));
        let summary = |(&stream, known): (&StreamId, &Stream)| StreamSummary {
            stream,
            start: known.start,
            stream_objects: known.stream_objects,
        };
        behind.map(summary).take(limit).collect()
    }

    /// Those of an object's ranges that can still be read; `None` where it is not live.
    pub(crate) fn contents(
        &self,
        object: ObjectId,
        ranges: &[StreamRange],
    ) -> Option<ObjectContents> {
        let known = self.objects.get(&object)?;
        let live = |range: &StreamRange| {
            let stream = self.streams.get(&range.stream)?;
            let span = stream.spans.get(&range.start)?;
            (span.object == object).then(|| LiveRange {
                range: *range,
                readable_from: range.start.max(stream.start),
            })
        };
        let mut live: Vec<LiveRange> = ranges.iter().filter_map(live).collect();
        live.sort_unstable_by_key(|live| live.range);
        Some(ObjectContents {
            object,
            kind: known.kind,
            size: known.size,
            live,
        })
    }

    /// Takes objects with these live ranges out.
    pub(crate) fn remove_objects(&mut self, contents: &[ObjectContents]) {
        for object in contents {
            for live in &object.live {
                if let Some(stream) = self.streams.get_mut(&live.range.stream) {
                    stream.spans.remove(&live.range.start);
                    stream.stream_objects -= usize::from(object.kind == ObjectKind::Stream);
                }
            }
            self.objects.remove(&object.object);
            self.stream_sets.remove(&object.object);
        }
    }
}

/// One range of `object` is gone; so is the object with its last.
fn release(
    objects: &mut HashMap<ObjectId, Object>,
    stream_sets: &mut BTreeSet<ObjectId>,
    object: ObjectId,
) {
    if let Some(known) = objects.get_mut(&object) {
        known.live -= 1;
        if known.live == 0 {
            objects.remove(&object);
            stream_sets.remove(&object);
        }
    }
}
