//! A partition by its topic's name and its index.

use std::{fmt, sync::Arc};

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
}

impl TopicPartition {
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
