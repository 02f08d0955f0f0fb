use std::collections::BTreeMap;

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
        ListConfigResourcesRequest, alter_configs_request,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::DescribeConfigsResourceResult,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use millrace_log::TopicConfigDefinition;
use millrace_meta::MetaStore;
use millrace_model::TopicName;

use crate::{
    calls::{batch, produce_request},
    settings::DYNAMIC,
    world::{World, text},
};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
pub(crate) const SET: i8 = 0;
pub(crate) const DELETE: i8 = 1;
pub(crate) const APPEND: i8 = 2;
pub(crate) const SUBTRACT: i8 = 3;

const INTERNAL: &str = "__consumer_offsets";

pub(crate) type Operation<'a> = (&'a str, i8, Option<&'a str>);

pub(crate) fn resource(kind: i8, name: &str, operations: &[Operation<'_>]) -> AlterConfigsResource {
    let config = |(name, operation, value): &Operation<'_>| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(*operation)
            .with_value(value.map(text))
    };
    AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(operations.iter().map(config).collect())
}

/// Error code and text of a change of one resource.
pub(crate) async fn alter(
    world: &World,
    kind: i8,
    name: &str,
    operations: &[Operation<'_>],
) -> (i16, String) {
    let request = IncrementalAlterConfigsRequest::default()
        .with_resources(vec![resource(kind, name, operations)]);
    let answer = world.ask(1, &request).await.responses.remove(0);
    assert_eq!(
        (answer.resource_type, answer.resource_name.as_str()),
        (kind, name)
    );
    let message = answer.error_message.unwrap_or_default();
    (answer.error_code, message.to_string())
}

/// The same with the request that replaces everything.
pub(crate) async fn replace(world: &World, kind: i8, name: &str, all: &[(&str, &str)]) -> i16 {
    let config = |(name, value): &(&str, &str)| {
        alter_configs_request::AlterableConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    };
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(all.iter().map(config).collect());
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    world.ask(2, &request).await.responses[0].error_code
}

pub(crate) async fn describe(
    world: &World,
    kind: i8,
    name: &str,
) -> Vec<DescribeConfigsResourceResult> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(true);
    let result = world.ask(4, &request).await.results.remove(0);
    assert_eq!(result.error_code, 0);
    result.configs
}

/// Value and source of one configuration.
pub(crate) async fn shown(
    world: &World,
    kind: i8,
    resource: &str,
    name: &str,
) -> Option<(String, i8)> {
    let configs = describe(world, kind, resource).await;
    let found = configs.into_iter().find(|c| c.name.as_str() == name)?;
    let value = found.value.unwrap_or_default();
    Some((value.to_string(), found.config_source))
}

fn overrides(world: &World, topic: &str) -> BTreeMap<String, String> {
    let name = TopicName::new(topic).expect("legal");
    world.logs.topic(&name).expect("there").overrides.clone()
}

#[tokio::test]
async fn a_topics_configurations_change_one_by_one() {
    let world = World::new().await;
    world.create("t", 1, &[("segment.ms", "7")]).await;
    let change = [
        ("retention.ms", SET, Some("5")),
        ("segment.ms", DELETE, None),
        ("cleanup.policy", APPEND, Some("compact")),
    ];
    assert_eq!(alter(&world, TOPIC, "t", &change).await, (0, String::new()));
    let expected = [("cleanup.policy", "delete,compact"), ("retention.ms", "5")];
    let pairs = |map: &BTreeMap<String, String>| -> Vec<(String, String)> {
        map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    };
    assert_eq!(pairs(&overrides(&world, "t")), own(&expected));
    assert_eq!(
        shown(&world, TOPIC, "t", "retention.ms").await,
        Some(("5".into(), 1))
    );
    // One that is wrong undoes the others of its resource.
    let change = [
        ("retention.ms", SET, Some("6")),
        ("retention.bytes", SET, Some("-7")),
    ];
    let (code, message) = alter(&world, TOPIC, "t", &change).await;
    assert_eq!(code, Code::InvalidConfig.code());
    assert!(message.contains("retention.bytes"), "{message}");
    assert_eq!(pairs(&overrides(&world, "t")), own(&expected));
    let change = [("cleanup.policy", SUBTRACT, Some("compact"))];
    assert_eq!(alter(&world, TOPIC, "t", &change).await.0, 0);
    // The old request replaces everything.
    assert_eq!(replace(&world, TOPIC, "t", &[("segment.ms", "9")]).await, 0);
    let world = world.restart().await;
    assert_eq!(
        pairs(&overrides(&world, "t")),
        own(&[("segment.ms", "9")]),
        "durable"
    );
}

