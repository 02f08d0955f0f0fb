//! The metadata that is asked often, in memory: where each stream's ranges are.
//!
//! It is rebuilt from the database at open and changed only after a transaction has committed, by
//! the one writer. Lookups cost O(log ranges of the stream), whatever the number of objects.

use std::collections::{BTreeMap, HashMap, HashSet};

use millrace_model::{NodeEpoch, ObjectId, Offset, StreamEpoch, StreamId, StreamRange};

use crate::{CommitError, ObjectKind, ObjectRange, StreamMeta, Upload};

#[derive(Debug, Default)]
pub(super) struct Index {
    /// Streams that exist.
    pub(super) streams: HashMap<StreamId, Stream>,
    /// Committed objects with at least one live range.
    objects: HashMap<ObjectId, Object>,
    /// The next stream id: a stream below it that is not in `streams` has been deleted.
    pub(super) next_stream: u64,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) epoch: StreamEpoch,
    pub(super) owner: Option<NodeEpoch>,
    pub(super) start: Offset,
    pub(super) end: Offset,
    /// Live ranges by their start; they do not overlap.
    spans: BTreeMap<Offset, Span>,
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
    /// Ranges that are in their stream's `spans`.
    live: usize,
}

/// An object of an upload, whatever its kind.
#[derive(Debug, Clone)]
pub(super) struct Committed {
    pub(super) id: ObjectId,
    pub(super) kind: ObjectKind,
    pub(super) size: u64,
    pub(super) ranges: Vec<StreamRange>,
}

impl Committed {
    /// The objects of `upload`.
    pub(super) fn of(upload: Upload) -> Vec<Self> {
        let set = upload.stream_set.into_iter().map(|object| Self {
            id: object.id,
            kind: ObjectKind::StreamSet,
            size: object.size,
            ranges: object.ranges,
        });
        let streams = upload.stream_objects.into_iter().map(|object| Self {
            id: object.id,
            kind: ObjectKind::Stream,
            size: object.size,
            ranges: vec![object.range],
        });
        set.chain(streams).collect()
    }
}

impl Stream {
    pub(super) fn new(
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
        }
    }

    pub(super) fn meta(&self, id: StreamId) -> StreamMeta {
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
    pub(super) fn new(next_stream: u64) -> Self {
        Self {
            next_stream,
            ..Self::default()
        }
    }

    /// Checks that `objects` may be committed under `node_epoch`.
    pub(super) fn check(
        &self,
        objects: &[Committed],
        node_epoch: NodeEpoch,
    ) -> Result<(), CommitError> {
        let empty = |object: &&Committed| {
            object.ranges.is_empty() || object.ranges.iter().any(|range| range.start >= range.end)
        };
        if let Some(object) = objects.iter().find(empty) {
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
    pub(super) fn any_live(&self, ranges: &[StreamRange]) -> bool {
        ranges.iter().any(|range| self.is_live(range))
    }

    /// Those of `ranges` whose stream exists but has been trimmed beyond them.
    pub(super) fn trimmed<'a>(&self, ranges: &'a [StreamRange]) -> Vec<&'a StreamRange> {
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
    pub(super) fn add(&mut self, object: Committed) {
        let mut live = 0;
        for range in object.ranges {
            let is_live = self.is_live(&range);
            let Some(stream) = self.streams.get_mut(&range.stream) else {
                continue;
            };
            stream.end = stream.end.max(range.end);
            if is_live {
                live += 1;
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
            self.objects.insert(id, Object { kind, size, live });
        }
    }

    /// The ranges of `stream` that end behind `from`.
    pub(super) fn objects_of(
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
    pub(super) fn dying(&self, trims: &[(StreamId, Offset)]) -> Vec<ObjectId> {
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
    pub(super) fn trim(&mut self, stream: StreamId, new_start: Offset) {
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
            release(&mut self.objects, object);
        }
    }

    /// Removes streams and all their ranges.
    pub(super) fn remove_streams(&mut self, streams: &HashSet<StreamId>) {
        for stream in streams {
            let Some(removed) = self.streams.remove(stream) else {
                continue;
            };
            for span in removed.spans.into_values() {
                release(&mut self.objects, span.object);
            }
        }
    }
}

/// One range of `object` is gone; so is the object with its last.
fn release(objects: &mut HashMap<ObjectId, Object>, object: ObjectId) {
    if let Some(known) = objects.get_mut(&object) {
        known.live -= 1;
        if known.live == 0 {
            objects.remove(&object);
        }
    }
}
