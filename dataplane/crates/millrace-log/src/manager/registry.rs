//! Topics by name and by id.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use millrace_meta as meta;
use millrace_model::{StreamId, TopicId, TopicName};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::Topic;

/// Which topics there are. Readers see a topic whole, as it was or as it is.
#[derive(Debug, Default)]
pub(super) struct Registry {
    topics: RwLock<Topics>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Topics {
    by_name: BTreeMap<TopicName, Arc<Topic>>,
    by_id: HashMap<TopicId, Arc<Topic>>,
    /// Topics with partitions that are in the metadata and not open yet. They count as partitions, so
    /// `partitions.max` bounds them.
    recorded: BTreeMap<TopicName, meta::Topic>,
}

impl Topics {
    fn open_partitions(&self, name: &TopicName) -> usize {
        let topic = self.by_name.get(name);
        topic.map_or(0, |topic| topic.partitions.len())
    }

    fn recorded_partitions(&self, name: &TopicName) -> usize {
        let topic = self.recorded.get(name);
        topic.map_or(0, |topic| topic.partitions.len())
    }
}

impl Registry {
    pub(super) fn insert(&self, topic: Topic) -> Arc<Topic> {
        let topic = Arc::new(topic);
        let mut topics = self.topics.write();
        let is_whole = |recorded: &meta::Topic| recorded.partitions.len() <= topic.partitions.len();
        if topics.recorded.get(&topic.name).is_some_and(is_whole) {
            topics.recorded.remove(&topic.name);
        }
        topics.by_id.insert(topic.id, Arc::clone(&topic));
        topics
            .by_name
            .insert(topic.name.clone(), Arc::clone(&topic));
        drop(topics);
        self.changes.send_modify(|count| *count += 1);
        topic
    }

    pub(super) fn remove(&self, name: &TopicName) -> Option<Arc<Topic>> {
        let mut topics = self.topics.write();
        topics.recorded.remove(name);
        let topic = topics.by_name.remove(name)?;
        topics.by_id.remove(&topic.id);
        drop(topics);
        self.changes.send_modify(|count| *count += 1);
        Some(topic)
    }

    /// Changes with every topic that is inserted or removed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The streams of the records of all compacted topics, whoever leads them.
    pub(super) fn compacted_streams(&self) -> BTreeSet<StreamId> {
        let topics = self.topics.read();
        let compacted = topics
            .by_name
            .values()
            .filter(|topic| topic.config.compacts() && !topic.is_internal());
        let partitions = compacted.flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.streams.data).collect()
    }

    pub(super) fn by_name(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.topics.read().by_name.get(name).cloned()
    }

    pub(super) fn by_id(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.topics.read().by_id.get(&id).cloned()
    }

    /// The metadata has a topic with partitions that are not open yet.
    pub(super) fn record(&self, topic: meta::Topic) {
        let mut topics = self.topics.write();
        topics.recorded.insert(topic.name.clone(), topic);
    }

    /// Whether partitions of the topic are still to be opened.
    pub(super) fn is_recorded(&self, id: TopicId) -> bool {
        let topics = self.topics.read();
        topics.recorded.values().any(|topic| topic.id == id)
    }

    /// The topics with partitions that are still to be opened.
    pub(super) fn recorded(&self) -> Vec<meta::Topic> {
        self.topics.read().recorded.values().cloned().collect()
    }

    /// How many partitions one topic has, with those that are still to be opened; 0 where there is no such
    /// topic.
    pub(super) fn partitions_of(&self, name: &TopicName) -> usize {
        let topics = self.topics.read();
        let open = topics.open_partitions(name);
        open.max(topics.recorded_partitions(name))
    }

    /// The first topic that `matches`, whether it is served yet or not.
    pub(super) fn find_name(&self, matches: impl Fn(&TopicName) -> bool) -> Option<TopicName> {
        let topics = self.topics.read();
        let mut names = topics.by_name.keys().chain(topics.recorded.keys());
        names.find(|name| matches(name)).cloned()
    }

    /// How many partitions all topics have, with those that are still to be opened.
    pub(super) fn partitions(&self) -> u64 {
        let topics = self.topics.read();
        let open = topics.by_name.values().map(|topic| topic.partitions.len());
        let recorded = topics.recorded.values().map(|recorded| {
            let open = topics.open_partitions(&recorded.name);
            recorded.partitions.len().saturating_sub(open)
        });
        open.chain(recorded)
            .map(|partitions| partitions as u64)
            .sum()
    }

    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.topics.read().by_name.values().cloned().collect()
    }
}
