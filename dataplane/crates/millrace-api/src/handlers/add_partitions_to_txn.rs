//! AddPartitionsToTxn: from clients up to version 3; from other brokers, which check or add partitions that clients
//! write to, since version 4 (KIP-890).

use std::{collections::HashMap, sync::Arc};

use futures_util::future::join_all;
use millrace_coordinator::TransactionError;
use millrace_model::TopicPartition;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, TopicName as WireTopic,
        add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction},
        add_partitions_to_txn_response::{
            AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult,
            AddPartitionsToTxnTopicResult,
        },
    },
};

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, first_error},
    code,
    context::Context,
    topics::{self, is_internal},
};

/// The first version that only brokers send.
const FIRST_OF_BROKERS: i16 = 4;
/// The first version whose clients know that their producer was fenced.
const FIRST_WITH_FENCED: i16 = 2;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AddPartitionsToTxnRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let context = Arc::clone(context);
    if reply.version < FIRST_OF_BROKERS {
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(request.v3_and_below_transactional_id)
            .with_producer_id(request.v3_and_below_producer_id)
            .with_producer_epoch(request.v3_and_below_producer_epoch)
            .with_topics(request.v3_and_below_topics);
        let checked = check(&context, &rights, &transaction);
        return Taken::later(async move {
            let results = match checked {
                Ok(()) => run(&context, reply, &transaction).await,
                Err(refused) => refused,
            };
            let error = first_error(codes(&results));
            let response =
                AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(results);
            reply.with(&response, error)
        });
    }
    if let Err(code) = rights.cluster(Operation::ClusterAction) {
        let response = AddPartitionsToTxnResponse::default().with_error_code(code.code());
        return reply.now(&response, code.code());
    }
    Taken::later(async move { of_brokers(&context, reply, request.transactions).await })
}

async fn of_brokers(
    context: &Context,
    reply: Reply,
    transactions: Vec<AddPartitionsToTxnTransaction>,
) -> Answer {
    let results = transactions.iter().map(|transaction| async {
        let of_topics = run(context, reply, transaction).await;
        AddPartitionsToTxnResult::default()
            .with_transactional_id(transaction.transactional_id.clone())
            .with_topic_results(of_topics)
    });
    let results = join_all(results).await;
    let error = first_error(
        results
            .iter()
            .flat_map(|result| codes(&result.topic_results)),
    );
    let response = AddPartitionsToTxnResponse::default().with_results_by_transaction(results);
    reply.with(&response, error)
}

fn codes(topics: &[AddPartitionsToTxnTopicResult]) -> impl Iterator<Item = i16> {
    let partitions = topics.iter().flat_map(|topic| &topic.results_by_partition);
    partitions.map(|partition| partition.partition_error_code)
}

/// Checks what a client may add. Where it may not add one partition, none is added.
fn check(
    context: &Context,
    rights: &Rights,
    transaction: &AddPartitionsToTxnTransaction,
) -> Result<(), Vec<AddPartitionsToTxnTopicResult>> {
    let id = &transaction.transactional_id;
    if let Err(code) = rights.transactional_id(Operation::Write, id) {
        return Err(every(transaction, code.code()));
    }
    let judge = |topic: &AddPartitionsToTxnTopic| -> Vec<Result<(), ErrorCode>> {
        let allowed = match is_internal(&topic.name) {
            true => Err(ErrorCode::TopicAuthorizationFailed),
            false => rights.topic(Operation::Write, &topic.name),
        };
        let judge = |index: &i32| {
            let exists = topics::partition_id(&topic.name, *index)
                .is_some_and(|partition| context.logs.exists(&partition));
            let exists = exists
                .then_some(())
                .ok_or(ErrorCode::UnknownTopicOrPartition);
            allowed.and(exists)
        };
        topic.partitions.iter().map(judge).collect()
    };
    let judged: Vec<_> = transaction.topics.iter().map(judge).collect();
    if judged.iter().flatten().all(Result::is_ok) {
        return Ok(());
    }
    let result = |(topic, results): (&AddPartitionsToTxnTopic, Vec<Result<(), ErrorCode>>)| {
        let not_attempted = ErrorCode::OperationNotAttempted.code();
        let code = |result: Result<(), ErrorCode>| {
            result.map_or_else(|code| code.code(), |()| not_attempted)
        };
        let indexes = topic.partitions.iter().copied();
        topic_result(&topic.name, indexes.zip(results.into_iter().map(code)))
    };
    let judged = transaction.topics.iter().zip(judged);
    Err(judged.map(result).collect())
}

/// Adds the partitions, or checks that they were added.
async fn run(
    context: &Context,
    reply: Reply,
    transaction: &AddPartitionsToTxnTransaction,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let id = transaction.transactional_id.as_str();
    let producer = (transaction.producer_id.0, transaction.producer_epoch);
    let code = |error: TransactionError| {
        let code = code::of_transaction(&error);
        code::fenced_as_known(code, reply.version, FIRST_WITH_FENCED).code()
    };
    let Some(partitions) = partitions(transaction) else {
        return every(transaction, ErrorCode::UnknownTopicOrPartition.code());
    };
    let coordinator = &context.transactions;
    if transaction.verify_only {
        let verified = coordinator.verify_partitions(id, producer, &partitions);
        return match verified {
            Ok(results) => {
                let results: HashMap<_, _> = results.into_iter().collect();
                each(transaction, |partition| match results.get(partition) {
                    Some(Err(error)) => code(*error),
                    Some(Ok(())) => NONE,
                    None => ErrorCode::UnknownServerError.code(),
                })
            }
            Err(error) => every(transaction, code(error)),
        };
    }
    let added = coordinator.add_partitions(id, producer, &partitions);
    let added = added.await.map_err(code);
    every(transaction, added.err().unwrap_or(NONE))
}

/// The partitions of a transaction; nothing where one cannot be.
fn partitions(transaction: &AddPartitionsToTxnTransaction) -> Option<Vec<TopicPartition>> {
    let topics = transaction.topics.iter();
    let each = topics.flat_map(|topic| topic.partitions.iter().map(move |index| (topic, index)));
    each.map(|(topic, index)| topics::partition_id(&topic.name, *index))
        .collect()
}

/// The same result for all partitions.
fn every(
    transaction: &AddPartitionsToTxnTransaction,
    code: i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topics = transaction.topics.iter();
    topics
        .map(|topic| {
            let indexes = topic.partitions.iter().map(|index| (*index, code));
            topic_result(&topic.name, indexes)
        })
        .collect()
}

/// A result for each partition.
fn each(
    transaction: &AddPartitionsToTxnTransaction,
    code: impl Fn(&TopicPartition) -> i16,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topic = |topic: &AddPartitionsToTxnTopic| {
        let result = |index: &i32| {
            let partition = topics::partition_id(&topic.name, *index);
            let unknown = ErrorCode::UnknownTopicOrPartition.code();
            (
                *index,
                partition.map_or(unknown, |partition| code(&partition)),
            )
        };
        topic_result(&topic.name, topic.partitions.iter().map(result))
    };
    transaction.topics.iter().map(topic).collect()
}

fn topic_result(
    name: &WireTopic,
    results: impl Iterator<Item = (i32, i16)>,
) -> AddPartitionsToTxnTopicResult {
    let result = |(index, code): (i32, i16)| {
        AddPartitionsToTxnPartitionResult::default()
            .with_partition_index(index)
            .with_partition_error_code(code)
    };
    AddPartitionsToTxnTopicResult::default()
        .with_name(name.clone())
        .with_results_by_partition(results.map(result).collect())
}
