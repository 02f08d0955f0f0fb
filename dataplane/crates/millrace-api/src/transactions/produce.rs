//! Which of a Produce request's batches may open a transaction in their partition.

use std::{collections::BTreeMap, sync::Arc};

use millrace_log::{AppendOrigin, PartitionLog, Topic, Verification, VerificationGuard};
use millrace_record::Batch;
use millrace_wire::error_code::ErrorCode;

use super::{Joining, TransactionProducer, join};
use crate::{context::Context, topics::Refused};

/// The first Produce version whose clients know the error that asks them to abort.
const FIRST_WITH_ABORTABLE: i16 = 11;
/// The first Produce version whose clients leave AddPartitionsToTxn to the broker (transaction protocol version 2).
const FIRST_OF_PROTOCOL_2: i16 = 12;

/// A batch that is to be appended, and how. Not validated.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) topic: Arc<Topic>,
    pub(crate) log: Arc<PartitionLog>,
    pub(crate) batch: Batch,
    pub(crate) origin: AppendOrigin,
}

/// A batch that would open a transaction, and the guard that it needs for that.
type Opening<'a> = (&'a mut Result<Candidate, Refused>, VerificationGuard);

impl Candidate {
    /// The producer and the guard, where the batch would open a transaction.
    fn opens(&self) -> Option<((i64, i16), VerificationGuard)> {
        let header = self.batch.header();
        if !header.is_transactional() {
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
/// Those that are not get the reason.
pub(crate) async fn verify<'a>(
    context: &Context,
    (transactional_id, version): (Option<&str>, i16),
    batches: impl Iterator<Item = &'a mut Result<Candidate, Refused>>,
) {
    let mut opening: BTreeMap<(i64, i16), Vec<Opening<'_>>> = BTreeMap::new();
    for batch in batches {
        let opens = batch.as_ref().ok().and_then(Candidate::opens);
        match (opens, transactional_id) {
            (None, _) => {}
            (Some(_), None) => {
                // As Kafka answers transactional records of a request without an id.
                *batch = Err(ErrorCode::TransactionalIdAuthorizationFailed.into());
            }
            (Some((producer, guard)), Some(_)) => {
                opening.entry(producer).or_default().push((batch, guard));
            }
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
        let logs = candidates
            .iter()
            .filter_map(|(batch, _)| batch.as_ref().ok());
        let partitions = logs.map(|batch| batch.log.id().clone()).collect();
        let mut joined = join(context, &producer, joining, partitions).await;
        for (batch, guard) in candidates {
            let Ok(candidate) = batch else { continue };
            match joined.remove(candidate.log.id()) {
                Some(Ok(())) => {
                    // With an epoch for each transaction, a producer's sequence starts at 0.
                    let guard = match joining {
                        Joining::Add => guard.with_epoch_bump(),
                        Joining::Verify | Joining::VerifyAbortable => guard,
                    };
                    candidate.origin = AppendOrigin::Verified(guard);
                }
                Some(Err(refused)) => *batch = Err(refused),
                None => *batch = Err(ErrorCode::NotEnoughReplicas.into()),
            }
        }
    }
}
