//! Every API answers in every version that it advertises, in good and in bad cases, with something
//! that a client of that version can read.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::*,
    protocol::{Request, StrBytes},
};
use millrace_time::SystemClock;
use millrace_wire::{SUPPORTED, support_of};

use crate::{
    acls::{acl, create_acls, delete_acls, every_acl, trusting_the_world},
    authorization::alice,
    calls::{batch, fetch_request, produce_request, topic_name},
    delegation_tokens::{create_token, token_config},
    share_groups,
    share_states::{delete_state, initialize_state, read_state, read_summary, write_state},
    world::{Sent, Settings, World, decode, text},
};

/// Asks in every version; `request` says how in each.
async fn ask_all<R: Request>(world: &World, request: impl Fn(i16) -> R) {
    let key = ApiKey::try_from(R::KEY).expect("an API");
    let support = support_of(key).expect("served");
    for version in support.min..=support.max {
        world.ask(version, &request(version)).await;
    }
}

pub(crate) fn group(id: &str) -> GroupId {
    GroupId(text(id))
}

#[tokio::test]
async fn every_version_advertised_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world.logs.topics()[0].id.0;
    let unknown = uuid::Uuid::from_u128(1);
    for name in ["t", "none"] {
        let id = if name == "t" { id } else { unknown };
        ask_all(&world, |version| {
            let mut request = produce_request(name, &[(0, batch(&["x"]))], -1);
            if version >= 13 {
                request.topic_data[0].topic_id = id;
                request.topic_data[0].name = TopicName::default();
            }
            request
        })
        .await;
        ask_all(&world, |version| {
            let mut request = fetch_request(name, &[(0, 0)]);
            if version >= 13 {
                request.topics[0].topic_id = id;
                request.topics[0].topic = TopicName::default();
            }
            request
        })
        .await;
        ask_all(&world, |_| list_offsets(name)).await;
        ask_all(&world, |version| {
            metadata_request::MetadataRequestTopic::default()
                .with_name(Some(topic_name(name)))
                .into_request(version >= 4)
        })
        .await;
        ask_all(&world, |_| describe_configs(name)).await;
        for kind in [2, 4] {
            ask_all(&world, |_| incremental_alter_configs(kind, name)).await;
            ask_all(&world, |_| alter_configs(kind, name)).await;
        }
        ask_all(&world, |_| create_partitions(name)).await;
        ask_all(&world, |_| delete_records(name)).await;
        ask_all(&world, |_| describe_producers(name)).await;
        ask_all(&world, |_| offset_for_leader_epoch(name)).await;
        ask_all(&world, |_| describe_log_dirs(Some(name))).await;
    }
    ask_all(&world, |_| {
        ApiVersionsRequest::default()
            .with_client_software_name(text("test"))
            .with_client_software_version(text("1"))
    })
    .await;
    ask_all(&world, |_| ApiVersionsRequest::default()).await;
    ask_all(&world, |_| describe_log_dirs(None)).await;
    ask_all(&world, |_| {
        InitProducerIdRequest::default().with_transactional_id(None)
    })
    .await;
    let tx = Some(TransactionalId(text("tx")));
    ask_all(&world, |_| {
        InitProducerIdRequest::default().with_transactional_id(tx.clone())
    })
    .await;
    ask_all(&world, |_| {
        DescribeClusterRequest::default().with_endpoint_type(1)
    })
    .await;
    ask_all(&world, |_| ListConfigResourcesRequest::default()).await;
    ask_all(&world, |version| create_topics(&format!("made-{version}"))).await;
    ask_all(&world, |_| create_topics("t")).await;
    ask_all(&world, |version| {
        delete_topics(&format!("made-{}", version.max(2)), version)
    })
    .await;
}

