//! One share group (KIP-932): its members consume the same partitions, and the broker assigns which.
//!
//! | part | what it is |
//! |---|---|
//! | `heartbeat` | ShareGroupHeartbeat: joining, changing, leaving |
//! | `target` | the group epoch and the target assignment |
//! | `assignor` | `simple` |
//! | `states` | which share partitions have state at the share coordinator |
//! | `stored` | what the log holds of the group |
//!
//! A partition may have several members, so nobody waits until another member has given it up: a member has its target with its next
//! heartbeat. Only partitions whose state is initialized are assigned.
//!
//! Pure, as `group` is: the caller passes the time, writes what [`ShareGroup::take_records`] gives, in order, and asks the share
//! coordinator what [`StateRequest`]s say. State runs ahead of the log; an answer leaves only behind the records that it
//! depends on. Where a write fails, the next one writes again all that the log lacks.

mod assignor;
mod heartbeat;
mod states;
mod stored;
mod target;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use millrace_model::TopicId;

pub(crate) use self::{
    states::{StateRequest, StateResults},
    stored::{Parts, bytes_of, subscription_bytes},
};
use crate::{
    GroupConfig,
    kept::Now,
    messages::{
        GroupState, NamedPartitions, ShareGroupDescription, ShareMemberDescription, TopicPartitions,
    },
    records::{SharePart, StoredShareCurrent, StoredShareMember, StoredStates},
    stored::Stored,
    topics::SharedTopics,
};

/// The protocol type of share groups.
pub(crate) const SHARE: &str = "share";
/// The name of the only assignor.
const ASSIGNOR: &str = "simple";

/// What a member subscribes to. Members that subscribe to the same share it.
type Names = Arc<BTreeSet<String>>;

#[derive(Debug, Clone, Default)]
struct Member {
    rack_id: Option<String>,
    client_id: String,
    client_host: String,
    names: Names,
    current: StoredShareCurrent,
    target: TopicPartitions,
    /// When the session ends unless the member is heard from before.
    session_deadline: Duration,
}

impl Member {
    fn stored(&self) -> StoredShareMember {
        StoredShareMember {
            rack_id: self.rack_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            names: self.names.iter().cloned().collect(),
        }
    }
}

/// See the module.
pub(crate) struct ShareGroup {
    id: String,
    config: Arc<GroupConfig>,
    topics: SharedTopics,
    epoch: i32,
    /// What the topics that the members subscribe to looked like when the epoch was counted.
    metadata_hash: i64,
    /// The epoch that the target assignment was made for.
    assignment_epoch: i32,
    members: BTreeMap<String, Member>,
    states: StoredStates,
    /// The share coordinator is being asked to change the states.
    is_asking: bool,
    /// Until when the share coordinator, which failed, is not asked again.
    ask_at: Duration,
    /// The topics' revision when the group looked at them last.
    seen_topics: Option<u64>,
    stored: Stored<SharePart>,
    wake_at: Option<Duration>,
}

impl fmt::Debug for ShareGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareGroup")
            .field("id", &self.id)
            .field("epoch", &self.epoch)
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

impl ShareGroup {
    pub(crate) fn new(id: String, config: Arc<GroupConfig>, topics: SharedTopics) -> Self {
        Self {
            id,
            config,
            topics,
            epoch: 0,
            metadata_hash: 0,
            assignment_epoch: 0,
            members: BTreeMap::new(),
            states: StoredStates::default(),
            is_asking: false,
            ask_at: Duration::ZERO,
            seen_topics: None,
            stored: Stored::default(),
            wake_at: None,
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        match self.members.is_empty() {
            true => GroupState::Empty,
            false => GroupState::Stable,
        }
    }

    pub(crate) fn members_count(&self) -> usize {
        self.members.len()
    }

    /// What a member's subscription costs for each copy, in bytes; 0 for one that is not there.
    pub(crate) fn subscription_bytes(&self, member_id: &str) -> u64 {
        let member = self.members.get(member_id);
        member.map_or(0, |member| subscription_bytes(member.names.iter()))
    }

    /// When [`ShareGroup::expire`] wants to be called; earlier is harmless.
    pub(crate) const fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    fn note(&mut self, deadline: Duration) {
        self.wake_at = Some(self.wake_at.map_or(deadline, |at| at.min(deadline)));
    }

    /// Removes the members that were silent for too long.
    pub(crate) fn expire(&mut self, now: Now) {
        let late = |(id, member): (&String, &Member)| {
            (member.session_deadline <= now.at).then(|| id.clone())
        };
        let late: Vec<String> = self.members.iter().filter_map(late).collect();
        for id in &late {
            tracing::info!(
                group = self.id,
                member = id,
                "member removed: its session expired"
            );
            self.remove(id);
        }
        if !late.is_empty() {
            self.count_epoch();
        }
        let deadlines = self.members.values().map(|member| member.session_deadline);
        self.wake_at = deadlines.min();
    }

    /// What the members have, `max` partitions at most, each with the number of its member.
    pub(crate) fn assigned(&self, max: usize) -> Vec<(millrace_model::TopicPartition, usize)> {
        let mut all = Vec::new();
        for (number, member) in self.members.values().enumerate() {
            for (_, topic, partitions) in self.named(&member.current.assigned) {
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
    pub(crate) fn describe(&self) -> ShareGroupDescription {
        let member = |(id, member): (&String, &Member)| ShareMemberDescription {
            member_id: id.clone(),
            rack_id: member.rack_id.clone(),
            member_epoch: member.current.epoch,
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            names: member.names.iter().cloned().collect(),
            assignment: self.named(&member.current.assigned),
        };
        ShareGroupDescription {
            state: self.state(),
            group_epoch: self.epoch,
            assignment_epoch: self.assignment_epoch,
            assignor: ASSIGNOR,
            members: self.members.iter().map(member).collect(),
        }
    }

    /// The partitions with the names of their topics, without those of topics that are gone.
    fn named(&self, partitions: &TopicPartitions) -> Vec<NamedPartitions> {
        let named = |(id, numbers): (&TopicId, &BTreeSet<u32>)| {
            Some((*id, self.topics.name_of(*id)?, numbers.clone()))
        };
        partitions.iter().filter_map(named).collect()
    }
}
