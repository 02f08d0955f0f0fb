//! ExpireDelegationToken: a token expires at another time, or at once (KIP-48).

use std::{future::ready, sync::Arc};

use bytes::Bytes;
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{ExpireDelegationTokenRequest, ExpireDelegationTokenResponse},
    service::BoxFuture,
};

use super::create_delegation_token::NO_TIME;
use crate::{
    authorization::Changed,
    call::{Call, Outcome, Taken, code_of},
    context::Context,
    delegation_tokens::{NotChanged, TokenChange, requester},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ExpireDelegationTokenRequest = decode(&call.request)?;
    let reply = call.reply();
    let (operation, expiry) = match request.expiry_time_period_ms {
        period @ ..0 => (Operation::Delete, TokenChange::Expire(period)),
        period => (Operation::Alter, TokenChange::Expire(period)),
    };
    let expiring = change(context, &call, operation, request.hmac, expiry).await;
    Taken::later(async move {
        let (expires_ms, expired) = expiring.await;
        let error = code_of(&expired);
        let response = ExpireDelegationTokenResponse::default()
            .with_error_code(error)
            .with_expiry_timestamp_ms(expires_ms);
        reply.with(&response, error)
    })
}

/// When a token expires now, or what is told instead with the error.
type Expiry = (i64, Result<(), ErrorCode>);

/// Takes the change into the queue of changes.
pub(super) async fn change(
    context: &Context,
    call: &Call,
    operation: Operation,
    hmac: Bytes,
    change: TokenChange,
) -> BoxFuture<'static, Expiry> {
    let refuse = |time, code| -> BoxFuture<'static, Expiry> { Box::pin(ready((time, Err(code)))) };
    let Some(client) = requester(&call.peer) else {
        return refuse(NO_TIME, ErrorCode::DelegationTokenRequestNotAllowed);
    };
    let Some(changes) = context.token_changes.clone() else {
        return refuse(0, ErrorCode::DelegationTokenAuthDisabled);
    };
    let rights = context.rights(call);
    let change = async move {
        let revokes = || rights.revokes_tokens();
        match changes.change(&client, &hmac, change, revokes).await {
            Ok((id, expires_ms)) => {
                rights.audit(operation, Changed::DelegationToken, &id, NONE);
                (expires_ms, Ok(()))
            }
            Err(NotChanged { code, id }) => {
                match (code, id) {
                    (ErrorCode::DelegationTokenOwnerMismatch, Some(id)) => {
                        rights.denied(operation, ResourceType::DelegationToken, &id);
                    }
                    (_, Some(id)) => {
                        rights.audit(operation, Changed::DelegationToken, &id, code.code());
                    }
                    (_, None) => {}
                }
                (0, Err(code))
            }
        }
    };
    context.security_changes.enqueue(change).await
}
