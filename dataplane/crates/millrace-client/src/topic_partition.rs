//! A partition by its topic's name and its index.

use std::{collections::BTreeMap, fmt, sync::Arc};

use millrace_wire::{StrBytes, messages::TopicName};

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition's index.
    pub partition: i32,
}

impl TopicPartition {
    /// A partition of a topic.
    #[must_use]
    pub fn new(topic: &str, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }

    /// As [`Self::new`], sharing the topic's name.
    pub(crate) fn of(topic: Arc<str>, partition: i32) -> Self {
        Self { topic, partition }
    }
}

impl<T: Into<Arc<str>>> From<(T, i32)> for TopicPartition {
    fn from((topic, partition): (T, i32)) -> Self {
        Self::of(topic.into(), partition)
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// The parts of a request that has them by topic.
pub(crate) fn by_topic<'a, T>(
    parts: impl IntoIterator<Item = (&'a TopicPartition, T)>,
) -> BTreeMap<&'a str, Vec<T>> {
    let mut topics: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for (name, part) in parts {
        topics.entry(&name.topic).or_default().push(part);
    }
    topics
}

/// A topic's name, as messages have it.
pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
