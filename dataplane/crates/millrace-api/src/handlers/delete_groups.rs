//! DeleteGroups: groups without members, with their offsets.

use std::sync::Arc;

use futures_util::future::join_all;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{
        DeleteGroupsRequest, DeleteGroupsResponse, delete_groups_response::DeletableGroupResult,
    },
};

use crate::{
    authorization::Changed,
    call::{Call, Outcome, Taken, code_of, first_error},
    code,
    context::Context,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DeleteGroupsRequest = decode(&call.request)?;
    let reply = call.reply();
    // Their order is decided now; what is waited for is durability.
    let rights = context.rights(&call);
    let deleting: Vec<_> = request
        .groups_names
        .into_iter()
        .map(|id| {
            let allowed = rights.group(Operation::Delete, &id);
            (
                allowed.map(|()| context.groups.delete(&id)),
                id,
                rights.clone(),
            )
        })
        .map(|(deleting, id, rights)| async move {
            let deleted = match deleting {
                Ok(deleting) => deleting.await.map_err(|error| code::of_group(&error)),
                Err(code) => Err(code),
            };
            let error = code_of(&deleted);
            rights.audit(Operation::Delete, Changed::Group, &id, error);
            DeletableGroupResult::default()
                .with_group_id(id)
                .with_error_code(error)
        })
        .collect();
    Taken::later(async move {
        let results = join_all(deleting).await;
        let error = first_error(results.iter().map(|result| result.error_code));
        reply.with(
            &DeleteGroupsResponse::default().with_results(results),
            error,
        )
    })
}
