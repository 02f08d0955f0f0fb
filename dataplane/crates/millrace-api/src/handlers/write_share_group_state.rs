//! WriteShareGroupState (KIP-932): the leader of a partition adds to the state of share partitions.

use std::sync::Arc;

use millrace_coordinator::{ShareError, ShareState, ShareStateBatch};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        WriteShareGroupStateRequest, WriteShareGroupStateResponse,
        write_share_group_state_request::{PartitionData, StateBatch},
        write_share_group_state_response::{PartitionResult, WriteStateResult},
    },
};

use crate::{
    call::{Call, Outcome, Taken},
    context::Context,
    share_states::{Asked, ShareRequest, Told, ask_for_peer, offset_of},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: WriteShareGroupStateRequest = decode(&call.request)?;
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
            WriteStateResult::default()
                .with_topic_id(topic_id)
                .with_partitions(partitions.into_iter().map(told).collect())
        });
        let response = WriteShareGroupStateResponse::default().with_results(results.collect());
        reply.with(&response, error)
    })
}

fn asked(partition: PartitionData) -> Asked {
    (
        partition.partition,
        change(&partition).map(ShareRequest::Write),
    )
}

fn change(partition: &PartitionData) -> Result<ShareState, ShareError> {
    let offset = |wire| offset_of(wire)?.ok_or(ShareError::InvalidRequest);
    let batch = |batch: &StateBatch| {
        Ok(ShareStateBatch {
            first_offset: offset(batch.first_offset)?,
            last_offset: offset(batch.last_offset)?,
            delivery_state: batch.delivery_state,
            delivery_count: batch.delivery_count,
        })
    };
    let batches = partition.state_batches.iter().map(batch);
    Ok(ShareState {
        state_epoch: partition.state_epoch,
        leader_epoch: partition.leader_epoch,
        start_offset: offset_of(partition.start_offset)?,
        batches: batches.collect::<Result<_, ShareError>>()?,
    })
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
}