#[tokio::test]
async fn every_version_of_the_apis_of_brokers_is_served() {
    let world = World::new().await;
    ask_all(&world, |_| GetTelemetrySubscriptionsRequest::default()).await;
    ask_all(&world, |_| PushTelemetryRequest::default()).await;
    world.create("t", 1, &[]).await;
    for level in [29, 30] {
        ask_all(&world, |_| update_features("metadata.version", level)).await;
    }
    ask_all(&world, |_| describe_quorum()).await;
    ask_all(&world, |_| DescribeQuorumRequest::default()).await;
    ask_all(&world, |_| alter_replica_log_dirs("object-storage", "t", 0)).await;
    ask_all(&world, |_| {
        describe_topic_partitions(&["t", "none", "/"], 9)
    })
    .await;
    ask_all(&world, |_| describe_topic_partitions(&[], -1)).await;
}

#[tokio::test]
async fn features_are_told_and_stay_as_they_are() {
    let world = World::new().await;
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1"));
    for (version, level_0) in [(3, false), (4, true)] {
        let told = world.ask(version, &request).await;
        assert!(told.finalized_features_epoch >= 0 && !told.zk_migration_ready);
        for feature in &told.finalized_features {
            assert_eq!(feature.min_version_level, feature.max_version_level);
            let request = update_features(&feature.name, feature.max_version_level);
            assert_eq!(world.ask(2, &request).await.error_code, 0);
            let request = update_features(&feature.name, feature.max_version_level + 1);
            let refused = world.ask(2, &request.with_validate_only(true)).await;
            assert_eq!(refused.error_code, 95, "INVALID_UPDATE_VERSION");
        }
        let mins = told.supported_features.iter().map(|told| told.min_version);
        assert_eq!(mins.min() == Some(0), level_0);
    }
    let metadata = update_features("metadata.version", 29);
    let results = world.ask(1, &metadata).await.results;
    assert_eq!((results.len(), results[0].error_code), (1, 0));
    let mut lower = update_features("metadata.version", 28);
    lower.feature_updates[0].upgrade_type = 2;
    let refused = world.ask(1, &lower).await;
    assert_eq!(refused.error_code, 96, "FEATURE_UPDATE_FAILED");
    assert!(refused.error_message.is_some() && refused.results.is_empty());
}

#[tokio::test]
async fn every_version_of_the_apis_of_leaders_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    ask_all(&world, |_| reassign("t")).await;
    ask_all(&world, |_| {
        ListPartitionReassignmentsRequest::default().with_topics(None)
    })
    .await;
    ask_all(&world, |_| elect("t")).await;
}

#[tokio::test]
async fn every_version_of_the_apis_of_transactions_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    for topic in ["t", "none"] {
        ask_all(&world, |version| add_partitions_to_txn(version, topic)).await;
        ask_all(&world, |_| write_txn_markers(topic)).await;
        ask_all(&world, |_| txn_offset_commit(topic)).await;
    }
    ask_all(&world, |_| add_offsets_to_txn()).await;
    ask_all(&world, |_| end_txn()).await;
    ask_all(&world, |_| describe_transactions()).await;
    ask_all(&world, |_| ListTransactionsRequest::default()).await;
}

#[tokio::test]
async fn every_version_of_the_apis_of_share_partitions_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world.logs.topics()[0].id.0;
    for id in [id, uuid::Uuid::from_u128(1)] {
        ask_all(&world, |_| initialize_state(id, 1, 0)).await;
        ask_all(&world, |_| read_state(id, 1)).await;
        ask_all(&world, |_| write_state(id, (1, 1), (0, 4))).await;
        ask_all(&world, |_| read_summary(id)).await;
        ask_all(&world, |_| delete_state(id)).await;
    }
}

#[tokio::test]
async fn every_version_of_the_apis_of_users_is_served() {
    let world = World::new().await;
    ask_all(&world, |_| DescribeClientQuotasRequest::default()).await;
    ask_all(&world, |_| {
        let entry = alter_client_quotas_request::EntryData::default();
        AlterClientQuotasRequest::default().with_entries(vec![entry])
    })
    .await;
    ask_all(&world, |_| DescribeUserScramCredentialsRequest::default()).await;
    ask_all(&world, |_| {
        let deletion = alter_user_scram_credentials_request::ScramCredentialDeletion::default();
        AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion])
    })
    .await;
    ask_all(&world, |_| SaslHandshakeRequest::default()).await;
    ask_all(&world, |_| SaslAuthenticateRequest::default()).await;
}

