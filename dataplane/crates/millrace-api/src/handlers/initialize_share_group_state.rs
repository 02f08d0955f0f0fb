//! InitializeShareGroupState (KIP-932): the coordinator of a share group has the share coordinator create the state of share
//! partitions, or start it again.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        InitializeShareGroupStateRequest, InitializeShareGroupStateResponse,
        initialize_share_group_state_request::PartitionData,
        initialize_share_group_state_response::{InitializeStateResult, PartitionResult},
    },
};

use crate::{
    call::{Call, Outcome, Taken},
    context::Context,
    share_states::{Asked, ShareRequest, Told, ask_for_peer, offset_of},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: InitializeShareGroupStateRequest = decode(&call.request)?;
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
            InitializeStateResult::default()
                .with_topic_id(topic_id)
                .with_partitions(partitions.into_iter().map(told).collect())
        });
        let response = InitializeShareGroupStateResponse::default().with_results(results.collect());
        reply.with(&response, error)
    })
}

fn asked(partition: PartitionData) -> Asked {
    let start_offset = offset_of(partition.start_offset);
    let request = start_offset.map(|start_offset| ShareRequest::Initialize {
        state_epoch: partition.state_epoch,
        start_offset,
    });
    (partition.partition, request)
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
}
