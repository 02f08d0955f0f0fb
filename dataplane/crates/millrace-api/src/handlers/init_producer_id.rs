//! InitProducerId: an id for an idempotent producer, or the next epoch of a transactional id.

use std::{sync::Arc, time::Duration};

use millrace_coordinator::InitProducer;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId},
};

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken, code_of},
    code,
    context::Context,
};

/// The first version whose clients know that their producer was fenced.
const FIRST_WITH_FENCED: i16 = 4;
/// No producer id or epoch is known.
const NO_PRODUCER: (i64, i16) = (-1, -1);

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: InitProducerIdRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let id = request.transactional_id.as_ref();
    let allowed = match id {
        Some(id) => rights.transactional_id(Operation::Write, id),
        None => rights.idempotent_producer(),
    };
    if let Err(code) = allowed {
        return refuse(reply, code);
    }
    let expected = match (request.producer_id.0, request.producer_epoch) {
        NO_PRODUCER => None,
        (producer_id @ 0.., epoch @ 0..) => Some((producer_id, epoch)),
        // Each says something only together with the other.
        _ => return refuse(reply, ErrorCode::InvalidRequest),
    };
    let context = Arc::clone(context);
    match id.map(|id| id.as_str()) {
        Some(id) => {
            let timeout = u64::try_from(request.transaction_timeout_ms).unwrap_or(0);
            let asked = InitProducer {
                transactional_id: id.to_owned(),
                timeout: Duration::from_millis(timeout),
                expected,
            };
            Taken::later(async move {
                let given = context.transactions.init_producer_id(asked).await;
                answer(reply, given.map_err(|error| code::of_transaction(&error)))
            })
        }
        // A new block of ids may have to come from the metadata store.
        None => Taken::later(async move {
            let given = context.producer_ids.next().await.map_err(|error| {
                tracing::warn!(%error, "could not allocate a producer id");
                ErrorCode::CoordinatorNotAvailable
            });
            answer(reply, given.map(|id| (id, 0)))
        }),
    }
}

fn refuse(reply: Reply, code: ErrorCode) -> Outcome {
    Ok(Taken::Now(answer(reply, Err(code))))
}

fn answer(reply: Reply, given: Result<(i64, i16), ErrorCode>) -> Answer {
    let given = given.map_err(|code| code::fenced_as_known(code, reply.version, FIRST_WITH_FENCED));
    let code = code_of(&given);
    let (producer_id, epoch) = given.unwrap_or(NO_PRODUCER);
    let response = InitProducerIdResponse::default()
        .with_error_code(code)
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(epoch);
    reply.with(&response, code)
}
