//! What the broker promised: every acknowledged batch and the offset that its answer named.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use crate::pattern::Place;

/// An acknowledged batch whose offset is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Acked {
    pub(crate) base_offset: i64,
    /// The first of its records.
    pub(crate) first: Place,
    pub(crate) count: u32,
}

impl Acked {
    /// Its records with their offsets.
    pub(crate) fn records(&self) -> impl Iterator<Item = (i64, Place)> + use<> {
        let Self {
            base_offset, first, ..
        } = *self;
        (0..self.count).map(move |at| {
            let sequence = first.sequence + u64::from(at);
            (base_offset + i64::from(at), Place { sequence, ..first })
        })
    }
}

/// Everything that was promised up to one moment.
#[derive(Debug, Default, Clone)]
pub(crate) struct Promises {
    /// By partition, in the order in which the acknowledgements came.
    pub(crate) acked: BTreeMap<i32, Vec<Acked>>,
    /// Records that each producer was told are durable in each partition; it is a prefix.
    pub(crate) durable: HashMap<(u32, i32), u64>,
    /// Records that each producer has sent at least once.
    pub(crate) sent: HashMap<(u32, i32), u64>,
    pub(crate) batches: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// Acknowledgements of batches that had been sent before.
    pub(crate) resent: u64,
    /// Answers that said "duplicate" and named no offset.
    pub(crate) duplicates: u64,
    /// Other answers that asked to try again, by Kafka's error code.
    pub(crate) refusals: BTreeMap<i16, u64>,
    /// Acknowledgements of batches behind one that was refused; they are sent again all the same.
    pub(crate) overtaken: u64,
    /// The highest committed offset of a group that was acknowledged.
    pub(crate) group_offset: i64,
    pub(crate) group_commits: u64,
}

/// Promises while they are made.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Promises>);

impl Ledger {
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Promises) -> R) -> R {
        change(&mut self.0.lock())
    }

    pub(crate) fn snapshot(&self) -> Promises {
        self.0.lock().clone()
    }
}

impl Promises {
    /// Takes note of an acknowledgement; `base_offset` is `None` where the answer named none.
    pub(crate) fn acknowledge(
        &mut self,
        first: Place,
        count: u32,
        bytes: usize,
        base_offset: Option<i64>,
    ) {
        if let Some(base_offset) = base_offset {
            let acked = Acked {
                base_offset,
                first,
                count,
            };
            self.acked.entry(first.partition).or_default().push(acked);
        }
        let durable = self
            .durable
            .entry((first.producer, first.partition))
            .or_default();
        *durable = (*durable).max(first.sequence + u64::from(count));
        self.batches += 1;
        self.records += u64::from(count);
        self.bytes += bytes as u64;
    }

    /// Takes note of records on their way.
    pub(crate) fn send(&mut self, first: Place, count: u32) {
        let sent = self
            .sent
            .entry((first.producer, first.partition))
            .or_default();
        *sent = (*sent).max(first.sequence + u64::from(count));
    }
}
