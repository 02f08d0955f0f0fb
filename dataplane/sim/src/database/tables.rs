//! What the database has, and its changes as transactions: the rules are those of `millrace-meta`'s POSTGRES.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use millrace_meta::{
    BrokerLoad, BrokerState, CreateTopicError, Fenced, Joining, Leader, LedTopic, NewTopic,
    PartitionStreams, Topic,
};
use millrace_model::{NodeEpoch, NodeId, Offset, StreamEpoch, StreamId, TopicId, TopicPartition};

use super::objects::Objects;
use crate::planted::Planted;

/// How long a lease lasts.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(3);

/// A node that has joined.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) joined: Joining,
    pub(super) epoch: NodeEpoch,
    pub(super) state: BrokerState,
    pub(super) is_draining: bool,
    pub(super) may_judge_from: Duration,
    pub(super) lease_until: Duration,
}

#[derive(Debug, Clone)]
pub(super) struct Stream {
    pub(super) epoch: StreamEpoch,
    /// The start that has it open.
    pub(super) owner: Option<NodeEpoch>,
    /// The node whose log may have its newest records.
    pub(super) owner_node: Option<NodeId>,
    pub(super) start: Offset,
    pub(super) end: Offset,
}

/// What one revision has changed.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    pub(super) topics: BTreeSet<TopicId>,
    pub(super) brokers: bool,
}

/// All rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) loads: BTreeMap<NodeId, (Duration, BrokerLoad)>,
    pub(super) topics: BTreeMap<TopicId, LedTopic>,
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) objects: Objects,
    /// By revision, from 1.
    pub(super) changes: Vec<Change>,
    pub(super) values: BTreeMap<String, Vec<u8>>,
    pub(super) cluster_id: Option<String>,
    /// What is wrong with this database.
    planted: Option<Planted>,
    pub(super) uploads: u64,
    next_epoch: u64,
    next_stream: u64,
    next_producer: i64,
}

impl Tables {
    pub(super) fn new(planted: Option<Planted>) -> Self {
        Self {
            planted,
            ..Self::default()
        }
    }

    pub(super) fn has(&self, fault: Planted) -> bool {
        self.planted == Some(fault)
    }

    /// The node whose current epoch this is.
    pub(super) fn node_of(&self, epoch: NodeEpoch) -> Result<NodeId, Fenced> {
        let current = self.nodes.iter().find(|(_, node)| node.epoch == epoch);
        current.map(|(&id, _)| id).ok_or(Fenced(epoch))
    }

    /// Takes the next epoch. What the former one reserved and did not commit is retired.
    pub(super) fn new_epoch(&mut self, node: NodeId) -> NodeEpoch {
        self.next_epoch += 1;
        let epoch = NodeEpoch(self.next_epoch);
        if let Some(node) = self.nodes.get_mut(&node) {
            self.objects.retire_reserved_of(node.epoch);
            node.epoch = epoch;
        }
        epoch
    }

    /// The same for a node whose lease has run out.
    pub(super) fn replace_epoch(&mut self, node: NodeId) -> NodeEpoch {
        let known = self.nodes.get(&node).map(|node| node.epoch);
        let known = known.filter(|_| self.has(Planted::ReuseEpoch));
        known.unwrap_or_else(|| self.new_epoch(node))
    }

    /// Writes the next revision.
    pub(super) fn changed(&mut self, topics: impl IntoIterator<Item = TopicId>, brokers: bool) {
        let mut topics: BTreeSet<TopicId> = topics.into_iter().collect();
        if self.has(Planted::DropFeedEntry) && self.changes.len() % 4 == 3 {
            topics.clear();
        }
        self.changes.push(Change { topics, brokers });
    }

    pub(super) fn next_stream(&self) -> u64 {
        self.next_stream
    }

    pub(super) fn take_producers(&mut self, block: u32) -> Range<i64> {
        let first = self.next_producer;
        self.next_producer += i64::from(block);
        first..self.next_producer
    }

    pub(super) fn create_topic(&mut self, new: NewTopic) -> Result<Topic, CreateTopicError> {
        if self.topics.values().any(|led| led.topic.name == new.name) {
            return Err(CreateTopicError::Exists(new.name));
        }
        let count = usize::try_from(new.partitions).unwrap_or(usize::MAX);
        let mut leaders: Vec<Option<NodeId>> = self.spread(count).into_iter().map(Some).collect();
        leaders.resize(count, None);
        let mut partitions = Vec::with_capacity(count);
        for index in 0..new.partitions {
            let [data, meta] = [self.next_stream, self.next_stream + 1].map(StreamId);
            self.next_stream += 2;
            for id in [data, meta] {
                let stream = Stream {
                    epoch: StreamEpoch(0),
                    owner: None,
                    owner_node: None,
                    start: 0,
                    end: 0,
                };
                self.streams.insert(id, stream);
            }
            partitions.push(PartitionStreams { index, data, meta });
        }
        let topic = Topic {
            id: new.id,
            name: new.name,
            configs: new.configs,
            partitions,
        };
        let leader = |node| Leader {
            node,
            epoch: 0,
            moving_to: None,
            preferred: None,
        };
        let led = LedTopic {
            topic: topic.clone(),
            leaders: leaders.into_iter().map(leader).collect(),
        };
        self.topics.insert(topic.id, led);
        self.changed([topic.id], false);
        Ok(topic)
    }

