//! Who belongs to the cluster, who leads what, and who owns which stream.

use std::{collections::BTreeSet, time::Duration};

use millrace_meta::{
    Adoption, Broker, BrokerState, ChangedTopics, Changes, ClusterError, Fenced, FencedBroker,
    JoinError, Joining, Move, OpenStreamError, PartitionStreams, Preferred, StreamMeta,
};
use millrace_model::{NodeEpoch, NodeId, StreamEpoch, StreamId, TopicId, TopicPartition};

use super::tables::{LEASE_TTL, Node, Tables};
use crate::planted::Planted;

/// How long a judge must have held its own lease, in times of a lease.
const JUDGE_TTLS: u32 = 2;

/// A renewal that comes later than after this part of a lease starts the judge's waiting time again.
const GAP_PARTS: u32 = 2;

impl Tables {
    fn is_alive(&self, epoch: NodeEpoch, now: Duration) -> bool {
        self.nodes.values().any(|node| {
            node.epoch == epoch && node.state == BrokerState::Active && node.lease_until >= now
        })
    }

    pub(super) fn join(
        &mut self,
        joining: &Joining,
        now: Duration,
    ) -> Result<NodeEpoch, JoinError> {
        let node = joining.node;
        if let Some(known) = self.nodes.get(&node) {
            if let BrokerState::Fenced {
                adopter: Some(adopter),
            } = known.state
                && self.is_alive(adopter, now)
            {
                return Err(JoinError::BeingAdopted { node });
            }
            let owned = self.streams.values();
            let owned = owned.filter(|stream| stream.owner_node == Some(node));
            let streams = owned.count() as u64;
            let is_other = known.joined.log_id != joining.log_id;
            if known.state != BrokerState::Left && is_other && streams > 0 {
                return Err(JoinError::OtherLog {
                    node,
                    streams,
                    log: known.joined.log.clone(),
                    expected: known.joined.log_id,
                });
            }
        }
        let epoch = self.new_epoch(node);
        let is_late = self.nodes.iter().any(|(&other, known)| {
            other != node
                && known.state == BrokerState::Active
                && known.lease_until < now + LEASE_TTL / GAP_PARTS
        }) && !self.has(Planted::JudgeAfterLateJoin);
        let wait = if is_late {
            LEASE_TTL * JUDGE_TTLS
        } else {
            Duration::ZERO
        };
        let joined = Node {
            joined: joining.clone(),
            epoch,
            state: BrokerState::Active,
            is_draining: false,
            may_judge_from: now + wait,
            lease_until: now + LEASE_TTL,
        };
        self.nodes.insert(node, joined);
        let left: BTreeSet<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.state == BrokerState::Left)
            .map(|(&id, _)| id)
            .collect();
        let (_, topics) =
            self.replace(|leader| leader.node.is_none_or(|node| left.contains(&node)));
        self.changed(topics, true);
        Ok(epoch)
    }

    pub(super) fn renew(&mut self, epoch: NodeEpoch, now: Duration) -> Result<(), ClusterError> {
        let mut active = self.nodes.values_mut();
        let node = active.find(|n| n.epoch == epoch && n.state == BrokerState::Active);
        let node = node.ok_or(Fenced(epoch))?;
        if node.lease_until < now + LEASE_TTL / GAP_PARTS {
            node.may_judge_from = now + LEASE_TTL * JUDGE_TTLS;
        }
        node.lease_until = now + LEASE_TTL;
        Ok(())
    }

    pub(super) fn fence_expired(
        &mut self,
        judge: NodeEpoch,
        now: Duration,
    ) -> Result<Vec<FencedBroker>, ClusterError> {
        let active = |node: &&Node| node.state == BrokerState::Active;
        let own = self.nodes.values().filter(active);
        let own = { own }
            .find(|node| node.epoch == judge)
            .ok_or(Fenced(judge))?;
        let is_fit = own.lease_until >= now + LEASE_TTL / GAP_PARTS && own.may_judge_from <= now
            || self.has(Planted::JudgeWithStaleLease);
        let dead: BTreeSet<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, node)| active(node) && node.epoch != judge && node.lease_until < now)
            .map(|(&id, _)| id)
            .collect();
        if !is_fit || dead.is_empty() {
            return Ok(Vec::new());
        }
        for &node in &dead {
            self.replace_epoch(node);
            if let Some(node) = self.nodes.get_mut(&node) {
                node.state = BrokerState::Fenced { adopter: None };
            }
        }
        let (moved, mut topics) =
            self.replace(|leader| leader.node.is_some_and(|node| dead.contains(&node)));
        topics.extend(self.stay(&dead));
        self.changed(topics, true);
        let fenced = dead.into_iter().map(|node| FencedBroker {
            node,
            partitions_moved: moved.get(&node).copied().unwrap_or(0),
        });
        Ok(fenced.collect())
    }

    pub(super) fn adopt(
        &mut self,
        node: NodeId,
        adopter: NodeEpoch,
        now: Duration,
    ) -> Result<Adoption, ClusterError> {
        if !self.is_alive(adopter, now) {
            return Err(Fenced(adopter).into());
        }
        let fenced = self.nodes.get(&node);
        let Some((former, log)) = fenced.and_then(|fenced| match fenced.state {
            BrokerState::Fenced { adopter } => Some((adopter, fenced.joined.log.clone())),
            _ => None,
        }) else {
            return Err(ClusterError::NodeNot(node, "fenced"));
        };
        if let Some(former) = former.filter(|&former| former != adopter)
            && self.is_alive(former, now)
        {
            let adopter = former;
            return Err(ClusterError::Adopted { node, adopter });
        }
        let epoch = self.replace_epoch(node);
        if let Some(node) = self.nodes.get_mut(&node) {
            let adopter = Some(adopter);
            node.state = BrokerState::Fenced { adopter };
        }
        if self.has(Planted::ReleaseBeforeUpload) {
            self.disown(node);
        }
        self.changed([], true);
        Ok(Adoption { epoch, log })
    }

    pub(super) fn leave(&mut self, epoch: NodeEpoch) -> Result<(), ClusterError> {
        let node = self.node_of(epoch)?;
        let Some(leaving) = self.nodes.get_mut(&node) else {
            return Err(Fenced(epoch).into());
        };
        if leaving.state == BrokerState::Left {
            return Err(Fenced(epoch).into());
        }
        leaving.state = BrokerState::Left;
        self.disown(node);
        let (_, mut topics) = self.replace(|leader| leader.node == Some(node));
        topics.extend(self.stay(&BTreeSet::from([node])));
        self.changed(topics, true);
        Ok(())
    }

    /// The streams of a node have no owner any more.
    fn disown(&mut self, node: NodeId) {
        for stream in self.streams.values_mut() {
            if stream.owner_node == Some(node) {
                (stream.owner, stream.owner_node) = (None, None);
            }
        }
    }

    pub(super) fn begin_drain(&mut self, epoch: NodeEpoch) -> Result<(), ClusterError> {
        let node = self.node_of(epoch)?;
        let draining = self.nodes.get_mut(&node);
        let draining = draining.filter(|node| node.state == BrokerState::Active);
        draining.ok_or(Fenced(epoch))?.is_draining = true;
        let topics = self.stay(&BTreeSet::from([node]));
        self.changed(topics, true);
        Ok(())
    }

    pub(super) fn release(
        &mut self,
        streams: &[StreamId],
        epoch: NodeEpoch,
    ) -> Result<(), ClusterError> {
        let node = self.node_of(epoch)?;
        for id in streams {
            let Some(stream) = self.streams.get_mut(id) else {
                continue;
            };
            if stream.owner_node.is_some_and(|owner| owner != node) {
                return Err(ClusterError::NotOwner(*id));
            }
            (stream.owner, stream.owner_node) = (None, None);
        }
        Ok(())
    }

    /// As the trait says: gives the partitions that are not the caller's any more.
    pub(super) fn hand_over(
        &mut self,
        moves: &[Move],
        from: NodeEpoch,
    ) -> Result<Vec<TopicPartition>, ClusterError> {
        let own = self.node_of(from)?;
        let mut gone = Vec::new();
        for Move { partition, to } in moves {
            let Some((topic, streams, leader)) = self.partition(partition) else {
                continue;
            };
            if leader.node == Some(own) && !self.give((topic, partition), streams, (from, *to)) {
                continue;
            }
            gone.push(partition.clone());
        }
        Ok(gone)
    }

    /// Whether a partition could be given away: its owner has it, and its target may lead.
    fn give(
        &mut self,
        (topic, partition): (TopicId, &TopicPartition),
        streams: PartitionStreams,
        (from, to): (NodeEpoch, NodeId),
    ) -> bool {
        let own = self.node_of(from).ok();
        let planned = self.leader_mut(topic, partition.partition);
        let is_planned = planned.is_some_and(|leader| leader.moving_to == Some(to));
        let may_lead = self.able().any(|able| able == to);
        if own != Some(to) && is_planned && !may_lead {
            // Its leader would try again for ever.
            if let Some(leader) = self.leader_mut(topic, partition.partition) {
                leader.moving_to = None;
            }
            self.changed([topic], false);
            return false;
        }
        let ids = [streams.data, streams.meta];
        let is_owned = |id: &StreamId| {
            let stream = self.streams.get(id);
            stream.is_some_and(|stream| stream.owner == Some(from))
        };
        if own == Some(to) || !is_planned || !may_lead || !ids.iter().all(is_owned) {
            return false;
        }
        let target = self.nodes.get(&to).map(|node| node.epoch);
        for id in ids {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.epoch = StreamEpoch(stream.epoch.0 + 1);
                (stream.owner, stream.owner_node) = (target, Some(to));
            }
        }
        if let Some(leader) = self.leader_mut(topic, partition.partition) {
            leader.node = Some(to);
            leader.epoch += 1;
            leader.moving_to = None;
        }
        self.changed([topic], false);
        true
    }

    pub(super) fn plan_moves(
        &mut self,
        moves: &[Move],
        preferred: Preferred,
    ) -> Result<(), ClusterError> {
        let able: BTreeSet<NodeId> = self.able().collect();
        let mut topics = BTreeSet::new();
        for planned in moves {
            let Move { partition, to } = planned;
            if !able.contains(to) {
                return Err(ClusterError::NodeNot(*to, "active"));
            }
            let unknown = || ClusterError::UnknownPartition(partition.clone());
            let (topic, _, leader) = self.partition(partition).ok_or_else(unknown)?;
            if self.has(Planted::HandOverBeforeSealed)
                && let Some(from) = leader.node.and_then(|node| self.nodes.get(&node))
                && leader.node != Some(*to)
            {
                let from = from.epoch;
                if let Some(leader) = self.leader_mut(topic, partition.partition) {
                    leader.moving_to = Some(*to);
                }
                // Where the leader has it open; else the move is only planned.
                let _ = self.hand_over(std::slice::from_ref(planned), from);
                topics.insert(topic);
                continue;
            }
            if let Some(leader) = self.leader_mut(topic, partition.partition) {
                leader.moving_to = (leader.node != Some(*to)).then_some(*to);
                if preferred == Preferred::Set {
                    leader.preferred = Some(*to);
                }
            }
            topics.insert(topic);
        }
        self.changed(topics, false);
        Ok(())
    }

    /// As the trait says: gives the partitions that were to move.
    pub(super) fn cancel_moves(&mut self, partitions: &[TopicPartition]) -> Vec<TopicPartition> {
        let mut topics = BTreeSet::new();
        let mut cancelled = Vec::new();
        for partition in partitions {
            let Some((topic, ..)) = self.partition(partition) else {
                continue;
            };
            let leader = self.leader_mut(topic, partition.partition);
            let Some(leader) = leader.filter(|leader| leader.moving_to.is_some()) else {
                continue;
            };
            (leader.moving_to, leader.preferred) = (None, leader.node);
            topics.insert(topic);
            cancelled.push(partition.clone());
        }
        self.changed(topics, false);
        cancelled
    }

    /// Opens streams of this node, and with `free` those that nobody owns; without, the node's others have no owner any more.
    pub(super) fn open(
        &mut self,
        streams: &[StreamId],
        epoch: NodeEpoch,
        free: bool,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        let node = self.node_of(epoch)?;
        if !free {
            // What the log has nothing of is in the bucket.
            for (id, stream) in &mut self.streams {
                if stream.owner_node == Some(node) && !streams.contains(id) {
                    (stream.owner, stream.owner_node) = (None, None);
                }
            }
        }
        let takes_all = self.has(Planted::OpenWithoutWaiting);
        let mut opened = Vec::new();
        for &id in streams {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            let is_takeable = match stream.owner_node {
                Some(owner) => owner == node || free && takes_all,
                None => free,
            };
            if !is_takeable {
                continue;
            }
            if stream.owner != Some(epoch) {
                stream.epoch = StreamEpoch(stream.epoch.0 + 1);
                (stream.owner, stream.owner_node) = (Some(epoch), Some(node));
            }
            opened.push(StreamMeta {
                id,
                epoch: stream.epoch,
                start: stream.start,
                end: stream.end,
            });
        }
        Ok(opened)
    }

    pub(super) fn brokers(&self) -> Vec<Broker> {
        let broker = |node: &Node| Broker {
            joined: node.joined.clone(),
            epoch: node.epoch,
            state: node.state,
            is_draining: node.is_draining,
        };
        self.nodes.values().map(broker).collect()
    }

    pub(super) fn revision(&self) -> u64 {
        self.changes.len() as u64
    }

    pub(super) fn changes_since(&self, since: u64) -> Changes {
        let revision = self.revision();
        if since == 0 || since > revision {
            return Changes {
                revision,
                topics: ChangedTopics::All(self.topics.values().cloned().collect()),
                brokers: Some(self.brokers()),
                security: true,
            };
        }
        let since = usize::try_from(since).unwrap_or(usize::MAX);
        let new = self.changes.get(since..).unwrap_or_default();
        let named: BTreeSet<_> = new.iter().flat_map(|change| &change.topics).collect();
        let present = named.iter().filter_map(|id| self.topics.get(id)).cloned();
        let present = present.collect();
        Changes {
            revision,
            topics: ChangedTopics::Some {
                named: named.into_iter().copied().collect(),
                present,
            },
            brokers: new
                .iter()
                .any(|change| change.brokers)
                .then(|| self.brokers()),
            security: false,
        }
    }
}
