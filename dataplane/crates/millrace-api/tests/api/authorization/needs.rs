//! Which rights each API needs.

use super::*;

pub(super) const TOPIC_DENIED: i16 = 29;
pub(super) const GROUP_DENIED: i16 = 30;
pub(super) const CLUSTER_DENIED: i16 = 31;
pub(super) const TRANSACTIONAL_ID_DENIED: i16 = 53;
pub(super) const TOKEN_DENIED: i16 = 65;
pub(super) const INVALID_PRODUCER_ID_MAPPING: i16 = 49;
pub(super) const NO_TRANSACTION: i16 = 105;
pub(super) const UNKNOWN_TOPIC_ID: i16 = 100;

/// A right on one resource.
pub(crate) type Right = (ResourceType, &'static str, Operation);

pub(super) fn on_topic(operation: Operation) -> Right {
    (ResourceType::Topic, "t", operation)
}

pub(super) fn on_group(operation: Operation) -> Right {
    (ResourceType::Group, "g", operation)
}

pub(super) fn on_cluster(operation: Operation) -> Right {
    (ResourceType::Cluster, CLUSTER_NAME, operation)
}

/// What an API needs: sets of rights of which each is enough and has none too many, and the error without.
/// None where everybody may ask.
///
/// A new API must be entered here and in [`errors`].
pub(super) fn needs(key: ApiKey) -> Option<(Vec<Vec<Right>>, i16)> {
    use Operation::*;
    let topic = |operation| Some((vec![vec![on_topic(operation)]], TOPIC_DENIED));
    match key {
        ApiKey::ApiVersions
        | ApiKey::SaslHandshake
        | ApiKey::SaslAuthenticate
        | ApiKey::DescribeCluster
        | ApiKey::GetTelemetrySubscriptions
        | ApiKey::PushTelemetry
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
pub(super) fn needs_for_groups(key: ApiKey) -> Option<(Vec<Vec<Right>>, i16)> {
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
pub(super) fn needs_for_producers(key: ApiKey) -> Option<(Vec<Vec<Right>>, i16)> {
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
pub(super) fn needs_on_cluster(key: ApiKey) -> Option<Operation> {
    use Operation::*;
    Some(match key {
        ApiKey::AddPartitionsToTxn
        | ApiKey::InitializeShareGroupState
        | ApiKey::ReadShareGroupState
        | ApiKey::WriteShareGroupState
        | ApiKey::DeleteShareGroupState
        | ApiKey::ReadShareGroupStateSummary => ClusterAction,
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
