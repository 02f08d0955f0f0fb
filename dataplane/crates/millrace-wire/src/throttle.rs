//! Writes the throttle time into a response that is encoded already: what its request has cost is known
//! only when it is answered.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;

use crate::response::{LENGTH_BYTES, Response};

/// Where a response has its throttle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The first field of the body.
    First,
    /// The field behind the body's error code, which is the first.
    AfterError,
    /// The last field of the body, before the tagged fields, of which the response has none.
    Last,
}

/// Where the responses of an API have their throttle time, and from which version on; nothing where they have
/// none, or where it stands behind a list.
const fn place(api_key: ApiKey) -> Option<(i16, Place)> {
    let since = match api_key {
        ApiKey::Produce
        | ApiKey::CreateDelegationToken
        | ApiKey::RenewDelegationToken
        | ApiKey::ExpireDelegationToken
        | ApiKey::DescribeDelegationToken => return Some((1, Place::Last)),
        ApiKey::OffsetDelete => return Some((0, Place::AfterError)),
        ApiKey::DeleteRecords
        | ApiKey::InitProducerId
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::EndTxn
        | ApiKey::TxnOffsetCommit
        | ApiKey::DescribeAcls
        | ApiKey::CreateAcls
        | ApiKey::DeleteAcls
        | ApiKey::DescribeConfigs
        | ApiKey::AlterConfigs
        | ApiKey::AlterReplicaLogDirs
        | ApiKey::DescribeLogDirs
        | ApiKey::CreatePartitions
        | ApiKey::DeleteGroups
        | ApiKey::ElectLeaders
        | ApiKey::IncrementalAlterConfigs
        | ApiKey::AlterPartitionReassignments
        | ApiKey::ListPartitionReassignments
        | ApiKey::DescribeClientQuotas
        | ApiKey::AlterClientQuotas
        | ApiKey::DescribeUserScramCredentials
        | ApiKey::AlterUserScramCredentials
        | ApiKey::UpdateFeatures
        | ApiKey::DescribeCluster
        | ApiKey::DescribeProducers
        | ApiKey::DescribeTransactions
        | ApiKey::ListTransactions
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe
        | ApiKey::GetTelemetrySubscriptions
        | ApiKey::PushTelemetry
        | ApiKey::ShareGroupHeartbeat
        | ApiKey::ShareGroupDescribe
        | ApiKey::DescribeShareGroupOffsets
        | ApiKey::AlterShareGroupOffsets
        | ApiKey::DeleteShareGroupOffsets
        | ApiKey::ListConfigResources
        | ApiKey::DescribeTopicPartitions => 0,
        ApiKey::Fetch
        | ApiKey::FindCoordinator
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteTopics => 1,
        ApiKey::ListOffsets
        | ApiKey::JoinGroup
        | ApiKey::CreateTopics
        | ApiKey::OffsetForLeaderEpoch => 2,
        ApiKey::Metadata | ApiKey::OffsetCommit | ApiKey::OffsetFetch => 3,
        _ => return None,
    };
    Some((since, Place::First))
}

impl Response {
    /// The same response, telling a client to wait for so many milliseconds, unless it tells more already
    /// or has no place for it.
    #[must_use]
    pub fn with_throttle_time(self, api_key: ApiKey, version: i16, throttle_ms: i32) -> Self {
        let Some((since, place)) = place(api_key) else {
            return self;
        };
        if version < since || throttle_ms <= 0 {
            return self;
        }
        let tags = usize::from(api_key.response_header_version(version) >= 1);
        let body = LENGTH_BYTES + size_of::<i32>() + tags;
        let mut segments = self.into_segments();
        let segment = match place {
            Place::First | Place::AfterError => segments.first_mut(),
            Place::Last => segments.last_mut(),
        };
        if let Some(segment) = segment {
            let at = match place {
                Place::First => Some(body),
                Place::AfterError => Some(body + size_of::<i16>()),
                Place::Last => segment.len().checked_sub(size_of::<i32>() + tags),
            };
            *segment = raised(std::mem::take(segment), at, throttle_ms);
        }
        Self::from_segments(segments)
    }
}

