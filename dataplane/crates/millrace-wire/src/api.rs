//! The supported APIs and their versions.

use kafka_protocol::messages::{ApiKey, api_versions_response::ApiVersion};

/// The versions of one API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiSupport {
    /// The API.
    pub api_key: ApiKey,
    /// The oldest version served.
    pub min: i16,
    /// The newest version served.
    pub max: i16,
    /// The oldest version that ApiVersions tells. It differs from `min` for Produce alone:
    /// librdkafka from 2.10 on turns compression off where the advertised minimum is not 0, so
    /// Kafka advertises 0 and serves from 3 (KAFKA-18659).
    pub advertised_min: i16,
}

const fn serve(api_key: ApiKey, min: i16, max: i16) -> ApiSupport {
    ApiSupport {
        api_key,
        min,
        max,
        advertised_min: min,
    }
}

/// Every API that is served, by API key.
pub const SUPPORTED: &[ApiSupport] = &[
    ApiSupport {
        api_key: ApiKey::Produce,
        min: 3,
        max: 13,
        advertised_min: 0,
    },
    serve(ApiKey::Fetch, 4, 18),
    serve(ApiKey::ListOffsets, 1, 11),
    serve(ApiKey::Metadata, 0, 13),
    serve(ApiKey::OffsetCommit, 2, 10),
    serve(ApiKey::OffsetFetch, 1, 10),
    serve(ApiKey::FindCoordinator, 0, 6),
    serve(ApiKey::JoinGroup, 0, 9),
    serve(ApiKey::Heartbeat, 0, 4),
    serve(ApiKey::LeaveGroup, 0, 5),
    serve(ApiKey::SyncGroup, 0, 5),
    serve(ApiKey::DescribeGroups, 0, 6),
    serve(ApiKey::ListGroups, 0, 5),
    serve(ApiKey::SaslHandshake, 0, 1),
    serve(ApiKey::ApiVersions, 0, 4),
    serve(ApiKey::CreateTopics, 2, 7),
    serve(ApiKey::DeleteTopics, 1, 6),
    serve(ApiKey::DeleteRecords, 0, 2),
    serve(ApiKey::InitProducerId, 0, 5),
    serve(ApiKey::OffsetForLeaderEpoch, 2, 4),
    serve(ApiKey::AddPartitionsToTxn, 0, 5),
    serve(ApiKey::AddOffsetsToTxn, 0, 4),
    serve(ApiKey::EndTxn, 0, 5),
    serve(ApiKey::WriteTxnMarkers, 1, 1),
    serve(ApiKey::TxnOffsetCommit, 0, 5),
    serve(ApiKey::DescribeAcls, 1, 3),
    serve(ApiKey::CreateAcls, 1, 3),
    serve(ApiKey::DeleteAcls, 1, 3),
    serve(ApiKey::DescribeConfigs, 1, 4),
    serve(ApiKey::AlterConfigs, 0, 2),
    serve(ApiKey::AlterReplicaLogDirs, 1, 2),
    serve(ApiKey::DescribeLogDirs, 1, 4),
    serve(ApiKey::SaslAuthenticate, 0, 2),
    serve(ApiKey::CreatePartitions, 0, 3),
    serve(ApiKey::CreateDelegationToken, 1, 3),
    serve(ApiKey::RenewDelegationToken, 1, 2),
    serve(ApiKey::ExpireDelegationToken, 1, 2),
    serve(ApiKey::DescribeDelegationToken, 1, 3),
    serve(ApiKey::DeleteGroups, 0, 2),
    serve(ApiKey::ElectLeaders, 0, 2),
    serve(ApiKey::IncrementalAlterConfigs, 0, 1),
    serve(ApiKey::AlterPartitionReassignments, 0, 1),
    serve(ApiKey::ListPartitionReassignments, 0, 0),
    serve(ApiKey::OffsetDelete, 0, 0),
    serve(ApiKey::DescribeClientQuotas, 0, 1),
    serve(ApiKey::AlterClientQuotas, 0, 1),
    serve(ApiKey::DescribeUserScramCredentials, 0, 0),
    serve(ApiKey::AlterUserScramCredentials, 0, 0),
    serve(ApiKey::DescribeQuorum, 0, 2),
    serve(ApiKey::UpdateFeatures, 0, 2),
    serve(ApiKey::DescribeCluster, 0, 2),
    serve(ApiKey::DescribeProducers, 0, 0),
    serve(ApiKey::DescribeTransactions, 0, 0),
    serve(ApiKey::ListTransactions, 0, 2),
    serve(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    serve(ApiKey::ConsumerGroupDescribe, 0, 1),
    serve(ApiKey::GetTelemetrySubscriptions, 0, 0),
    serve(ApiKey::PushTelemetry, 0, 0),
    serve(ApiKey::ListConfigResources, 0, 1),
    serve(ApiKey::DescribeTopicPartitions, 0, 0),
    serve(ApiKey::ShareGroupHeartbeat, 1, 1),
    serve(ApiKey::ShareGroupDescribe, 1, 1),
    serve(ApiKey::ShareFetch, 1, 1),
    serve(ApiKey::ShareAcknowledge, 1, 1),
    serve(ApiKey::InitializeShareGroupState, 0, 0),
    serve(ApiKey::ReadShareGroupState, 0, 0),
    serve(ApiKey::WriteShareGroupState, 0, 0),
    serve(ApiKey::DeleteShareGroupState, 0, 0),
    serve(ApiKey::ReadShareGroupStateSummary, 0, 0),
    serve(ApiKey::DescribeShareGroupOffsets, 0, 0),
    serve(ApiKey::AlterShareGroupOffsets, 0, 0),
    serve(ApiKey::DeleteShareGroupOffsets, 0, 0),
];

/// The version that the codec knows and that is written as this one: some versions differ from the one before only in
/// what values mean.
#[must_use]
pub const fn codec_version(api_key: ApiKey, version: i16) -> i16 {
    match (api_key, version) {
        // KIP-1023 adds a timestamp.
        (ApiKey::ListOffsets, 11) => 10,
        _ => version,
    }
}

/// The versions of an API, or nothing where it is not served.
#[must_use]
pub fn support_of(api_key: ApiKey) -> Option<&'static ApiSupport> {
    SUPPORTED.iter().find(|support| support.api_key == api_key)
}

