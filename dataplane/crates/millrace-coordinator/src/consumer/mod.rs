//! One consumer group (KIP-848): the broker assigns, and each member moves towards its assignment at
//! its own pace.
//!
//! | part | what it is |
//! |---|---|
//! | `heartbeat` | ConsumerGroupHeartbeat: joining, changing, leaving |
//! | `target` | the group epoch and the target assignment |
//! | `assignor` | `uniform` and `range` |
//! | `reconcile` | one member on its way to its target |
//! | `pattern` | regular expressions that members subscribe to |
//! | `classic` | members that use the classic protocol in a consumer group |
//! | `convert` | from a classic group and back |
//! | `stored` | what the log holds of the group |
//!
//! Pure, as `group` is: the caller passes the time and writes what [`ConsumerGroup::take_records`] gives, in order. State runs
//! ahead of the log; an answer leaves only behind the records that it depends on. Where a write fails, the
//! next one writes again all that the log lacks.

mod assignor;
mod classic;
mod convert;
mod heartbeat;
mod member;
mod pattern;
mod reconcile;
mod stored;
mod target;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use millrace_model::TopicId;

pub use self::assignor::Assignor;
pub(crate) use self::{
    classic::CONSUMER,
    convert::ClassicMember,
    pattern::MayDescribe,
    stored::{Parts, bytes_of, partitions_bytes, subscription_bytes, texts_bytes},
};
use self::{
    member::{Member, parts_of},
    pattern::Patterns,
};
use crate::{
    GroupConfig, GroupError,
    kept::Now,
    messages::{
        ConsumerDescription, ConsumerGroupDescription, GroupState, NamedPartitions, TopicPartitions,
    },
    records::{ConsumerPart, ConsumerValue, MemberState, StoredCurrent},
    stored::Stored,
    topics::SharedTopics,
};

/// See the module.
pub(crate) struct ConsumerGroup {
    id: String,
    config: Arc<GroupConfig>,
    topics: SharedTopics,
    epoch: i32,
    /// What the topics that the members subscribe to looked like when the epoch was counted.
    metadata_hash: i64,
    /// The epoch that the target assignment was made for.
    assignment_epoch: i32,
    members: BTreeMap<String, Member>,
    /// Static name → member id.
    static_members: HashMap<String, String>,
    /// Partitions that some member has, or has yet to give up.
    owned: HashSet<(TopicId, u32)>,
    patterns: Patterns,
    /// The topics' revision when the hash was computed last.
    seen_topics: Option<u64>,
    stored: Stored<ConsumerPart>,
    wake_at: Option<Duration>,
}

impl fmt::Debug for ConsumerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerGroup")
            .field("id", &self.id)
            .field("epoch", &self.epoch)
            .field("assignment_epoch", &self.assignment_epoch)
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

