//! What the broker promised: every acknowledged batch and the offset that its answer named.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use super::pattern::Place;

/// An acknowledged batch whose offset is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acked {
    /// The offset of its first record.
    pub base_offset: i64,
    /// The first of its records.
    pub first: Place,
    /// Its records.
    pub count: u32,
    /// When the client heard of it, in milliseconds since 1970.
    pub wall_ms: i64,
}

impl Acked {
    /// Its records with their offsets.
    pub fn records(&self) -> impl Iterator<Item = (i64, Place)> + use<> {
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
pub struct Promises {
    /// By partition, in the order in which the acknowledgements came.
    pub acked: BTreeMap<i32, Vec<Acked>>,
    /// Records that each producer was told are durable in each partition; it is a prefix.
    pub durable: HashMap<(u32, i32), u64>,
    /// Records that each producer has sent at least once.
    pub sent: HashMap<(u32, i32), u64>,
    /// Acknowledged batches.
    pub batches: u64,
    /// Acknowledged records.
    pub records: u64,
    /// Bytes of acknowledged batches.
    pub bytes: u64,
    /// Acknowledgements of batches that had been sent before.
    pub resent: u64,
    /// Answers that said "duplicate" and named no offset.
    pub duplicates: u64,
    /// Other answers that asked to try again, by Kafka's error code.
    pub refusals: BTreeMap<i16, u64>,
    /// Acknowledgements of batches behind one that was refused; they are sent again all the same.
    pub overtaken: u64,
    /// The highest committed offset of a group that was acknowledged.
    pub group_offset: i64,
    /// Acknowledged commits of that group.
    pub group_commits: u64,
}

/// Promises while they are made.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Promises>);

impl Ledger {
    /// Changes or reads the promises under their lock.
    pub fn change<R>(&self, change: impl FnOnce(&mut Promises) -> R) -> R {
        change(&mut self.0.lock())
    }

    /// What was promised so far.
    pub fn snapshot(&self) -> Promises {
        self.0.lock().clone()
    }
}

impl Promises {
    /// Takes note of an acknowledgement; `base_offset` is `None` where the answer named none.
    pub fn acknowledge(
        &mut self,
        first: Place,
        count: u32,
        bytes: usize,
        base_offset: Option<i64>,
        wall_ms: i64,
    ) {
        if let Some(base_offset) = base_offset {
            let acked = Acked {
                base_offset,
                first,
                count,
                wall_ms,
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
    pub fn send(&mut self, first: Place, count: u32) {
        let sent = self
            .sent
            .entry((first.producer, first.partition))
            .or_default();
        *sent = (*sent).max(first.sequence + u64::from(count));
    }
}