#[tokio::test]
async fn every_version_of_the_apis_of_delegation_tokens_is_served() {
    let without = World::new().await;
    let with = World::with(Settings {
        tokens: Some((token_config(), SystemClock::shared())),
        ..Settings::default()
    })
    .await;
    let alice = alice();
    for mut world in [without, with] {
        for peer in [Arc::clone(&world.peer), Arc::clone(&alice)] {
            world.peer = peer;
            ask_all(&world, |version| {
                let owner = if version >= 3 { "User:bob" } else { "" };
                create_token(owner, &["User:carol"])
            })
            .await;
            ask_all(&world, |_| RenewDelegationTokenRequest::default()).await;
            ask_all(&world, |_| ExpireDelegationTokenRequest::default()).await;
            ask_all(&world, |_| {
                DescribeDelegationTokenRequest::default().with_owners(None)
            })
            .await;
        }
    }
}

#[tokio::test]
async fn every_version_of_the_apis_of_acls_is_served() {
    let without = World::new().await;
    let with = World::with(Settings {
        authorizer: Some(trusting_the_world()),
        ..Settings::default()
    })
    .await;
    for world in [without, with] {
        ask_all(&world, |_| create_acls(vec![acl("User:a", 3, "orders")])).await;
        ask_all(&world, |_| create_acls(vec![acl("nobody", 3, "orders")])).await;
        ask_all(&world, |_| every_acl()).await;
        ask_all(&world, |_| every_acl().with_operation(99)).await;
        ask_all(&world, |_| delete_acls("User:a")).await;
        ask_all(&world, |_| DeleteAclsRequest::default()).await;
    }
}

#[tokio::test]
async fn every_version_of_the_group_apis_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    for key_type in [0, 1] {
        ask_all(&world, |version| {
            let request = FindCoordinatorRequest::default().with_key_type(if version >= 1 {
                key_type
            } else {
                0
            });
            match version {
                4.. => request.with_coordinator_keys(vec![text("k")]),
                _ => request.with_key(text("k")),
            }
        })
        .await;
    }
    // Good: each in a group of its own, so that nobody waits. Bad: no such member.
    ask_all(&world, |version| join(&format!("g{version}"), "")).await;
    ask_all(&world, |version| join(&format!("h{version}"), "stranger")).await;
    ask_all(&world, |_| {
        SyncGroupRequest::default()
            .with_group_id(group("g0"))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
    })
    .await;
    ask_all(&world, |_| {
        HeartbeatRequest::default().with_group_id(group("g0"))
    })
    .await;
    ask_all(&world, |version| {
        let request = LeaveGroupRequest::default().with_group_id(group("g0"));
        match version {
            3.. => request.with_members(vec![leave_group_request::MemberIdentity::default()]),
            _ => request.with_member_id(text("x")),
        }
    })
    .await;
    for (name, id) in [
        ("t", world.logs.topics()[0].id.0),
        ("none", uuid::Uuid::from_u128(1)),
    ] {
        // Where topics are named by id, its text stands in the place of the name.
        let id = id.to_string();
        ask_all(&world, |version| {
            offset_commit("o", if version >= 10 { &id } else { name })
        })
        .await;
    }
    for id in ["o", "none"] {
        ask_all(&world, |version| offset_fetch(id, version)).await;
        ask_all(&world, |_| {
            DescribeGroupsRequest::default().with_groups(vec![group(id)])
        })
        .await;
    }
    ask_all(&world, |_| ListGroupsRequest::default()).await;
    ask_all(&world, |_| {
        DeleteGroupsRequest::default().with_groups_names(vec![group("none")])
    })
    .await;
    ask_all(&world, |_| offset_delete("none", "t", 0)).await;
    let topics = [world.logs.topics()[0].id.0, uuid::Uuid::from_u128(1)];
    for epoch in [0, 1, 7, -1] {
        ask_all(&world, |_| share_acknowledge("g", "m", epoch, &topics)).await;
        ask_all(&world, |_| share_fetch("g", "m", epoch, &topics)).await;
    }
}

