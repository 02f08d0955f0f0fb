//! Who leads the partitions that this broker does not, so that clients need not ask (KIP-951).

use std::collections::BTreeMap;

use millrace_model::TopicId;
use millrace_wire::{error_code::ErrorCode, service::Peer};

use crate::{context::Context, members::Member};

/// The leaders of some partitions.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    leaders: BTreeMap<(TopicId, i32), (i32, i32)>,
    members: BTreeMap<i32, Member>,
}

/// Finds the leaders of the partitions whose errors say that this broker is not it.
pub(crate) fn leaders_elsewhere(
    (context, peer): (&Context, &Peer),
    codes: &[((TopicId, i32), i16)],
) -> Elsewhere {
    let mut elsewhere = Elsewhere::default();
    for (partition, code) in codes {
        let is_of_leader = *code == ErrorCode::NotLeaderOrFollower.code()
            || *code == ErrorCode::FencedLeaderEpoch.code();
        let topic = is_of_leader.then(|| context.logs.topic_by_id(partition.0));
        let leader = topic
            .flatten()
            .and_then(|topic| context.leader_elsewhere(&topic, partition.1, peer));
        if let Some((member, epoch)) = leader {
            elsewhere.leaders.insert(*partition, (member.id.0, epoch));
            elsewhere.members.insert(member.id.0, member);
        }
    }
    elsewhere
}

impl Elsewhere {
    /// The leader of a partition and its epoch, where they are to be told.
    pub(crate) fn leader(&self, partition: (TopicId, i32)) -> Option<(i32, i32)> {
        self.leaders.get(&partition).copied()
    }

    /// Where these leaders are.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }
}
