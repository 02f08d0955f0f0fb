//! DeleteAcls: deletes what filters find, and tells what that was.

use std::{future::ready, sync::Arc};

use millrace_security::acl::{Filter, Operation, Rule, RuleCodes};
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DeleteAclsRequest, DeleteAclsResponse,
        delete_acls_request::DeleteAclsFilter,
        delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl},
    },
    service::BoxFuture,
};

use super::describe_acls::no_authorizer;
use crate::{
    authorization::Rights,
    call::{Call, Outcome, Taken, first_error},
    context::{Context, text},
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DeleteAclsRequest = decode(&call.request)?;
    let reply = call.reply();
    let filters = request.filters.into_iter().map(filter).collect();
    let deleting = delete(context, context.rights(&call), filters).await;
    Taken::later(async move {
        let results: Vec<_> = deleting.await.into_iter().map(result).collect();
        let error = first_error(results.iter().map(|result| result.error_code));
        let response = DeleteAclsResponse::default().with_filter_results(results);
        reply.with(&response, error)
    })
}

fn filter(asked: DeleteAclsFilter) -> Result<Filter, Refused> {
    let codes = RuleCodes {
        resource_type: asked.resource_type_filter,
        resource_name: asked.resource_name_filter.map(|name| name.to_string()),
        pattern: asked.pattern_type_filter,
        principal: asked.principal_filter.map(|name| name.to_string()),
        host: asked.host_filter.map(|host| host.to_string()),
        operation: asked.operation,
        permission: asked.permission_type,
    };
    let filter = codes.check_filter();
    filter.map_err(|error| Refused::new(ErrorCode::InvalidRequest, error.to_string()))
}

/// Takes the deletion into the queue of changes; resolves with what each filter has found.
async fn delete(
    context: &Context,
    rights: Rights,
    filters: Vec<Result<Filter, Refused>>,
) -> BoxFuture<'static, Vec<Result<Vec<Rule>, Refused>>> {
    let refuse_all = |refused: Refused| -> BoxFuture<'static, _> {
        Box::pin(ready(vec![Err(refused); filters.len()]))
    };
    if let Err(code) = rights.cluster(Operation::Alter) {
        return refuse_all(code.into());
    }
    let Some(changes) = context.acl_changes.clone() else {
        return refuse_all(no_authorizer());
    };
    let change = async move {
        let deleted = changes.delete(filters).await;
        deleted.iter().flatten().flatten().for_each(|rule| {
            rights.audit_acl(Operation::Delete, rule);
        });
        deleted
    };
    context.security_changes.enqueue(change).await
}

fn result(deleted: Result<Vec<Rule>, Refused>) -> DeleteAclsFilterResult {
    let (error, message) = Refused::parts(&deleted);
    let matching = |rule: Rule| {
        let codes = rule.codes();
        DeleteAclsMatchingAcl::default()
            .with_resource_type(codes.resource_type)
            .with_resource_name(text(codes.resource_name))
            .with_pattern_type(codes.pattern)
            .with_principal(text(codes.principal))
            .with_host(text(codes.host))
            .with_operation(codes.operation)
            .with_permission_type(codes.permission)
    };
    let matching = deleted.unwrap_or_default().into_iter().map(matching);
    DeleteAclsFilterResult::default()
        .with_error_code(error)
        .with_error_message(message)
        .with_matching_acls(matching.collect())
}
