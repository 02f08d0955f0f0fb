//! `/v1/acls`: access control lists. Names of types are Kafka's in lower case.

use std::fmt::Debug;

use axum::{
    Json,
    extract::{Query, Request, State, rejection::QueryRejection},
    http::StatusCode,
};
use millrace_security::acl::{Operation, PatternType, Permission, ResourceType, RuleCodes};
use millrace_wire::{
    StrBytes,
    messages::{
        CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest,
        create_acls_request::AclCreation, delete_acls_request::DeleteAclsFilter,
    },
};
use serde::{Deserialize, Serialize};

use super::{
    AdminState,
    kafka::{Refused, ask, body, check},
};

/// Kafka's codes for filters: everything, and every pattern that fits a name.
const ANY: i8 = 1;
const MATCH: i8 = 2;

/// One rule.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acl {
    principal: String,
    resource_type: String,
    resource_name: String,
    pattern_type: String,
    operation: String,
    permission: String,
    host: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Acls {
    acls: Vec<Acl>,
}

/// Which rules: an absent field is any. The pattern type `match` finds every rule that speaks of the name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AclFilter {
    principal: Option<String>,
    resource_type: Option<String>,
    resource_name: Option<String>,
    pattern_type: Option<String>,
    operation: Option<String>,
    permission: Option<String>,
    host: Option<String>,
}

/// `GET /v1/acls`
pub(super) async fn list(
    State(state): State<AdminState>,
    filter: Result<Query<AclFilter>, QueryRejection>,
) -> Result<Json<Acls>, Refused> {
    let codes = filter_codes(filter?.0)?;
    let request = DescribeAclsRequest::default()
        .with_resource_type_filter(codes.resource_type)
        .with_resource_name_filter(codes.resource_name)
        .with_pattern_type_filter(codes.pattern)
        .with_principal_filter(codes.principal)
        .with_host_filter(codes.host)
        .with_operation(codes.operation)
        .with_permission_type(codes.permission);
    let response = ask(&state, &request).await?;
    check(response.error_code, response.error_message.as_ref())?;
    let acls = response.resources.into_iter().flat_map(|resource| {
        let named = resource.acls.into_iter();
        named.map(move |acl| {
            shown(RuleCodes {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.to_string(),
                pattern: resource.pattern_type,
                principal: acl.principal.to_string(),
                host: acl.host.to_string(),
                operation: acl.operation,
                permission: acl.permission_type,
            })
        })
    });
    Ok(Json(Acls {
        acls: acls.collect(),
    }))
}

/// `POST /v1/acls`: adds all of these rules or none. One that is there already stays.
pub(super) async fn create(
    State(state): State<AdminState>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let Acls { acls } = body(request).await?;
    if acls.is_empty() {
        return Err(Refused::invalid("name at least one ACL in acls"));
    }
    // Kafka's API adds the legal ones of several.
    let legal = |(at, acl): (usize, Acl)| {
        let codes = rule_codes(acl)?;
        let checked = codes.clone().check();
        checked.map_err(|error| Refused::invalid(format!("acls[{at}]: {error}")))?;
        Ok(creation(codes))
    };
    let creations: Result<Vec<_>, Refused> = acls.into_iter().enumerate().map(legal).collect();
    let request = CreateAclsRequest::default().with_creations(creations?);
    for result in ask(&state, &request).await?.results {
        check(result.error_code, result.error_message.as_ref())?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Serialize)]
pub(super) struct Deleted {
    /// Whether the rule was there.
    deleted: bool,
}

/// `DELETE /v1/acls`: the one rule with exactly these fields, which must all be given.
pub(super) async fn delete(
    State(state): State<AdminState>,
    acl: Result<Query<Acl>, QueryRejection>,
) -> Result<Json<Deleted>, Refused> {
    let codes = rule_codes(acl?.0)?;
    let checked = codes.clone().check();
    checked.map_err(|error| Refused::invalid(error.to_string()))?;
    let filter = DeleteAclsFilter::default()
        .with_resource_type_filter(codes.resource_type)
        .with_resource_name_filter(Some(text(codes.resource_name)))
        .with_pattern_type_filter(codes.pattern)
        .with_principal_filter(Some(text(codes.principal)))
        .with_host_filter(Some(text(codes.host)))
        .with_operation(codes.operation)
        .with_permission_type(codes.permission);
    let request = DeleteAclsRequest::default().with_filters(vec![filter]);
    let mut deleted = false;
    for result in ask(&state, &request).await?.filter_results {
        check(result.error_code, result.error_message.as_ref())?;
        deleted |= !result.matching_acls.is_empty();
    }
    Ok(Json(Deleted { deleted }))
}