/// The segment with a number at a place that is at least `value`.
fn raised(segment: Bytes, at: Option<usize>, value: i32) -> Bytes {
    let mut bytes = segment
        .try_into_mut()
        .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    let field = at.and_then(|at| bytes.get_mut(at..at + size_of::<i32>()));
    if let Some(field) = field {
        let old = field.try_into().map_or(0, i32::from_be_bytes);
        field.copy_from_slice(&old.max(value).to_be_bytes());
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use bytes::Buf;
    use kafka_protocol::{
        messages::*,
        protocol::{Decodable, Encodable, HeaderVersion},
    };

    use super::*;
    use crate::{SUPPORTED, codec_version, encode, support_of};

    /// Decodes what is left of a response behind its header.
    fn decoded<M: Decodable + HeaderVersion>(response: &Response, version: i16) -> M {
        let mut bytes = Bytes::from(response.segments().concat());
        let length = bytes.get_i32();
        assert_eq!(usize::try_from(length), Ok(bytes.len()));
        ResponseHeader::decode(&mut bytes, M::header_version(version)).expect("a header");
        let message = M::decode(&mut bytes, version).expect("a body");
        assert!(bytes.is_empty());
        message
    }

    fn check<M>(api_key: ApiKey, version: i16, told: impl Fn(&mut M) -> &mut i32)
    where
        M: Encodable + Decodable + HeaderVersion + Default + PartialEq + std::fmt::Debug,
    {
        let plain = encode(api_key, version, 7, &M::default()).expect("encodable");
        let written = codec_version(api_key, version);
        let unthrottled = decoded::<M>(&plain, written);
        let throttled = plain.with_throttle_time(api_key, version, 77);
        let throttled = throttled.with_throttle_time(api_key, version, 5);
        let mut message = decoded::<M>(&throttled, written);
        let since = place(api_key).map(|(since, _)| since);
        let expected = if since.is_some_and(|since| version >= since) {
            77
        } else {
            0
        };
        assert_eq!(
            *told(&mut message),
            expected,
            "{api_key:?} version {version}"
        );
        *told(&mut message) = 0;
        assert_eq!(
            message, unthrottled,
            "{api_key:?} version {version}: nothing else changes"
        );
    }

    macro_rules! check_all {
        ($($key:ident $response:ident,)*) => {
            for support in SUPPORTED {
                for version in support.min..=support.max {
                    match support.api_key {
                        $(ApiKey::$key => check::<$response>(support.api_key, version, |message| {
                            &mut message.throttle_time_ms
                        }),)*
                        // They have none, or say nothing of it.
                        ApiKey::SaslHandshake
                        | ApiKey::SaslAuthenticate
                        | ApiKey::ApiVersions
                        | ApiKey::DescribeQuorum
                        | ApiKey::InitializeShareGroupState
                        | ApiKey::ReadShareGroupState
                        | ApiKey::WriteShareGroupState
                        | ApiKey::DeleteShareGroupState
                        | ApiKey::ReadShareGroupStateSummary
                        | ApiKey::WriteTxnMarkers => {
                            assert_eq!(place(support.api_key), None);
                        }
                        other => panic!("{other:?} is served and not tested"),
                    }
                }
            }
        };
    }

    #[test]
    fn every_response_that_has_a_throttle_time_tells_it() {
        check_all! {
            Produce ProduceResponse, Fetch FetchResponse, ListOffsets ListOffsetsResponse,
            Metadata MetadataResponse, OffsetCommit OffsetCommitResponse, OffsetFetch OffsetFetchResponse,
            FindCoordinator FindCoordinatorResponse, JoinGroup JoinGroupResponse, Heartbeat HeartbeatResponse,
            LeaveGroup LeaveGroupResponse, SyncGroup SyncGroupResponse, DescribeGroups DescribeGroupsResponse,
            ListGroups ListGroupsResponse, CreateTopics CreateTopicsResponse,
            DeleteTopics DeleteTopicsResponse, DeleteRecords DeleteRecordsResponse,
            InitProducerId InitProducerIdResponse, OffsetForLeaderEpoch OffsetForLeaderEpochResponse,
            DescribeConfigs DescribeConfigsResponse, AlterConfigs AlterConfigsResponse,
            DescribeLogDirs DescribeLogDirsResponse, CreatePartitions CreatePartitionsResponse,
            DeleteGroups DeleteGroupsResponse, AddPartitionsToTxn AddPartitionsToTxnResponse,
            AddOffsetsToTxn AddOffsetsToTxnResponse, EndTxn EndTxnResponse,
            TxnOffsetCommit TxnOffsetCommitResponse, DescribeTransactions DescribeTransactionsResponse,
            ListTransactions ListTransactionsResponse, OffsetDelete OffsetDeleteResponse,
            ElectLeaders ElectLeadersResponse, IncrementalAlterConfigs IncrementalAlterConfigsResponse,
            AlterPartitionReassignments AlterPartitionReassignmentsResponse,
            ListPartitionReassignments ListPartitionReassignmentsResponse, DescribeAcls DescribeAclsResponse,
            CreateAcls CreateAclsResponse, DeleteAcls DeleteAclsResponse,
            DescribeClientQuotas DescribeClientQuotasResponse, AlterClientQuotas AlterClientQuotasResponse,
            DescribeUserScramCredentials DescribeUserScramCredentialsResponse,
            AlterUserScramCredentials AlterUserScramCredentialsResponse,
            DescribeCluster DescribeClusterResponse, AlterReplicaLogDirs AlterReplicaLogDirsResponse,
            DescribeTopicPartitions DescribeTopicPartitionsResponse, UpdateFeatures UpdateFeaturesResponse,
            DescribeProducers DescribeProducersResponse, ListConfigResources ListConfigResourcesResponse,
            ConsumerGroupHeartbeat ConsumerGroupHeartbeatResponse,
            GetTelemetrySubscriptions GetTelemetrySubscriptionsResponse, PushTelemetry PushTelemetryResponse,
            ConsumerGroupDescribe ConsumerGroupDescribeResponse,
            ShareGroupHeartbeat ShareGroupHeartbeatResponse,
            ShareGroupDescribe ShareGroupDescribeResponse,
            DescribeShareGroupOffsets DescribeShareGroupOffsetsResponse,
            AlterShareGroupOffsets AlterShareGroupOffsetsResponse,
            DeleteShareGroupOffsets DeleteShareGroupOffsetsResponse,
            CreateDelegationToken CreateDelegationTokenResponse,
            RenewDelegationToken RenewDelegationTokenResponse,
            ExpireDelegationToken ExpireDelegationTokenResponse,
            DescribeDelegationToken DescribeDelegationTokenResponse,
        }
        assert!(support_of(ApiKey::Produce).is_some());
    }

    #[test]
    fn a_shared_segment_is_copied_and_a_short_one_left_alone() {
        let response = encode(ApiKey::Heartbeat, 4, 1, &HeartbeatResponse::default());
        let response = response.expect("encodable");
        let shared = response.clone();
        let throttled = response.with_throttle_time(ApiKey::Heartbeat, 4, 9);
        assert_eq!(decoded::<HeartbeatResponse>(&shared, 4).throttle_time_ms, 0);
        assert_eq!(
            decoded::<HeartbeatResponse>(&throttled, 4).throttle_time_ms,
            9
        );
        let short = Response::from_segments(vec![Bytes::from_static(b"\0\0\0\0")]);
        assert_eq!(short.clone().with_throttle_time(ApiKey::Fetch, 4, 9), short);
    }
}
