use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        AlterPartitionReassignmentsRequest, BrokerId, CreatePartitionsRequest, CreateTopicsRequest,
        DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest, ElectLeadersRequest,
        MetadataRequest,
        alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic},
        create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
        create_topics_response::CreatableTopicResult,
        delete_topics_request::DeleteTopicState,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::DescribeConfigsResult,
        elect_leaders_request::TopicPartitions,
        metadata_request::MetadataRequestTopic,
    },
};
use millrace_log::LogDefaults;
use uuid::Uuid;

use crate::{
    calls::topic_name,
    world::{Settings, World, answer, text},
};

fn asked(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(topic_name(name)))
}

fn metadata(topics: Vec<MetadataRequestTopic>, create: bool) -> MetadataRequest {
    MetadataRequest::default()
        .with_topics(Some(topics))
        .with_allow_auto_topic_creation(create)
}

#[tokio::test]
async fn metadata_tells_the_broker_and_the_topics() {
    let world = World::new().await;
    world.create("b", 2, &[]).await;
    world.create("a", 1, &[]).await;
    let all = world
        .ask(12, &MetadataRequest::default().with_topics(None))
        .await;
    let broker = &all.brokers[0];
    assert_eq!(
        (broker.node_id.0, broker.host.as_str(), broker.port),
        (5, "inside", 9_093)
    );
    assert_eq!(
        all.cluster_id.as_ref().map(|id| id.as_str()),
        Some("cluster")
    );
    assert_eq!(all.controller_id.0, 5);
    let names: Vec<_> = all
        .topics
        .iter()
        .flat_map(|t| &t.name)
        .map(|n| n.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let partition = &all.topics[1].partitions[1];
    assert_eq!((partition.partition_index, partition.leader_id.0), (1, 5));
    assert_eq!(
        (&partition.replica_nodes, &partition.isr_nodes),
        (&vec![BrokerId(5)], &vec![BrokerId(5)])
    );
    assert_eq!(all.topics[1].topic_authorized_operations, i32::MIN);

    let none = world
        .ask(1, &MetadataRequest::default().with_topics(Some(vec![])))
        .await;
    assert_eq!(none.topics.len(), 0);
    let all = world
        .ask(0, &MetadataRequest::default().with_topics(Some(vec![])))
        .await;
    assert_eq!(all.topics.len(), 2);

    let by_id = MetadataRequestTopic::default()
        .with_name(None)
        .with_topic_id(world.logs.topics()[0].id.0);
    let unknown = MetadataRequestTopic::default()
        .with_name(None)
        .with_topic_id(Uuid::from_u128(3));
    let found = world.ask(12, &metadata(vec![by_id, unknown], false)).await;
    assert_eq!(found.topics[0].name.as_ref().map(|n| n.as_str()), Some("a"));
    assert_eq!(found.topics[1].error_code, Code::UnknownTopicId.code());
}

#[tokio::test]
async fn a_topic_that_is_named_twice_is_told_once_and_an_id_counts_for_more_than_a_name() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world.logs.topics()[0].id.0;
    let told = async |topics: Vec<MetadataRequestTopic>| {
        let response = world.ask(12, &metadata(topics, true)).await;
        let told = response.topics.into_iter();
        let name = |name: Option<kafka_protocol::messages::TopicName>| name.map(|n| n.to_string());
        told.map(|topic| (name(topic.name), topic.error_code))
            .collect::<Vec<_>>()
    };
    let of = |name: &str| (Some(name.to_owned()), 0);
    let twice = vec![asked("t"), asked("new"), asked("t"), asked("new")];
    assert_eq!(told(twice).await, [of("t"), of("new")]);
    let by_id = || MetadataRequestTopic::default().with_topic_id(id);
    let twice = vec![by_id().with_name(None), by_id().with_name(None)];
    assert_eq!(told(twice).await, [of("t")]);
    assert_eq!(
        told(vec![by_id().with_name(Some(topic_name("other")))]).await,
        [of("t")]
    );
    assert_eq!(world.logs.topics().len(), 2, "nothing else was created");
}

