//! One partition's batches, from the first record to the answer.
//!
//! ```text
//! open ─► ready (in order) ─► in flight ─► settled
//!            ▲                    │
//!            └── retry, in order ─┘
//! ```
//!
//! # Sequences
//!
//! An idempotent producer numbers each partition's records under an identity (id and epoch). The
//! broker appends a batch only if its number is the next one, and knows the last five batches again
//! when they are retried. The rules that keep "in order, not twice" through every failure:
//!
//! 1. A batch that was sent keeps its sequence. Retries go out oldest first, one at a time
//!    ([`Sequences::may_send`]).
//! 2. A batch that is given up leaves a *gap*. No new batch follows until everything that was sent
//!    is settled: what stands behind the gap may or may not be stored, and only the broker knows.
//! 3. If the broker refuses the **oldest** unsettled batch as out of order, or does not know the
//!    producer, then nothing behind it can be stored either. It is *lost*: once nothing is in flight,
//!    all unsettled batches start over at sequence 0 under a new epoch (KIP-360).
//! 4. After a gap, with nothing unsettled, new batches start at sequence 0 under a new epoch.
//! 5. Until the broker has stored the first batch under an identity, no second one is in flight: a
//!    broker that knows nothing of a producer accepts any sequence, so that the second batch could
//!    be stored although the first was refused.
//! 6. A partition has at most `max_in_flight` batches in flight, whichever brokers they went to: after
//!    a change of leaders the new one gets nothing before the old one has answered for what it holds.
//!    A broker knows the last five batches again, no more.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use millrace_record::{BatchBuilder, ClosedBatch, sign_batch};
use parking_lot::{Mutex, MutexGuard};

use super::{
    completion::BatchCompletion,
    memory::{Memory, Reserved},
};
use crate::error::RequestError;

/// Producer id and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// A batch that takes records.
pub(super) struct OpenBatch {
    pub(super) builder: BatchBuilder,
    pub(super) completion: Arc<BatchCompletion>,
    pub(super) created_at: Duration,
    pub(super) reserved: Reserved,
}

/// A batch that is complete.
pub(super) struct Batch {
    pub(super) completion: Arc<BatchCompletion>,
    pub(super) bytes: Bytes,
    pub(super) count: u32,
    pub(super) created_at: Duration,
    pub(super) reserved: Reserved,
    /// Identity and sequence of the first record, once it was sent.
    pub(super) sequence: Option<(Identity, i32)>,
    /// How often it was sent.
    pub(super) attempts: u32,
    /// Why the last attempt failed.
    pub(super) last_error: Option<RequestError>,
}

impl Batch {
    pub(super) fn number(&self) -> u64 {
        self.completion.number
    }

    fn sign(&mut self, identity: Identity, base_sequence: i32) {
        let mut bytes = BytesMut::from(std::mem::take(&mut self.bytes));
        sign_batch(&mut bytes, identity.id, identity.epoch, base_sequence);
        self.bytes = bytes.freeze();
        self.sequence = Some((identity, base_sequence));
    }
}

/// One partition's batches.
pub(super) struct PartitionQueue {
    topic: Arc<str>,
    index: usize,
    /// Whether it has a leader that takes batches.
    available: AtomicBool,
    /// Batches that wait, for partitioners.
    queued: AtomicUsize,
    state: Mutex<PartitionState>,
}

impl fmt::Debug for PartitionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
}

impl PartitionQueue {
    pub(super) fn new(topic: Arc<str>, index: usize) -> Self {
        Self {
            topic,
            index,
            // Until metadata says otherwise.
            available: AtomicBool::new(true),
            queued: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    pub(super) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// The index as Kafka writes it.
    pub(super) fn id(&self) -> i32 {
        i32::try_from(self.index).unwrap_or(i32::MAX)
    }

    pub(super) fn is_available(&self) -> bool {
        self.available.load(Ordering::Relaxed)
    }

    pub(super) fn set_available(&self, available: bool) {
        self.available.store(available, Ordering::Relaxed);
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn set_queued(&self, queued: usize) {
        self.queued.store(queued, Ordering::Relaxed);
    }

    /// The batches, until the guard is dropped.
    pub(super) fn lock(&self) -> Guard<'_> {
        Guard {
            queue: self,
            state: self.state.lock(),
        }
    }
}

/// The batches of a locked partition. Publishes the queue's length when it is dropped.
pub(super) struct Guard<'a> {
    queue: &'a PartitionQueue,
    state: MutexGuard<'a, PartitionState>,
}

impl std::ops::Deref for Guard<'_> {
    type Target = PartitionState;

