//! A group as shards keep it: what its writes do, and how its log is read back.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use millrace_log::CONSUMER_OFFSETS_TOPIC;
use millrace_model::{TopicName, TopicPartition};
use millrace_tasks::Task;

use super::{
    ConsumerWrite, Effect, Group, Reply, Then, empty_bytes, generation_bytes, offset_bytes,
};
use crate::{
    GroupConfig, GroupError,
    config::{GROUP_BYTES, OFFSET_BYTES},
    consumer::{ConsumerGroup, Parts},
    kept::{Found, Kept, Names, Now, ProducerEpoch, Unserved, Written},
    messages::{CommittedOffset, GroupState, PartitionOffsets},
    records::{ConsumerPart, GroupMetadata, GroupRecord, Key, MalformedRecord},
    share::{self, ShareGroup},
    topics::SharedTopics,
};

/// What all groups are built on.
#[derive(Debug)]
pub(crate) struct GroupGround {
    pub(crate) config: Arc<GroupConfig>,
    /// What consumer groups and share groups subscribe to.
    pub(crate) topics: SharedTopics,
}

/// What a write of a group is about.
pub(crate) enum Outcome {
    /// A generation.
    Generation(Box<(GroupMetadata, Then)>),
    /// Records of a consumer group or a share group, and who waits for them.
    Consumer(ConsumerWrite),
    /// A commit of offsets, and who waits for it.
    Commit(PartitionOffsets, Reply<()>),
    /// A commit of offsets in a producer's transaction, and who waits for it.
    Transactional(ProducerEpoch, PartitionOffsets, Reply<()>),
    /// The deletion of the group, and who waits for it.
    Delete(Option<Reply<()>>),
    /// The deletion of some of its offsets, and who waits for it.
    Forget(Vec<TopicPartition>, Option<Reply<()>>),
}

impl From<Unserved> for GroupError {
    fn from(reason: Unserved) -> Self {
        match reason {
            Unserved::Loading => Self::CoordinatorLoading,
            Unserved::NotAvailable => Self::CoordinatorNotAvailable,
            Unserved::NotCoordinator => Self::NotCoordinator,
            Unserved::InvalidId => Self::InvalidGroupId,
            Unserved::TooMany => Self::TooManyGroups,
            Unserved::MemoryFull => Self::MemoryFull,
        }
    }
}

/// Records for the log.
pub(crate) fn encoded(records: &[GroupRecord]) -> Written {
    Written::Records(records.iter().map(GroupRecord::encode).collect())
}

impl Kept for Group {
    type Config = GroupGround;
    type Error = GroupError;
    type Outcome = Outcome;
    type Loading = LoadedGroups;

    const NAMES: Names = Names {
        what: "consumer groups",
        topic: CONSUMER_OFFSETS_TOPIC,
        bounds: ["groups", "group_memory"],
        load: Task::GroupLoad,
        writer: Task::GroupWriter,
    };

    fn new(id: String, ground: Arc<GroupGround>, now: Now) -> Self {
        Self::new(id, ground.config.clone(), now)
    }

    fn empty_bytes(id: &str) -> u64 {
        empty_bytes(id)
    }

    fn id(&self) -> &str {
        self.id()
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes()
    }

    fn wake_at(&self) -> Option<Duration> {
        self.wake_at()
    }

    fn expire(&mut self, now: Now) {
        self.expire(now);
    }

    fn take_writes(&mut self) -> Vec<(Written, Outcome)> {
        let write = |effect: Effect| {
            let Effect { metadata, then } = effect;
            let group = self.id.clone();
            let record = GroupRecord::Group(Key::Group { group }, Some(metadata.clone()));
            let outcome = Outcome::Generation(Box::new((metadata, then)));
            (encoded(&[record]), outcome)
        };
        let effects = std::mem::take(&mut self.effects);
        let consumer = |write: ConsumerWrite| (encoded(&write.records), Outcome::Consumer(write));
        let writes = std::mem::take(&mut self.consumer_writes);
        let writes = writes.into_iter().map(consumer);
        writes.chain(effects.into_iter().map(write)).collect()
    }

    fn write_bytes(outcome: &Outcome) -> (u64, bool) {
        match outcome {
            // Held here, encoded, and copied into a batch that grows by doubling.
            Outcome::Generation(generation) => (4 * generation_bytes(&generation.0), false),
            // The same, and its tables.
            Outcome::Consumer(write) => (4 * write.bytes(), false),
            Outcome::Commit(offsets, _) | Outcome::Transactional(_, offsets, _) => {
                let bytes = offsets.iter().map(|(_, committed)| offset_bytes(committed));
                (2 * bytes.sum::<u64>(), false)
            }
            Outcome::Delete(_) => (GROUP_BYTES, true),
            Outcome::Forget(partitions, _) => (partitions.len() as u64 * OFFSET_BYTES, true),
        }
    }

