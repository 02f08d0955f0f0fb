//! DescribeAcls: the ACLs that a filter finds, by their resources.

use std::sync::Arc;

use millrace_security::acl::{Operation, Rule, RuleCodes};
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DescribeAclsRequest, DescribeAclsResponse,
        describe_acls_response::{AclDescription, DescribeAclsResource},
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeAclsRequest = decode(&call.request)?;
    let found = match context.rights(&call).cluster(Operation::Describe) {
        Ok(()) => find(context, request),
        Err(code) => Err(code.into()),
    };
    let (error, message) = Refused::parts(&found);
    let response = DescribeAclsResponse::default()
        .with_error_code(error)
        .with_error_message(message)
        .with_resources(by_resource(found.unwrap_or_default()));
    call.reply().now(&response, error)
}

fn find(context: &Context, request: DescribeAclsRequest) -> Result<Vec<Rule>, Refused> {
    let changes = context.acl_changes.as_ref().ok_or_else(no_authorizer)?;
    let codes = RuleCodes {
        resource_type: request.resource_type_filter,
        resource_name: request.resource_name_filter.map(|name| name.to_string()),
        pattern: request.pattern_type_filter,
        principal: request.principal_filter.map(|name| name.to_string()),
        host: request.host_filter.map(|host| host.to_string()),
        operation: request.operation,
        permission: request.permission_type,
    };
    let filter = codes.check_filter();
    let filter =
        filter.map_err(|error| Refused::new(ErrorCode::InvalidRequest, error.to_string()))?;
    Ok(changes.find(&filter))
}

/// What the APIs of ACLs answer where ACLs have no effect.
pub(super) fn no_authorizer() -> Refused {
    let message = "No Authorizer is configured on the broker. Set authorizer.class.name.";
    Refused::new(ErrorCode::SecurityDisabled, message)
}

/// Rules come in the order of their resources.
fn by_resource(rules: Vec<Rule>) -> Vec<DescribeAclsResource> {
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for rule in rules {
        let RuleCodes {
            resource_type,
            resource_name,
            pattern,
            principal,
            host,
            operation,
            permission,
        } = rule.codes();
        let acl = AclDescription::default()
            .with_principal(text(principal))
            .with_host(text(host))
            .with_operation(operation)
            .with_permission_type(permission);
        match resources.last_mut() {
            Some(last)
                if last.resource_type == resource_type
                    && last.resource_name.as_str() == resource_name
                    && last.pattern_type == pattern =>
            {
                last.acls.push(acl);
            }
            _ => resources.push(
                DescribeAclsResource::default()
                    .with_resource_type(resource_type)
                    .with_resource_name(text(resource_name))
                    .with_pattern_type(pattern)
                    .with_acls(vec![acl]),
            ),
        }
    }
    resources
}