    fn deref(&self) -> &PartitionState {
        &self.state
    }
}

impl std::ops::DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut PartitionState {
        &mut self.state
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let queued = self.state.ready.len() + usize::from(self.state.open.is_some());
        self.queue.queued.store(queued, Ordering::Relaxed);
    }
}

/// A batch that was sent and is not answered.
struct InFlight {
    completion: Arc<BatchCompletion>,
    created_at: Duration,
    count: u32,
}

/// See the module.
#[derive(Default)]
pub(super) struct PartitionState {
    pub(super) open: Option<OpenBatch>,
    ready: VecDeque<Batch>,
    in_flight: Vec<InFlight>,
    pub(super) sequences: Sequences,
    /// No retry before.
    pub(super) retry_at: Duration,
    /// Failed attempts in a row.
    pub(super) failures: u32,
    /// It stands in the list of what the sender looks at next.
    pub(super) has_attention: bool,
    /// It stands in the list of its leader's partitions with something to send.
    pub(super) is_listed: bool,
    /// When the sender looks at it next in any case.
    pub(super) timer: Option<Duration>,
    /// The sender is gone.
    pub(super) is_ended: bool,
}

impl PartitionState {
    /// Closes the open batch: it takes no more records.
    pub(super) fn close_open(&mut self, memory: &Memory, idempotent: bool) {
        let Some(open) = self.open.take() else {
            return;
        };
        let OpenBatch {
            builder,
            completion,
            created_at,
            mut reserved,
        } = open;
        let count = builder.count().unsigned_abs();
        let ClosedBatch { mut bytes, spare } = builder.close();
        if let Some(spare) = spare {
            reserved.shrink(bytes.capacity());
            memory.recycle(spare);
        }
        if !idempotent {
            sign_batch(&mut bytes, -1, -1, -1);
        }
        self.ready.push_back(Batch {
            completion,
            bytes: bytes.freeze(),
            count,
            created_at,
            reserved,
            sequence: None,
            attempts: 0,
            last_error: None,
        });
    }

    /// Whether [`Self::take`] would find something, as far as order goes.
    pub(super) fn has_sendable(&self, now: Duration, is_due: impl Fn(&OpenBatch) -> bool) -> bool {
        if now < self.retry_at {
            return false;
        }
        match self.ready.front() {
            Some(batch) => self.sequences.may_send(batch),
            None => self.sequences.may_send_new() && self.open.as_ref().is_some_and(is_due),
        }
    }

    /// Batches that were sent and are not answered; see rule 6.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Takes the next batch if it has at most `bytes_max`, and puts it in flight. `identity` is the
    /// producer's, nothing without idempotence.
    pub(super) fn take(&mut self, bytes_max: usize, identity: Option<Identity>) -> Option<Batch> {
        let fits = |batch: &Batch| batch.bytes.len() <= bytes_max;
        if !self.ready.front().is_some_and(fits) {
            return None;
        }
        let mut batch = self.ready.pop_front()?;
        if let Some(identity) = identity {
            self.sequences.assign(identity, &mut batch);
        }
        batch.attempts += 1;
        self.in_flight.push(InFlight {
            completion: Arc::clone(&batch.completion),
            created_at: batch.created_at,
            count: batch.count,
        });
        Some(batch)
    }

    /// A batch is no longer in flight.
    pub(super) fn landed(&mut self, batch: &Batch) {
        self.in_flight
            .retain(|sent| sent.completion.number != batch.number());
    }

    /// Puts a batch back in its place in the order.
    pub(super) fn requeue(&mut self, batch: Batch) {
        let place = self
            .ready
            .partition_point(|other| other.number() < batch.number());
        self.ready.insert(place, batch);
    }

