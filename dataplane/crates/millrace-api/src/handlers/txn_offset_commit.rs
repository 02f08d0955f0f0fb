//! TxnOffsetCommit: offsets that are committed or aborted with a transaction.

use std::sync::Arc;

use millrace_coordinator::{
    GroupError,
    messages::{Caller, PartitionOffsets, TransactionalCommit},
};
use millrace_model::TopicName;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        txn_offset_commit_request::{
            TxnOffsetCommitRequestPartition as AskedPartition, TxnOffsetCommitRequestTopic,
        },
        txn_offset_commit_response::{
            TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
        },
    },
};

use super::{
    add_offsets_to_txn::offsets_partition,
    offset_commit::{AskedOffset, validate},
};
use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::Context,
    transactions::{Joining, TransactionProducer, join},
};

/// The first version whose clients know that the coordinator is loading.
const FIRST_WITH_LOADING: i16 = 2;
/// The first version whose clients know the error that asks them to abort.
const FIRST_WITH_ABORTABLE: i16 = 4;
/// The first version whose clients leave AddOffsetsToTxn to the broker (transaction protocol version 2).
const FIRST_OF_PROTOCOL_2: i16 = 5;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: TxnOffsetCommitRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let allowed = rights
        .transactional_id(Operation::Write, &request.transactional_id)
        .and_then(|()| rights.group(Operation::Read, &request.group_id));
    let mut offsets = PartitionOffsets::new();
    let topics = request.topics.iter();
    let topics: Vec<_> = topics
        .map(|topic| match allowed {
            Ok(()) => validate_topic(context, &rights, topic, &mut offsets),
            Err(code) => topic_result(topic, |_| code.code()),
        })
        .collect();
    if offsets.is_empty() {
        return Ok(Taken::Now(answer(reply, topics, NONE)));
    }
    let context = Arc::clone(context);
    Taken::later(async move {
        let committed = commit(&context, reply, request, offsets).await;
        let committed = committed.map_err(|code| match code {
            ErrorCode::CoordinatorLoadInProgress if reply.version < FIRST_WITH_LOADING => {
                ErrorCode::CoordinatorNotAvailable
            }
            code => code,
        });
        answer(reply, topics, code_of(&committed))
    })
}

async fn commit(
    context: &Context,
    reply: Reply,
    request: TxnOffsetCommitRequest,
    offsets: PartitionOffsets,
) -> Result<(), ErrorCode> {
    let group = request.group_id.as_str();
    let partition = offsets_partition(context, group).await?;
    let producer = (request.producer_id.0, request.producer_epoch);
    let commit = TransactionalCommit {
        producer,
        caller: Caller {
            member_id: request.member_id.to_string(),
            instance_id: request.group_instance_id.map(|id| id.to_string()),
            generation: request.generation_id,
        },
        offsets,
    };
    let of_commit = |error: &GroupError| match code::of_commit(error) {
        ErrorCode::StaleMemberEpoch => ErrorCode::IllegalGeneration,
        // The next attempt is verified anew, and is told where the transaction has ended.
        ErrorCode::InvalidTxnState => ErrorCode::CoordinatorLoadInProgress,
        other => other,
    };
    // Taken before the coordinator is asked: a marker that is written in between invalidates it.
    let token = context
        .groups
        .transactional_token(group)
        .map_err(|error| of_commit(&error))?;
    let producer = TransactionProducer {
        transactional_id: request.transactional_id.to_string(),
        producer_id: producer.0,
        producer_epoch: producer.1,
    };
    let joining = match reply.version {
        FIRST_OF_PROTOCOL_2.. => Joining::Add,
        FIRST_WITH_ABORTABLE => Joining::VerifyAbortable,
        _ => Joining::Verify,
    };
    let joined = join(context, &producer, joining, partition).await;
    joined.map_err(|refused| of_group_clients(refused.code))?;
    // No offset may outlive a topic that was deleted meanwhile. The next attempt tells which one it is.
    if !{ commit.offsets.iter() }.all(|(partition, _)| context.logs.exists(partition)) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    let committing = context.groups.commit_transactional(group, token, commit);
    committing.await.map_err(|error| of_commit(&error))
}

/// Producers that could write again on this code look for the coordinator again on another one.
fn of_group_clients(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::NotEnoughReplicas => ErrorCode::CoordinatorNotAvailable,
        other => other,
    }
}

/// Takes what may be committed out of one topic, and says of each partition what is wrong with it.
fn validate_topic(
    context: &Context,
    rights: &Rights,
    topic: &TxnOffsetCommitRequestTopic,
    offsets: &mut PartitionOffsets,
) -> TxnOffsetCommitResponseTopic {
    let allowed = rights.topic(Operation::Read, &topic.name);
    let name = TopicName::new(topic.name.as_str()).ok();
    topic_result(topic, |asked| {
        let offset = AskedOffset {
            index: asked.partition_index,
            offset: asked.committed_offset,
            leader_epoch: asked.committed_leader_epoch,
            metadata: asked.committed_metadata.as_ref(),
        };
        let validated = allowed.and_then(|()| validate(context, name.as_ref(), offset, -1));
        let code = code_of(&validated);
        offsets.extend(validated.ok());
        code
    })
}

fn topic_result(
    topic: &TxnOffsetCommitRequestTopic,
    mut code: impl FnMut(&AskedPartition) -> i16,
) -> TxnOffsetCommitResponseTopic {
    let result = |asked: &AskedPartition| {
        TxnOffsetCommitResponsePartition::default()
            .with_partition_index(asked.partition_index)
            .with_error_code(code(asked))
    };
    TxnOffsetCommitResponseTopic::default()
        .with_name(topic.name.clone())
        .with_partitions(topic.partitions.iter().map(result).collect())
}

/// Partitions that had nothing wrong with them get the result of the commit.
fn answer(reply: Reply, mut topics: Vec<TxnOffsetCommitResponseTopic>, committed: i16) -> Answer {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for partition in partitions.filter(|partition| partition.error_code == NONE) {
        partition.error_code = committed;
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    reply.with(
        &TxnOffsetCommitResponse::default().with_topics(topics),
        error,
    )
}