#[tokio::test]
async fn every_version_of_the_apis_of_consumer_groups_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    ask_all(&world, |version| {
        consumer_heartbeat(&format!("g{version}"), "m", &["t"])
    })
    .await;
    ask_all(&world, |_| consumer_heartbeat("h", "", &[])).await;
    ask_all(&world, |_| {
        consumer_heartbeat("none", "m", &["t"]).with_member_epoch(3)
    })
    .await;
    for id in ["g0", "none"] {
        ask_all(&world, |_| {
            ConsumerGroupDescribeRequest::default()
                .with_group_ids(vec![group(id)])
                .with_include_authorized_operations(true)
        })
        .await;
    }
}

#[tokio::test]
async fn every_version_of_the_apis_of_share_groups_is_served() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    ask_all(&world, |_| share_groups::share_heartbeat("g", "m", &["t"])).await;
    for id in ["g", "none", ""] {
        ask_all(&world, |_| share_groups::share_heartbeat(id, "", &[])).await;
        ask_all(&world, |_| share_groups::describe(id)).await;
        for topic in ["t", "none", "/"] {
            let topics = Some((topic, &[0, -1][..]));
            ask_all(&world, |_| share_groups::describe_offsets(id, topics)).await;
            ask_all(&world, |_| {
                share_groups::alter_offsets(id, topic, &[(0, 1)])
            })
            .await;
            ask_all(&world, |_| share_groups::delete_offsets(id, &[topic])).await;
        }
        ask_all(&world, |_| share_groups::describe_offsets(id, None)).await;
    }
}

/// A member joins a consumer group.
pub(crate) fn consumer_heartbeat(
    group_id: &str,
    member_id: &str,
    topics: &[&str],
) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group(group_id))
        .with_member_id(text(member_id))
        .with_rebalance_timeout_ms(60_000)
        .with_subscribed_topic_names(Some(topics.iter().map(|name| topic_name(name)).collect()))
        .with_topic_partitions(Some(Vec::new()))
}

#[tokio::test]
async fn a_member_of_every_version_gets_its_assignment() {
    let world = World::new().await;
    world.find_coordinator().await;
    for version in 0..=9 {
        let id = format!("m{version}");
        let mut joined = world.ask(version, &join(&id, "")).await;
        if version >= 4 {
            assert_eq!(joined.error_code, 79);
            joined = world.ask(version, &join(&id, &joined.member_id)).await;
        }
        assert_eq!(joined.error_code, 0);
        let assignment = sync_group_request::SyncGroupRequestAssignment::default()
            .with_member_id(joined.member_id.clone())
            .with_assignment(Bytes::from_static(b"a"));
        let sync = SyncGroupRequest::default()
            .with_group_id(group(&id))
            .with_generation_id(joined.generation_id)
            .with_member_id(joined.member_id.clone())
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(vec![assignment]);
        let synced = world.ask(version.min(5), &sync).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, &b"a"[..]));
        ask_all(&world, |_| {
            DescribeGroupsRequest::default().with_groups(vec![group(&id)])
        })
        .await;
    }
}

/// A client that is newer than we are asks in its newest version; the answer is in version 0, which
/// every client can read (KIP-511).
#[tokio::test]
async fn newer_clients_learn_our_versions() {
    let world = World::new().await;
    let mut frame = BytesMut::new();
    frame.put_i16(18);
    frame.put_i16(99);
    frame.put_i32(7);
    frame.put_i16(-1);
    frame.put_slice(b"whatever comes then");
    let Sent::Answer(bytes) = world.send_frame(frame).await else {
        panic!("an answer")
    };
    let response = decode::<ApiVersionsRequest>(0, bytes);
    assert_eq!(response.error_code, 35);
    assert_eq!(response.api_keys.len(), SUPPORTED.len());
    let produce = &response.api_keys[0];
    assert_eq!(
        (produce.api_key, produce.min_version, produce.max_version),
        (0, 0, 13)
    );
}