#[tokio::test]
async fn topics_are_created_when_client_and_broker_agree() {
    let world = World::new().await;
    let unknown = Code::UnknownTopicOrPartition.code();
    let refused = world.ask(4, &metadata(vec![asked("t")], false)).await;
    assert_eq!(refused.topics[0].error_code, unknown);
    let created = world
        .ask(4, &metadata(vec![asked("t"), asked("b@d")], true))
        .await;
    assert_eq!(
        (
            created.topics[0].error_code,
            created.topics[0].partitions.len()
        ),
        (0, 1)
    );
    assert_eq!(
        created.topics[1].error_code,
        Code::InvalidTopicException.code()
    );
    // Before version 4, clients cannot forbid it.
    assert_eq!(
        world.ask(3, &metadata(vec![asked("u")], true)).await.topics[0].error_code,
        0
    );

    let defaults = LogDefaults {
        auto_create_topics: false,
        ..LogDefaults::default()
    };
    let strict = World::with(Settings {
        defaults,
        ..Settings::default()
    })
    .await;
    let refused = strict.ask(4, &metadata(vec![asked("t")], true)).await;
    assert_eq!(refused.topics[0].error_code, unknown);
    // The groups' topic comes in any case.
    let internal = strict
        .ask(4, &metadata(vec![asked("__consumer_offsets")], true))
        .await;
    assert_eq!(internal.topics[0].error_code, unknown);
}

fn creatable(name: &str, partitions: i32, replicas: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replicas)
}

async fn create(world: &World, topic: CreatableTopic) -> CreatableTopicResult {
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    world.ask(7, &request).await.topics.remove(0)
}

fn with_config(topic: CreatableTopic, name: &str, value: Option<&str>) -> CreatableTopic {
    let config = CreatableTopicConfig::default()
        .with_name(text(name))
        .with_value(value.map(text));
    topic.with_configs(vec![config])
}

fn assignment(index: i32, brokers: &[i32]) -> CreatableReplicaAssignment {
    CreatableReplicaAssignment::default()
        .with_partition_index(index)
        .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
}

#[tokio::test]
async fn created_topics_are_described() {
    let world = World::new().await;
    let result = create(
        &world,
        with_config(creatable("t", 3, -1), "retention.ms", Some("5")),
    )
    .await;
    assert_eq!(
        (
            result.error_code,
            result.num_partitions,
            result.replication_factor
        ),
        (0, 3, 1)
    );
    assert_eq!(result.topic_id, world.logs.topics()[0].id.0);
    let configs = result.configs.expect("shown");
    let retention = configs
        .iter()
        .find(|c| c.name.as_str() == "retention.ms")
        .expect("known");
    assert_eq!(
        (
            retention.value.as_ref().map(|v| v.as_str()),
            retention.config_source
        ),
        (Some("5"), 1)
    );

    let by_hand =
        creatable("hand", -1, -1).with_assignments(vec![assignment(1, &[5]), assignment(0, &[5])]);
    assert_eq!(create(&world, by_hand).await.num_partitions, 2);
    let default = create(&world, creatable("d", -1, 1)).await;
    assert_eq!(default.num_partitions, 1);
}

#[tokio::test]
async fn each_refusal_has_its_code() {
    let world = World::new().await;
    world.create("a.b", 1, &[]).await;
    let by_hand = |assignments| creatable("x", -1, -1).with_assignments(assignments);
    let cases = [
        (creatable("a.b", 1, 1), Code::TopicAlreadyExists),
        (creatable("a.b", 0, 3), Code::TopicAlreadyExists),
        (creatable("a_b", 1, 1), Code::InvalidTopicException),
        (creatable("", 1, 1), Code::InvalidTopicException),
        (creatable("a/b", 1, 1), Code::InvalidTopicException),
        (creatable("x", 0, 1), Code::InvalidPartitions),
        (creatable("x", -2, 1), Code::InvalidPartitions),
        (creatable("x", 1_000_000, 1), Code::InvalidPartitions),
        (creatable("x", 1, 0), Code::InvalidReplicationFactor),
        (creatable("x", 1, 3), Code::InvalidReplicationFactor),
        (
            with_config(creatable("x", 1, 1), "colour", Some("red")),
            Code::InvalidConfig,
        ),
        (
            with_config(creatable("x", 1, 1), "retention.ms", Some("soon")),
            Code::InvalidConfig,
        ),
        (
            with_config(creatable("x", 1, 1), "retention.ms", None),
            Code::InvalidConfig,
        ),
        (
            by_hand(vec![assignment(1, &[5])]),
            Code::InvalidReplicaAssignment,
        ),
        (
            by_hand(vec![assignment(0, &[6])]),
            Code::InvalidReplicaAssignment,
        ),
        (
            by_hand(vec![assignment(0, &[5, 6])]),
            Code::InvalidReplicaAssignment,
        ),
        (
            creatable("x", 1, -1).with_assignments(vec![assignment(0, &[5])]),
            Code::InvalidRequest,
        ),
    ];
    for (topic, expected) in cases {
        let shown = format!("{topic:?}");
        let result = create(&world, topic).await;
        assert_eq!(
            result.error_code,
            expected.code(),
            "{shown}: {:?}",
            result.error_message
        );
        assert!(result.error_message.is_some());
    }
    let twice = vec![
        creatable("y", 1, 1),
        creatable("y", 1, 1),
        creatable("z", 1, 1),
    ];
    let response = world
        .ask(7, &CreateTopicsRequest::default().with_topics(twice))
        .await;
    let codes: Vec<i16> = response.topics.iter().map(|t| t.error_code).collect();
    assert_eq!(codes, [Code::InvalidRequest.code(), 0]);
    assert_eq!(world.logs.topics().len(), 2);
}

