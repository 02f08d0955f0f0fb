//! ACLs in the cluster: created, found and deleted by a client, and kept over a restart.

use std::{collections::HashSet, time::Duration};

use futures_util::FutureExt as _;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterUserScramCredentialsRequest, CreateAclsRequest,
    DeleteAclsRequest, DescribeAclsRequest, create_acls_request::AclCreation,
    delete_acls_request::DeleteAclsFilter,
};
use millrace_security::{
    Principal,
    acl::{AuthorizerConfig, RULES_MAX},
};
use millrace_time::SystemClock;

use crate::{
    client_quotas::entry,
    delegation_tokens::token_config,
    scram::{describe, upsertion},
    world::{Sent, Settings, World, text},
};

const NONE: i16 = 0;
const INVALID_REQUEST: i16 = 42;
const POLICY_VIOLATION: i16 = 44;
const SECURITY_DISABLED: i16 = 54;

const TOPIC: i8 = 2;
const ANY: i8 = 1;
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const READ: i8 = 3;
const WRITE: i8 = 4;
const ALLOW: i8 = 3;

/// Who sends the requests of most tests may do everything.
pub(crate) fn trusting_the_world() -> AuthorizerConfig {
    AuthorizerConfig {
        super_users: HashSet::from([Principal::anonymous()]),
        allow_if_no_rule: false,
    }
}

pub(crate) async fn guarded_world() -> World {
    World::with(Settings {
        authorizer: Some(trusting_the_world()),
        tokens: Some((token_config(), SystemClock::shared())),
        ..Settings::default()
    })
    .await
}

/// Allows an operation on a topic, from everywhere.
pub(crate) fn acl(principal: &str, operation: i8, topic: &str) -> AclCreation {
    AclCreation::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(topic))
        .with_resource_pattern_type(LITERAL)
        .with_principal(text(principal))
        .with_host(text("*"))
        .with_operation(operation)
        .with_permission_type(ALLOW)
}

pub(crate) fn create_acls(acls: Vec<AclCreation>) -> CreateAclsRequest {
    CreateAclsRequest::default().with_creations(acls)
}

pub(crate) fn every_acl() -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(ANY)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

pub(crate) fn acls_of(principal: &str) -> DeleteAclsFilter {
    DeleteAclsFilter::default()
        .with_resource_type_filter(ANY)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(ANY)
        .with_principal_filter(Some(text(principal)))
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY)
}

pub(crate) fn delete_acls(principal: &str) -> DeleteAclsRequest {
    DeleteAclsRequest::default().with_filters(vec![acls_of(principal)])
}

/// The error of each ACL.
async fn create(world: &World, acls: Vec<AclCreation>) -> Vec<i16> {
    let results = world.ask(3, &create_acls(acls)).await.results;
    results.iter().map(|result| result.error_code).collect()
}

/// Resource and pattern, principal and operation of what a filter finds.
async fn find(world: &World, filter: &DescribeAclsRequest) -> Vec<(String, i8, String, i8)> {
    let response = world.ask(3, filter).await;
    assert_eq!(response.error_code, NONE, "{:?}", response.error_message);
    let mut found = Vec::new();
    for resource in response.resources {
        assert_eq!(resource.resource_type, TOPIC);
        for acl in resource.acls {
            assert_eq!((&*acl.host, acl.permission_type), ("*", ALLOW));
            found.push((
                resource.resource_name.to_string(),
                resource.pattern_type,
                acl.principal.to_string(),
                acl.operation,
            ));
        }
    }
    found
}

fn row(topic: &str, pattern: i8, principal: &str, operation: i8) -> (String, i8, String, i8) {
    (topic.to_owned(), pattern, principal.to_owned(), operation)
}

#[tokio::test]
async fn acls_are_created_found_kept_and_deleted() {
    let world = guarded_world().await;
    let prefixed = acl("User:b", READ, "ord").with_resource_pattern_type(PREFIXED);
    let acls = vec![
        acl("User:a", READ, "orders"),
        acl("User:a", WRITE, "orders"),
        acl("User:a", READ, "orders"),
        prefixed,
        acl("User:b", READ, "*"),
        // Kafka takes every operation for every type of resource.
        acl("User:b", 12, "other"),
    ];
    assert_eq!(create(&world, acls).await, [NONE; 6]);
    let world = world.restart().await;
    let all = [
        row("*", LITERAL, "User:b", READ),
        row("ord", PREFIXED, "User:b", READ),
        row("orders", LITERAL, "User:a", READ),
        row("orders", LITERAL, "User:a", WRITE),
        row("other", LITERAL, "User:b", 12),
    ];
    assert_eq!(find(&world, &every_acl()).await, all);

    let named = every_acl().with_resource_name_filter(Some(text("orders")));
    let literal = named.clone().with_pattern_type_filter(LITERAL);
    assert_eq!(find(&world, &literal).await, all[2..4]);
    let matching = named.with_pattern_type_filter(MATCH);
    assert_eq!(find(&world, &matching).await, all[..4]);
    let reads = every_acl().with_operation(READ);
    let reads = find(&world, &reads).await;
    assert_eq!(reads, [&all[..3]].concat());

    let response = world.ask(3, &delete_acls("User:a")).await;
    let result = &response.filter_results[0];
    assert_eq!((result.error_code, result.matching_acls.len()), (NONE, 2));
    let matching = &result.matching_acls[0];
    assert_eq!(
        (matching.error_code, &*matching.resource_name),
        (NONE, "orders")
    );
    let again = world.ask(3, &delete_acls("User:a")).await;
    assert!(again.filter_results[0].matching_acls.is_empty());
    let world = world.restart().await;
    assert_eq!(
        find(&world, &every_acl()).await,
        [&all[..2], &all[4..]].concat()
    );
}

