//! Every API refuses a client without rights, as Kafka does, and serves one that has them.

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

use crate::{
    acls::{acl, create_acls, delete_acls, every_acl, guarded_world},
    calls::{NAMED_FETCH, NAMED_PRODUCE, batch, fetch_request, produce_request, topic_name},
    delegation_tokens::create_token,
    versions::*,
    world::{Sent, World, text},
};

const TOPIC_DENIED: i16 = 29;
const GROUP_DENIED: i16 = 30;
const CLUSTER_DENIED: i16 = 31;
const TRANSACTIONAL_ID_DENIED: i16 = 53;
const TOKEN_DENIED: i16 = 65;
const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
const NO_TRANSACTION: i16 = 105;
const UNKNOWN_TOPIC_ID: i16 = 100;

const ALICE: &str = "User:alice";
/// Somebody else, who has tokens.
const OTHER: &str = "User:other";

/// A right on one resource.
type Right = (ResourceType, &'static str, Operation);

fn on_topic(operation: Operation) -> Right {
    (ResourceType::Topic, "t", operation)
}

fn on_group(operation: Operation) -> Right {
    (ResourceType::Group, "g", operation)
}

fn on_cluster(operation: Operation) -> Right {
    (ResourceType::Cluster, CLUSTER_NAME, operation)
}

/// What an API needs: sets of rights of which each is enough and has none too many, and the error without.
/// None where everybody may ask.
///
/// A new API must be entered here and in [`errors`].
fn needs(key: ApiKey) -> Option<(Vec<Vec<Right>>, i16)> {
    use Operation::*;
    let topic = |operation| Some((vec![vec![on_topic(operation)]], TOPIC_DENIED));
    match key {
        ApiKey::ApiVersions
        | ApiKey::SaslHandshake
        | ApiKey::SaslAuthenticate
        | ApiKey::DescribeCluster
        // Those that the client may describe are listed.
        | ApiKey::ListTransactions
        // Who the owner and the renewers are decides.
        | ApiKey::RenewDelegationToken
        | ApiKey::ExpireDelegationToken => None,
        ApiKey::Produce => topic(Write),
        ApiKey::Fetch | ApiKey::DescribeProducers => topic(Read),
        ApiKey::ListOffsets | ApiKey::Metadata | ApiKey::DescribeTopicPartitions => {
            topic(Describe)
        }
        ApiKey::OffsetForLeaderEpoch => Some((
            vec![vec![on_topic(Describe)], vec![on_cluster(ClusterAction)]],
            TOPIC_DENIED,
        )),
        ApiKey::CreateTopics => Some((
            vec![vec![on_topic(Create)], vec![on_cluster(Create)]],
            TOPIC_DENIED,
        )),
        ApiKey::DeleteTopics | ApiKey::DeleteRecords => topic(Delete),
        ApiKey::CreatePartitions => topic(Alter),
        ApiKey::DescribeConfigs => topic(DescribeConfigs),
        ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs => topic(AlterConfigs),
        ApiKey::CreateDelegationToken => Some((
            vec![vec![(ResourceType::User, OTHER, CreateTokens)]],
            TOKEN_DENIED,
        )),
        ApiKey::DescribeDelegationToken => Some((
            vec![
                vec![(ResourceType::User, OTHER, DescribeTokens)],
                vec![(ResourceType::DelegationToken, "*", Describe)],
            ],
            TOKEN_DENIED,
        )),
        other => needs_for_groups(other),
    }
}

/// The same of the APIs of groups.
fn needs_for_groups(key: ApiKey) -> Option<(Vec<Vec<Right>>, i16)> {
    use Operation::*;
    let group = |operation| Some((vec![vec![on_group(operation)]], GROUP_DENIED));
    match key {
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::LeaveGroup => {
            group(Read)
        }
        ApiKey::FindCoordinator | ApiKey::DescribeGroups => group(Describe),
        // The group has a member by then, which subscribes to the topic.
        ApiKey::ConsumerGroupDescribe => Some((
            vec![vec![on_group(Describe), on_topic(Describe)]],
            GROUP_DENIED,
        )),
        // The topic's error where the group is allowed is tested apart.
        ApiKey::ConsumerGroupHeartbeat => {
            Some((vec![vec![on_group(Read), on_topic(Describe)]], GROUP_DENIED))
        }
        ApiKey::DeleteGroups => group(Delete),
        // The topic's error where the group is allowed is tested apart.
        ApiKey::OffsetDelete => Some((vec![vec![on_group(Delete), on_topic(Read)]], GROUP_DENIED)),
        ApiKey::ListGroups => Some((
            vec![vec![on_group(Describe)], vec![on_cluster(Describe)]],
            GROUP_DENIED,
        )),
        // The topic's error where the group is allowed is tested apart.
        ApiKey::OffsetCommit => Some((vec![vec![on_group(Read), on_topic(Read)]], GROUP_DENIED)),
        ApiKey::OffsetFetch => Some((
            vec![vec![on_group(Describe), on_topic(Describe)]],
            GROUP_DENIED,
        )),
        other => needs_for_producers(other),
    }
}

/// The same of the APIs of producers and their transactions.
fn needs_for_producers(key: ApiKey) -> Option<(Vec<Vec<Right>>, i16)> {
    use Operation::*;
    let transactional_id = |operation| {
        let right = (ResourceType::TransactionalId, "tx", operation);
        Some((vec![vec![right]], TRANSACTIONAL_ID_DENIED))
    };
    match key {
        ApiKey::InitProducerId => Some((
            vec![vec![on_topic(Write)], vec![on_cluster(IdempotentWrite)]],
            CLUSTER_DENIED,
        )),
        ApiKey::AddOffsetsToTxn => {
            let write = (ResourceType::TransactionalId, "tx", Write);
            Some((vec![vec![write, on_group(Read)]], TRANSACTIONAL_ID_DENIED))
        }
        ApiKey::TxnOffsetCommit => {
            let write = (ResourceType::TransactionalId, "tx", Write);
            let all = vec![write, on_group(Read), on_topic(Read)];
            Some((vec![all], TRANSACTIONAL_ID_DENIED))
        }
        ApiKey::EndTxn => transactional_id(Write),
        ApiKey::DescribeTransactions => transactional_id(Describe),
        ApiKey::WriteTxnMarkers => Some((
            vec![vec![on_cluster(ClusterAction)], vec![on_cluster(Alter)]],
            CLUSTER_DENIED,
        )),
        other => needs_on_cluster(other).map(|operation| {
            let rights = vec![vec![on_cluster(operation)]];
            (rights, CLUSTER_DENIED)
        }),
    }
}

/// What an API needs on the cluster and on nothing else.
fn needs_on_cluster(key: ApiKey) -> Option<Operation> {
    use Operation::*;
    Some(match key {
        ApiKey::AddPartitionsToTxn => ClusterAction,
        ApiKey::AlterClientQuotas => AlterConfigs,
        ApiKey::DescribeClientQuotas | ApiKey::ListConfigResources => DescribeConfigs,
        ApiKey::DescribeLogDirs | ApiKey::DescribeAcls | ApiKey::DescribeUserScramCredentials => {
            Describe
        }
        ApiKey::ListPartitionReassignments | ApiKey::DescribeQuorum => Describe,
        ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::AlterUserScramCredentials
        | ApiKey::AlterPartitionReassignments
        | ApiKey::ElectLeaders
        | ApiKey::UpdateFeatures
        | ApiKey::AlterReplicaLogDirs => Alter,
        other => panic!("{other:?} is served; enter what it needs"),
    })
}

fn list_groups_error(response: &ListGroupsResponse) -> i16 {
    let is_shown = response.groups.iter().any(|g| g.group_id.as_str() == "g");
    if is_shown { 0 } else { GROUP_DENIED }
}

/// The codes in the answer to a request.
macro_rules! ask {
    ($world:ident as $peer:ident, $version:expr, $request:expr, |$answer:ident| $codes:expr) => {{
        let $answer = $world.ask_as($peer, $version, &$request).await;
        $codes
    }};
}

/// The errors that an API answers about the topic, the group `g` and the cluster.
async fn errors(world: &World, peer: &Arc<Peer>, key: ApiKey, topic: &str) -> Vec<i16> {
    match key {
        ApiKey::Produce => {
            let request = produce_request(topic, &[(0, batch(&["x"]))], -1);
            ask!(world as peer, NAMED_PRODUCE, request, |a| vec![
                a.responses[0].partition_responses[0].error_code
            ])
        }
        ApiKey::Fetch => ask!(
            world as peer,
            NAMED_FETCH,
            fetch_request(topic, &[(0, 0)]),
            |a| vec![a.responses[0].partitions[0].error_code]
        ),
        ApiKey::ListOffsets => ask!(world as peer, 10, list_offsets(topic), |a| vec![
            a.topics[0].partitions[0].error_code
        ]),
        ApiKey::Metadata => ask!(world as peer, 13, metadata(topic), |a| vec![
            a.topics[0].error_code
        ]),
        ApiKey::OffsetForLeaderEpoch => {
            ask!(world as peer, 4, offset_for_leader_epoch(topic), |a| vec![
                a.topics[0].partitions[0].error_code
            ])
        }
        ApiKey::CreateTopics => {
            let asked = create_topics_request::CreatableTopic::default()
                .with_name(topic_name(topic))
                .with_num_partitions(1)
                .with_replication_factor(1);
            let request = CreateTopicsRequest::default()
                .with_topics(vec![asked])
                .with_validate_only(true);
            ask!(world as peer, 7, request, |a| vec![a.topics[0].error_code])
        }
        ApiKey::DeleteTopics => {
            let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name(topic)]);
            let answer = ask!(world as peer, 5, request, |a| vec![
                a.responses[0].error_code
            ]);
            if answer == [0] {
                world.create(topic, 1, &[]).await;
            }
            answer
        }
        ApiKey::DeleteRecords => ask!(world as peer, 2, delete_records(topic), |a| vec![
            a.topics[0].partitions[0].error_code
        ]),
        ApiKey::CreatePartitions => ask!(world as peer, 3, create_partitions(topic), |a| vec![
            a.results[0].error_code
        ]),
        ApiKey::DescribeConfigs => ask!(world as peer, 4, describe_configs(topic), |a| vec![
            a.results[0].error_code
        ]),
        ApiKey::AlterConfigs => ask!(world as peer, 2, alter_configs(2, topic), |a| vec![
            a.responses[0].error_code
        ]),
        ApiKey::IncrementalAlterConfigs => {
            ask!(
                world as peer,
                1,
                incremental_alter_configs(2, topic),
                |a| vec![a.responses[0].error_code]
            )
        }
        _ => group_errors(world, peer, key, topic).await,
    }
}

