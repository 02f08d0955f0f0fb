use bytes::BufMut;
use kafka_protocol::{
    messages::{
        ApiKey, RequestHeader,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::{Encodable, encode_request_header_into_buffer},
};
use millrace_record::{BatchBuilder, Compression, split};
use proptest::prelude::*;

use super::*;
use crate::request::parse_request;

/// Record sets by topic and partition; none is null.
type Sets = Vec<Vec<Option<Vec<u8>>>>;

fn frame(version: i16, sets: &Sets, tags: bool) -> BytesMut {
    let unknown = || {
        if tags {
            [(9, Bytes::from_static(b"new"))].into()
        } else {
            [].into()
        }
    };
    let unknown = || if version >= 9 { unknown() } else { [].into() };
    let partition = |(index, set): (usize, &Option<Vec<u8>>)| {
        PartitionProduceData::default()
            .with_index(index as i32)
            .with_records(set.clone().map(Bytes::from))
            .with_unknown_tagged_fields(unknown())
    };
    let topic = |(at, sets): (usize, &Vec<Option<Vec<u8>>>)| {
        let name = if version < 13 {
            format!("topic-{at}")
        } else {
            String::new()
        };
        TopicProduceData::default()
            .with_name(TopicName(StrBytes::from_string(name)))
            .with_partition_data(sets.iter().enumerate().map(partition).collect())
            .with_unknown_tagged_fields(unknown())
    };
    let message = ProduceRequest::default()
        .with_transactional_id(Some(TransactionalId(StrBytes::from_static_str("t"))))
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(sets.iter().enumerate().map(topic).collect())
        .with_unknown_tagged_fields(unknown());
    let header = RequestHeader::default()
        .with_request_api_key(ApiKey::Produce as i16)
        .with_request_api_version(version)
        .with_client_id(Some(StrBytes::from_static_str("client")));
    let mut out = BytesMut::new();
    encode_request_header_into_buffer(&mut out, &header).expect("a header");
    message.encode(&mut out, version).expect("encodable");
    out
}

fn sets() -> impl Strategy<Value = Sets> {
    let set = proptest::option::weighted(0.9, proptest::collection::vec(any::<u8>(), 0..200));
    proptest::collection::vec(proptest::collection::vec(set, 0..4), 0..4)
}

proptest! {
    #[test]
    fn record_sets_come_out_unique_disjoint_and_uncopied(
        version in 3..=13i16,
        sets in sets(),
        tags: bool,
    ) {
        let frame = frame(version, &sets, tags);
        let memory = frame.as_ptr_range();
        let request = parse_request(frame.freeze()).expect("a request");
        let (message, mut records) = split_produce(request).expect("a Produce");
        prop_assert_eq!((message.acks, message.timeout_ms), (-1, 30_000));
        prop_assert_eq!(message.transactional_id.as_deref().map(|id| &**id), Some("t"));
        prop_assert_eq!(message.topic_data.len(), sets.len());
        for (topic, expected) in message.topic_data.iter().zip(&sets) {
            prop_assert_eq!(topic.partition_data.len(), expected.len());
            prop_assert!(topic.partition_data.iter().all(|partition| partition.records.is_none()));
        }
        for (got, expected) in records.iter().flatten().zip(sets.iter().flatten()) {
            prop_assert_eq!(&got[..], expected.as_deref().unwrap_or_default());
            if !got.is_empty() {
                let inside = got.as_ptr_range();
                prop_assert!(memory.start <= inside.start && inside.end <= memory.end, "copied");
            }
        }
        // Writing into one set changes no other.
        for (at, set) in records.iter_mut().flatten().enumerate() {
            set.fill(at as u8);
        }
        for (at, set) in records.iter().flatten().enumerate() {
            prop_assert!(set.iter().all(|&byte| byte == at as u8));
        }
    }

    #[test]
    fn a_frame_whose_memory_is_shared_is_copied_and_left_alone(
        version in 3..=13i16,
        sets in sets(),
    ) {
        let frame = frame(version, &sets, false).freeze();
        let before = frame.to_vec();
        let request = parse_request(frame.clone()).expect("a request");
        let (_, mut records) = split_produce(request).expect("a Produce");
        for (got, expected) in records.iter().flatten().zip(sets.iter().flatten()) {
            prop_assert_eq!(&got[..], expected.as_deref().unwrap_or_default());
        }
        records.iter_mut().flatten().for_each(|set| set.fill(0xee));
        prop_assert_eq!(&frame[..], &before[..]);
    }

    #[test]
    fn damaged_frames_never_panic(
        version in 3..=13i16,
        sets in sets(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = frame(version, &sets, true);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(request) = parse_request(bytes.freeze()) {
            let _ = split_produce(request);
        }
    }
}

#[test]
fn names_survive_the_frame() {
    let sets = vec![vec![Some(vec![1])], vec![Some(vec![2])]];
    let request = parse_request(frame(8, &sets, false).freeze()).expect("a request");
    let (message, _) = split_produce(request).expect("a Produce");
    let names: Vec<_> = message
        .topic_data
        .iter()
        .map(|topic| topic.name.as_str())
        .collect();
    assert_eq!(names, ["topic-0", "topic-1"]);
}

#[test]
fn offsets_are_written_into_the_memory_that_the_network_read() {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1, None, Some(b"value"), &[]);
    let frame = frame(11, &vec![vec![Some(builder.build().to_vec())]], false);
    let memory = frame.as_ptr_range();
    let request = parse_request(frame.freeze()).expect("a request");
    let (_, mut records) = split_produce(request).expect("a Produce");
    let mut batch = split(records.remove(0).remove(0))
        .expect("a batch")
        .remove(0);
    batch.restamp(77, 0, None);
    batch
        .validate(&millrace_record::BatchLimits::default())
        .expect("still valid");
    let stored = batch.freeze();
    assert!(memory.contains(&stored.as_ptr()));
    assert_eq!(
        millrace_record::header_of(&stored)
            .expect("a header")
            .base_offset,
        77
    );
}

#[test]
fn a_set_that_claims_more_than_the_frame_has_is_refused() {
    let mut bytes = frame(3, &vec![], false);
    bytes.truncate(bytes.len() - 4);
    bytes.put_i32(1);
    bytes.put_slice(&[0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0]);
    bytes.put_i32(i32::MAX);
    let request = parse_request(bytes.freeze()).expect("a request");
    assert!(matches!(
        split_produce(request),
        Err(MalformedRequest::Body { .. })
    ));
}