#[tokio::test]
async fn validation_creates_nothing() {
    let world = World::new().await;
    let request = CreateTopicsRequest::default()
        .with_topics(vec![creatable("t", 4, 1), creatable("u", 0, 1)])
        .with_validate_only(true);
    let response = world.ask(7, &request).await;
    assert_eq!(
        (
            response.topics[0].error_code,
            response.topics[0].num_partitions
        ),
        (0, 4)
    );
    assert_eq!(
        response.topics[1].error_code,
        Code::InvalidPartitions.code()
    );
    assert_eq!(world.logs.topics().len(), 0);
}

#[tokio::test]
async fn topics_grow_but_do_not_shrink() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.find_coordinator().await;
    let grow = async |name: &str, count: i32, validate_only: bool, brokers: Option<&[i32]>| {
        let assignment = |broker: &i32| {
            CreatePartitionsAssignment::default().with_broker_ids(vec![BrokerId(*broker)])
        };
        let assignments = brokers.map(|brokers| brokers.iter().map(assignment).collect());
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name(name))
            .with_count(count)
            .with_assignments(assignments);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_validate_only(validate_only);
        world.ask(3, &request).await.results[0].error_code
    };
    assert_eq!(grow("t", 3, true, None).await, 0);
    assert_eq!(
        grow("t", 2, false, None).await,
        Code::InvalidPartitions.code()
    );
    assert_eq!(
        grow("t", 1, false, None).await,
        Code::InvalidPartitions.code()
    );
    assert_eq!(
        grow("none", 3, false, None).await,
        Code::UnknownTopicOrPartition.code()
    );
    assert_eq!(
        grow("t", 3, false, Some(&[6])).await,
        Code::InvalidReplicaAssignment.code()
    );
    assert_eq!(
        grow("t", 4, false, Some(&[5])).await,
        Code::InvalidReplicaAssignment.code()
    );
    assert_eq!(
        grow("__consumer_offsets", 9, false, None).await,
        Code::InvalidRequest.code()
    );
    assert_eq!(grow("t", 4, false, Some(&[5, 5])).await, 0);
    let metadata = world.ask(9, &metadata(vec![asked("t")], false)).await;
    assert_eq!(metadata.topics[0].partitions.len(), 4);
}

#[tokio::test]
async fn topics_are_deleted_by_name_or_id() {
    let world = World::new().await;
    world.create("a", 1, &[]).await;
    world.create("b", 1, &[]).await;
    world.find_coordinator().await;
    let id = world
        .logs
        .topics()
        .iter()
        .find(|t| t.name.as_str() == "b")
        .expect("there")
        .id
        .0;
    let state = |name: Option<&str>, id: Uuid| {
        DeleteTopicState::default()
            .with_name(name.map(topic_name))
            .with_topic_id(id)
    };
    let nil = Uuid::nil();
    let request = DeleteTopicsRequest::default().with_topics(vec![
        state(Some("a"), nil),
        state(None, id),
        state(Some("none"), nil),
        state(None, Uuid::from_u128(8)),
        state(Some("a"), id),
        state(None, nil),
        state(Some("__consumer_offsets"), nil),
    ]);
    let response = world.ask(6, &request).await;
    let codes: Vec<i16> = response.responses.iter().map(|r| r.error_code).collect();
    let expected = [
        0,
        0,
        Code::UnknownTopicOrPartition.code(),
        Code::UnknownTopicId.code(),
        Code::InvalidRequest.code(),
        Code::InvalidRequest.code(),
        Code::InvalidRequest.code(),
    ];
    assert_eq!(codes, expected);
    assert_eq!(
        response.responses[1].name.as_ref().map(|n| n.as_str()),
        Some("b")
    );
    assert_eq!(world.logs.topics().len(), 1);
    // The name is free again, under another id.
    world.create("b", 1, &[]).await;
    let again = world
        .logs
        .topics()
        .iter()
        .find(|t| t.name.as_str() == "b")
        .expect("there")
        .id
        .0;
    assert_ne!(again, id);
}