trait IntoRequest {
    fn into_request(self, create: bool) -> MetadataRequest;
}

impl IntoRequest for metadata_request::MetadataRequestTopic {
    fn into_request(self, create: bool) -> MetadataRequest {
        MetadataRequest::default()
            .with_topics(Some(vec![self]))
            .with_allow_auto_topic_creation(!create)
    }
}

pub(crate) fn list_offsets(name: &str) -> ListOffsetsRequest {
    let partition = list_offsets_request::ListOffsetsPartition::default().with_timestamp(-1);
    let topic = list_offsets_request::ListOffsetsTopic::default()
        .with_name(topic_name(name))
        .with_partitions(vec![partition]);
    ListOffsetsRequest::default().with_topics(vec![topic])
}

pub(crate) fn describe_configs(name: &str) -> DescribeConfigsRequest {
    let resource = describe_configs_request::DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text(name));
    DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
}

pub(crate) fn incremental_alter_configs(kind: i8, name: &str) -> IncrementalAlterConfigsRequest {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let config = AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("5")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
}

pub(crate) fn alter_configs(kind: i8, name: &str) -> AlterConfigsRequest {
    use alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let config = AlterableConfig::default()
        .with_name(text("retention.ms"))
        .with_value(Some(text("5")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(vec![config]);
    AlterConfigsRequest::default().with_resources(vec![resource])
}

fn reassign(name: &str) -> AlterPartitionReassignmentsRequest {
    let partition = |index, replicas: Option<Vec<i32>>| {
        let replicas = replicas.map(|replicas| replicas.into_iter().map(BrokerId).collect());
        alter_partition_reassignments_request::ReassignablePartition::default()
            .with_partition_index(index)
            .with_replicas(replicas)
    };
    let topic = alter_partition_reassignments_request::ReassignableTopic::default()
        .with_name(topic_name(name))
        .with_partitions(vec![
            partition(0, Some(vec![0])),
            partition(0, Some(vec![9])),
            partition(1, None),
            partition(70_000, Some(vec![0])),
        ]);
    AlterPartitionReassignmentsRequest::default().with_topics(vec![topic])
}

fn elect(name: &str) -> ElectLeadersRequest {
    let topic = elect_leaders_request::TopicPartitions::default()
        .with_topic(topic_name(name))
        .with_partitions(vec![0, 70_000]);
    ElectLeadersRequest::default()
        .with_topic_partitions(Some(vec![topic]))
        .with_timeout_ms(1_000)
}

pub(crate) fn describe_producers(name: &str) -> DescribeProducersRequest {
    let topic = describe_producers_request::TopicRequest::default()
        .with_name(topic_name(name))
        .with_partition_indexes(vec![0]);
    DescribeProducersRequest::default().with_topics(vec![topic])
}

pub(crate) fn delete_records(name: &str) -> DeleteRecordsRequest {
    let partition = delete_records_request::DeleteRecordsPartition::default();
    let topic = delete_records_request::DeleteRecordsTopic::default()
        .with_name(topic_name(name))
        .with_partitions(vec![partition]);
    DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(5_000)
}

pub(crate) fn offset_for_leader_epoch(name: &str) -> OffsetForLeaderEpochRequest {
    let partition = offset_for_leader_epoch_request::OffsetForLeaderPartition::default();
    let topic = offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
        .with_topic(topic_name(name))
        .with_partitions(vec![partition]);
    OffsetForLeaderEpochRequest::default().with_topics(vec![topic])
}

fn describe_log_dirs(name: Option<&str>) -> DescribeLogDirsRequest {
    let topic = |name| {
        describe_log_dirs_request::DescribableLogDirTopic::default()
            .with_topic(topic_name(name))
            .with_partitions(vec![0, 7])
    };
    DescribeLogDirsRequest::default().with_topics(name.map(|name| vec![topic(name)]))
}

pub(crate) fn create_partitions(name: &str) -> CreatePartitionsRequest {
    let topic = create_partitions_request::CreatePartitionsTopic::default()
        .with_name(topic_name(name))
        .with_count(1);
    CreatePartitionsRequest::default().with_topics(vec![topic])
}

fn create_topics(name: &str) -> CreateTopicsRequest {
    let topic = create_topics_request::CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(1)
        .with_replication_factor(1);
    CreateTopicsRequest::default().with_topics(vec![topic])
}

fn delete_topics(name: &str, version: i16) -> DeleteTopicsRequest {
    if version >= 6 {
        let state = |name: &str| {
            delete_topics_request::DeleteTopicState::default().with_name(Some(topic_name(name)))
        };
        return DeleteTopicsRequest::default().with_topics(vec![state(name), state("none")]);
    }
    DeleteTopicsRequest::default().with_topic_names(vec![topic_name(name), topic_name("none")])
}

pub(crate) fn join(group_id: &str, member_id: &str) -> JoinGroupRequest {
    let protocol = join_group_request::JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"));
    JoinGroupRequest::default()
        .with_group_id(group(group_id))
        .with_member_id(text(member_id))
        .with_protocol_type(text("consumer"))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocols(vec![protocol])
}

pub(crate) fn offset_commit(group_id: &str, topic: &str) -> OffsetCommitRequest {
    let partition = offset_commit_request::OffsetCommitRequestPartition::default()
        .with_committed_offset(1)
        .with_committed_metadata(None);
    let topic = offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group(group_id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

/// A fetch of the first partitions of topics that does not wait.
pub(crate) fn share_fetch(
    group_id: &str,
    member_id: &str,
    epoch: i32,
    topics: &[uuid::Uuid],
) -> ShareFetchRequest {
    let topic = |id: &uuid::Uuid| {
        share_fetch_request::FetchTopic::default()
            .with_topic_id(*id)
            .with_partitions(vec![share_fetch_request::FetchPartition::default()])
    };
    ShareFetchRequest::default()
        .with_group_id(Some(group(group_id)))
        .with_member_id(Some(text(member_id)))
        .with_share_session_epoch(epoch)
        .with_max_bytes(1 << 20)
        .with_max_records(10)
        .with_batch_size(10)
        .with_topics(topics.iter().map(topic).collect())
}

/// Accepts the first record of the first partitions of topics.
pub(crate) fn share_acknowledge(
    group_id: &str,
    member_id: &str,
    epoch: i32,
    topics: &[uuid::Uuid],
) -> ShareAcknowledgeRequest {
    let batch =
        share_acknowledge_request::AcknowledgementBatch::default().with_acknowledge_types(vec![1]);
    let partition = share_acknowledge_request::AcknowledgePartition::default()
        .with_acknowledgement_batches(vec![batch]);
    let topic = |id: &uuid::Uuid| {
        share_acknowledge_request::AcknowledgeTopic::default()
            .with_topic_id(*id)
            .with_partitions(vec![partition.clone()])
    };
    ShareAcknowledgeRequest::default()
        .with_group_id(Some(group(group_id)))
        .with_member_id(Some(text(member_id)))
        .with_share_session_epoch(epoch)
        .with_topics(topics.iter().map(topic).collect())
}

pub(crate) fn offset_delete(group_id: &str, topic: &str, partition: i32) -> OffsetDeleteRequest {
    let partition = offset_delete_request::OffsetDeleteRequestPartition::default()
        .with_partition_index(partition);
    let topic = offset_delete_request::OffsetDeleteRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    OffsetDeleteRequest::default()
        .with_group_id(group(group_id))
        .with_topics(vec![topic])
}

pub(crate) fn describe_quorum() -> DescribeQuorumRequest {
    let topic = describe_quorum_request::TopicData::default()
        .with_topic_name(topic_name("__cluster_metadata"))
        .with_partitions(vec![describe_quorum_request::PartitionData::default()]);
    DescribeQuorumRequest::default().with_topics(vec![topic])
}

pub(crate) fn alter_replica_log_dirs(
    dir: &str,
    topic: &str,
    partition: i32,
) -> AlterReplicaLogDirsRequest {
    let topic = alter_replica_log_dirs_request::AlterReplicaLogDirTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    let dir = alter_replica_log_dirs_request::AlterReplicaLogDir::default()
        .with_path(text(dir))
        .with_topics(vec![topic]);
    AlterReplicaLogDirsRequest::default().with_dirs(vec![dir])
}

pub(crate) fn describe_topic_partitions(
    topics: &[&str],
    limit: i32,
) -> DescribeTopicPartitionsRequest {
    let topic = |name: &&str| {
        describe_topic_partitions_request::TopicRequest::default().with_name(topic_name(name))
    };
    DescribeTopicPartitionsRequest::default()
        .with_topics(topics.iter().map(topic).collect())
        .with_response_partition_limit(limit)
        .with_cursor(None)
}

fn update_features(feature: &str, level: i16) -> UpdateFeaturesRequest {
    let update = update_features_request::FeatureUpdateKey::default()
        .with_feature(text(feature))
        .with_max_version_level(level);
    UpdateFeaturesRequest::default().with_feature_updates(vec![update])
}

fn offset_fetch(group_id: &str, version: i16) -> OffsetFetchRequest {
    if version >= 8 {
        let asked = offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group(group_id))
            .with_topics(None);
        return OffsetFetchRequest::default().with_groups(vec![asked]);
    }
    let topic = offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0, 3]);
    OffsetFetchRequest::default()
        .with_group_id(group(group_id))
        .with_topics(Some(vec![topic]))
}

fn transactional_id() -> TransactionalId {
    TransactionalId(text("tx"))
}

/// In the older versions, for a client; in the newer ones, for another broker.
pub(crate) fn add_partitions_to_txn(version: i16, topic: &str) -> AddPartitionsToTxnRequest {
    use add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
    let topic = AddPartitionsToTxnTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![0]);
    let request = AddPartitionsToTxnRequest::default();
    match version {
        ..4 => request
            .with_v3_and_below_transactional_id(transactional_id())
            .with_v3_and_below_topics(vec![topic]),
        _ => {
            let transaction = AddPartitionsToTxnTransaction::default()
                .with_transactional_id(transactional_id())
                .with_topics(vec![topic]);
            request.with_transactions(vec![transaction])
        }
    }
}

pub(crate) fn add_offsets_to_txn() -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest::default()
        .with_transactional_id(transactional_id())
        .with_group_id(group("g"))
}

pub(crate) fn end_txn() -> EndTxnRequest {
    EndTxnRequest::default().with_transactional_id(transactional_id())
}

pub(crate) fn write_txn_markers(topic: &str) -> WriteTxnMarkersRequest {
    let topic = write_txn_markers_request::WritableTxnMarkerTopic::default()
        .with_name(topic_name(topic))
        .with_partition_indexes(vec![0]);
    let marker = write_txn_markers_request::WritableTxnMarker::default().with_topics(vec![topic]);
    WriteTxnMarkersRequest::default().with_markers(vec![marker])
}

pub(crate) fn txn_offset_commit(topic: &str) -> TxnOffsetCommitRequest {
    let partition = txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
        .with_committed_metadata(Some(text("")));
    let topic = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    TxnOffsetCommitRequest::default()
        .with_transactional_id(transactional_id())
        .with_group_id(group("g"))
        .with_generation_id(-1)
        .with_topics(vec![topic])
}

pub(crate) fn describe_transactions() -> DescribeTransactionsRequest {
    DescribeTransactionsRequest::default().with_transactional_ids(vec![transactional_id()])
}
