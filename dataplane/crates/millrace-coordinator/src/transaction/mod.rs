//! One transactional id: the state machine of Kafka's transactions (KIP-98, KIP-360, KIP-890).
//!
//! Pure: the caller passes the time; it does no I/O. A change is written to the log first; while it is on its way the id
//! takes nothing else on and answers [`TransactionError::Concurrent`], as Kafka does.
//!
//! ```text
//! Empty ──add partitions──▶ Ongoing ──end, timeout, new producer──▶ PrepareCommit / PrepareAbort
//!   ▲                          ▲                                              │ markers are written
//!   └───── new producer ───────┴──────── CompleteCommit / CompleteAbort ◀─────┘
//! ```
//!
//! With protocol version 2, each end of a transaction has an epoch of its own, with which the markers are written, and the
//! producer goes on with it.

mod coordinator;
mod ending;
mod kept;
pub(crate) mod messages;
mod record;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use millrace_model::TopicPartition;
use tokio::sync::oneshot;

pub use self::{
    coordinator::{ProducerIdSource, TransactionCoordinator, TransactionParts},
    ending::{MarkerOutcome, MarkerWriter},
};
use self::{
    kept::{Outcome, Settings},
    messages::{TransactionDescription, TransactionError, TransactionState, VerifiedPartitions},
    record::{Metadata, NONE},
};
use crate::kept::{Now, ProducerEpoch};

/// No epoch was given out yet.
const NO_EPOCH: i16 = -1;
/// The pause before a transaction is looked at again whose id has a change on its way, or whose change could not be
/// written.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The first protocol version in which each end has an epoch of its own.
const EPOCH_PER_TRANSACTION: i16 = 2;

/// Who waits for a change, and what it is told then.
pub(super) enum Reply {
    Nobody,
    /// The partitions are in the transaction.
    Added(oneshot::Sender<Result<(), TransactionError>>),
    /// The producer's id and epoch from now on; or an error that is the answer to success.
    Producer(
        oneshot::Sender<Result<ProducerEpoch, TransactionError>>,
        Result<ProducerEpoch, TransactionError>,
    ),
}

impl Reply {
    fn send(self, result: Result<(), TransactionError>) {
        match self {
            Self::Nobody => {}
            Self::Added(reply) => drop(reply.send(result)),
            Self::Producer(reply, answer) => drop(reply.send(result.and(answer))),
        }
    }
}

