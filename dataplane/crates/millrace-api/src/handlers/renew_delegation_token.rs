//! RenewDelegationToken: a token lasts longer, up to its maximum lifetime (KIP-48).

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{RenewDelegationTokenRequest, RenewDelegationTokenResponse},
};

use super::expire_delegation_token::change;
use crate::{
    call::{Call, Outcome, Taken, code_of},
    context::Context,
    delegation_tokens::TokenChange,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: RenewDelegationTokenRequest = decode(&call.request)?;
    let reply = call.reply();
    let renewal = TokenChange::Renew(request.renew_period_ms);
    let renewing = change(context, &call, Operation::Alter, request.hmac, renewal).await;
    Taken::later(async move {
        let (expires_ms, renewed) = renewing.await;
        let error = code_of(&renewed);
        let response = RenewDelegationTokenResponse::default()
            .with_error_code(error)
            .with_expiry_timestamp_ms(expires_ms);
        reply.with(&response, error)
    })
}
