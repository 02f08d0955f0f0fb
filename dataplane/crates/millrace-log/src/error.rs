//! What can go wrong, one enum per operation. The wire's codes are the API layer's business; each
//! variant says what its caller should do.

use std::time::Duration;

use millrace_meta::StoreFailure;
use millrace_model::{Cause, Classified, FailureClass, Offset, TopicName, TopicPartition};
use millrace_stream::Bottleneck;

use crate::{checkpoint::InvalidCheckpoint, config::InvalidTopicConfig};

/// Why batches were not appended. Nothing of the request was written, except where
/// [`AppendError::Storage`] says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The request carries no batch. Fix the request.
    #[error("the request carries no record batch")]
    Empty,
    /// A batch is larger than the topic's `max.message.bytes`. Send smaller batches.
    #[error("a batch of {bytes} bytes is larger than max.message.bytes = {limit}")]
    BatchTooLarge {
        /// The batch's size with its header.
        bytes: usize,
        /// The topic's bound.
        limit: usize,
    },
    /// A control batch among data: markers are written by themselves, and only for coordinators. Fix the client.
    #[error("control batches are only written as transaction markers")]
    ControlBatch,
    /// The batch would open a transaction, and its coordinator has not verified that it is ongoing, or it has ended since. Verify
    /// again.
    #[error(
        "producer {producer_id} has no ongoing transaction that was verified for this partition"
    )]
    NotVerified {
        /// The batch's producer.
        producer_id: i64,
    },
    /// The batch does not belong to a transaction, but its producer has one open. Fix the client.
    #[error("producer {producer_id} has an open transaction, but the batch is not transactional")]
    TransactionOpen {
        /// The batch's producer.
        producer_id: i64,
    },
    /// A coordinator of a newer epoch has written a marker for this producer. The one that asks has been replaced.
    #[error(
        "the last marker for producer {producer_id} has coordinator epoch {current}, this one has {marker}"
    )]
    CoordinatorFenced {
        /// The marker's producer.
        producer_id: i64,
        /// The epoch of the coordinator that wrote last.
        current: i32,
        /// The marker's epoch.
        marker: i32,
    },
    /// The batch would open a transaction, and the partition has as many in memory as it may. Retry later: transactions end, and
    /// those that were aborted are written to objects.
    #[error("the partition has reached its limit of {max} {}", bound.replace('_', " "))]
    TooManyTransactions {
        /// Which are counted.
        bound: &'static str,
        /// The bound.
        max: usize,
    },
    /// A batch carries a producer id but no sequence, or an impossible one. Fix the client.
    #[error("producer {producer_id} sent an invalid epoch or sequence")]
    InvalidSequence {
        /// The batch's producer.
        producer_id: i64,
    },
    /// A newer epoch of this producer has written. The producer is a zombie and must stop.
    #[error("producer {producer_id} has epoch {current}, the batch has {batch}")]
    InvalidProducerEpoch {
        /// The batch's producer.
        producer_id: i64,
        /// The epoch that wrote last.
        current: i16,
        /// The batch's epoch.
        batch: i16,
    },
    /// A sequence is missing before this batch. The client must not go on with this batch.
    #[error(
        "producer {producer_id} epoch {epoch}: expected sequence {expected}, the batch starts at {got}"
    )]
    OutOfOrderSequence {
        /// The batch's producer.
        producer_id: i64,
        /// The batch's epoch.
        epoch: i16,
        /// The sequence that would have been accepted.
        expected: i32,
        /// The batch's first sequence.
        got: i32,
    },
    /// The broker remembers as many producers as it may, and this one is new. Let others expire, or
    /// raise the bound.
    #[error(
        "the broker remembers the sequences of {max} idempotent producers, which is all that \
         producer.ids.max allows; use fewer producers, lower producer.id.expiration.ms, or raise it"
    )]
    TooManyProducers {
        /// The bound.
        max: u64,
    },
    /// The write-ahead log or the cache has been full for the whole bounded wait. Retry later.
    #[error("storage is behind, retry later: the {0} is full")]
    Overloaded(Bottleneck),
    /// The partition is being deleted or the broker is stopping. Refresh metadata and retry.
    #[error("the partition is closed")]
    Closed,
    /// The partition did not open. Where the cause may pass, it opens by itself; otherwise repair the
    /// cause, then restart the broker.
    #[error("the partition is offline: {0}")]
    Offline(Cause),
    /// The device failed. Whether the batch survives is not known; the broker stops.
    #[error("storage failed: {0}")]
    Storage(Cause),
}

