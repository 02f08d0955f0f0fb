//! OffsetForLeaderEpoch: where a leader epoch ends (KIP-320). Consumers ask after every restart of the
//! broker, before they continue: a log that ends before their position would have lost records.

use std::sync::Arc;

use millrace_log::EpochEnd;
use millrace_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, TopicName as WireTopic,
        offset_for_leader_epoch_request::OffsetForLeaderPartition,
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
    },
};
use uuid::Uuid;

use crate::{
    call::{Call, Outcome, code_of, first_error},
    context::Context,
    topics::{check_leader_epoch, find, partition, wire_offset},
};

/// Epoch and offset of what is not known.
const UNDEFINED: i32 = -1;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: OffsetForLeaderEpochRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    // Replicas ask for every topic; clients need to describe those that they ask for.
    let is_replica = rights.allows_quietly(
        Operation::ClusterAction,
        ResourceType::Cluster,
        CLUSTER_NAME,
    );
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let allowed = match is_replica {
            true => Ok(()),
            false => rights.topic(Operation::Describe, &topic.topic),
        };
        let one = |asked| one(context, &topic.topic, allowed, asked);
        let partitions = topic.partitions.iter().map(one).collect();
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(topic.topic)
                .with_partitions(partitions),
        );
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    call.reply().now(
        &OffsetForLeaderEpochResponse::default().with_topics(topics),
        error,
    )
}

fn one(
    context: &Context,
    topic: &WireTopic,
    allowed: Result<(), ErrorCode>,
    asked: &OffsetForLeaderPartition,
) -> EpochEndOffset {
    let found = allowed.and_then(|()| look_up(context, topic, asked));
    let answer = EpochEndOffset::default()
        .with_partition(asked.partition)
        .with_error_code(code_of(&found));
    match found {
        Ok(Some(end)) => answer
            .with_leader_epoch(end.leader_epoch)
            .with_end_offset(wire_offset(end.end_offset)),
        Ok(None) | Err(_) => answer
            .with_leader_epoch(UNDEFINED)
            .with_end_offset(i64::from(UNDEFINED)),
    }
}

fn look_up(
    context: &Context,
    topic: &WireTopic,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<EpochEnd>, ErrorCode> {
    let topic = find(&context.logs, false, topic, Uuid::nil())?;
    let log = partition(&topic, asked.partition)?;
    check_leader_epoch(log, asked.current_leader_epoch)?;
    Ok(log.epoch_end(asked.leader_epoch))
}
