//! Sequence checks of idempotent producers (KIP-98), as Kafka's brokers do them.
//!
//! A producer numbers its records per partition. The log keeps its epoch and its last
//! [`BATCHES_KEPT`] batches. A batch that is one of them is a duplicate and is answered with its
//! original offset; any other must continue where the last one ended. An unknown producer (new,
//! expired, or with deleted records) may start at any sequence.
//!
//! Checks run before the batch is durable, on state that includes batches in flight: otherwise the
//! second of two pipelined batches could not be validated. If one of those is lost, the whole store
//! has failed, and a restart rebuilds the state from durable batches.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use millrace_model::Offset;
use millrace_record::BatchHeader;

use crate::error::AppendError;

/// Batches that are remembered of each producer: Kafka's number, which is also the most that an
/// idempotent client keeps in flight.
pub(crate) const BATCHES_KEPT: usize = 5;

/// Producers that one partition remembers. About 300 bytes each; a partition with more writers in
/// a day than this forgets those that have been silent longest, who then count as unknown.
pub(crate) const PRODUCERS_MAX: usize = 10_000;

/// What one producer costs a partition, bytes: its last batches, and its place in a table that is at
/// least half full.
pub const PRODUCER_BYTES: u64 = 400;

/// A batch that a producer has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrittenBatch {
    pub(crate) first_sequence: i32,
    pub(crate) last_sequence: i32,
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    /// The append time that was stamped on it, milliseconds; -1 where none was.
    pub(crate) log_append_time: i64,
}

/// What is known of one producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Producer {
    pub(crate) epoch: i16,
    /// The last batches of this epoch, oldest first.
    pub(crate) batches: VecDeque<WrittenBatch>,
    /// When it wrote last, milliseconds of the broker's wall clock.
    pub(crate) written_at_ms: i64,
}

/// The producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
}

/// The answer to "may this batch be appended?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Append it.
    Append,
    /// It is there already.
    Duplicate(WrittenBatch),
}

/// The part of a batch that the checks look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) first: i32,
    pub(crate) last: i32,
}

impl Sequenced {
    /// `None` where the batch is not an idempotent producer's.
    pub(crate) fn of(header: &BatchHeader) -> Option<Self> {
        header.has_producer_id().then(|| Self {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first: header.base_sequence,
            last: header.last_sequence(),
        })
    }
}

/// The sequence after `last`; they wrap from 2³¹ − 1 to 0.
fn after(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

impl Producer {
    fn check(&self, batch: &Sequenced) -> Result<Verdict, AppendError> {
        let &Sequenced {
            producer_id,
            epoch,
            first,
            last,
        } = batch;
        if epoch < self.epoch {
            let (current, batch) = (self.epoch, epoch);
            return Err(AppendError::InvalidProducerEpoch {
                producer_id,
                current,
                batch,
            });
        }
        if epoch > self.epoch {
            // A new epoch restarts its sequences.
            return match first {
                0 => Ok(Verdict::Append),
                got => Err(AppendError::OutOfOrderSequence {
                    producer_id,
                    epoch,
                    expected: 0,
                    got,
                }),
            };
        }
        let same = |written: &&WrittenBatch| {
            written.first_sequence == first && written.last_sequence == last
        };
        if let Some(&written) = self.batches.iter().find(same) {
            return Ok(Verdict::Duplicate(written));
        }
        match self
            .batches
            .back()
            .map(|written| after(written.last_sequence))
        {
            Some(expected) if expected != first => Err(AppendError::OutOfOrderSequence {
                producer_id,
                epoch,
                expected,
                got: first,
            }),
            _ => Ok(Verdict::Append),
        }
    }

    fn write(&mut self, epoch: i16, batch: WrittenBatch, now_ms: i64) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
        self.written_at_ms = now_ms;
    }
}

impl Producers {
    pub(crate) fn from_parts(by_id: HashMap<i64, Producer>) -> Self {
        Self { by_id }
    }

    /// Those that have written since `since_ms`, by id.
    pub(crate) fn since(&self, since_ms: i64) -> BTreeMap<i64, &Producer> {
        let recent = |(_, producer): &(&i64, &Producer)| producer.written_at_ms >= since_ms;
        self.by_id
            .iter()
            .filter(recent)
            .map(|(&id, producer)| (id, producer))
            .collect()
    }

    /// A copy of what is known of the producers of `batches` alone.
    pub(crate) fn excerpt(&self, batches: impl Iterator<Item = Sequenced>) -> Self {
        let known = |batch: Sequenced| {
            let id = batch.producer_id;
            Some((id, self.by_id.get(&id)?.clone()))
        };
        Self {
            by_id: batches.filter_map(known).collect(),
        }
    }