#[tokio::test]
async fn a_topics_change_is_in_force_at_once() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let produce = produce_request("t", &[(0, batch(&["a record that is not small"]))], -1);
    let produced = world.ask(9, &produce).await;
    assert_eq!(produced.responses[0].partition_responses[0].error_code, 0);
    let change = [("max.message.bytes", SET, Some("10"))];
    assert_eq!(alter(&world, TOPIC, "t", &change).await.0, 0);
    let produced = world.ask(9, &produce).await;
    assert_eq!(
        produced.responses[0].partition_responses[0].error_code,
        Code::MessageTooLarge.code()
    );
}

/// A write that was carried out and said to have failed.
#[tokio::test]
async fn what_a_topic_has_is_stored_again_whatever_was() {
    let world = World::new().await;
    world.create("t", 1, &[("segment.ms", "7")]).await;
    let name = TopicName::new("t").expect("legal");
    let other = BTreeMap::from([("segment.ms".to_owned(), "9".to_owned())]);
    let written = world.meta.set_topic_configs(&name, other).await;
    written.expect("stored");
    let same = [("segment.ms", SET, Some("7"))];
    assert_eq!(alter(&world, TOPIC, "t", &same).await.0, 0);
    let world = world.restart().await;
    assert_eq!(overrides(&world, "t")["segment.ms"], "7");
}

