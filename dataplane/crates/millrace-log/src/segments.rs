//! Bytes and time by offset: the positions at which retention can cut the log.
//!
//! Kafka deletes records by whole segment files. A stream has none, so the partition tracks its own
//! segments: runs of whole batches, each with its start, the number of bytes before it, and its
//! largest timestamp. Retention moves the log start from one segment's end to another's; the size
//! between any two offsets is interpolated.
//!
//! A segment ends at [`STRIDE_BYTES_MIN`] bytes or [`STRIDE_MS_MIN`] of timestamps, or, if the log is
//! larger, at the [`STRIDES`]th part of its bytes or of its time. When there are more than
//! [`SEGMENTS_MAX`], neighbours are merged within the same bounds. So there are few segments whatever
//! the log holds, and a segment has at most the larger of
//! - 256 KiB,
//! - 1/128 of the maximum size of the log since the segment was written, and
//! - one batch.
//!
//! That is the *step*: the position of an offset inside a segment is interpolated, with an error of
//! less than one step. The log's end and all ends of segments are exact.

use std::collections::VecDeque;

use millrace_model::Offset;

use crate::time_index::TimeIndex;

/// Segments of one partition: 512 take 12 KiB in memory and about 5 KiB in a checkpoint.
pub(crate) const SEGMENTS_MAX: usize = 512;

/// Into how many parts a log is divided at least, by bytes and by time, once it is large. Joining
/// leaves at most 2 × 128 + 128 + 1 segments, three quarters of the most: so it is rare.
const STRIDES: u64 = 128;

/// Segments are not smaller than this without need, bytes: the time index's distance, too.
const STRIDE_BYTES_MIN: u64 = 256 * 1024;

/// Nor shorter than this, milliseconds of timestamps: well below any useful `retention.ms`.
const STRIDE_MS_MIN: u64 = 10_000;

/// A run of batches; it ends where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Offset of its first batch.
    pub(crate) base_offset: Offset,
    /// Bytes of all batches of the partition that were ever written before it.
    pub(crate) position: u64,
    /// The largest timestamp of its batches, milliseconds.
    pub(crate) max_timestamp: i64,
}

/// A batch at the log's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appended {
    pub(crate) base_offset: Offset,
    pub(crate) end_offset: Offset,
    pub(crate) max_timestamp: i64,
    pub(crate) bytes: u64,
}

/// The segments of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Ascending; batches are added to the last one.
    list: VecDeque<Segment>,
    /// The log start offset that the sizes are counted from.
    start: Offset,
    /// One past the last offset.
    end: Offset,
    /// Bytes of all batches that were ever written.
    position: u64,
    /// The timestamp with which the last segment began.
    opened_at: i64,
}

/// What bounds a segment now.
#[derive(Debug, Clone, Copy)]
struct Stride {
    bytes: u64,
    ms: u64,
}

impl Segments {
    /// Segments as a checkpoint kept them, up to `end`. `None` where they do not ascend.
    pub(crate) fn from_parts(list: Vec<Segment>, end: Offset, position: u64) -> Option<Self> {
        let ascends = |pair: &[Segment]| match pair {
            [a, b] => a.base_offset < b.base_offset && a.position <= b.position,
            _ => true,
        };
        let ends = list.last().is_none_or(|last| {
            // A log that was trimmed to its end has no segment; any other ends behind its last.
            last.base_offset < end && last.position <= position
        });
        let sound = list.windows(2).all(ascends) && ends && list.len() <= SEGMENTS_MAX;
        sound.then(|| Self {
            start: list.first().map_or(end, |first| first.base_offset),
            opened_at: list.last().map_or(0, |last| last.max_timestamp),
            list: list.into(),
            end,
            position,
        })
    }

    /// Segments of a log whose checkpoint did not keep them, from the marks of its time index: they
    /// stand at least a stride apart, so the sizes are a lower bound of the real ones.
    pub(crate) fn estimated(time_index: &TimeIndex, end: Offset) -> Self {
        let mut segments = Self::default();
        let stride = time_index.stride_bytes();
        let below = |offset| offset < end;
        for mark in time_index.marks().iter().filter(|mark| below(mark.offset)) {
            segments.list.push_back(Segment {
                base_offset: segments.end,
                position: segments.position,
                max_timestamp: mark.max_timestamp,
            });
            segments.end = mark.offset;
            segments.position = segments.position.saturating_add(stride);
        }
        if let Some(latest) = time_index.latest().filter(|_| below(segments.end)) {
            segments.list.push_back(Segment {
                base_offset: segments.end,
                position: segments.position,
                max_timestamp: latest.timestamp,
            });
            // Somewhere between nothing and a stride.
            segments.position = segments.position.saturating_add(stride / 2);
            segments.opened_at = latest.timestamp;
        }
        segments.end = end;
        if segments.list.len() > SEGMENTS_MAX {
            segments.join();
        }
        segments
    }

