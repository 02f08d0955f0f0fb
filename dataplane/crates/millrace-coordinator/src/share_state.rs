//! The state of share partitions (KIP-932): one partition of a topic, as one share group consumes it. Here is the seam
//! between those who use the state (the leader of the topic's partition, and the coordinator of the share group) and the
//! share coordinator, which keeps it in `__share_group_state`.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use millrace_model::{Offset, TopicId};
use uuid::Uuid;

use crate::log::BoxFuture;

/// A partition of a topic, as one share group consumes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharePartition {
    /// The share group.
    pub group_id: String,
    /// The topic.
    pub topic_id: TopicId,
    /// The partition's index.
    pub partition: i32,
}

impl SharePartition {
    /// The key by which the share coordinator is found, as in Kafka: `group:topicId:partition`, with the topic's id in
    /// Kafka's Base64 form.
    #[must_use]
    pub fn coordinator_key(&self) -> String {
        let topic_id = URL_SAFE_NO_PAD.encode(self.topic_id.0.as_bytes());
        format!("{}:{topic_id}:{}", self.group_id, self.partition)
    }

    /// The share partition of a key, unless it is malformed.
    #[must_use]
    pub fn of_coordinator_key(key: &str) -> Option<Self> {
        let (rest, partition) = key.rsplit_once(':')?;
        let (group_id, topic_id) = rest.rsplit_once(':')?;
        let topic_id = URL_SAFE_NO_PAD.decode(topic_id).ok()?;
        Some(Self {
            group_id: group_id.to_owned(),
            topic_id: TopicId(Uuid::from_slice(&topic_id).ok()?),
            partition: partition.parse().ok()?,
        })
    }
}

/// Records in a row that have the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareStateBatch {
    /// Offset of the first one.
    pub first_offset: Offset,
    /// Offset of the last one.
    pub last_offset: Offset,
    /// 0 available, 2 acknowledged, 4 archived, as Kafka stores them. Records that are acquired are stored as available.
    pub delivery_state: i8,
    /// How often they were delivered.
    pub delivery_count: i16,
}

/// The state of a share partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareState {
    /// Grows each time the share group's coordinator initializes the partition.
    pub state_epoch: i32,
    /// The leader epoch of the last writer.
    pub leader_epoch: i32,
    /// The share-partition start offset: everything below is done. `None` until the leader has found it by
    /// `share.auto.offset.reset`.
    pub start_offset: Option<Offset>,
    /// What is not available and never delivered, from `start_offset` on, in order.
    pub batches: Vec<ShareStateBatch>,
}

/// Why the share coordinator did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShareStateError {
    /// Retry after a while, at the coordinator of that time.
    #[error("the share coordinator is not available")]
    NotAvailable,
    /// The writer is an older leader of the partition, or the state was initialized again.
    #[error("the share partition has a newer leader")]
    Fenced,
    /// A state epoch that is older than the one that is kept.
    #[error("the share partition was initialized again")]
    FencedStateEpoch,
    /// There is no such share partition.
    #[error("the share partition is not known")]
    Unknown,
    /// It has more batches than may be kept, or is malformed.
    #[error("the state is not valid")]
    Invalid,
}

/// The share coordinator of every share partition, at this broker or another one.
pub trait ShareStates: fmt::Debug + Send + Sync + 'static {
    /// Creates the state of a share partition, or starts it again at another offset. Initializing with the state epoch that is
    /// kept already changes nothing.
    fn initialize(
        &self,
        partition: SharePartition,
        state_epoch: i32,
        start_offset: Option<Offset>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>>;

    /// Reads the state as the leader of the partition, whose epoch fences all older ones.
    fn read(
        &self,
        partition: SharePartition,
        leader_epoch: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>>;

    /// Adds to the state: of each record, the greater delivery count counts, then the greater state, as in Kafka; a start offset drops
    /// what is below it. Writes may overtake each other. Durable once it returns.
    fn write(
        &self,
        partition: SharePartition,
        change: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>>;

    /// Reads the state without its batches, and fences nobody. One that is not initialized has state epoch 0 and no start offset.
    fn read_summary(
        &self,
        partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>>;

    /// Deletes the state. Deleting what is not there succeeds.
    fn delete(&self, partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>>;
}

/// No share coordinator: nothing is ever available.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoShareStates;

fn not_available<T: Send + 'static>() -> BoxFuture<'static, Result<T, ShareStateError>> {
    Box::pin(std::future::ready(Err(ShareStateError::NotAvailable)))
}

impl ShareStates for NoShareStates {
    fn initialize(
        &self,
        _: SharePartition,
        _: i32,
        _: Option<Offset>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        not_available()
    }

    fn read(
        &self,
        _: SharePartition,
        _: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        not_available()
    }

    fn write(
        &self,
        _: SharePartition,
        _: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        not_available()
    }

    fn read_summary(
        &self,
        _: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        not_available()
    }

    fn delete(&self, _: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        not_available()
    }
}
