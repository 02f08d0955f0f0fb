//! Topics by name and by id.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use millrace_model::{TopicId, TopicName};
use parking_lot::RwLock;

use super::Topic;

/// Which topics there are. Readers see a topic whole, as it was or as it is.
#[derive(Debug, Default)]
pub(super) struct Registry {
    topics: RwLock<Topics>,
}

#[derive(Debug, Default)]
struct Topics {
    by_name: BTreeMap<TopicName, Arc<Topic>>,
    by_id: HashMap<TopicId, Arc<Topic>>,
}

impl Registry {
    pub(super) fn insert(&self, topic: Topic) -> Arc<Topic> {
        let topic = Arc::new(topic);
        let mut topics = self.topics.write();
        topics.by_id.insert(topic.id, Arc::clone(&topic));
        topics
            .by_name
            .insert(topic.name.clone(), Arc::clone(&topic));
        topic
    }

    pub(super) fn remove(&self, name: &TopicName) -> Option<Arc<Topic>> {
        let mut topics = self.topics.write();
        let topic = topics.by_name.remove(name)?;
        topics.by_id.remove(&topic.id);
        Some(topic)
    }

    pub(super) fn by_name(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.topics.read().by_name.get(name).cloned()
    }

    pub(super) fn by_id(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.topics.read().by_id.get(&id).cloned()
    }

    /// How many partitions all topics have.
    pub(super) fn partitions(&self) -> u64 {
        let topics = self.topics.read();
        let partitions = topics
            .by_name
            .values()
            .map(|topic| topic.partitions.len() as u64);
        partitions.sum()
    }

    pub(super) fn all(&self) -> Vec<Arc<Topic>> {
        self.topics.read().by_name.values().cloned().collect()
    }
}
