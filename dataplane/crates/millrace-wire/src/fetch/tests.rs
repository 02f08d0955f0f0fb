use kafka_protocol::{
    messages::{
        BrokerId, FetchResponse, ProducerId, TopicName,
        fetch_response::{
            AbortedTransaction as TheirAborted, FetchableTopicResponse, LeaderIdAndEpoch,
            NodeEndpoint, PartitionData,
        },
    },
    protocol::Decodable,
};
use proptest::prelude::*;

use super::*;
use crate::{frame_writer::INLINE_BYTES_MAX, response::encode};

fn theirs(version: i16, answer: &FetchAnswer) -> FetchResponse {
    let partition = |ours: &FetchedPartition| {
        let aborted = |ours: &AbortedTransaction| {
            TheirAborted::default()
                .with_producer_id(ProducerId(ours.producer_id))
                .with_first_offset(ours.first_offset)
        };
        let leader = ours
            .current_leader
            .filter(|_| version >= 12)
            .map(|(id, epoch)| {
                LeaderIdAndEpoch::default()
                    .with_leader_id(BrokerId(id))
                    .with_leader_epoch(epoch)
            });
        let aborted = ours
            .aborted_transactions
            .as_ref()
            .map(|all| all.iter().map(aborted).collect());
        let replica = if version >= 11 {
            ours.preferred_read_replica
        } else {
            -1
        };
        PartitionData::default()
            .with_partition_index(ours.index)
            .with_error_code(ours.error_code)
            .with_high_watermark(ours.high_watermark)
            .with_last_stable_offset(ours.last_stable_offset)
            .with_log_start_offset(ours.log_start_offset)
            .with_aborted_transactions(aborted)
            .with_preferred_read_replica(BrokerId(replica))
            .with_current_leader(leader.unwrap_or_default())
            .with_records(Some(ours.records.concat().into()))
    };
    let topic = |ours: &FetchedTopic| {
        FetchableTopicResponse::default()
            .with_topic(TopicName(ours.topic.clone()))
            .with_topic_id(ours.topic_id.0)
            .with_partitions(ours.partitions.iter().map(partition).collect())
    };
    let endpoint = |ours: &FetchEndpoint| {
        NodeEndpoint::default()
            .with_node_id(BrokerId(ours.node_id))
            .with_host(ours.host.clone())
            .with_port(ours.port)
            .with_rack(ours.rack.clone())
    };
    let endpoints = match version {
        16.. => answer.endpoints.iter().map(endpoint).collect(),
        _ => Vec::new(),
    };
    FetchResponse::default()
        .with_throttle_time_ms(answer.throttle_time_ms)
        .with_error_code(answer.error_code)
        .with_session_id(if version >= 7 { answer.session_id } else { 0 })
        .with_responses(answer.topics.iter().map(topic).collect())
        .with_node_endpoints(endpoints)
}

prop_compose! {
    fn partition()(
        numbers in any::<(i32, i16, i64, i64, i64, i32)>(),
        aborted in proptest::option::of(proptest::collection::vec(any::<(i64, i64)>(), 0..3)),
        // The codec leaves a leader of -1, -1 out, because that is its default.
        leader in proptest::option::of((0..9i32, any::<i32>())),
        records in proptest::collection::vec(
            prop_oneof![0..60usize, INLINE_BYTES_MAX - 1..INLINE_BYTES_MAX + 900],
            0..4,
        ),
    ) -> FetchedPartition {
        let (index, error_code, high_watermark, last_stable_offset, log_start_offset, replica) =
            numbers;
        let aborted_of =
            |(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset };
        FetchedPartition {
            index,
            error_code,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            aborted_transactions: aborted.map(|all| all.into_iter().map(aborted_of).collect()),
            preferred_read_replica: replica,
            current_leader: leader,
            records: records.into_iter().map(|len| vec![len as u8; len].into()).collect(),
        }
    }
}

prop_compose! {
    fn answer()(
        numbers in any::<(i32, i16, i32)>(),
        topics in proptest::collection::vec(
            ("[a-z.]{0,200}", any::<u128>(), proptest::collection::vec(partition(), 0..4)),
            0..4,
        ),
        endpoints in proptest::collection::vec(
            (any::<(i32, i32)>(), "[a-z.]{0,200}", proptest::option::of("[a-z]{0,20}")),
            0..3,
        ),
    ) -> FetchAnswer {
        let text = StrBytes::from_string;
        let endpoint_of = |((node_id, port), host, rack): (_, _, Option<String>)| {
            FetchEndpoint { node_id, host: text(host), port, rack: rack.map(text) }
        };
        let topic_of = |(topic, id, partitions)| FetchedTopic {
            topic: StrBytes::from_string(topic),
            topic_id: topic_id(id),
            partitions,
        };
        FetchAnswer {
            throttle_time_ms: numbers.0,
            error_code: numbers.1,
            session_id: numbers.2,
            topics: topics.into_iter().map(topic_of).collect(),
            endpoints: endpoints.into_iter().map(endpoint_of).collect(),
        }
    }
}

/// An id from the codec's own reading of 16 bytes, which spares this crate the id's crate.
fn topic_id(number: u128) -> TopicId {
    let mut bytes = Bytes::copy_from_slice(&[&number.to_be_bytes()[..], &[1, 0]].concat());
    let topic = FetchableTopicResponse::decode(&mut bytes, 13).expect("a topic");
    TopicId(topic.topic_id)
}

proptest! {
    #[test]
    fn every_version_equals_the_codecs_own_encoding(answer in answer(), id: i32) {
        for version in 4..=18 {
            let expected =
                encode(ApiKey::Fetch, version, id, &theirs(version, &answer)).expect("encodable");
            let written = encode_fetch(version, id, answer.clone()).expect("encodable");
            prop_assert_eq!(written.len(), expected.len());
            prop_assert_eq!(written.segments().concat(), expected.segments().concat());
            prop_assert!(written.segments().iter().all(|segment| !segment.is_empty()));
        }
    }
}

#[test]
fn large_records_are_not_copied() {
    let records = Bytes::from(vec![1; 10_000]);
    let partition = || FetchedPartition {
        records: vec![records.clone()],
        ..FetchedPartition::default()
    };
    let topic = || FetchedTopic {
        partitions: vec![partition(), partition()],
        ..FetchedTopic::default()
    };
    let answer = FetchAnswer {
        topics: vec![topic(), topic()],
        ..FetchAnswer::default()
    };
    let response = encode_fetch(12, 1, answer).expect("encodable");
    let shared = |segment: &&Bytes| segment.as_ptr() == records.as_ptr();
    assert_eq!(response.segments().iter().filter(shared).count(), 4);
    assert!(response.segments().len() <= 9);
}

#[test]
fn an_answer_that_does_not_fit_into_a_frame_is_an_error() {
    let megabytes = Bytes::from(vec![0; 1 << 20]);
    let partition = FetchedPartition {
        records: vec![megabytes; 2_048],
        ..FetchedPartition::default()
    };
    let topic = FetchedTopic {
        partitions: vec![partition],
        ..FetchedTopic::default()
    };
    let answer = FetchAnswer {
        topics: vec![topic],
        ..FetchAnswer::default()
    };
    assert!(matches!(
        encode_fetch(12, 1, answer),
        Err(EncodeError::TooLarge(_))
    ));
}
