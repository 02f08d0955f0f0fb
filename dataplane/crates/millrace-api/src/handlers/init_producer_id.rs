//! InitProducerId: an id for an idempotent producer.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId},
};

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken},
    context::Context,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: InitProducerIdRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let allowed = match request.transactional_id.as_ref() {
        Some(id) => rights.transactional_id(Operation::Write, id),
        None => rights.idempotent_producer(),
    };
    if let Err(code) = allowed {
        return refuse(reply, code);
    }
    match request.transactional_id.as_ref().map(|id| id.as_str()) {
        Some("") => return refuse(reply, ErrorCode::InvalidRequest),
        // There are no transactions yet. This code is final for every client, and true.
        Some(_) => return refuse(reply, ErrorCode::UnsupportedVersion),
        None => {}
    }
    let context = Arc::clone(context);
    // A new block of ids may have to come from the metadata store.
    Taken::later(async move { give_id(&context, reply).await })
}

fn refuse(reply: Reply, code: ErrorCode) -> Outcome {
    Ok(Taken::Now(refusal(reply, code)))
}

fn refusal(reply: Reply, code: ErrorCode) -> Answer {
    let response = InitProducerIdResponse::default()
        .with_error_code(code.code())
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    reply.with(&response, code.code())
}

async fn give_id(context: &Context, reply: Reply) -> Answer {
    match context.producer_ids.next().await {
        Ok(id) => {
            let response = InitProducerIdResponse::default()
                .with_producer_id(ProducerId(id))
                .with_producer_epoch(0);
            reply.with(&response, NONE)
        }
        Err(error) => {
            tracing::warn!(%error, "no producer ids");
            refusal(reply, ErrorCode::CoordinatorNotAvailable)
        }
    }
}
