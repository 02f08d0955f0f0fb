//! Every API refuses a client without rights, as Kafka does, and serves one that has them.

mod errors;
mod needs;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use kafka_protocol::messages::*;
use metrics_exporter_prometheus::PrometheusBuilder;
use millrace_security::acl::{
    CLUSTER_NAME, Operation, PatternType, Permission, ResourceType, Rule,
};
use millrace_wire::{
    SUPPORTED,
    service::{Identity, Peer},
};

use self::{errors::errors, needs::*};
use crate::{
    acls::{acl, create_acls, delete_acls, every_acl, guarded_world},
    calls::{NAMED_FETCH, NAMED_PRODUCE, batch, fetch_request, produce_request, topic_name},
    delegation_tokens::create_token,
    versions::*,
    world::{Sent, World, text},
};

const ALICE: &str = "User:alice";
/// Somebody else, who has tokens.
const OTHER: &str = "User:other";

fn metadata(topic: &str) -> MetadataRequest {
    let topic =
        metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(false)
}

pub(crate) fn offset_fetch_of(topic: &str) -> OffsetFetchRequest {
    let topic = offset_fetch_request::OffsetFetchRequestTopics::default()
        .with_name(topic_name(topic))
        .with_partition_indexes(vec![0]);
    let asked = offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(group("g"))
        .with_topics(Some(vec![topic]));
    OffsetFetchRequest::default().with_groups(vec![asked])
}

async fn commit_as_admin(world: &World) {
    let committed = world.ask(9, &offset_commit("g", "t")).await;
    assert_eq!(committed.topics[0].partitions[0].error_code, 0);
}

pub(crate) fn alice() -> Arc<Peer> {
    client(2, ALICE)
}

/// A client that has authenticated as this principal.
pub(crate) fn client(number: u64, principal: &str) -> Arc<Peer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 50_001));
    let identity = Identity::known(principal);
    Arc::new(Peer::with_identity(
        number,
        address,
        "INTERNAL".into(),
        identity,
    ))
}

/// A topic `t` and a group `g`, which Alice knows nothing of.
pub(crate) async fn world() -> World {
    let world = guarded_world().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    commit_as_admin(&world).await;
    world
}

pub(crate) async fn give(world: &World, rights: &[Right]) {
    let creation = |(kind, name, operation): &Right| {
        let rule = Rule {
            resource_type: *kind,
            resource_name: (*name).into(),
            pattern: PatternType::Literal,
            principal: ALICE.parse().expect("a principal"),
            host: "127.0.0.1".into(),
            operation: *operation,
            permission: Permission::Allow,
        };
        let codes = rule.codes();
        acl(ALICE, codes.operation, &codes.resource_name)
            .with_resource_type(codes.resource_type)
            .with_host(text(&codes.host))
    };
    let request = create_acls(rights.iter().map(creation).collect());
    let results = world.ask(3, &request).await.results;
    assert!(results.iter().all(|result| result.error_code == 0));
}

async fn take_all(world: &World) {
    let response = world.ask(3, &delete_acls(ALICE)).await;
    assert_eq!(response.filter_results[0].error_code, 0);
}

fn is_denial(code: i16) -> bool {
    matches!(
        code,
        TOPIC_DENIED | GROUP_DENIED | CLUSTER_DENIED | TRANSACTIONAL_ID_DENIED | TOKEN_DENIED
    )
}

#[tokio::test]
async fn every_api_needs_its_rights_and_no_more() {
    let (world, alice) = (world().await, alice());
    for support in SUPPORTED {
        let key = support.api_key;
        let Some((enough, denied)) = needs(key) else {
            continue;
        };
        assert_eq!(errors(&world, &alice, key, "t").await, [denied], "{key:?}");
        for rights in enough {
            give(&world, &rights).await;
            let codes = errors(&world, &alice, key, "t").await;
            assert!(
                !codes.iter().any(|code| is_denial(*code)),
                "{key:?} with {rights:?}: {codes:?}"
            );
            take_all(&world).await;
            for missing in 0..rights.len() {
                let mut fewer = rights.clone();
                fewer.remove(missing);
                give(&world, &fewer).await;
                let codes = errors(&world, &alice, key, "t").await;
                assert!(
                    codes.iter().any(|code| is_denial(*code)),
                    "{key:?} with only {fewer:?}: {codes:?}"
                );
                take_all(&world).await;
            }
        }
    }
}

/// The same answer whether the topic exists or not.
#[tokio::test]
async fn a_name_does_not_tell_whether_the_topic_exists() {
    let (world, alice) = (world().await, alice());
    give(&world, &[on_group(Operation::Read)]).await;
    for support in SUPPORTED {
        let key = support.api_key;
        if !matches!(needs(key), Some((_, TOPIC_DENIED))) && key != ApiKey::OffsetCommit {
            continue;
        }
        let there = errors(&world, &alice, key, "t").await;
        let absent = errors(&world, &alice, key, "absent").await;
        assert_eq!(
            (&there[..], &absent[..]),
            (&[TOPIC_DENIED][..], &[TOPIC_DENIED][..]),
            "{key:?}"
        );
    }
    let shown = world.ask_as(&alice, 13, &metadata("t")).await;
    assert!(
        shown.topics[0].topic_id.is_nil(),
        "an id tells that it exists"
    );
}

