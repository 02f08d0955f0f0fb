//! A small Kafka client for tests: one connection, raw requests, and the few calls that most tests
//! need. It panics with a message if the broker does not answer as expected.

use std::{net::SocketAddr, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{
        CreateTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, MetadataResponse,
        ProduceRequest, RequestHeader, ResponseHeader, TopicName,
        create_topics_request::CreatableTopic,
        fetch_request::{FetchPartition, FetchTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// No answer in a test takes longer, unless it hangs.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// What one fetch asks for at most, in bytes.
const FETCH_BYTES_MAX: i32 = 8 * 1024 * 1024;

/// One connection to a broker.
#[derive(Debug)]
pub struct KafkaClient {
    stream: TcpStream,
    next_correlation_id: i32,
}

/// What a fetch of one partition answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// The high watermark.
    pub high_watermark: i64,
    /// Batches, back to back.
    pub records: Bytes,
}

impl KafkaClient {
    /// Connects.
    ///
    /// # Panics
    /// Nobody listens there.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address)
            .await
            .expect("a broker listens there");
        stream.set_nodelay(true).expect("a TCP socket");
        Self {
            stream,
            next_correlation_id: 1,
        }
    }

    /// Sends a request without waiting for its answer; its correlation id.
    ///
    /// # Panics
    /// The request does not fit its version, or the connection is closed.
    pub async fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("testkit")));
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        header
            .encode(&mut frame, R::header_version(version))
            .expect("a legal header");
        request
            .encode(&mut frame, version)
            .expect("a request that fits its version");
        let length = i32::try_from(frame.len() - 4).expect("a small request");
        frame[..4].copy_from_slice(&length.to_be_bytes());
        self.send_raw(&frame).await;
        correlation_id
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// The connection is closed.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream
            .write_all(bytes)
            .await
            .expect("an open connection");
    }

    /// The next answer, which must be the one to `correlation_id`.
    ///
    /// # Panics
    /// It is another one, is malformed, or does not come.
    pub async fn receive<R: Request>(&mut self, version: i16, correlation_id: i32) -> R::Response {
        let frame = timeout(ANSWER_WAIT_MAX, self.receive_frame())
            .await
            .expect("an answer in time");
        let mut frame = frame.expect("an open connection");
        let header_version = <R::Response as HeaderVersion>::header_version(version);
        let header = ResponseHeader::decode(&mut frame, header_version).expect("a header");
        assert_eq!(
            header.correlation_id, correlation_id,
            "answers come in request order"
        );
        let response = R::Response::decode(&mut frame, version).expect("a legal answer");
        assert_eq!(frame.remaining(), 0, "nothing is left of the answer");
        response
    }

    async fn receive_frame(&mut self) -> std::io::Result<Bytes> {
        let length = self.stream.read_u32().await?;
        let mut frame = vec![0; usize::try_from(length).expect("a length")];
        self.stream.read_exact(&mut frame).await?;
        Ok(frame.into())
    }

    /// Waits until the broker closes the connection; false where it sends something instead.
    ///
    /// # Panics
    /// It does neither.
    pub async fn is_closed(&mut self) -> bool {
        let read = timeout(ANSWER_WAIT_MAX, self.stream.read_u8()).await;
        read.expect("the connection is closed or answers in time")
            .is_err()
    }

    /// One request and its answer.
    ///
    /// # Panics
    /// See [`KafkaClient::send`] and [`KafkaClient::receive`].
    pub async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let correlation_id = self.send(version, request).await;
        self.receive::<R>(version, correlation_id).await
    }

    /// Metadata of one topic, which is created where the broker does that.
    pub async fn metadata(&mut self, topic: &str) -> MetadataResponse {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![topic]))
            .with_allow_auto_topic_creation(true);
        self.call(9, &request).await
    }

    /// Creates a topic; Kafka's error code.
    pub async fn create_topic(&mut self, topic: &str, partitions: i32) -> i16 {
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![creatable])
            .with_timeout_ms(30_000);
        self.call(5, &request).await.topics[0].error_code
    }

    /// Appends a batch with `acks=all`; its base offset, or Kafka's error code.
    ///
    /// # Errors
    /// The partition's error code.
    pub async fn produce(&mut self, topic: &str, partition: i32, batch: Bytes) -> Result<i64, i16> {
        let response = self
            .call(PRODUCE_VERSION, &produce_request(topic, partition, batch))
            .await;
        let answer = &response.responses[0].partition_responses[0];
        if answer.error_code == 0 {
            Ok(answer.base_offset)
        } else {
            Err(answer.error_code)
        }
    }

    /// Reads from `offset`; waits up to `wait` for at least one byte.
    pub async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        wait: Duration,
    ) -> Fetched {
        let part = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(FETCH_BYTES_MAX);
        let topic = FetchTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![part]);
        let request = FetchRequest::default()
            .with_max_wait_ms(i32::try_from(wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(FETCH_BYTES_MAX)
            .with_topics(vec![topic]);
        let response = self.call(12, &request).await;
        assert_eq!(response.error_code, 0, "the fetch as a whole succeeds");
        let answer = &response.responses[0].partitions[0];
        Fetched {
            error_code: answer.error_code,
            high_watermark: answer.high_watermark,
            records: answer.records.clone().unwrap_or_default(),
        }
    }

    /// The offset for a timestamp: -2 the earliest, -1 the latest. -1 where there is none.
    ///
    /// # Errors
    /// The partition's error code.
    pub async fn offset_at(&mut self, topic: &str, partition: i32, at: i64) -> Result<i64, i16> {
        let part = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_timestamp(at);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![part]);
        let request = ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_topics(vec![topic]);
        let response = self.call(5, &request).await;
        let answer = &response.topics[0].partitions[0];
        if answer.error_code == 0 {
            Ok(answer.offset)
        } else {
            Err(answer.error_code)
        }
    }
}

/// The version in which [`produce_request`] is to be sent.
pub const PRODUCE_VERSION: i16 = 9;

/// A Produce of one batch with `acks=all`, for tests that pipeline.
#[must_use]
pub fn produce_request(topic: &str, partition: i32, batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(batch));
    let topic = TopicProduceData::default()
        .with_name(topic_name(topic))
        .with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(30_000)
        .with_topic_data(vec![topic])
}

fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