#[tokio::test]
async fn the_brokers_settings_change_for_it_and_for_all() {
    let world = World::new().await;
    let value = |world| shown(world, BROKER, "5", DYNAMIC);
    assert_eq!(value(&world).await, Some(("100".into(), 5)));
    assert_eq!(shown(&world, BROKER, "", DYNAMIC).await, None);
    let set = |text| [(DYNAMIC, SET, Some(text))];
    assert_eq!(alter(&world, BROKER, "", &set("7")).await.0, 0);
    assert_eq!(value(&world).await, Some(("7".into(), 3)));
    assert_eq!(alter(&world, BROKER, "5", &set("8")).await.0, 0);
    assert_eq!(value(&world).await, Some(("8".into(), 2)));
    assert_eq!(
        shown(&world, BROKER, "", DYNAMIC).await,
        Some(("7".into(), 3))
    );
    let all = describe(&world, BROKER, "5").await;
    let own = all.iter().find(|c| c.name.as_str() == DYNAMIC);
    let own = own.expect("shown");
    let sources: Vec<i8> = own.synonyms.iter().map(|s| s.source).collect();
    assert_eq!((own.read_only, sources), (false, vec![2, 3, 5]));
    let documentation = own.documentation.as_ref().map(|text| text.as_str());
    assert_eq!(documentation, Some("What s3.block.cache.size does."));
    assert!(all.iter().filter(|c| c.read_only).count() >= 3);
    let delete = [(DYNAMIC, DELETE, None)];
    assert_eq!(alter(&world, BROKER, "5", &delete).await.0, 0);
    assert_eq!(value(&world).await, Some(("7".into(), 3)));
    assert_eq!(replace(&world, BROKER, "", &[]).await, 0);
    assert_eq!(value(&world).await, Some(("100".into(), 5)));
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_why() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    let of_topics: &[(&str, Operation<'_>, Code)] = &[
        (
            "none",
            ("segment.ms", SET, Some("1")),
            Code::UnknownTopicOrPartition,
        ),
        // The values come first, as in Kafka.
        ("none", ("colour", SET, Some("red")), Code::InvalidConfig),
        ("", ("segment.ms", SET, Some("1")), Code::InvalidRequest),
        ("b@d", ("a", SET, Some("1")), Code::InvalidTopicException),
        ("t", ("colour", SET, Some("red")), Code::InvalidConfig),
        ("t", ("segment.ms", APPEND, Some("1")), Code::InvalidConfig),
        ("t", ("retention.ms", SET, None), Code::InvalidRequest),
        ("t", ("retention.ms", 9, Some("1")), Code::InvalidRequest),
        (INTERNAL, ("segment.ms", DELETE, None), Code::InvalidRequest),
    ];
    let of_brokers: &[(&str, Operation<'_>, Code)] = &[
        ("6", (DYNAMIC, SET, Some("1")), Code::InvalidRequest),
        ("5", (DYNAMIC, SET, Some("x")), Code::InvalidConfig),
        ("5", (DYNAMIC, SUBTRACT, Some("1")), Code::InvalidConfig),
        ("", ("num.partitions", DELETE, None), Code::InvalidConfig),
    ];
    for (kind, cases) in [(TOPIC, of_topics), (BROKER, of_brokers), (8, of_brokers)] {
        for (name, operation, code) in cases {
            let code = if kind == 8 {
                &Code::InvalidRequest
            } else {
                code
            };
            let (error, message) = alter(&world, kind, name, &[*operation]).await;
            assert_ne!(message, "", "{kind} {name} {operation:?}");
            assert_eq!(error, code.code(), "{kind} {name} {operation:?}: {message}");
        }
    }
}

/// The versions before flexible ones have no room for texts beyond 32,767 bytes. A text that repeats what the
/// client sent ended its connection by a panic.
#[tokio::test]
async fn long_error_texts_are_cut() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let name = "ä".repeat(16_380);
    let config = alter_configs_request::AlterableConfig::default()
        .with_name(text(&name))
        .with_value(None);
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let response = world.ask(1, &request).await.responses.remove(0);
    assert_eq!(response.error_code, Code::InvalidRequest.code());
    let message = response.error_message.expect("a text");
    assert!(message.starts_with("Null value not supported for : ä"));
    assert!(
        (4_000..=4_096).contains(&message.len()),
        "{}",
        message.len()
    );
}

#[tokio::test]
async fn what_is_named_twice_is_not_changed() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let twice = [(DYNAMIC, SET, Some("1")), (DYNAMIC, DELETE, None)];
    assert_eq!(
        alter(&world, BROKER, "5", &twice).await.0,
        Code::InvalidRequest.code()
    );
    let one = resource(BROKER, "5", &[(DYNAMIC, SET, Some("1"))]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![
        one.clone(),
        one,
        resource(TOPIC, "t", &[]),
    ]);
    let answer = world.ask(1, &request).await;
    let codes: Vec<i16> = answer.responses.iter().map(|r| r.error_code).collect();
    let refused = Code::InvalidRequest.code();
    assert_eq!(codes, [refused, refused, 0]);
    assert_eq!(
        shown(&world, BROKER, "5", DYNAMIC).await,
        Some(("100".into(), 5)),
        "nothing has changed"
    );
}

#[tokio::test]
async fn to_validate_is_not_to_change() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let good = [
        resource(TOPIC, "t", &[("retention.ms", SET, Some("5"))]),
        resource(BROKER, "5", &[(DYNAMIC, SET, Some("5"))]),
        resource(BROKER, "", &[(DYNAMIC, SET, Some("x"))]),
    ];
    let request = IncrementalAlterConfigsRequest::default()
        .with_resources(good.to_vec())
        .with_validate_only(true);
    let answer = world.ask(1, &request).await;
    let codes: Vec<i16> = answer.responses.iter().map(|r| r.error_code).collect();
    assert_eq!(codes, [0, 0, Code::InvalidConfig.code()]);
    assert!(overrides(&world, "t").is_empty());
    assert_eq!(
        shown(&world, BROKER, "5", DYNAMIC).await,
        Some(("100".into(), 5))
    );
}

/// As `kafka-reassign-partitions --verify` does, which fails otherwise.
#[tokio::test]
async fn what_bounds_replication_can_be_deleted_and_not_set() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let rates = [
        ("leader.replication.throttled.rate", DELETE, None),
        ("follower.replication.throttled.rate", DELETE, None),
    ];
    assert_eq!(alter(&world, BROKER, "5", &rates).await.0, 0);
    let replicas = [("leader.replication.throttled.replicas", DELETE, None)];
    assert_eq!(alter(&world, TOPIC, "t", &replicas).await.0, 0);
    let set = [("leader.replication.throttled.rate", SET, Some("1"))];
    let refused = alter(&world, BROKER, "5", &set).await.0;
    assert_eq!(refused, Code::InvalidConfig.code());
}

