//! Finds the place in the log to search for a timestamp.
//!
//! The first batch whose largest timestamp reaches T is the one that raises the running maximum to T
//! or above. So the index stores the running maximum at some batches: the first batch that reaches T
//! is at or after the last mark whose maximum is still below T. From there a short scan of batch
//! headers finds it. The number of marks is bounded: when there are too many, every second one is
//! dropped and the distance between marks doubles.

use millrace_model::Offset;

/// Marks of one partition. 4,096 take 64 KiB in memory and about 24 KiB in a checkpoint.
pub(crate) const MARKS_MAX: usize = 4_096;

/// Distance between marks at first, bytes of batches: what a walk reads at most while the partition
/// is below a gibibyte. Doubles with each thinning.
const STRIDE_BYTES_MIN: u64 = 256 * 1024;

/// A place in the log: batches below `offset` have timestamps of at most `max_timestamp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: Offset,
    pub(crate) max_timestamp: i64,
}

/// The largest timestamp of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) timestamp: i64,
    /// Base offset of the first batch that has it.
    pub(crate) batch: Offset,
}

/// The time index of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimeIndex {
    /// Ascending in both fields.
    marks: Vec<Mark>,
    latest: Option<Latest>,
    stride_bytes: u64,
    /// Bytes of batches since the last mark.
    since_mark_bytes: u64,
}

impl Default for TimeIndex {
    fn default() -> Self {
        Self {
            marks: Vec::new(),
            latest: None,
            stride_bytes: STRIDE_BYTES_MIN,
            since_mark_bytes: 0,
        }
    }
}

impl TimeIndex {
    /// An index as a checkpoint kept it. Marks must ascend; `None` where they do not.
    pub(crate) fn from_parts(
        marks: Vec<Mark>,
        latest: Option<Latest>,
        stride_bytes: u64,
    ) -> Option<Self> {
        let ascends = |pair: &[Mark]| match pair {
            [a, b] => a.offset < b.offset && a.max_timestamp <= b.max_timestamp,
            _ => true,
        };
        let sound = marks.windows(2).all(ascends) && marks.len() <= MARKS_MAX;
        let stride_bytes = stride_bytes.max(STRIDE_BYTES_MIN);
        sound.then_some(Self {
            marks,
            latest,
            stride_bytes,
            since_mark_bytes: 0,
        })
    }

    pub(crate) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub(crate) fn latest(&self) -> Option<Latest> {
        self.latest
    }

    pub(crate) fn stride_bytes(&self) -> u64 {
        self.stride_bytes
    }

    /// Takes note of a batch at the log's end.
    pub(crate) fn append(&mut self, base_offset: Offset, max_timestamp: i64, bytes: u64) {
        if self.since_mark_bytes >= self.stride_bytes {
            if let Some(latest) = self.latest {
                self.marks.push(Mark {
                    offset: base_offset,
                    max_timestamp: latest.timestamp,
                });
            }
            self.since_mark_bytes = 0;
            if self.marks.len() > MARKS_MAX {
                self.thin();
            }
        }
        self.since_mark_bytes = self.since_mark_bytes.saturating_add(bytes);
        if self
            .latest
            .is_none_or(|latest| max_timestamp > latest.timestamp)
        {
            self.latest = Some(Latest {
                timestamp: max_timestamp,
                batch: base_offset,
            });
        }
    }

    fn thin(&mut self) {
        let mut keep = false;
        self.marks.retain(|_| {
            keep = !keep;
            keep
        });
        self.stride_bytes = self.stride_bytes.saturating_mul(2);
    }

    /// Where to begin looking for the first batch that reaches `timestamp`: no batch below has it.
    /// `None` where no batch at all has it.
    pub(crate) fn seek(&self, timestamp: i64) -> Option<Offset> {
        self.latest.filter(|latest| latest.timestamp >= timestamp)?;
        let below = self
            .marks
            .partition_point(|mark| mark.max_timestamp < timestamp);
        Some(
            below
                .checked_sub(1)
                .map_or(0, |last| self.marks[last].offset),
        )
    }

    /// Forgets marks below the log's new start, but for the last one.
    pub(crate) fn trim(&mut self, start: Offset) {
        let below = self.marks.partition_point(|mark| mark.offset <= start);
        self.marks.drain(..below.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Seeking never lands behind the first batch that reaches the timestamp, and the walk from
        /// there is short.
        #[test]
        fn a_seek_is_never_too_far(
            timestamps in prop::collection::vec(0i64..100, 1..300), wanted in 0i64..120,
        ) {
            let mut index = TimeIndex::default();
            let bytes = STRIDE_BYTES_MIN / 4;
            for (offset, &timestamp) in timestamps.iter().enumerate() {
                index.append(offset as u64, timestamp, bytes);
            }
            let first = timestamps.iter().position(|&timestamp| timestamp >= wanted);
            let found = index.seek(wanted);
            prop_assert_eq!(found.is_some(), first.is_some());
            if let (Some(found), Some(first)) = (found, first) {
                prop_assert!(found as usize <= first && first - found as usize <= 4, "{found} {first}");
            }
            let max = timestamps.iter().max().copied();
            let latest = index.latest().expect("not empty");
            prop_assert_eq!(Some(latest.timestamp), max);
            prop_assert_eq!(timestamps.iter().position(|t| Some(*t) == max), Some(latest.batch as usize));
        }

        #[test]
        fn trimming_keeps_seeks_right(
            timestamps in prop::collection::vec(0i64..100, 1..100), start in 0u64..100, wanted in 0i64..100,
        ) {
            let mut index = TimeIndex::default();
            for (offset, &timestamp) in timestamps.iter().enumerate() {
                index.append(offset as u64, timestamp, STRIDE_BYTES_MIN);
            }
            let before = index.seek(wanted);
            index.trim(start);
            let after = index.seek(wanted);
            prop_assert_eq!(before.map(|offset| offset.max(start)), after.map(|offset| offset.max(start)));
        }
    }

    #[test]
    fn the_number_of_marks_is_bounded() {
        let mut index = TimeIndex::default();
        let batches = MARKS_MAX as u64 * 5;
        for offset in 0..batches {
            index.append(offset, offset as i64, STRIDE_BYTES_MIN);
            assert!(index.marks().len() <= MARKS_MAX);
        }
        assert_eq!(index.stride_bytes(), STRIDE_BYTES_MIN * 8);
        for wanted in (0..batches as i64).step_by(997) {
            let found = index.seek(wanted).expect("there") as i64;
            assert!(found <= wanted && wanted - found <= 16, "{wanted} {found}");
        }
    }
}
