//! What the log holds of a share group.

use std::sync::Arc;

use super::{Member, ShareGroup};
use crate::{
    GroupConfig,
    config::MEMBER_BYTES,
    consumer::{partitions_bytes, texts_bytes},
    kept::Now,
    records::{GroupRecord, Key, SharePart, ShareValue, StoredPartitions, StoredStates},
    stored::{self, Change, Part, Stored},
    topics::SharedTopics,
};

/// Values by what they are about.
pub(crate) type Parts = stored::Parts<SharePart>;

impl Part for SharePart {
    type Value = ShareValue;

    fn bytes(&self, value: &ShareValue) -> u64 {
        bytes_of(self, value)
    }

    fn record(group: &str, (part, value): Change<Self>) -> GroupRecord {
        let group = group.to_owned();
        GroupRecord::Share(Key::Share { group, part }, value)
    }

    fn of_record(record: GroupRecord) -> Option<Change<Self>> {
        match record {
            GroupRecord::Share(Key::Share { part, .. }, value) => Some((part, value)),
            _ => None,
        }
    }
}

impl ShareGroup {
    /// What has to be written since this was last asked, oldest first. `is_settled` where no write is on its way.
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

    /// How many live records there are.
    pub(crate) fn durable_count(&self) -> usize {
        self.stored.durable_count()
    }

    /// What the group costs, in bytes.
    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.stored.memory_bytes()
    }

    pub(super) fn store_states(&mut self) {
        let value = ShareValue::States(self.states.clone());
        self.stored.push(SharePart::States, Some(value));
    }

    /// The group as the log holds it; none where it holds no group, only leftovers of one. Sessions restart: the members'
    /// silence while the broker was away is not theirs.
    pub(crate) fn restore(
        id: String,
        config: Arc<GroupConfig>,
        topics: SharedTopics,
        parts: Parts,
        now: Now,
    ) -> Option<Self> {
        let ShareValue::Group {
            epoch,
            metadata_hash,
        } = *parts.get(&SharePart::Group)?
        else {
            return None;
        };
        let mut group = Self::new(id, config, topics);
        group.epoch = epoch;
        group.metadata_hash = metadata_hash;
        for (part, value) in &parts {
            if let (SharePart::Member(id), ShareValue::Member(stored)) = (part, value) {
                let member = Member {
                    rack_id: stored.rack_id.clone(),
                    client_id: stored.client_id.clone(),
                    client_host: stored.client_host.clone(),
                    names: group.shared(stored.names.iter().cloned().collect()),
                    ..Member::default()
                };
                group.members.insert(id.clone(), member);
                group.refresh(id, now);
            }
        }
        for (part, value) in &parts {
            group.restore_part(part, value);
        }
        group.stored = Stored::restored(parts);
        Some(group)
    }

    fn restore_part(&mut self, part: &SharePart, value: &ShareValue) {
        let member = part.member();
        let member = member.and_then(|id| self.members.get_mut(id));
        match (value, member) {
            (ShareValue::Target { epoch }, _) => self.assignment_epoch = *epoch,
            (ShareValue::States(states), _) => self.states.clone_from(states),
            (ShareValue::TargetMember(target), Some(member)) => member.target.clone_from(target),
            (ShareValue::Current(current), Some(member)) => member.current.clone_from(current),
            _ => {}
        }
    }
}

/// What a record costs in memory, in bytes.
pub(crate) fn bytes_of(part: &SharePart, value: &ShareValue) -> u64 {
    const RECORD_BYTES: usize = 128;
    let key = part.member().map_or(0, String::len);
    let value = match value {
        ShareValue::Group { .. } | ShareValue::Target { .. } => 0,
        ShareValue::Member(member) => {
            let rack = member.rack_id.as_ref().map_or(0, String::len);
            let named = rack + member.client_id.len() + member.client_host.len();
            MEMBER_BYTES as usize + named + texts_bytes(&member.names)
        }
        ShareValue::TargetMember(partitions) => partitions_bytes(partitions),
        ShareValue::Current(current) => partitions_bytes(&current.assigned),
        ShareValue::States(states) => states_bytes(states),
    };
    (RECORD_BYTES + 2 * key + value) as u64
}

/// What names that a member subscribes to cost for each copy, in bytes.
pub(crate) fn subscription_bytes<'a>(names: impl Iterator<Item = &'a String>) -> u64 {
    crate::consumer::subscription_bytes(names)
}

fn states_bytes(states: &StoredStates) -> usize {
    const TOPIC_BYTES: usize = 96;
    const PARTITION_BYTES: usize = 32;
    let bytes = |partitions: &StoredPartitions| -> usize {
        let topics = partitions.values();
        topics
            .map(|(name, numbers)| TOPIC_BYTES + name.len() + PARTITION_BYTES * numbers.len())
            .sum()
    };
    let deleting = states.deleting.values();
    let deleting: usize = deleting.map(|name| TOPIC_BYTES + name.len()).sum();
    bytes(&states.initializing) + bytes(&states.initialized) + deleting
}