    /// Takes what is too old: batches that wait, and the completions of those in flight.
    pub(super) fn expire(
        &mut self,
        before: Duration,
        memory: &Memory,
        idempotent: bool,
    ) -> Expired {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.created_at <= before)
        {
            self.close_open(memory, idempotent);
        }
        let mut expired = Expired::default();
        while let Some(batch) = self.ready.pop_front_if(|batch| batch.created_at <= before) {
            if batch.sequence.is_some() {
                self.sequences.gave_up(batch.number());
            }
            expired.batches.push(batch);
        }
        let late = self.in_flight.iter();
        let late = late.filter(|sent| sent.created_at <= before);
        let late = late.map(|sent| (Arc::clone(&sent.completion), sent.count));
        expired.in_flight = late.collect();
        expired
    }

    /// When the oldest unsettled batch was opened.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let open = self.open.iter().map(|open| open.created_at);
        let ready = self.ready.front().map(|batch| batch.created_at);
        let in_flight = self
            .in_flight
            .iter()
            .filter(|sent| !sent.completion.is_complete())
            .map(|sent| sent.created_at);
        open.chain(ready).chain(in_flight).min()
    }

    /// Whether something waits behind [`Self::retry_at`].
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Starts over under `identity` where the sequences need it.
    pub(super) fn reset_sequences(&mut self, identity: Identity) {
        self.sequences.reset(identity);
        for batch in &mut self.ready {
            batch.sequence = None;
        }
    }

    pub(super) fn needs_reset(&self) -> bool {
        self.in_flight.is_empty() && self.sequences.needs_reset()
    }

    /// Takes everything that waits, for good.
    pub(super) fn end(&mut self) -> (Option<OpenBatch>, VecDeque<Batch>) {
        self.is_ended = true;
        (self.open.take(), std::mem::take(&mut self.ready))
    }
}

/// What [`PartitionState::expire`] took.
#[derive(Default)]
pub(super) struct Expired {
    pub(super) batches: Vec<Batch>,
    /// With their numbers of records.
    pub(super) in_flight: Vec<(Arc<BatchCompletion>, u32)>,
}

/// One partition's sequences; see the module.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    identity: Option<Identity>,
    next: i32,
    /// Numbers of the batches that have a sequence and are not settled, oldest first.
    unsettled: VecDeque<u64>,
    has_gap: bool,
    is_lost: bool,
    /// The broker has stored a batch under this identity.
    is_established: bool,
}

impl Sequences {
    /// Rule 1: a retry only if it is the oldest.
    fn may_send(&self, batch: &Batch) -> bool {
        if batch.sequence.is_some() {
            !self.is_lost && self.unsettled.front() == Some(&batch.number())
        } else {
            self.may_send_new()
        }
    }

    /// Rules 2 to 5.
    fn may_send_new(&self) -> bool {
        let is_first = self.unsettled.is_empty();
        !self.has_gap && !self.is_lost && (self.is_established || is_first)
    }

    fn assign(&mut self, identity: Identity, batch: &mut Batch) {
        if batch.sequence.is_some() {
            return;
        }
        let identity = *self.identity.get_or_insert(identity);
        batch.sign(identity, self.next);
        let next = i64::from(self.next) + i64::from(batch.count);
        self.next = i32::try_from(next % (i64::from(i32::MAX) + 1)).unwrap_or(0);
        self.unsettled.push_back(batch.number());
    }

    /// The broker has the batch.
    pub(super) fn stored(&mut self, number: u64) {
        self.settle(number);
        self.is_established = true;
    }

    fn settle(&mut self, number: u64) {
        self.unsettled.retain(|other| *other != number);
    }

    /// The batch is given up. Whether the broker has it, it may not be known.
    pub(super) fn gave_up(&mut self, number: u64) {
        if self.unsettled.contains(&number) {
            self.settle(number);
            self.has_gap = true;
        }
    }

    /// The broker refused the batch as out of order, or does not know the producer. True where it
    /// is the oldest, and so lost.
    pub(super) fn refused(&mut self, number: u64) -> bool {
        let is_oldest = self.unsettled.front() == Some(&number);
        self.is_lost |= is_oldest;
        is_oldest
    }

    fn needs_reset(&self) -> bool {
        self.is_lost || self.has_gap && self.unsettled.is_empty()
    }

    fn reset(&mut self, identity: Identity) {
        *self = Self {
            identity: Some(identity),
            ..Self::default()
        };
    }

    /// Under which identity it numbers; nothing before the first batch.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.identity
    }
}
