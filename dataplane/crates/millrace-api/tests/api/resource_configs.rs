//! Configurations of groups and of subscriptions to client metrics.

use std::time::Duration;

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        DescribeConfigsRequest, IncrementalAlterConfigsRequest, ListConfigResourcesRequest,
        describe_configs_request::DescribeConfigsResource,
    },
};
use millrace_coordinator::{GroupConfigDefinition, ShareIsolation};
use millrace_meta::{MetaStore as _, ResourceConfigChange, ResourceConfigRow};
use millrace_security::acl::{CLUSTER_NAME, Operation, ResourceType};

use crate::{
    authorization::{self, alice, give},
    configs::{APPEND, DELETE, SET, SUBTRACT, alter, describe, replace, resource, shown},
    versions::consumer_heartbeat,
    world::{World, text},
};

const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;
/// Kafka's numbers of sources.
const DEFAULT: i8 = 5;
const OF_CLIENT_METRICS: i8 = 7;
const OF_GROUP: i8 = 8;

const INTERVAL: &str = "consumer.heartbeat.interval.ms";
const SESSION: &str = "consumer.session.timeout.ms";

async fn list(world: &World, version: i16, types: &[i8]) -> Vec<(i8, String)> {
    let request = ListConfigResourcesRequest::default().with_resource_types(types.to_vec());
    let answer = world.ask(version, &request).await;
    assert_eq!(answer.error_code, 0);
    let resources = answer.config_resources.into_iter();
    let resource =
        |resource: kafka_protocol::messages::list_config_resources_response::ConfigResource| {
            (resource.resource_type, resource.resource_name.to_string())
        };
    resources.map(resource).collect()
}

fn accepted(code: (i16, String)) {
    assert_eq!(code, (0, String::new()));
}

#[tokio::test]
async fn a_groups_configurations_change_one_by_one_and_are_durable() {
    let world = World::new().await;
    let value = async |world: &World, name| shown(world, GROUP, "g", name).await;
    assert_eq!(
        value(&world, INTERVAL).await,
        Some(("5000".into(), DEFAULT)),
        "a group that does not exist has the broker's"
    );
    let both = [(INTERVAL, SET, Some("6000")), (SESSION, SET, Some("50000"))];
    accepted(alter(&world, GROUP, "g", &both).await);
    // One that is wrong undoes the others of its resource.
    let wrong = [(INTERVAL, SET, Some("7000")), (SESSION, SET, Some("1"))];
    let (code, message) = alter(&world, GROUP, "g", &wrong).await;
    assert_eq!(code, Code::InvalidConfig.code());
    assert!(
        message.contains("group.consumer.min.session.timeout.ms"),
        "{message}"
    );
    let world = world.restart().await;
    assert_eq!(
        value(&world, INTERVAL).await,
        Some(("6000".into(), OF_GROUP))
    );
    assert_eq!(
        value(&world, SESSION).await,
        Some(("50000".into(), OF_GROUP))
    );
    accepted(alter(&world, GROUP, "g", &[(SESSION, DELETE, None)]).await);
    assert_eq!(
        value(&world, SESSION).await,
        Some(("45000".into(), DEFAULT))
    );
    assert_eq!(list(&world, 1, &[GROUP]).await, [(GROUP, "g".to_owned())]);
    // The old request replaces everything.
    let isolation = [("share.isolation.level", "read_committed")];
    assert_eq!(replace(&world, GROUP, "g", &isolation).await, 0);
    assert_eq!(
        value(&world, INTERVAL).await,
        Some(("5000".into(), DEFAULT))
    );
    let set = world.groups.config().of_groups.overrides("g");
    assert_eq!(set.share_isolation, Some(ShareIsolation::ReadCommitted));
    assert_eq!(replace(&world, GROUP, "g", &[]).await, 0);
    let world = world.restart().await;
    assert_eq!(list(&world, 1, &[GROUP]).await, []);
}

#[tokio::test]
async fn a_consumer_group_is_told_its_own_heartbeat_interval_at_once() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    let joins = consumer_heartbeat("g", "m", &["t"]);
    let joined = world.ask(1, &joins).await;
    assert_eq!(
        (joined.error_code, joined.heartbeat_interval_ms),
        (0, 5_000)
    );
    accepted(alter(&world, GROUP, "g", &[(INTERVAL, SET, Some("15000"))]).await);
    let again = world.ask(1, &joins).await;
    assert_eq!((again.error_code, again.heartbeat_interval_ms), (0, 15_000));
    let other = consumer_heartbeat("other", "m", &["t"]);
    assert_eq!(world.ask(1, &other).await.heartbeat_interval_ms, 5_000);
}

