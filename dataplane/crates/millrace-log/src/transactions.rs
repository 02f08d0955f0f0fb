//! The transactions of one partition (KIP-98): which ones are open, which ones have ended, and which ones were aborted.
//!
//! Consumers that read committed records only read up to the last stable offset: below it, every transaction has ended, and its
//! marker is durable. They are told of the aborted transactions among what they read, and drop the records of these themselves.
//!
//! The newest aborted transactions are kept here, in memory and in checkpoints; the others are in the blocks of [`crate::aborted_index`].

use std::collections::{BTreeSet, HashSet, VecDeque};

use millrace_model::Offset;

use crate::aborted_index::{AbortedBounds, AbortedIndex, Block};

/// Transactions of one partition that are open or were aborted and are in memory: 320 kB. Aborted ones are written to blocks from
/// [`AbortedBounds::in_memory`] on. A batch that would open one more is refused, which happens only while blocks cannot be written.
pub(crate) const TRANSACTIONS_MAX: usize = 10_000;

/// Transactions of one partition that are open at once: below half of the producers that a partition remembers, because those
/// with an open transaction are never forgotten.
pub(crate) const OPEN_TRANSACTIONS_MAX: usize = 5_000;

/// What one aborted transaction costs a partition, bytes: its entry in a queue that is at least half full.
pub(crate) const TRANSACTION_BYTES: u64 = 64;

/// The marker that ends a transaction, as its coordinator has it written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionMarker {
    /// Whose transaction ends.
    pub producer_id: i64,
    /// The producer's epoch from the marker on.
    pub producer_epoch: i16,
    /// The epoch of the coordinator.
    pub coordinator_epoch: i32,
    /// Whether the transaction is committed; it is aborted otherwise.
    pub committed: bool,
    /// The version of the transaction protocol. From 2 on, each marker has a higher epoch than the records of its transaction
    /// (KIP-890), and one that has the same epoch is late.
    pub transaction_version: i16,
}

/// A transaction whose records consumers drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: Offset,
}

/// One aborted transaction of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first: Offset,
    /// The marker's offset.
    pub(crate) last: Offset,
    /// No transaction that is entered later begins below.
    pub(crate) later_from: Offset,
}

impl From<Aborted> for AbortedTransaction {
    fn from(aborted: Aborted) -> Self {
        Self {
            producer_id: aborted.producer_id,
            first_offset: aborted.first,
        }
    }
}

/// A transaction that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ended {
    first: Offset,
    /// The marker's offset.
    last: Offset,
}

/// The transactions of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Transactions {
    /// The first offsets of those that are open.
    open: BTreeSet<Offset>,
    /// Those whose markers may not be durable yet, in the order of these. As many as the log takes before it is durable.
    ended: VecDeque<Ended>,
    /// The newest, in the order of the markers.
    aborted: VecDeque<Aborted>,
    /// Where all others are: their markers are below those of the newest.
    index: AbortedIndex,
}

impl Transactions {
    /// As of a checkpoint: all markers are durable. `aborted` has producer id, first offset and marker's offset of each, and is
    /// in the order of the markers, all of which are behind those of `index`. `None` where that is not so.
    pub(crate) fn from_parts(
        open: impl Iterator<Item = Offset>,
        index: AbortedIndex,
        aborted: Vec<(i64, Offset, Offset)>,
    ) -> Option<Self> {
        if let (Some(indexed), Some(&(_, _, first))) = (index.last_max(), aborted.first())
            && first <= indexed
        {
            return None;
        }
        let open: BTreeSet<Offset> = open.collect();
        let end = aborted
            .last()
            .map_or(0, |&(_, _, last)| last.saturating_add(1));
        // What begins later than now begins behind the last marker.
        let mut later_from = open.first().map_or(end, |&open| open.min(end));
        let mut entries = VecDeque::with_capacity(aborted.len());
        let mut before = end;
        for (producer_id, first, last) in aborted.into_iter().rev() {
            if first >= last || last >= before {
                return None;
            }
            before = last;
            entries.push_front(Aborted {
                producer_id,
                first,
                last,
                later_from,
            });
            later_from = later_from.min(first);
        }
        Some(Self {
            open,
            ended: VecDeque::new(),
            aborted: entries,
            index,
        })
    }

