//! Acquisition: which of the records that were read a member gets.
//!
//! As in Kafka's batch-optimized mode, records are acquired by whole batches of the log, so a member may get more than it
//! asked for.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use millrace_model::Offset;

use crate::{
    deliverable::{BatchSpan, Fetched},
    in_flight::{Batch, InFlightRecords, Lock, State},
};

/// Who acquires records, and how many.
#[derive(Debug, Clone)]
pub struct Acquirer {
    /// The member.
    pub member: Arc<str>,
    /// Once it has so many, it gets no further batch.
    pub records_max: u64,
    /// How many records a range of acquired records has, if batches of the log allow it.
    pub batch_size: u64,
    /// When the acquisition locks time out.
    pub locked_until: Duration,
}

/// Records in a row that were acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredRecords {
    /// Offset of the first one.
    pub first: Offset,
    /// Offset of the last one.
    pub last: Offset,
    /// How often they were delivered, this time included.
    pub delivery_count: i16,
}

/// What an acquisition has come to.
#[derive(Debug, Default)]
struct Acquired {
    ranges: Vec<AcquiredRecords>,
    records: u64,
}

impl InFlightRecords {
    /// Acquires what is available of the records that were read. Offsets that were read and hold nothing for consumers are
    /// archived: they were compacted away, or belong to markers and aborted transactions.
    pub fn acquire(&mut self, fetched: &Fetched, by: &Acquirer) -> Vec<AcquiredRecords> {
        let mut acquired = Acquired::default();
        let start = self.start;
        let mut at = fetched.from.max(start);
        // The log may have been cut meanwhile, and then what is between is not known.
        if fetched.from > self.end {
            return acquired.ranges;
        }
        for span in { fetched.deliverable.iter() }.filter(|span| span.last >= start) {
            if acquired.records >= by.records_max || self.end < at {
                self.advance_start();
                return acquired.ranges;
            }
            let first = span.first.max(at);
            if first > span.last {
                continue;
            }
            if at < first {
                self.skip(at..=first - 1);
            }
            let span = BatchSpan { first, ..*span };
            self.acquire_available(span, by, &mut acquired);
            self.acquire_new(span, by, &mut acquired);
            at = span.last + 1;
        }
        if at < fetched.end && at <= self.end {
            self.skip(at..=fetched.end - 1);
        }
        self.advance_start();
        acquired.ranges
    }

    /// Acquires what is available of a batch that was read before.
    fn acquire_available(&mut self, span: BatchSpan, by: &Acquirer, acquired: &mut Acquired) {
        if span.first >= self.end {
            return;
        }
        let limit = self.limits.delivery_count;
        let lock = by.lock();
        self.change_range(span.first..=span.last, |first, batch| {
            if batch.state != State::Available {
                return;
            }
            if batch.deliveries >= limit {
                batch.change(State::Archived);
                return;
            }
            batch.deliveries += 1;
            batch.state = State::Acquired(lock.clone());
            acquired.push(first, batch, by.batch_size);
        });
    }

    /// Acquires what was not read before.
    fn acquire_new(&mut self, span: BatchSpan, by: &Acquirer, acquired: &mut Acquired) {
        let first = self.end;
        if span.last < first || first < span.first {
            return;
        }
        let room = self.room();
        if room == 0 {
            return;
        }
        // A batch is acquired as a whole, which bounds what is in flight to twice the limit. Larger ones are divided.
        let is_large = span.last - first >= room.saturating_add(self.limits.record_locks.into());
        let last = match is_large {
            true => first + room - 1,
            false => span.last,
        };
        let batch = Batch::new(last, State::Acquired(by.lock()), 1);
        acquired.push(first, &batch, by.batch_size);
        self.extend(batch);
    }

    /// Archives what holds nothing for consumers.
    fn skip(&mut self, range: RangeInclusive<Offset>) {
        if *range.start() < self.end {
            self.change_range(range.clone(), |_, batch| {
                if batch.state == State::Available {
                    batch.change(State::Archived);
                }
            });
        }
        if *range.end() >= self.end {
            let mut batch = Batch::new(*range.end(), State::Archived, 0);
            batch.is_dirty = true;
            self.extend(batch);
        }
    }
}

impl Acquirer {
    fn lock(&self) -> Lock {
        Lock {
            member: Arc::clone(&self.member),
            until: self.locked_until,
        }
    }
}

impl Acquired {
    fn push(&mut self, first: Offset, batch: &Batch, batch_size: u64) {
        let (last, delivery_count) = (batch.last, batch.deliveries);
        self.records += last - first + 1;
        match self.ranges.last_mut() {
            Some(range)
                if range.last + 1 == first
                    && range.delivery_count == delivery_count
                    && range.last - range.first + 1 < batch_size =>
            {
                range.last = last;
            }
            _ => self.ranges.push(AcquiredRecords {
                first,
                last,
                delivery_count,
            }),
        }
    }
}
