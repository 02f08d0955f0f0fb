//! The cached entries of one stream, in offset order and without a gap.

use std::collections::VecDeque;

use millrace_model::{Offset, limits::FETCH_ENTRIES_MAX};

use crate::entry::Entry;

/// What of one stream is in memory: always a run that ends at the stream's next offset, because
/// entries come in at the back and leave at the front.
#[derive(Debug, Default)]
pub(crate) struct CachedRun {
    entries: VecDeque<Entry>,
}

impl CachedRun {
    /// The first offset in memory; `None` when nothing is.
    pub(crate) fn first_offset(&self) -> Option<Offset> {
        self.entries.front().map(|entry| entry.base_offset)
    }

    /// One past the last offset in memory; `None` when nothing is.
    pub(crate) fn end_offset(&self) -> Option<Offset> {
        self.entries.back().map(Entry::end_offset)
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        debug_assert!(
            self.entries
                .back()
                .is_none_or(|last| last.end_offset() == entry.base_offset),
            "entries are contiguous"
        );
        self.entries.push_back(entry);
    }

    /// Forgets the entries that end at or below `end`.
    pub(crate) fn evict_below(&mut self, end: Offset) {
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.end_offset() <= end)
        {
            self.entries.pop_front();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// The entries from the one that contains `start` up to those that begin below `end`, as many
    /// as fit into `max_bytes`, but at least one. `None` when `start` is not in memory.
    pub(crate) fn read(&self, start: Offset, end: Offset, max_bytes: usize) -> Option<Vec<Entry>> {
        let after = self
            .entries
            .partition_point(|entry| entry.base_offset <= start);
        let first = after.checked_sub(1)?;
        let mut bytes = 0_usize;
        let mut found = Vec::new();
        for entry in self.entries.range(first..) {
            bytes = bytes.saturating_add(entry.payload.len());
            let full = bytes > max_bytes || found.len() >= FETCH_ENTRIES_MAX;
            if entry.base_offset >= end || (full && !found.is_empty()) {
                break;
            }
            found.push(entry.clone());
        }
        // The last entry may end at or below `start`: then `start` is the next offset.
        found
            .first()
            .is_some_and(|entry| start < entry.end_offset())
            .then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn run_of(counts: &[u32], base: Offset) -> CachedRun {
        let mut run = CachedRun::default();
        let mut next = base;
        for &count in counts {
            let payload = Bytes::from(vec![0; count as usize * 10]);
            run.push(Entry {
                base_offset: next,
                count,
                payload,
            });
            next += u64::from(count);
        }
        run
    }

    fn bases(entries: &[Entry]) -> Vec<Offset> {
        entries.iter().map(|entry| entry.base_offset).collect()
    }

    #[test]
    fn a_read_begins_with_the_entry_that_contains_the_offset() {
        let run = run_of(&[5, 5, 5], 100);
        for (start, expected) in [
            (100, vec![100, 105, 110]),
            (104, vec![100, 105, 110]),
            (105, vec![105, 110]),
        ] {
            let found = run.read(start, 115, usize::MAX).expect("in memory");
            assert_eq!(bases(&found), expected, "from {start}");
        }
        assert_eq!(run.read(99, 115, usize::MAX), None);
        assert_eq!(run.read(115, 120, usize::MAX), None);
    }

    #[test]
    fn bounds_hold_but_one_entry_always_comes() {
        let run = run_of(&[5, 5, 5], 100);
        assert_eq!(
            bases(&run.read(100, 110, usize::MAX).expect("there")),
            [100, 105]
        );
        assert_eq!(
            bases(&run.read(100, 111, usize::MAX).expect("there")),
            [100, 105, 110]
        );
        assert_eq!(bases(&run.read(100, 115, 99).expect("there")), [100]);
        assert_eq!(bases(&run.read(100, 115, 100).expect("there")), [100, 105]);
        assert_eq!(bases(&run.read(100, 115, 0).expect("there")), [100]);
    }

    proptest! {
        #[test]
        fn reads_agree_with_a_walk(
            counts in prop::collection::vec(1u32..5, 1..20),
            evicted in 0u64..60, start in 0u64..80, length in 0u64..40, max_bytes in 0usize..300,
        ) {
            let mut run = run_of(&counts, 10);
            run.evict_below(evicted);
            let end = start + length;
            let inside = run.first_offset().is_some_and(|first| first <= start)
                && run.entries.back().is_some_and(|last| start < last.end_offset());
            match run.read(start, end, max_bytes) {
                None => prop_assert!(!inside || length == 0 && bases(run.entries.make_contiguous())
                    .contains(&start)),
                Some(found) => {
                    prop_assert!(inside);
                    prop_assert!(found[0].base_offset <= start && start < found[0].end_offset());
                    for pair in found.windows(2) {
                        prop_assert_eq!(pair[0].end_offset(), pair[1].base_offset);
                    }
                    let bytes: usize = found.iter().map(|entry| entry.payload.len()).sum();
                    prop_assert!(bytes <= max_bytes || found.len() == 1);
                    prop_assert!(found.last().expect("one").base_offset < end.max(start + 1));
                }
            }
        }
    }
}