#[tokio::test]
async fn every_topic_configuration_is_described_in_full() {
    let world = World::new().await;
    world.create("t", 1, &[("compression.type", "zstd")]).await;
    let configs = describe(&world, TOPIC, "t").await;
    assert_eq!(configs.len(), TopicConfigDefinition::all().len());
    for (config, definition) in configs.iter().zip(TopicConfigDefinition::all()) {
        assert_eq!(config.name.as_str(), definition.name);
        let documentation = config.documentation.clone().unwrap_or_default();
        assert_eq!(documentation.as_str(), definition.documentation);
        assert!(config.config_type > 0 && !config.read_only && !config.is_sensitive);
        let own = config.name.as_str() == "compression.type";
        assert_eq!(config.config_source == 1, own, "{}", config.name);
    }
    let compression = configs
        .iter()
        .find(|c| c.name.as_str() == "compression.type");
    let synonyms = &compression.expect("described").synonyms;
    let synonyms: Vec<_> = synonyms
        .iter()
        .map(|s| (s.value.clone().unwrap_or_default().to_string(), s.source))
        .collect();
    assert_eq!(
        synonyms,
        [("zstd".to_owned(), 1), ("producer".to_owned(), 5)]
    );
}

#[tokio::test]
async fn what_does_not_hold_is_refused_with_a_reason() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    for (name, value, reason) in [
        ("preallocate", "true", "no segment files"),
        (
            "remote.storage.enable",
            "true",
            "tiered storage is disabled",
        ),
        ("local.retention.ms", "1000", "no local copy"),
        ("message.format.version", "3.0", "unknown topic config name"),
        (
            "message.downconversion.enable",
            "true",
            "unknown topic config name",
        ),
        (
            "message.timestamp.difference.max.ms",
            "1",
            "unknown topic config name",
        ),
        ("compression.zstd.level", "23", "from -131072 to 22"),
        ("min.insync.replicas", "0", "from 1 to 2147483647"),
        ("cleanup.policy", "compact,compact", "each at most once"),
    ] {
        let (code, message) = alter(&world, TOPIC, "t", &[(name, SET, Some(value))]).await;
        assert_eq!(code, Code::InvalidConfig.code(), "{name}");
        assert!(
            message.contains(reason) && message.contains(name),
            "{message}"
        );
    }
    let conflict = [
        ("min.compaction.lag.ms", SET, Some("2")),
        ("max.compaction.lag.ms", SET, Some("1")),
    ];
    let (code, message) = alter(&world, TOPIC, "t", &conflict).await;
    assert_eq!(code, Code::InvalidConfig.code(), "{message}");
    assert_eq!(overrides(&world, "t"), BTreeMap::new());
}

#[tokio::test]
async fn resources_without_configurations_are_refused_in_words() {
    let world = World::new().await;
    for (kind, reason) in [(8, "Log levels"), (7, "Unknown resource type 7")] {
        let (code, message) = alter(&world, kind, "x", &[("a", SET, Some("1"))]).await;
        assert_eq!(code, Code::InvalidRequest.code(), "{kind}");
        assert!(message.contains(reason), "{message}");
    }
}

#[tokio::test]
async fn brokers_and_topics_are_listed_as_having_configurations() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let list = async |version, types: &[i8]| {
        let request = ListConfigResourcesRequest::default().with_resource_types(types.to_vec());
        let answer = world.ask(version, &request).await;
        let resources = answer.config_resources.into_iter();
        let resources: Vec<_> = resources
            .map(|r| (r.resource_type, r.resource_name.to_string()))
            .collect();
        (answer.error_code, resources)
    };
    let (code, all) = list(1, &[]).await;
    assert_eq!(code, 0);
    assert!(all.contains(&(TOPIC, "t".to_owned())), "{all:?}");
    assert_eq!(all.iter().filter(|(kind, _)| *kind == BROKER).count(), 1);
    let (_, brokers) = list(1, &[BROKER]).await;
    assert_eq!(brokers.len(), 1);
    assert_eq!(list(0, &[]).await, (0, Vec::new()), "no client metrics");
    assert_eq!(list(1, &[3]).await.0, Code::UnsupportedVersion.code());
}
