//! AddOffsetsToTxn: the offsets of a group become part of a transaction.

use std::sync::Arc;

use millrace_coordinator::partition_of;
use millrace_log::CONSUMER_OFFSETS_TOPIC;
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse},
};

use crate::{
    call::{Call, Outcome, Taken, code_of},
    code,
    context::Context,
};

/// The first version whose clients know that their producer was fenced.
const FIRST_WITH_FENCED: i16 = 2;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AddOffsetsToTxnRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let allowed = rights
        .transactional_id(Operation::Write, &request.transactional_id)
        .and_then(|()| rights.group(Operation::Read, &request.group_id));
    let context = Arc::clone(context);
    Taken::later(async move {
        let added = match allowed {
            Ok(()) => add(&context, &request).await,
            Err(code) => Err(code),
        };
        let added =
            added.map_err(|code| code::fenced_as_known(code, reply.version, FIRST_WITH_FENCED));
        let error = code_of(&added);
        reply.with(
            &AddOffsetsToTxnResponse::default().with_error_code(error),
            error,
        )
    })
}

async fn add(context: &Context, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    let partition = [offsets_partition(context, &request.group_id).await?];
    let producer = (request.producer_id.0, request.producer_epoch);
    let coordinator = &context.transactions;
    let added = coordinator.add_partitions(&request.transactional_id, producer, &partition);
    added.await.map_err(|error| code::of_transaction(&error))
}

/// The partition that keeps the offsets of a group.
pub(super) async fn offsets_partition(
    context: &Context,
    group: &str,
) -> Result<TopicPartition, ErrorCode> {
    // The first time, the topic is created.
    context.groups.ready().await.map_err(|error| {
        tracing::warn!(%error, "consumer groups are not ready");
        ErrorCode::CoordinatorNotAvailable
    })?;
    let name = TopicName::new(CONSUMER_OFFSETS_TOPIC).expect("Kafka's own name is legal");
    let topic = context.logs.topic(&name);
    let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let index = partition_of(group, topic.partitions.len());
    let partition = u32::try_from(index).map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
    Ok(TopicPartition {
        topic: name,
        partition,
    })
}