    pub(crate) fn list(&self) -> &VecDeque<Segment> {
        &self.list
    }

    /// The log start offset that the sizes are counted from.
    pub(crate) fn start(&self) -> Offset {
        self.start
    }

    /// Bytes of all batches that were ever written.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Takes note of a batch at the log's end.
    pub(crate) fn append(&mut self, batch: Appended) {
        let Appended {
            base_offset,
            end_offset,
            max_timestamp,
            bytes,
        } = batch;
        if self.is_full(bytes, max_timestamp) {
            self.list.push_back(Segment {
                base_offset,
                position: self.position,
                max_timestamp,
            });
            self.opened_at = max_timestamp;
        } else if let Some(last) = self.list.back_mut() {
            last.max_timestamp = last.max_timestamp.max(max_timestamp);
        }
        self.position = self.position.saturating_add(bytes);
        self.end = end_offset;
        if self.list.len() > SEGMENTS_MAX {
            self.join();
        }
    }

    /// Whether a batch begins a segment of its own.
    fn is_full(&self, bytes: u64, max_timestamp: i64) -> bool {
        let Some(last) = self.list.back() else {
            return true;
        };
        let stride = self.stride();
        let age = max_timestamp.saturating_sub(self.opened_at);
        (self.position - last.position).saturating_add(bytes) > stride.bytes
            || u64::try_from(age).is_ok_and(|age| age >= stride.ms)
    }

    fn stride(&self) -> Stride {
        let (Some(first), Some(last)) = (self.list.front(), self.list.back()) else {
            return Stride {
                bytes: STRIDE_BYTES_MIN,
                ms: STRIDE_MS_MIN,
            };
        };
        let span = last.max_timestamp.saturating_sub(first.max_timestamp);
        Stride {
            bytes: ((self.position - first.position) / STRIDES).max(STRIDE_BYTES_MIN),
            ms: (u64::try_from(span).unwrap_or(0) / STRIDES).max(STRIDE_MS_MIN),
        }
    }

    /// Makes fewer of them. Where timestamps jump about so much that time divides the log into more
    /// than its share, bytes alone count.
    fn join(&mut self) {
        let stride = self.stride();
        self.join_within(stride);
        if self.list.len() > SEGMENTS_MAX / 8 * 7 {
            let ms = u64::MAX;
            self.join_within(Stride { ms, ..stride });
        }
    }

    fn join_within(&mut self, stride: Stride) {
        let mut joined: VecDeque<Segment> = VecDeque::with_capacity(self.list.len());
        let mut group_began_at = 0_i64;
        for n in 0..self.list.len() {
            let next = self.list[n];
            let next_ends = self
                .list
                .get(n + 1)
                .map_or(self.position, |after| after.position);
            let fits = joined.back().is_some_and(|group| {
                let span = next.max_timestamp.saturating_sub(group_began_at);
                next_ends - group.position <= stride.bytes
                    && u64::try_from(span).unwrap_or(0) <= stride.ms
            });
            match joined.back_mut().filter(|_| fits) {
                Some(group) => group.max_timestamp = group.max_timestamp.max(next.max_timestamp),
                None => {
                    joined.push_back(next);
                    group_began_at = next.max_timestamp;
                }
            }
        }
        self.list = joined;
    }

    /// Where `offset` stands: bytes of all batches before it. By proportion inside a segment.
    fn position_of(&self, offset: Offset) -> u64 {
        if offset >= self.end {
            return self.position;
        }
        let behind = self
            .list
            .partition_point(|segment| segment.base_offset <= offset);
        let Some(segment) = behind.checked_sub(1).map(|at| self.list[at]) else {
            return self
                .list
                .front()
                .map_or(self.position, |first| first.position);
        };
        let (end, end_position) = self.end_of(behind - 1);
        let bytes = u128::from(end_position - segment.position);
        let share = u128::from(offset - segment.base_offset) * bytes
            / u128::from(end - segment.base_offset).max(1);
        segment.position + u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Where the segment `at` ends, by offset and in bytes.
    fn end_of(&self, at: usize) -> (Offset, u64) {
        let next = self.list.get(at + 1);
        next.map_or((self.end, self.position), |next| {
            (next.base_offset, next.position)
        })
    }

    /// Bytes from the log start to the log's end.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.position - self.position_of(self.start)
    }

