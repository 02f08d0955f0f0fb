//! DeleteGroups: groups without members, with their offsets.

use std::sync::Arc;

use futures_util::future::join_all;
use millrace_wire::{
    decode,
    messages::{
        DeleteGroupsRequest, DeleteGroupsResponse, delete_groups_response::DeletableGroupResult,
    },
};

use crate::{
    call::{Call, Outcome, Taken, code_of, first_error},
    code,
    context::Context,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DeleteGroupsRequest = decode(&call.request)?;
    let reply = call.reply();
    // Their order is decided now; what is waited for is durability.
    let deleting: Vec<_> = request
        .groups_names
        .into_iter()
        .map(|id| (context.groups.delete(&id), id))
        .map(|(deleted, id)| async {
            let error = code_of(&deleted.await.map_err(|error| code::of_group(&error)));
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
