//! Which partition a record goes to.
//!
//! Records with a key go where Java's client sends them: murmur2 of the key. Records without one
//! need not be spread one by one: what counts is that batches are large. **Sticky** (KIP-480) stays
//! with a partition until its batch closes. That gives slow brokers more: their batches close later,
//! so the producer stays longer. **Uniform sticky** (KIP-794) therefore moves on after a number of
//! bytes, and prefers partitions with short queues.

use std::{fmt, sync::Arc};

use millrace_time::Random;

use super::{partition::PartitionQueue, record::ProducerRecord};

/// How records without a partition are spread.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Partitioning {
    /// By key; without one, `batch_size` bytes to a partition, then the next one, chosen at random
    /// with a preference for short queues (KIP-794). Kafka's default since 3.3.
    #[default]
    UniformSticky,
    /// By key; without one, to a partition at random until its batch closes (KIP-480). Kafka's
    /// default from 2.4 to 3.2.
    Sticky,
    /// By key; without one, each to the next partition. Kafka's default before 2.4.
    RoundRobin,
    /// As the partitioner says.
    Custom(Arc<dyn Partitioner>),
}

/// A partitioner of one's own. Called for each record, so it should be quick.
pub trait Partitioner: fmt::Debug + Send + Sync + 'static {
    /// The partition of a record, less than [`TopicView::partitions`].
    fn partition(&self, topic: &TopicView<'_>, record: &ProducerRecord<'_>) -> i32;

    /// Told when the chosen partition has no open batch with room. Afterwards
    /// [`partition`](Self::partition) is asked again and may choose another one.
    fn on_new_batch(&self, _topic: &TopicView<'_>, _previous: i32) {}
}

/// What a partitioner sees of a topic.
#[derive(Debug, Clone, Copy)]
pub struct TopicView<'a> {
    name: &'a str,
    partitions: &'a [Arc<PartitionQueue>],
}

impl<'a> TopicView<'a> {
    pub(super) fn new(name: &'a str, partitions: &'a [Arc<PartitionQueue>]) -> Self {
        Self { name, partitions }
    }

    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// How many partitions there are.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Whether a partition has a leader that takes records.
    #[must_use]
    pub fn is_available(&self, partition: i32) -> bool {
        let partition = usize::try_from(partition).ok();
        let queue = partition.and_then(|partition| self.partitions.get(partition));
        queue.is_some_and(|queue| queue.is_available())
    }

    /// How many batches wait in a partition's queue.
    #[must_use]
    pub fn queued_batches(&self, partition: i32) -> usize {
        let partition = usize::try_from(partition).ok();
        let queue = partition.and_then(|partition| self.partitions.get(partition));
        queue.map_or(0, |queue| queue.queued())
    }

    fn available(&self) -> impl Iterator<Item = &'a Arc<PartitionQueue>> {
        self.partitions.iter().filter(|queue| queue.is_available())
    }
}

/// The partition of a key among so many, as Java's client computes it.
///
/// ```
/// assert_eq!(millrace_client::producer::partition_for_key(b"foobar", 16), 14);
/// ```
///
/// # Panics
/// There are no partitions.
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: usize) -> i32 {
    let positive = u64::from(murmur2(key) & 0x7fff_ffff);
    let partition = positive % (partitions as u64);
    i32::try_from(partition).expect("less than 2^31")
}

/// The 32-bit hash MurmurHash2 with the seed that Kafka uses.
#[must_use]
pub fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;
    const SHIFT: u32 = 24;
    // Java's length is a 32-bit number.
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// Where a topic's records without a key go at present.
#[derive(Debug, Default)]
pub(super) struct Keyless {
    current: Option<usize>,
    /// Bytes that the current partition got since it was chosen.
    produced: usize,
    /// Records so far, for round robin.
    records: usize,
}

impl Keyless {
    /// The partition for the next record, which stays the same until something switches it.
    pub(super) fn peek(
        &mut self,
        how: &Partitioning,
        topic: &TopicView<'_>,
        random: &dyn Random,
    ) -> usize {
        if let Some(current) = self.current.filter(|current| *current < topic.partitions()) {
            return current;
        }
        let chosen = match how {
            Partitioning::RoundRobin => self.next_in_turn(topic),
            Partitioning::Sticky => random_available(topic, random, None),
            _ => random_by_load(topic, random),
        };
        self.current = Some(chosen);
        self.produced = 0;
        chosen
    }

    /// A record went to `partition`, whose batch grew by so many bytes. `is_full` says that its
    /// queue has no batch that could take more.
    pub(super) fn appended(
        &mut self,
        how: &Partitioning,
        partition: usize,
        grown: usize,
        is_full: bool,
        batch_size: usize,
    ) {
        if self.current != Some(partition) {
            // Another caller has moved on meanwhile.
            return;
        }
        self.produced += grown;
        let switch = match how {
            Partitioning::RoundRobin => true,
            Partitioning::Sticky | Partitioning::Custom(_) => false,
            Partitioning::UniformSticky => {
                // While a batch could take more, a switch would leave it small; but not for ever.
                self.produced >= batch_size && is_full || self.produced >= 2 * batch_size
            }
        };
        if switch {
            self.current = None;
        }
    }

    /// The batch of the current partition is closed, and no other one is open. True where the next
    /// record goes elsewhere.
    pub(super) fn batch_closed(
        &mut self,
        how: &Partitioning,
        topic: &TopicView<'_>,
        random: &dyn Random,
        batch_size: usize,
    ) -> bool {
        let before = self.current;
        match how {
            Partitioning::Sticky => {
                self.current = Some(random_available(topic, random, before));
            }
            Partitioning::UniformSticky if self.produced >= batch_size => {
                self.current = None;
                self.peek(how, topic, random);
            }
            _ => {}
        }
        self.current != before
    }

    fn next_in_turn(&mut self, topic: &TopicView<'_>) -> usize {
        let turn = self.records;
        self.records = self.records.wrapping_add(1);
        let available = topic.available().count();
        if available == 0 {
            return turn % topic.partitions().max(1);
        }
        let chosen = topic.available().nth(turn % available);
        chosen.map_or(0, |queue| queue.index())
    }
}

/// A partition at random, with a leader if any has one, and another than `except` if there is one.
fn random_available(topic: &TopicView<'_>, random: &dyn Random, except: Option<usize>) -> usize {
    let candidates = || {
        topic
            .available()
            .filter(|queue| Some(queue.index()) != except)
    };
    let count = candidates().count();
    if count > 0 {
        return candidates()
            .nth(below(random, count))
            .map_or(0, |queue| queue.index());
    }
    // The only available one, or any: a leader may come.
    match topic.available().next() {
        Some(queue) => queue.index(),
        None => below(random, topic.partitions()),
    }
}

/// A partition at random, the likelier the shorter its queue: the longest has weight 1, one that
/// is shorter by n has weight n + 1.
fn random_by_load(topic: &TopicView<'_>, random: &dyn Random) -> usize {
    let Some(longest) = topic.available().map(|queue| queue.queued()).max() else {
        return below(random, topic.partitions());
    };
    // Queues change while they are read; a weight is never negative.
    let weight = |queue: &Arc<PartitionQueue>| longest.saturating_sub(queue.queued()) + 1;
    let weights: Vec<_> = topic
        .available()
        .map(|queue| (queue.index(), weight(queue)))
        .collect();
    let total = weights.iter().map(|(_, weight)| weight).sum();
    let mut left = below(random, total);
    for (index, weight) in weights {
        if left < weight {
            return index;
        }
        left -= weight;
    }
    0
}

fn below(random: &dyn Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

#[cfg(test)]
mod tests;
