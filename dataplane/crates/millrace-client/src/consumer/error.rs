//! What can go wrong for a consumer.

use crate::{
    error::{BrokerError, RequestError},
    topic_partition::TopicPartition,
};

/// Why a consumer has no record to give, or could not do what it was asked to.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A broker refuses a partition. Other partitions are not affected; the consumer tries again.
    #[error("{partition}: {error}")]
    Partition {
        /// The partition.
        partition: TopicPartition,
        /// What the broker says.
        error: BrokerError,
    },
    /// There is no offset to start from: nothing is committed, or the offset is no longer (or not
    /// yet) in the log, and `auto_offset_reset` is `None`. Seek.
    #[error("{partition}: offset {offset:?} cannot be read, and auto_offset_reset is None")]
    NoOffset {
        /// The partition.
        partition: TopicPartition,
        /// The offset that was asked for, if there was one.
        offset: Option<i64>,
    },
    /// Records that were already read have disappeared from the log: an unclean leader election.
    /// With `auto_offset_reset` other than `None` the consumer goes on by itself: at `diverges_at`
    /// where the broker knows it, otherwise where `auto_offset_reset` says.
    #[error("{partition}: the log was truncated to {diverges_at:?}, before offset {offset}")]
    Truncated {
        /// The partition.
        partition: TopicPartition,
        /// The next offset to read.
        offset: i64,
        /// Where the log begins to differ, as far as the broker knows.
        diverges_at: Option<i64>,
    },
    /// A batch is damaged, also after it was fetched again. Seek behind it to go on.
    #[error("{partition}: the batch at offset {offset} is damaged: {reason}")]
    Corrupt {
        /// The partition.
        partition: TopicPartition,
        /// The next offset to read.
        offset: i64,
        /// What is wrong.
        reason: String,
    },
    /// The partition is not assigned to this consumer (any more).
    #[error("{0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    /// The partition already has a stream.
    #[error("{0} already has a stream")]
    HasStream(TopicPartition),
    /// The call does not fit what was called before: `assign` after `subscribe`, groups without
    /// `group_id`.
    #[error("{0}")]
    Misuse(&'static str),
    /// The group does not take this member any more, and rejoining cannot help.
    #[error("the group refuses this member: {0}")]
    Group(#[source] BrokerError),
    /// The commit was not accepted because the partitions have been given to another member. What
    /// was processed since the last commit will be delivered again, to that member.
    #[error("the commit failed: the group has rebalanced ({0})")]
    Rebalanced(#[source] BrokerError),
    /// The consumer has been closed.
    #[error("the consumer is closed")]
    Closed,
}

impl From<BrokerError> for ConsumerError {
    fn from(error: BrokerError) -> Self {
        Self::Request(error.into())
    }
}
