//! Which data was aborted, and which markers are still needed: while batches pass in offset order.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use millrace_model::Offset;
use millrace_record::{BatchHeader, InvalidBatch, records};

/// A transaction that was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    /// Offset of its first record.
    pub(crate) first_offset: Offset,
    /// Offset of its marker.
    pub(crate) last_offset: Offset,
}

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
        let Some(record) = records(batch)?.next() else {
            return Ok(Self::Other);
        };
        let key = record?.key.unwrap_or_default();
        let kind = key.get(2..4);
        Ok(match kind {
            Some([0, 0]) => Self::Abort,
            Some([0, 1]) => Self::Commit,
            _ => Self::Other,
        })
    }
}

/// The transactions at one place of the log.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Those that begin later, by their first offset.
    to_come: VecDeque<Aborted>,
    /// Aborted ones that have begun, by producer; whether data of them was met.
    aborted: HashMap<i64, (Aborted, bool)>,
    /// Producers of which data was met since their last marker, and not of an aborted transaction.
    committing: HashSet<i64>,
    /// Aborted ones whose marker was met, and no data.
    emptied: Vec<Aborted>,
}

impl Transactions {
    /// `aborted` are those of the range that is going to pass.
    pub(super) fn new(mut aborted: Vec<Aborted>) -> Self {
        aborted.sort_unstable_by_key(|aborted| aborted.first_offset);
        Self {
            to_come: aborted.into(),
            ..Self::default()
        }
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

    /// A control batch; whether it is a marker of which no data was met.
    pub(super) fn pass_marker(&mut self, header: &BatchHeader, marker: Marker) -> bool {
        self.begin_up_to(header);
        match marker {
            Marker::Abort => match self.aborted.remove(&header.producer_id) {
                Some((_, true)) => false,
                Some((aborted, false)) => {
                    self.emptied.push(aborted);
                    true
                }
                None => true,
            },
            Marker::Commit => !self.committing.remove(&header.producer_id),
            Marker::Other => false,
        }
    }

    fn begin_up_to(&mut self, header: &BatchHeader) {
        let last = u64::try_from(header.last_offset()).unwrap_or(0);
        while let Some(&next) = self.to_come.front()
            && next.first_offset <= last
        {
            self.to_come.pop_front();
            let known = self.aborted.entry(next.producer_id);
            known.or_insert((next, false));
        }
    }

    /// Aborted transactions of which no data is left.
    pub(super) fn take_emptied(&mut self) -> Vec<Aborted> {
        std::mem::take(&mut self.emptied)
    }
}
