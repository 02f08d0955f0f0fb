//! DescribeTransactions (KIP-664): the state of transactions that this broker coordinates.

use std::{collections::BTreeMap, sync::Arc};

use millrace_coordinator::TransactionDescription;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId, TopicName,
        TransactionalId,
        describe_transactions_response::{TopicData, TransactionState},
    },
};

use crate::{
    authorization::Rights,
    call::{Call, Outcome, first_error},
    code,
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeTransactionsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let ids = request.transactional_ids.into_iter();
    let states: Vec<_> = ids.map(|id| describe(context, &rights, id)).collect();
    let error = first_error(states.iter().map(|state| state.error_code));
    let response = DescribeTransactionsResponse::default().with_transaction_states(states);
    reply.now(&response, error)
}

fn describe(context: &Context, rights: &Rights, id: TransactionalId) -> TransactionState {
    let described = rights
        .transactional_id(Operation::Describe, &id)
        .and_then(|()| {
            let described = context.transactions.describe(&id);
            described.map_err(|error| code::of_transaction(&error))
        });
    let state = TransactionState::default().with_transactional_id(id);
    match described {
        Ok(TransactionDescription {
            state: name,
            timeout,
            start_ms,
            producer_id,
            producer_epoch,
            partitions,
        }) => {
            let mut topics: BTreeMap<_, Vec<i32>> = BTreeMap::new();
            for partition in partitions {
                // A client does not learn of topics that it may not describe.
                if rights
                    .topic(Operation::Describe, partition.topic.as_str())
                    .is_ok()
                {
                    let index = i32::try_from(partition.partition).unwrap_or(i32::MAX);
                    topics.entry(partition.topic).or_default().push(index);
                }
            }
            let topic = |(name, indexes): (millrace_model::TopicName, Vec<i32>)| {
                TopicData::default()
                    .with_topic(TopicName(text(name.as_str())))
                    .with_partitions(indexes)
            };
            state
                .with_transaction_state(text(name.name()))
                .with_transaction_timeout_ms(i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX))
                .with_transaction_start_time_ms(start_ms.unwrap_or(-1))
                .with_producer_id(ProducerId(producer_id))
                .with_producer_epoch(producer_epoch)
                .with_topics(topics.into_iter().map(topic).collect())
        }
        Err(code) => state.with_error_code(code.code()),
    }
}