    /// The newest aborted transactions.
    pub(crate) fn aborted(&self) -> &VecDeque<Aborted> {
        &self.aborted
    }

    /// Where the others are.
    pub(crate) fn index(&self) -> &AbortedIndex {
        &self.index
    }

    pub(crate) fn index_mut(&mut self) -> &mut AbortedIndex {
        &mut self.index
    }

    /// A batch at `first` opens a transaction.
    pub(crate) fn begin(&mut self, first: Offset) {
        self.open.insert(first);
    }

    /// The marker at `last` ends the transaction that begins at `first`; `aborted` has the producer of one that is aborted.
    pub(crate) fn end(&mut self, first: Offset, last: Offset, aborted: Option<i64>) {
        self.open.remove(&first);
        self.ended.push_back(Ended { first, last });
        if let Some(producer_id) = aborted {
            let oldest_open = self.open.first().copied().unwrap_or(Offset::MAX);
            self.aborted.push_back(Aborted {
                producer_id,
                first,
                last,
                later_from: oldest_open.min(last + 1),
            });
        }
    }

    /// Forgets the ends whose markers are below the high watermark, and gives the first offset of the oldest transaction that is
    /// not stable yet.
    pub(crate) fn first_unstable(&mut self, high_watermark: Offset) -> Option<Offset> {
        while self
            .ended
            .front()
            .is_some_and(|ended| ended.last < high_watermark)
        {
            self.ended.pop_front();
        }
        let ended = self.ended.iter().map(|ended| ended.first).min();
        let open = self.open.first().copied();
        open.into_iter().chain(ended).min()
    }

    /// The aborted transactions in memory that have records or a marker from `from` on and records below `upper`, in the order of their
    /// markers. Those in blocks come before them.
    pub(crate) fn newest_between(&self, from: Offset, upper: Offset) -> Vec<Aborted> {
        let mut found = Vec::new();
        let begin = self.aborted.partition_point(|aborted| aborted.last < from);
        for aborted in self.aborted.range(begin..) {
            if aborted.first < upper {
                found.push(*aborted);
            }
            if aborted.later_from >= upper {
                break;
            }
        }
        found
    }

    /// Forgets the aborted transactions that end below the log's new start. Gives whether blocks are not needed any more.
    pub(crate) fn trim(&mut self, start: Offset) -> bool {
        let spares_blocks = self.index.trim(start);
        let gone = self.aborted.partition_point(|aborted| aborted.last < start);
        self.aborted.drain(..gone);
        self.shrink();
        spares_blocks
    }

    fn shrink(&mut self) {
        if self.aborted.capacity() > 2 * self.aborted.len() {
            self.aborted.shrink_to(self.aborted.len() * 3 / 2);
        }
    }

    /// The oldest in memory, where there are so many that they should be in a block; only those whose markers are below
    /// `durable`, so that a block never has what a crash may take back.
    pub(crate) fn to_index(&self, bounds: &AbortedBounds, durable: Offset) -> Option<Vec<Aborted>> {
        if self.aborted.len() < bounds.in_memory.max(1) || self.index.is_full() {
            return None;
        }
        let count = bounds.per_block.clamp(1, self.aborted.len());
        let oldest = self.aborted.range(..count);
        oldest
            .clone()
            .all(|aborted| aborted.last < durable)
            .then(|| oldest.copied().collect())
    }

    /// What [`to_index`](Self::to_index) gave is in `block`, as far as the log still has it from `start` on.
    pub(crate) fn indexed(&mut self, block: Block, start: Offset) {
        let moved = self
            .aborted
            .partition_point(|aborted| aborted.last <= block.last_max);
        self.aborted.drain(..moved);
        self.index.push(block);
        self.trim(start);
        self.shrink();
    }

    /// Forgets aborted transactions of which log compaction has left nothing, by the offsets of their markers. Those that are in
    /// blocks stay in them.
    pub(crate) fn forget(&mut self, gone: &HashSet<Offset>) {
        if !gone.is_empty() {
            self.aborted.retain(|aborted| !gone.contains(&aborted.last));
        }
    }