async fn group_errors(world: &World, peer: &Arc<Peer>, key: ApiKey, topic: &str) -> Vec<i16> {
    match key {
        ApiKey::DescribeProducers => ask!(world as peer, 0, describe_producers(topic), |a| vec![
            a.topics[0].partitions[0].error_code
        ]),
        ApiKey::OffsetCommit => ask!(world as peer, 9, offset_commit("g", topic), |a| vec![
            a.topics[0].partitions[0].error_code
        ]),
        ApiKey::OffsetFetch => ask!(world as peer, 9, offset_fetch_of(topic), |a| {
            let group = &a.groups[0];
            let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
            let mut codes = vec![group.error_code];
            codes.extend(partitions.map(|partition| partition.error_code));
            codes.retain(|code| *code != 0);
            codes.truncate(1);
            codes
        }),
        ApiKey::JoinGroup => ask!(world as peer, 9, join("g", ""), |a| vec![a.error_code]),
        ApiKey::SyncGroup => {
            let request = SyncGroupRequest::default()
                .with_group_id(group("g"))
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text("range")));
            ask!(world as peer, 5, request, |a| vec![a.error_code])
        }
        ApiKey::Heartbeat => {
            let request = HeartbeatRequest::default().with_group_id(group("g"));
            ask!(world as peer, 4, request, |a| vec![a.error_code])
        }
        ApiKey::LeaveGroup => {
            let request = LeaveGroupRequest::default().with_group_id(group("g"));
            ask!(world as peer, 5, request, |a| vec![a.error_code])
        }
        ApiKey::FindCoordinator => {
            let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
            ask!(world as peer, 6, request, |a| vec![
                a.coordinators[0].error_code
            ])
        }
        ApiKey::DescribeGroups => {
            let request = DescribeGroupsRequest::default().with_groups(vec![group("g")]);
            ask!(world as peer, 6, request, |a| vec![a.groups[0].error_code])
        }
        ApiKey::ConsumerGroupDescribe => {
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("g")]);
            ask!(world as peer, 1, request, |a| vec![a.groups[0].error_code])
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let request = consumer_heartbeat("g", "m", &[topic]);
            ask!(world as peer, 1, request, |a| vec![a.error_code])
        }
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
            let answer = ask!(world as peer, 2, request, |a| vec![a.results[0].error_code]);
            commit_as_admin(world).await;
            answer
        }
        ApiKey::OffsetDelete => {
            let answer = ask!(world as peer, 0, offset_delete("g", "t", 0), |a| {
                let partitions = a.topics.iter().flat_map(|topic| &topic.partitions);
                let errors = partitions.map(|partition| partition.error_code);
                std::iter::once(a.error_code).chain(errors).collect()
            });
            commit_as_admin(world).await;
            answer
        }
        _ => transaction_errors(world, peer, key, topic).await,
    }
}

