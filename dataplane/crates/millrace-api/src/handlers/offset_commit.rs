//! OffsetCommit: answered when the offsets are durable.

use std::{collections::HashMap, sync::Arc};

use millrace_coordinator::{
    GroupError,
    messages::{Caller, CommittedOffset, PartitionOffsets},
};
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    StrBytes, decode,
    error_code::{ErrorCode, NONE},
    messages::{
        OffsetCommitRequest, OffsetCommitResponse, TopicName as WireTopic,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    },
};
use uuid::Uuid;

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::{Context, text},
    topics::{self, FIRST_OFFSETS_BY_ID, find_by_written_id},
};

/// The first version that members of consumer groups may use (KIP-848).
const FIRST_WITH_EPOCH: i16 = 9;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let mut request: OffsetCommitRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let ids = match reply.version {
        FIRST_OFFSETS_BY_ID.. => Some(TopicIds::take(context, &mut request.topics)),
        _ => None,
    };
    let answer = move |topics, code| answer(reply, topics, ids, code);
    if let Err(code) = rights.group(Operation::Read, &request.group_id) {
        let topics = request.topics.into_iter().map(refused_topic).collect();
        return Ok(Taken::Now(answer(topics, code.code())));
    }
    let mut offsets = PartitionOffsets::new();
    let retention_ms = request.retention_time_ms;
    let topics: Vec<_> = request
        .topics
        .iter()
        .map(|topic| {
            let allowed = rights.topic(Operation::Read, &topic.name);
            validate_topic((context, allowed), topic, retention_ms, &mut offsets)
        })
        .collect();
    if offsets.is_empty() && !request.topics.is_empty() {
        return Ok(Taken::Now(answer(topics, NONE)));
    }
    let caller = Caller {
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.map(|id| id.to_string()),
        generation: request.generation_id_or_member_epoch,
    };
    let committing = context.groups.commit(&request.group_id, &caller, offsets);
    let version = call.version();
    Taken::later(async move {
        let committed = committing.await;
        let committed = committed.map_err(|error| code_for(&error, version));
        answer(topics, code_of(&committed))
    })
}

/// Older versions do not know the codes of consumer groups.
fn code_for(error: &GroupError, version: i16) -> ErrorCode {
    match error {
        GroupError::GroupIdNotFound if version < FIRST_WITH_EPOCH => ErrorCode::IllegalGeneration,
        GroupError::StaleMemberEpoch if version < FIRST_WITH_EPOCH => ErrorCode::UnsupportedVersion,
        error => code::of_commit(error),
    }
}

/// The ids of a request's topics, which its answer repeats instead of their names.
#[derive(Debug)]
struct TopicIds {
    of_names: HashMap<WireTopic, Uuid>,
    /// What is answered for those of no topic.
    unknown: Vec<OffsetCommitResponseTopic>,
}

impl TopicIds {
    /// Names the topics of a request that has ids in the place of names, and takes out of it those that there are not.
    fn take(context: &Context, topics: &mut Vec<OffsetCommitRequestTopic>) -> Self {
        let mut ids = Self {
            of_names: HashMap::new(),
            unknown: Vec::new(),
        };
        topics.retain_mut(
            |asked| match find_by_written_id(&context.logs, &asked.name) {
                Ok(topic) => {
                    asked.name = WireTopic(text(topic.name.as_str()));
                    ids.of_names.insert(asked.name.clone(), topic.id.0);
                    true
                }
                Err(id) => {
                    let mut unknown = refused_topic(asked.clone()).with_topic_id(id);
                    unknown.name = WireTopic::default();
                    for partition in &mut unknown.partitions {
                        partition.error_code = ErrorCode::UnknownTopicId.code();
                    }
                    ids.unknown.push(unknown);
                    false
                }
            },
        );
        ids
    }

    fn put(self, topics: &mut Vec<OffsetCommitResponseTopic>) {
        for topic in topics.iter_mut() {
            let name = std::mem::take(&mut topic.name);
            topic.topic_id = self.of_names.get(&name).copied().unwrap_or_default();
        }
        topics.extend(self.unknown);
    }
}

/// A topic of whose partitions nothing is looked at; the result of the commit is theirs.
fn refused_topic(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic {
    let partition = |asked: OffsetCommitRequestPartition| {
        OffsetCommitResponsePartition::default().with_partition_index(asked.partition_index)
    };
    let partitions = topic.partitions.into_iter().map(partition).collect();
    OffsetCommitResponseTopic::default()
        .with_name(topic.name)
        .with_partitions(partitions)
}

/// Takes what may be committed out of one topic, and says of each partition what is wrong with it.
fn validate_topic(
    (context, allowed): (&Context, Result<(), ErrorCode>),
    topic: &OffsetCommitRequestTopic,
    retention_ms: i64,
    offsets: &mut PartitionOffsets,
) -> OffsetCommitResponseTopic {
    let name = TopicName::new(topic.name.as_str()).ok();
    let partition = |asked: &OffsetCommitRequestPartition| {
        let offset = AskedOffset {
            index: asked.partition_index,
            offset: asked.committed_offset,
            leader_epoch: asked.committed_leader_epoch,
            metadata: asked.committed_metadata.as_ref(),
        };
        let validated =
            allowed.and_then(|()| validate(context, name.as_ref(), offset, retention_ms));
        let error = code_of(&validated);
        offsets.extend(validated.ok());
        OffsetCommitResponsePartition::default()
            .with_partition_index(asked.partition_index)
            .with_error_code(error)
    };
    let partitions = topic.partitions.iter().map(partition).collect();
    OffsetCommitResponseTopic::default()
        .with_name(topic.name.clone())
        .with_partitions(partitions)
}

/// An offset to be committed, as the wire has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AskedOffset<'a> {
    pub(super) index: i32,
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) metadata: Option<&'a StrBytes>,
}

/// Checks an offset that is to be committed.
pub(super) fn validate(
    context: &Context,
    name: Option<&TopicName>,
    asked: AskedOffset<'_>,
    retention_ms: i64,
) -> Result<(TopicPartition, CommittedOffset), ErrorCode> {
    let partition = topics::existing(&context.logs, name, asked.index)?;
    let metadata = asked.metadata.map(ToString::to_string).unwrap_or_default();
    if metadata.len() > context.groups.config().offset_metadata_bytes_max {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let commit_ms = context.clock.wall_ms();
    let committed = CommittedOffset {
        offset: asked.offset,
        leader_epoch: asked.leader_epoch,
        metadata,
        commit_ms,
        expire_ms: (retention_ms >= 0).then(|| commit_ms.saturating_add(retention_ms)),
    };
    Ok((partition, committed))
}

/// Partitions that had nothing wrong with them get the result of the commit.
fn answer(
    reply: Reply,
    mut topics: Vec<OffsetCommitResponseTopic>,
    ids: Option<TopicIds>,
    committed: i16,
) -> Answer {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for partition in partitions.filter(|partition| partition.error_code == NONE) {
        partition.error_code = committed;
    }
    if let Some(ids) = ids {
        ids.put(&mut topics);
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    reply.with(&OffsetCommitResponse::default().with_topics(topics), error)
}
