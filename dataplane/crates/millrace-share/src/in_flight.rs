//! The records in flight of one share partition: those from its start offset, below which everything is done, to its end
//! offset, from which on nothing was acquired yet.
//!
//! Records in a row with the same state are one batch, whatever batches they have in the log. So what a share partition
//! takes in memory grows with the number of different states in a row, and a state is changed for a range of offsets.

use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
    sync::Arc,
    time::Duration,
};

use millrace_model::Offset;

use crate::persist::{Settled, Writing};

/// What bounds a share partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A record that was delivered so often is archived instead of being delivered again.
    pub delivery_count: i16,
    /// Where so many records are in flight, no further ones are acquired.
    pub record_locks: u32,
}

/// The records in flight of one share partition.
#[derive(Debug)]
pub struct InFlightRecords {
    pub(crate) limits: Limits,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// By first offset; without gaps from `start` to `end`.
    pub(crate) batches: BTreeMap<Offset, Batch>,
    /// The first record in flight that is available.
    pub(crate) available: Option<Offset>,
    /// The start offset that is stored; `None` where none is.
    pub(crate) stored_start: Option<Offset>,
    /// How many writes have begun.
    pub(crate) writes: u64,
    pub(crate) writing: Option<Writing>,
}

/// Records in a row that have the same state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) last: Offset,
    pub(crate) state: State,
    /// How often they were delivered.
    pub(crate) deliveries: i16,
    /// Whether the state has changed since it was stored last.
    pub(crate) is_dirty: bool,
}

/// The state of a record, as in KIP-932.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// A member can acquire it.
    Available,
    /// A member holds it.
    Acquired(Lock),
    /// The member that holds it has acknowledged it, which is not durable yet.
    Settling {
        lock: Lock,
        to: Settled,
        /// Whether it is part of the write that is under way; of the next one otherwise.
        is_in_write: bool,
    },
    /// It was processed.
    Acknowledged,
    /// It is not delivered any more.
    Archived,
}

/// An acquisition lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) member: Arc<str>,
    pub(crate) until: Duration,
}

impl State {
    /// Whether nothing more happens to the record.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(self, Self::Acknowledged | Self::Archived)
    }

    /// Who holds the record, or did until it was acknowledged.
    #[cfg(test)]
    pub(crate) fn member(&self) -> Option<&str> {
        match self {
            Self::Acquired(lock) | Self::Settling { lock, .. } => Some(&lock.member),
            Self::Available | Self::Acknowledged | Self::Archived => None,
        }
    }

    fn is_acquired_by(&self, member: &str) -> bool {
        matches!(self, Self::Acquired(lock) if &*lock.member == member)
    }
}

impl Batch {
    pub(crate) const fn new(last: Offset, state: State, deliveries: i16) -> Self {
        Self {
            last,
            state,
            deliveries,
            is_dirty: false,
        }
    }

    fn joins(&self, other: &Self) -> bool {
        self.state == other.state
            && self.deliveries == other.deliveries
            && self.is_dirty == other.is_dirty
    }

    /// Changes the state without waiting until that is durable.
    pub(crate) fn change(&mut self, state: State) {
        self.state = state;
        self.is_dirty = true;
    }
}

impl InFlightRecords {
    /// Nothing is in flight, and everything below `start` is done.
    pub(crate) fn new(start: Offset, limits: Limits) -> Self {
        Self {
            limits,
            start,
            end: start,
            batches: BTreeMap::new(),
            available: None,
            stored_start: Some(start),
            writes: 0,
            writing: None,
        }
    }

    /// Everything below is done.
    #[must_use]
    pub const fn start_offset(&self) -> Offset {
        self.start
    }

    /// Nothing from here on was acquired yet.
    #[must_use]
    pub const fn end_offset(&self) -> Offset {
        self.end
    }

