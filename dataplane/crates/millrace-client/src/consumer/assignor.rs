//! Which member of a group reads which partitions. The group's leader decides; its assignor must
//! give members of other clients what they expect, so each follows Kafka's Java client.

mod sticky;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::topic_partition::TopicPartition;

/// How partitions are distributed over the members of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Assignor {
    /// Each topic by itself: its partitions in order, cut into one range for each member.
    Range,
    /// As even as possible over all topics, and as few changes as possible. In a rebalance each
    /// member gives up all partitions first.
    Sticky,
    /// As [`Assignor::Sticky`], but members keep reading the partitions that stay theirs (KIP-429).
    CooperativeSticky,
}

/// A member, as the leader sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) instance_id: Option<String>,
    pub(super) topics: Vec<Arc<str>>,
    /// What it read until now, and in which generation that was assigned.
    pub(super) owned: Vec<TopicPartition>,
    pub(super) generation: Option<i32>,
}

/// What each member gets, by its id.
pub(super) type Assignment = HashMap<String, Vec<TopicPartition>>;

impl Assignor {
    /// Its name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    pub(super) fn is_cooperative(self) -> bool {
        self == Self::CooperativeSticky
    }

    /// Distributes the partitions; `partitions` is how many each topic has.
    pub(super) fn assign(
        self,
        partitions: &BTreeMap<Arc<str>, i32>,
        members: &[Member],
    ) -> Assignment {
        match self {
            Self::Range => range(partitions, members),
            Self::Sticky => sticky::assign(partitions, members),
            Self::CooperativeSticky => {
                let target = sticky::assign(partitions, members);
                without_transfers(target, members)
            }
        }
    }
}

fn range(partitions: &BTreeMap<Arc<str>, i32>, members: &[Member]) -> Assignment {
    let mut sorted: Vec<_> = members.iter().collect();
    // Static members first, by the names that outlive their member ids.
    sorted.sort_by_key(|member| {
        let instance = member.instance_id.clone();
        (instance.is_none(), instance, member.id.clone())
    });
    let mut assignment = empty(members);
    for (topic, &count) in partitions {
        let readers: Vec<_> = sorted
            .iter()
            .filter(|member| member.topics.contains(topic))
            .collect();
        let Some(readers_count) = i32::try_from(readers.len()).ok().filter(|n| *n > 0) else {
            continue;
        };
        let (each, extra) = (count / readers_count, count % readers_count);
        let mut next = 0;
        for (nth, member) in (0..).zip(readers) {
            let end = next + each + i32::from(nth < extra);
            let range = (next..end).map(|index| TopicPartition::of(Arc::clone(topic), index));
            assignment
                .entry(member.id.clone())
                .or_default()
                .extend(range);
            next = end;
        }
    }
    assignment
}

/// Leaves out what another member still reads: that one gives it up first, and the rebalance that
/// follows assigns it.
fn without_transfers(mut target: Assignment, members: &[Member]) -> Assignment {
    let owners: HashMap<&TopicPartition, &str> = members
        .iter()
        .flat_map(|member| member.owned.iter().map(|name| (name, member.id.as_str())))
        .collect();
    for (member, partitions) in &mut target {
        partitions.retain(|name| owners.get(name).is_none_or(|owner| owner == member));
    }
    target
}

fn empty(members: &[Member]) -> Assignment {
    let ids = members.iter().map(|member| member.id.clone());
    ids.map(|id| (id, Vec::new())).collect()
}

/// The topics that some member reads.
pub(super) fn topics_of(members: &[Member]) -> HashSet<Arc<str>> {
    let topics = members.iter().flat_map(|member| &member.topics);
    topics.cloned().collect()
}