/// The same of the APIs of transactions. Errors that say that there is no such transaction are none here.
async fn transaction_errors(world: &World, peer: &Arc<Peer>, key: ApiKey, topic: &str) -> Vec<i16> {
    let mut codes = match key {
        ApiKey::AddPartitionsToTxn => {
            ask!(world as peer, 5, add_partitions_to_txn(5, topic), |a| vec![
                a.error_code
            ])
        }
        ApiKey::AddOffsetsToTxn => {
            ask!(world as peer, 4, add_offsets_to_txn(), |a| vec![
                a.error_code
            ])
        }
        ApiKey::TxnOffsetCommit => {
            ask!(world as peer, 5, txn_offset_commit(topic), |a| vec![
                a.topics[0].partitions[0].error_code
            ])
        }
        ApiKey::EndTxn => ask!(world as peer, 5, end_txn(), |a| vec![a.error_code]),
        ApiKey::WriteTxnMarkers => {
            ask!(world as peer, 1, write_txn_markers(topic), |a| vec![
                a.markers[0].topics[0].partitions[0].error_code
            ])
        }
        ApiKey::DescribeTransactions => {
            ask!(world as peer, 0, describe_transactions(), |a| vec![
                a.transaction_states[0].error_code
            ])
        }
        // Only those that may be described are listed; there are none.
        ApiKey::ListTransactions => {
            ask!(
                world as peer,
                2,
                ListTransactionsRequest::default(),
                |a| vec![a.error_code]
            )
        }
        _ => return cluster_errors(world, peer, key, topic).await,
    };
    codes.retain(|code| ![0, INVALID_PRODUCER_ID_MAPPING, NO_TRANSACTION].contains(code));
    codes
}

