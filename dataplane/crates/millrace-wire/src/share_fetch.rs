//! ShareFetch responses, written by hand so that record bytes are not copied.

use bytes::{BufMut, Bytes};
use kafka_protocol::messages::ApiKey;
use millrace_model::TopicId;

use crate::{
    fetch::FetchEndpoint,
    frame_writer::FrameWriter,
    response::{EncodeError, Response, begin_frame},
};

/// A guess at the bytes of one partition's fields, to allocate once.
const PARTITION_BYTES: usize = 64;

/// What to answer to a ShareFetch.
#[derive(Debug, Clone, Default)]
pub struct ShareFetchAnswer {
    /// Milliseconds by which the answer was delayed for a quota.
    pub throttle_time_ms: i32,
    /// Error of the whole request.
    pub error_code: i16,
    /// How long the member holds what it acquired, in milliseconds.
    pub acquisition_lock_timeout_ms: i32,
    /// The topics.
    pub topics: Vec<ShareFetchedTopic>,
    /// Where the leaders are that partitions name.
    pub endpoints: Vec<FetchEndpoint>,
}

/// One topic's part of the answer.
#[derive(Debug, Clone, Default)]
pub struct ShareFetchedTopic {
    /// Its id.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<ShareFetchedPartition>,
}

/// One partition's part of the answer.
#[derive(Debug, Clone, Default)]
pub struct ShareFetchedPartition {
    /// The partition.
    pub index: i32,
    /// Its error.
    pub error_code: i16,
    /// The error of the acknowledgements that came with the request.
    pub acknowledge_error_code: i16,
    /// The leader's id and epoch where the error says that it is elsewhere.
    pub current_leader: Option<(i32, i32)>,
    /// Whole batches, back to back.
    pub records: Vec<Bytes>,
    /// Which of their records the member has acquired.
    pub acquired: Vec<AcquiredRange>,
}

/// Records in a row that a member has acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcquiredRange {
    /// Offset of the first one.
    pub first_offset: i64,
    /// Offset of the last one.
    pub last_offset: i64,
    /// How often they were delivered.
    pub delivery_count: i16,
}

/// Writes the answer to a ShareFetch. Records larger than a few hundred bytes stay segments of their own, shared with whoever
/// else holds them.
///
/// # Errors
/// The answer does not fit into a frame, or a name is too long.
pub fn encode_share_fetch(
    version: i16,
    correlation_id: i32,
    answer: ShareFetchAnswer,
) -> Result<Response, EncodeError> {
    let partitions = answer.topics.iter().map(|topic| topic.partitions.len());
    let partitions: usize = partitions.sum();
    let capacity = (partitions + answer.topics.len() + 1) * PARTITION_BYTES;
    let header = begin_frame(ApiKey::ShareFetch, version, correlation_id, capacity);
    let mut frame = FrameWriter::new(ApiKey::ShareFetch, version, true, header);
    message(&mut frame, answer)?;
    let (head, rest) = frame.finish()?;
    let segments = std::iter::once(head.freeze()).chain(rest);
    Ok(Response::from_segments(segments.collect()))
}

fn message(frame: &mut FrameWriter, answer: ShareFetchAnswer) -> Result<(), EncodeError> {
    frame.out().put_i32(answer.throttle_time_ms);
    frame.out().put_i16(answer.error_code);
    frame.null_string();
    frame.out().put_i32(answer.acquisition_lock_timeout_ms);
    frame.count(Some(answer.topics.len()))?;
    for topic in answer.topics {
        frame.out().put_slice(topic.topic_id.0.as_bytes());
        frame.count(Some(topic.partitions.len()))?;
        for of_topic in topic.partitions {
            partition(frame, of_topic)?;
        }
        frame.no_tagged_fields();
    }
    frame.count(Some(answer.endpoints.len()))?;
    for endpoint in &answer.endpoints {
        frame.out().put_i32(endpoint.node_id);
        frame.string(&endpoint.host)?;
        frame.out().put_i32(endpoint.port);
        match &endpoint.rack {
            Some(rack) => frame.string(rack)?,
            None => frame.null_string(),
        }
        frame.no_tagged_fields();
    }
    frame.no_tagged_fields();
    Ok(())
}

