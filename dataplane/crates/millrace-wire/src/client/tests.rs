use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, FetchRequest, HeartbeatRequest, HeartbeatResponse,
    ProduceRequest,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::{decode, encode, parse_request, split_produce};

fn bytes_of(mut frame: RequestFrame) -> Bytes {
    frame.set_correlation_id(77);
    let len = frame.len();
    let (head, rest) = frame.into_segments();
    let bytes = [&[head], &rest[..]].concat().concat();
    assert_eq!(bytes.len(), len);
    let mut bytes = Bytes::from(bytes);
    assert_eq!(bytes.get_u32() as usize, len - 4);
    bytes
}

#[test]
fn a_broker_reads_what_the_client_writes_in_every_version() {
    for version in 0..=4 {
        let message = HeartbeatRequest::default().with_generation_id(9);
        let frame = encode_request(version, "me", &message).expect("encodable");
        let request = parse_request(bytes_of(frame)).expect("a request");
        assert_eq!((request.correlation_id, request.version), (77, version));
        assert_eq!(request.client_id.as_deref(), Some("me"));
        let read: HeartbeatRequest = decode(&request).expect("a body");
        assert_eq!(read, message);
    }
}

#[test]
fn a_client_reads_what_the_broker_writes_in_every_version() {
    for version in 0..=4 {
        let message = HeartbeatResponse::default().with_error_code(25);
        let response = encode(ApiKey::Heartbeat, version, 5, &message).expect("encodable");
        let frame = Bytes::from(response.segments().concat()).slice(4..);
        assert_eq!(correlation_id_of(&frame), Ok(5));
        let read = decode_response::<HeartbeatRequest>(version, frame);
        assert_eq!(read, Ok(message));

        let message = ApiVersionsResponse::default().with_error_code(35);
        let response = encode(ApiKey::ApiVersions, version, 5, &message).expect("encodable");
        let frame = Bytes::from(response.segments().concat()).slice(4..);
        let read = decode_response::<ApiVersionsRequest>(version, frame);
        assert_eq!(read.expect("readable").error_code, 35);
    }
}

#[test]
fn a_response_that_is_cut_off_is_an_error() {
    let message = HeartbeatResponse::default();
    let response = encode(ApiKey::Heartbeat, 4, 5, &message).expect("encodable");
    let frame = Bytes::from(response.segments().concat()).slice(4..);
    for len in 0..frame.len() {
        let read = decode_response::<HeartbeatRequest>(4, frame.slice(..len));
        assert!(read.is_err(), "{len} of {} bytes", frame.len());
    }
    assert_eq!(correlation_id_of(&[1, 2]), Err(MalformedResponse::Header));
}

#[test]
fn the_newest_version_that_both_sides_speak_is_chosen() {
    let range = |min, max| VersionRange { min, max };
    assert_eq!(negotiate::<FetchRequest>(range(4, 99), i16::MAX), Some(18));
    assert_eq!(negotiate::<FetchRequest>(range(0, 12), i16::MAX), Some(12));
    assert_eq!(negotiate::<FetchRequest>(range(0, 17), 12), Some(12));
    assert_eq!(negotiate::<FetchRequest>(range(0, 3), i16::MAX), None);
    assert_eq!(negotiate::<FetchRequest>(range(13, 17), 12), None);
    // Brokers advertise Produce from 0 and serve it from 3.
    assert_eq!(negotiate::<ProduceRequest>(range(0, 2), i16::MAX), None);
    assert_eq!(negotiate::<ProduceRequest>(range(0, 9), i16::MAX), Some(9));
}

proptest! {
    #[test]
    fn a_broker_reads_a_produce_request_with_its_batches(
        version in 3_i16..=13,
        topics in prop::collection::vec(
            (
                "[a-z]{1,20}",
                any::<u128>(),
                prop::collection::vec((0_i32..100, 1_usize..2_000), 0..4),
            ),
            0..4,
        ),
        acks in -1_i16..=1,
    ) {
        let batch = |(index, len): &(i32, usize)| {
            (*index, Bytes::from(vec![*index as u8; *len]))
        };
        let body = ProduceBody {
            acks,
            timeout_ms: 1_500,
            topics: topics
                .iter()
                .map(|(name, id, partitions)| ProduceTopic {
                    name,
                    id: TopicId(Uuid::from_u128(*id)),
                    partitions: partitions.iter().map(batch).collect(),
                })
                .collect(),
        };
        let frame = encode_produce(version, "client", body).expect("encodable");
        let request = parse_request(bytes_of(frame)).expect("a request");
        prop_assert_eq!(request.version, version);
        let (message, sets) = split_produce(request).expect("a Produce request");
        prop_assert_eq!((message.acks, message.timeout_ms), (acks, 1_500));
        prop_assert_eq!(message.topic_data.len(), topics.len());
        let read = message.topic_data.iter().zip(&sets);
        for ((name, id, partitions), (topic, sets)) in topics.iter().zip(read) {
            if version >= PRODUCE_TOPIC_ID_FROM {
                prop_assert_eq!(topic.topic_id.as_u128(), *id);
            } else {
                prop_assert_eq!(topic.name.as_str(), name);
            }
            let indexes: Vec<_> = topic.partition_data.iter().map(|data| data.index).collect();
            let expected: Vec<_> = partitions.iter().map(|(index, _)| *index).collect();
            prop_assert_eq!(indexes, expected);
            for (partition, set) in partitions.iter().zip(sets) {
                prop_assert_eq!(&set[..], &batch(partition).1[..]);
            }
        }
    }
}
