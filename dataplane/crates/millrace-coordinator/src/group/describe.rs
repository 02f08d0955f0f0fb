//! The description of a group, and its records when the log is rewritten.

use std::collections::BTreeSet;

use bytes::Bytes;
use millrace_model::TopicPartition;

use super::{Group, Member};
use crate::{
    consumer::CONSUMER,
    messages::{GroupDescription, GroupKind, GroupListing, GroupState, MemberDescription},
    records::{GroupRecord, Key},
    share::SHARE,
};

impl Group {
    /// The group in a list.
    pub(crate) fn listing(&self) -> GroupListing {
        GroupListing {
            group_id: self.id.clone(),
            kind: self.kind(),
            protocol_type: match self.kind() {
                GroupKind::Classic => self.protocol_type.clone().unwrap_or_default(),
                GroupKind::Consumer => CONSUMER.to_owned(),
                GroupKind::Share => SHARE.to_owned(),
            },
            state: self.state(),
        }
    }

    /// All that is shown of the group. Metadata and assignments belong to a stable generation.
    pub(crate) fn describe(&self) -> GroupDescription {
        if let Some(consumer) = &self.consumer {
            return self.describe_as_classic(consumer);
        }
        if let Some(share) = &self.share {
            return self.describe_share_as_classic(share);
        }
        let protocol = match self.state {
            GroupState::Stable => self.protocol.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let stable = self.state == GroupState::Stable;
        let member = |member: &Member| MemberDescription {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            metadata: if stable {
                member.metadata(&protocol)
            } else {
                Bytes::new()
            },
            assignment: if stable {
                member.assignment.clone()
            } else {
                Bytes::new()
            },
        };
        GroupDescription {
            kind: GroupKind::Classic,
            state: self.state,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            members: self.members.values().map(member).collect(),
            protocol,
        }
    }

    /// What the log holds of the group: its last written generation and its offsets.
    pub(crate) fn durable_records(&self) -> Vec<GroupRecord> {
        let key = Key::Group {
            group: self.id.clone(),
        };
        let generation = self
            .stored
            .clone()
            .map(|stored| GroupRecord::Group(key, Some(stored)));
        let offsets = self.offsets.iter().map(|(partition, committed)| {
            let key = Key::Offset {
                group: self.id.clone(),
                partition: partition.clone(),
            };
            GroupRecord::Offset(key, Some(committed.clone()))
        });
        let consumer = self.consumer.iter();
        let consumer = consumer.flat_map(|consumer| consumer.durable_records());
        let share = self.share.iter();
        let share = share.flat_map(|share| share.durable_records());
        generation
            .into_iter()
            .chain(consumer)
            .chain(share)
            .chain(offsets)
            .collect()
    }

    /// How many records [`Group::durable_records`] gives.
    pub(crate) fn durable_count(&self) -> usize {
        let consumer = self.consumer.as_ref();
        let consumer = consumer.map_or(0, |consumer| consumer.durable_count());
        let share = self.share.as_ref();
        let share = share.map_or(0, |share| share.durable_count());
        usize::from(self.stored.is_some()) + consumer + share + self.offsets.len()
    }

    /// The records that delete all that the log holds of the group.
    pub(crate) fn tombstones(&self) -> Vec<GroupRecord> {
        let delete = |record| match record {
            GroupRecord::Offset(key, _) => GroupRecord::Offset(key, None),
            GroupRecord::Group(key, _) => GroupRecord::Group(key, None),
            GroupRecord::Consumer(key, _) => GroupRecord::Consumer(key, None),
            GroupRecord::Share(key, _) => GroupRecord::Share(key, None),
        };
        let pending: BTreeSet<TopicPartition> = self.pending_partitions().cloned().collect();
        let only_pending: Vec<_> = { pending.into_iter() }
            .filter(|partition| self.offset(partition).is_none())
            .collect();
        let committed = self.durable_records().into_iter().map(delete);
        committed
            .chain(self.offset_tombstones(&only_pending))
            .collect()
    }
}