#[tokio::test]
async fn a_topic_that_is_to_be_deleted_twice_stays() {
    let world = World::new().await;
    for name in ["name", "id", "both", "once"] {
        world.create(name, 1, &[]).await;
    }
    world.find_coordinator().await;
    let id = |name: &str| {
        let topics = world.logs.topics();
        let topic = topics.iter().find(|topic| topic.name.as_str() == name);
        topic.expect("there").id.0
    };
    let named = |name: &str| DeleteTopicState::default().with_name(Some(topic_name(name)));
    let by_id = |name: &str| {
        DeleteTopicState::default()
            .with_name(None)
            .with_topic_id(id(name))
    };
    let request = DeleteTopicsRequest::default().with_topics(vec![
        named("name"),
        named("name"),
        named("name"),
        by_id("id"),
        by_id("id"),
        named("both"),
        by_id("both"),
        named("once"),
        named("none"),
    ]);
    let response = world.ask(6, &request).await;
    let told: Vec<_> = response
        .responses
        .iter()
        .map(|told| (told.error_code, told.error_message.is_some()))
        .collect();
    let twice = (Code::InvalidRequest.code(), true);
    let unknown = (Code::UnknownTopicOrPartition.code(), true);
    let expected = [twice, twice, twice, twice, (0, false), unknown];
    assert_eq!(told, expected);
    let left: Vec<_> = world.logs.topics().iter().map(|t| t.name.clone()).collect();
    let left: Vec<_> = left.iter().map(|name| name.as_str()).collect();
    assert_eq!(left, ["__consumer_offsets", "both", "id", "name"]);
    let twice = vec![topic_name("name"), topic_name("name")];
    let request = DeleteTopicsRequest::default().with_topic_names(twice);
    let response = world.ask(4, &request).await;
    let codes: Vec<i16> = response.responses.iter().map(|r| r.error_code).collect();
    assert_eq!(codes, [Code::InvalidRequest.code()]);
}

#[tokio::test]
async fn reassignments_and_elections_say_what_is_wrong() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let reassign = async |replicas: &[i32]| {
        let partition = ReassignablePartition::default()
            .with_replicas(Some(replicas.iter().copied().map(BrokerId).collect()));
        let topic = ReassignableTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]);
        let response = world.ask(0, &request).await;
        assert_eq!((response.error_code, response.error_message), (0, None));
        response.responses[0].partitions[0].error_code
    };
    assert_eq!(reassign(&[5]).await, 0);
    let invalid = Code::InvalidReplicaAssignment.code();
    assert_eq!(reassign(&[5, 5]).await, invalid);
    assert_eq!(reassign(&[]).await, invalid);
    let factor = Code::InvalidReplicationFactor.code();
    assert_eq!(reassign(&[5, 6]).await, factor);

    let asked = TopicPartitions::default()
        .with_topic(topic_name("t"))
        .with_partitions(vec![0]);
    let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![asked]));
    let response = world.ask(2, &request).await;
    let told = &response.replica_election_results[0].partition_result[0];
    assert_eq!(told.error_code, Code::ElectionNotNeeded.code());
    assert!(told.error_message.is_some());
}

async fn describe(
    world: &World,
    kind: i8,
    name: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(keys.map(|keys| keys.iter().copied().map(text).collect()));
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true);
    world.ask(4, &request).await.results.remove(0)
}

