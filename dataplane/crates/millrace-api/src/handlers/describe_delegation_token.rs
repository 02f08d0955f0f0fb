//! DescribeDelegationToken: the tokens that concern the client or that it may describe, with their HMACs (KIP-48).

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use millrace_security::{
    Principal,
    acl::{Operation, ResourceType},
    delegation::{DelegationToken, IssuedToken},
};
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        DescribeDelegationTokenRequest, DescribeDelegationTokenResponse,
        describe_delegation_token_response::{
            DescribedDelegationToken, DescribedDelegationTokenRenewer,
        },
    },
};

use super::create_delegation_token::FIRST_WITH_REQUESTER;
use crate::{
    authorization::Rights,
    call::{Call, Outcome},
    context::{Context, text},
    delegation_tokens::{parts, requester},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeDelegationTokenRequest = decode(&call.request)?;
    let reply = call.reply();
    let found = find(context, &call, request);
    let error = found.as_ref().err().map_or(NONE, ErrorCode::code);
    let tokens = found.unwrap_or_default().into_iter();
    let tokens = tokens.map(|issued| described(&issued, reply.version));
    let response = DescribeDelegationTokenResponse::default()
        .with_error_code(error)
        .with_tokens(tokens.collect());
    reply.now(&response, error)
}

fn find(
    context: &Context,
    call: &Call,
    request: DescribeDelegationTokenRequest,
) -> Result<Vec<IssuedToken>, ErrorCode> {
    let not_allowed = ErrorCode::DelegationTokenRequestNotAllowed;
    let client = requester(&call.peer).ok_or(not_allowed)?;
    let changes = context.token_changes.as_ref();
    let tokens = changes
        .ok_or(ErrorCode::DelegationTokenAuthDisabled)?
        .tokens();
    let rights = context.rights(call);
    let Some(asked) = request.owners else {
        // Everybody's.
        return Ok(tokens.list(|token| may_look(&rights, &client, token)));
    };
    // What is no principal has no tokens.
    let principal = |kind: &str, name: &str| format!("{kind}:{name}").parse().ok();
    let owners = asked.iter();
    let owners = owners.filter_map(|owner| principal(&owner.principal_type, &owner.principal_name));
    let owners: HashSet<Principal> = owners.collect();
    Ok(tokens.list(|token| token.concerns_one_of(&owners) && may_look(&rights, &client, token)))
}

fn may_look(rights: &Rights, client: &Principal, token: &DelegationToken) -> bool {
    let allowed = |operation, kind, name: &str| rights.allows_quietly(operation, kind, name);
    token.concerns(client)
        || allowed(
            Operation::Describe,
            ResourceType::DelegationToken,
            &token.id,
        )
        || allowed(
            Operation::DescribeTokens,
            ResourceType::User,
            token.owner.as_str(),
        )
}

fn described(issued: &IssuedToken, version: i16) -> DescribedDelegationToken {
    let token = &issued.token;
    let (owner, requester) = (parts(&token.owner), parts(&token.requester));
    let renewer = |principal: &Principal| {
        let (kind, name) = parts(principal);
        DescribedDelegationTokenRenewer::default()
            .with_principal_type(text(kind))
            .with_principal_name(text(name))
    };
    let mut described = DescribedDelegationToken::default()
        .with_principal_type(text(owner.0))
        .with_principal_name(text(owner.1))
        .with_issue_timestamp(token.issued_ms)
        .with_expiry_timestamp(token.expires_ms)
        .with_max_timestamp(token.max_ms)
        .with_token_id(text(token.id.as_str()))
        .with_hmac(Bytes::copy_from_slice(issued.hmac()))
        .with_renewers(token.renewers.iter().map(renewer).collect());
    if version >= FIRST_WITH_REQUESTER {
        described.token_requester_principal_type = text(requester.0);
        described.token_requester_principal_name = text(requester.1);
    }
    described
}
