//! EndTxn: a transaction is committed or aborted. Answered when the decision is durable; the markers follow.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{EndTxnRequest, EndTxnResponse, ProducerId},
};

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken},
    code,
    context::Context,
};

/// The first version whose clients know that their producer was fenced.
const FIRST_WITH_FENCED: i16 = 2;
/// The first version of clients whose epoch grows with each transaction (transaction protocol version 2).
const FIRST_OF_PROTOCOL_2: i16 = 5;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: EndTxnRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let id = &request.transactional_id;
    if let Err(code) = rights.transactional_id(Operation::Write, id) {
        return Ok(Taken::Now(refusal(reply, code)));
    }
    let protocol = if reply.version >= FIRST_OF_PROTOCOL_2 {
        2
    } else {
        1
    };
    let context = Arc::clone(context);
    Taken::later(async move {
        let id = &request.transactional_id;
        let producer = (request.producer_id.0, request.producer_epoch);
        let ending = context
            .transactions
            .end(id, producer, request.committed, protocol);
        match ending.await {
            Ok((producer_id, epoch)) => {
                let response = EndTxnResponse::default();
                let response = match reply.version >= FIRST_OF_PROTOCOL_2 {
                    true => response
                        .with_producer_id(ProducerId(producer_id))
                        .with_producer_epoch(epoch),
                    false => response,
                };
                reply.with(&response, NONE)
            }
            Err(error) => refusal(reply, code::of_transaction(&error)),
        }
    })
}

fn refusal(reply: Reply, code: ErrorCode) -> Answer {
    let code = code::fenced_as_known(code, reply.version, FIRST_WITH_FENCED).code();
    reply.with(&EndTxnResponse::default().with_error_code(code), code)
}
