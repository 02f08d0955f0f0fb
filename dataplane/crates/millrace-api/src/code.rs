//! The one place where failures become Kafka's error codes.

use millrace_coordinator::{GroupError, ShareError, ShareStateError, TransactionError};
use millrace_log::error::{
    AppendError, CreatePartitionsError, CreateTopicError, DeleteTopicError, LookupError, ReadError,
    SetTopicConfigsError, TrimError,
};
use millrace_model::{Classified, FailureClass};
use millrace_record::{BatchFault, InvalidBatch};
use millrace_wire::error_code::ErrorCode;

pub(crate) fn of_group(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::CoordinatorLoading => ErrorCode::CoordinatorLoadInProgress,
        GroupError::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        GroupError::NotCoordinator => ErrorCode::NotCoordinator,
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
        // The one code that tells a member at once, and for good, that there is no room for it.
        GroupError::MemoryFull => ErrorCode::GroupMaxSizeReached,
        GroupError::MetadataTooLarge | GroupError::InvalidRequest(_) => ErrorCode::InvalidRequest,
        GroupError::InvalidTransaction => ErrorCode::InvalidTxnState,
        GroupError::FencedMemberEpoch => ErrorCode::FencedMemberEpoch,
        GroupError::StaleMemberEpoch => ErrorCode::StaleMemberEpoch,
        GroupError::UnreleasedInstanceId => ErrorCode::UnreleasedInstanceId,
        GroupError::UnsupportedAssignor(_) => ErrorCode::UnsupportedAssignor,
        GroupError::InvalidRegularExpression(_) => ErrorCode::InvalidRegularExpression,
    }
}

pub(crate) fn of_share_state(error: ShareStateError) -> ErrorCode {
    match error {
        ShareStateError::NotAvailable => ErrorCode::CoordinatorNotAvailable,
        ShareStateError::Fenced => ErrorCode::FencedLeaderEpoch,
        ShareStateError::FencedStateEpoch => ErrorCode::FencedStateEpoch,
        ShareStateError::Unknown => ErrorCode::UnknownTopicOrPartition,
        ShareStateError::Invalid => ErrorCode::InvalidRequest,
    }
}

pub(crate) fn of_transaction(error: &TransactionError) -> ErrorCode {
    match error {
        TransactionError::CoordinatorLoading => ErrorCode::CoordinatorLoadInProgress,
        TransactionError::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        TransactionError::NotCoordinator => ErrorCode::NotCoordinator,
        TransactionError::InvalidRequest => ErrorCode::InvalidRequest,
        TransactionError::InvalidPattern => ErrorCode::InvalidRegularExpression,
        TransactionError::InvalidTimeout => ErrorCode::InvalidTransactionTimeout,
        TransactionError::IdNotFound => ErrorCode::TransactionalIdNotFound,
        TransactionError::InvalidProducerIdMapping => ErrorCode::InvalidProducerIdMapping,
        TransactionError::ProducerFenced => ErrorCode::ProducerFenced,
        TransactionError::InvalidState => ErrorCode::InvalidTxnState,
        TransactionError::Concurrent => ErrorCode::ConcurrentTransactions,
        TransactionError::Abortable => ErrorCode::TransactionAbortable,
        // Final for the producer; another attempt would find no room either.
        TransactionError::NoRoom => ErrorCode::PolicyViolation,
    }
}

pub(crate) fn of_share(error: ShareError) -> ErrorCode {
    match error {
        ShareError::CoordinatorLoading => ErrorCode::CoordinatorLoadInProgress,
        ShareError::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        ShareError::NotCoordinator => ErrorCode::NotCoordinator,
        ShareError::InvalidRequest | ShareError::Uninitialized => ErrorCode::InvalidRequest,
        // The record of the state would be larger than a record may be.
        ShareError::TooManyBatches => ErrorCode::MessageTooLarge,
        ShareError::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        ShareError::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        ShareError::FencedStateEpoch => ErrorCode::FencedStateEpoch,
        // Kafka has no word for it; another attempt would find no room either.
        ShareError::NoRoom => ErrorCode::PolicyViolation,
    }
}