fn creation(codes: RuleCodes<String>) -> AclCreation {
    AclCreation::default()
        .with_resource_type(codes.resource_type)
        .with_resource_name(text(codes.resource_name))
        .with_resource_pattern_type(codes.pattern)
        .with_principal(text(codes.principal))
        .with_host(text(codes.host))
        .with_operation(codes.operation)
        .with_permission_type(codes.permission)
}

fn rule_codes(acl: Acl) -> Result<RuleCodes<String>, Refused> {
    Ok(RuleCodes {
        resource_type: code(ResourceType::ALL_KINDS, "resource_type", &acl.resource_type)?,
        resource_name: acl.resource_name,
        pattern: code(PatternType::ALL_KINDS, "pattern_type", &acl.pattern_type)?,
        principal: acl.principal,
        host: acl.host,
        operation: code(Operation::ALL_KINDS, "operation", &acl.operation)?,
        permission: code(Permission::ALL_KINDS, "permission", &acl.permission)?,
    })
}

fn filter_codes(filter: AclFilter) -> Result<RuleCodes<Option<StrBytes>>, Refused> {
    let pattern = match filter.pattern_type.as_deref() {
        Some("match") => MATCH,
        other => code_or_any(PatternType::ALL_KINDS, "pattern_type", other)?,
    };
    let kind = filter.resource_type.as_deref();
    let operation = filter.operation.as_deref();
    let permission = filter.permission.as_deref();
    Ok(RuleCodes {
        resource_type: code_or_any(ResourceType::ALL_KINDS, "resource_type", kind)?,
        resource_name: filter.resource_name.map(text),
        pattern,
        principal: filter.principal.map(text),
        host: filter.host.map(text),
        operation: code_or_any(Operation::ALL_KINDS, "operation", operation)?,
        permission: code_or_any(Permission::ALL_KINDS, "permission", permission)?,
    })
}

fn code_or_any<T: Coded>(kinds: &[T], field: &str, asked: Option<&str>) -> Result<i8, Refused> {
    asked.map_or(Ok(ANY), |asked| code(kinds, field, asked))
}

fn code<T: Coded>(kinds: &[T], field: &str, asked: &str) -> Result<i8, Refused> {
    let found = kinds.iter().find(|kind| name(**kind) == asked);
    found.map(|kind| kind.number()).ok_or_else(|| {
        let names: Vec<String> = kinds.iter().map(|kind| name(*kind)).collect();
        Refused::invalid(format!(
            "{field}: {asked:?} is not one of {}",
            names.join(", ")
        ))
    })
}

fn shown(codes: RuleCodes<String>) -> Acl {
    Acl {
        principal: codes.principal,
        resource_type: name_of(ResourceType::ALL_KINDS, codes.resource_type),
        resource_name: codes.resource_name,
        pattern_type: name_of(PatternType::ALL_KINDS, codes.pattern),
        operation: name_of(Operation::ALL_KINDS, codes.operation),
        permission: name_of(Permission::ALL_KINDS, codes.permission),
        host: codes.host,
    }
}

fn name_of<T: Coded>(kinds: &[T], code: i8) -> String {
    let found = kinds.iter().find(|kind| kind.number() == code);
    found.map_or_else(|| code.to_string(), |kind| name(*kind))
}

/// `TransactionalId` → `transactional_id`.
fn name(kind: impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// A kind with Kafka's number.
trait Coded: Copy + Debug {
    fn number(self) -> i8;
}

macro_rules! coded {
    ($($kind:ty),*) => {
        $(impl Coded for $kind {
            fn number(self) -> i8 {
                self.code()
            }
        })*
    };
}

coded!(ResourceType, PatternType, Operation, Permission);

fn text(text: String) -> StrBytes {
    StrBytes::from_string(text)
}