    /// Batches of records with different states.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    /// Whether no member holds records, and everything is stored.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_settled = |batch: &Batch| {
            !batch.is_dirty && !matches!(batch.state, State::Acquired(_) | State::Settling { .. })
        };
        self.writing.is_none() && self.batches.values().all(is_settled)
    }

    /// Applies other limits from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Where the next records are that can be acquired; `None` while as many are in flight as may be.
    #[must_use]
    pub fn next_fetch_offset(&self) -> Option<Offset> {
        self.available.or((self.room() > 0).then_some(self.end))
    }

    /// The log starts later now: what is below cannot be read any more, and counts as done.
    pub fn advance_log_start(&mut self, log_start: Offset) {
        if log_start <= self.start {
            return;
        }
        self.split_at(log_start);
        self.batches = self.batches.split_off(&log_start);
        self.start = log_start;
        self.end = self.end.max(log_start);
        self.advance_start();
    }

    /// Makes everything available again that a member holds whose share session has ended. As in Kafka, these deliveries do not
    /// count: the member may not have seen the records. Returns whether it held anything.
    pub fn release(&mut self, member: &str) -> bool {
        self.change_acquired(
            |lock| &*lock.member == member,
            |batch| {
                batch.deliveries -= 1;
                batch.change(State::Available);
            },
        )
    }

    /// Makes everything available again whose acquisition lock has timed out. Returns whether there was any.
    pub fn expire(&mut self, now: Duration) -> bool {
        let limit = self.limits.delivery_count;
        self.change_acquired(
            |lock| lock.until <= now,
            |batch| batch.change(Settled::Available.within(limit, batch.deliveries).into()),
        )
    }

    /// When the next acquisition lock times out.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let locks = self
            .batches
            .values()
            .filter_map(|batch| match &batch.state {
                State::Acquired(lock) => Some(lock.until),
                _ => None,
            });
        locks.min()
    }

    fn change_acquired(
        &mut self,
        is_changed: impl Fn(&Lock) -> bool,
        change: impl Fn(&mut Batch),
    ) -> bool {
        let mut any = false;
        for batch in self.batches.values_mut() {
            if matches!(&batch.state, State::Acquired(lock) if is_changed(lock)) {
                change(batch);
                any = true;
            }
        }
        if any {
            self.join_all();
            self.advance_start();
        }
        any
    }

    /// How many more records may be in flight.
    pub(crate) fn room(&self) -> u64 {
        u64::from(self.limits.record_locks).saturating_sub(self.end - self.start)
    }

    /// Whether a member holds all records of a range, none of which it has acknowledged.
    pub(crate) fn holds(&self, member: &str, range: RangeInclusive<Offset>) -> bool {
        let mut overlapping = self.overlapping(range);
        overlapping.all(|batch| batch.state.is_acquired_by(member))
    }

    fn overlapping(&self, range: RangeInclusive<Offset>) -> impl Iterator<Item = &Batch> {
        let first = self.batches.range(..=*range.start()).next_back();
        let first = first.map_or(*range.start(), |(first, _)| *first);
        let batches = self.batches.range(first..=*range.end());
        batches.map(|(_, batch)| batch)
    }

    /// Changes the batches of a range, which is cut out of those that extend beyond it.
    pub(crate) fn change_range(
        &mut self,
        range: RangeInclusive<Offset>,
        mut change: impl FnMut(Offset, &mut Batch),
    ) {
        self.split_at(*range.start());
        if let Some(after) = range.end().checked_add(1) {
            self.split_at(after);
        }
        for (first, batch) in self.batches.range_mut(range.clone()) {
            change(*first, batch);
        }
        self.join(range);
    }

    /// Adds a batch behind all others.
    pub(crate) fn extend(&mut self, batch: Batch) {
        let (first, last) = (self.end, batch.last);
        debug_assert!(first <= last, "a batch is not empty");
        self.end = last + 1;
        self.batches.insert(first, batch);
        self.join(first..=last);
    }

    /// Sees to it that no batch extends over an offset.
    fn split_at(&mut self, offset: Offset) {
        let before = self.batches.range_mut(..offset).next_back();
        let Some((_, batch)) = before.filter(|(_, batch)| batch.last >= offset) else {
            return;
        };
        let rest = batch.clone();
        batch.last = offset - 1;
        self.batches.insert(offset, rest);
    }

    /// Makes one batch of those in a range and beside it that are alike.
    fn join(&mut self, range: RangeInclusive<Offset>) {
        let before = self.batches.range(..*range.start()).next_back();
        let from = before.map_or(*range.start(), |(first, _)| *first);
        let to = range.end().saturating_add(1);
        let firsts: Vec<Offset> = self.batches.range(from..=to).map(|(at, _)| *at).collect();
        self.join_batches(&firsts);
    }

    pub(crate) fn join_all(&mut self) {
        let firsts: Vec<Offset> = self.batches.keys().copied().collect();
        self.join_batches(&firsts);
    }

    fn join_batches(&mut self, firsts: &[Offset]) {
        let mut firsts = firsts.iter().copied();
        let Some(mut into) = firsts.next() else {
            return;
        };
        for first in firsts {
            let (one, other) = (self.batches.get(&into), self.batches.get(&first));
            let Some((_, other)) = one.zip(other).filter(|(one, other)| one.joins(other)) else {
                into = first;
                continue;
            };
            let last = other.last;
            self.batches.remove(&first);
            if let Some(one) = self.batches.get_mut(&into) {
                one.last = last;
            }
        }
    }

    fn first_available(&self) -> Option<Offset> {
        let mut available = { self.batches.iter() }
            .filter(|(_, batch)| batch.state == State::Available)
            .map(|(first, _)| *first);
        available.next()
    }

    /// Forgets what is done at the start, and looks for what is available.
    pub(crate) fn advance_start(&mut self) {
        while let Some(first) = self.batches.first_entry()
            && first.get().state.is_done()
        {
            self.start = first.remove().last + 1;
        }
        if self.batches.is_empty() {
            self.start = self.end;
        }
        self.available = self.first_available();
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        let mut at = self.start;
        for (first, batch) in &self.batches {
            assert_eq!(*first, at, "no gaps");
            assert!(batch.last >= *first, "no empty batch");
            at = batch.last + 1;
        }
        assert_eq!(at, self.end);
        assert_eq!(self.available, self.first_available());
    }

    /// The offsets that are in flight.
    pub(crate) const fn range(&self) -> Range<Offset> {
        self.start..self.end
    }
}

#[cfg(test)]
mod tests;