/// What a request came to.
pub(super) enum Step<T> {
    /// Answered at once.
    Done(T),
    /// Answered when it is durable.
    Written(oneshot::Receiver<Result<T, TransactionError>>),
    /// To be asked again with a new producer id.
    NeedsProducerId,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Transaction {
    id: String,
    settings: Arc<Settings>,
    /// What the log holds; `None` before the first producer.
    stored: Option<Metadata>,
    /// The epoch before the current one, which a producer may have that missed an answer; not in the log.
    last_epoch: i16,
    /// A change is on its way to the log.
    is_writing: bool,
    /// The id is being forgotten.
    is_dead: bool,
    writes: Vec<(crate::kept::Written, Outcome)>,
    /// When the ongoing transaction is late, by the clock that never jumps.
    late_at: Option<Duration>,
    wake_at: Option<Duration>,
}

fn is_exhausted(epoch: i16) -> bool {
    epoch >= i16::MAX - 1
}

impl Transaction {
    /// Gives a producer its id and epoch. `fresh` is a producer id that nobody else has, where the last answer was that one
    /// is needed.
    pub(super) fn init(
        &mut self,
        timeout_ms: i32,
        expected: Option<ProducerEpoch>,
        fresh: Option<i64>,
        now: Now,
    ) -> Result<Step<ProducerEpoch>, TransactionError> {
        self.check_idle()?;
        let Some(stored) = &self.stored else {
            let Some(producer_id) = fresh else {
                return Ok(Step::NeedsProducerId);
            };
            let first = Metadata {
                producer_id,
                previous_producer_id: NONE,
                next_producer_id: NONE,
                epoch: 0,
                timeout_ms,
                state: TransactionState::Empty,
                partitions: BTreeSet::new(),
                update_ms: now.ms,
                start_ms: NONE,
                client_version: 0,
            };
            return Ok(self.write_producer(first, NO_EPOCH));
        };
        check_expected(stored, expected)?;
        match stored.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                Err(TransactionError::Concurrent)
            }
            TransactionState::Ongoing => {
                // Only the current producer can have begun it: any other epoch is a zombie's.
                if expected.is_some_and(|producer| producer != (stored.producer_id, stored.epoch)) {
                    return Err(TransactionError::ProducerFenced);
                }
                // The caller comes again, and then finds the transaction aborted.
                let answer = Err(TransactionError::Concurrent);
                Ok(self.fence(now, |reply| Reply::Producer(reply, answer)))
            }
            TransactionState::Empty
            | TransactionState::CompleteCommit
            | TransactionState::CompleteAbort => {
                self.next_producer(timeout_ms, expected, fresh, now)
            }
        }
    }

    fn next_producer(
        &mut self,
        timeout_ms: i32,
        expected: Option<ProducerEpoch>,
        fresh: Option<i64>,
        now: Now,
    ) -> Result<Step<ProducerEpoch>, TransactionError> {
        let Some(stored) = &self.stored else {
            return Err(TransactionError::IdNotFound);
        };
        let expected = expected.map(|(_, epoch)| epoch);
        let mut next = Metadata {
            timeout_ms,
            next_producer_id: NONE,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            update_ms: now.ms,
            start_ms: NONE,
            ..stored.clone()
        };
        let is_current = expected.is_none_or(|epoch| epoch == stored.epoch);
        // No producer may have the greatest epoch, not even the one whose transaction was aborted with it.
        let is_last = stored.epoch == i16::MAX && expected == Some(self.last_epoch);
        if is_exhausted(stored.epoch) && (is_current || is_last) {
            let Some(producer_id) = fresh else {
                return Ok(Step::NeedsProducerId);
            };
            next.previous_producer_id = stored.producer_id;
            (next.producer_id, next.epoch) = (producer_id, 0);
            let last = expected.unwrap_or(NO_EPOCH);
            return Ok(self.write_producer(next, last));
        }
        let (epoch, last) = match expected {
            None => (stored.epoch + 1, NO_EPOCH),
            Some(epoch) if epoch == stored.epoch => (stored.epoch + 1, stored.epoch),
            // The answer to the same request was lost.
            Some(epoch) if epoch == self.last_epoch => (stored.epoch, self.last_epoch),
            Some(_) => return Err(TransactionError::ProducerFenced),
        };
        next.epoch = epoch;
        Ok(self.write_producer(next, last))
    }

    fn write_producer(&mut self, next: Metadata, last_epoch: i16) -> Step<ProducerEpoch> {
        let answer = Ok((next.producer_id, next.epoch));
        let (reply, waiting) = oneshot::channel();
        self.write(next, last_epoch, Reply::Producer(reply, answer));
        Step::Written(waiting)
    }

    /// Aborts what is ongoing, with an epoch that keeps its producer from writing more. The producer may find out by
    /// aborting the transaction itself, and goes on then with that epoch.
    fn fence<T>(
        &mut self,
        now: Now,
        reply: impl FnOnce(oneshot::Sender<Result<T, TransactionError>>) -> Reply,
    ) -> Step<T> {
        let (sender, waiting) = oneshot::channel();
        if let Some(stored) = &self.stored {
            let next = Metadata {
                epoch: stored.epoch.saturating_add(1),
                state: TransactionState::PrepareAbort,
                update_ms: now.ms,
                client_version: EPOCH_PER_TRANSACTION,
                ..stored.clone()
            };
            let last_epoch = stored.epoch;
            self.write(next, last_epoch, reply(sender));
        }
        Step::Written(waiting)
    }

    /// Adds partitions to the producer's transaction; begins one where none is ongoing.
    pub(super) fn add(
        &mut self,
        producer: ProducerEpoch,
        partitions: &[TopicPartition],
        now: Now,
    ) -> Result<Step<()>, TransactionError> {
        let stored = self.of_producer(producer)?;
        if self.is_writing {
            return Err(TransactionError::Concurrent);
        }
        let is_ongoing = stored.state == TransactionState::Ongoing;
        if is_ongoing
            && partitions
                .iter()
                .all(|added| stored.partitions.contains(added))
        {
            return Ok(Step::Done(()));
        }
        let mut next = stored.clone();
        if !is_ongoing {
            next.partitions.clear();
            next.start_ms = now.ms;
            next.state = TransactionState::Ongoing;
        }
        next.update_ms = now.ms;
        next.partitions.extend(partitions.iter().cloned());
        if next.partitions.len() > messages::TRANSACTION_PARTITIONS_MAX {
            return Err(TransactionError::NoRoom);
        }
        let (reply, waiting) = oneshot::channel();
        self.write(next, self.last_epoch, Reply::Added(reply));
        Ok(Step::Written(waiting))
    }

    /// Which of these partitions are in the producer's transaction. A change on its way does not matter:
    /// the caller detects by its token or guard that the transaction ended meanwhile.
    pub(super) fn verify(
        &self,
        producer: ProducerEpoch,
        partitions: &[TopicPartition],
    ) -> Result<VerifiedPartitions, TransactionError> {
        let stored = self.of_producer(producer)?;
        let is_ongoing = stored.state == TransactionState::Ongoing;
        let verify = |partition: &TopicPartition| {
            let is_in = is_ongoing && stored.partitions.contains(partition);
            let result = is_in.then_some(()).ok_or(TransactionError::Abortable);
            (partition.clone(), result)
        };
        Ok(partitions.iter().map(verify).collect())
    }

    /// What is stored, where the producer is the current one and its transaction is not being ended.
    fn of_producer(&self, producer: ProducerEpoch) -> Result<&Metadata, TransactionError> {
        let stored = self.stored.as_ref().filter(|_| !self.is_dead);
        let stored = stored.ok_or(TransactionError::InvalidProducerIdMapping)?;
        if stored.is_next(producer) {
            return Err(TransactionError::Concurrent);
        }
        if stored.producer_id != producer.0 {
            return Err(TransactionError::InvalidProducerIdMapping);
        }
        if stored.epoch != producer.1 {
            return Err(TransactionError::ProducerFenced);
        }
        if stored.state.is_ending() {
            return Err(TransactionError::Concurrent);
        }
        Ok(stored)
    }

    /// Ends the producer's transaction; the answer is the id and epoch with which the producer goes on.
    pub(super) fn end(
        &mut self,
        producer: ProducerEpoch,
        committed: bool,
        (protocol, fresh): (i16, Option<i64>),
        now: Now,
    ) -> Result<Step<ProducerEpoch>, TransactionError> {
        use TransactionState::{
            CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit,
        };
        let (producer_id, epoch) = producer;
        let stored = self.stored.as_ref().filter(|_| !self.is_dead);
        let stored = stored.ok_or(TransactionError::InvalidProducerIdMapping)?;
        if stored.is_next(producer) {
            return Err(TransactionError::Concurrent);
        }
        let has_epochs = protocol >= EPOCH_PER_TRANSACTION;
        let is_retry = has_epochs && is_retried_end(stored, producer);
        if !is_retry {
            if stored.producer_id != producer_id {
                return Err(TransactionError::InvalidProducerIdMapping);
            }
            if stored.epoch != epoch {
                return Err(TransactionError::ProducerFenced);
            }
        }
        if self.is_writing {
            return Err(TransactionError::Concurrent);
        }
        let wanted = if committed {
            PrepareCommit
        } else {
            PrepareAbort
        };
        match (stored.state, committed) {
            (PrepareCommit, true) | (PrepareAbort, false) => Err(TransactionError::Concurrent),
            (PrepareCommit, false) | (PrepareAbort, true) => Err(TransactionError::InvalidState),
            // The answer to the same request was lost.
            (CompleteCommit, true) | (CompleteAbort, false) if is_retry || !has_epochs => {
                Ok(Step::Done((stored.producer_id, stored.epoch)))
            }
            _ if is_retry => Err(TransactionError::InvalidState),
            (Ongoing, _) => self.prepare(wanted, (protocol, fresh), now),
            // With an epoch per transaction, an abort without partitions still ends one.
            (Empty | CompleteCommit | CompleteAbort, false) if has_epochs => {
                self.prepare(wanted, (protocol, fresh), now)
            }
            (Empty | CompleteCommit | CompleteAbort, _) => Err(TransactionError::InvalidState),
        }
    }

    fn prepare(
        &mut self,
        state: TransactionState,
        (protocol, fresh): (i16, Option<i64>),
        now: Now,
    ) -> Result<Step<ProducerEpoch>, TransactionError> {
        let Some(stored) = &self.stored else {
            return Err(TransactionError::IdNotFound);
        };
        let mut next = Metadata {
            state,
            update_ms: now.ms,
            client_version: protocol,
            ..stored.clone()
        };
        if stored.state != TransactionState::Ongoing {
            next.partitions.clear();
            next.start_ms = now.ms;
        }
        let mut answer = (stored.producer_id, stored.epoch);
        let mut last_epoch = self.last_epoch;
        if protocol >= EPOCH_PER_TRANSACTION {
            last_epoch = stored.epoch;
            next.epoch = stored.epoch.saturating_add(1);
            answer.1 = next.epoch;
            if is_exhausted(stored.epoch) {
                let Some(producer_id) = fresh else {
                    return Ok(Step::NeedsProducerId);
                };
                next.next_producer_id = producer_id;
                answer = (producer_id, 0);
            }
        }
        let (reply, waiting) = oneshot::channel();
        self.write(next, last_epoch, Reply::Producer(reply, Ok(answer)));
        Ok(Step::Written(waiting))
    }

    /// A change could not be written: what is due is tried again after a pause.
    fn try_again_later(&mut self, now: Now) {
        self.schedule(now);
        let later = now.at + RETRY_PAUSE;
        self.wake_at = match self.ending() {
            Some(_) => Some(later),
            None => self.wake_at.map(|at| at.max(later)),
        };
    }

    /// All markers of the transaction are written.
    pub(super) fn complete(&mut self, epoch: i16, now: Now) {
        let Some(stored) = self.stored.as_ref().filter(|_| !self.is_writing) else {
            return;
        };
        let state = match stored.state {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            TransactionState::PrepareAbort => TransactionState::CompleteAbort,
            _ => return,
        };
        if stored.epoch != epoch {
            return;
        }
        let mut next = Metadata {
            state,
            update_ms: now.ms,
            partitions: BTreeSet::new(),
            next_producer_id: NONE,
            previous_producer_id: NONE,
            ..stored.clone()
        };
        if stored.next_producer_id != NONE {
            next.previous_producer_id = stored.producer_id;
            (next.producer_id, next.epoch) = (stored.next_producer_id, 0);
        }
        self.write(next, self.last_epoch, Reply::Nobody);
    }

    /// What the markers of the transaction say and where they go, while they are to be written. `None` where there is
    /// nothing to do; the change to that state may still be on its way.
    pub(super) fn ending(&self) -> Option<(&Metadata, bool)> {
        let stored = self.stored.as_ref().filter(|_| !self.is_writing)?;
        let committed = stored.state == TransactionState::PrepareCommit;
        stored.state.is_ending().then_some((stored, committed))
    }

    /// Whether the id is forgotten from now on, because it had no transaction for long.
    pub(super) fn forget_if_expired(&mut self, now: Now) {
        let Some(stored) = self
            .stored
            .as_ref()
            .filter(|_| !self.is_writing && !self.is_dead)
        else {
            return;
        };
        let is_idle = !stored.state.is_ending() && stored.state != TransactionState::Ongoing;
        let expires_ms = stored
            .update_ms
            .saturating_add(millis(self.settings.config.id_expiration));
        if is_idle && now.ms >= expires_ms {
            self.is_dead = true;
            let tombstone = (record::encode_key(&self.id), None);
            let written = crate::kept::Written::Records(vec![tombstone]);
            self.writes.push((written, Outcome::Forget));
        }
    }

    /// The transaction took too long: it is aborted.
    fn abort_if_late(&mut self, now: Now) {
        let Some((stored, late_at)) = self.stored.as_ref().zip(self.late_at) else {
            return;
        };
        if now.at < late_at {
            self.wake_at = Some(late_at);
        } else if self.is_writing {
            self.wake_at = Some(now.at + RETRY_PAUSE);
        } else {
            tracing::info!(id = %self.id, producer_id = stored.producer_id, "a transaction has timed out and is aborted");
            drop(self.fence::<()>(now, |_| Reply::Nobody));
        }
    }

    /// Sets the time at which the ongoing transaction is late: once, when it begins or is loaded.
    fn schedule(&mut self, now: Now) {
        let stored = self.stored.as_ref();
        let ongoing = stored.filter(|stored| stored.state == TransactionState::Ongoing);
        self.late_at = ongoing.map(|stored| {
            let late_ms = stored.start_ms.saturating_add(i64::from(stored.timeout_ms));
            // A transaction that begins later than now was stamped by a clock that was wrong.
            let left_ms = late_ms.saturating_sub(now.ms).min(stored.timeout_ms.into());
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
            self.late_at.unwrap_or(now.at + left)
        });
        self.wake_at = self.late_at;
    }

    fn check_idle(&self) -> Result<(), TransactionError> {
        match self.is_writing || self.is_dead {
            true => Err(TransactionError::Concurrent),
            false => Ok(()),
        }
    }

    fn write(&mut self, next: Metadata, last_epoch: i16, reply: Reply) {
        self.is_writing = true;
        let record = (record::encode_key(&self.id), Some(next.encode()));
        let written = crate::kept::Written::Records(vec![record]);
        let change = Box::new((next, last_epoch, reply));
        self.writes.push((written, Outcome::Change(change)));
    }

    pub(super) fn state(&self) -> Option<TransactionState> {
        self.stored.as_ref().map(|stored| stored.state)
    }

    pub(super) fn describe(&self) -> Option<TransactionDescription> {
        let stored = self.stored.as_ref().filter(|_| !self.is_dead)?;
        let timeout = u64::try_from(stored.timeout_ms).unwrap_or(0);
        Some(TransactionDescription {
            state: stored.state,
            timeout: Duration::from_millis(timeout),
            start_ms: Some(stored.start_ms).filter(|ms| *ms >= 0),
            producer_id: stored.producer_id,
            producer_epoch: stored.epoch,
            partitions: stored.partitions.clone(),
        })
    }
}

