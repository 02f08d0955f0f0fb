use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::*,
    protocol::{Decodable, Encodable},
};
use proptest::{prelude::*, test_runner::TestRng};

use super::*;
use crate::{
    api::{SUPPORTED, codec_version},
    topic_ids::rewritten_version,
};

/// What the codec makes of a body: how many bytes it read, and what it would write.
fn codec<M: Decodable + Encodable>(version: i16, body: &Bytes) -> Option<(usize, BytesMut)> {
    let mut rest = body.clone();
    let message = M::decode(&mut rest, version).ok()?;
    let mut again = BytesMut::new();
    message.encode(&mut again, version).ok()?;
    Some((body.len() - rest.remaining(), again))
}

/// Whether a body is a request's or a response's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// Calls a macro with all messages that have a schema; the last ones have one for responses only.
macro_rules! for_messages {
    ($each:ident) => {
        $each! {
            Produce ProduceRequest ProduceResponse,
            Fetch FetchRequest FetchResponse,
            ListOffsets ListOffsetsRequest ListOffsetsResponse,
            Metadata MetadataRequest MetadataResponse,
            OffsetCommit OffsetCommitRequest OffsetCommitResponse,
            OffsetFetch OffsetFetchRequest OffsetFetchResponse,
            FindCoordinator FindCoordinatorRequest FindCoordinatorResponse,
            JoinGroup JoinGroupRequest JoinGroupResponse,
            Heartbeat HeartbeatRequest HeartbeatResponse,
            LeaveGroup LeaveGroupRequest LeaveGroupResponse,
            SyncGroup SyncGroupRequest SyncGroupResponse,
            DescribeGroups DescribeGroupsRequest DescribeGroupsResponse,
            ListGroups ListGroupsRequest ListGroupsResponse,
            ApiVersions ApiVersionsRequest ApiVersionsResponse,
            CreateTopics CreateTopicsRequest CreateTopicsResponse,
            DeleteTopics DeleteTopicsRequest DeleteTopicsResponse,
            DeleteRecords DeleteRecordsRequest DeleteRecordsResponse,
            InitProducerId InitProducerIdRequest InitProducerIdResponse,
            OffsetForLeaderEpoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse,
            AddPartitionsToTxn AddPartitionsToTxnRequest AddPartitionsToTxnResponse,
            AddOffsetsToTxn AddOffsetsToTxnRequest AddOffsetsToTxnResponse,
            EndTxn EndTxnRequest EndTxnResponse,
            WriteTxnMarkers WriteTxnMarkersRequest WriteTxnMarkersResponse,
            TxnOffsetCommit TxnOffsetCommitRequest TxnOffsetCommitResponse,
            DescribeTransactions DescribeTransactionsRequest DescribeTransactionsResponse,
            ListTransactions ListTransactionsRequest ListTransactionsResponse,
            DescribeAcls DescribeAclsRequest DescribeAclsResponse,
            CreateAcls CreateAclsRequest CreateAclsResponse,
            DeleteAcls DeleteAclsRequest DeleteAclsResponse,
            DescribeConfigs DescribeConfigsRequest DescribeConfigsResponse,
            AlterConfigs AlterConfigsRequest AlterConfigsResponse,
            DescribeLogDirs DescribeLogDirsRequest DescribeLogDirsResponse,
            CreatePartitions CreatePartitionsRequest CreatePartitionsResponse,
            DeleteGroups DeleteGroupsRequest DeleteGroupsResponse,
            IncrementalAlterConfigs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse,
            ElectLeaders ElectLeadersRequest ElectLeadersResponse,
            AlterPartitionReassignments AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse,
            ListPartitionReassignments ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse,
            DescribeClientQuotas DescribeClientQuotasRequest DescribeClientQuotasResponse,
            AlterClientQuotas AlterClientQuotasRequest AlterClientQuotasResponse,
            DescribeUserScramCredentials DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse,
            AlterUserScramCredentials AlterUserScramCredentialsRequest AlterUserScramCredentialsResponse,
            DescribeCluster DescribeClusterRequest DescribeClusterResponse,
            DescribeProducers DescribeProducersRequest DescribeProducersResponse,
            ListConfigResources ListConfigResourcesRequest ListConfigResourcesResponse,
            GetTelemetrySubscriptions GetTelemetrySubscriptionsRequest GetTelemetrySubscriptionsResponse,
            PushTelemetry PushTelemetryRequest PushTelemetryResponse,
            CreateDelegationToken CreateDelegationTokenRequest CreateDelegationTokenResponse,
            RenewDelegationToken RenewDelegationTokenRequest RenewDelegationTokenResponse,
            ExpireDelegationToken ExpireDelegationTokenRequest ExpireDelegationTokenResponse,
            DescribeDelegationToken DescribeDelegationTokenRequest DescribeDelegationTokenResponse,
            SaslHandshake SaslHandshakeRequest SaslHandshakeResponse,
            SaslAuthenticate SaslAuthenticateRequest SaslAuthenticateResponse,
            OffsetDelete OffsetDeleteRequest OffsetDeleteResponse,
            UpdateFeatures UpdateFeaturesRequest UpdateFeaturesResponse,
            DescribeQuorum DescribeQuorumRequest DescribeQuorumResponse,
            DescribeTopicPartitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse,
            AlterReplicaLogDirs AlterReplicaLogDirsRequest AlterReplicaLogDirsResponse,
            ConsumerGroupHeartbeat ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse,
            ConsumerGroupDescribe ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse,
    InitializeShareGroupState InitializeShareGroupStateRequest InitializeShareGroupStateResponse, ReadShareGroupState ReadShareGroupStateRequest ReadShareGroupStateResponse, WriteShareGroupState WriteShareGroupStateRequest WriteShareGroupStateResponse, DeleteShareGroupState DeleteShareGroupStateRequest DeleteShareGroupStateResponse, ReadShareGroupStateSummary ReadShareGroupStateSummaryRequest ReadShareGroupStateSummaryResponse, ShareGroupHeartbeat ShareGroupHeartbeatRequest ShareGroupHeartbeatResponse, ShareGroupDescribe ShareGroupDescribeRequest ShareGroupDescribeResponse, DescribeShareGroupOffsets DescribeShareGroupOffsetsRequest DescribeShareGroupOffsetsResponse, AlterShareGroupOffsets AlterShareGroupOffsetsRequest AlterShareGroupOffsetsResponse, DeleteShareGroupOffsets DeleteShareGroupOffsetsRequest DeleteShareGroupOffsetsResponse,
        }
    };
}

