//! One connection to a broker, in blocking calls.

use std::{
    collections::HashMap,
    io::{self, IoSlice, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use millrace_time::SystemClock;
use millrace_wire::{
    ApiKey, Decodable, Encodable, HeaderVersion, RequestMessage, StrBytes,
    error_code::ErrorCode,
    messages::{
        ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest,
        InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, RequestHeader, ResponseHeader,
        TopicName,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        fetch_request::{FetchPartition, FetchTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_request::MetadataRequestTopic,
    },
};

use super::{PRODUCE_VERSION, ProduceAnswer, ProduceFrame, ProducerIdentity};

/// A frame that claims to be longer is taken for damage.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 20;
/// For how long a broker may work on a new topic.
const TOPIC_TIMEOUT_MS: i32 = 30_000;
/// What a broker answers that is still getting ready: COORDINATOR_LOAD_IN_PROGRESS.
const NOT_YET: i16 = 14;
/// For how long that may last.
const IDS_WAIT_MAX: Duration = Duration::from_secs(30);
/// Between two looks at whether a topic is ready.
const READY_POLL: Duration = Duration::from_millis(20);
/// The last version of Fetch that names topics.
pub(crate) const FETCH_VERSION_MAX: i16 = 12;
/// The last version of DeleteTopics that lists plain names.
const DELETE_VERSION_MAX: i16 = 5;
/// Lets ListOffsets answer the end of a partition.
const LATEST: i64 = -1;
/// Lets ListOffsets answer the start of a partition.
const EARLIEST: i64 = -2;
/// Lets ListOffsets answer the start of what the broker's own disk still holds.
const EARLIEST_LOCAL: i64 = -4;
/// Lets ListOffsets answer the last offset in remote storage.
const LATEST_TIERED: i64 = -5;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed, or an answer did not come in time: a broken connection, to be made
    /// anew.
    #[error("the connection to the broker: {0}")]
    Io(#[from] io::Error),
    /// The broker answered with one of Kafka's error codes.
    #[error("{api:?} was refused with code {code}: {}", describe(*code))]
    Refused {
        /// What was asked.
        api: ApiKey,
        /// Kafka's error code.
        code: i16,
    },
    /// The broker sent what no broker sends.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// The broker and this client have no version in common.
    #[error("the broker does not serve a version of {0:?} that this client speaks")]
    Version(ApiKey),
}

fn describe(code: i16) -> String {
    ErrorCode::try_from_code(code).map_or_else(|| "unknown".into(), |error| error.to_string())
}

/// What a fetch of one partition answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// The high watermark.
    pub high_watermark: i64,
    /// The first offset that there is.
    pub log_start_offset: i64,
    /// Batches, back to back; the last one may be cut off. The first one may begin below the
    /// offset asked for.
    pub records: Bytes,
}

/// One connection to a broker. After [`ClientError::Io`] it is of no more use.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    client_id: String,
    correlation_id: i32,
    /// By API key: the versions that the broker serves.
    versions: HashMap<i16, (i16, i16)>,
}

impl Connection {
    /// Connects and asks for the broker's versions. No call waits longer than `patience` for the
    /// network.
    ///
    /// # Errors
    /// Nobody listens there, or it is no broker.
    pub fn connect(
        address: SocketAddr,
        client_id: &str,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut connection = Self {
            stream,
            client_id: client_id.to_owned(),
            correlation_id: 0,
            versions: HashMap::from([(ApiKey::ApiVersions as i16, (0, 0))]),
        };
        let answer = connection.call(&ApiVersionsRequest::default())?;
        refuse(ApiKey::ApiVersions, answer.error_code)?;
        let served = answer
            .api_keys
            .iter()
            .map(|api| (api.api_key, (api.min_version, api.max_version)));
        connection.versions = served.collect();
        let (oldest, newest) = connection.served(ApiKey::Produce)?;
        if !(oldest..=newest).contains(&PRODUCE_VERSION) {
            return Err(ClientError::Version(ApiKey::Produce));
        }
        Ok(connection)
    }

    /// The socket, for whoever goes on with it alone: no answer is outstanding where all were
    /// awaited.
    #[must_use]
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// One request and its answer, in the newest version that both sides speak. No Produce may be
    /// outstanding.
    ///
    /// # Errors
    /// As [`ClientError`] says; error codes in the answer are the caller's to judge.
    pub fn call<R: RequestMessage>(&mut self, request: &R) -> Result<R::Response, ClientError> {
        self.call_up_to(i16::MAX, request)
    }

    fn call_up_to<R: RequestMessage>(
        &mut self,
        version_max: i16,
        request: &R,
    ) -> Result<R::Response, ClientError> {
        let api = ApiKey::try_from(R::KEY).map_err(|()| ClientError::Malformed("the request"))?;
        let (oldest, newest) = self.served(api)?;
        let version = newest.min(R::VERSIONS.max).min(version_max);
        if version < oldest.max(R::VERSIONS.min) {
            return Err(ClientError::Version(api));
        }
        let correlation_id = self.next_correlation_id();
        let frame = frame_of(request, version, correlation_id, &self.client_id)?;
        self.stream.write_all(&frame)?;
        answer_of::<R>(self.read_frame()?, version, correlation_id)
    }

    /// Creates a topic and waits until each of its partitions can be written to. Where there is a
    /// topic of that name, its number of partitions is not looked at.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn create_topic(
        &mut self,
        topic: &str,
        partitions: i32,
        patience: Duration,
    ) -> Result<(), ClientError> {
        self.create_topic_with(topic, partitions, &[], patience)
    }

    /// The same with settings of the topic: names and values.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn create_topic_with(
        &mut self,
        topic: &str,
        partitions: i32,
        settings: &[(&'static str, &'static str)],
        patience: Duration,
    ) -> Result<(), ClientError> {
        let setting = |&(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_static_str(name))
                .with_value(Some(StrBytes::from_static_str(value)))
        };
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(settings.iter().map(setting).collect());
        let request = CreateTopicsRequest::default()
            .with_topics(vec![creatable])
            .with_timeout_ms(TOPIC_TIMEOUT_MS);
        let answer = self.call(&request)?;
        let code = answer.topics.first().map_or(0, |topic| topic.error_code);
        if code != ErrorCode::TopicAlreadyExists.code() {
            refuse(ApiKey::CreateTopics, code)?;
        }
        self.wait_until_ready(topic, partitions, patience)
    }

    /// Deletes a topic. What is left of it may go in the background.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), ClientError> {
        let request = DeleteTopicsRequest::default()
            .with_topic_names(vec![topic_name(topic)])
            .with_timeout_ms(TOPIC_TIMEOUT_MS);
        let answer = self.call_up_to(DELETE_VERSION_MAX, &request)?;
        let code = answer.responses.first().map_or(0, |topic| topic.error_code);
        refuse(ApiKey::DeleteTopics, code)
    }

    /// Waits until each partition has a leader that answers: metadata may be ahead of it.
    #[expect(clippy::disallowed_methods, reason = "blocking by design")]
    fn wait_until_ready(
        &mut self,
        topic: &str,
        partitions: i32,
        patience: Duration,
    ) -> Result<(), ClientError> {
        let clock = SystemClock::shared();
        for partition in 0..partitions {
            while let Err(error) = self.end_offset(topic, partition) {
                let transient = matches!(error, ClientError::Refused { .. });
                if !transient || clock.now() >= patience {
                    return Err(error);
                }
                std::thread::sleep(READY_POLL);
            }
        }
        Ok(())
    }

    /// How many partitions a topic has.
    ///
    /// # Errors
    /// As [`ClientError`] says; a topic that is not there is refused.
    pub fn partitions_of(&mut self, topic: &str) -> Result<i32, ClientError> {
        let asked = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![asked]))
            .with_allow_auto_topic_creation(false);
        let answer = self.call(&request)?;
        let topic = answer.topics.first();
        let topic = topic.ok_or(ClientError::Malformed("the answer to Metadata"))?;
        refuse(ApiKey::Metadata, topic.error_code)?;
        i32::try_from(topic.partitions.len()).map_err(|error| io::Error::other(error).into())
    }

    /// The offset that the next record of a partition gets.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn end_offset(&mut self, topic: &str, partition: i32) -> Result<i64, ClientError> {
        self.offset_at(topic, partition, LATEST)
    }

    /// The first offset that a partition has.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn start_offset(&mut self, topic: &str, partition: i32) -> Result<i64, ClientError> {
        self.offset_at(topic, partition, EARLIEST)
    }

    /// Tiered storage: the first offset that the broker's own disk still holds.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn local_start_offset(&mut self, topic: &str, partition: i32) -> Result<i64, ClientError> {
        self.offset_at(topic, partition, EARLIEST_LOCAL)
    }

    /// Tiered storage: the last offset that remote storage holds; -1 where it holds none, or the
    /// broker does not know yet.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn last_tiered_offset(&mut self, topic: &str, partition: i32) -> Result<i64, ClientError> {
        self.offset_at(topic, partition, LATEST_TIERED)
    }

    fn offset_at(&mut self, topic: &str, partition: i32, at: i64) -> Result<i64, ClientError> {
        let part = ListOffsetsPartition::default()
            .with_partition_index(partition)
            .with_timestamp(at);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![part]);
        let request = ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_topics(vec![topic]);
        let answer = self.call(&request)?;
        let part = answer.topics.first().and_then(|t| t.partitions.first());
        let part = part.ok_or(ClientError::Malformed("the answer to ListOffsets"))?;
        refuse(ApiKey::ListOffsets, part.error_code)?;
        Ok(part.offset)
    }

    /// A new idempotent producer. Waits a little where the broker has just started and has no ids
    /// to give yet.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    #[expect(clippy::disallowed_methods, reason = "blocking by design")]
    pub fn init_producer_id(&mut self) -> Result<ProducerIdentity, ClientError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000);
        let clock = SystemClock::shared();
        let answer = loop {
            let answer = self.call(&request)?;
            if answer.error_code != NOT_YET || clock.now() >= IDS_WAIT_MAX {
                break answer;
            }
            std::thread::sleep(READY_POLL);
        };
        refuse(ApiKey::InitProducerId, answer.error_code)?;
        Ok(ProducerIdentity {
            id: answer.producer_id.0,
            epoch: answer.producer_epoch,
        })
    }

    /// Sends a Produce of whole batches with `acks=all` and does not wait for the answer. Returns
    /// its correlation id. Answers come in the order of the requests.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn send_produce(
        &mut self,
        topic: &str,
        batches: &[(i32, &[u8])],
    ) -> Result<i32, ClientError> {
        let correlation_id = self.next_correlation_id();
        let mut frame = ProduceFrame::new(&self.client_id, topic);
        frame.begin(correlation_id);
        let mut records = Vec::with_capacity(batches.len());
        for (partition, batch) in batches {
            let split = batch.split_first_chunk();
            let (header, rest) = split.ok_or(ClientError::Malformed("a batch to send"))?;
            frame.push(*partition, header, rest.len());
            records.push(rest);
        }
        let mut sent = 0;
        while sent < frame.len() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(2 * batches.len());
            frame.slices(records.iter().copied(), sent, &mut slices);
            match self.stream.write_vectored(&slices) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(correlation_id)
    }

    /// The next answer to a Produce.
    ///
    /// # Errors
    /// As [`ClientError`] says; error codes of partitions are the caller's to judge.
    pub fn await_produce(&mut self) -> Result<ProduceAnswer, ClientError> {
        ProduceAnswer::parse(self.read_frame()?)
    }

    /// Reads a partition from `offset` on, up to about `bytes_max`; waits for up to `wait` where
    /// there is nothing yet. No Produce may be outstanding.
    ///
    /// # Errors
    /// As [`ClientError`] says; the partition's error code is the caller's to judge.
    pub fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        bytes_max: i32,
        wait: Duration,
    ) -> Result<Fetched, ClientError> {
        let part = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(bytes_max);
        let topic = FetchTopic::default()
            .with_topic(topic_name(topic))
            .with_partitions(vec![part]);
        let request = FetchRequest::default()
            .with_max_wait_ms(i32::try_from(wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(1)
            .with_max_bytes(bytes_max)
            .with_topics(vec![topic]);
        let answer = self.call_up_to(FETCH_VERSION_MAX, &request)?;
        refuse(ApiKey::Fetch, answer.error_code)?;
        let part = answer.responses.first().and_then(|t| t.partitions.first());
        let part = part.ok_or(ClientError::Malformed("the answer to Fetch"))?;
        Ok(Fetched {
            error_code: part.error_code,
            high_watermark: part.high_watermark,
            log_start_offset: part.log_start_offset,
            records: part.records.clone().unwrap_or_default(),
        })
    }

    fn served(&self, api: ApiKey) -> Result<(i16, i16), ClientError> {
        let served = self.versions.get(&(api as i16)).copied();
        served.ok_or(ClientError::Version(api))
    }

    fn next_correlation_id(&mut self) -> i32 {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.correlation_id
    }

    fn read_frame(&mut self) -> Result<Bytes, ClientError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > ANSWER_BYTES_MAX {
            return Err(ClientError::Malformed("an answer's length"));
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame.into())
    }
}

/// A request as it goes over the wire, its length in front.
pub(crate) fn frame_of<R: RequestMessage>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) -> Result<BytesMut, ClientError> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    let unfit = |_| ClientError::Malformed("the request");
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header
        .encode(&mut frame, R::header_version(version))
        .map_err(unfit)?;
    request.encode(&mut frame, version).map_err(unfit)?;
    let length = i32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Reads an answer, whose length is already gone. Records in it are slices of `frame`.
pub(crate) fn answer_of<R: RequestMessage>(
    mut frame: Bytes,
    version: i16,
    correlation_id: i32,
) -> Result<R::Response, ClientError> {
    let malformed = |_| ClientError::Malformed("an answer");
    let header_version = <R::Response as HeaderVersion>::header_version(version);
    let header = ResponseHeader::decode(&mut frame, header_version).map_err(malformed)?;
    if header.correlation_id != correlation_id {
        return Err(ClientError::Malformed("the order of the answers"));
    }
    R::Response::decode(&mut frame, version).map_err(malformed)
}

pub(crate) fn refuse(api: ApiKey, code: i16) -> Result<(), ClientError> {
    match code {
        0 => Ok(()),
        code => Err(ClientError::Refused { api, code }),
    }
}

pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
