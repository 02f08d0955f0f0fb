//! What the log holds of a consumer group: what it will hold once all is written, and what is durable.

use std::sync::Arc;

use super::{ConsumerGroup, Member};
use crate::{
    GroupConfig,
    config::MEMBER_BYTES,
    kept::Now,
    messages::TopicPartitions,
    records::{
        ConsumerPart, ConsumerValue, GroupRecord, Key, MemberState, StoredConsumer, StoredPattern,
    },
    stored::{self, Change, Part, Stored},
    topics::SharedTopics,
};

/// Values by what they are about.
pub(crate) type Parts = stored::Parts<ConsumerPart>;

impl Part for ConsumerPart {
    type Value = ConsumerValue;

    fn bytes(&self, value: &ConsumerValue) -> u64 {
        bytes_of(self, value)
    }

    fn record(group: &str, (part, value): Change<Self>) -> GroupRecord {
        let group = group.to_owned();
        GroupRecord::Consumer(Key::Consumer { group, part }, value)
    }

    fn of_record(record: GroupRecord) -> Option<Change<Self>> {
        match record {
            GroupRecord::Consumer(Key::Consumer { part, .. }, value) => Some((part, value)),
            _ => None,
        }
    }
}

impl ConsumerGroup {
    /// What has to be written since this was last asked, oldest first.
    /// `is_settled` where no write is on its way.
    pub(crate) fn take_records(&mut self, is_settled: bool) -> Vec<GroupRecord> {
        self.stored.take_records(&self.id, is_settled)
    }

    /// A write has reached the log, or could not.
    pub(crate) fn write_finished(&mut self, records: Vec<GroupRecord>, durable: bool) {
        self.stored.write_finished(records, durable);
    }

    /// The live records of the group.
    pub(crate) fn durable_records(&self) -> impl Iterator<Item = GroupRecord> + '_ {
        self.stored.durable_records(&self.id)
    }

    /// What the log will hold.
    #[cfg(test)]
    pub(super) fn stored_parts(&self) -> impl Iterator<Item = &ConsumerPart> {
        self.stored.latest().keys()
    }

    /// How many live records there are.
    pub(crate) fn durable_count(&self) -> usize {
        self.stored.durable_count()
    }

    /// What the group costs, in bytes.
    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.stored.memory_bytes()
    }

    /// The records that delete all that the log will hold of the group.
    pub(crate) fn delete_all(&mut self) {
        self.stored.delete_all();
    }

    /// The group as the log holds it; none where it holds no group, only leftovers of one. Sessions
    /// restart: the members' silence while the broker was away is not theirs.
    pub(crate) fn restore(
        id: String,
        config: Arc<GroupConfig>,
        topics: SharedTopics,
        parts: Parts,
        now: Now,
    ) -> Option<Self> {
        let ConsumerValue::Group {
            epoch,
            metadata_hash,
        } = *parts.get(&ConsumerPart::Group)?
        else {
            return None;
        };
        let mut group = Self::new(id, config, topics);
        group.epoch = epoch;
        group.metadata_hash = metadata_hash;
        for (part, value) in &parts {
            if let (ConsumerPart::Member(id), ConsumerValue::Member(stored)) = (part, value) {
                let member = Member::restored(stored.clone());
                group.put_restored(id.clone(), member, now);
            }
        }
        for (part, value) in &parts {
            group.restore_part(part, value, now);
        }
        group.stored = Stored::restored(parts);
        Some(group)
    }

    fn put_restored(&mut self, id: String, mut member: Member, now: Now) {
        member.subscription = self.shared(&member.subscription);
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), id.clone());
        }
        member.session_deadline = now.at + self.session_timeout(&member);
        self.note(member.session_deadline);
        self.members.insert(id, member);
    }

    fn restore_part(&mut self, part: &ConsumerPart, value: &ConsumerValue, now: Now) {
        match (part, value) {
            (ConsumerPart::Target, ConsumerValue::Target { epoch }) => {
                self.assignment_epoch = *epoch;
            }
            (ConsumerPart::TargetMember(id), ConsumerValue::TargetMember(target)) => {
                if let Some(member) = self.members.get_mut(id) {
                    member.target.clone_from(target);
                }
            }
            (ConsumerPart::Current(id), ConsumerValue::Current(current)) => {
                self.set_current(id, current.clone());
                if current.state == MemberState::UnrevokedPartitions {
                    self.await_revocation(id, now);
                }
            }
            (ConsumerPart::Pattern(pattern), ConsumerValue::Pattern(stored)) => {
                self.patterns.restore(pattern, stored);
            }
            _ => {}
        }
    }
}

/// What a record costs in memory, in bytes.
pub(crate) fn bytes_of(part: &ConsumerPart, value: &ConsumerValue) -> u64 {
    let key = match part {
        ConsumerPart::Group | ConsumerPart::Target => 0,
        ConsumerPart::Member(name)
        | ConsumerPart::TargetMember(name)
        | ConsumerPart::Current(name)
        | ConsumerPart::Pattern(name) => name.len(),
    };
    let value = match value {
        ConsumerValue::Group { .. } | ConsumerValue::Target { .. } => 0,
        ConsumerValue::Member(member) => MEMBER_BYTES as usize + names_bytes(member),
        ConsumerValue::TargetMember(partitions) => partitions_bytes(partitions),
        ConsumerValue::Current(current) => {
            partitions_bytes(&current.assigned) + partitions_bytes(&current.revoking)
        }
        ConsumerValue::Pattern(StoredPattern { topics, .. }) => texts_bytes(topics),
    };
    const RECORD_BYTES: usize = 128;
    (RECORD_BYTES + 2 * key + value) as u64
}

/// What names and patterns that a member subscribes to cost for each copy, in bytes.
pub(crate) fn subscription_bytes<'a>(names: impl Iterator<Item = &'a String>) -> u64 {
    let bytes: usize = names.map(|name| size_of::<String>() + name.len()).sum();
    bytes as u64
}

fn names_bytes(member: &StoredConsumer) -> usize {
    let optional = [
        &member.instance_id,
        &member.rack_id,
        &member.pattern,
        &member.assignor,
    ];
    let optional: usize = optional.into_iter().flatten().map(String::len).sum();
    let protocols = member.classic.iter().flat_map(|classic| &classic.protocols);
    let protocols: usize = protocols.map(|p| p.name.len() + p.metadata.len()).sum();
    let named = optional + member.client_id.len() + member.client_host.len();
    named + protocols + texts_bytes(&member.names)
}

pub(crate) fn texts_bytes(texts: &[String]) -> usize {
    texts
        .iter()
        .map(|text| size_of::<String>() + text.len())
        .sum()
}

/// A topic with its table, and a partition in it, its place among those that are owned and in the target.
pub(crate) fn partitions_bytes(partitions: &TopicPartitions) -> usize {
    const TOPIC_BYTES: usize = 64;
    const PARTITION_BYTES: usize = 32;
    let count: usize = partitions
        .values()
        .map(std::collections::BTreeSet::len)
        .sum();
    TOPIC_BYTES * partitions.len() + PARTITION_BYTES * count
}