/// The error for a client of this version. Before the first that knows `PRODUCER_FENCED`, clients are told
/// that the epoch is not valid (KIP-588).
pub(crate) fn fenced_as_known(code: ErrorCode, version: i16, first_with_fenced: i16) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if version < first_with_fenced => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

/// A commit's failure. Consumers stop at both codes that say there is no room; this one does not speak
/// of members.
pub(crate) fn of_commit(error: &GroupError) -> ErrorCode {
    match error {
        GroupError::MemoryFull => ErrorCode::PolicyViolation,
        other => of_group(other),
    }
}

pub(crate) fn of_batch(error: &InvalidBatch) -> ErrorCode {
    match error.fault() {
        BatchFault::Corrupt => ErrorCode::CorruptMessage,
        // Kafka checks the format by the version of Produce and finds the record invalid.
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
        AppendError::NotVerified { .. } | AppendError::TransactionOpen { .. } => {
            ErrorCode::InvalidTxnState
        }
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        // Final for the producer, which tells the text; another id would not be remembered either.
        AppendError::TooManyProducers { .. } => ErrorCode::PolicyViolation,
        // Nothing was written; every client tries again after this one.
        AppendError::Overloaded(_) => ErrorCode::RequestTimedOut,
        AppendError::Closed => ErrorCode::NotLeaderOrFollower,
        // Clients retry this one, until a transaction ends or retention deletes one.
        AppendError::TooManyTransactions { .. } => ErrorCode::KafkaStorageError,
        AppendError::Offline(_) | AppendError::Storage(_) => ErrorCode::KafkaStorageError,
    }
}

pub(crate) fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Closed => ErrorCode::NotLeaderOrFollower,
        ReadError::Offline(_) | ReadError::Storage(_) => ErrorCode::KafkaStorageError,
        ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
    }
}

pub(crate) fn of_lookup(error: &LookupError) -> ErrorCode {
    match error {
        LookupError::Read(error) => of_read(error),
    }
}

/// A change of topics that the metadata store did not take: clients ask for the controller again,
/// and try once more. Kafka answers the same while its controller cannot commit.
const NOT_STORED: ErrorCode = ErrorCode::NotController;

/// A failure of the metadata store, or of what is built on it. Clients retry only what may pass.
pub(crate) fn of_storage(error: &impl Classified) -> ErrorCode {
    match error.class() {
        // The broker that took over answers for it.
        FailureClass::Transient | FailureClass::Fenced => NOT_STORED,
        FailureClass::Corrupt | FailureClass::Gone | FailureClass::Rejected => {
            ErrorCode::UnknownServerError
        }
    }
}

pub(crate) fn of_create_topic(error: &CreateTopicError) -> ErrorCode {
    match error {
        CreateTopicError::Exists(_) => ErrorCode::TopicAlreadyExists,
        CreateTopicError::InvalidPartitions { .. } => ErrorCode::InvalidPartitions,
        CreateTopicError::TooManyPartitions(_) => ErrorCode::PolicyViolation,
        CreateTopicError::InvalidConfig(_) => ErrorCode::InvalidConfig,
        CreateTopicError::NotBackedUp(_) => ErrorCode::RequestTimedOut,
        CreateTopicError::Meta(error) => of_storage(error),
        CreateTopicError::Open(error) => of_storage(error),
    }
}

pub(crate) fn of_create_partitions(error: &CreatePartitionsError) -> ErrorCode {
    match error {
        CreatePartitionsError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        CreatePartitionsError::InvalidTotal { .. } => ErrorCode::InvalidPartitions,
        CreatePartitionsError::TooManyPartitions(_) => ErrorCode::PolicyViolation,
        CreatePartitionsError::NotBackedUp(_) => ErrorCode::RequestTimedOut,
        CreatePartitionsError::Meta(error) => of_storage(error),
        CreatePartitionsError::Open(error) => of_storage(error),
    }
}