/// The same of requests that concern leaders or configs.
async fn leader_errors(world: &World, peer: &Arc<Peer>, key: ApiKey) -> Vec<i16> {
    match key {
        ApiKey::AlterPartitionReassignments => {
            ask!(
                world as peer,
                1,
                AlterPartitionReassignmentsRequest::default(),
                |a| vec![a.error_code]
            )
        }
        ApiKey::ListPartitionReassignments => {
            ask!(
                world as peer,
                0,
                ListPartitionReassignmentsRequest::default(),
                |a| vec![a.error_code]
            )
        }
        ApiKey::ElectLeaders => {
            ask!(world as peer, 2, ElectLeadersRequest::default(), |a| vec![
                a.error_code
            ])
        }
        ApiKey::ListConfigResources => {
            let request = ListConfigResourcesRequest::default();
            ask!(world as peer, 1, request, |a| vec![a.error_code])
        }
        other => panic!("{other:?} does not concern leaders or configs"),
    }
}

async fn cluster_errors(world: &World, peer: &Arc<Peer>, key: ApiKey, topic: &str) -> Vec<i16> {
    match key {
        ApiKey::ListGroups => ask!(world as peer, 5, ListGroupsRequest::default(), |a| vec![
            list_groups_error(&a)
        ]),
        ApiKey::InitProducerId => {
            let request = InitProducerIdRequest::default().with_transactional_id(None);
            ask!(world as peer, 5, request, |a| vec![a.error_code])
        }
        ApiKey::DescribeLogDirs => {
            let request = DescribeLogDirsRequest::default().with_topics(None);
            ask!(world as peer, 4, request, |a| vec![a.error_code])
        }
        ApiKey::DescribeAcls => ask!(world as peer, 3, every_acl(), |a| vec![a.error_code]),
        ApiKey::CreateAcls => {
            let request = create_acls(vec![acl("User:x", 3, "x")]);
            ask!(world as peer, 3, request, |a| vec![a.results[0].error_code])
        }
        ApiKey::DeleteAcls => ask!(world as peer, 3, delete_acls("User:x"), |a| vec![
            a.filter_results[0].error_code
        ]),
        ApiKey::DescribeUserScramCredentials => {
            let request = DescribeUserScramCredentialsRequest::default();
            ask!(world as peer, 0, request, |a| vec![a.error_code])
        }
        ApiKey::AlterClientQuotas => {
            let part = alter_client_quotas_request::EntityData::default()
                .with_entity_type(text("user"))
                .with_entity_name(Some(text("x")));
            let entry = alter_client_quotas_request::EntryData::default().with_entity(vec![part]);
            let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
            ask!(world as peer, 1, request, |a| vec![a.entries[0].error_code])
        }
        ApiKey::DescribeClientQuotas => {
            let request = DescribeClientQuotasRequest::default();
            ask!(world as peer, 1, request, |a| vec![a.error_code])
        }
        ApiKey::AlterUserScramCredentials => {
            let deletion = alter_user_scram_credentials_request::ScramCredentialDeletion::default()
                .with_name(text("x"))
                .with_mechanism(1);
            let request =
                AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion]);
            ask!(world as peer, 0, request, |a| vec![a.results[0].error_code])
        }
        ApiKey::AlterPartitionReassignments
        | ApiKey::ListPartitionReassignments
        | ApiKey::ListConfigResources
        | ApiKey::ElectLeaders => leader_errors(world, peer, key).await,
        ApiKey::CreateDelegationToken => {
            ask!(world as peer, 3, create_token(OTHER, &[]), |a| vec![
                a.error_code
            ])
        }
        ApiKey::DescribeDelegationToken => {
            let other = client(9, OTHER);
            let created = world.ask_as(&other, 3, &create_token("", &[])).await;
            assert_eq!(created.error_code, 0);
            let request = DescribeDelegationTokenRequest::default().with_owners(None);
            let id = &created.token_id;
            ask!(world as peer, 3, request, |a| {
                let is_shown = a.tokens.iter().any(|token| token.token_id == *id);
                vec![if is_shown { 0 } else { TOKEN_DENIED }]
            })
        }
        other => broker_errors(world, peer, other, topic).await,
    }
}

/// The same of requests that concern brokers and what they run.
async fn broker_errors(world: &World, peer: &Arc<Peer>, key: ApiKey, topic: &str) -> Vec<i16> {
    match key {
        ApiKey::UpdateFeatures => {
            let request = UpdateFeaturesRequest::default();
            ask!(world as peer, 2, request, |a| vec![a.error_code])
        }
        ApiKey::DescribeQuorum => {
            ask!(world as peer, 2, describe_quorum(), |a| vec![a.error_code])
        }
        ApiKey::AlterReplicaLogDirs => {
            ask!(
                world as peer,
                2,
                alter_replica_log_dirs("/", topic, 0),
                |a| vec![a.results[0].partitions[0].error_code]
            )
        }
        ApiKey::DescribeTopicPartitions => {
            ask!(
                world as peer,
                0,
                describe_topic_partitions(&[topic], 9),
                |a| vec![a.topics[0].error_code]
            )
        }
        other => panic!("{other:?} is served; enter how it is asked"),
    }
}

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

async fn give(world: &World, rights: &[Right]) {
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
