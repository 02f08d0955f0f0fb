//! Sequence checks of idempotent producers (KIP-98), as Kafka's brokers do them.
//!
//! A producer numbers its records per partition. The log keeps its epoch and its last
//! [`BATCHES_KEPT`] batches. A batch that is one of them is a duplicate and is answered with its
//! original offset; any other must continue where the last one ended. An unknown producer (new,
//! expired, or with deleted records) may start at any sequence.
//!
//! A producer has at most one open transaction per partition: its first transactional batch opens it, and a marker of the
//! transaction coordinator ends it. Which batch may open one is checked with a [`VerificationGuard`] (KIP-890).
//!
//! Checks run before the batch is durable, on state that includes batches in flight: otherwise the
//! second of two pipelined batches could not be validated. If one of those is lost, the whole store
//! has failed, and a restart rebuilds the state from durable batches.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use millrace_model::Offset;
use millrace_record::BatchHeader;

use crate::{error::AppendError, transactions::TransactionMarker};

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
    /// When it wrote last, or a marker was written for it, milliseconds of the broker's wall clock.
    pub(crate) written_at_ms: i64,
    /// The coordinator epoch of its last marker; -1 before the first.
    pub(crate) coordinator_epoch: i32,
    /// Offset of the first batch of its open transaction.
    pub(crate) transaction: Option<Offset>,
    /// One past its last marker since the partition was opened, or 0. Guards from before are void.
    pub(crate) verifiable_from: Offset,
}

/// The producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
    /// Guards from before are void, whoever's they are: markers from before may be forgotten.
    verifiable_from: Offset,
}

/// What a producer is known to have done in a partition, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerStatus {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// The sequence of its last record; -1 where it has none.
    pub last_sequence: i32,
    /// When it wrote last, or a marker was written for it, milliseconds of the broker's wall clock.
    pub last_timestamp: i64,
    /// The coordinator epoch of its last marker; -1 before the first.
    pub coordinator_epoch: i32,
    /// Offset of the first batch of its open transaction.
    pub transaction_start: Option<Offset>,
}

/// Says that a producer had no open transaction in a partition at some time. Whoever has the transaction's coordinator verify,
/// after that time, that the partition belongs to an ongoing transaction may open it there, unless a marker has been written for
/// the producer meanwhile: the transaction that was verified may be the one that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationGuard {
    producer_id: i64,
    epoch: i16,
    /// The end of the log at that time.
    at: Offset,
    starts_at_zero: bool,
}

/// Whether the coordinator has to verify a producer's transaction before a batch is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// The transaction is open here, so it was verified.
    NotNeeded,
    /// The batch may be appended with this guard once the coordinator has verified the transaction.
    Needed(VerificationGuard),
}

impl VerificationGuard {
    pub(crate) fn new(producer_id: i64, epoch: i16, at: Offset) -> Self {
        Self {
            producer_id,
            epoch,
            at,
            starts_at_zero: false,
        }
    }

    /// The guard of a client whose epoch rises with every transaction (transaction version 2): a producer that is not known
    /// must start at sequence 0, so that its second batch is refused where its first one is missing.
    #[must_use]
    pub fn with_epoch_bump(self) -> Self {
        Self {
            starts_at_zero: true,
            ..self
        }
    }
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
    /// -1 in batches that coordinators write, like `last`.
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) is_transactional: bool,
}

impl Sequenced {
    /// `None` where the batch is not an idempotent producer's, or a marker.
    pub(crate) fn of(header: &BatchHeader) -> Option<Self> {
        let is_data = header.has_producer_id() && !header.is_control();
        is_data.then(|| Self {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            first: header.base_sequence,
            last: header.last_sequence(),
            is_transactional: header.is_transactional(),
        })
    }
}

/// The sequence after `last`; they wrap from 2³¹ − 1 to 0.
fn after(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

impl Producer {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            batches: VecDeque::with_capacity(BATCHES_KEPT),
            written_at_ms: 0,
            coordinator_epoch: -1,
            transaction: None,
            verifiable_from: 0,
        }
    }

    fn duplicate_of(&self, batch: &Sequenced) -> Option<WrittenBatch> {
        let same = |written: &&WrittenBatch| {
            written.first_sequence == batch.first && written.last_sequence == batch.last
        };
        let is_current = batch.epoch == self.epoch;
        self.batches
            .iter()
            .find(same)
            .copied()
            .filter(|_| is_current)
    }

    fn check_epoch(&self, batch: &Sequenced) -> Result<(), AppendError> {
        if batch.epoch < self.epoch {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id: batch.producer_id,
                current: self.epoch,
                batch: batch.epoch,
            });
        }
        Ok(())
    }

    fn check_sequence(&self, batch: &Sequenced) -> Result<(), AppendError> {
        // A new epoch restarts its sequences.
        let last = self.batches.back().filter(|_| batch.epoch == self.epoch);
        batch.starts_at(last.map_or(0, |written| after(written.last_sequence)))
    }

    /// While a transaction is open, its producer writes nothing else.
    fn check_kind(&self, batch: &Sequenced) -> Result<(), AppendError> {
        if self.transaction.is_some() && !batch.is_transactional {
            let producer_id = batch.producer_id;
            return Err(AppendError::TransactionOpen { producer_id });
        }
        Ok(())
    }

    fn is_within_transaction(&self, epoch: i16) -> bool {
        self.transaction.is_some() && self.epoch == epoch
    }

    fn set_epoch(&mut self, epoch: i16) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    fn push(&mut self, batch: WrittenBatch) {
        if self.batches.len() == BATCHES_KEPT {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }
}