fn codec_of(side: Side, api_key: ApiKey, version: i16, body: &Bytes) -> Option<(usize, BytesMut)> {
    let version = codec_version(api_key, version);
    macro_rules! by_key {
        ($($key:ident $request:ident $response:ident,)*) => {
            match (side, api_key) {
                $(
                    (Side::Request, ApiKey::$key) => codec::<$request>(version, body),
                    (Side::Response, ApiKey::$key) => codec::<$response>(version, body),
                )*
                (_, other) => panic!("{other:?} has a schema and is not tested"),
            }
        };
    }
    for_messages!(by_key)
}

/// Every API whose responses have a schema, with the versions that a client speaks.
fn responses() -> Vec<(ApiKey, i16, i16)> {
    macro_rules! spoken {
        ($($key:ident $request:ident $response:ident,)*) => {
            [$((ApiKey::$key, crate::client::spoken::<$request>()),)*]
        };
    }
    let all = for_messages!(spoken).into_iter();
    all.filter(|(api_key, _)| responses::shape_of(*api_key).is_some())
        .map(|(api_key, versions)| (api_key, versions.min, versions.max))
        .collect()
}

fn shape_of(side: Side, api_key: ApiKey) -> MessageShape {
    let shape = match side {
        Side::Request => requests::shape_of(api_key),
        Side::Response => responses::shape_of(api_key),
    };
    shape.expect("a schema")
}

fn check_side(side: Side, api_key: ApiKey, version: i16, body: &[u8]) -> Result<(), MalformedBody> {
    match side {
        Side::Request => check(api_key, version, body),
        Side::Response => check_response(api_key, version, body),
    }
}

fn measured(
    side: Side,
    api_key: ApiKey,
    version: i16,
    body: &[u8],
) -> Result<usize, MalformedBody> {
    measure(shape_of(side, api_key), version, body, REQUEST_ELEMENTS_MAX)
}

/// Writes a random body along a schema. Nothing is null and all text is ASCII, so that only the
/// schema decides whether the codec can read it.
struct Author {
    random: TestRng,
    version: i16,
    flexible: bool,
    out: BytesMut,
}