    /// Why no `more` transactions may be opened: the name of the bound, and the bound.
    pub(crate) fn full_for(&self, more: usize) -> Option<(&'static str, usize)> {
        if self.open.len() + more > OPEN_TRANSACTIONS_MAX {
            return Some(("open_transactions", OPEN_TRANSACTIONS_MAX));
        }
        let all = self.open.len() + self.aborted.len() + more;
        (all > TRANSACTIONS_MAX).then_some(("aborted_transactions", TRANSACTIONS_MAX))
    }

    /// What they cost, in bytes. Those that are open may be aborted.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let in_memory = (self.open.len() + self.aborted.len()) as u64;
        in_memory * TRANSACTION_BYTES + self.index.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::aborted_index::{decode_block, encode_block};

    #[derive(Debug, Clone)]
    enum Step {
        /// A producer writes, and opens a transaction where none is open.
        Write(i64),
        /// Its transaction ends, if one is open.
        End {
            producer: i64,
            aborted: bool,
        },
        /// Everything up to this many offsets ago is durable.
        Durable(u64),
        /// So is all, and the partition opens from a checkpoint.
        Reopen,
        /// The oldest are written to a block.
        Index,
        /// Blocks are written again.
        Tidy,
        Trim(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            5 => (0i64..6).prop_map(Step::Write),
            4 => (0i64..6, any::<bool>())
                .prop_map(|(producer, aborted)| Step::End { producer, aborted }),
            2 => (0u64..6).prop_map(Step::Durable),
            1 => Just(Step::Reopen),
            3 => Just(Step::Index),
            1 => Just(Step::Tidy),
            1 => (0u64..40).prop_map(Step::Trim),
        ];
        prop::collection::vec(step, 1..120)
    }

    #[derive(Debug, Clone, Copy)]
    struct Known {
        producer: i64,
        first: Offset,
        end: Option<(Offset, bool)>,
    }

    fn reopened(transactions: &Transactions) -> Transactions {
        let parts =
            { transactions.aborted.iter() }.map(|one| (one.producer_id, one.first, one.last));
        let open = transactions.open.iter().copied();
        let index = transactions.index.clone();
        Transactions::from_parts(open, index, parts.collect()).expect("in order")
    }

    const BOUNDS: AbortedBounds = AbortedBounds {
        in_memory: 3,
        per_block: 2,
        merged: 6,
        slack_bytes: 40,
    };

    /// The meta stream: its blocks, by offset.
    type Blocks = Vec<(Bytes, Block)>;

    fn append(transactions: &mut Transactions, blocks: &mut Blocks, entries: &[Aborted]) -> Block {
        let payload = encode_block(entries);
        let place = (
            blocks.len() as u64,
            transactions.index.position(),
            payload.len() as u64,
        );
        transactions.index.note_appended(payload.len() as u64);
        let block = Block::of(entries, place).expect("not empty");
        blocks.push((payload, block));
        block
    }

    fn read(blocks: &Blocks, block: &Block) -> Vec<Aborted> {
        let (payload, _) = &blocks[block.at as usize];
        decode_block(payload.clone(), block).expect("sound")
    }

    fn tidy(transactions: &mut Transactions, blocks: &mut Blocks) {
        while let Some(old) = transactions.index.to_tidy(&BOUNDS) {
            let entries: Vec<_> = old.iter().flat_map(|block| read(blocks, block)).collect();
            let new = append(transactions, blocks, &entries);
            transactions.index.replace(&old, Some(new));
        }
    }

    fn between(
        transactions: &Transactions,
        blocks: &Blocks,
        from: Offset,
        upper: Offset,
    ) -> Vec<(i64, Offset)> {
        let overlapping = transactions.index.overlapping(from, upper);
        let indexed = overlapping.iter().flat_map(|block| read(blocks, block));
        let overlaps = |one: &Aborted| one.last >= from && one.first < upper;
        let newest = transactions.newest_between(from, upper);
        let found = indexed.filter(overlaps).chain(newest);
        found.map(|one| (one.producer_id, one.first)).collect()
    }