#[tokio::test]
async fn illegal_acls_and_filters_are_refused_alone() {
    let world = guarded_world().await;
    let acls = vec![
        acl("alice", READ, "t"),
        acl("User:a", READ, ""),
        acl("User:a", ANY, "t"),
        acl("User:a", READ, "t").with_resource_pattern_type(MATCH),
        acl("User:a", READ, "t").with_resource_type(4),
        acl("User:a", READ, "t"),
    ];
    let mut expected = [INVALID_REQUEST; 6];
    expected[5] = NONE;
    assert_eq!(create(&world, acls).await, expected);
    let unknown = every_acl().with_resource_type_filter(99);
    let response = world.ask(3, &unknown).await;
    assert_eq!(response.error_code, INVALID_REQUEST);
    let filters = vec![acls_of("User:a").with_operation(99), acls_of("User:a")];
    let request = DeleteAclsRequest::default().with_filters(filters);
    let results = world.ask(3, &request).await.filter_results;
    let codes: Vec<_> = results.iter().map(|r| r.error_code).collect();
    assert_eq!(codes, [INVALID_REQUEST, NONE]);
    assert_eq!(results[1].matching_acls.len(), 1);
}

#[tokio::test]
async fn acls_have_bounds() {
    let world = guarded_world().await;
    let many = |count: usize, from: usize| {
        let acls = (from..from + count).map(|n| acl("User:a", READ, &format!("t{n}")));
        acls.collect::<Vec<_>>()
    };
    let refused = create(&world, many(10_001, 0)).await;
    assert!(refused.iter().all(|code| *code == POLICY_VIOLATION));
    for from in (0..RULES_MAX).step_by(10_000) {
        let created = create(&world, many(10_000, from)).await;
        assert!(created.iter().all(|code| *code == NONE));
    }
    assert_eq!(create(&world, many(1, RULES_MAX)).await, [POLICY_VIOLATION]);
    assert_eq!(create(&world, many(1, 0)).await, [NONE], "it exists");
    let too_many = world.ask(3, &delete_acls("User:a")).await;
    assert_eq!(too_many.filter_results[0].error_code, POLICY_VIOLATION);
}

#[tokio::test]
async fn without_an_authorizer_there_are_no_acls() {
    let world = World::new().await;
    let created = create(&world, vec![acl("User:a", READ, "t"); 2]).await;
    assert_eq!(created, [SECURITY_DISABLED; 2]);
    let found = world.ask(3, &every_acl()).await;
    assert_eq!(found.error_code, SECURITY_DISABLED);
    let deleted = world.ask(3, &delete_acls("User:a")).await;
    assert_eq!(deleted.filter_results[0].error_code, SECURITY_DISABLED);
}

/// The response of a client that does not read is not asked for, and is dropped with its connection. Its
/// change was stored without taking effect, and held up all later ones until then.
#[tokio::test]
async fn a_client_that_does_not_read_neither_holds_up_nor_loses_changes() {
    let world = guarded_world().await;
    let user = [upsertion("alice", "secret")];
    let user = AlterUserScramCredentialsRequest::default().with_upsertions(user.into());
    let quota = [entry(
        &[("user", Some("a"))],
        &[("request_percentage", Some(5.0))],
    )];
    let quota = AlterClientQuotasRequest::default().with_entries(quota.into());
    let mut unread = Vec::new();
    for sent in [
        world
            .send(3, &create_acls(vec![acl("User:a", READ, "t0")]))
            .await,
        world.send(0, &user).await,
        world.send(1, &quota).await,
        world
            .send(3, &create_acls(vec![acl("User:a", READ, "t1")]))
            .await,
    ] {
        let Sent::Later(response) = sent else {
            panic!("a change takes time");
        };
        unread.push(response);
    }
    // Its client stops to read in the middle of the change.
    assert!(unread.last_mut().expect("four").now_or_never().is_none());
    let next = create(&world, vec![acl("User:a", READ, "t2")]);
    let next = tokio::time::timeout(Duration::from_secs(10), next).await;
    assert_eq!(next.expect("is not held up"), [NONE]);
    drop(unread);
    let all = ["t0", "t1", "t2"].map(|topic| row(topic, LITERAL, "User:a", READ));
    assert_eq!(find(&world, &every_acl()).await, all);
    let alice = ("alice".to_owned(), NONE, vec![4_096]);
    assert_eq!(describe(&world, None).await, [alice]);
    assert_eq!(
        world.quotas(&[], false).await,
        ["user=a request_percentage:5"]
    );
}
