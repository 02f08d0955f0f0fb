//! What the records of one batch share until their fate is known.

use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use super::{error::DeliveryError, record::RecordMetadata};
use crate::error::BrokerError;

/// What became of a batch.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// It is stored.
    Stored {
        /// Offset of the first record, where the broker told it.
        base_offset: Option<i64>,
        /// The broker's time, where it stamps the records.
        log_append_time_ms: Option<i64>,
    },
    /// It failed, all records alike.
    Failed(DeliveryError),
    /// It failed for some of its records; the others share the batch's error.
    Refused {
        records: BTreeMap<u32, BrokerError>,
        others: BrokerError,
    },
    /// It was too large for the broker. Each part has the records from its first index on.
    Split(Vec<(u32, Arc<BatchCompletion>)>),
}

/// One batch's outcome, and who waits for it.
pub(super) struct BatchCompletion {
    /// Numbers the batches in the order in which they were opened; a batch has [`Self::SPAN`]
    /// numbers, so that its parts have their place in the order as well.
    pub(super) number: u64,
    /// How many numbers it has.
    span: u64,
    partition: i32,
    /// Records of the batch so far.
    records: AtomicU32,
    outcome: OnceLock<Outcome>,
    /// At most one for each record with a waiting caller, and for each `flush`.
    wakers: Mutex<Vec<Waker>>,
}