    proptest! {
        #[test]
        fn they_are_as_a_look_at_the_whole_log_tells(steps in steps()) {
            let mut transactions = Transactions::default();
            let mut all: Vec<Known> = Vec::new();
            let (mut next, mut durable, mut start, mut stable) = (0_u64, 0, 0, 0);
            let mut blocks = Blocks::new();
            for step in steps {
                let open = |all: &[Known], producer| {
                    all.iter().rposition(|one| one.producer == producer && one.end.is_none())
                };
                match step {
                    Step::Write(producer) => {
                        if open(&all, producer).is_none() {
                            transactions.begin(next);
                            all.push(Known { producer, first: next, end: None });
                        }
                        next += 3;
                    }
                    Step::End { producer, aborted } => {
                        if let Some(at) = open(&all, producer) {
                            transactions.end(all[at].first, next, aborted.then_some(producer));
                            all[at].end = Some((next, aborted));
                        }
                        next += 1;
                    }
                    Step::Durable(back) => durable = durable.max(next.saturating_sub(back)),
                    Step::Reopen => {
                        durable = next;
                        transactions = reopened(&transactions);
                    }
                    Step::Index => {
                        while let Some(oldest) = transactions.to_index(&BOUNDS, durable) {
                            let block = append(&mut transactions, &mut blocks, &oldest);
                            transactions.indexed(block, start);
                        }
                    }
                    Step::Tidy => {
                        // As checkpoints do.
                        transactions.index.note_appended(30);
                        tidy(&mut transactions, &mut blocks);
                    }
                    Step::Trim(back) => {
                        start = start.max(durable.saturating_sub(back));
                        transactions.trim(start);
                    }
                }
                let unstable = |one: &&Known| one.end.is_none_or(|(last, _)| last >= durable);
                let expected = all.iter().filter(unstable).map(|one| one.first).min();
                prop_assert_eq!(transactions.first_unstable(durable), expected);
                let lso = expected.unwrap_or(durable).min(durable);
                prop_assert!(lso >= stable, "it moved back");
                stable = lso;
                for (from, upper) in [(start, lso), (lso / 2, lso), (lso / 3, lso / 3 * 2 + 1)] {
                    let (from, upper) = (from.max(start), upper.min(lso));
                    let mut expected: Vec<_> = { all.iter() }
                        .filter_map(|one| {
                            let (last, aborted) = one.end?;
                            let overlaps = last >= from && one.first < upper;
                            (aborted && overlaps).then_some((last, one.producer, one.first))
                        })
                        .collect();
                    expected.sort_unstable();
                    let found = between(&transactions, &blocks, from, upper);
                    let expected: Vec<_> = expected.iter().map(|&(_, id, first)| (id, first)).collect();
                    prop_assert_eq!(found, expected, "{}..{}", from, upper);
                }
            }
        }
    }

    #[test]
    fn both_bounds_are_kept() {
        let mut transactions = Transactions::default();
        for first in 0..OPEN_TRANSACTIONS_MAX as u64 {
            assert_eq!(transactions.full_for(1), None);
            transactions.begin(first);
        }
        assert_eq!(
            transactions.full_for(1),
            Some(("open_transactions", OPEN_TRANSACTIONS_MAX))
        );
        let mut transactions = Transactions::default();
        for n in 0..TRANSACTIONS_MAX as u64 {
            assert_eq!(transactions.full_for(1), None);
            transactions.begin(2 * n);
            transactions.end(2 * n, 2 * n + 1, Some(1));
        }
        let full = Some(("aborted_transactions", TRANSACTIONS_MAX));
        assert_eq!(transactions.full_for(1), full);
        assert_eq!(
            transactions.memory_bytes(),
            TRANSACTIONS_MAX as u64 * TRANSACTION_BYTES
        );
        transactions.trim(2);
        assert_eq!(transactions.full_for(1), None);
        assert_eq!(transactions.full_for(2), full);
    }

    #[test]
    fn what_is_out_of_order_is_refused() {
        for unsound in [
            vec![(1, 5, 5)],
            vec![(1, 5, 6), (2, 3, 6)],
            vec![(1, 5, 8), (2, 3, 6)],
        ] {
            let index = AbortedIndex::default();
            let parts = Transactions::from_parts(std::iter::empty(), index, unsound);
            assert_eq!(parts, None);
        }
    }
}
