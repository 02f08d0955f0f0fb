//! DescribeProducers (KIP-664): the producers that a partition remembers, and which of them have a transaction open. Operators use
//! it to find transactions that hang.

use std::{collections::BTreeSet, sync::Arc};

use millrace_log::ProducerStatus;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DescribeProducersRequest, DescribeProducersResponse, TopicName as WireTopic,
        describe_producers_response::{PartitionResponse, ProducerState, TopicResponse},
    },
};
use uuid::Uuid;

use crate::{
    call::{Call, Outcome, first_error},
    context::Context,
    topics::{Refused, find, partition, wire_offset},
};

/// Producers in one answer: what ten partitions remember at most, some 4 MB in a frame.
const PRODUCERS_MAX: usize = 100_000;

/// What Kafka writes where there is no open transaction.
const NO_OFFSET: i64 = -1;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeProducersRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    let mut room = PRODUCERS_MAX;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let allowed = rights.topic(Operation::Read, &topic.name);
        // Each once, however often it is named.
        let indexes: BTreeSet<i32> = topic.partition_indexes.into_iter().collect();
        let one = |index| {
            let allowed = allowed.map_err(Refused::from);
            let found = allowed.and_then(|()| look_up(context, &topic.name, index, &mut room));
            answered(index, found)
        };
        let partitions = indexes.into_iter().map(one).collect();
        topics.push(
            TopicResponse::default()
                .with_name(topic.name)
                .with_partitions(partitions),
        );
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    let response = DescribeProducersResponse::default().with_topics(topics);
    call.reply().now(&response, error)
}

fn look_up(
    context: &Context,
    topic: &WireTopic,
    index: i32,
    room: &mut usize,
) -> Result<Vec<ProducerStatus>, Refused> {
    let topic = find(&context.logs, false, topic, Uuid::nil())?;
    let producers = partition(&topic, index)?.producers();
    let Some(left) = room.checked_sub(producers.len()) else {
        return Err(Refused::new(
            ErrorCode::InvalidRequest,
            format!(
                "the partitions asked for have more than {PRODUCERS_MAX} producers; ask for fewer"
            ),
        ));
    };
    *room = left;
    Ok(producers)
}

fn answered(index: i32, found: Result<Vec<ProducerStatus>, Refused>) -> PartitionResponse {
    let (error_code, error_message) = Refused::worded_parts(&found);
    let producers = found.unwrap_or_default();
    PartitionResponse::default()
        .with_partition_index(index)
        .with_error_code(error_code)
        .with_error_message(error_message)
        .with_active_producers(producers.into_iter().map(state).collect())
}

fn state(producer: ProducerStatus) -> ProducerState {
    ProducerState::default()
        .with_producer_id(producer.producer_id.into())
        .with_producer_epoch(i32::from(producer.epoch))
        .with_last_sequence(producer.last_sequence)
        .with_last_timestamp(producer.last_timestamp)
        .with_coordinator_epoch(producer.coordinator_epoch)
        .with_current_txn_start_offset(producer.transaction_start.map_or(NO_OFFSET, wire_offset))
}