    /// Bytes between two offsets, as far as the log has them.
    pub(crate) fn bytes_between(&self, from: Offset, to: Offset) -> u64 {
        let to = self.position_of(to.max(self.start));
        to.saturating_sub(self.position_of(from.max(self.start)))
    }

    /// The log begins at `start` now; gives the bytes that were freed. Never moves back.
    pub(crate) fn trim(&mut self, start: Offset) -> u64 {
        if start <= self.start {
            return 0;
        }
        let freed = self.bytes_between(self.start, start);
        self.start = start;
        // A checkpoint may be older than a trim that passed its end.
        self.end = self.end.max(start);
        while !self.list.is_empty() && self.end_of(0).0 <= start {
            self.list.pop_front();
        }
        freed
    }

    /// The batches between two offsets, both where a batch begins, have become `removed` bytes smaller, all of them in the same
    /// proportion as far as is known here. Segments are split there: a log is compacted in many small ranges, and what one has lost
    /// must not count as lost by the rest of its segment.
    ///
    /// What a range has lost may be more than it had by proportion inside its segment. Others had less, then: the whole log loses the
    /// rest, so that the sum of all stays right.
    pub(crate) fn shrink(&mut self, (from, to): (Offset, Offset), removed: u64) {
        if removed == 0 {
            return;
        }
        self.split_at(from);
        self.split_at(to);
        let rest = self.shrink_range((from, to), removed);
        if let Some(first) = self.list.front() {
            self.shrink_range((first.base_offset, self.end), rest);
        }
        if self.list.len() > SEGMENTS_MAX {
            self.join();
        }
    }

    /// Gives what the range was too small to lose.
    fn shrink_range(&mut self, (from, to): (Offset, Offset), asked: u64) -> u64 {
        let (begin, end) = (self.position_of(from), self.position_of(to));
        let whole = end.saturating_sub(begin);
        let removed = asked.min(whole);
        let shrunk = |position: u64| {
            let within = u128::from(position.clamp(begin, end) - begin);
            let gone = within * u128::from(removed) / u128::from(whole.max(1));
            position - u64::try_from(gone).unwrap_or(0)
        };
        for segment in &mut self.list {
            segment.position = shrunk(segment.position);
        }
        self.position = shrunk(self.position);
        asked - removed
    }

    /// Makes a segment begin at `offset`, if there is one around it.
    fn split_at(&mut self, offset: Offset) {
        let behind = self
            .list
            .partition_point(|segment| segment.base_offset < offset);
        let is_start = |segment: &Segment| segment.base_offset == offset;
        let is_inside = offset < self.end && !self.list.get(behind).is_some_and(is_start);
        let Some(around) = behind.checked_sub(1).filter(|_| is_inside) else {
            return;
        };
        let rest = Segment {
            base_offset: offset,
            position: self.position_of(offset),
            max_timestamp: self.list[around].max_timestamp,
        };
        self.list.insert(behind, rest);
    }

    /// Whether there is one segment, or the parts of one.
    fn has_one_timestamp(&self) -> bool {
        let ends = self.list.front().zip(self.list.back());
        ends.is_some_and(|(first, last)| first.max_timestamp == last.max_timestamp)
    }

    /// When the segment with `offset` began, by its timestamps, at the latest.
    pub(crate) fn begins_at(&self, offset: Offset) -> Option<i64> {
        let behind = self
            .list
            .partition_point(|segment| segment.base_offset <= offset);
        let mut at = behind.saturating_sub(1);
        // A segment that was split has its timestamp in all its parts: the whole one began before the first of them.
        while at > 0 && self.list[at - 1].max_timestamp == self.list[at].max_timestamp {
            at -= 1;
        }
        match at.checked_sub(1) {
            Some(before) => self.list.get(before).map(|before| before.max_timestamp),
            None if self.has_one_timestamp() => Some(self.opened_at),
            None => self.list.front().map(|first| first.max_timestamp),
        }
    }

    /// The end of the longest run of oldest segments that all go, at most `limit`, and why the last
    /// of them goes. `goes` decides on a segment and the bytes that the log has behind it.
    pub(crate) fn end_of_run<R>(
        &self,
        limit: Offset,
        goes: impl Fn(&Segment, u64) -> Option<R>,
    ) -> Option<(Offset, R)> {
        let ends = self.list.iter().enumerate().map_while(|(at, segment)| {
            let (end, end_position) = self.end_of(at);
            let reason = goes(segment, self.position - end_position)?;
            (end <= limit).then_some((end, reason))
        });
        ends.last()
    }
}

#[cfg(test)]
mod tests;