impl Author {
    fn body(shape: MessageShape, version: i16, random: TestRng) -> Bytes {
        let flexible = version >= shape.flexible_from;
        let mut author = Self {
            random,
            version,
            flexible,
            out: BytesMut::new(),
        };
        author.structure(shape.schema);
        author.out.freeze()
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.next_u32() % bound
    }

    fn structure(&mut self, schema: &Schema) {
        for field in schema.fields {
            if (field.since..=field.until).contains(&self.version) {
                self.value(&field.kind);
            }
        }
        if self.flexible {
            self.tagged_fields(schema.tagged);
        }
    }

    fn tagged_fields(&mut self, known: &[Tagged]) {
        let with_known = self.below(2) == 0;
        let known: Vec<_> = known
            .iter()
            .filter(|field| with_known && self.version >= field.since)
            .collect();
        let with_unknown = self.below(3) == 0;
        self.varint(known.len() as u32 + u32::from(with_unknown));
        for field in known {
            let outer = self.out.split();
            // The codec leaves out a list that is empty, which is its default.
            if let Kind::List(element) = field.kind {
                self.long_len(1);
                self.value(element);
            } else {
                self.value(&field.kind);
            }
            let value = std::mem::replace(&mut self.out, outer);
            self.varint(field.tag);
            self.varint(value.len() as u32);
            self.out.put_slice(&value);
        }
        if with_unknown {
            self.varint(77);
            self.varint(3);
            self.out.put_slice(b"new");
        }
    }

    fn value(&mut self, kind: &Kind) {
        match kind {
            // A byte that is a legal boolean and differs from every default.
            Kind::Fixed(1) => self.out.put_u8(1),
            Kind::Fixed(len) => {
                for _ in 0..*len {
                    // Not 0, which may be the default of a field that is then left out.
                    let byte = 1 + self.below(0x7f) as u8;
                    self.out.put_u8(byte);
                }
            }
            Kind::Text => {
                let len = self.below(9);
                if self.flexible {
                    self.varint(len + 1)
                } else {
                    self.out.put_i16(len as i16)
                }
                self.out.put_bytes(b'a', len as usize);
            }
            Kind::Blob => {
                let len = self.below(300);
                self.long_len(len);
                self.out.put_bytes(7, len as usize);
            }
            Kind::List(element) => {
                let len = self.below(4);
                self.long_len(len);
                (0..len).for_each(|_| self.value(element));
            }
            Kind::Struct(schema) => self.structure(schema),
            Kind::NullableStruct(schema) => {
                if self.below(2) == 0 {
                    self.out.put_i8(-1);
                } else {
                    self.out.put_i8(1);
                    self.structure(schema);
                }
            }
        }
    }

    fn long_len(&mut self, len: u32) {
        if self.flexible {
            self.varint(len + 1)
        } else {
            self.out.put_i32(len as i32)
        }
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }
}

fn api_and_version() -> impl Strategy<Value = (Side, ApiKey, i16)> {
    let requests = SUPPORTED.iter().map(|support| {
        // The codec does not know versions that are rewritten for it.
        let rewritten = rewritten_version(support.api_key, support.max);
        let newest = rewritten.unwrap_or(support.max);
        (Side::Request, support.api_key, support.min, newest)
    });
    let responses = responses()
        .into_iter()
        .map(|(api_key, min, max)| (Side::Response, api_key, min, max));
    let all: Vec<_> = requests.chain(responses).collect();
    prop::sample::select(all)
        .prop_flat_map(|(side, api_key, min, max)| (Just(side), Just(api_key), min..=max))
}

fn body() -> impl Strategy<Value = (Side, ApiKey, i16, Bytes)> {
    api_and_version().prop_perturb(|(side, api_key, version), random| {
        let shape = shape_of(side, api_key);
        (side, api_key, version, Author::body(shape, version, random))
    })
}

