//! Offsets that are committed in transactions (KIP-98, KIP-447): nobody sees them before their transaction is
//! committed.

use std::collections::{BTreeMap, BTreeSet};

use millrace_model::{TopicName, TopicPartition};

use super::{Group, offset_bytes};
use crate::{
    kept::{ProducerEpoch, Written},
    messages::{CommittedOffset, PartitionOffsets},
    records::{GroupRecord, Key},
};

/// Offsets in open transactions that are durable, by producer.
pub(super) type Pending = BTreeMap<ProducerEpoch, BTreeMap<TopicPartition, CommittedOffset>>;

impl Group {
    /// A commit in a transaction has reached the log, or could not.
    pub(crate) fn transactional_commit_finished(
        &mut self,
        producer: ProducerEpoch,
        offsets: PartitionOffsets,
        durable: bool,
    ) {
        self.commits_in_flight = self.commits_in_flight.saturating_sub(1);
        if durable {
            self.restore_pending(producer, offsets);
        }
    }

    /// Takes on offsets in an open transaction.
    pub(crate) fn restore_pending(&mut self, producer: ProducerEpoch, offsets: PartitionOffsets) {
        for (partition, committed) in offsets {
            self.memory.transactional += offset_bytes(&committed);
            let pending = self.pending_offsets.entry(producer).or_default();
            if let Some(before) = pending.insert(partition, committed) {
                self.memory.transactional -= offset_bytes(&before);
            }
        }
    }

    /// A marker of the producer is durable: what it committed takes effect, or is dropped.
    pub(crate) fn transaction_ended(&mut self, (id, epoch): ProducerEpoch, committed: bool) {
        let ended = |(pending, older): &ProducerEpoch| *pending == id && *older <= epoch;
        let ended: Vec<_> = { self.pending_offsets.keys().copied() }
            .filter(ended)
            .collect();
        for producer in ended {
            let offsets = self.pending_offsets.remove(&producer).unwrap_or_default();
            for (partition, offset) in offsets {
                self.memory.transactional -= offset_bytes(&offset);
                if committed {
                    self.put_offset(partition, offset);
                }
            }
        }
    }

    /// A plain commit is behind these in the log, and so wins over them.
    pub(super) fn supersede_pending(&mut self, partition: &TopicPartition) {
        for pending in self.pending_offsets.values_mut() {
            if let Some(before) = pending.remove(partition) {
                self.memory.transactional -= offset_bytes(&before);
            }
        }
        self.pending_offsets
            .retain(|_, pending| !pending.is_empty());
    }

    /// Topics are gone: what was committed in them must not take effect.
    pub(crate) fn forget_pending_in(&mut self, topics: &BTreeSet<TopicName>) {
        let all = self.pending_offsets.values().flat_map(BTreeMap::keys);
        let gone: Vec<_> = { all.filter(|partition| topics.contains(&partition.topic)) }
            .cloned()
            .collect();
        for partition in gone {
            self.supersede_pending(&partition);
        }
    }

    /// Whether an open transaction has an offset in this partition.
    pub(crate) fn has_pending(&self, partition: &TopicPartition) -> bool {
        let mut all = self.pending_offsets.values();
        all.any(|pending| pending.contains_key(partition))
    }

    /// Whether an open transaction has an offset of the group.
    pub(crate) fn has_any_pending(&self) -> bool {
        !self.pending_offsets.is_empty()
    }

    /// What the log must hold of open transactions.
    pub(crate) fn pending_records(&self) -> impl Iterator<Item = Written> {
        self.pending_offsets.iter().map(|(producer, offsets)| {
            let record = |(partition, committed): (&TopicPartition, &CommittedOffset)| {
                let (group, partition) = (self.id.clone(), partition.clone());
                let key = Key::Offset { group, partition };
                GroupRecord::Offset(key, Some(committed.clone())).encode()
            };
            Written::Transactional(*producer, offsets.iter().map(record).collect())
        })
    }

    /// How many records these are.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending_offsets.values().map(BTreeMap::len).sum()
    }
}