/// What the answer to ApiVersions lists.
#[must_use]
pub fn advertised_versions() -> Vec<ApiVersion> {
    let advertise = |support: &ApiSupport| {
        ApiVersion::default()
            .with_api_key(support.api_key as i16)
            .with_min_version(support.advertised_min)
            .with_max_version(support.max)
    };
    SUPPORTED.iter().map(advertise).collect()
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{messages::*, protocol::Message};

    use super::*;
    use crate::topic_ids;

    /// Every API that is served, with its request and its response.
    macro_rules! for_served {
        ($by_key:ident) => {
            $by_key! {
            Produce => ProduceRequest, ProduceResponse;
            Fetch => FetchRequest, FetchResponse;
            ListOffsets => ListOffsetsRequest, ListOffsetsResponse;
            Metadata => MetadataRequest, MetadataResponse;
            OffsetCommit => OffsetCommitRequest, OffsetCommitResponse;
            OffsetFetch => OffsetFetchRequest, OffsetFetchResponse;
            FindCoordinator => FindCoordinatorRequest, FindCoordinatorResponse;
            JoinGroup => JoinGroupRequest, JoinGroupResponse;
            Heartbeat => HeartbeatRequest, HeartbeatResponse;
            LeaveGroup => LeaveGroupRequest, LeaveGroupResponse;
            SyncGroup => SyncGroupRequest, SyncGroupResponse;
            DescribeGroups => DescribeGroupsRequest, DescribeGroupsResponse;
            ListGroups => ListGroupsRequest, ListGroupsResponse;
            SaslHandshake => SaslHandshakeRequest, SaslHandshakeResponse;
            ApiVersions => ApiVersionsRequest, ApiVersionsResponse;
            CreateTopics => CreateTopicsRequest, CreateTopicsResponse;
            DeleteTopics => DeleteTopicsRequest, DeleteTopicsResponse;
            DeleteRecords => DeleteRecordsRequest, DeleteRecordsResponse;
            InitProducerId => InitProducerIdRequest, InitProducerIdResponse;
            OffsetForLeaderEpoch => OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
            AddPartitionsToTxn => AddPartitionsToTxnRequest, AddPartitionsToTxnResponse;
            AddOffsetsToTxn => AddOffsetsToTxnRequest, AddOffsetsToTxnResponse;
            EndTxn => EndTxnRequest, EndTxnResponse;
            WriteTxnMarkers => WriteTxnMarkersRequest, WriteTxnMarkersResponse;
            TxnOffsetCommit => TxnOffsetCommitRequest, TxnOffsetCommitResponse;
            DescribeTransactions => DescribeTransactionsRequest, DescribeTransactionsResponse;
            ListTransactions => ListTransactionsRequest, ListTransactionsResponse;
            DescribeAcls => DescribeAclsRequest, DescribeAclsResponse;
            CreateAcls => CreateAclsRequest, CreateAclsResponse;
            DeleteAcls => DeleteAclsRequest, DeleteAclsResponse;
            DescribeConfigs => DescribeConfigsRequest, DescribeConfigsResponse;
            AlterConfigs => AlterConfigsRequest, AlterConfigsResponse;
            AlterReplicaLogDirs => AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse;
            DescribeLogDirs => DescribeLogDirsRequest, DescribeLogDirsResponse;
            SaslAuthenticate => SaslAuthenticateRequest, SaslAuthenticateResponse;
            CreatePartitions => CreatePartitionsRequest, CreatePartitionsResponse;
            CreateDelegationToken => CreateDelegationTokenRequest, CreateDelegationTokenResponse;
            RenewDelegationToken => RenewDelegationTokenRequest, RenewDelegationTokenResponse;
            ExpireDelegationToken => ExpireDelegationTokenRequest, ExpireDelegationTokenResponse;
            DescribeDelegationToken => DescribeDelegationTokenRequest, DescribeDelegationTokenResponse;
            DeleteGroups => DeleteGroupsRequest, DeleteGroupsResponse;
            IncrementalAlterConfigs => IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
            ElectLeaders => ElectLeadersRequest, ElectLeadersResponse;
            AlterPartitionReassignments => AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse;
            ListPartitionReassignments => ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse;
            OffsetDelete => OffsetDeleteRequest, OffsetDeleteResponse;
            DescribeClientQuotas => DescribeClientQuotasRequest, DescribeClientQuotasResponse;
            AlterClientQuotas => AlterClientQuotasRequest, AlterClientQuotasResponse;
            DescribeUserScramCredentials => DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse;
            AlterUserScramCredentials => AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse;
            DescribeQuorum => DescribeQuorumRequest, DescribeQuorumResponse;
            UpdateFeatures => UpdateFeaturesRequest, UpdateFeaturesResponse;
            DescribeCluster => DescribeClusterRequest, DescribeClusterResponse;
            DescribeProducers => DescribeProducersRequest, DescribeProducersResponse;
            DescribeTopicPartitions => DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
            GetTelemetrySubscriptions => GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse;
            PushTelemetry => PushTelemetryRequest, PushTelemetryResponse;
            ListConfigResources => ListConfigResourcesRequest, ListConfigResourcesResponse;
            ShareFetch => ShareFetchRequest, ShareFetchResponse;
            ShareAcknowledge => ShareAcknowledgeRequest, ShareAcknowledgeResponse;
            ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
            ConsumerGroupDescribe => ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
            InitializeShareGroupState => InitializeShareGroupStateRequest, InitializeShareGroupStateResponse;
            ReadShareGroupState => ReadShareGroupStateRequest, ReadShareGroupStateResponse;
            WriteShareGroupState => WriteShareGroupStateRequest, WriteShareGroupStateResponse;
            DeleteShareGroupState => DeleteShareGroupStateRequest, DeleteShareGroupStateResponse;
            ReadShareGroupStateSummary => ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse;
            ShareGroupHeartbeat => ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse;
            ShareGroupDescribe => ShareGroupDescribeRequest, ShareGroupDescribeResponse;
            DescribeShareGroupOffsets => DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse;
            AlterShareGroupOffsets => AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse;
            DeleteShareGroupOffsets => DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse;
            }
        };
    }

    /// The versions that the codec can both read and answer.
    fn codec_of(api_key: ApiKey) -> (i16, i16) {
        macro_rules! by_key {
            ($($key:ident => $request:ident, $response:ident;)*) => {
                match api_key {
                    $(ApiKey::$key => $request::VERSIONS.intersect(&$response::VERSIONS),)*
                    other => panic!("{other:?} is served but not tested"),
                }
            };
        }
        let both = for_served!(by_key);
        (both.min, both.max)
    }

    #[test]
    fn all_versions_that_the_codec_speaks_are_served() {
        for support in SUPPORTED {
            let expected = codec_of(support.api_key);
            let newest = codec_version(support.api_key, support.max);
            let newest = topic_ids::rewritten_version(support.api_key, newest).unwrap_or(newest);
            assert_eq!((support.min, newest), expected, "{:?}", support.api_key);
        }
    }

    #[test]
    fn each_api_is_listed_once_in_order_and_produce_alone_is_advertised_lower() {
        let keys: Vec<_> = SUPPORTED
            .iter()
            .map(|support| support.api_key as i16)
            .collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        let lower = SUPPORTED
            .iter()
            .filter(|support| support.advertised_min != support.min);
        assert_eq!(
            lower.map(|support| support.api_key).collect::<Vec<_>>(),
            [ApiKey::Produce]
        );
        let produce = &advertised_versions()[0];
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
    }
}
