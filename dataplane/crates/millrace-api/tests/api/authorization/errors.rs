//! What each API answers to a client.

use super::{needs::*, *};

pub(super) fn list_groups_error(response: &ListGroupsResponse) -> i16 {
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
pub(super) async fn errors(world: &World, peer: &Arc<Peer>, key: ApiKey, topic: &str) -> Vec<i16> {
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

pub(super) async fn group_errors(
    world: &World,
    peer: &Arc<Peer>,
    key: ApiKey,
    topic: &str,
) -> Vec<i16> {
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
pub(super) async fn transaction_errors(
    world: &World,
    peer: &Arc<Peer>,
    key: ApiKey,
    topic: &str,
) -> Vec<i16> {
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
pub(super) async fn leader_errors(world: &World, peer: &Arc<Peer>, key: ApiKey) -> Vec<i16> {
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

pub(super) async fn cluster_errors(
    world: &World,
    peer: &Arc<Peer>,
    key: ApiKey,
    topic: &str,
) -> Vec<i16> {
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
pub(super) async fn broker_errors(
    world: &World,
    peer: &Arc<Peer>,
    key: ApiKey,
    topic: &str,
) -> Vec<i16> {
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
        other => share_state_errors(world, peer, other).await,
    }
}

/// The same of requests to the share coordinator.
pub(super) async fn share_state_errors(world: &World, peer: &Arc<Peer>, key: ApiKey) -> Vec<i16> {
    use crate::share_states::{
        delete_state, initialize_state, read_state, read_summary, write_state,
    };
    let id = uuid::Uuid::from_u128(1);
    macro_rules! ask_share {
        ($request:expr) => {
            ask!(world as peer, 0, $request, |a| vec![
                a.results[0].partitions[0].error_code
            ])
        };
    }
    match key {
        ApiKey::InitializeShareGroupState => ask_share!(initialize_state(id, 1, 0)),
        ApiKey::ReadShareGroupState => ask_share!(read_state(id, 1)),
        ApiKey::WriteShareGroupState => ask_share!(write_state(id, (1, 1), (0, 0))),
        ApiKey::DeleteShareGroupState => ask_share!(delete_state(id)),
        ApiKey::ReadShareGroupStateSummary => ask_share!(read_summary(id)),
        other => panic!("{other:?} is served; enter how it is asked"),
    }
}
