//! The objects' rows.

use std::{collections::BTreeMap, time::Duration};

use millrace_meta::{
    CommitError, LiveRange, ObjectContents, ObjectKind, ObjectRange, StreamObject, StreamSetObject,
    StreamSetSummary, Upload,
};
use millrace_model::{NodeEpoch, ObjectId, Offset, StreamId, StreamRange};

use super::tables::{Stream, Tables};
use crate::planted::Planted;

/// How long a retired object stays.
const RETIRED_RETENTION: Duration = Duration::from_secs(6);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Reserved(NodeEpoch),
    Committed,
    /// Since when; `None` until somebody looks.
    Retired(Option<Duration>),
}

#[derive(Debug, Clone)]
struct Row {
    state: State,
    kind: ObjectKind,
    size: u64,
    ranges: Vec<StreamRange>,
}

/// All objects, by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    rows: BTreeMap<ObjectId, Row>,
    next: u64,
}

/// An object of an upload.
pub(super) struct Uploaded {
    pub(super) id: ObjectId,
    kind: ObjectKind,
    size: u64,
    pub(super) ranges: Vec<StreamRange>,
}

impl Uploaded {
    pub(super) fn all(set: Option<StreamSetObject>, streams: Vec<StreamObject>) -> Vec<Self> {
        let set = set.into_iter().map(|set| Self {
            id: set.id,
            kind: ObjectKind::StreamSet,
            size: set.size,
            ranges: set.ranges,
        });
        let streams = streams.into_iter().map(|one| Self {
            id: one.id,
            kind: ObjectKind::Stream,
            size: one.size,
            ranges: vec![one.range],
        });
        set.chain(streams).collect()
    }
}

impl Objects {
    pub(super) fn reserve(&mut self, epoch: NodeEpoch, count: u32) -> ObjectId {
        let first = self.next;
        self.next += u64::from(count);
        for id in first..self.next {
            let row = Row {
                state: State::Reserved(epoch),
                kind: ObjectKind::Stream,
                size: 0,
                ranges: Vec::new(),
            };
            self.rows.insert(ObjectId(id), row);
        }
        ObjectId(first)
    }

    pub(super) fn retire_reserved_of(&mut self, epoch: NodeEpoch) {
        for row in self.rows.values_mut() {
            if row.state == State::Reserved(epoch) {
                row.state = State::Retired(None);
            }
        }
    }

    pub(super) fn release(&mut self, epoch: NodeEpoch, objects: &[ObjectId]) {
        for id in objects {
            if let Some(row) = self.rows.get_mut(id)
                && row.state == State::Reserved(epoch)
            {
                row.state = State::Retired(None);
            }
        }
    }

    /// What may be deleted; `now` is when this is first seen of an object.
    pub(super) fn retired(&mut self, now: Duration, limit: usize) -> Vec<ObjectId> {
        let mut due = Vec::new();
        for (&id, row) in &mut self.rows {
            let State::Retired(since) = &mut row.state else {
                continue;
            };
            let since = *since.get_or_insert(now);
            if since + RETIRED_RETENTION <= now && due.len() < limit {
                due.push(id);
            }
        }
        due
    }

    pub(super) fn forget(&mut self, objects: &[ObjectId]) {
        for id in objects {
            if matches!(self.rows.get(id), Some(row) if matches!(row.state, State::Retired(_))) {
                self.rows.remove(id);
            }
        }
    }

    /// Ranges of a stream that end behind `from`, ascending.
    pub(super) fn of(&self, stream: StreamId, from: Offset, limit: usize) -> Vec<ObjectRange> {
        let mut found = Vec::new();
        for (&object, row) in &self.rows {
            if row.state != State::Committed {
                continue;
            }
            let of_stream = row.ranges.iter().filter(|range| range.stream == stream);
            found.extend(
                of_stream
                    .filter(|range| range.end > from)
                    .map(|&range| ObjectRange {
                        object,
                        size: row.size,
                        range,
                        kind: row.kind,
                    }),
            );
        }
        found.sort_unstable_by_key(|found| found.range.start);
        found.truncate(limit);
        found
    }