#[tokio::test]
async fn every_configuration_is_described_in_full() {
    let world = World::new().await;
    accepted(alter(&world, GROUP, "g", &[(INTERVAL, SET, Some("6000"))]).await);
    let configs = describe(&world, GROUP, "g").await;
    assert_eq!(configs.len(), GroupConfigDefinition::all().len());
    for config in &configs {
        let documentation = config.documentation.clone().unwrap_or_default();
        assert_ne!(documentation.as_str(), "", "{}", config.name);
        assert!(config.config_type > 0 && !config.read_only && !config.is_sensitive);
        assert_ne!(config.value.clone().unwrap_or_default().as_str(), "");
        let own = config.name.as_str() == INTERVAL;
        assert_eq!(config.config_source == OF_GROUP, own, "{}", config.name);
        assert_eq!(
            config
                .synonyms
                .first()
                .is_some_and(|s| s.source == OF_GROUP),
            own
        );
    }
    let set = [("metrics", SET, Some("*"))];
    accepted(alter(&world, CLIENT_METRICS, "s", &set).await);
    let configs = describe(&world, CLIENT_METRICS, "s").await;
    let configs: Vec<_> = configs
        .iter()
        .map(|c| {
            let value = c.value.clone().unwrap_or_default().to_string();
            (c.name.as_str(), value, c.config_source, c.config_type)
        })
        .collect();
    let expected = [
        ("metrics", "*".to_owned(), OF_CLIENT_METRICS, 7),
        ("interval.ms", "300000".to_owned(), DEFAULT, 3),
        ("match", String::new(), DEFAULT, 7),
    ];
    assert_eq!(configs, expected);
}

