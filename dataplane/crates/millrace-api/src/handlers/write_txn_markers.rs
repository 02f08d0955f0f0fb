//! WriteTxnMarkers: another broker's transaction coordinator, or an operator who aborts a hanging transaction, ends
//! transactions in partitions that this broker leads.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use millrace_log::TransactionMarker;
use millrace_model::TopicPartition;
use millrace_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        WriteTxnMarkersRequest, WriteTxnMarkersResponse,
        write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
        write_txn_markers_response::{
            WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
        },
    },
    transaction_version_of,
};

use crate::{
    call::{Call, Outcome, Taken, first_error},
    context::Context,
    topics,
    transactions::write_markers,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: WriteTxnMarkersRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    // Operators abort transactions with the right to alter the cluster (KIP-664).
    let cluster = ResourceType::Cluster;
    let allowed = match rights.allows_quietly(Operation::Alter, cluster, CLUSTER_NAME) {
        true => Ok(()),
        false => rights.cluster(Operation::ClusterAction),
    };
    let context = Arc::clone(context);
    Taken::later(async move {
        let markers = request.markers.iter();
        let written = markers.map(|marker| write(&context, allowed, marker));
        let results = join_all(written).await;
        let topics = results.iter().flat_map(|result| &result.topics);
        let partitions = topics.flat_map(|topic| &topic.partitions);
        let error = first_error(partitions.map(|partition| partition.error_code));
        let response = WriteTxnMarkersResponse::default().with_markers(results);
        reply.with(&response, error)
    })
}

async fn write(
    context: &Context,
    allowed: Result<(), ErrorCode>,
    request: &WritableTxnMarker,
) -> WritableTxnMarkerResult {
    let marker = TransactionMarker {
        producer_id: request.producer_id.0,
        producer_epoch: request.producer_epoch,
        coordinator_epoch: request.coordinator_epoch,
        committed: request.transaction_result,
        transaction_version: transaction_version_of(request),
    };
    let partitions = request.topics.iter().flat_map(of_topic).collect();
    let written = match allowed {
        Ok(()) => write_markers(&context.logs, &context.groups, marker, partitions).await,
        Err(_) => Vec::new(),
    };
    let written: HashMap<TopicPartition, i16> = written
        .into_iter()
        .map(|(partition, result)| (partition, result.map_or_else(|code| code.code(), |()| NONE)))
        .collect();
    let otherwise = allowed.err().unwrap_or(ErrorCode::UnknownTopicOrPartition);
    let topic = |topic: &WritableTxnMarkerTopic| {
        let result = |index: &i32| {
            let partition = topics::partition_id(&topic.name, *index);
            let code = partition.and_then(|partition| written.get(&partition).copied());
            WritableTxnMarkerPartitionResult::default()
                .with_partition_index(*index)
                .with_error_code(code.unwrap_or(otherwise.code()))
        };
        WritableTxnMarkerTopicResult::default()
            .with_name(topic.name.clone())
            .with_partitions(topic.partition_indexes.iter().map(result).collect())
    };
    WritableTxnMarkerResult::default()
        .with_producer_id(request.producer_id)
        .with_topics(request.topics.iter().map(topic).collect())
}

fn of_topic(topic: &WritableTxnMarkerTopic) -> impl Iterator<Item = TopicPartition> {
    let indexes = topic.partition_indexes.iter();
    indexes.filter_map(|index| topics::partition_id(&topic.name, *index))
}
