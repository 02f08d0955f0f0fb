//! Which of a Produce request's batches may open a transaction in their partition.

use std::{collections::BTreeMap, sync::Arc};

use millrace_log::{AppendOrigin, PartitionLog, Topic, Verification, VerificationGuard};
use millrace_record::Batch;
use millrace_wire::error_code::ErrorCode;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Joining, TransactionProducer,
    verification::{RETRY_PAUSES, Verified, is_busy, join_once},
};
use crate::{context::Context, topics::Refused};

/// The first Produce version whose clients know the error that asks them to abort.
const FIRST_WITH_ABORTABLE: i16 = 11;
/// The first Produce version whose clients leave AddPartitionsToTxn to the broker (transaction protocol version 2).
const FIRST_OF_PROTOCOL_2: i16 = 12;

/// The batches of one producer that would open its transaction in their partitions.
type Opening<'a> = Vec<(&'a mut Result<Candidate, Refused>, VerificationGuard)>;

/// A batch that is to be appended, and how. Not validated.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) topic: Arc<Topic>,
    pub(crate) log: Arc<PartitionLog>,
    pub(crate) batch: Batch,
    pub(crate) origin: AppendOrigin,
}

impl Candidate {
    fn is_transactional(&self) -> bool {
        self.batch.header().is_transactional()
    }

    /// The producer and the guard, where the batch would open a transaction.
    fn opens(&self) -> Option<((i64, i16), VerificationGuard)> {
        let header = self.batch.header();
        if !self.is_transactional() {
            return None;
        }
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        match self.log.verification(id, epoch) {
            Verification::NotNeeded => None,
            Verification::Needed(guard) => Some(((id, epoch), guard)),
        }
    }
}

/// Has the coordinator confirm, once for all partitions of a request, that they are in the producer's transaction.
/// Those that are not get the reason, as do those for which the coordinator has not answered by `deadline`.
pub(crate) async fn verify<'a>(
    context: &Context,
    (transactional_id, version): (Option<&str>, i16),
    deadline: Instant,
    batches: impl Iterator<Item = &'a mut Result<Candidate, Refused>>,
) {
    let mut opening: BTreeMap<(i64, i16), Opening<'_>> = BTreeMap::new();
    for batch in batches {
        let is_transactional = batch.as_ref().is_ok_and(Candidate::is_transactional);
        if is_transactional && transactional_id.is_none() {
            // Who may use the id of the transaction is not known, even where it is open already.
            *batch = Err(ErrorCode::TransactionalIdAuthorizationFailed.into());
        }
        if let Some((producer, guard)) = batch.as_ref().ok().and_then(Candidate::opens) {
            opening.entry(producer).or_default().push((batch, guard));
        }
    }
    let joining = match version {
        FIRST_OF_PROTOCOL_2.. => Joining::Add,
        FIRST_WITH_ABORTABLE => Joining::VerifyAbortable,
        _ => Joining::Verify,
    };
    for ((producer_id, producer_epoch), candidates) in opening {
        let producer = TransactionProducer {
            transactional_id: transactional_id.unwrap_or_default().to_owned(),
            producer_id,
            producer_epoch,
        };
        verify_producer(context, &producer, (joining, deadline), candidates).await;
    }
}

/// The same for one producer. The coordinator is asked again while it ends the producer's previous transaction, and where the
/// marker of that transaction was written after a guard was taken. Before each time, guards are taken anew.
async fn verify_producer(
    context: &Context,
    producer: &TransactionProducer,
    asked: (Joining, Instant),
    mut candidates: Opening<'_>,
) {
    for pause in RETRY_PAUSES {
        verify_once(context, producer, asked, &mut candidates).await;
        if candidates.is_empty() {
            return;
        }
        sleep(pause).await;
        candidates.retain_mut(|(batch, guard)| {
            let opens = batch.as_ref().ok().and_then(Candidate::opens);
            opens.is_some_and(|(_, taken_again)| {
                *guard = taken_again;
                true
            })
        });
    }
    verify_once(context, producer, asked, &mut candidates).await;
    for (batch, _) in candidates {
        *batch = Err(ErrorCode::ConcurrentTransactions.into());
    }
}

/// Asks the coordinator once. Leaves those for which it has to be asked again.
async fn verify_once(
    context: &Context,
    producer: &TransactionProducer,
    (joining, deadline): (Joining, Instant),
    candidates: &mut Opening<'_>,
) {
    if candidates.is_empty() {
        return;
    }
    let logs = candidates
        .iter()
        .filter_map(|(batch, _)| batch.as_ref().ok());
    let partitions = logs.map(|batch| batch.log.id().clone()).collect();
    let joined = join_once(context, producer, joining, partitions);
    // The connection's next requests wait as well.
    let mut joined = timeout_at(deadline, joined).await.unwrap_or_default();
    candidates.retain_mut(|(batch, guard)| !settle(&mut joined, joining, batch, *guard));
}

/// Applies the coordinator's answer to a batch. False where the coordinator has to be asked again.
fn settle(
    joined: &mut Verified,
    joining: Joining,
    batch: &mut Result<Candidate, Refused>,
    guard: VerificationGuard,
) -> bool {
    let Ok(candidate) = batch else { return true };
    match joined.remove(candidate.log.id()) {
        Some(result) if is_busy(&result, joining) => return false,
        Some(Ok(())) if joining == Joining::Add => {
            if !candidate.log.is_valid(&guard) {
                return false;
            }
            // With an epoch for each transaction, a producer's sequence starts at 0.
            candidate.origin = AppendOrigin::Verified(guard.with_epoch_bump());
        }
        Some(Ok(())) => candidate.origin = AppendOrigin::Verified(guard),
        Some(Err(refused)) => *batch = Err(refused),
        None => *batch = Err(ErrorCode::NotEnoughReplicas.into()),
    }
    true
}
