//! Whether what is consumed is what was produced: nothing missing, twice, out of order or damaged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use crate::mark::{Mark, Marked};

/// Numbers of one chunk: 8 KiB of bits.
const CHUNK_NUMBERS: u64 = 1 << 16;
const CHUNK_WORDS: usize = (CHUNK_NUMBERS / 64) as usize;
/// Chunks that are neither empty nor full: 128 MiB. Readers of different partitions may be that far
/// apart.
const CHUNKS_MAX: usize = 1 << 14;
/// Pairs of a producer and a partition whose order is followed.
const PAIRS_MAX: usize = 1 << 20;

/// The outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verification {
    /// Records that were looked at.
    pub(crate) checked: u64,
    /// Records that were acknowledged, or have a successor, and were not read.
    pub(crate) missing: u64,
    pub(crate) duplicated: u64,
    pub(crate) out_of_order: u64,
    pub(crate) corrupt: u64,
}

impl Verification {
    pub(crate) fn is_sound(&self) -> bool {
        let Self {
            checked: _,
            missing,
            duplicated,
            out_of_order,
            corrupt,
        } = self;
        missing + duplicated + out_of_order + corrupt == 0
    }
}

/// What one producer has sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    /// Its records have the numbers below this.
    pub(crate) numbers: u64,
    /// Except that these failed; they may be stored or not.
    pub(crate) failed: BTreeSet<u64>,
}

/// More than can be kept track of.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("verification needs too much memory: {0}; verify fewer records")]
pub(crate) struct TooMuch(&'static str);

/// Follows records; see the module.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    outcome: Verification,
    /// By run and producer.
    seen: HashMap<(u64, u32), Seen>,
    /// The last number by partition, run and producer.
    last: HashMap<(i32, u64, u32), u64>,
    /// The last offset by partition.
    offsets: HashMap<i32, i64>,
    chunks: usize,
}

/// The numbers that were read of one producer.
#[derive(Debug, Default)]
struct Seen {
    /// All chunks below this one are full.
    full_below: u64,
    chunks: BTreeMap<u64, Chunk>,
    count: u64,
    highest: u64,
}

#[derive(Debug)]
enum Chunk {
    Full,
    Partial {
        bits: Box<[u64; CHUNK_WORDS]>,
        count: u64,
    },
}

impl Verifier {
    /// Looks at a record.
    pub(crate) fn check(
        &mut self,
        partition: i32,
        offset: i64,
        marked: &Marked,
    ) -> Result<(), TooMuch> {
        self.outcome.checked += 1;
        let follows = self
            .offsets
            .insert(partition, offset)
            .is_none_or(|last| offset > last);
        if !follows {
            self.outcome.out_of_order += 1;
        }
        match marked {
            Marked::No => Ok(()),
            Marked::Corrupt => {
                self.outcome.corrupt += 1;
                Ok(())
            }
            Marked::Sound(mark) => self.check_mark(partition, mark),
        }
    }

    fn check_mark(&mut self, partition: i32, mark: &Mark) -> Result<(), TooMuch> {
        let seen = self.seen.entry((mark.run, mark.producer)).or_default();
        if !seen.insert(mark.number, &mut self.chunks) {
            self.outcome.duplicated += 1;
            return Ok(());
        }
        let pair = (partition, mark.run, mark.producer);
        let last = self.last.insert(pair, mark.number);
        if last.is_some_and(|last| last > mark.number) {
            self.outcome.out_of_order += 1;
        }
        if self.chunks > CHUNKS_MAX {
            return Err(TooMuch("partitions are read too far apart"));
        }
        if self.last.len() > PAIRS_MAX {
            return Err(TooMuch("too many producers and partitions"));
        }
        Ok(())
    }

    /// The outcome. `sent` is what the producers of a run have sent; of other runs' producers each
    /// number below the highest one is expected.
    pub(crate) fn finish(&self, own_run: u64, sent: &[Sent]) -> Verification {
        let mut outcome = self.outcome;
        for (producer, sent) in (0_u32..).zip(sent) {
            outcome.missing += match self.seen.get(&(own_run, producer)) {
                Some(seen) => seen.missing_of(sent),
                None => sent.numbers - sent.failed.len() as u64,
            };
        }
        let others = self.seen.iter().filter(|((run, _), _)| *run != own_run);
        outcome.missing += others
            .map(|(_, seen)| seen.highest + 1 - seen.count)
            .sum::<u64>();
        outcome
    }
}