impl Classified for AppendError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Overloaded(_) | Self::TooManyTransactions { .. } => FailureClass::Transient,
            Self::Closed => FailureClass::Gone,
            Self::InvalidProducerEpoch { .. } | Self::CoordinatorFenced { .. } => {
                FailureClass::Fenced
            }
            Self::Offline(cause) | Self::Storage(cause) => cause.class(),
            Self::Empty
            | Self::BatchTooLarge { .. }
            | Self::ControlBatch
            | Self::NotVerified { .. }
            | Self::TransactionOpen { .. }
            | Self::InvalidSequence { .. }
            | Self::OutOfOrderSequence { .. }
            | Self::TooManyProducers { .. } => FailureClass::Rejected,
        }
    }
}

/// Why a read gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The offset is below the log start or above the log end. Reset the position.
    #[error("offset {offset} is outside {log_start}..={log_end}")]
    OutOfRange {
        /// What was asked for.
        offset: Offset,
        /// The first offset that can be read.
        log_start: Offset,
        /// The next offset to be written.
        log_end: Offset,
    },
    /// The partition is being deleted or the broker is stopping. Refresh metadata and retry.
    #[error("the partition is closed")]
    Closed,
    /// The partition did not open. Where the cause may pass, it opens by itself; otherwise repair the
    /// cause, then restart the broker.
    #[error("the partition is offline: {0}")]
    Offline(Cause),
    /// Storage did not give the batches: it is down, or does not have them. The class of the cause
    /// says whether to retry.
    #[error("storage could not be read: {0}")]
    Storage(Cause),
    /// Stored bytes are not what was written. A retry will not help.
    #[error("the batches from offset {offset} on are corrupt: {cause}")]
    Corrupt {
        /// Where the read began.
        offset: Offset,
        /// What is wrong.
        cause: Cause,
    },
}

impl Classified for ReadError {
    fn class(&self) -> FailureClass {
        match self {
            Self::OutOfRange { .. } | Self::Closed => FailureClass::Gone,
            Self::Offline(cause) | Self::Storage(cause) => cause.class(),
            Self::Corrupt { .. } => FailureClass::Corrupt,
        }
    }
}

/// Why a broker that does not lead a partition read nothing of it. Its leader may have what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadCommittedError {
    /// The offset is not in objects: not yet, or not any more. Ask the leader.
    #[error("offset {offset} is not among the committed {start}..{end}")]
    NotCommitted {
        /// What was asked for.
        offset: Offset,
        /// The first offset that can be read.
        start: Offset,
        /// One past the last offset that is committed.
        end: Offset,
    },
    /// The partition is gone. Refresh metadata.
    #[error("the partition has been deleted")]
    Deleted,
    /// The metadata or the objects could not be read. The class of the cause says whether to retry.
    #[error("storage could not be read: {0}")]
    Storage(Cause),
}

impl Classified for ReadCommittedError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotCommitted { .. } | Self::Deleted => FailureClass::Gone,
            Self::Storage(cause) => cause.class(),
        }
    }
}

/// Why records were not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrimError {
    /// The offset is above the high watermark. Fix the request.
    #[error("offset {offset} is above the high watermark {high_watermark}")]
    OutOfRange {
        /// What was asked for.
        offset: Offset,
        /// The highest offset that may be asked for.
        high_watermark: Offset,
    },
    /// The partition is being deleted or the broker is stopping.
    #[error("the partition is closed")]
    Closed,
    /// The partition did not open. Where the cause may pass, it opens by itself; otherwise repair the
    /// cause, then restart the broker.
    #[error("the partition is offline: {0}")]
    Offline(Cause),
    /// The new start could not be made durable. The class of the cause says whether to retry.
    #[error("the new log start could not be stored: {0}")]
    Storage(Cause),
    /// The metadata store has not answered in time. What has started continues.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

impl Classified for TrimError {
    fn class(&self) -> FailureClass {
        match self {
            Self::OutOfRange { .. } => FailureClass::Rejected,
            Self::Closed => FailureClass::Gone,
            Self::Offline(cause) | Self::Storage(cause) => cause.class(),
            Self::TimedOut(_) => FailureClass::Transient,
        }
    }
}

/// Why the newest checkpoint of a partition cannot be used. The checkpoint is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointFault {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] millrace_stream::FetchError),
    /// Its bytes are not a checkpoint that this version understands.
    #[error(transparent)]
    Invalid(#[from] InvalidCheckpoint),
}

impl Classified for CheckpointFault {
    fn class(&self) -> FailureClass {
        match self {
            Self::Read(error) => error.class(),
            Self::Invalid(_) => FailureClass::Corrupt,
        }
    }
}