/// The same for a topic that is created because somebody asked for its metadata: such clients
/// know no controller, they ask again until there is a leader.
pub(crate) fn of_auto_create(error: &CreateTopicError) -> ErrorCode {
    match of_create_topic(error) {
        NOT_STORED | ErrorCode::RequestTimedOut => ErrorCode::LeaderNotAvailable,
        code => code,
    }
}

pub(crate) fn of_set_topic_configs(error: &SetTopicConfigsError) -> ErrorCode {
    match error {
        SetTopicConfigsError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        SetTopicConfigsError::InvalidConfig(_) => ErrorCode::InvalidConfig,
        SetTopicConfigsError::Meta(error) => of_storage(error),
    }
}

pub(crate) fn of_trim(error: &TrimError) -> ErrorCode {
    match error {
        TrimError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        TrimError::Closed => ErrorCode::NotLeaderOrFollower,
        TrimError::Offline(_) | TrimError::Storage(_) => ErrorCode::KafkaStorageError,
        TrimError::TimedOut(_) => ErrorCode::RequestTimedOut,
    }
}

pub(crate) fn of_delete_topic(error: &DeleteTopicError) -> ErrorCode {
    match error {
        DeleteTopicError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
        DeleteTopicError::Meta(error) => of_storage(error),
    }
}

#[cfg(test)]
mod tests {
    use millrace_log::{
        InvalidCheckpoint,
        error::{CheckpointFault, OpenError},
    };
    use millrace_meta::{OpenStreamError, StoreFailure};
    use millrace_model::{Cause, TopicName, TopicPartition};
    use millrace_stream::OpenError as StreamError;

    use super::*;

    fn busy() -> StoreFailure {
        StoreFailure::Database("busy".into())
    }

    #[test]
    fn what_passes_by_itself_is_told_as_such() {
        let stream = StreamError::Meta(OpenStreamError::Store(busy()));
        let passing = [
            CreateTopicError::Meta(busy()),
            CreateTopicError::Open(OpenError::Meta(busy())),
            CreateTopicError::Open(OpenError::Streams(stream)),
        ];
        for error in passing {
            assert!(of_create_topic(&error).is_retriable(), "{error}");
            assert!(of_auto_create(&error).is_retriable(), "{error}");
            assert_ne!(of_auto_create(&error), ErrorCode::NotController, "{error}");
        }
        let busy_partitions = CreatePartitionsError::Meta(busy());
        assert!(of_create_partitions(&busy_partitions).is_retriable());
        let busy_deletion = DeleteTopicError::Meta(busy());
        assert!(of_delete_topic(&busy_deletion).is_retriable());
        let lasting = CreateTopicError::Open(OpenError::Checkpoint {
            partition: TopicPartition {
                topic: TopicName::new("t").expect("a legal name"),
                partition: 0,
            },
            source: CheckpointFault::Invalid(InvalidCheckpoint::Version(9)),
        });
        assert!(!of_create_topic(&lasting).is_retriable());
        let corrupt = CreateTopicError::Meta(StoreFailure::Corrupt("a page".into()));
        assert!(!of_create_topic(&corrupt).is_retriable());
    }

    #[test]
    fn corrupt_data_and_storage_that_is_down_have_codes_of_their_own() {
        let down = ReadError::Storage(Cause::new(busy()));
        assert_eq!(of_read(&down).code(), 56);
        let cause = Cause::of(FailureClass::Corrupt, "a flipped byte");
        let offline = ReadError::Offline(cause.clone());
        assert_eq!(of_read(&offline).code(), 56);
        let corrupt = ReadError::Corrupt { offset: 0, cause };
        assert_eq!(of_read(&corrupt).code(), 2);
    }
}
