//! What clients were told, and whether it is true.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millrace_model::Offset;
use parking_lot::Mutex;

/// A batch of an idempotent producer, by which it is known wherever it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sent {
    pub(crate) producer: i64,
    pub(crate) sequence: i32,
    pub(crate) count: u32,
}

/// A partition by its index: there is one topic.
type Partition = u32;

#[derive(Debug, Default)]
struct Inner {
    /// What is at which offset, as clients were told: by an acknowledgement or by what they have read.
    known: BTreeMap<Partition, BTreeMap<Offset, Sent>>,
    /// The first sequence of each producer that was not acknowledged, by partition.
    acknowledged: BTreeMap<(Partition, i64), i32>,
    violations: Vec<String>,
    acknowledgements: u64,
    reads: u64,
}

/// The history of one simulation. A clone is the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    inner: Arc<Mutex<Inner>>,
}

impl History {
    pub(crate) fn violated(&self, what: String) {
        self.inner.lock().violations.push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.inner.lock().violations.clone()
    }

    /// Acknowledgements and batches read.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        (inner.acknowledgements, inner.reads)
    }

    /// A client was told that its batch is at this offset.
    pub(crate) fn acknowledged(&self, partition: Partition, at: Offset, sent: Sent) {
        let inner = &mut *self.inner.lock();
        inner.acknowledgements += 1;
        inner.know(partition, at, sent, "acknowledged");
        let next = sent.sequence + i32::try_from(sent.count).unwrap_or(i32::MAX);
        let of_producer = inner.acknowledged.entry((partition, sent.producer));
        let of_producer = of_producer.or_default();
        *of_producer = next.max(*of_producer);
    }

    /// A client has read this batch at this offset.
    pub(crate) fn read(&self, partition: Partition, at: Offset, sent: Sent) {
        let inner = &mut *self.inner.lock();
        inner.reads += 1;
        inner.know(partition, at, sent, "read");
    }

    /// The whole partition, when nothing happens any more.
    pub(crate) fn finally(&self, partition: Partition, log: &[(Offset, Sent)]) {
        let inner = &mut *self.inner.lock();
        let mut next = 0;
        for &(at, sent) in log {
            if at != next {
                let gap = format!("partition {partition}: offset {at} follows {next}");
                inner.violations.push(gap);
            }
            next = at + u64::from(sent.count);
        }
        inner.nothing_lost(partition, log);
        inner.in_order(partition, log);
    }
}

impl Inner {
    fn know(&mut self, partition: Partition, at: Offset, sent: Sent, how: &str) {
        let known = self.known.entry(partition).or_default();
        let before = *known.entry(at).or_insert(sent);
        if before != sent {
            self.violations.push(format!(
                "partition {partition}: {sent:?} was {how} at offset {at}, where {before:?} was known to be"
            ));
        }
    }

    fn nothing_lost(&mut self, partition: Partition, log: &[(Offset, Sent)]) {
        let found: BTreeMap<Offset, Sent> = log.iter().copied().collect();
        let known = self.known.get(&partition).into_iter().flatten();
        let lost = known.filter(|&(at, sent)| found.get(at) != Some(sent));
        if let Some((at, sent)) = lost.clone().next() {
            let (count, instead) = (lost.count(), found.get(at));
            self.violations.push(format!(
                "partition {partition}: {count} batches that clients knew are missing, such as {sent:?} at {at}, where \
                 there is {instead:?}"
            ));
        }
    }

    /// Of each producer, all sequences up to the last acknowledged one are there once and ascending.
    fn in_order(&mut self, partition: Partition, log: &[(Offset, Sent)]) {
        let mut next: BTreeMap<i64, i32> = BTreeMap::new();
        let mut told: BTreeSet<i64> = BTreeSet::new();
        for &(at, sent) in log {
            let expected = next.entry(sent.producer).or_default();
            if sent.sequence != *expected && told.insert(sent.producer) {
                let what = match sent.sequence < *expected {
                    true => "again or late",
                    false => "after a gap",
                };
                self.violations.push(format!(
                    "partition {partition}: {sent:?} is at {at} {what}: sequence {expected} was next"
                ));
            }
            *expected = sent.sequence + i32::try_from(sent.count).unwrap_or(i32::MAX);
        }
        for (&(of, producer), &acknowledged) in &self.acknowledged {
            let end = next.get(&producer).copied().unwrap_or(0);
            if of == partition && end < acknowledged {
                self.violations.push(format!(
                    "partition {partition}: producer {producer} ends at {end}, but {acknowledged} was acknowledged"
                ));
            }
        }
    }
}