/// The codec must read what passed the walk exactly as far as the walk did, or refuse it: then it
/// met no count that was not walked.
fn codec_agrees(
    side: Side,
    api_key: ApiKey,
    version: i16,
    body: &Bytes,
) -> Result<(), TestCaseError> {
    if let Ok(walked) = measured(side, api_key, version, body)
        && let Some((read, _)) = codec_of(side, api_key, version, body)
    {
        prop_assert_eq!(read, walked);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_codec_reads_what_the_schemas_describe((side, api_key, version, body) in body()) {
        prop_assert_eq!(measured(side, api_key, version, &body), Ok(body.len()));
        let (read, again) = codec_of(side, api_key, version, &body).expect("readable");
        prop_assert_eq!(read, body.len());
        prop_assert_eq!(again.freeze(), body);
    }

    #[test]
    fn bytes_after_the_body_are_ignored((side, api_key, version, body) in body(), more in 1..9usize) {
        let longer = Bytes::from([&body[..], &vec![0xff; more]].concat());
        prop_assert_eq!(measured(side, api_key, version, &longer), Ok(body.len()));
    }

    #[test]
    fn a_cut_body_is_refused((side, api_key, version, body) in body(), cut in any::<prop::sample::Index>()) {
        if body.is_empty() {
            return Ok(());
        }
        let cut = body.slice(..cut.index(body.len()));
        prop_assert!(check_side(side, api_key, version, &cut).is_err());
    }

    #[test]
    fn damaged_bodies_are_walked_as_the_codec_reads_them(
        (side, api_key, version, body) in body(),
        at in any::<prop::sample::Index>(),
        damage in prop_oneof![
            Just(vec![0x7f, 0xff, 0xff, 0xff]),
            Just(vec![0xff, 0xff, 0xff, 0xff]),
            Just(vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
            Just(vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            proptest::collection::vec(any::<u8>(), 1..6),
        ],
    ) {
        if body.is_empty() {
            return Ok(());
        }
        let mut damaged = BytesMut::from(&body[..]);
        let at = at.index(damaged.len());
        for (byte, with) in damaged[at..].iter_mut().zip(damage) {
            *byte = with;
        }
        codec_agrees(side, api_key, version, &damaged.freeze())?;
    }

    #[test]
    fn arbitrary_bodies_are_walked_as_the_codec_reads_them(
        (side, api_key, version) in api_and_version(),
        body in proptest::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..120),
    ) {
        codec_agrees(side, api_key, version, &body.into())?;
    }
}

#[test]
fn a_count_that_the_frame_cannot_hold_is_refused_before_anything_is_allocated() {
    let metadata = i32::MAX.to_be_bytes();
    assert_eq!(
        check(ApiKey::Metadata, 1, &metadata),
        Err(MalformedBody::TooManyElements)
    );
    let compact = [0xff, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(
        check(ApiKey::Metadata, 12, &compact),
        Err(MalformedBody::TooManyElements)
    );
    let few = 1_000i32.to_be_bytes();
    assert_eq!(
        check(ApiKey::Metadata, 1, &few),
        Err(MalformedBody::Truncated)
    );
    assert_eq!(
        check(ApiKey::Metadata, 1, &[0xff, 0xff, 0xff, 0xfe]),
        Err(MalformedBody::NegativeLength)
    );
    // The same for a client: version 1 of the answer begins with the list of brokers.
    assert_eq!(
        check_response(ApiKey::Metadata, 1, &metadata),
        Err(MalformedBody::TooManyElements)
    );
}

#[test]
fn the_bound_on_elements_counts_all_lists_together() {
    let half = REQUEST_ELEMENTS_MAX / 2;
    let topic = |partitions: usize| {
        let mut out = BytesMut::new();
        out.put_i16(0);
        out.put_i32(partitions as i32);
        out.put_bytes(0, 4 * partitions);
        out
    };
    let body = |last: usize| {
        let mut out = BytesMut::new();
        out.put_i16(0);
        out.put_i32(2);
        out.put(topic(half));
        out.put(topic(last));
        out
    };
    assert_eq!(check(ApiKey::OffsetFetch, 5, &body(half - 2)), Ok(()));
    let over = check(ApiKey::OffsetFetch, 5, &body(half - 1));
    assert_eq!(over, Err(MalformedBody::TooManyElements));
}

#[test]
fn a_tagged_field_whose_size_lies_is_refused() {
    // Fetch 12 without topics, then the cluster id as a tagged field that says it has 1 byte.
    let mut body = BytesMut::new();
    body.put_bytes(0, 25);
    body.put_slice(&[1, 1, 1]);
    let honest = [&body[..], &[1, 0, 3, 3, b'i', b'd']].concat();
    assert_eq!(check(ApiKey::Fetch, 12, &honest), Ok(()));
    let lying = [&body[..], &[1, 0, 1, 3, b'i', b'd']].concat();
    assert_eq!(
        check(ApiKey::Fetch, 12, &lying),
        Err(MalformedBody::TaggedFieldSize)
    );
}