#[tokio::test]
async fn lists_of_a_subscription_grow_and_shrink() {
    let world = World::new().await;
    let change = async |operation, value| {
        alter(
            &world,
            CLIENT_METRICS,
            "s",
            &[("metrics", operation, Some(value))],
        )
        .await
    };
    accepted(change(APPEND, "a.,b.").await);
    accepted(change(APPEND, "b.,c.").await);
    accepted(change(SUBTRACT, "a.").await);
    assert_eq!(
        shown(&world, CLIENT_METRICS, "s", "metrics").await,
        Some(("b.,c.".into(), OF_CLIENT_METRICS))
    );
    assert_eq!(
        list(&world, 0, &[]).await,
        [(CLIENT_METRICS, "s".to_owned())]
    );
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_why() {
    let world = World::new().await;
    let long = "x".repeat(16 * 1024);
    for (kind, name, config, value, code) in [
        (GROUP, "", INTERVAL, "6000", Code::InvalidRequest),
        (GROUP, "g", "colour", "red", Code::InvalidConfig),
        (
            GROUP,
            "g",
            "streams.session.timeout.ms",
            "45000",
            Code::InvalidConfig,
        ),
        (GROUP, "g", INTERVAL, "soon", Code::InvalidConfig),
        (CLIENT_METRICS, "", "metrics", "*", Code::InvalidRequest),
        (CLIENT_METRICS, "s", "colour", "red", Code::InvalidRequest),
        (
            CLIENT_METRICS,
            "s",
            "interval.ms",
            "1",
            Code::InvalidRequest,
        ),
        (
            CLIENT_METRICS,
            "s",
            "match",
            "client_id=[",
            Code::InvalidConfig,
        ),
        (CLIENT_METRICS, "s", "metrics", &long, Code::PolicyViolation),
        (GROUP, &long, INTERVAL, "6000", Code::PolicyViolation),
        (GROUP, "g\0", INTERVAL, "6000", Code::InvalidRequest),
        (CLIENT_METRICS, "s", "metrics", "a\0", Code::InvalidRequest),
    ] {
        let (error, message) = alter(&world, kind, name, &[(config, SET, Some(value))]).await;
        assert_eq!(error, code.code(), "{kind} {config}: {message}");
        assert_ne!(message, "");
    }
    assert_eq!(list(&world, 1, &[GROUP, CLIENT_METRICS]).await, []);
    let (error, _) = alter(&world, GROUP, "g", &[(INTERVAL, APPEND, Some("1"))]).await;
    assert_eq!(error, Code::InvalidConfig.code(), "no list");
}

#[tokio::test]
async fn subscriptions_have_a_bound() {
    let world = World::new().await;
    let set = |name: &str| resource(CLIENT_METRICS, name, &[("metrics", SET, Some("*"))]);
    let all = (0..101).map(|nth| set(&format!("s{nth}"))).collect();
    let request = IncrementalAlterConfigsRequest::default().with_resources(all);
    let answer = world.ask(1, &request).await.responses;
    let refused = answer.iter().filter(|one| one.error_code != 0);
    let refused: Vec<_> = refused
        .map(|one| (one.resource_name.as_str(), one.error_code))
        .collect();
    assert_eq!(refused, [("s100", Code::PolicyViolation.code())]);
    let again = [("metrics", SET, Some("a."))];
    accepted(alter(&world, CLIENT_METRICS, "s7", &again).await);
    accepted(alter(&world, CLIENT_METRICS, "s8", &[("metrics", DELETE, None)]).await);
    accepted(alter(&world, CLIENT_METRICS, "s100", &again).await);
}

#[tokio::test]
async fn to_validate_is_not_to_change() {
    let world = World::new().await;
    let request = IncrementalAlterConfigsRequest::default()
        .with_resources(vec![
            resource(GROUP, "g", &[(INTERVAL, SET, Some("6000"))]),
            resource(GROUP, "h", &[(INTERVAL, SET, Some("1"))]),
        ])
        .with_validate_only(true);
    let answer = world.ask(1, &request).await.responses;
    let codes: Vec<i16> = answer.iter().map(|one| one.error_code).collect();
    assert_eq!(codes, [0, Code::InvalidConfig.code()]);
    assert_eq!(list(&world, 1, &[GROUP]).await, []);
}

#[tokio::test]
async fn what_another_broker_has_changed_holds_after_a_reload() {
    let world = World::new().await;
    let row = |name: &str, value: &str| ResourceConfigRow {
        resource_type: GROUP,
        resource_name: "g".to_owned(),
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let changes = [row(INTERVAL, "6000"), row("unheard.of", "1")].map(ResourceConfigChange::Put);
    let stored = world.meta.change_resource_configs(changes.to_vec()).await;
    stored.expect("stored");
    world.service.reload_security().await.expect("reads");
    let overrides = world.groups.config().of_groups.overrides("g");
    assert_eq!(
        overrides.consumer_heartbeat_interval,
        Some(Duration::from_secs(6))
    );
    // What a newer broker has stored goes with the next change by this one.
    accepted(alter(&world, GROUP, "g", &[(SESSION, SET, Some("50000"))]).await);
    let kept = world.meta.resource_configs().await.expect("reads");
    assert_eq!(kept, [row(INTERVAL, "6000"), row(SESSION, "50000")]);
}

#[tokio::test]
async fn groups_have_rights_of_their_own_and_client_metrics_those_of_the_cluster() {
    let world = authorization::world().await;
    let ask = async |kind, name: &str, config| {
        let operation = (config, SET, Some(if kind == GROUP { "6000" } else { "*" }));
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource(
            kind,
            name,
            &[operation],
        )]);
        let altered = world.ask_as(&alice(), 1, &request).await.responses[0].error_code;
        let asked = DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
        let described = world.ask_as(&alice(), 4, &request).await.results[0].error_code;
        [altered, described]
    };
    let denied = Code::GroupAuthorizationFailed.code();
    assert_eq!(ask(GROUP, "g", INTERVAL).await, [denied; 2]);
    let denied = Code::ClusterAuthorizationFailed.code();
    assert_eq!(ask(CLIENT_METRICS, "s", "metrics").await, [denied; 2]);
    let rights = [
        (ResourceType::Group, "g", Operation::AlterConfigs),
        (ResourceType::Cluster, CLUSTER_NAME, Operation::AlterConfigs),
    ];
    give(&world, &rights).await;
    assert_eq!(ask(GROUP, "g", INTERVAL).await, [0; 2]);
    assert_eq!(ask(CLIENT_METRICS, "s", "metrics").await, [0; 2]);
    let denied = Code::GroupAuthorizationFailed.code();
    assert_eq!(ask(GROUP, "other", INTERVAL).await, [denied; 2]);
}