    fn apply(&mut self, outcome: Outcome, result: Result<(), GroupError>, now: Now) -> bool {
        match outcome {
            Outcome::Generation(generation) => {
                let (metadata, then) = *generation;
                self.stored(metadata, then, result, now);
            }
            Outcome::Consumer(write) => self.consumer_written(write, result),
            Outcome::Commit(offsets, reply) => {
                self.commit_finished(offsets, result.is_ok());
                drop(reply.send(result));
            }
            Outcome::Transactional(producer, offsets, reply) => {
                self.transactional_commit_finished(producer, offsets, result.is_ok());
                drop(reply.send(result));
            }
            Outcome::Delete(reply) => {
                let is_gone = result.is_ok();
                match is_gone {
                    true => self.forget_pending(),
                    false => self.undo_delete(now),
                }
                if let Some(reply) = reply {
                    drop(reply.send(result));
                }
                return is_gone;
            }
            Outcome::Forget(partitions, reply) => {
                if result.is_ok() {
                    self.forget(&partitions);
                }
                if let Some(reply) = reply {
                    drop(reply.send(result));
                }
            }
        }
        false
    }

    fn answer(outcome: Outcome, result: Result<(), GroupError>) {
        match outcome {
            Outcome::Generation(generation) => {
                if let Then::Welcome(reply, joined) = generation.1 {
                    drop(reply.send(result.map(|()| joined)));
                }
            }
            Outcome::Consumer(write) => write.answer(result),
            Outcome::Commit(_, reply)
            | Outcome::Transactional(_, _, reply)
            | Outcome::Delete(Some(reply))
            | Outcome::Forget(_, Some(reply)) => {
                drop(reply.send(result));
            }
            Outcome::Delete(None) | Outcome::Forget(_, None) => {}
        }
    }

    fn refuse_waiting(&mut self, error: &GroupError, now: Now) {
        self.refuse_waiting(error, now);
    }

    fn durable(&self) -> Vec<Written> {
        let live = encoded(&self.durable_records());
        std::iter::once(live)
            .chain(self.pending_records())
            .collect()
    }

    fn durable_count(&self) -> usize {
        self.durable_count() + self.pending_count()
    }

    fn end_if_nothing(&mut self, now: Now) -> bool {
        let is_nothing = self.is_unused() && self.durable_count() == 0;
        let ended = is_nothing && self.begin_delete(now).is_ok();
        debug_assert!(!ended || self.state() == GroupState::Dead);
        ended
    }

    fn topics_deleted(&mut self, topics: &BTreeSet<TopicName>) -> Vec<(Written, Outcome)> {
        self.share_topics_deleted();
        let gone = self.offsets_in(topics);
        if gone.is_empty() {
            return Vec::new();
        }
        let tombstones = self.offset_tombstones(&gone);
        self.forget(&gone);
        vec![(encoded(&tombstones), Outcome::Forget(gone, None))]
    }

    fn transaction_of(outcome: &Outcome) -> Option<i64> {
        match outcome {
            Outcome::Transactional((producer_id, _), ..) => Some(*producer_id),
            _ => None,
        }
    }

    fn open_transactions(&self) -> Vec<i64> {
        self.pending_producers()
    }

    fn transaction_ended(&mut self, producer: ProducerEpoch, committed: bool) {
        self.transaction_ended(producer, committed);
    }

    fn load(loading: &mut LoadedGroups, found: Found) -> Result<(), MalformedRecord> {
        let (producer, record, is_copy) = match found {
            Found::End(producer, committed) => {
                loading.end(producer, committed);
                return Ok(());
            }
            Found::Record(producer, record) => (producer, record, false),
            Found::Copy(record) => (None, record, true),
        };
        let key = record.key.unwrap_or_default();
        match GroupRecord::decode(&key, record.value.as_deref())? {
            // What is pending is newer than the offset that is copied.
            Some(GroupRecord::Offset(Key::Offset { group, partition }, Some(committed)))
                if is_copy =>
            {
                let loaded = loading.groups.entry(group).or_default();
                loaded.offsets.insert(partition, committed);
            }
            Some(read) => loading.take(producer, read),
            None => {}
        }
        Ok(())
    }

    fn loaded(loading: LoadedGroups, ground: &Arc<GroupGround>, now: Now) -> Vec<Self> {
        let groups = loading.groups.into_iter();
        groups
            .filter_map(|(id, loaded)| loaded.group(id, ground, now))
            .collect()
    }
}

