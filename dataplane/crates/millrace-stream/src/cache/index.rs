//! The cached entries of one stream, in offset order and without a gap.

use std::{collections::VecDeque, ops::Range};

use bytes::Bytes;
use millrace_model::{Offset, limits::FETCH_ENTRIES_MAX};
use millrace_wal::WalRange;

use crate::entry::Entry;

/// An entry that is not known to be in objects, or was not a moment ago. Its payload is in memory
/// or, durable, in the log.
#[derive(Debug, Clone)]
pub(crate) struct CachedEntry {
    pub(crate) base_offset: Offset,
    pub(crate) count: u32,
    /// The payload's length.
    pub(crate) payload_bytes: u32,
    /// Its record in the log.
    pub(crate) wal: WalRange,
    /// `None` while only the log has it.
    payload: Option<Bytes>,
}

impl CachedEntry {
    /// An entry whose payload is in memory.
    pub(crate) fn in_memory(entry: Entry, wal: WalRange) -> Self {
        Self {
            base_offset: entry.base_offset,
            count: entry.count,
            payload_bytes: length_of(&entry),
            wal,
            payload: Some(entry.payload),
        }
    }

    /// An entry whose payload only the log has.
    pub(crate) fn on_device(entry: &Entry, wal: WalRange) -> Self {
        Self::located(entry.base_offset, entry.count, length_of(entry), wal)
    }

    /// The same of an entry that was found in the log.
    pub(crate) const fn located(
        base_offset: Offset,
        count: u32,
        payload_bytes: u32,
        wal: WalRange,
    ) -> Self {
        Self {
            base_offset,
            count,
            payload_bytes,
            wal,
            payload: None,
        }
    }

    /// One past the last offset.
    pub(crate) fn end_offset(&self) -> Offset {
        self.base_offset.saturating_add(u64::from(self.count))
    }

    /// The entry, where its payload is in memory.
    fn entry(&self) -> Option<Entry> {
        Some(Entry {
            base_offset: self.base_offset,
            count: self.count,
            payload: self.payload.clone()?,
        })
    }
}

fn length_of(entry: &Entry) -> u32 {
    u32::try_from(entry.payload.len()).expect("a record of the log is smaller than 4 GiB")
}

/// What the store itself has of one stream: always a run that ends at the stream's next offset,
/// because entries come in at the back and leave at the front.
#[derive(Debug, Default)]
pub(crate) struct CachedRun {
    entries: VecDeque<CachedEntry>,
}

impl CachedRun {
    /// The first offset; `None` when there is nothing.
    pub(crate) fn first_offset(&self) -> Option<Offset> {
        self.entries.front().map(|entry| entry.base_offset)
    }

    /// One past the last offset; `None` when there is nothing.
    pub(crate) fn end_offset(&self) -> Option<Offset> {
        self.entries.back().map(CachedEntry::end_offset)
    }

    pub(crate) fn push(&mut self, entry: CachedEntry) {
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
        // A long outage of the bucket leaves a long run; its room is not kept forever.
        if self.entries.capacity() > SPARE_ENTRIES + 4 * self.entries.len() {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    pub(crate) fn clear(&mut self) {
        self.entries = VecDeque::new();
    }

    /// Leaves the payloads of the entries in `offsets` to the log, which has them durably.
    pub(crate) fn offload(&mut self, offsets: Range<Offset>) {
        let below = |offset| {
            self.entries
                .partition_point(|entry| entry.base_offset < offset)
        };
        let first = below(offsets.start);
        let last = below(offsets.end).max(first);
        for entry in self.entries.range_mut(first..last) {
            entry.payload = None;
        }
    }

    /// The entries from the one that contains `start` up to those that begin below `end`, as many
    /// as fit into `max_bytes` and are in memory, but at least one. `None` where that is not.
    pub(crate) fn read(&self, start: Offset, end: Offset, max_bytes: usize) -> Option<Vec<Entry>> {
        let found: Vec<Entry> = self
            .from(start, end, max_bytes)?
            .map_while(CachedEntry::entry)
            .collect();
        (!found.is_empty()).then_some(found)
    }

    /// The same of what only the log has.
    pub(crate) fn located(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Option<Vec<CachedEntry>> {
        let found: Vec<CachedEntry> = self
            .from(start, end, max_bytes)?
            .take_while(|entry| entry.payload.is_none())
            .cloned()
            .collect();
        (!found.is_empty()).then_some(found)
    }

    /// Entries wherever their payloads are; `None` where none contains `start`.
    fn from(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Option<impl Iterator<Item = &CachedEntry>> {
        let after = self
            .entries
            .partition_point(|entry| entry.base_offset <= start);
        let first = after.checked_sub(1)?;
        // The last entry may end at or below `start`: then `start` is the next offset.
        if self.entries.get(first)?.end_offset() <= start {
            return None;
        }
        let mut bytes = 0_usize;
        let taken = self.entries.range(first..).enumerate();
        let fits = move |&(index, entry): &(usize, &CachedEntry)| {
            bytes = bytes.saturating_add(entry.payload_bytes as usize);
            let full = bytes > max_bytes || index >= FETCH_ENTRIES_MAX;
            entry.base_offset < end && (!full || index == 0)
        };
        Some(taken.take_while(fits).map(|(_, entry)| entry))
    }
}

/// Room for entries that a run may keep unused.
const SPARE_ENTRIES: usize = 1_024;

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
            let entry = Entry {
                base_offset: next,
                count,
                payload,
            };
            let wal = WalRange {
                start: next * 100,
                end: next * 100 + 50,
            };
            run.push(CachedEntry::in_memory(entry, wal));
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

    #[test]
    fn what_is_left_to_the_log_is_located_and_not_read() {
        let mut run = run_of(&[5, 5, 5, 5], 100);
        run.offload(105..115);
        let located = |run: &CachedRun, start, max_bytes| {
            let found = run.located(start, 200, max_bytes);
            found.map(|found| found.iter().map(|e| e.base_offset).collect::<Vec<_>>())
        };
        assert_eq!(bases(&run.read(100, 200, 999).expect("there")), [100]);
        assert_eq!(run.read(107, 200, 999), None);
        assert_eq!(bases(&run.read(115, 200, 999).expect("there")), [115]);
        assert_eq!(located(&run, 100, 999), None);
        assert_eq!(located(&run, 107, 999), Some(vec![105, 110]));
        assert_eq!(located(&run, 107, 1), Some(vec![105]));
        assert_eq!(located(&run, 120, 999), None);
        // What is gone is not looked for.
        run.evict_below(110);
        run.offload(100..112);
        assert_eq!(located(&run, 110, 999), Some(vec![110]));
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
                None => prop_assert!(!inside || length == 0),
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
