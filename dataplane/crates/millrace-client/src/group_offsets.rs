//! What groups have committed: the type, and the messages in all their versions.

use millrace_wire::{
    StrBytes,
    messages::{
        GroupId, OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{
            OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
        },
    },
};

use crate::{
    error::{BrokerError, ErrorCode},
    topic_partition::{TopicPartition, by_topic, topic_name},
};

/// The newest OffsetFetch and OffsetCommit that name topics by name.
pub(crate) const NEWEST: i16 = 9;
/// The first version of OffsetFetch that asks for several groups.
const GROUPS_FROM: i16 = 8;
/// The first version of OffsetFetch that can wait for open transactions.
const STABLE_FROM: i16 = 7;
/// The first version of OffsetCommit with leader epochs.
const COMMIT_EPOCH_FROM: i16 = 6;
/// The first version of OffsetCommit with static members.
const COMMIT_INSTANCE_FROM: i16 = 7;
/// An epoch that is not known.
const NO_EPOCH: i32 = -1;

/// What a group has committed for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommittedOffset {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The epoch of the leader that appended the record before it.
    pub leader_epoch: Option<i32>,
    /// Text that the member added.
    pub metadata: String,
}

impl CommittedOffset {
    /// An offset alone.
    #[must_use]
    pub fn new(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: None,
            metadata: String::new(),
        }
    }
}

/// Who commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    /// Generation, or epoch with the consumer protocol.
    pub(crate) generation: i32,
    pub(crate) id: &'a str,
    pub(crate) instance: Option<&'a str>,
}

impl Member<'static> {
    /// A client that is not a member of the group.
    pub(crate) const NONE: Self = Self {
        generation: -1,
        id: "",
        instance: None,
    };
}

pub(crate) fn commit_request<'a>(
    version: i16,
    group: &GroupId,
    member: &Member<'_>,
    offsets: impl IntoIterator<Item = (&'a TopicPartition, &'a CommittedOffset)>,
) -> OffsetCommitRequest {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let partition = |(index, offset): (i32, &CommittedOffset)| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset.offset)
            .with_committed_metadata(Some(text(&offset.metadata)));
        if version >= COMMIT_EPOCH_FROM {
            partition.with_committed_leader_epoch(offset.leader_epoch.unwrap_or(NO_EPOCH))
        } else {
            partition
        }
    };
    let offsets = offsets.into_iter();
    let topics = by_topic(offsets.map(|(name, offset)| (name, (name.partition, offset))));
    let topic = |(name, parts): (&str, Vec<(i32, &CommittedOffset)>)| {
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(name))
            .with_partitions(parts.into_iter().map(partition).collect())
    };
    let request = OffsetCommitRequest::default()
        .with_group_id(group.clone())
        .with_generation_id_or_member_epoch(member.generation)
        .with_member_id(text(member.id))
        .with_topics(topics.into_iter().map(topic).collect());
    if version >= COMMIT_INSTANCE_FROM {
        request.with_group_instance_id(member.instance.map(text))
    } else {
        request
    }
}

/// Asks for what is committed for these partitions, or for all.
pub(crate) fn fetch_request(
    version: i16,
    group: &GroupId,
    names: Option<&[TopicPartition]>,
    require_stable: bool,
) -> OffsetFetchRequest {
    let topics = names.map(|names| by_topic(names.iter().map(|name| (name, name.partition))));
    let request = OffsetFetchRequest::default();
    let request = if version >= STABLE_FROM {
        request.with_require_stable(require_stable)
    } else {
        request
    };
    if version >= GROUPS_FROM {
        let topic = |(name, indexes): (&str, Vec<i32>)| {
            OffsetFetchRequestTopics::default()
                .with_name(topic_name(name))
                .with_partition_indexes(indexes)
        };
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(group.clone())
            .with_topics(topics.map(|topics| topics.into_iter().map(topic).collect()));
        return request.with_groups(vec![group]);
    }
    let topic = |(name, indexes): (&str, Vec<i32>)| {
        OffsetFetchRequestTopic::default()
            .with_name(topic_name(name))
            .with_partition_indexes(indexes)
    };
    request
        .with_group_id(group.clone())
        .with_topics(topics.map(|topics| topics.into_iter().map(topic).collect()))
}

/// What is committed for a partition, if something is.
pub(crate) type Committed = Result<Option<CommittedOffset>, ErrorCode>;

/// What an answer tells of each partition.
///
/// # Errors
/// The answer is an error as a whole.
pub(crate) fn fetched(
    answer: &OffsetFetchResponse,
) -> Result<Vec<(TopicPartition, Committed)>, BrokerError> {
    let mut found = Vec::new();
    let mut add = |topic: &str, index, code, offset, epoch, metadata: Option<&str>| {
        let committed = match ErrorCode::from_code(code) {
            Some(code) => Err(code),
            None => Ok((offset >= 0).then(|| CommittedOffset {
                offset,
                leader_epoch: Some(epoch).filter(|epoch| *epoch >= 0),
                metadata: metadata.unwrap_or_default().to_owned(),
            })),
        };
        found.push((TopicPartition::new(topic, index), committed));
    };
    // The two shapes of the answer have types of their own with the same fields.
    macro_rules! add_all {
        ($topics:expr) => {
            for topic in $topics {
                for one in &topic.partitions {
                    let (offset, epoch) = (one.committed_offset, one.committed_leader_epoch);
                    let metadata = one.metadata.as_deref();
                    let (index, code) = (one.partition_index, one.error_code);
                    add(&topic.name, index, code, offset, epoch, metadata);
                }
            }
        };
    }
    BrokerError::check(answer.error_code, None)?;
    add_all!(&answer.topics);
    for group in &answer.groups {
        BrokerError::check(group.error_code, None)?;
        add_all!(&group.topics);
    }
    Ok(found)
}