/// What the log says of the groups of a partition.
#[derive(Debug, Default)]
pub(crate) struct LoadedGroups {
    groups: HashMap<String, Loaded>,
    /// The groups that have offsets in a producer's open transaction.
    pending: HashMap<i64, BTreeSet<String>>,
}

/// What the log says of one group.
#[derive(Debug, Default)]
struct Loaded {
    metadata: Option<GroupMetadata>,
    /// Of a consumer group.
    parts: Parts,
    /// Of a share group.
    share_parts: share::Parts,
    offsets: HashMap<TopicPartition, CommittedOffset>,
    pending: BTreeMap<ProducerEpoch, PartitionOffsets>,
}

impl LoadedGroups {
    fn take(&mut self, producer: Option<ProducerEpoch>, record: GroupRecord) {
        match record {
            GroupRecord::Group(Key::Group { group }, metadata) => {
                let loaded = self.groups.entry(group).or_default();
                // A group has one protocol at a time; the last one counts.
                if metadata.is_some() {
                    loaded.parts.clear();
                }
                loaded.metadata = metadata;
            }
            GroupRecord::Consumer(Key::Consumer { group, part }, Some(value)) => {
                let loaded = self.groups.entry(group).or_default();
                if part == ConsumerPart::Group {
                    loaded.metadata = None;
                }
                loaded.parts.insert(part, value);
            }
            GroupRecord::Consumer(Key::Consumer { group, part }, None) => {
                self.groups.entry(group).or_default().parts.remove(&part);
            }
            GroupRecord::Share(Key::Share { group, part }, Some(value)) => {
                let loaded = self.groups.entry(group).or_default();
                loaded.share_parts.insert(part, value);
            }
            GroupRecord::Share(Key::Share { group, part }, None) => {
                let loaded = self.groups.entry(group).or_default();
                loaded.share_parts.remove(&part);
            }
            GroupRecord::Offset(Key::Offset { group, partition }, committed) => {
                let loaded = self.groups.entry(group.clone()).or_default();
                match (producer, committed) {
                    (Some(producer), Some(committed)) => {
                        self.pending.entry(producer.0).or_default().insert(group);
                        let pending = loaded.pending.entry(producer).or_default();
                        pending.push((partition, committed));
                    }
                    (_, Some(committed)) => {
                        loaded.supersede(&partition);
                        loaded.offsets.insert(partition, committed);
                    }
                    (_, None) => {
                        loaded.supersede(&partition);
                        loaded.offsets.remove(&partition);
                    }
                }
            }
            GroupRecord::Group(..)
            | GroupRecord::Offset(..)
            | GroupRecord::Consumer(..)
            | GroupRecord::Share(..) => {}
        }
    }

    fn end(&mut self, (producer_id, epoch): ProducerEpoch, committed: bool) {
        for group in self.pending.remove(&producer_id).unwrap_or_default() {
            let Some(loaded) = self.groups.get_mut(&group) else {
                continue;
            };
            let ended = |(id, older): &ProducerEpoch| *id == producer_id && *older <= epoch;
            let ended: Vec<_> = loaded.pending.keys().copied().filter(ended).collect();
            for producer in ended {
                let offsets = loaded.pending.remove(&producer).unwrap_or_default();
                if committed {
                    loaded.offsets.extend(offsets);
                }
            }
        }
    }
}

impl Loaded {
    /// A plain commit or a deletion wins over what was committed before it in open transactions.
    fn supersede(&mut self, partition: &TopicPartition) {
        for offsets in self.pending.values_mut() {
            offsets.retain(|(pending, _)| pending != partition);
        }
    }

    fn group(self, id: String, ground: &GroupGround, now: Now) -> Option<Group> {
        let (config, topics) = (ground.config.clone(), ground.topics.clone());
        let consumer =
            ConsumerGroup::restore(id.clone(), config.clone(), topics.clone(), self.parts, now);
        let is_pending = self.pending.values().any(|offsets| !offsets.is_empty());
        let is_known = self.metadata.is_some() || consumer.is_some();
        let share = ShareGroup::restore(id.clone(), config, topics, self.share_parts, now);
        let is_known = is_known || share.is_some();
        if !is_known && self.offsets.is_empty() && !is_pending {
            return None;
        }
        let mut group = Group::new(id, ground.config.clone(), now);
        if let Some(consumer) = consumer {
            group.restore_consumer(consumer);
        }
        if let Some(share) = share {
            group.restore_share(share);
        }
        if let Some(metadata) = self.metadata {
            group.restore(metadata, now);
        }
        group.restore_offsets(self.offsets);
        for (producer, offsets) in self.pending {
            group.restore_pending(producer, offsets);
        }
        Some(group)
    }
}