fn partition(frame: &mut FrameWriter, partition: ShareFetchedPartition) -> Result<(), EncodeError> {
    frame.out().put_i32(partition.index);
    frame.out().put_i16(partition.error_code);
    frame.null_string();
    frame.out().put_i16(partition.acknowledge_error_code);
    frame.null_string();
    let (leader, epoch) = partition.current_leader.unwrap_or((-1, -1));
    frame.out().put_i32(leader);
    frame.out().put_i32(epoch);
    frame.no_tagged_fields();
    let len = partition.records.iter().map(Bytes::len).sum();
    frame.records(partition.records, len)?;
    frame.count(Some(partition.acquired.len()))?;
    for range in partition.acquired {
        frame.out().put_i64(range.first_offset);
        frame.out().put_i64(range.last_offset);
        frame.out().put_i16(range.delivery_count);
        frame.no_tagged_fields();
    }
    frame.no_tagged_fields();
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BytesMut};
    use kafka_protocol::{
        messages::{
            ResponseHeader, ShareFetchResponse, share_fetch_response::ShareFetchableTopicResponse,
        },
        protocol::{Decodable, StrBytes},
    };

    use super::*;

    fn decoded(answer: ShareFetchAnswer) -> (usize, ShareFetchResponse) {
        let response = encode_share_fetch(1, 7, answer).expect("encodable");
        let mut bytes = BytesMut::new();
        let segments = response.segments();
        segments.iter().for_each(|segment| bytes.put_slice(segment));
        let mut bytes = bytes.freeze();
        assert_eq!(usize::try_from(bytes.get_i32()), Ok(bytes.len()));
        let header = ResponseHeader::decode(&mut bytes, 1).expect("a header");
        assert_eq!(header.correlation_id, 7);
        let message = ShareFetchResponse::decode(&mut bytes, 1).expect("an answer");
        assert!(bytes.is_empty());
        (segments.len(), message)
    }

    /// An id from the codec's own reading of 16 bytes, which spares this crate the id's crate.
    fn topic_id() -> TopicId {
        let bytes: Vec<u8> = (1..=16).chain([1, 0]).collect();
        let topic = ShareFetchableTopicResponse::decode(&mut Bytes::from(bytes), 1);
        TopicId(topic.expect("a topic").topic_id)
    }

    #[test]
    fn answers_are_those_of_the_codec() {
        let range = AcquiredRange {
            first_offset: 5,
            last_offset: 9,
            delivery_count: 2,
        };
        let partition = ShareFetchedPartition {
            index: 3,
            acknowledge_error_code: 121,
            current_leader: Some((8, 9)),
            records: vec![Bytes::from(vec![1; 600]), Bytes::from_static(b"small")],
            acquired: vec![range],
            ..ShareFetchedPartition::default()
        };
        let endpoint = FetchEndpoint {
            node_id: 8,
            host: StrBytes::from_static_str("host"),
            port: 9_092,
            rack: Some(StrBytes::from_static_str("a")),
        };
        let topic = ShareFetchedTopic {
            topic_id: topic_id(),
            partitions: vec![partition, ShareFetchedPartition::default()],
        };
        let (segments, message) = decoded(ShareFetchAnswer {
            throttle_time_ms: 1,
            error_code: 2,
            acquisition_lock_timeout_ms: 3,
            topics: vec![topic],
            endpoints: vec![endpoint, FetchEndpoint::default()],
        });
        assert_eq!(segments, 3, "large records are not copied");
        assert_eq!((message.throttle_time_ms, message.error_code), (1, 2));
        assert_eq!(message.acquisition_lock_timeout_ms, 3);
        assert_eq!(message.node_endpoints.len(), 2);
        let endpoint = &message.node_endpoints[0];
        assert_eq!((endpoint.node_id.0, endpoint.host.as_str()), (8, "host"));
        assert_eq!(
            (endpoint.port, endpoint.rack.as_deref()),
            (9_092, Some("a"))
        );
        let topic = &message.responses[0];
        assert_eq!(TopicId(topic.topic_id), topic_id());
        let [first, second] = &topic.partitions[..] else {
            panic!("two partitions")
        };
        assert_eq!((first.partition_index, first.error_code), (3, 0));
        assert_eq!(first.acknowledge_error_code, 121);
        assert_eq!(
            (
                first.current_leader.leader_id,
                first.current_leader.leader_epoch
            ),
            (8, 9)
        );
        assert_eq!(first.records.as_ref().map(Bytes::len), Some(605));
        let acquired = &first.acquired_records[0];
        let acquired = (
            acquired.first_offset,
            acquired.last_offset,
            acquired.delivery_count,
        );
        assert_eq!(acquired, (5, 9, 2));
        assert_eq!(second.current_leader.leader_id, -1);
        assert_eq!(second.records.as_ref().map(Bytes::len), Some(0));
    }

    #[test]
    fn an_error_has_nothing_else() {
        let (segments, message) = decoded(ShareFetchAnswer {
            error_code: 122,
            ..ShareFetchAnswer::default()
        });
        assert_eq!((segments, message.error_code), (1, 122));
        assert!(message.responses.is_empty() && message.node_endpoints.is_empty());
    }
}