impl Sequenced {
    fn starts_at(&self, expected: i32) -> Result<(), AppendError> {
        if self.first == expected {
            return Ok(());
        }
        Err(AppendError::OutOfOrderSequence {
            producer_id: self.producer_id,
            epoch: self.epoch,
            expected,
            got: self.first,
        })
    }
}

impl Producers {
    pub(crate) fn from_parts(by_id: HashMap<i64, Producer>) -> Self {
        Self {
            by_id,
            verifiable_from: 0,
        }
    }

    /// Those that have written since `since_ms` or have an open transaction, by id.
    pub(crate) fn since(&self, since_ms: i64) -> BTreeMap<i64, &Producer> {
        let recent = |(_, producer): &(&i64, &Producer)| {
            producer.written_at_ms >= since_ms || producer.transaction.is_some()
        };
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
            verifiable_from: self.verifiable_from,
        }
    }

    /// Their ids, with their epochs and the last offsets of their data.
    pub(crate) fn last_offsets(&self) -> impl Iterator<Item = (i64, (i16, Option<Offset>))> {
        self.by_id.iter().map(|(&id, producer)| {
            let last = producer.batches.back().map(|batch| batch.last_offset);
            (id, (producer.epoch, last))
        })
    }

    /// All of them, by id.
    pub(crate) fn statuses(&self) -> Vec<ProducerStatus> {
        let status = |(&producer_id, known): (&i64, &Producer)| ProducerStatus {
            producer_id,
            epoch: known.epoch,
            last_sequence: known.batches.back().map_or(-1, |last| last.last_sequence),
            last_timestamp: known.written_at_ms,
            coordinator_epoch: known.coordinator_epoch,
            transaction_start: known.transaction,
        };
        let mut all: Vec<_> = self.by_id.iter().map(status).collect();
        all.sort_unstable_by_key(|status| status.producer_id);
        all
    }

    /// The first offsets of all open transactions.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = Offset> {
        self.by_id.values().filter_map(|known| known.transaction)
    }

    /// Voids the guards from before `offset`, whoever's they are.
    pub(crate) fn void_guards_before(&mut self, offset: Offset) {
        self.verifiable_from = self.verifiable_from.max(offset);
    }

    /// Whether the producer's transaction of this epoch is open.
    pub(crate) fn is_within_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        let known = self.by_id.get(&producer_id);
        known.is_some_and(|known| known.is_within_transaction(epoch))
    }

    /// Whether a batch that is appended opens a transaction.
    pub(crate) fn is_opened_by(&self, batch: &Sequenced) -> bool {
        let known = self.by_id.get(&batch.producer_id);
        batch.is_transactional && known.is_none_or(|known| known.transaction.is_none())
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

    /// Checks a client's batch against what has been written.
    pub(crate) fn check(
        &self,
        batch: &Sequenced,
        guard: Option<&VerificationGuard>,
    ) -> Result<Verdict, AppendError> {
        if batch.epoch < 0 || batch.first < 0 {
            return Err(AppendError::InvalidSequence {
                producer_id: batch.producer_id,
            });
        }
        let known = self.by_id.get(&batch.producer_id);
        if let Some(written) = known.and_then(|known| known.duplicate_of(batch)) {
            return Ok(Verdict::Duplicate(written));
        }
        known.map_or(Ok(()), |known| known.check_epoch(batch))?;
        self.check_verified(batch, guard)?;
        match known {
            Some(known) => {
                known.check_sequence(batch)?;
                known.check_kind(batch)?;
            }
            None if guard.is_some_and(|guard| guard.starts_at_zero) => batch.starts_at(0)?,
            None => {}
        }
        Ok(Verdict::Append)
    }

    /// Checks a batch that a coordinator writes for a producer. It has no sequence, and whether it is verified is the
    /// coordinator's business.
    pub(crate) fn check_coordinated(&self, batch: &Sequenced) -> Result<(), AppendError> {
        match self.by_id.get(&batch.producer_id) {
            Some(known) => {
                known.check_epoch(batch)?;
                known.check_kind(batch)
            }
            None => Ok(()),
        }
    }

    /// A transactional batch belongs to a transaction that is open here, or that the coordinator has verified.
    fn check_verified(
        &self,
        batch: &Sequenced,
        guard: Option<&VerificationGuard>,
    ) -> Result<(), AppendError> {
        let known = self.by_id.get(&batch.producer_id);
        let is_open = known.is_some_and(|known| known.is_within_transaction(batch.epoch));
        if !batch.is_transactional || is_open {
            return Ok(());
        }
        let is_good = |guard: &VerificationGuard| {
            let is_its_own = (guard.producer_id, guard.epoch) == (batch.producer_id, batch.epoch);
            is_its_own && self.is_valid(guard)
        };
        if guard.is_some_and(is_good) {
            return Ok(());
        }
        let producer_id = batch.producer_id;
        Err(AppendError::NotVerified { producer_id })
    }

    /// Whether no marker has been written for its producer since the guard was taken.
    pub(crate) fn is_valid(&self, guard: &VerificationGuard) -> bool {
        let known = self.by_id.get(&guard.producer_id);
        let from = known.map_or(0, |known| known.verifiable_from);
        guard.at >= from.max(self.verifiable_from)
    }

    /// Checks a marker against what has been written.
    pub(crate) fn check_marker(&self, marker: &TransactionMarker) -> Result<(), AppendError> {
        let Some(known) = self.by_id.get(&marker.producer_id) else {
            return Ok(());
        };
        let is_late = match marker.transaction_version {
            // A marker that was written already, and is now written again because its answer was lost, does no harm.
            2.. => marker.producer_epoch == known.epoch && known.transaction.is_some(),
            _ => false,
        };
        if is_late || marker.producer_epoch < known.epoch {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id: marker.producer_id,
                current: known.epoch,
                batch: marker.producer_epoch,
            });
        }
        if marker.coordinator_epoch < known.coordinator_epoch {
            return Err(AppendError::CoordinatorFenced {
                producer_id: marker.producer_id,
                current: known.coordinator_epoch,
                marker: marker.coordinator_epoch,
            });
        }
        Ok(())
    }

    /// Takes note of a batch that was checked as [`Verdict::Append`], or that is in the log already. Gives whether it opens a
    /// transaction.
    pub(crate) fn write(
        &mut self,
        batch: &Sequenced,
        base_offset: Offset,
        stamped: Stamped,
    ) -> bool {
        let producer = self.written_to((batch.producer_id, batch.epoch), stamped.now_ms);
        if batch.first >= 0 {
            producer.push(WrittenBatch {
                first_sequence: batch.first,
                last_sequence: batch.last,
                base_offset,
                last_offset: stamped.last_offset,
                log_append_time: stamped.log_append_time,
            });
        }
        let opens = batch.is_transactional && producer.transaction.is_none();
        if opens {
            producer.transaction = Some(base_offset);
        }
        self.bound();
        opens
    }

    /// Takes note of a marker at `offset`. Gives the first offset of the transaction that it ends.
    pub(crate) fn end_transaction(
        &mut self,
        producer: (i64, i16),
        coordinator_epoch: i32,
        offset: Offset,
        now_ms: i64,
    ) -> Option<Offset> {
        let producer = self.written_to(producer, now_ms);
        producer.coordinator_epoch = coordinator_epoch;
        producer.verifiable_from = offset + 1;
        let ended = producer.transaction.take();
        self.bound();
        ended
    }

    /// The producer, as it is once something is written for it under `epoch`.
    fn written_to(&mut self, (producer_id, epoch): (i64, i16), now_ms: i64) -> &mut Producer {
        let producer = self
            .by_id
            .entry(producer_id)
            .or_insert_with(|| Producer::new(epoch));
        producer.set_epoch(epoch);
        producer.written_at_ms = now_ms;
        producer
    }

    fn bound(&mut self) {
        if self.by_id.len() > PRODUCERS_MAX {
            self.forget_silent();
        }
    }

    /// Forgets the tenth of the producers that has been silent longest: rarely, so that the cost of
    /// finding them is spread over many appends. Those with an open transaction stay.
    fn forget_silent(&mut self) {
        let idle = self
            .by_id
            .values()
            .filter(|known| known.transaction.is_none());
        let mut times: Vec<i64> = idle.map(|known| known.written_at_ms).collect();
        let mut excess = self.by_id.len() - PRODUCERS_MAX / 10 * 9;
        let Some(last) = excess.min(times.len()).checked_sub(1) else {
            return;
        };
        let (_, &mut cut, _) = times.select_nth_unstable(last);
        self.forget(|producer| {
            let forget = excess > 0 && producer.written_at_ms <= cut;
            excess -= usize::from(forget);
            forget
        });
    }

    /// Forgets those that have not written since `since_ms`.
    pub(crate) fn expire(&mut self, since_ms: i64) {
        self.forget(|producer| producer.written_at_ms < since_ms);
    }

    /// Forgets those that are silent and have no open transaction, whose last records would be read as stable otherwise.
    fn forget(&mut self, mut is_silent: impl FnMut(&Producer) -> bool) {
        let mut void_before = 0;
        self.by_id.retain(|_, producer| {
            let goes = producer.transaction.is_none() && is_silent(producer);
            if goes {
                void_before = void_before.max(producer.verifiable_from);
            }
            !goes
        });
        self.void_guards_before(void_before);
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
mod tests;
