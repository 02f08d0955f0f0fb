//! Topics and the streams of their partitions.

use std::collections::BTreeMap;

use millrace_model::{StreamId, TopicId, TopicName};

use crate::StoreFailure;

/// A topic to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name; no other topic may have it.
    pub name: TopicName,
    /// Its id, drawn by the caller.
    pub id: TopicId,
    /// How many partitions it gets, from 1 to `TOPIC_PARTITIONS_MAX`.
    pub partitions: u32,
    /// Its settings that differ from the broker's.
    pub configs: BTreeMap<String, String>,
}

/// A topic as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its id, never reused.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// Its settings that differ from the broker's.
    pub configs: BTreeMap<String, String>,
    /// Its partitions, in the order of their index, without gaps.
    pub partitions: Vec<PartitionStreams>,
}

/// The streams of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionStreams {
    /// The partition's index.
    pub index: u32,
    /// Holds the records.
    pub data: StreamId,
    /// Holds what is known about the records: producer state, time index.
    pub meta: StreamId,
}

/// Why a topic was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateTopicError {
    /// The name is taken.
    #[error("topic {0} exists already")]
    Exists(TopicName),
    /// Not a number of partitions that a topic may have.
    #[error("a topic has 1 to {max} partitions, not {asked}")]
    Partitions {
        /// How many were asked for.
        asked: u32,
        /// How many are allowed.
        max: u32,
    },
    /// The store failed; nothing was created.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Why partitions were not added.
#[derive(Debug, thiserror::Error)]
pub enum CreatePartitionsError {
    /// There is no such topic.
    #[error("there is no topic {0}")]
    Unknown(TopicName),
    /// Partitions can only be added.
    #[error("the topic has {current} partitions already, {asked} were asked for")]
    NotMore {
        /// How many there are.
        current: u32,
        /// How many were asked for in all.
        asked: u32,
    },
    /// Not a number of partitions that a topic may have.
    #[error("a topic has at most {max} partitions, not {asked}")]
    TooMany {
        /// How many were asked for in all.
        asked: u32,
        /// How many are allowed.
        max: u32,
    },
    /// The store failed; nothing was added.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Why a topic was not changed or deleted.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// There is no such topic.
    #[error("there is no topic {0}")]
    Unknown(TopicName),
    /// The store failed; nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}