impl fmt::Debug for BatchCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCompletion")
            .field("number", &self.number)
            .field("partition", &self.partition)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl BatchCompletion {
    /// Numbers of one batch: one that is halved so often has single records.
    pub(super) const SPAN: u64 = 1 << 24;

    pub(super) fn new(number: u64, partition: i32) -> Self {
        Self::with_span(number, Self::SPAN, partition)
    }

    fn with_span(number: u64, span: u64, partition: i32) -> Self {
        Self {
            number,
            span,
            partition,
            records: AtomicU32::new(0),
            outcome: OnceLock::new(),
            wakers: Mutex::default(),
        }
    }

    /// Completions for two halves of the batch, in its place in the order; nothing where it has
    /// been halved too often.
    pub(super) fn halves(&self) -> Option<[Arc<Self>; 2]> {
        let span = self.span / 2;
        let half = |number| Arc::new(Self::with_span(number, span, self.partition));
        (span > 0).then(|| [half(self.number), half(self.number + span)])
    }

    /// Tells how many records the batch has now.
    pub(super) fn set_records(&self, records: u32) {
        self.records.store(records, Ordering::Relaxed);
    }

    pub(super) fn records(&self) -> u32 {
        self.records.load(Ordering::Relaxed)
    }

    /// Settles the batch. False where that had happened before; then nothing changes.
    pub(super) fn complete(&self, outcome: Outcome) -> bool {
        let mut wakers = self.wakers.lock();
        let is_first = self.outcome.set(outcome).is_ok();
        let woken = std::mem::take(&mut *wakers);
        drop(wakers);
        woken.into_iter().for_each(Waker::wake);
        is_first
    }

    pub(super) fn is_complete(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Waits until it is settled, with all its parts.
    pub(super) async fn done(self: Arc<Self>) {
        let mut left = vec![self];
        while let Some(batch) = left.pop() {
            let mut slot = None;
            let parts = poll_fn(|context| {
                batch
                    .poll_outcome(context, &mut slot)
                    .map(|outcome| match outcome {
                        Outcome::Split(parts) => parts.clone(),
                        _ => Vec::new(),
                    })
            });
            left.extend(parts.await.into_iter().map(|(_, part)| part));
        }
    }

    /// `slot` is where the caller's waker stands, so that polling again replaces it.
    fn poll_outcome(&self, context: &mut Context<'_>, slot: &mut Option<usize>) -> Poll<&Outcome> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let mut wakers = self.wakers.lock();
        // `complete` sets the outcome under this lock: it cannot be missed.
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        match slot.and_then(|slot| wakers.get_mut(slot)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                *slot = Some(wakers.len());
                wakers.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}

/// Resolves once a record is stored or has failed. Dropping it changes nothing for the record.
#[derive(Debug)]
#[must_use = "it says whether the record was stored; drop it explicitly if that does not matter"]
pub struct Delivery {
    batch: Arc<BatchCompletion>,
    index: u32,
    timestamp_ms: i64,
    slot: Option<usize>,
}

impl Delivery {
    pub(super) fn new(batch: Arc<BatchCompletion>, index: u32, timestamp_ms: i64) -> Self {
        Self {
            batch,
            index,
            timestamp_ms,
            slot: None,
        }
    }

    /// The partition that the record went to, known before it is stored.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.batch.partition
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, DeliveryError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let batch = Arc::clone(&this.batch);
            let Poll::Ready(outcome) = batch.poll_outcome(context, &mut this.slot) else {
                return Poll::Pending;
            };
            let Outcome::Split(parts) = outcome else {
                return Poll::Ready(this.result(outcome));
            };
            // The last part that begins at or before the record has it.
            let part = parts.iter().rev().find(|(first, _)| *first <= this.index);
            let Some((first, part)) = part else {
                return Poll::Ready(Err(DeliveryError::Closed));
            };
            this.index -= first;
            this.batch = Arc::clone(part);
            this.slot = None;
        }
    }
}

impl Delivery {
    fn result(&self, outcome: &Outcome) -> Result<RecordMetadata, DeliveryError> {
        match outcome {
            Outcome::Stored {
                base_offset,
                log_append_time_ms,
            } => Ok(RecordMetadata {
                partition: self.batch.partition,
                offset: base_offset.map(|base| base + i64::from(self.index)),
                timestamp_ms: log_append_time_ms.unwrap_or(self.timestamp_ms),
            }),
            Outcome::Failed(error) => Err(error.clone()),
            Outcome::Refused { records, others } => Err(match records.get(&self.index) {
                Some(error) => DeliveryError::InvalidRecord(error.clone()),
                None => DeliveryError::Broker(others.clone()),
            }),
            Outcome::Split(_) => Err(DeliveryError::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(base_offset: i64) -> Outcome {
        Outcome::Stored {
            base_offset: Some(base_offset),
            log_append_time_ms: None,
        }
    }

    #[tokio::test]
    async fn every_record_of_a_batch_learns_its_own_offset() {
        let batch = Arc::new(BatchCompletion::new(0, 3));
        let deliveries = (0..3).map(|index| Delivery::new(Arc::clone(&batch), index, 7));
        let waiting: Vec<_> = deliveries.map(tokio::spawn).collect();
        tokio::task::yield_now().await;
        assert!(batch.complete(stored(40)));
        assert!(!batch.complete(Outcome::Failed(DeliveryError::Closed)));
        for (offset, delivery) in (40..).zip(waiting) {
            let metadata = delivery.await.expect("no panic").expect("stored");
            assert_eq!((metadata.offset, metadata.partition), (Some(offset), 3));
        }
    }

    #[tokio::test]
    async fn the_records_of_a_split_batch_follow_their_part() {
        let batch = Arc::new(BatchCompletion::new(0, 0));
        let parts: Vec<_> = [0, 2]
            .map(|first| (first, Arc::new(BatchCompletion::new(0, 0))))
            .into();
        batch.complete(Outcome::Split(parts.clone()));
        parts[0].1.complete(stored(10));
        parts[1].1.complete(stored(12));
        for index in 0..4_u32 {
            let metadata = Delivery::new(Arc::clone(&batch), index, 0).await;
            let offset = metadata.expect("stored").offset;
            assert_eq!(offset, Some(10 + i64::from(index)));
        }
    }

    #[tokio::test]
    async fn polling_again_keeps_one_waker_per_record() {
        let batch = Arc::new(BatchCompletion::new(0, 0));
        let mut delivery = Delivery::new(Arc::clone(&batch), 0, 0);
        for _ in 0..10 {
            assert!(futures_util::poll!(&mut delivery).is_pending());
        }
        assert_eq!(batch.wakers.lock().len(), 1);
    }
}
