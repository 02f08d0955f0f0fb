//! SaslAuthenticate: one token of the client, one of the server (KIP-152, KIP-368).

use std::sync::Arc;

use bytes::Bytes;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{SaslAuthenticateRequest, SaslAuthenticateResponse},
    service::CloseReason,
};
use tokio::time::sleep;

use crate::{
    call::{Call, Outcome, Taken},
    context::{Context, text},
    sign_in::{REFUSAL_DELAY, SignedIn},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: SaslAuthenticateRequest = decode(&call.request)?;
    let reply = call.reply();
    let Some(listener) = context.sign_in.listener(&call.peer) else {
        let error = ErrorCode::IllegalSaslState.code();
        let message = "this listener does not authenticate by SASL";
        let response = SaslAuthenticateResponse::default()
            .with_error_code(error)
            .with_error_message(Some(text(message)));
        return reply.now(&response, error);
    };
    let now = context.now();
    match context
        .sign_in
        .authenticate(&call.peer, listener, &request.auth_bytes, now)
    {
        Ok(SignedIn { token, lifetime }) => {
            let lifetime_ms = lifetime.filter(|_| reply.version >= FIRST_WITH_LIFETIME);
            let lifetime_ms = lifetime_ms.map_or(0, |time| time.as_millis());
            let response = SaslAuthenticateResponse::default()
                .with_auth_bytes(Bytes::from(token))
                .with_session_lifetime_ms(i64::try_from(lifetime_ms).unwrap_or(i64::MAX));
            reply.now(&response, NONE)
        }
        Err(error) => {
            let code = ErrorCode::SaslAuthenticationFailed.code();
            let response = SaslAuthenticateResponse::default()
                .with_error_code(code)
                .with_error_message(Some(text(error.to_string())));
            let answer = reply.with(&response, code);
            let refusal = async {
                sleep(REFUSAL_DELAY).await;
                answer
            };
            let reason = CloseReason::AuthenticationFailed(error.to_string());
            Ok(Taken::Last(Box::pin(refusal), reason))
        }
    }
}

/// The first version that tells how long the session lasts (KIP-368).
const FIRST_WITH_LIFETIME: i16 = 1;