#[tokio::test]
async fn topics_by_id_are_guarded_as_well() {
    let (world, alice) = (world().await, alice());
    let id = world.logs.topics()[0].id.0;
    let produce = |id| {
        let mut request = produce_request("", &[(0, batch(&["x"]))], -1);
        request.topic_data[0].topic_id = id;
        request
    };
    let fetch = |id| {
        let mut request = fetch_request("", &[(0, 0)]);
        request.topics[0].topic_id = id;
        request
    };
    let unknown = uuid::Uuid::from_u128(1);
    for (id, expected) in [(id, TOPIC_DENIED), (unknown, UNKNOWN_TOPIC_ID)] {
        let produced = world.ask_as(&alice, 13, &produce(id)).await;
        let fetched = world.ask_as(&alice, 18, &fetch(id)).await;
        let codes = (
            produced.responses[0].partition_responses[0].error_code,
            fetched.responses[0].partitions[0].error_code,
        );
        assert_eq!(codes, (expected, expected));
    }
    let by_id = metadata_request::MetadataRequestTopic::default()
        .with_name(None)
        .with_topic_id(id);
    let request = MetadataRequest::default().with_topics(Some(vec![by_id]));
    let shown = world.ask_as(&alice, 13, &request).await;
    assert_eq!(
        (shown.topics[0].error_code, &shown.topics[0].name),
        (TOPIC_DENIED, &None)
    );
    let state = delete_topics_request::DeleteTopicState::default()
        .with_name(None)
        .with_topic_id(id);
    let request = DeleteTopicsRequest::default().with_topics(vec![state]);
    let deleted = world.ask_as(&alice, 6, &request).await;
    assert_eq!(
        (deleted.responses[0].error_code, &deleted.responses[0].name),
        (TOPIC_DENIED, &None)
    );
}

#[tokio::test]
async fn lists_leave_out_what_may_not_be_described() {
    let (world, alice) = (world().await, alice());
    world.create("mine", 1, &[]).await;
    let mine = (ResourceType::Topic, "mine", Operation::Read);
    give(&world, &[mine, on_group(Operation::Describe)]).await;
    let all = MetadataRequest::default()
        .with_topics(None)
        .with_include_topic_authorized_operations(true);
    let shown = world.ask_as(&alice, 12, &all).await;
    let names: Vec<_> = shown
        .topics
        .iter()
        .map(|topic| topic.name.clone())
        .collect();
    assert_eq!(names, [Some(topic_name("mine"))]);
    // Read and Describe.
    assert_eq!(shown.topics[0].topic_authorized_operations, 1 << 3 | 1 << 8);
    let request = OffsetFetchRequest::default().with_groups(vec![
        offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group("g"))
            .with_topics(None),
    ]);
    let found = world.ask_as(&alice, 9, &request).await;
    assert_eq!(
        (found.groups[0].error_code, found.groups[0].topics.len()),
        (0, 0)
    );
    let cluster = DescribeClusterRequest::default()
        .with_endpoint_type(1)
        .with_include_cluster_authorized_operations(true);
    let described = world.ask_as(&alice, 2, &cluster).await;
    assert_eq!(described.cluster_authorized_operations, 0);
    give(&world, &[on_cluster(Operation::Describe)]).await;
    let described = world.ask_as(&alice, 2, &cluster).await;
    assert_eq!(described.cluster_authorized_operations, 1 << 8);
}

