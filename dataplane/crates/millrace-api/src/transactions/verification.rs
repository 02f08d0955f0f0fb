//! Has the coordinator confirm that partitions are part of a producer's transaction (KIP-890), so that no partition
//! waits for the end of a transaction that its coordinator does not know.

use std::{collections::HashMap, time::Duration};

use millrace_coordinator::TransactionError;
use millrace_model::{NodeId, TopicPartition};
use millrace_wire::error_code::ErrorCode;

use super::{PartitionResults, TransactionProducer, all_refused, replaced};
use crate::{code, context::Context, topics::Refused};

/// The pauses after which an addition is tried again while the coordinator ends the producer's previous transaction. Together
/// they are the 100 ms of Kafka's `add.partitions.to.txn.retry.backoff.max.ms`, but they are short at first: markers take a millisecond
/// or two, and a producer that commits without a pause waits for them in each transaction.
pub(super) const RETRY_PAUSES: [Duration; 9] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
    Duration::from_millis(20),
    Duration::from_millis(20),
    Duration::from_millis(20),
    Duration::from_millis(9),
];

/// What the client expects of a partition that it writes to in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joining {
    /// It has added the partition, and does not know the error that asks it to abort.
    Verify,
    /// It has added the partition.
    VerifyAbortable,
    /// The broker adds the partition (transaction protocol version 2).
    Add,
}

/// What the coordinator says, by partition.
pub(super) type Verified = HashMap<TopicPartition, Result<(), Refused>>;

/// Asks the coordinator, here or at another broker, whether this partition is in the producer's transaction. Tries again while
/// the coordinator ends the previous one.
pub(crate) async fn join(
    context: &Context,
    producer: &TransactionProducer,
    joining: Joining,
    partition: TopicPartition,
) -> Result<(), Refused> {
    let mut pauses = RETRY_PAUSES.iter();
    loop {
        let asked = vec![partition.clone()];
        let joined = join_once(context, producer, joining, asked).await;
        let result = joined.into_values().next().unwrap_or(Ok(()));
        let pause = pauses.next().filter(|_| is_busy(&result, joining));
        let Some(&pause) = pause else {
            return result;
        };
        tokio::time::sleep(pause).await;
    }
}

/// Whether the coordinator still ends the producer's previous transaction, and is to be asked again.
pub(super) fn is_busy(result: &Result<(), Refused>, joining: Joining) -> bool {
    let is_concurrent = |refused: &Refused| refused.code == ErrorCode::ConcurrentTransactions;
    joining == Joining::Add && result.as_ref().is_err_and(is_concurrent)
}

/// Asks once whether these partitions are in the producer's transaction.
pub(super) async fn join_once(
    context: &Context,
    producer: &TransactionProducer,
    joining: Joining,
    partitions: Vec<TopicPartition>,
) -> Verified {
    let results = ask(context, producer, joining, partitions).await;
    let told = |(partition, result): (_, Result<(), ErrorCode>)| {
        (partition, result.map_err(|code| refusal(code, joining)))
    };
    results.into_iter().map(told).collect()
}

async fn ask(
    context: &Context,
    producer: &TransactionProducer,
    joining: Joining,
    partitions: Vec<TopicPartition>,
) -> PartitionResults {
    let Some(coordinator) = context.transaction_coordinator(&producer.transactional_id) else {
        return all_refused(partitions, ErrorCode::CoordinatorNotAvailable);
    };
    let is_here = coordinator == context.broker_id();
    let verify_only = joining != Joining::Add;
    if !is_here {
        let Ok(node) = u32::try_from(coordinator.0) else {
            return all_refused(partitions, ErrorCode::CoordinatorNotAvailable);
        };
        let id = &producer.transactional_id;
        let is_replaced = || context.transaction_coordinator(id) != Some(coordinator);
        let peers = &context.transaction_peers;
        let asked = partitions.clone();
        return tokio::select! {
            results = peers.add_partitions(NodeId(node), producer.clone(), verify_only, asked) => results,
            () = replaced(is_replaced) => all_refused(partitions, ErrorCode::NotCoordinator),
        };
    }
    let TransactionProducer {
        transactional_id: id,
        producer_id,
        producer_epoch: epoch,
    } = producer;
    let of = |error: TransactionError| code::of_transaction(&error);
    if verify_only {
        let verified =
            context
                .transactions
                .verify_partitions(id, (*producer_id, *epoch), &partitions);
        return match verified {
            Ok(results) => results
                .into_iter()
                .map(|(partition, result)| (partition, result.map_err(of)))
                .collect(),
            Err(error) => all_refused(partitions, of(error)),
        };
    }
    let added = context
        .transactions
        .add_partitions(id, (*producer_id, *epoch), &partitions);
    let added = added.await.map_err(of);
    partitions
        .into_iter()
        .map(|partition| (partition, added))
        .collect()
}

/// The answer to a write whose partition is not in the transaction. Clients before Produce 12 retry only some
/// errors, so what may pass is told by one that makes them retry without asking for metadata.
fn refusal(code: ErrorCode, joining: Joining) -> Refused {
    let code = match code {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if joining == Joining::Verify => ErrorCode::InvalidTxnState,
        other => other,
    };
    match code {
        ErrorCode::InvalidTxnState => {
            Refused::new(code, "The partition was not added to the transaction.")
        }
        ErrorCode::ConcurrentTransactions if joining == Joining::Add => Refused::from(code),
        ErrorCode::NetworkException
        | ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => {
            let message = format!(
                "The coordinator could not confirm that the partition is in the transaction: {code}"
            );
            Refused::new(ErrorCode::NotEnoughReplicas, message)
        }
        other => Refused::from(other),
    }
}
