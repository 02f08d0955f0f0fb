//! Finding and checking topics by name or id.

use std::sync::Arc;

pub(crate) use millrace_log::is_internal;
use millrace_log::{Isolation, LogManager, PartitionLog, Topic};
use millrace_model::{TopicId, TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    StrBytes,
    error_code::{ErrorCode, NONE},
    messages,
};
use uuid::Uuid;

use crate::{authorization::Rights, context::text};

/// The first version of Produce and Fetch that names topics by id alone.
pub(crate) const FIRST_WITH_TOPIC_IDS: i16 = 13;

/// The first version of OffsetCommit and OffsetFetch that names topics by id alone. The id's text is in the place of the
/// name.
pub(crate) const FIRST_OFFSETS_BY_ID: i16 = 10;

/// What stands in an answer whose request did not ask for operations.
pub(crate) const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// The topic of a request that names it, or, in newer versions, gives its id.
pub(crate) fn find(
    logs: &LogManager,
    by_id: bool,
    name: &messages::TopicName,
    id: Uuid,
) -> Result<Arc<Topic>, ErrorCode> {
    if by_id {
        return logs
            .topic_by_id(TopicId(id))
            .ok_or(ErrorCode::UnknownTopicId);
    }
    let name = TopicName::new(name.as_str()).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
    logs.topic(&name).ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The topic whose id stands in the place of its name.
///
/// # Errors
/// The id of no topic.
pub(crate) fn find_by_written_id(
    logs: &LogManager,
    written: &messages::TopicName,
) -> Result<Arc<Topic>, Uuid> {
    let id = Uuid::try_parse(written.as_str()).unwrap_or_default();
    logs.topic_by_id(TopicId(id)).ok_or(id)
}

/// The same for a client that needs the right to this operation on the topic. Without it, a name does not
/// tell whether the topic exists; an id does, as in Kafka: nobody can guess one.
pub(crate) fn find_allowed(
    logs: &LogManager,
    (rights, operation): (&Rights, Operation),
    by_id: bool,
    name: &messages::TopicName,
    id: Uuid,
) -> Result<Arc<Topic>, ErrorCode> {
    if !by_id {
        rights.topic(operation, name)?;
        return find(logs, by_id, name, id);
    }
    let topic = find(logs, by_id, name, id)?;
    rights.topic(operation, topic.name.as_str())?;
    Ok(topic)
}

/// The partition of this name and index. `None` where no partition can have them.
pub(crate) fn partition_id(name: &str, index: i32) -> Option<TopicPartition> {
    Some(TopicPartition {
        topic: TopicName::new(name).ok()?,
        partition: u32::try_from(index).ok()?,
    })
}

/// The partition of this topic and index, whichever broker leads it.
pub(crate) fn existing(
    logs: &LogManager,
    name: Option<&TopicName>,
    index: i32,
) -> Result<TopicPartition, ErrorCode> {
    let partition = name.zip(u32::try_from(index).ok());
    partition
        .map(|(topic, partition)| TopicPartition {
            topic: topic.clone(),
            partition,
        })
        .filter(|partition| logs.exists(partition))
        .ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The number of one of its partitions, whichever broker leads it.
pub(crate) fn partition_number(topic: &Topic, index: i32) -> Result<u32, ErrorCode> {
    let number = u32::try_from(index).ok();
    let exists =
        |number: &u32| usize::try_from(*number).is_ok_and(|at| at < topic.partitions.len());
    let number = number.filter(exists);
    number.ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// One of its partitions, unless another broker leads it, or it is offline.
pub(crate) fn partition(topic: &Topic, index: i32) -> Result<&Arc<PartitionLog>, ErrorCode> {
    let index = usize::try_from(index).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
    let partition = topic.partitions.get(index);
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let log = partition.log().ok_or(ErrorCode::NotLeaderOrFollower)?;
    match log.offline() {
        Some(_) => Err(ErrorCode::KafkaStorageError),
        None => Ok(log),
    }
}

/// Checks the leader epoch that a client knows (KIP-320); −1 for a client that does not.
pub(crate) fn check_leader_epoch(log: &PartitionLog, theirs: i32) -> Result<(), ErrorCode> {
    compare_leader_epochs(log.leader_epoch(), theirs)
}

/// The same where the partition's epoch is known by other means.
pub(crate) fn compare_leader_epochs(ours: i32, theirs: i32) -> Result<(), ErrorCode> {
    match theirs {
        ..0 => Ok(()),
        _ if theirs < ours => Err(ErrorCode::FencedLeaderEpoch),
        _ if theirs > ours => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}

/// The isolation level of a Fetch or a ListOffsets. Kafka knows 0 and 1; a level that it does not know gets no records that might
/// be aborted.
pub(crate) const fn isolation(level: i8) -> Isolation {
    match level {
        0 => Isolation::ReadUncommitted,
        _ => Isolation::ReadCommitted,
    }
}

/// An offset as the wire writes it.
pub(crate) fn wire_offset(offset: millrace_model::Offset) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// The longest text of an error, in bytes. Texts repeat what clients sent, and older versions of responses
/// have no room for more than 32,767 bytes.
const ERROR_TEXT_BYTES_MAX: usize = 4_096;

/// The error of one thing that a client asked for, and a text that says more where there is more
/// to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: ErrorCode,
    pub(crate) message: Option<String>,
    /// What is wrong with single records of a batch, by their position in it.
    pub(crate) records: Vec<(i32, String)>,
}

impl Refused {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: Some(message.into()),
            records: Vec::new(),
        }
    }

    /// The same where single records are the reason.
    pub(crate) fn with_records(mut self, records: Vec<(i32, String)>) -> Self {
        self.records = records;
        self
    }

    /// The code and text of an outcome, as the wire writes them: texts are cut at
    /// [`ERROR_TEXT_BYTES_MAX`].
    pub(crate) fn parts<T>(result: &Result<T, Self>) -> (i16, Option<StrBytes>) {
        let Err(Self { code, message, .. }) = result else {
            return (NONE, None);
        };
        let cut = |message: &String| {
            let end = message.floor_char_boundary(ERROR_TEXT_BYTES_MAX);
            text(&message[..end])
        };
        (code.code(), message.as_ref().map(cut))
    }

    /// As [`Self::parts`], with the code's own text where there is no other.
    pub(crate) fn worded_parts<T>(result: &Result<T, Self>) -> (i16, Option<StrBytes>) {
        let (code, message) = Self::parts(result);
        let of_code = || {
            result
                .as_ref()
                .err()
                .map(|refused| text(refused.code.to_string()))
        };
        (code, message.or_else(of_code))
    }
}

impl From<ErrorCode> for Refused {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
            records: Vec::new(),
        }
    }
}