#[tokio::test]
async fn topics_are_created_for_those_who_may() {
    let (world, alice) = (world().await, alice());
    let new = |name: &'static str, operation| (ResourceType::Topic, name, operation);
    let request = metadata("new").with_allow_auto_topic_creation(true);
    give(&world, &[new("new", Operation::Describe)]).await;
    let denied = world.ask_as(&alice, 13, &request).await;
    assert_eq!(denied.topics[0].error_code, TOPIC_DENIED);
    assert_eq!(world.logs.topics().len(), 2, "t and the groups'");
    give(&world, &[new("new", Operation::Create)]).await;
    let created = world.ask_as(&alice, 13, &request).await;
    assert_eq!(created.topics[0].error_code, 0);

    // Its configuration is told only to those who may describe that.
    let asked = create_topics_request::CreatableTopic::default()
        .with_name(topic_name("blind"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![asked]);
    give(&world, &[new("blind", Operation::Create)]).await;
    let created = world.ask_as(&alice, 7, &request).await;
    let topic = &created.topics[0];
    assert_eq!(
        (
            topic.error_code,
            topic.topic_config_error_code,
            topic.num_partitions
        ),
        (0, TOPIC_DENIED, -1)
    );
}

#[tokio::test]
async fn brokers_and_replicas_and_transactions_are_guarded() {
    let (world, alice) = (world().await, alice());
    give(&world, &[on_topic(Operation::All)]).await;
    let broker = describe_configs("5");
    let mut broker = broker;
    broker.resources[0].resource_type = 4;
    let described = world.ask_as(&alice, 4, &broker).await;
    assert_eq!(described.results[0].error_code, CLUSTER_DENIED);
    let altered = world
        .ask_as(&alice, 1, &incremental_alter_configs(4, "5"))
        .await;
    assert_eq!(altered.responses[0].error_code, CLUSTER_DENIED);

    let replica = fetch_request("t", &[(0, 0)]).with_replica_id(BrokerId(7));
    let fetched = world.ask_as(&alice, NAMED_FETCH, &replica).await;
    assert_eq!(fetched.responses[0].partitions[0].error_code, TOPIC_DENIED);

    let id = Some(TransactionalId(text("tx")));
    let request = InitProducerIdRequest::default().with_transactional_id(id.clone());
    let initialized = world.ask_as(&alice, 5, &request).await;
    assert_eq!(initialized.error_code, TRANSACTIONAL_ID_DENIED);
    let request = produce_request("t", &[(0, batch(&["x"]))], -1).with_transactional_id(id);
    let produced = world.ask_as(&alice, NAMED_PRODUCE, &request).await;
    let partition = &produced.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, TRANSACTIONAL_ID_DENIED);
    let request = FindCoordinatorRequest::default()
        .with_key_type(1)
        .with_coordinator_keys(vec![text("tx")]);
    let found = world.ask_as(&alice, 6, &request).await;
    assert_eq!(found.coordinators[0].error_code, TRANSACTIONAL_ID_DENIED);
    let request = FindCoordinatorRequest::default()
        .with_key_type(2)
        .with_coordinator_keys(vec![text("g:AAAAAAAAAAAAAAAAAAAAAQ:0")]);
    let found = world.ask_as(&alice, 6, &request).await;
    assert_eq!(found.coordinators[0].error_code, CLUSTER_DENIED);
}

/// A producer that wants no answer learns of the denial by losing its connection.
#[tokio::test]
async fn an_unacknowledged_produce_without_rights_ends_the_connection() {
    let (world, alice) = (world().await, alice());
    let request = produce_request("t", &[(0, batch(&["x"]))], 0);
    let sent = world.send_as(&alice, NAMED_PRODUCE, &request).await;
    assert!(matches!(sent, Sent::Closed(_)));
    let fetched = world.fetch_from("t", 0, 0).await;
    assert_eq!(fetched.high_watermark, 0, "nothing was written");
}

/// The wait tells that the group has commits in flight.
#[tokio::test]
async fn a_client_without_rights_does_not_wait_for_a_groups_commits() {
    let (world, alice) = (world().await, alice());
    let commit = world.send(9, &offset_commit("g", "t")).await;
    let fetch = offset_fetch_of("t");
    let refused = world.send_as(&alice, 9, &fetch).await;
    assert!(matches!(refused, Sent::Answer(_)));
    let allowed = world.send(9, &fetch).await;
    assert!(matches!(allowed, Sent::Later(_)), "the commit is in flight");
    drop(commit);
}

#[tokio::test]
async fn rules_of_other_hosts_and_denials_count() {
    let (world, alice) = (world().await, alice());
    let elsewhere = acl(ALICE, 4, "t").with_host(text("10.0.0.1"));
    world.ask(3, &create_acls(vec![elsewhere])).await;
    let write = |world| errors(world, &alice, ApiKey::Produce, "t");
    assert_eq!(write(&world).await, [TOPIC_DENIED]);
    give(&world, &[on_topic(Operation::Write)]).await;
    assert_eq!(write(&world).await, [0]);
    let deny = acl("User:*", 4, "t").with_permission_type(2);
    world.ask(3, &create_acls(vec![deny])).await;
    assert_eq!(write(&world).await, [TOPIC_DENIED]);
}

#[tokio::test]
async fn decisions_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let (world, alice) = (world().await, alice());
    errors(&world, &alice, ApiKey::Produce, "t").await;
    give(&world, &[on_topic(Operation::Write)]).await;
    errors(&world, &alice, ApiKey::Produce, "t").await;
    let text = shown.render();
    for result in ["allowed", "denied"] {
        let line = format!(
            r#"millrace_authorizations_total{{operation="WRITE",resource_type="TOPIC",result="{result}"}} 1"#
        );
        assert!(
            text.lines().any(|shown| shown == line),
            "{line} is not in\n{text}"
        );
    }
}
