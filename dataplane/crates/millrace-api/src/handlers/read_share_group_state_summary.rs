//! ReadShareGroupStateSummary (KIP-932): the state of share partitions without its batches, for whoever describes a share
//! group.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary_request::PartitionData,
        read_share_group_state_summary_response::{PartitionResult, ReadStateSummaryResult},
    },
};

use crate::{
    call::{Call, Outcome, Taken},
    context::Context,
    share_states::{Asked, ShareRequest, Told, ask_for_peer, wire_offset},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ReadShareGroupStateSummaryRequest = decode(&call.request)?;
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
            ReadStateSummaryResult::default()
                .with_topic_id(topic_id)
                .with_partitions(partitions.into_iter().map(told).collect())
        });
        let response =
            ReadShareGroupStateSummaryResponse::default().with_results(results.collect());
        reply.with(&response, error)
    })
}

/// The leader epoch that the request names fences nobody.
fn asked(partition: PartitionData) -> Asked {
    (partition.partition, Ok(ShareRequest::ReadSummary))
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
        .with_state_epoch(told.state.state_epoch)
        .with_leader_epoch(told.state.leader_epoch)
        .with_start_offset(wire_offset(told.state.start_offset))
}
