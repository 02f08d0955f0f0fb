//! Committed offsets: who may commit, when they expire.

use std::collections::BTreeSet;

use millrace_model::{TopicName, TopicPartition};

use super::{Group, Now};
use crate::{
    GroupError,
    consumer::CONSUMER,
    messages::{Caller, CommittedOffset, GroupState, StableOffset},
    records::{GroupRecord, Key},
    subscription,
};

impl Group {
    /// The partitions that the members are assigned, `max` at most, each with the number of its member.
    /// A rebalance under way keeps those of the generation before it.
    pub(crate) fn assigned(&self, max: usize) -> Vec<(TopicPartition, usize)> {
        if let Some(consumer) = &self.consumer {
            return consumer.assigned(max);
        }
        if let Some(share) = &self.share {
            return share.assigned(max);
        }
        let mut partitions = Vec::new();
        for (number, member) in self.members.values().enumerate() {
            let left = max.saturating_sub(partitions.len());
            let of_member = subscription::assigned(&member.assignment, left);
            partitions.extend(of_member.into_iter().map(|partition| (partition, number)));
        }
        partitions
    }

    /// Whether the caller may commit offsets now.
    pub(crate) fn check_commit(&mut self, caller: &Caller, now: Now) -> Result<(), GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if self.consumer.is_some() {
            return self.check_consumer_commit(caller);
        }
        if self.share.is_some() {
            return Err(GroupError::GroupIdNotFound);
        }
        // An administrator, or a consumer that assigns itself and only keeps its offsets here.
        if caller.generation < 0 && self.state == GroupState::Empty {
            return Ok(());
        }
        let anonymous =
            caller.generation < 0 && caller.member_id.is_empty() && caller.instance_id.is_none();
        if anonymous {
            return Err(GroupError::UnknownMemberId);
        }
        self.check_generation(caller)?;
        if self.state == GroupState::CompletingRebalance {
            return Err(GroupError::RebalanceInProgress);
        }
        self.refresh(&caller.member_id, now);
        Ok(())
    }

    /// A commit is on its way to the log; the group must not be deleted meanwhile.
    pub(crate) const fn commit_started(&mut self) {
        self.commits_in_flight += 1;
    }

    pub(crate) const fn has_commits_in_flight(&self) -> bool {
        self.commits_in_flight > 0
    }

    /// A commit has reached the log, or could not.
    pub(crate) fn commit_finished(
        &mut self,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
        durable: bool,
    ) {
        self.commits_in_flight = self.commits_in_flight.saturating_sub(1);
        if durable {
            for (partition, committed) in offsets {
                self.supersede_pending(&partition);
                self.put_offset(partition, committed);
            }
        }
    }

    /// Takes on the offsets that were read from the log.
    pub(crate) fn restore_offsets(
        &mut self,
        offsets: impl IntoIterator<Item = (TopicPartition, CommittedOffset)>,
    ) {
        self.offsets.extend(offsets);
        self.recount();
    }

    /// How many members and offsets there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let consumer = self.consumer.as_ref();
        let consumers = consumer.map_or(0, |consumer| consumer.members_count());
        let share = self.share.as_ref();
        let sharing = share.map_or(0, |share| share.members_count());
        (
            consumers + sharing + self.members.len() + self.pending_members.len(),
            self.offsets.len(),
        )
    }

    pub(crate) fn offset(&self, partition: &TopicPartition) -> Option<&CommittedOffset> {
        self.offsets.get(partition)
    }

    pub(crate) fn stable_offset(&self, partition: &TopicPartition) -> StableOffset {
        match self.has_pending(partition) {
            true => StableOffset::Unstable,
            false => StableOffset::Stable(self.offset(partition).cloned()),
        }
    }

    pub(crate) fn stable_offsets(&self) -> Vec<(TopicPartition, StableOffset)> {
        let partitions = self.offsets.keys();
        partitions
            .map(|partition| (partition.clone(), self.stable_offset(partition)))
            .collect()
    }

    pub(crate) fn offsets(&self) -> Vec<(TopicPartition, CommittedOffset)> {
        self.offsets
            .iter()
            .map(|(p, c)| (p.clone(), c.clone()))
            .collect()
    }

    /// Whether nothing is left of the group that anybody could want.
    pub(crate) fn is_unused(&self) -> bool {
        self.state() == GroupState::Empty
            // Only an administrator deletes share groups: their states say where they go on.
            && self.share.is_none()
            && self.consumer_writes_in_flight == 0
            && self.offsets.is_empty()
            && self.pending_members.is_empty()
            && self.commits_in_flight == 0
            && !self.has_any_pending()
    }

    /// Whether the group may be deleted; if so it is dead from now on.
    pub(crate) fn begin_delete(&mut self, now: Now) -> Result<Vec<GroupRecord>, GroupError> {
        match self.state() {
            GroupState::Dead => Err(GroupError::GroupIdNotFound),
            // Its states may be there again in a moment.
            _ if self.share.as_ref().is_some_and(|share| share.is_asking()) => {
                Err(GroupError::CoordinatorNotAvailable)
            }
            GroupState::Empty
                if self.commits_in_flight == 0 && self.consumer_writes_in_flight == 0 =>
            {
                self.enter(GroupState::Dead, now);
                Ok(self.tombstones())
            }
            _ => Err(GroupError::NonEmptyGroup),
        }
    }

    /// The deletion could not be written: the group lives on.
    pub(crate) fn undo_delete(&mut self, now: Now) {
        self.enter(GroupState::Empty, now);
    }

    /// Offsets whose time is up, by Kafka's rules (KIP-211): of an empty group `retention` after it
    /// became empty; of a group with consumers, those in topics that nobody subscribes to; of a
    /// group that never had a member, each `retention` after its commit.
    pub(crate) fn expired(&self, now: Now) -> Vec<TopicPartition> {
        let retention = i64::try_from(self.config.offsets_retention.as_millis());
        let retention = retention.unwrap_or(i64::MAX);
        let empty = self.state == GroupState::Empty;
        let subscribed = match self.protocol_type.as_deref() {
            _ if self.consumer.is_some() => self.consumer_topics(),
            None => BTreeSet::new(),
            Some(_) if empty => BTreeSet::new(),
            Some(CONSUMER) if self.state == GroupState::Stable => self.subscribed_topics(),
            // Others keep their offsets for as long as they have members.
            Some(_) => return Vec::new(),
        };
        let since = |committed: &CommittedOffset| match self.protocol_type {
            Some(_) if empty => self.state_ms.max(committed.commit_ms),
            _ => committed.commit_ms,
        };
        let over = |committed: &CommittedOffset| match committed.expire_ms {
            Some(at) => at <= now.ms,
            None => now.ms.saturating_sub(since(committed)) >= retention,
        };
        self.offsets
            .iter()
            .filter(|(partition, c)| over(c) && !subscribed.contains(partition.topic.as_str()))
            // The end of the transaction decides.
            .filter(|(partition, _)| !self.has_pending(partition))
            .map(|(partition, _)| partition.clone())
            .collect()
    }

    /// Which of these topics the members subscribe to: their offsets must not be deleted. All of them while the group rebalances: what its
    /// members subscribe to is known only afterwards.
    pub(crate) fn subscribed_of<'a>(
        &self,
        topics: impl Iterator<Item = &'a TopicName>,
    ) -> Result<BTreeSet<TopicName>, GroupError> {
        if self.share.is_some() {
            return Err(GroupError::GroupIdNotFound);
        }
        if let Some(consumer) = &self.consumer
            && self.state != GroupState::Dead
        {
            let topics = topics.filter(|topic| consumer.is_subscribed(topic.as_str()));
            return Ok(topics.cloned().collect());
        }
        let is_consumers = self.protocol_type.as_deref() == Some(CONSUMER);
        match self.state {
            GroupState::Dead => Err(GroupError::GroupIdNotFound),
            GroupState::Empty => Ok(BTreeSet::new()),
            _ if !is_consumers => Err(GroupError::NonEmptyGroup),
            GroupState::Stable => {
                let subscribed = self.subscribed_topics();
                let topics = topics.filter(|topic| subscribed.contains(topic.as_str()));
                Ok(topics.cloned().collect())
            }
            GroupState::PreparingRebalance
            | GroupState::CompletingRebalance
            | GroupState::Assigning
            | GroupState::Reconciling => Ok(topics.cloned().collect()),
        }
    }

    /// The topics that the consumer group's members subscribe to, of those that it has offsets in.
    fn consumer_topics(&self) -> BTreeSet<String> {
        let consumer = self.consumer.as_ref();
        let subscribes = |topic: &str| consumer.is_some_and(|c| c.is_subscribed(topic));
        let topics: BTreeSet<&str> = self.offsets.keys().map(|p| p.topic.as_str()).collect();
        let topics = topics.into_iter().filter(|topic| subscribes(topic));
        topics.map(str::to_owned).collect()
    }

    fn subscribed_topics(&self) -> BTreeSet<String> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let topics = self
            .members
            .values()
            .map(|m| subscription::topics(&m.metadata(protocol)));
        // A subscription that cannot be read might name any topic.
        let all: Option<Vec<Vec<String>>> = topics.collect();
        match all {
            Some(topics) => topics.into_iter().flatten().collect(),
            None => self
                .offsets
                .keys()
                .map(|p| p.topic.as_str().to_owned())
                .collect(),
        }
    }

    /// The partitions of these topics in which the group has offsets, also in open transactions.
    pub(crate) fn offsets_in(&self, topics: &BTreeSet<TopicName>) -> Vec<TopicPartition> {
        let all = self.offsets.keys().chain(self.pending_partitions());
        let gone = all.filter(|p| topics.contains(&p.topic));
        let gone: BTreeSet<&TopicPartition> = gone.collect();
        gone.into_iter().cloned().collect()
    }

    /// The records that delete these offsets.
    pub(crate) fn offset_tombstones(&self, partitions: &[TopicPartition]) -> Vec<GroupRecord> {
        let key = |partition: &TopicPartition| Key::Offset {
            group: self.id.clone(),
            partition: partition.clone(),
        };
        partitions
            .iter()
            .map(|partition| GroupRecord::Offset(key(partition), None))
            .collect()
    }

    /// The offsets' deletion is durable.
    pub(crate) fn forget(&mut self, partitions: &[TopicPartition]) {
        for partition in partitions {
            self.supersede_pending(partition);
            self.take_offset(partition);
        }
    }
}
