//! What is stored of a share partition, and when.
//!
//! One write is under way at a time, and what changes meanwhile is part of the next one. So later states never get in
//! front of earlier ones, and acknowledgements that come faster than writes share one.

use millrace_model::Offset;

use crate::in_flight::{Batch, InFlightRecords, Limits, State};

/// The states that are stored. Records that are acquired are stored as available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// A member can acquire it.
    Available,
    /// It was processed.
    Acknowledged,
    /// It is not delivered any more.
    Archived,
}

/// Records in a row that have the same state, as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBatch {
    /// Offset of the first one.
    pub first: Offset,
    /// Offset of the last one.
    pub last: Offset,
    /// Their state.
    pub state: Settled,
    /// How often they were delivered.
    pub deliveries: i16,
}

/// A change to be stored, all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Everything below is done.
    pub start: Offset,
    /// What has changed from there on, in order.
    pub batches: Vec<StoredBatch>,
}

/// The write that is under way.
#[derive(Debug)]
pub(crate) struct Writing {
    start: Offset,
    /// What changes again if it fails, beside acknowledgements.
    changed: Vec<(Offset, Offset)>,
}

/// A stored state whose batches are not in order, or empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the batches of a stored share partition are not in order")]
pub struct InvalidState;

impl Settled {
    /// What becomes of a record that was delivered so often.
    pub(crate) const fn within(self, limit: i16, deliveries: i16) -> Self {
        match self {
            Self::Available if deliveries >= limit => Self::Archived,
            state => state,
        }
    }
}

impl From<Settled> for State {
    fn from(state: Settled) -> Self {
        match state {
            Settled::Available => Self::Available,
            Settled::Acknowledged => Self::Acknowledged,
            Settled::Archived => Self::Archived,
        }
    }
}

impl State {
    /// What is stored of it, once acknowledgements are durable.
    const fn stored(&self) -> Settled {
        match self {
            Self::Available | Self::Acquired(_) => Settled::Available,
            Self::Settling { to, .. } => *to,
            Self::Acknowledged => Settled::Acknowledged,
            Self::Archived => Settled::Archived,
        }
    }

    const fn is_unwritten(&self) -> bool {
        matches!(
            self,
            Self::Settling {
                is_in_write: false,
                ..
            }
        )
    }
}

impl InFlightRecords {
    /// What a stored state says. Offsets between its batches were never delivered.
    ///
    /// # Errors
    /// [`InvalidState`].
    pub fn load(
        start: Offset,
        batches: &[StoredBatch],
        limits: Limits,
    ) -> Result<Self, InvalidState> {
        let mut records = Self::new(start, limits);
        let mut end = None;
        for stored in batches {
            if stored.last < stored.first || end.is_some_and(|end| stored.first <= end) {
                return Err(InvalidState);
            }
            end = Some(stored.last);
            if stored.last < start {
                continue;
            }
            if stored.first > records.end {
                records.extend(Batch::new(stored.first - 1, State::Available, 0));
            }
            // The limit may be lower than it was.
            let state = stored
                .state
                .within(limits.delivery_count, stored.deliveries);
            let mut batch = Batch::new(stored.last, state.into(), stored.deliveries.max(0));
            batch.is_dirty = state != stored.state;
            records.extend(batch);
        }
        records.advance_start();
        Ok(records)
    }

    /// The number of the write that will hold what is acknowledged now. [`Self::begin_write`] and [`Self::end_write`] tell the
    /// numbers of theirs.
    pub(crate) const fn next_write(&self) -> u64 {
        self.writes
    }

    /// Begins to write what has changed, if there is anything, and no other write is under way. Gives the write's number.
    pub fn begin_write(&mut self) -> Option<(u64, Write)> {
        if self.writing.is_some() {
            return None;
        }
        let start = self.start_once_written();
        let (mut batches, mut changed) = (Vec::new(), Vec::new());
        for (first, batch) in &mut self.batches {
            if batch.is_dirty {
                changed.push((*first, batch.last));
                batch.is_dirty = false;
            } else if !batch.state.is_unwritten() {
                continue;
            }
            if let State::Settling { is_in_write, .. } = &mut batch.state {
                *is_in_write = true;
            }
            if batch.last >= start {
                push(&mut batches, *first, batch);
            }
        }
        if batches.is_empty() && Some(start) <= self.stored_start {
            return None;
        }
        self.writing = Some(Writing { start, changed });
        self.writes += 1;
        Some((self.writes - 1, Write { start, batches }))
    }

    /// The write that was under way is durable, or has failed: then members hold again what they had acknowledged, until their
    /// locks time out.
    pub fn end_write(&mut self, is_durable: bool) {
        let Some(writing) = self.writing.take() else {
            return;
        };
        for batch in self.batches.values_mut() {
            let State::Settling {
                lock,
                to,
                is_in_write: true,
            } = &batch.state
            else {
                continue;
            };
            batch.state = match is_durable {
                true => (*to).into(),
                false => State::Acquired(lock.clone()),
            };
        }
        if is_durable {
            self.stored_start = self.stored_start.max(Some(writing.start));
        } else {
            self.mark_changed(&writing.changed);
        }
        self.join_all();
        self.advance_start();
    }

    /// A share partition that has no state yet begins here. The first write stores that.
    #[must_use]
    pub fn begin_at(start: Offset, limits: Limits) -> Self {
        let mut records = Self::new(start, limits);
        records.stored_start = None;
        records
    }

    fn mark_changed(&mut self, changed: &[(Offset, Offset)]) {
        for (first, last) in changed {
            let range = (*first).max(self.start)..=*last;
            if range.is_empty() {
                continue;
            }
            self.change_range(range, |_, batch| {
                batch.is_dirty |= !matches!(batch.state, State::Settling { .. });
            });
        }
    }

    /// The start offset once everything that was acknowledged is durable.
    fn start_once_written(&self) -> Offset {
        let mut open =
            { self.batches.iter() }.filter(|(_, batch)| batch.state.stored() == Settled::Available);
        open.next().map_or(self.end, |(first, _)| *first)
    }
}

/// Adds a batch to a write, or to the batch before it if that is alike.
fn push(batches: &mut Vec<StoredBatch>, first: Offset, batch: &Batch) {
    // A delivery counts once it has ended. One whose end this leader does not see is not held against the record.
    let under_way = matches!(batch.state, State::Acquired(_));
    let stored = StoredBatch {
        first,
        last: batch.last,
        state: batch.state.stored(),
        deliveries: batch.deliveries - i16::from(under_way),
    };
    match batches.last_mut() {
        Some(before)
            if before.last + 1 == first
                && before.state == stored.state
                && before.deliveries == stored.deliveries =>
        {
            before.last = stored.last;
        }
        _ => batches.push(stored),
    }
}
