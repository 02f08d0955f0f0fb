//! Offsets that are committed in transactions (KIP-98, KIP-447): nobody sees them before their transaction is
//! committed.

use std::collections::BTreeMap;

use millrace_model::TopicPartition;

use super::{Group, offset_bytes};
use crate::{
    GroupError,
    kept::{Now, ProducerEpoch, Written},
    messages::{Caller, CommittedOffset, GroupState, PartitionOffsets},
    records::{GroupRecord, Key},
};

/// Offsets in open transactions that are durable, by producer.
pub(super) type Pending = BTreeMap<ProducerEpoch, BTreeMap<TopicPartition, CommittedOffset>>;

impl Group {
    /// Whether the caller may commit offsets in a transaction now. Producers of old versions do not tell which member
    /// commits (KIP-447), and no rebalance keeps a transaction from ending.
    pub(crate) fn check_transactional_commit(
        &mut self,
        caller: &Caller,
        now: Now,
    ) -> Result<(), GroupError> {
        let is_anonymous =
            caller.generation < 0 && caller.member_id.is_empty() && caller.instance_id.is_none();
        match self.state {
            GroupState::Dead => Err(GroupError::CoordinatorNotAvailable),
            _ if self.share.is_some() => Err(GroupError::GroupIdNotFound),
            _ if is_anonymous => Ok(()),
            GroupState::CompletingRebalance => self.check_generation(caller),
            _ => match self.check_commit(caller, now) {
                // No version of the request knows the error about epochs.
                Err(GroupError::StaleMemberEpoch) => Err(GroupError::IllegalGeneration),
                checked => checked,
            },
        }
    }

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

    /// A plain commit or a deletion is behind these in the log, and so wins over them.
    pub(super) fn supersede_pending(&mut self, partition: &TopicPartition) {
        for pending in self.pending_offsets.values_mut() {
            if let Some(before) = pending.remove(partition) {
                self.memory.transactional -= offset_bytes(&before);
            }
        }
        self.pending_offsets
            .retain(|_, pending| !pending.is_empty());
    }

    /// The group is gone: what was committed for it must not take effect.
    pub(super) fn forget_pending(&mut self) {
        self.pending_offsets.clear();
        self.memory.transactional = 0;
    }

    /// The partitions in which open transactions have offsets; some more than once.
    pub(super) fn pending_partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.pending_offsets.values().flat_map(BTreeMap::keys)
    }

    /// The producers whose open transactions have offsets.
    pub(super) fn pending_producers(&self) -> Vec<i64> {
        self.pending_offsets.keys().map(|(id, _)| *id).collect()
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
