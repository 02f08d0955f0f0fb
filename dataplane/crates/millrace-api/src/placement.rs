//! On which brokers a partition is, in Kafka's words.
//!
//! Records are in the bucket, where every broker reads them, so a partition has one replica: its leader. Two brokers are
//! named where the leader is not the preferred one, and while a partition moves.

use millrace_log::Partition;
use millrace_meta::{Broker, Leader};
use millrace_model::NodeId;
use millrace_wire::messages::BrokerId;

use crate::{context::Context, members::broker_id};

/// The brokers of a partition that has a leader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The preferred leader first. While the partition moves, first where it goes.
    pub(crate) replicas: Vec<BrokerId>,
    /// Those of them that are there.
    pub(crate) in_sync: Vec<BrokerId>,
    /// Those of them that are not.
    pub(crate) offline: Vec<BrokerId>,
}

/// A move that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moving {
    pub(crate) from: BrokerId,
    pub(crate) to: BrokerId,
}

impl Context {
    /// On which brokers a partition is that `leader` leads.
    pub(crate) fn placement(&self, partition: &Partition, leader: BrokerId) -> Placement {
        let first = partition
            .leader()
            .and_then(|leader| leader.moving_to.or(leader.preferred));
        let mut replicas: Vec<BrokerId> = first.map(broker_id).into_iter().collect();
        if !replicas.contains(&leader) {
            replicas.push(leader);
        }
        let is_there = |broker: &BrokerId| *broker == leader || self.is_member(*broker);
        let (in_sync, offline) = replicas.iter().copied().partition(is_there);
        Placement {
            replicas,
            in_sync,
            offline,
        }
    }

    /// The move of a partition that is under way, if one is.
    pub(crate) fn moving(&self, partition: &Partition) -> Option<Moving> {
        let Leader {
            node, moving_to, ..
        } = partition.leader()?;
        let (from, to) = (broker_id(node?), broker_id(moving_to?));
        Some(Moving { from, to })
    }

    /// The node with this id, if it may be given partitions to lead.
    pub(crate) fn able(&self, id: BrokerId) -> Option<NodeId> {
        let Some(members) = &self.config.members else {
            return (id == self.broker_id()).then_some(self.config.node_id);
        };
        let brokers = members.borrow();
        let found = brokers
            .iter()
            .find(|broker| broker_id(broker.joined.node) == id);
        found
            .filter(|broker| Broker::may_lead(broker))
            .map(|broker| broker.joined.node)
    }

    fn is_member(&self, id: BrokerId) -> bool {
        match &self.config.members {
            Some(_) => u32::try_from(id.0).is_ok_and(|node| self.is_active(NodeId(node))),
            None => id == self.broker_id(),
        }
    }
}
