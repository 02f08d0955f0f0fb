//! SaslHandshake: the client chooses a mechanism (KIP-43).

use std::sync::Arc;

use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{SaslHandshakeRequest, SaslHandshakeResponse},
    service::CloseReason,
};

use crate::{
    call::{Call, Outcome, Taken},
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: SaslHandshakeRequest = decode(&call.request)?;
    let reply = call.reply();
    let Some(listener) = context.sign_in.expects_handshake(&call.peer) else {
        let error = ErrorCode::IllegalSaslState.code();
        let response = SaslHandshakeResponse::default().with_error_code(error);
        return reply.now(&response, error);
    };
    let mechanisms = listener.mechanisms.iter().map(|one| text(one.name()));
    let response = SaslHandshakeResponse::default().with_mechanisms(mechanisms.collect());
    let sign_in = &context.sign_in;
    let chosen = sign_in.handshake(&call.peer, listener, &request.mechanism, reply.version);
    let Err((code, problem)) = chosen else {
        return reply.now(&response, NONE);
    };
    let answer = reply.with(&response.with_error_code(code.code()), code.code());
    let reason = CloseReason::AuthenticationFailed(problem.to_string());
    Ok(Taken::Last(Box::pin(async { answer }), reason))
}