impl Seen {
    /// Whether the number is new.
    fn insert(&mut self, number: u64, chunks: &mut usize) -> bool {
        let (index, bit) = (number / CHUNK_NUMBERS, number % CHUNK_NUMBERS);
        if index < self.full_below {
            return false;
        }
        let chunk = self.chunks.entry(index).or_insert_with(|| {
            *chunks += 1;
            Chunk::Partial {
                bits: Box::new([0; CHUNK_WORDS]),
                count: 0,
            }
        });
        let Chunk::Partial { bits, count } = chunk else {
            return false;
        };
        let word = &mut bits[(bit / 64) as usize];
        let mask = 1 << (bit % 64);
        if *word & mask != 0 {
            return false;
        }
        *word |= mask;
        *count += 1;
        self.count += 1;
        self.highest = self.highest.max(number);
        if *count == CHUNK_NUMBERS {
            *chunk = Chunk::Full;
            *chunks -= 1;
            while let Some(Chunk::Full) = self.chunks.get(&self.full_below) {
                self.chunks.remove(&self.full_below);
                self.full_below += 1;
            }
        }
        true
    }

    fn contains(&self, number: u64) -> bool {
        let (index, bit) = (number / CHUNK_NUMBERS, number % CHUNK_NUMBERS);
        index < self.full_below
            || match self.chunks.get(&index) {
                None => false,
                Some(Chunk::Full) => true,
                Some(Chunk::Partial { bits, .. }) => {
                    bits[(bit / 64) as usize] & (1 << (bit % 64)) != 0
                }
            }
    }

    fn missing_of(&self, sent: &Sent) -> u64 {
        let stored_though_failed = sent.failed.iter().filter(|number| self.contains(**number));
        let seen = self.count - stored_though_failed.count() as u64;
        let acknowledged = sent.numbers - sent.failed.len() as u64;
        acknowledged.saturating_sub(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark::run_id;

    const RUN: u64 = 9;

    fn marked(number: u64) -> Marked {
        Marked::Sound(Mark {
            run: run_id(RUN),
            producer: 0,
            number,
            due_us: 0,
        })
    }

    fn read(numbers: impl IntoIterator<Item = u64>) -> Verifier {
        let mut verifier = Verifier::default();
        for (offset, number) in (0..).zip(numbers) {
            let checked = verifier.check(0, offset, &marked(number));
            checked.expect("little");
        }
        verifier
    }

    fn sent(numbers: u64, failed: &[u64]) -> Vec<Sent> {
        vec![Sent {
            numbers,
            failed: failed.iter().copied().collect(),
        }]
    }

    #[test]
    fn what_is_complete_and_in_order_is_sound() {
        let numbers = CHUNK_NUMBERS * 3 + 5;
        let verifier = read(0..numbers);
        let outcome = verifier.finish(run_id(RUN), &sent(numbers, &[]));
        assert!(outcome.is_sound(), "{outcome:?}");
        assert_eq!(outcome.checked, numbers);
        // Full chunks are forgotten.
        assert_eq!(verifier.chunks, 1);
    }

    #[test]
    fn each_fault_is_found() {
        let missing = read([0, 1, 3]).finish(run_id(RUN), &sent(4, &[]));
        assert_eq!((missing.missing, missing.out_of_order), (1, 0));
        let lost_tail = read([0, 1]).finish(run_id(RUN), &sent(4, &[]));
        assert_eq!(lost_tail.missing, 2);
        let nothing = Verifier::default().finish(run_id(RUN), &sent(4, &[1]));
        assert_eq!(nothing.missing, 3);
        let twice = read([0, 1, 1, 2]).finish(run_id(RUN), &sent(3, &[]));
        assert_eq!((twice.duplicated, twice.missing), (1, 0));
        let swapped = read([0, 2, 1]).finish(run_id(RUN), &sent(3, &[]));
        assert_eq!(swapped.out_of_order, 1);
        let mut damaged = Verifier::default();
        damaged.check(0, 0, &Marked::Corrupt).expect("little");
        assert_eq!(damaged.finish(1, &[]).corrupt, 1);
    }

    #[test]
    fn offsets_must_increase() {
        let mut verifier = Verifier::default();
        for offset in [5, 6, 6, 9] {
            verifier.check(3, offset, &Marked::No).expect("little");
        }
        assert_eq!(verifier.finish(1, &[]).out_of_order, 1);
    }

    #[test]
    fn a_failed_record_may_be_stored_or_not() {
        for read_numbers in [vec![0, 1, 2], vec![0, 2]] {
            let outcome = read(read_numbers).finish(run_id(RUN), &sent(3, &[1]));
            assert!(outcome.is_sound(), "{outcome:?}");
        }
    }

    #[test]
    fn of_other_runs_the_holes_are_missing() {
        let outcome = read([0, 1, 4]).finish(run_id(RUN + 1), &[]);
        assert_eq!(outcome.missing, 2);
    }

    #[test]
    fn too_much_is_refused() {
        let mut verifier = Verifier::default();
        let mut refused = None;
        for chunk in 0..=CHUNKS_MAX as u64 {
            let checked = verifier.check(0, chunk as i64, &marked(chunk * CHUNK_NUMBERS));
            refused = checked.err();
        }
        assert!(refused.is_some());
    }
}