#[tokio::test]
async fn configurations_tell_where_they_come_from() {
    let world = World::new().await;
    world.create("t", 1, &[("cleanup.policy", "compact")]).await;
    let topic = describe(&world, 2, "t", None).await;
    assert_eq!((topic.error_code, topic.error_message), (0, Some(text(""))));
    let no_keys = describe(&world, 2, "t", Some(&[])).await;
    assert_eq!(no_keys.configs, topic.configs);
    let find = |name: &str| {
        topic
            .configs
            .iter()
            .find(|c| c.name.as_str() == name)
            .expect("shown")
    };
    let policy = find("cleanup.policy");
    assert_eq!(
        (
            policy.value.as_ref().map(|v| v.as_str()),
            policy.config_source
        ),
        (Some("compact"), 1)
    );
    assert_eq!((policy.config_type, policy.synonyms.len()), (7, 2));
    assert_eq!(find("retention.ms").config_source, 4);
    assert_eq!(find("max.message.bytes").config_source, 5);
    let some = describe(&world, 2, "t", Some(&["retention.ms"])).await;
    assert_eq!(some.configs.len(), 1);

    let broker = describe(&world, 4, "5", None).await;
    let secret = broker
        .configs
        .iter()
        .find(|c| c.is_sensitive)
        .expect("a secret");
    assert_eq!(
        (secret.name.as_str(), secret.value.as_ref()),
        ("s3.data.buckets", None)
    );
    assert_eq!(broker.configs[0].config_source, 5);
    assert_eq!(describe(&world, 4, "", None).await.configs.len(), 0);

    for (kind, name, code) in [
        (2, "none", Code::UnknownTopicOrPartition),
        (2, "b@d", Code::InvalidTopicException),
        (4, "6", Code::InvalidRequest),
        (8, "5", Code::InvalidRequest),
    ] {
        assert_eq!(
            describe(&world, kind, name, None).await.error_code,
            code.code(),
            "{kind} {name}"
        );
    }
}

#[tokio::test]
async fn the_cluster_is_described() {
    let world = World::new().await;
    let request = DescribeClusterRequest::default()
        .with_endpoint_type(1)
        .with_include_cluster_authorized_operations(true);
    let cluster = world.ask(1, &request).await;
    assert_eq!(
        (cluster.cluster_id.as_str(), cluster.controller_id.0),
        ("cluster", 5)
    );
    assert_eq!((cluster.brokers.len(), cluster.brokers[0].port), (1, 9_093));
    assert_eq!(cluster.cluster_authorized_operations, 8_096);
    let controllers = world.ask(1, &request.with_endpoint_type(2)).await;
    assert_eq!(controllers.error_code, Code::MismatchedEndpointType.code());
}

#[tokio::test]
async fn changes_happen_in_order_and_to_the_end() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    // One behind the other without waiting: delete, create again, grow. The client then goes away.
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]);
    let create = CreateTopicsRequest::default().with_topics(vec![creatable("t", 2, 1)]);
    let more = CreatePartitionsTopic::default()
        .with_name(topic_name("t"))
        .with_count(3)
        .with_assignments(None);
    let grow = CreatePartitionsRequest::default().with_topics(vec![more]);
    drop(world.send(5, &delete).await);
    drop(world.send(7, &create).await);
    let last = world.send(3, &grow).await;
    let grown = answer::<CreatePartitionsRequest>(3, last).await;
    assert_eq!(
        grown.results[0].error_code, 0,
        "{:?}",
        grown.results[0].error_message
    );
    assert_eq!(world.logs.topics()[0].partitions.len(), 3);
}

#[tokio::test]
async fn all_topics_together_have_a_bound_on_partitions_and_the_refusal_says_what_to_do() {
    let defaults = LogDefaults {
        partitions_max: 5,
        ..LogDefaults::default()
    };
    let world = World::with(Settings {
        defaults,
        ..Settings::default()
    })
    .await;
    let policy = Code::PolicyViolation.code();
    assert_eq!(create(&world, creatable("a", 3, -1)).await.error_code, 0);
    let refused = create(&world, creatable("b", 3, -1)).await;
    assert_eq!(refused.error_code, policy);
    let message = refused.error_message.expect("says what to do");
    for part in [
        "has 3 partitions",
        "3 more",
        "partitions.max is 5",
        "delete topics",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let grow = |count: i32, validate_only: bool| {
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name("a"))
            .with_count(count)
            .with_assignments(None);
        CreatePartitionsRequest::default()
            .with_topics(vec![topic])
            .with_validate_only(validate_only)
    };
    for validate_only in [true, false] {
        let refused = world.ask(3, &grow(6, validate_only)).await;
        assert_eq!(refused.results[0].error_code, policy);
    }
    assert_eq!(world.ask(3, &grow(5, false)).await.results[0].error_code, 0);
    // A client that only asks for a topic gets none, and the groups their own in any case.
    let asked_for = world.ask(4, &metadata(vec![asked("c")], true)).await;
    assert_eq!(asked_for.topics[0].error_code, policy);
    let internal = metadata(vec![asked("__consumer_offsets")], true);
    assert_eq!(world.ask(4, &internal).await.topics[0].error_code, 0);
}
