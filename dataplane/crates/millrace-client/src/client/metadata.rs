//! What the cluster looks like: brokers, topics, leaders.

use std::{collections::HashMap, sync::Arc};

use millrace_model::TopicId;
use millrace_wire::messages::{
    MetadataResponse,
    metadata_response::{MetadataResponsePartition, MetadataResponseTopic},
};

use crate::{error::ErrorCode, transport::BrokerAddress};

/// A leader epoch or node that the broker did not tell.
const NONE: i32 = -1;

/// The cluster as a broker described it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Metadata {
    /// The cluster's id.
    pub cluster_id: Option<Arc<str>>,
    /// The brokers by node id.
    pub brokers: HashMap<i32, Broker>,
    /// The node that admin requests go to.
    pub controller: Option<i32>,
    /// The topics that were asked for, by name.
    pub topics: HashMap<Arc<str>, Arc<TopicMetadata>>,
}

/// One broker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broker {
    /// Its node id.
    pub id: i32,
    /// Where it listens.
    pub address: BrokerAddress,
    /// Its rack.
    pub rack: Option<Arc<str>>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicMetadata {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, where the broker tells it (Kafka 2.8 and later).
    pub id: Option<TopicId>,
    /// Why there is nothing else.
    pub error: Option<ErrorCode>,
    /// Whether Kafka itself uses it.
    pub is_internal: bool,
    /// Its partitions in order, none missing.
    pub partitions: Vec<PartitionMetadata>,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionMetadata {
    /// Its index in the topic.
    pub index: i32,
    /// The node that leads it; none during an election.
    pub leader: Option<i32>,
    /// How often leaders changed, where the broker tells it; a lower number is outdated.
    pub leader_epoch: Option<i32>,
    /// The nodes that have it.
    pub replicas: Vec<i32>,
    /// The nodes that have all of it.
    pub in_sync_replicas: Vec<i32>,
}

impl Metadata {
    /// A topic by its name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicMetadata>> {
        self.topics.get(name)
    }

    /// A partition of a topic.
    #[must_use]
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionMetadata> {
        let index = usize::try_from(partition).ok()?;
        self.topic(topic)?.partitions.get(index)
    }
}

/// Merges what brokers tell.
#[derive(Debug, Default)]
pub(super) struct MetadataCache {
    current: Metadata,
}

impl MetadataCache {
    /// Takes in an answer to a request for `asked`, or for all topics; the merged metadata.
    ///
    /// A partition whose leader epoch is lower than the known one keeps what is known: the broker
    /// that answered has not heard of the newer leader (KIP-320). A topic that was re-created has
    /// another id and starts over.
    pub(super) fn update(&mut self, response: &MetadataResponse) -> Arc<Metadata> {
        let text = |text: &str| -> Arc<str> { text.into() };
        if !response.brokers.is_empty() {
            let brokers = response.brokers.iter();
            self.current.brokers = brokers
                .filter_map(|broker| {
                    let port = u16::try_from(broker.port).ok()?;
                    let broker = Broker {
                        id: broker.node_id.0,
                        address: BrokerAddress::new(&broker.host, port),
                        rack: broker.rack.as_deref().map(text),
                    };
                    Some((broker.id, broker))
                })
                .collect();
        }
        self.current.cluster_id = response.cluster_id.as_deref().map(text);
        self.current.controller = node(response.controller_id.0);
        for topic in &response.topics {
            let Some(name) = topic.name.as_deref() else {
                continue;
            };
            let known = self.current.topics.get(name.as_str());
            let merged = Arc::new(merge(name, topic, known.map(|known| &**known)));
            self.current.topics.insert(Arc::clone(&merged.name), merged);
        }
        Arc::new(self.current.clone())
    }

    /// Takes in a leader that a broker named in an error (KIP-951); the merged metadata where that
    /// was news.
    pub(super) fn update_leader(
        &mut self,
        topic: &str,
        partition: i32,
        (leader, epoch): (i32, i32),
        endpoint: Option<Broker>,
    ) -> Option<Arc<Metadata>> {
        let index = usize::try_from(partition).ok()?;
        let known = self.current.topics.get_mut(topic)?;
        let known_epoch = known.partitions.get(index)?.leader_epoch;
        if leader < 0 || known_epoch.is_some_and(|known| known >= epoch) {
            return None;
        }
        if endpoint.is_none() && !self.current.brokers.contains_key(&leader) {
            return None;
        }
        let mut changed = TopicMetadata::clone(known);
        let changing = changed.partitions.get_mut(index)?;
        changing.leader = Some(leader);
        changing.leader_epoch = Some(epoch);
        *known = Arc::new(changed);
        self.add_broker(endpoint);
        Some(Arc::new(self.current.clone()))
    }

    /// Takes in a broker that another one named; the merged metadata.
    pub(super) fn add_broker(&mut self, broker: Option<Broker>) -> Arc<Metadata> {
        if let Some(broker) = broker {
            self.current.brokers.insert(broker.id, broker);
        }
        Arc::new(self.current.clone())
    }

    /// Forgets all brokers; the merged metadata.
    pub(super) fn forget_brokers(&mut self) -> Arc<Metadata> {
        self.current.brokers.clear();
        self.current.controller = None;
        Arc::new(self.current.clone())
    }

    /// Forgets all topics but these.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.current.topics.retain(|name, _| keep(name));
    }
}

