//! OffsetCommit: answered when the offsets are durable.

use std::sync::Arc;

use millrace_coordinator::{
    GroupError,
    messages::{Caller, CommittedOffset, PartitionOffsets},
};
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        OffsetCommitRequest, OffsetCommitResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
    },
};

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::Context,
};

/// The first version that members of consumer groups may use (KIP-848).
const FIRST_WITH_EPOCH: i16 = 9;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: OffsetCommitRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    if let Err(code) = rights.group(Operation::Read, &request.group_id) {
        let topics = request.topics.into_iter().map(refused_topic).collect();
        return Ok(Taken::Now(answer(reply, topics, code.code())));
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
        return Ok(Taken::Now(answer(reply, topics, NONE)));
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
        answer(reply, topics, code_of(&committed))
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
        let validated =
            allowed.and_then(|()| validate(context, name.as_ref(), asked, retention_ms));
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

fn validate(
    context: &Context,
    name: Option<&TopicName>,
    asked: &OffsetCommitRequestPartition,
    retention_ms: i64,
) -> Result<(TopicPartition, CommittedOffset), ErrorCode> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let index = u32::try_from(asked.partition_index).map_err(|_| unknown)?;
    let partition = TopicPartition {
        topic: name.ok_or(unknown)?.clone(),
        partition: index,
    };
    // Another broker may lead it.
    if !context.logs.exists(&partition) {
        return Err(unknown);
    }
    let metadata = asked
        .committed_metadata
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    if metadata.len() > context.groups.config().offset_metadata_bytes_max {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let offset =
        u64::try_from(asked.committed_offset).map_err(|_| ErrorCode::InvalidCommitOffsetSize)?;
    let commit_ms = context.clock.wall_ms();
    let committed = CommittedOffset {
        offset,
        leader_epoch: asked.committed_leader_epoch,
        metadata,
        commit_ms,
        expire_ms: (retention_ms >= 0).then(|| commit_ms.saturating_add(retention_ms)),
    };
    Ok((partition, committed))
}

/// Partitions that had nothing wrong with them get the result of the commit.
fn answer(reply: Reply, mut topics: Vec<OffsetCommitResponseTopic>, committed: i16) -> Answer {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for partition in partitions.filter(|partition| partition.error_code == NONE) {
        partition.error_code = committed;
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    reply.with(&OffsetCommitResponse::default().with_topics(topics), error)
}