    pub(super) fn stream_sets(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Vec<StreamSetSummary> {
        let sets = self.rows.iter().filter(|(id, row)| {
            row.state == State::Committed
                && row.kind == ObjectKind::StreamSet
                && after.is_none_or(|after| **id > after)
        });
        let summary = |(&object, row): (&ObjectId, &Row)| StreamSetSummary {
            object,
            size: row.size,
            live_bytes: row.size,
        };
        sets.map(summary).take(limit).collect()
    }

    pub(super) fn stream_objects_of(&self, stream: StreamId) -> usize {
        let is_of = |row: &&Row| {
            row.state == State::Committed
                && row.kind == ObjectKind::Stream
                && row.ranges.iter().any(|range| range.stream == stream)
        };
        self.rows.values().filter(is_of).count()
    }

    pub(super) fn is_reserved(&self, object: ObjectId) -> bool {
        let row = self.rows.get(&object);
        row.is_some_and(|row| matches!(row.state, State::Reserved(_)))
    }

    pub(super) fn set_state(&mut self, object: ObjectId, state: State) {
        if let Some(row) = self.rows.get_mut(&object)
            && row.state == State::Committed
        {
            row.state = state;
        }
    }

    pub(super) fn is_recorded(&self, object: &Uploaded) -> bool {
        self.rows.get(&object.id).is_some_and(|row| {
            !matches!(row.state, State::Reserved(_))
                && (row.kind, row.size) == (object.kind, object.size)
                && row.ranges == object.ranges
        })
    }
}

impl Tables {
    /// Commits an upload.
    pub(super) fn commit_upload(&mut self, upload: Upload) -> Result<(), CommitError> {
        let epoch = upload.node_epoch;
        self.node_of(epoch)?;
        let objects = Uploaded::all(upload.stream_set, upload.stream_objects);
        if !objects.is_empty()
            && objects
                .iter()
                .all(|object| self.objects.is_recorded(object))
        {
            return Ok(());
        }
        let mut ranges: Vec<StreamRange> = Vec::new();
        for object in &objects {
            if object.ranges.is_empty() || object.ranges.iter().any(|r| r.start >= r.end) {
                return Err(CommitError::EmptyRange(object.id));
            }
            ranges.extend(&object.ranges);
        }
        ranges.sort_unstable();
        self.uploads += 1;
        if self.has(Planted::ForgetUpload) && self.uploads.is_multiple_of(16) {
            return Ok(());
        }
        for StreamRange { stream, start, end } in ranges {
            if stream.get() >= self.next_stream() {
                return Err(CommitError::UnknownStream(stream));
            }
            let Some(known) = self.streams.get_mut(&stream) else {
                continue;
            };
            extend(known, (stream, epoch), (start, end))?;
        }
        for object in objects {
            let id = object.id;
            self.record(object, epoch)
                .ok_or(CommitError::NotPrepared(id))?;
        }
        Ok(())
    }

    /// Turns a reserved object into a committed one, or into a retired one where nothing in it can be read any more. `None` where
    /// it is not reserved under this epoch.
    pub(super) fn record(&mut self, object: Uploaded, epoch: NodeEpoch) -> Option<()> {
        let Uploaded {
            id,
            kind,
            size,
            ranges,
        } = object;
        let is_live = ranges.iter().any(|range| {
            let stream = self.streams.get(&range.stream);
            stream.is_some_and(|stream| range.end > stream.start)
        });
        let row = self.objects.rows.get_mut(&id);
        *row.filter(|row| row.state == State::Reserved(epoch))? = Row {
            state: if is_live {
                State::Committed
            } else {
                State::Retired(None)
            },
            kind,
            size,
            ranges,
        };
        Some(())
    }

    /// Retires objects of which nothing can be read any more.
    pub(super) fn retire_unreadable(&mut self) {
        let streams = &self.streams;
        for row in self.objects.rows.values_mut() {
            let is_live = |range: &StreamRange| {
                let stream = streams.get(&range.stream);
                stream.is_some_and(|stream| range.end > stream.start)
            };
            if row.state == State::Committed && !row.ranges.iter().any(is_live) {
                row.state = State::Retired(None);
            }
        }
    }

    pub(super) fn contents(&self, object: ObjectId) -> Option<ObjectContents> {
        let row = self.objects.rows.get(&object)?;
        let live = |range: &StreamRange| {
            let stream = self.streams.get(&range.stream)?;
            let readable_from = range.start.max(stream.start);
            (readable_from < range.end).then_some(LiveRange {
                range: *range,
                readable_from,
            })
        };
        let live: Vec<LiveRange> = row.ranges.iter().filter_map(live).collect();
        let is_live = row.state == State::Committed && !live.is_empty();
        is_live.then_some(ObjectContents {
            object,
            kind: row.kind,
            size: row.size,
            live,
        })
    }
}

/// Moves a stream's end over a range that begins where it ended, or behind a gap that was trimmed.
fn extend(
    known: &mut Stream,
    (stream, epoch): (StreamId, NodeEpoch),
    (start, end): (Offset, Offset),
) -> Result<(), CommitError> {
    if known.owner != Some(epoch) {
        return Err(CommitError::NotOwner(stream));
    }
    if start != known.end && !(known.end < start && start <= known.start) {
        return Err(CommitError::Discontinuous {
            stream,
            expected: known.end,
            got: start,
        });
    }
    known.end = end;
    Ok(())
}
