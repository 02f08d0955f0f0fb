//! CreateAcls: each ACL succeeds or fails on its own. One that exists is not an error.

use std::sync::Arc;

use millrace_security::acl::{Operation, Rule, RuleCodes};
use millrace_wire::{
    decode,
    messages::{
        CreateAclsRequest, CreateAclsResponse, create_acls_request::AclCreation,
        create_acls_response::AclCreationResult,
    },
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
    let (context, reply) = (Arc::clone(context), call.reply());
    let rights = context.rights(&call);
    Taken::later(async move {
        let asked: Vec<RuleCodes<String>> = request.creations.into_iter().map(codes).collect();
        let created = create(&context, &rights, asked).await;
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

async fn create(
    context: &Context,
    rights: &Rights,
    asked: Vec<RuleCodes<String>>,
) -> Vec<Result<Rule, Refused>> {
    let refuse_all = |refused: Refused| vec![Err(refused); asked.len()];
    if let Err(code) = rights.cluster(Operation::Alter) {
        return refuse_all(code.into());
    }
    match &context.acl_changes {
        Some(changes) => {
            let created = changes.create(asked).await;
            created.iter().flatten().for_each(|rule| {
                rights.audit_acl(Operation::Create, rule);
            });
            created
        }
        None => refuse_all(no_authorizer()),
    }
}