/// Fences a producer that says which id it has, unless it is the current one or may have missed that it got another one.
fn check_expected(
    stored: &Metadata,
    expected: Option<ProducerEpoch>,
) -> Result<(), TransactionError> {
    match expected {
        Some(producer) if stored.is_next(producer) => Err(TransactionError::Concurrent),
        Some((id, _)) if id == stored.producer_id => Ok(()),
        Some((id, epoch)) if id == stored.previous_producer_id && is_exhausted(epoch) => Ok(()),
        Some(_) => Err(TransactionError::ProducerFenced),
        None => Ok(()),
    }
}

/// Whether the producer has missed the answer to the end of its last transaction.
fn is_retried_end(stored: &Metadata, (id, epoch): ProducerEpoch) -> bool {
    use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing};
    let has_epochs = stored.client_version >= EPOCH_PER_TRANSACTION;
    let bumped = id == stored.producer_id && epoch.checked_add(1) == Some(stored.epoch);
    let rotated = id == stored.previous_producer_id && is_exhausted(epoch) && stored.epoch == 0;
    let is_last = match stored.state {
        Empty | Ongoing => false,
        // No producer may have the greatest epoch: nothing could fence it.
        CompleteCommit | CompleteAbort => stored.epoch < i16::MAX,
        _ => true,
    };
    has_epochs && is_last && (bumped || rotated)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