    /// Their ids, with their epochs and the last offsets of their data.
    pub(crate) fn last_offsets(&self) -> impl Iterator<Item = (i64, (i16, Option<Offset>))> {
        self.by_id.iter().map(|(&id, producer)| {
            let last = producer.batches.back().map(|batch| batch.last_offset);
            (id, (producer.epoch, last))
        })
    }

    /// How many of the producers of `batches` are not known, each counted once.
    pub(crate) fn newcomers(&self, batches: impl Iterator<Item = Sequenced>) -> u64 {
        let new = batches.map(|batch| batch.producer_id);
        let new: BTreeSet<i64> = new.filter(|id| !self.by_id.contains_key(id)).collect();
        new.len() as u64
    }

    /// What they cost, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.by_id.len() as u64 * PRODUCER_BYTES
    }

    /// Checks a batch against what has been written.
    pub(crate) fn check(&self, batch: &Sequenced) -> Result<Verdict, AppendError> {
        if batch.epoch < 0 || batch.first < 0 {
            return Err(AppendError::InvalidSequence {
                producer_id: batch.producer_id,
            });
        }
        self.by_id
            .get(&batch.producer_id)
            .map_or(Ok(Verdict::Append), |known| known.check(batch))
    }

    /// Takes note of a batch that was checked as [`Verdict::Append`], or that is in the log already.
    pub(crate) fn write(&mut self, batch: &Sequenced, base_offset: Offset, stamped: Stamped) {
        let written = WrittenBatch {
            first_sequence: batch.first,
            last_sequence: batch.last,
            base_offset,
            last_offset: stamped.last_offset,
            log_append_time: stamped.log_append_time,
        };
        let producer = self
            .by_id
            .entry(batch.producer_id)
            .or_insert_with(|| Producer {
                epoch: batch.epoch,
                batches: VecDeque::with_capacity(BATCHES_KEPT),
                written_at_ms: stamped.now_ms,
            });
        producer.write(batch.epoch, written, stamped.now_ms);
        if self.by_id.len() > PRODUCERS_MAX {
            self.forget_silent();
        }
    }

    /// Forgets the tenth of the producers that has been silent longest: rarely, so that the cost of
    /// finding them is spread over many appends.
    fn forget_silent(&mut self) {
        let mut times: Vec<i64> = self
            .by_id
            .values()
            .map(|known| known.written_at_ms)
            .collect();
        let (_, &mut cut, _) = times.select_nth_unstable(PRODUCERS_MAX / 10);
        let mut excess = self.by_id.len() - PRODUCERS_MAX / 10 * 9;
        self.by_id.retain(|_, producer| {
            let forget = excess > 0 && producer.written_at_ms <= cut;
            excess -= usize::from(forget);
            !forget
        });
    }

    /// Forgets those that have not written since `since_ms`.
    pub(crate) fn expire(&mut self, since_ms: i64) {
        self.by_id
            .retain(|_, producer| producer.written_at_ms >= since_ms);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

/// What the broker added to a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamped {
    pub(crate) last_offset: Offset,
    /// Milliseconds; -1 where the topic does not stamp it.
    pub(crate) log_append_time: i64,
    /// The broker's wall clock, milliseconds.
    pub(crate) now_ms: i64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(epoch: i16, first: i32, last: i32) -> Sequenced {
        Sequenced {
            producer_id: 7,
            epoch,
            first,
            last,
        }
    }

    fn write(producers: &mut Producers, batch: &Sequenced, base_offset: Offset) {
        assert_eq!(producers.check(batch), Ok(Verdict::Append), "{batch:?}");
        let count = batch.last.wrapping_sub(batch.first) as u32 & 0x7fff_ffff;
        let last_offset = base_offset + u64::from(count);
        producers.write(
            batch,
            base_offset,
            Stamped {
                last_offset,
                log_append_time: -1,
                now_ms: 0,
            },
        );
    }

    fn out_of_order(expected: i32, got: i32, epoch: i16) -> Result<Verdict, AppendError> {
        Err(AppendError::OutOfOrderSequence {
            producer_id: 7,
            epoch,
            expected,
            got,
        })
    }

    #[test]
    fn sequences_go_on_and_gaps_are_refused() {
        let mut producers = Producers::default();
        write(&mut producers, &batch(0, 0, 9), 100);
        write(&mut producers, &batch(0, 10, 10), 110);
        assert_eq!(producers.check(&batch(0, 12, 12)), out_of_order(11, 12, 0));
        assert_eq!(producers.check(&batch(0, 10, 11)), out_of_order(11, 10, 0));
        write(&mut producers, &batch(0, 11, 20), 111);
    }

    #[test]
    fn the_last_five_batches_are_known_again() {
        let mut producers = Producers::default();
        for n in 0..7 {
            write(&mut producers, &batch(0, n * 10, n * 10 + 9), n as u64 * 10);
        }
        for n in 2..7 {
            let verdict = producers
                .check(&batch(0, n * 10, n * 10 + 9))
                .expect("known");
            let Verdict::Duplicate(written) = verdict else {
                panic!("batch {n} is a duplicate")
            };
            assert_eq!(
                (written.base_offset, written.last_offset),
                (n as u64 * 10, n as u64 * 10 + 9)
            );
        }
        assert_eq!(producers.check(&batch(0, 10, 19)), out_of_order(70, 10, 0));
    }

    #[test]
    fn an_unknown_producer_begins_anywhere_and_a_new_epoch_at_zero() {
        let mut producers = Producers::default();
        write(&mut producers, &batch(3, 55, 56), 0);
        assert_eq!(producers.check(&batch(4, 57, 57)), out_of_order(0, 57, 4));
        write(&mut producers, &batch(4, 0, 0), 2);
        let zombie = AppendError::InvalidProducerEpoch {
            producer_id: 7,
            current: 4,
            batch: 3,
        };
        assert_eq!(producers.check(&batch(3, 57, 57)), Err(zombie));
        // The batches of the old epoch are no duplicates any more.
        assert_eq!(producers.check(&batch(4, 55, 56)), out_of_order(1, 55, 4));
    }

    #[test]
    fn sequences_wrap() {
        let mut producers = Producers::default();
        write(&mut producers, &batch(0, i32::MAX - 1, i32::MAX), 0);
        write(&mut producers, &batch(0, 0, 4), 2);
        let mut producers = Producers::default();
        write(&mut producers, &batch(0, i32::MAX, 2), 0);
        write(&mut producers, &batch(0, 3, 3), 4);
    }

    #[test]
    fn impossible_numbers_are_refused() {
        for sequenced in [batch(-1, 0, 0), batch(0, -1, -1)] {
            let error = AppendError::InvalidSequence { producer_id: 7 };
            assert_eq!(Producers::default().check(&sequenced), Err(error));
        }
    }

    #[test]
    fn silent_producers_are_forgotten() {
        let mut producers = Producers::default();
        let total = PRODUCERS_MAX as i64 + 1;
        for id in 0..total {
            let sequenced = Sequenced {
                producer_id: id,
                epoch: 0,
                first: 0,
                last: 0,
            };
            let stamped = Stamped {
                last_offset: 0,
                log_append_time: -1,
                now_ms: id,
            };
            producers.write(&sequenced, 0, stamped);
        }
        assert_eq!(producers.len(), PRODUCERS_MAX / 10 * 9);
        let kept = producers.since(i64::MIN);
        assert!(
            kept.keys().all(|&id| id > PRODUCERS_MAX as i64 / 10),
            "the newest stay"
        );
        producers.expire(total - 1);
        assert_eq!(producers.len(), 1);
    }

    proptest! {
        /// A client that sends again whatever was not answered, in order, up to five in flight: each
        /// of its batches is written once, in order.
        #[test]
        fn resending_never_duplicates(
            sizes in prop::collection::vec(1i32..5, 1..30),
            // How far the client goes back before each batch.
            rewinds in prop::collection::vec(0usize..5, 30),
        ) {
            let mut producers = Producers::default();
            let mut starts = vec![0];
            for size in &sizes {
                starts.push(starts.last().expect("one") + size);
            }
            let mut written: Vec<(i32, Offset)> = Vec::new();
            for (n, _) in sizes.iter().enumerate() {
                for resend in n.saturating_sub(rewinds[n])..=n {
                    let sequenced = batch(0, starts[resend], starts[resend + 1] - 1);
                    match producers.check(&sequenced).expect("in order or known") {
                        Verdict::Duplicate(known) => {
                            prop_assert_eq!(known.base_offset, written[resend].1);
                        }
                        Verdict::Append => {
                            prop_assert_eq!(resend, written.len());
                            let base = starts[resend] as u64;
                            let last_offset = starts[resend + 1] as u64 - 1;
                            let stamped = Stamped { last_offset, log_append_time: -1, now_ms: 0 };
                            producers.write(&sequenced, base, stamped);
                            written.push((starts[resend], base));
                        }
                    }
                }
            }
            prop_assert_eq!(written.len(), sizes.len());
        }
    }
}
