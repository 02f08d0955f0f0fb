//! Which data was aborted, and which markers are still needed: while batches pass in offset order.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use millrace_record::{BatchHeader, InvalidBatch, TransactionEnd};

use crate::transactions::Aborted;

/// What a control batch says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Commit,
    Abort,
    /// Nothing about a transaction, or nothing any more.
    Other,
}

impl Marker {
    /// Reads a control batch.
    ///
    /// # Errors
    /// Its record is malformed.
    pub(super) fn of(batch: &Bytes) -> Result<Self, InvalidBatch> {
        let end = TransactionEnd::of(batch)?;
        Ok(match end.map(|end| end.committed) {
            Some(true) => Self::Commit,
            Some(false) => Self::Abort,
            None => Self::Other,
        })
    }
}

/// Whether a marker is still needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Data of its transaction was met.
    Needed,
    /// No data was met, but consumers are still told of the transaction: without the marker, they would drop what the producer
    /// commits afterwards.
    Indexed,
    /// Neither.
    Unneeded,
}

/// The transactions at one place of the log.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// Those that begin later, by their first offset.
    to_come: VecDeque<Aborted>,
    /// Aborted ones that have begun, by producer; whether data of them was met.
    aborted: HashMap<i64, (Aborted, bool)>,
    /// Producers of which data was met since their last marker, and not of an aborted transaction.
    committing: HashSet<i64>,
    /// Aborted ones of which only the marker was met, and that need not be known any more.
    emptied: Vec<Aborted>,
}

impl Passing {
    /// `aborted` are those of the range that is going to pass.
    pub(super) fn new(aborted: Vec<Aborted>) -> Self {
        let mut passing = Self::default();
        passing.expect(aborted);
        passing
    }

    /// These are going to pass as well. They begin behind all others.
    pub(super) fn expect(&mut self, mut aborted: Vec<Aborted>) {
        aborted.sort_unstable_by_key(|aborted| aborted.first);
        self.to_come.extend(aborted);
    }

    /// A batch of data; whether its transaction was aborted.
    pub(super) fn pass_data(&mut self, header: &BatchHeader) -> bool {
        self.begin_up_to(header);
        if !header.is_transactional() {
            return false;
        }
        if let Some((_, met)) = self.aborted.get_mut(&header.producer_id) {
            *met = true;
            return true;
        }
        self.committing.insert(header.producer_id);
        false
    }

    /// A control batch; `is_over` where its delete horizon has passed.
    pub(super) fn pass_marker(
        &mut self,
        header: &BatchHeader,
        marker: Marker,
        is_over: bool,
    ) -> Need {
        self.begin_up_to(header);
        match marker {
            Marker::Abort => match self.aborted.remove(&header.producer_id) {
                Some((_, true)) => Need::Needed,
                Some((aborted, false)) => {
                    // Until now somebody might have read the data from an object that was replaced.
                    self.emptied.extend(is_over.then_some(aborted));
                    Need::Indexed
                }
                None => Need::Unneeded,
            },
            Marker::Commit if self.committing.remove(&header.producer_id) => Need::Needed,
            Marker::Commit => Need::Unneeded,
            Marker::Other => Need::Needed,
        }
    }

    fn begin_up_to(&mut self, header: &BatchHeader) {
        let last = u64::try_from(header.last_offset()).unwrap_or(0);
        while let Some(&next) = self.to_come.front()
            && next.first <= last
        {
            self.to_come.pop_front();
            let known = self.aborted.entry(next.producer_id);
            known.or_insert((next, false));
        }
    }

    /// Aborted transactions of which nothing but the marker is left, for long enough.
    pub(super) fn take_emptied(&mut self) -> Vec<Aborted> {
        std::mem::take(&mut self.emptied)
    }
}
