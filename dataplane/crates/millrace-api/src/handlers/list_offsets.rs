//! ListOffsets: the first and last offset, and offsets by timestamp. Consumers of committed records are
//! told of nothing at or above the last stable offset.

use std::{collections::HashMap, sync::Arc};

use futures_util::{StreamExt, stream};
use millrace_log::{Isolation, PartitionLog, TimestampOffset};
use millrace_model::Offset;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        ListOffsetsRequest, ListOffsetsResponse, TopicName as WireTopic,
        list_offsets_request::ListOffsetsPartition,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
    },
};
use uuid::Uuid;

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::Context,
    topics::{check_leader_epoch, find, isolation, partition, wire_offset},
};

/// Instead of a timestamp: the high watermark, or the last stable offset.
const LATEST: i64 = -1;
/// The log start offset.
const EARLIEST: i64 = -2;
/// The record with the largest timestamp (KIP-734), from version 7.
const MAX_TIMESTAMP: i64 = -3;
/// The first offset on the broker's own disk (KIP-405), from version 8. What has been uploaded may leave the broker's log
/// at any time, so that is the first that has not.
const EARLIEST_LOCAL: i64 = -4;
/// The last offset in remote storage (KIP-1005), from version 9: in objects.
const LATEST_TIERED: i64 = -5;
/// The first offset that is not in remote storage yet (KIP-1023), from version 11.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// Lookups of one request that run at one time; each may read an object.
const LOOKUPS_MAX: usize = 8;

/// The version from which the answer tells the leader's epoch (KIP-320).
const LEADER_EPOCH_SINCE: i16 = 4;

/// What is found: an offset, its timestamp (−1 where the question was not for one), and whether
/// there is anything at all.
type Found = Option<TimestampOffset>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ListOffsetsRequest = decode(&call.request)?;
    let (context, reply) = (Arc::clone(context), call.reply());
    let rights = context.rights(&call);
    Taken::later(async move { answer(&context, &rights, reply, request).await })
}

async fn answer(
    context: &Context,
    rights: &Rights,
    reply: Reply,
    request: ListOffsetsRequest,
) -> Answer {
    let mut asked: HashMap<(WireTopic, i32), usize> = HashMap::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let key = (topic.name.clone(), partition.partition_index);
            *asked.entry(key).or_default() += 1;
        }
    }
    let isolation = isolation(request.isolation_level);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let allowed = rights.topic(Operation::Describe, &topic.name);
        let mut lookups = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let key = (topic.name.clone(), partition.partition_index);
            let twice = asked.get(&key).is_some_and(|count| *count > 1);
            let fault = match (allowed, twice) {
                (Err(code), _) => Some(code),
                (Ok(()), true) => Some(ErrorCode::InvalidRequest),
                (Ok(()), false) => None,
            };
            lookups.push(one(
                (context, isolation),
                reply,
                &topic.name,
                partition,
                fault,
            ));
        }
        let partitions: Vec<_> = stream::iter(lookups).buffered(LOOKUPS_MAX).collect().await;
        topics.push(
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions),
        );
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    reply.with(&ListOffsetsResponse::default().with_topics(topics), error)
}

async fn one(
    (context, isolation): (&Context, Isolation),
    reply: Reply,
    topic: &WireTopic,
    asked: &ListOffsetsPartition,
    fault: Option<ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let found = match fault {
        Some(code) => Err(code),
        None => look_up((context, isolation), reply, topic, asked).await,
    };
    let response = ListOffsetsPartitionResponse::default()
        .with_partition_index(asked.partition_index)
        .with_error_code(code_of(&found))
        .with_timestamp(-1)
        .with_offset(-1)
        .with_leader_epoch(-1);
    match found {
        Ok((Some(found), epoch)) => response
            .with_timestamp(found.timestamp)
            .with_offset(wire_offset(found.offset))
            .with_leader_epoch(if reply.version >= LEADER_EPOCH_SINCE {
                epoch
            } else {
                -1
            }),
        Ok((None, _)) | Err(_) => response,
    }
}

async fn look_up(
    (context, isolation): (&Context, Isolation),
    reply: Reply,
    topic: &WireTopic,
    asked: &ListOffsetsPartition,
) -> Result<(Found, i32), ErrorCode> {
    let topic = find(&context.logs, false, topic, Uuid::nil())?;
    let log = partition(&topic, asked.partition_index)?;
    check_leader_epoch(log, asked.current_leader_epoch)?;
    let found = at((log, isolation), reply.version, asked.timestamp).await?;
    Ok((found, log.leader_epoch()))
}

/// The first offset that is in no object.
fn not_uploaded(log: &PartitionLog) -> Offset {
    log.committed_offset().max(log.start_offset())
}

async fn at(
    (log, isolation): (&PartitionLog, Isolation),
    version: i16,
    timestamp: i64,
) -> Result<Found, ErrorCode> {
    let end = match isolation {
        Isolation::ReadUncommitted => log.high_watermark(),
        Isolation::ReadCommitted => log.last_stable_offset(),
    };
    let offset = |offset| {
        Ok(Some(TimestampOffset {
            offset,
            timestamp: -1,
        }))
    };
    let lookup = match timestamp {
        LATEST => return offset(end),
        EARLIEST => return offset(log.start_offset()),
        EARLIEST_LOCAL if version >= 8 => return offset(not_uploaded(log)),
        LATEST_TIERED if version >= 9 => {
            let uploaded = log.start_offset()..not_uploaded(log);
            return uploaded.last().map_or(Ok(None), offset);
        }
        EARLIEST_PENDING_UPLOAD if version >= 11 => return offset(not_uploaded(log)),
        MAX_TIMESTAMP if version >= 7 => log.max_timestamp().await,
        ..0 => return Err(ErrorCode::UnsupportedVersion),
        _ => log.offset_for_timestamp(timestamp).await,
    };
    let found = lookup.map_err(|error| code::of_lookup(&error))?;
    // A record that became durable during the lookup may be told, one that may still be aborted not.
    let stable_only = isolation == Isolation::ReadCommitted;
    Ok(found.filter(|found| !stable_only || found.offset < end))
}
