//! The one place where failures become Kafka's error codes.

use millrace_coordinator::GroupError;
use millrace_log::{
    AppendError, CreatePartitionsError, CreateTopicError, DeleteTopicError, LookupError, ReadError,
};
use millrace_record::{BatchFault, InvalidBatch};
use millrace_wire::error_code::ErrorCode;

pub(crate) fn of_group(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::CoordinatorLoading => ErrorCode::CoordinatorLoadInProgress,
        GroupError::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        GroupError::InvalidGroupId => ErrorCode::InvalidGroupId,
        GroupError::GroupIdNotFound => ErrorCode::GroupIdNotFound,
        GroupError::NonEmptyGroup => ErrorCode::NonEmptyGroup,
        GroupError::UnknownMemberId => ErrorCode::UnknownMemberId,
        GroupError::IllegalGeneration => ErrorCode::IllegalGeneration,
        GroupError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        GroupError::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
        GroupError::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
        GroupError::FencedInstanceId => ErrorCode::FencedInstanceId,
        GroupError::MemberIdRequired(_) => ErrorCode::MemberIdRequired,
        GroupError::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
        // Kafka has no word for it; clients report this one as it is.
        GroupError::TooManyGroups => ErrorCode::PolicyViolation,
        GroupError::MetadataTooLarge => ErrorCode::InvalidRequest,
    }
}

pub(crate) fn of_batch(error: &InvalidBatch) -> ErrorCode {
    match error.fault() {
        BatchFault::Corrupt => ErrorCode::CorruptMessage,
        // Kafka judges the format by the version of Produce and finds the record invalid.
        BatchFault::InvalidRecord | BatchFault::UnsupportedFormat => ErrorCode::InvalidRecord,
        BatchFault::TooLarge => ErrorCode::MessageTooLarge,
        BatchFault::UnsupportedCompression => ErrorCode::UnsupportedCompressionType,
    }
}

pub(crate) fn of_append(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::BatchTooLarge { .. } => ErrorCode::MessageTooLarge,
        AppendError::Empty | AppendError::ControlBatch | AppendError::InvalidSequence { .. } => {
            ErrorCode::InvalidRecord
        }
        AppendError::Transactional => ErrorCode::InvalidTxnState,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        // Nothing was written; every client tries again after this one.
        AppendError::Overloaded(_) => ErrorCode::RequestTimedOut,
        AppendError::Closed => ErrorCode::NotLeaderOrFollower,
        AppendError::Storage(_) => ErrorCode::KafkaStorageError,
    }
}

pub(crate) fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Closed => ErrorCode::NotLeaderOrFollower,
        ReadError::Storage(_) => ErrorCode::KafkaStorageError,
        ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
    }
}

pub(crate) fn of_lookup(error: &LookupError) -> ErrorCode {
    match error {
        LookupError::Read(error) => of_read(error),
    }
}

pub(crate) fn of_create_topic(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::Exists(_) => ErrorCode::TopicAlreadyExists,
        CreateTopicError::InvalidPartitions { .. } => ErrorCode::InvalidPartitions,
        CreateTopicError::InvalidConfig(_) => ErrorCode::InvalidConfig,
        CreateTopicError::Meta(_) | CreateTopicError::Open(_) => ErrorCode::UnknownServerError,
    }
}

pub(crate) fn of_create_partitions(error: &CreatePartitionsError) -> ErrorCode {
    match error {
        CreatePartitionsError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        CreatePartitionsError::InvalidTotal { .. } => ErrorCode::InvalidPartitions,
        CreatePartitionsError::Meta(_) | CreatePartitionsError::Open(_) => {
            ErrorCode::UnknownServerError
        }
    }
}

pub(crate) fn of_delete_topic(error: &DeleteTopicError) -> ErrorCode {
    match error {
        DeleteTopicError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        DeleteTopicError::Meta(_) => ErrorCode::UnknownServerError,
    }
}
