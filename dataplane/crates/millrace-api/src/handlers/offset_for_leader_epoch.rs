//! OffsetForLeaderEpoch: where a leader epoch ends (KIP-320). Consumers ask after every restart of the
//! broker, before they continue: a log that ends before their position would have lost records.

use std::sync::Arc;

use millrace_log::EpochEnd;
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
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let one = |asked| one(context, &topic.topic, asked);
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

fn one(context: &Context, topic: &WireTopic, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let found = look_up(context, topic, asked);
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