impl ConsumerGroup {
    pub(crate) fn new(id: String, config: Arc<GroupConfig>, topics: SharedTopics) -> Self {
        Self {
            id,
            config,
            topics,
            epoch: 0,
            metadata_hash: 0,
            assignment_epoch: 0,
            members: BTreeMap::new(),
            static_members: HashMap::new(),
            owned: HashSet::new(),
            patterns: Patterns::default(),
            seen_topics: None,
            stored: Stored::default(),
            wake_at: None,
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        let is_reconciled = |member: &Member| member.is_reconciled(self.assignment_epoch);
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.epoch > self.assignment_epoch {
            GroupState::Assigning
        } else if self.members.values().all(is_reconciled) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    pub(crate) fn members_count(&self) -> usize {
        self.members.len()
    }

    /// What a member's subscription costs for each copy, in bytes; 0 for one that is not there.
    pub(crate) fn subscription_bytes(&self, member_id: &str) -> u64 {
        let member = self.members.get(member_id);
        member.map_or(0, Member::subscription_bytes)
    }

    /// When [`ConsumerGroup::expire`] wants to be called; earlier is harmless.
    pub(crate) const fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    fn note(&mut self, deadline: Duration) {
        self.wake_at = Some(self.wake_at.map_or(deadline, |at| at.min(deadline)));
    }

    /// Removes the members that were silent for too long, or did not give up partitions in time.
    pub(crate) fn expire(&mut self, now: Now) {
        let late =
            |(id, member): (&String, &Member)| (member.deadline() <= now.at).then(|| id.clone());
        let late: Vec<String> = self.members.iter().filter_map(late).collect();
        for id in &late {
            tracing::info!(
                group = self.id,
                member = id,
                "member removed: its session, revocation or rebalance timeout expired"
            );
            self.remove(id);
        }
        if !late.is_empty() {
            self.count_epoch();
        }
        self.wake_at = self.members.values().map(Member::deadline).min();
    }

    /// Takes a member out of the group, and its partitions from it. The caller counts the epoch.
    fn remove(&mut self, id: &str) {
        let Some(member) = self.members.remove(id) else {
            return;
        };
        self.free(&member.current);
        if let Some(instance) = &member.instance_id {
            self.static_members.remove(instance);
        }
        for part in parts_of(id) {
            self.stored.push(part, None);
        }
        self.forget_patterns();
    }

    /// Lets a member have what it has next.
    fn set_current(&mut self, id: &str, next: StoredCurrent) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        if member.current == next {
            return;
        }
        let before = std::mem::replace(&mut member.current, next.clone());
        self.free(&before);
        for (topic, partitions) in next.assigned.iter().chain(&next.revoking) {
            let all = partitions.iter().map(|partition| (*topic, *partition));
            self.owned.extend(all);
        }
        let part = ConsumerPart::Current(id.to_owned());
        self.stored.push(part, Some(ConsumerValue::Current(next)));
    }

    fn free(&mut self, current: &StoredCurrent) {
        for (topic, partitions) in current.assigned.iter().chain(&current.revoking) {
            for partition in partitions {
                self.owned.remove(&(*topic, *partition));
            }
        }
    }

    fn store_member(&mut self, id: &str) {
        if let Some(member) = self.members.get(id) {
            let value = ConsumerValue::Member(member.stored());
            self.stored
                .push(ConsumerPart::Member(id.to_owned()), Some(value));
        }
    }

    /// Whether the caller may commit or fetch offsets as a member with this epoch.
    ///
    /// # Errors
    /// There is no such member, or it has another epoch.
    pub(crate) fn check_epoch(&self, member_id: &str, epoch: i32) -> Result<(), GroupError> {
        let member = self.members.get(member_id);
        let member = member.ok_or(GroupError::UnknownMemberId)?;
        match &member.classic {
            _ if member.current.epoch == epoch => Ok(()),
            Some(_) => Err(GroupError::IllegalGeneration),
            None => Err(GroupError::StaleMemberEpoch),
        }
    }

    /// Whether any member subscribes to the topic.
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        let subscribes = |member: &Member| {
            let pattern = member.subscription.pattern.as_deref();
            member.subscription.names.contains(topic)
                || pattern.is_some_and(|pattern| self.patterns.matches(pattern, topic))
        };
        self.members.values().any(subscribes)
    }

    /// What the members have, `max` partitions at most, each with the number of its member.
    pub(crate) fn assigned(&self, max: usize) -> Vec<(millrace_model::TopicPartition, usize)> {
        let mut all = Vec::new();
        for (number, member) in self.members.values().enumerate() {
            for (topic, partitions) in &member.current.assigned {
                let Some(topic) = self.topics.name_of(*topic) else {
                    continue;
                };
                let left = max.saturating_sub(all.len());
                all.extend(partitions.iter().take(left).map(|&partition| {
                    let topic = topic.clone();
                    (millrace_model::TopicPartition { topic, partition }, number)
                }));
            }
        }
        all
    }

    /// All that is shown of the group.
    pub(crate) fn describe(&self) -> ConsumerGroupDescription {
        let member = |(id, member): (&String, &Member)| ConsumerDescription {
            member_id: id.clone(),
            instance_id: member.instance_id.clone(),
            rack_id: member.rack_id.clone(),
            member_epoch: member.current.epoch,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            names: member.subscription.names.iter().cloned().collect(),
            pattern: member.subscription.pattern.clone(),
            assignment: self.named(&member.current.assigned),
            target: self.named(&member.target),
            is_classic: member.classic.is_some(),
        };
        ConsumerGroupDescription {
            state: self.state(),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: self.assignor().name(),
            members: self.members.iter().map(member).collect(),
        }
    }

    /// The partitions with the names of their topics, without those of topics that are gone.
    fn named(&self, partitions: &TopicPartitions) -> Vec<NamedPartitions> {
        let named = |(id, numbers): (&TopicId, &std::collections::BTreeSet<u32>)| {
            Some((*id, self.topics.name_of(*id)?, numbers.clone()))
        };
        partitions.iter().filter_map(named).collect()
    }

    /// Whether the member still has partitions to give up.
    fn revokes(current: &StoredCurrent) -> bool {
        current.state == MemberState::UnrevokedPartitions
    }
}