    /// A partition's topic, streams and leader.
    pub(super) fn partition(
        &self,
        id: &TopicPartition,
    ) -> Option<(TopicId, PartitionStreams, Leader)> {
        let led = self
            .topics
            .values()
            .find(|led| led.topic.name == id.topic)?;
        let index = usize::try_from(id.partition).ok()?;
        let (streams, leader) = (led.topic.partitions.get(index)?, led.leaders.get(index)?);
        Some((led.topic.id, *streams, *leader))
    }

    pub(super) fn leader_mut(&mut self, topic: TopicId, index: u32) -> Option<&mut Leader> {
        let index = usize::try_from(index).ok()?;
        self.topics.get_mut(&topic)?.leaders.get_mut(index)
    }

    /// The nodes that `count` partitions go to: each to the one that leads the fewest.
    pub(super) fn spread(&self, count: usize) -> Vec<NodeId> {
        let mut led: BTreeMap<NodeId, usize> = self.able().map(|node| (node, 0)).collect();
        for leader in self.topics.values().flat_map(|led| &led.leaders) {
            if let Some(count) = leader.node.and_then(|node| led.get_mut(&node)) {
                *count += 1;
            }
        }
        let mut leaders = Vec::with_capacity(count);
        for _ in 0..count {
            let Some((&node, count)) = led.iter_mut().min_by_key(|(_, count)| **count) else {
                break;
            };
            *count += 1;
            leaders.push(node);
        }
        leaders
    }

    /// The nodes that may lead.
    pub(super) fn able(&self) -> impl Iterator<Item = NodeId> {
        let able = |node: &Node| node.state == BrokerState::Active && !node.is_draining;
        self.nodes
            .iter()
            .filter(move |(_, node)| able(node))
            .map(|(&id, _)| id)
    }

    /// Gives partitions that `is_orphan` to the nodes that may lead, where there are any. Gives how many each former leader led,
    /// and the topics that are concerned.
    pub(super) fn replace(
        &mut self,
        is_orphan: impl Fn(&Leader) -> bool,
    ) -> (BTreeMap<NodeId, u64>, BTreeSet<TopicId>) {
        let mut orphans = Vec::new();
        for (&id, led) in &self.topics {
            let of_topic = led.leaders.iter().enumerate();
            orphans.extend(
                of_topic
                    .filter(|(_, leader)| is_orphan(leader))
                    .map(|(index, leader)| (id, index, leader.node)),
            );
        }
        let leaders = self.spread(orphans.len());
        let (mut moved, mut topics) = (BTreeMap::new(), BTreeSet::new());
        for ((topic, index, former), node) in orphans.into_iter().zip(leaders) {
            let led = self.topics.get_mut(&topic);
            if let Some(leader) = led.and_then(|led| led.leaders.get_mut(index)) {
                leader.node = Some(node);
                leader.epoch += 1;
                leader.moving_to = None;
            }
            if let Some(former) = former {
                *moved.entry(former).or_default() += 1;
            }
            topics.insert(topic);
        }
        (moved, topics)
    }

    /// What was to move to these nodes stays where it is. Gives the topics that are concerned.
    pub(super) fn stay(&mut self, gone: &BTreeSet<NodeId>) -> BTreeSet<TopicId> {
        let mut topics = BTreeSet::new();
        for (&id, led) in &mut self.topics {
            for leader in &mut led.leaders {
                if leader.moving_to.is_some_and(|to| gone.contains(&to)) {
                    leader.moving_to = None;
                    topics.insert(id);
                }
            }
        }
        topics
    }

    /// Whose log may have the newest records of a partition, for the checks.
    pub(crate) fn owner_of(&self, partition: &TopicPartition) -> Option<NodeId> {
        let (_, streams, _) = self.partition(partition)?;
        self.streams.get(&streams.data)?.owner_node
    }

    /// The leader of each partition, for the checks.
    pub(crate) fn leaders(&self) -> Vec<(TopicPartition, Leader)> {
        let mut leaders = Vec::new();
        for LedTopic { topic, leaders: of } in self.topics.values() {
            for (partition, &leader) in (0_u32..).zip(of) {
                let topic = topic.name.clone();
                leaders.push((TopicPartition { topic, partition }, leader));
            }
        }
        leaders
    }
}
