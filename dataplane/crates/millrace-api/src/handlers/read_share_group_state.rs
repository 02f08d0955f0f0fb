//! ReadShareGroupState (KIP-932): the leader of a partition reads the state of share partitions, which fences former leaders.

use std::sync::Arc;

use millrace_coordinator::ShareStateBatch;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        ReadShareGroupStateRequest, ReadShareGroupStateResponse,
        read_share_group_state_request::PartitionData,
        read_share_group_state_response::{PartitionResult, ReadStateResult, StateBatch},
    },
};

use crate::{
    call::{Call, Outcome, Taken},
    context::Context,
    share_states::{Asked, ShareRequest, Told, ask_for_peer, wire_offset},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ReadShareGroupStateRequest = decode(&call.request)?;
    let reply = call.reply();
    let allowed = context.rights(&call).cluster(Operation::ClusterAction);
    let context = Arc::clone(context);
    Taken::later(async move {
        let topics = request.topics.into_iter();
        let topics = topics.map(|topic| {
            let asked = topic.partitions.into_iter().map(asked);
            (topic.topic_id, asked.collect())
        });
        let asker = (allowed, request.group_id.as_str());
        let (topics, error) = ask_for_peer(&context, asker, topics.collect()).await;
        let results = topics.into_iter().map(|(topic_id, partitions)| {
            ReadStateResult::default()
                .with_topic_id(topic_id)
                .with_partitions(partitions.into_iter().map(told).collect())
        });
        let response = ReadShareGroupStateResponse::default().with_results(results.collect());
        reply.with(&response, error)
    })
}

fn asked(partition: PartitionData) -> Asked {
    let request = ShareRequest::Read(partition.leader_epoch);
    (partition.partition, Ok(request))
}

fn told(told: Told) -> PartitionResult {
    let batch = |batch: &ShareStateBatch| {
        StateBatch::default()
            .with_first_offset(wire_offset(Some(batch.first_offset)))
            .with_last_offset(wire_offset(Some(batch.last_offset)))
            .with_delivery_state(batch.delivery_state)
            .with_delivery_count(batch.delivery_count)
    };
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
        .with_state_epoch(told.state.state_epoch)
        .with_start_offset(wire_offset(told.state.start_offset))
        .with_state_batches(told.state.batches.iter().map(batch).collect())
}
