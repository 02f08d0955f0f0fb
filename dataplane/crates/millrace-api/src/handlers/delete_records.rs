//! DeleteRecords: advances the log start of partitions, durably before it answers.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use millrace_log::Topic;
use millrace_model::Offset;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DeleteRecordsRequest, DeleteRecordsResponse,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult},
    },
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::Context,
    topics::{find_allowed, is_internal, partition, wire_offset},
};

/// Instead of an offset: all records up to the high watermark.
const HIGH_WATERMARK: i64 = -1;
/// The low watermark of a partition whose records were not deleted.
const NO_LOW_WATERMARK: i64 = -1;

/// Partitions of one request that are worked on at one time; each is a transaction of the metadata.
const PARTITIONS_AT_ONCE: usize = 4;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DeleteRecordsRequest = decode(&call.request)?;
    let (context, reply) = (Arc::clone(context), call.reply());
    let rights = context.rights(&call);
    Taken::later(async move { answer((&context, &rights), reply, request).await })
}

async fn answer(
    (context, rights): (&Context, &Rights),
    reply: Reply,
    request: DeleteRecordsRequest,
) -> Answer {
    let patience = u64::try_from(request.timeout_ms).unwrap_or(0);
    let deadline = context.now() + Duration::from_millis(patience);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        topics.push(one_topic((context, rights), topic, deadline).await);
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    reply.with(&DeleteRecordsResponse::default().with_topics(topics), error)
}

async fn one_topic(
    (context, rights): (&Context, &Rights),
    asked: &DeleteRecordsTopic,
    deadline: Duration,
) -> DeleteRecordsTopicResult {
    let topic = find_topic((context, rights), asked);
    let mut deletions = Vec::with_capacity(asked.partitions.len());
    for partition in &asked.partitions {
        deletions.push(one(context, &topic, partition, deadline));
    }
    let partitions: Vec<_> = stream::iter(deletions)
        .buffered(PARTITIONS_AT_ONCE)
        .collect()
        .await;
    // Where no partition is named, nothing else tells that the topic is refused.
    let errors = partitions.iter().map(|partition| partition.error_code);
    let error = first_error([code_of(&topic)].into_iter().chain(errors));
    rights.audit(Operation::Delete, Changed::Records, &asked.name, error);
    DeleteRecordsTopicResult::default()
        .with_name(asked.name.clone())
        .with_partitions(partitions)
}

async fn one(
    context: &Context,
    topic: &Result<Arc<Topic>, ErrorCode>,
    asked: &DeleteRecordsPartition,
    deadline: Duration,
) -> DeleteRecordsPartitionResult {
    let left = deadline.saturating_sub(context.now());
    let deleted = match topic {
        Ok(topic) => timeout(left, delete(topic, asked))
            .await
            // It may go on; the next request finds what became of it.
            .unwrap_or(Err(ErrorCode::RequestTimedOut)),
        Err(code) => Err(*code),
    };
    DeleteRecordsPartitionResult::default()
        .with_partition_index(asked.partition_index)
        .with_error_code(code_of(&deleted))
        .with_low_watermark(deleted.map_or(NO_LOW_WATERMARK, wire_offset))
}

fn find_topic(
    (context, rights): (&Context, &Rights),
    asked: &DeleteRecordsTopic,
) -> Result<Arc<Topic>, ErrorCode> {
    let right = (rights, Operation::Delete);
    find_allowed(&context.logs, right, false, &asked.name, Uuid::nil())
}

/// Deletes what is below the offset and gives the log start that now holds.
async fn delete(topic: &Topic, asked: &DeleteRecordsPartition) -> Result<Offset, ErrorCode> {
    let log = partition(topic, asked.partition_index)?;
    if is_internal(topic.name.as_str()) {
        return Err(ErrorCode::InvalidTopicException);
    }
    // What is compacted keeps the last record of every key.
    if !topic.config.deletes() {
        return Err(ErrorCode::PolicyViolation);
    }
    let new_start = match asked.offset {
        HIGH_WATERMARK => log.high_watermark(),
        offset => u64::try_from(offset).map_err(|_| ErrorCode::OffsetOutOfRange)?,
    };
    log.trim(new_start).await.map_err(|error| {
        tracing::debug!(partition = %log.id(), %error, "records were not deleted");
        code::of_trim(&error)
    })
}
