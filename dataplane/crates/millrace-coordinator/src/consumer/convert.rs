//! From a classic group to a consumer group and back, while it has members.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    ConsumerGroup, ConsumerPart, ConsumerValue, Member,
    member::{Classic, Subscription as Subscribed},
};
use crate::{
    GroupConfig, GroupError,
    kept::Now,
    messages::Protocol,
    records::{MemberState, StoredCurrent},
    subscription::{self, Subscription},
    topics::SharedTopics,
};

/// A member as the classic protocol knows it.
#[derive(Debug, Clone)]
pub(crate) struct ClassicMember {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Bytes,
}

impl ConsumerGroup {
    /// The consumer group that a classic one becomes: its members keep what they have.
    ///
    /// # Errors
    /// A member's subscription or assignment cannot be read, or holds data of an assignor of its own.
    pub(crate) fn from_classic(
        (id, config, topics): (String, Arc<GroupConfig>, SharedTopics),
        generation: i32,
        members: Vec<ClassicMember>,
        now: Now,
    ) -> Result<Self, GroupError> {
        let mut group = Self::new(id, config, topics);
        group.epoch = generation.max(1);
        group.assignment_epoch = group.epoch;
        for member in members {
            group.take_on(member, now)?;
        }
        group.metadata_hash = group.hash_topics();
        group.seen_topics = Some(group.topics.revision());
        group.store_epoch();
        let value = ConsumerValue::Target { epoch: group.epoch };
        group.stored.push(ConsumerPart::Target, Some(value));
        Ok(group)
    }

    fn take_on(&mut self, from: ClassicMember, now: Now) -> Result<(), GroupError> {
        let offered = from.protocols.first();
        let subscription = offered.and_then(|offered| Subscription::read(&offered.metadata));
        let subscription = subscription.ok_or(GroupError::GroupIdNotFound)?;
        let assignment = if from.assignment.is_empty() {
            Vec::new()
        } else {
            let read = subscription::read_assignment(&from.assignment);
            let read = read.filter(|read| !read.has_user_data);
            read.ok_or(GroupError::GroupIdNotFound)?.partitions
        };
        let mut assigned = self.by_id(&assignment);
        // What two members claim to have belongs to neither.
        for (topic, partitions) in &mut assigned {
            partitions.retain(|partition| !self.owned.contains(&(*topic, *partition)));
        }
        assigned.retain(|_, partitions| !partitions.is_empty());
        let mut member = Member::new(from.client_id, from.client_host);
        member.instance_id.clone_from(&from.instance_id);
        member.rack_id = subscription.rack_id;
        member.set_rebalance_timeout(from.rebalance_timeout);
        member.subscription = self.shared(&Arc::new(Subscribed {
            names: subscription.topics.into_iter().collect(),
            pattern: None,
        }));
        member.classic = Some(Classic {
            session_timeout: from.session_timeout,
            protocols: from.protocols,
            due: None,
        });
        member.target.clone_from(&assigned);
        if let Some(instance) = from.instance_id {
            self.static_members.insert(instance, from.id.clone());
        }
        self.members.insert(from.id.clone(), member);
        self.store_member(&from.id);
        let target = ConsumerValue::TargetMember(assigned.clone());
        self.stored
            .push(ConsumerPart::TargetMember(from.id.clone()), Some(target));
        let current = StoredCurrent {
            epoch: self.epoch,
            previous_epoch: self.epoch,
            state: MemberState::Stable,
            assigned,
            revoking: crate::messages::TopicPartitions::new(),
        };
        self.set_current(&from.id, current);
        self.refresh(&from.id, now);
        Ok(())
    }

    /// Whether only members are left that use the classic protocol.
    pub(crate) fn has_only_classic_members(&self) -> bool {
        let mut members = self.members.values();
        !self.members.is_empty() && members.all(|member| member.classic.is_some())
    }

    /// What the classic group starts from: its generation and its members.
    pub(crate) fn to_classic(&self) -> (i32, Vec<ClassicMember>) {
        let members = self.members.iter().filter_map(|(id, member)| {
            let classic = member.classic.as_ref()?;
            let assigned = self.named_pairs(&member.target);
            Some(ClassicMember {
                id: id.clone(),
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                session_timeout: classic.session_timeout,
                rebalance_timeout: member.rebalance_timeout(),
                protocols: classic.protocols.clone(),
                assignment: subscription::encode_assignment(0, &assigned),
            })
        });
        (self.epoch, members.collect())
    }
}