fn merge(name: &str, told: &MetadataResponseTopic, known: Option<&TopicMetadata>) -> TopicMetadata {
    let id = Some(TopicId(told.topic_id)).filter(|id| *id != TopicId::default());
    // The same topic, as far as the broker tells ids.
    let known = known.filter(|known| known.id.is_none() || id.is_none() || known.id == id);
    let error = ErrorCode::from_code(told.error_code);
    let mut told_partitions: Vec<_> = told.partitions.iter().collect();
    told_partitions.sort_by_key(|partition| partition.partition_index);
    // A gap would put partitions under another's index: stop there, as if not yet created.
    let partitions: Vec<_> = (0..)
        .zip(told_partitions)
        .take_while(|(index, partition)| partition.partition_index == *index)
        .map(|(_, partition)| merge_partition(partition, known))
        .collect();
    // A broker that has just started may not know the topic yet.
    let unknown = error == Some(ErrorCode::LEADER_NOT_AVAILABLE) && partitions.is_empty();
    match known {
        Some(known) if unknown => known.clone(),
        _ => TopicMetadata {
            name: name.into(),
            id,
            error,
            is_internal: told.is_internal,
            partitions,
        },
    }
}

fn merge_partition(
    told: &MetadataResponsePartition,
    topic: Option<&TopicMetadata>,
) -> PartitionMetadata {
    let index = usize::try_from(told.partition_index).unwrap_or(usize::MAX);
    let known = topic.and_then(|topic| topic.partitions.get(index));
    let epoch = node(told.leader_epoch);
    if let Some(known) = known
        && known.leader_epoch > epoch
        && epoch.is_some()
    {
        return known.clone();
    }
    let nodes = |ids: &[millrace_wire::messages::BrokerId]| ids.iter().map(|id| id.0).collect();
    PartitionMetadata {
        index: told.partition_index,
        leader: node(told.leader_id.0),
        leader_epoch: epoch,
        replicas: nodes(&told.replica_nodes),
        in_sync_replicas: nodes(&told.isr_nodes),
    }
}

fn node(id: i32) -> Option<i32> {
    (id > NONE).then_some(id)
}

#[cfg(test)]
mod tests {
    use millrace_wire::{
        StrBytes,
        messages::{
            BrokerId, TopicName,
            metadata_response::{MetadataResponseBroker, MetadataResponseTopic},
        },
    };

    use super::*;

    fn response(id: u128, partitions: &[(i32, i32, i32)]) -> MetadataResponse {
        let broker = |node| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(node))
                .with_host(StrBytes::from_static_str("h"))
                .with_port(9_000 + node)
        };
        let partition = |&(index, leader, epoch): &(i32, i32, i32)| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(BrokerId(leader))
                .with_leader_epoch(epoch)
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(TopicName(StrBytes::from_static_str("t"))))
            .with_topic_id(TopicId(u128_id(id)).0)
            .with_partitions(partitions.iter().map(partition).collect());
        MetadataResponse::default()
            .with_controller_id(BrokerId(1))
            .with_brokers(vec![broker(1), broker(2)])
            .with_topics(vec![topic])
    }

    fn u128_id(id: u128) -> uuid::Uuid {
        uuid::Uuid::from_u128(id)
    }

    fn leaders(metadata: &Metadata) -> Vec<(Option<i32>, Option<i32>)> {
        let partitions = &metadata.topics["t"].partitions;
        let leader = |one: &PartitionMetadata| (one.leader, one.leader_epoch);
        partitions.iter().map(leader).collect()
    }

    #[test]
    fn an_older_leader_epoch_changes_nothing() {
        let mut cache = MetadataCache::default();
        cache.update(&response(1, &[(0, 1, 5), (1, 1, 5)]));
        let merged = cache.update(&response(1, &[(0, 2, 4), (1, 2, 6)]));
        assert_eq!(leaders(&merged), [(Some(1), Some(5)), (Some(2), Some(6))]);
        // Another id is another topic, which counts its epochs from the beginning.
        let merged = cache.update(&response(2, &[(0, 2, 0)]));
        assert_eq!(leaders(&merged), [(Some(2), Some(0))]);
        assert_eq!(merged.brokers[&2].address.to_string(), "h:9002");
        assert_eq!(merged.controller, Some(1));
    }

    #[test]
    fn partitions_are_sorted_and_a_gap_hides_what_follows() {
        let mut cache = MetadataCache::default();
        let merged = cache.update(&response(1, &[(3, 1, 0), (1, 2, 0), (0, -1, 0)]));
        assert_eq!(leaders(&merged), [(None, Some(0)), (Some(2), Some(0))]);
        assert_eq!(merged.partition("t", 1).and_then(|p| p.leader), Some(2));
        assert!(merged.partition("t", 3).is_none());
    }

    #[test]
    fn a_leader_that_an_error_names_is_taken_if_it_is_newer_and_reachable() {
        let mut cache = MetadataCache::default();
        cache.update(&response(1, &[(0, 1, 5)]));
        assert!(cache.update_leader("t", 0, (2, 5), None).is_none(), "old");
        assert!(
            cache.update_leader("t", 0, (3, 6), None).is_none(),
            "unknown"
        );
        assert!(cache.update_leader("t", 1, (2, 6), None).is_none());
        assert!(cache.update_leader("u", 0, (2, 6), None).is_none());
        let merged = cache.update_leader("t", 0, (2, 6), None).expect("news");
        assert_eq!(leaders(&merged), [(Some(2), Some(6))]);
        let endpoint = Broker {
            id: 3,
            address: BrokerAddress::new("x", 1),
            rack: None,
        };
        let merged = cache
            .update_leader("t", 0, (3, 7), Some(endpoint))
            .expect("news");
        assert_eq!(leaders(&merged), [(Some(3), Some(7))]);
        assert_eq!(merged.brokers[&3].address.to_string(), "x:1");
    }
}