/// Why a timestamp was not looked up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The data could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why the logs of a broker, or one of them, did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The metadata store did not list the topics.
    #[error("the metadata store did not list the topics")]
    Meta(#[from] StoreFailure),
    /// The streams of partitions did not open.
    #[error("the streams did not open")]
    Streams(#[from] millrace_stream::OpenError),
    /// The newest checkpoint cannot be used. It is left as it is.
    #[error("{partition}: checkpoint: {source}")]
    Checkpoint {
        /// The partition that did not open.
        partition: TopicPartition,
        /// Why.
        source: CheckpointFault,
    },
    /// The data after the checkpoint could not be replayed.
    #[error("{partition}: replay: {source}")]
    Replay {
        /// The partition that did not open.
        partition: TopicPartition,
        /// Why.
        source: ReadError,
    },
}

impl Classified for OpenError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Meta(error) => error.class(),
            Self::Streams(error) => error.class(),
            Self::Checkpoint { source, .. } => source.class(),
            Self::Replay { source, .. } => source.class(),
        }
    }
}

/// Why a topic was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateTopicError {
    /// The name is taken.
    #[error("topic {0} already exists")]
    Exists(TopicName),
    /// Fewer than one partition, or more than the limit.
    #[error("a topic has 1 to {max} partitions, not {requested}")]
    InvalidPartitions {
        /// What was asked for.
        requested: u32,
        /// The bound.
        max: u32,
    },
    /// The broker would have too many partitions.
    #[error(transparent)]
    TooManyPartitions(#[from] TooManyPartitions),
    /// A configuration is unknown or its value is illegal.
    #[error(transparent)]
    InvalidConfig(#[from] InvalidTopicConfig),
    /// The metadata store did not store it. The class says whether to retry.
    #[error("the metadata store failed")]
    Meta(#[source] StoreFailure),
    /// It is stored, but the bucket does not have the backup of the metadata yet. It is served once
    /// the bucket answers.
    #[error("topic {0} is created, and will be served once the bucket has its metadata")]
    NotBackedUp(TopicName),
    /// It is stored, but its partitions did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// More partitions than all topics together may have. Delete topics, or raise the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the broker has {have} partitions, {asked} more were asked for, and partitions.max is {max}; \
     delete topics, ask for fewer partitions, or raise it"
)]
pub struct TooManyPartitions {
    /// How many there are.
    pub have: u64,
    /// How many more were asked for.
    pub asked: u64,
    /// The bound.
    pub max: u64,
}

/// Why partitions were not added.
#[derive(Debug, thiserror::Error)]
pub enum CreatePartitionsError {
    /// No such topic.
    #[error("topic {0} does not exist")]
    UnknownTopic(TopicName),
    /// The new total is not above the present one, or above the limit.
    #[error(
        "the topic has {current} partitions; the total must be above it and at most {max}, not {requested}"
    )]
    InvalidTotal {
        /// How many there are.
        current: u32,
        /// What was asked for.
        requested: u32,
        /// The bound.
        max: u32,
    },
    /// The broker would have too many partitions.
    #[error(transparent)]
    TooManyPartitions(#[from] TooManyPartitions),
    /// The metadata store did not store it. The class says whether to retry.
    #[error("the metadata store failed")]
    Meta(#[source] StoreFailure),
    /// They are stored, but the bucket does not have the backup of the metadata yet. They are served
    /// once the bucket answers.
    #[error(
        "topic {0} has grown, and the new partitions will be served once the bucket has its metadata"
    )]
    NotBackedUp(TopicName),
    /// They are stored, but did not open.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a topic was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteTopicError {
    /// No such topic.
    #[error("topic {0} does not exist")]
    UnknownTopic(TopicName),
    /// The metadata store did not store it. The class says whether to retry.
    #[error("the metadata store failed")]
    Meta(#[source] StoreFailure),
}

/// Why a topic's configurations were not changed.
#[derive(Debug, thiserror::Error)]
pub enum SetTopicConfigsError {
    /// No such topic.
    #[error("topic {0} does not exist")]
    UnknownTopic(TopicName),
    /// A configuration is unknown or its value is illegal.
    #[error(transparent)]
    InvalidConfig(#[from] InvalidTopicConfig),
    /// The metadata store did not store it. The class says whether to retry.
    #[error("the metadata store failed")]
    Meta(#[source] StoreFailure),
}

impl Classified for CreateTopicError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Exists(_)
            | Self::InvalidPartitions { .. }
            | Self::TooManyPartitions(_)
            | Self::InvalidConfig(_) => FailureClass::Rejected,
            Self::NotBackedUp(_) => FailureClass::Transient,
            Self::Meta(error) => error.class(),
            Self::Open(error) => error.class(),
        }
    }
}
