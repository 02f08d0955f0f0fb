//! CreateAcls: each ACL succeeds or fails on its own. One that exists is not an error.

use std::{future::ready, sync::Arc};

use millrace_security::acl::{Operation, Rule, RuleCodes};
use millrace_wire::{
    decode,
    messages::{
        CreateAclsRequest, CreateAclsResponse, create_acls_request::AclCreation,
        create_acls_response::AclCreationResult,
    },
    service::BoxFuture,
};

use super::describe_acls::no_authorizer;
use crate::{
    authorization::Rights,
    call::{Call, Outcome, Taken, first_error},
    context::Context,
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: CreateAclsRequest = decode(&call.request)?;
    let reply = call.reply();
    let asked = request.creations.into_iter().map(codes).collect();
    let creating = create(context, context.rights(&call), asked).await;
    Taken::later(async move {
        let created = creating.await;
        let result = |created: &Result<Rule, Refused>| {
            let (error, message) = Refused::parts(created);
            AclCreationResult::default()
                .with_error_code(error)
                .with_error_message(message)
        };
        let results: Vec<_> = created.iter().map(result).collect();
        let error = first_error(results.iter().map(|result| result.error_code));
        let response = CreateAclsResponse::default().with_results(results);
        reply.with(&response, error)
    })
}

fn codes(asked: AclCreation) -> RuleCodes<String> {
    RuleCodes {
        resource_type: asked.resource_type,
        resource_name: asked.resource_name.to_string(),
        pattern: asked.resource_pattern_type,
        principal: asked.principal.to_string(),
        host: asked.host.to_string(),
        operation: asked.operation,
        permission: asked.permission_type,
    }
}

/// Takes the creation into the queue of changes; resolves with what became of each ACL.
async fn create(
    context: &Context,
    rights: Rights,
    asked: Vec<RuleCodes<String>>,
) -> BoxFuture<'static, Vec<Result<Rule, Refused>>> {
    let refuse_all = |refused: Refused| -> BoxFuture<'static, _> {
        Box::pin(ready(vec![Err(refused); asked.len()]))
    };
    if let Err(code) = rights.cluster(Operation::Alter) {
        return refuse_all(code.into());
    }
    let Some(changes) = context.acl_changes.clone() else {
        return refuse_all(no_authorizer());
    };
    let change = async move {
        let created = changes.create(asked).await;
        created.iter().flatten().for_each(|rule| {
            rights.audit_acl(Operation::Create, rule);
        });
        created
    };
    context.security_changes.enqueue(change).await
}
