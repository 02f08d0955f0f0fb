//! CreateDelegationToken: a token for the client, or for another user where it may create those (KIP-48, KIP-373).

use std::{future::ready, sync::Arc};

use bytes::Bytes;
use millrace_security::{
    Principal,
    acl::{Operation, ResourceType},
    delegation::{DelegationToken, IssuedToken},
};
use millrace_wire::{
    StrBytes, decode,
    error_code::{ErrorCode, NONE},
    messages::{CreateDelegationTokenRequest, CreateDelegationTokenResponse},
    service::BoxFuture,
};

use crate::{
    authorization::{Changed, Rights},
    call::{Call, Outcome, Taken, code_of},
    context::{Context, text},
    delegation_tokens::{Named, parts, requester},
};

/// The first version that tells who has requested a token.
pub(super) const FIRST_WITH_REQUESTER: i16 = 3;

/// The times of a token that was not created, or whose client may not ask for tokens.
pub(super) const NO_TIME: i64 = -1;

type Created = Result<IssuedToken, ErrorCode>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: CreateDelegationTokenRequest = decode(&call.request)?;
    let reply = call.reply();
    let named = owner(&request).map(|(kind, name)| (kind.clone(), name.clone()));
    let client = client(&call);
    let creating = create(
        context,
        context.rights(&call),
        requester(&call.peer),
        request,
    )
    .await;
    Taken::later(async move {
        let created = creating.await;
        let own = parts(&client);
        let of = named
            .as_ref()
            .map_or(own, |(kind, name)| (&**kind, &**name));
        let mut response = CreateDelegationTokenResponse::default()
            .with_principal_type(text(of.0))
            .with_principal_name(text(of.1));
        if reply.version >= FIRST_WITH_REQUESTER {
            response.token_requester_principal_type = text(own.0);
            response.token_requester_principal_name = text(own.1);
        }
        let error = code_of(&created);
        reply.with(&told(response.with_error_code(error), &created), error)
    })
}

fn told(
    response: CreateDelegationTokenResponse,
    created: &Created,
) -> CreateDelegationTokenResponse {
    let (issued_ms, expires_ms, max_ms) = match created {
        Ok(issued) => {
            let token = &issued.token;
            (token.issued_ms, token.expires_ms, token.max_ms)
        }
        Err(_) => (NO_TIME, NO_TIME, NO_TIME),
    };
    let response = response
        .with_issue_timestamp_ms(issued_ms)
        .with_expiry_timestamp_ms(expires_ms)
        .with_max_timestamp_ms(max_ms);
    match created {
        Ok(issued) => response
            .with_token_id(text(issued.token.id.as_str()))
            .with_hmac(Bytes::copy_from_slice(issued.hmac())),
        Err(_) => response,
    }
}

/// The owner that a request names, if it does.
fn owner(request: &CreateDelegationTokenRequest) -> Option<(&StrBytes, &StrBytes)> {
    static NO_TYPE: StrBytes = StrBytes::from_static_str("");
    let name = request.owner_principal_name.as_ref();
    let name = name.filter(|name| !name.is_empty())?;
    Some((
        request.owner_principal_type.as_ref().unwrap_or(&NO_TYPE),
        name,
    ))
}

/// Who asks, whether it may or not.
fn client(call: &Call) -> Principal {
    let principal = call.peer.identity.principal();
    let principal = principal.and_then(|principal| principal.parse().ok());
    principal.unwrap_or_else(Principal::anonymous)
}

/// Takes the creation into the queue of changes.
async fn create(
    context: &Context,
    rights: Rights,
    requester: Option<Principal>,
    request: CreateDelegationTokenRequest,
) -> BoxFuture<'static, Created> {
    let refuse = |code| -> BoxFuture<'static, Created> { Box::pin(ready(Err(code))) };
    let Some(requester) = requester else {
        return refuse(ErrorCode::DelegationTokenRequestNotAllowed);
    };
    if let Some((kind, name)) = owner(&request) {
        let of = format!("{}:{}", &**kind, &**name);
        let own = of == requester.as_str();
        if !own && !rights.allows(Operation::CreateTokens, ResourceType::User, &of) {
            return refuse(ErrorCode::DelegationTokenAuthorizationFailed);
        }
    }
    let Some(changes) = context.token_changes.clone() else {
        return refuse(ErrorCode::DelegationTokenAuthDisabled);
    };
    let change = async move {
        let renewers = request.renewers.iter().map(|renewer| Named {
            kind: &renewer.principal_type,
            name: &renewer.principal_name,
        });
        let renewers: Vec<_> = renewers.collect();
        let named = owner(&request).map(|(kind, name)| Named { kind, name });
        let created = changes.create(requester, named, &renewers, request.max_lifetime_ms);
        let created = created.await;
        if let Ok(issued) = &created {
            let created = audited(&issued.token);
            rights.audit(Operation::Create, Changed::DelegationToken, &created, NONE);
        }
        created
    };
    context.security_changes.enqueue(change).await
}

/// A new token in the audit log: `<id> of User:alice; renewers (1): User:bob`. The number tells whether a long text was
/// cut.
fn audited(token: &DelegationToken) -> String {
    let DelegationToken {
        id,
        owner,
        renewers,
        ..
    } = token;
    let count = renewers.len();
    let renewers: Vec<&str> = renewers.iter().map(Principal::as_str).collect();
    match count {
        0 => format!("{id} of {owner}"),
        _ => format!(
            "{id} of {owner}; renewers ({count}): {}",
            renewers.join(", ")
        ),
    }
}
