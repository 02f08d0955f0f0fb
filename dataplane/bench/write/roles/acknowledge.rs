//! A server that acknowledges records and keeps none of them: with it, a client of Kafka's protocol shows its own limit.
//!
//! It knows topics and counts their records, so that offsets are what a broker's would be. Each connection has a thread, which answers one
//! request after the other.

use std::{
    collections::HashMap,
    error::Error,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use bytes::{Bytes, BytesMut};
use millrace_wire::{
    ApiKey, EncodeError, MalformedRequest, Request, Response, StrBytes, decode, encode,
    messages::{
        ApiVersionsResponse, BrokerId, CreateTopicsRequest, CreateTopicsResponse,
        InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
        MetadataResponse, ProduceRequest, ProduceResponse, ProducerId, TopicName,
        api_versions_response::ApiVersion,
        create_topics_response::CreatableTopicResult,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        },
        produce_request::PartitionProduceData,
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
    },
    parse_request,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::flags::Flags;

/// What it serves. Newer versions name topics by id, which nobody needs here.
const SERVED: [(ApiKey, i16, i16); 6] = [
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::Metadata, 0, 12),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::Produce, 3, 10),
];
const NODE: BrokerId = BrokerId(0);
/// Nobody sends a longer request.
const FRAME_BYTES_MAX: usize = 128 << 20;
/// Where a batch has the number of its records, as an `i32`.
const COUNT_AT: usize = 57;

/// Serves connections until it is killed.
pub(super) fn run(flags: &mut Flags) -> Result<Value, Box<dyn Error>> {
    let port: u16 = flags.optional("port")?.unwrap_or(0);
    flags.finish()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let port = listener.local_addr()?.port();
    let mut out = io::stdout().lock();
    writeln!(out, "ready {port}")?;
    out.flush()?;
    let server = Arc::new(Acknowledger {
        port,
        topics: Mutex::default(),
    });
    loop {
        let (stream, _) = listener.accept()?;
        let server = Arc::clone(&server);
        thread::spawn(move || {
            if let Err(error) = server.serve(stream) {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

/// What all connections share.
struct Acknowledger {
    port: u16,
    /// By topic and partition: the offset of the next record.
    topics: Mutex<HashMap<TopicName, Vec<i64>>>,
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Request(#[from] MalformedRequest),
    #[error(transparent)]
    Response(#[from] EncodeError),
    #[error("{0:?} is not served")]
    NotServed(ApiKey),
}

impl Acknowledger {
    fn serve(&self, mut stream: TcpStream) -> Result<(), ServeError> {
        stream.set_nodelay(true)?;
        let mut buffer = BytesMut::new();
        while let Some(frame) = read_frame(&mut stream, &mut buffer)? {
            let response = self.answer(&parse_request(frame)?)?;
            for segment in response.segments() {
                stream.write_all(segment)?;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> Result<Response, ServeError> {
        let (api, version, id) = (request.api_key, request.version, request.correlation_id);
        Ok(match api {
            ApiKey::Produce => encode(api, version, id, &self.produce(&decode(request)?))?,
            ApiKey::Metadata => encode(api, version, id, &self.metadata(&decode(request)?))?,
            ApiKey::CreateTopics => encode(api, version, id, &self.create(&decode(request)?))?,
            ApiKey::ListOffsets => encode(api, version, id, &self.offsets(decode(request)?))?,
            ApiKey::InitProducerId => {
                let answer = InitProducerIdResponse::default().with_producer_id(ProducerId(1));
                encode(api, version, id, &answer)?
            }
            ApiKey::ApiVersions => {
                let keys = SERVED.map(|(api, min, max)| {
                    ApiVersion::default()
                        .with_api_key(api as i16)
                        .with_min_version(min)
                        .with_max_version(max)
                });
                let answer = ApiVersionsResponse::default().with_api_keys(keys.to_vec());
                encode(api, version, id, &answer)?
            }
            other => return Err(ServeError::NotServed(other)),
        })
    }

    fn produce(&self, request: &ProduceRequest) -> ProduceResponse {
        let mut topics = self.topics.lock();
        let responses = request.topic_data.iter().map(|data| {
            let ends = topics.entry(data.name.clone()).or_default();
            let appended = data.partition_data.iter().map(|part| {
                let index = usize::try_from(part.index).unwrap_or(0);
                if ends.len() <= index {
                    ends.resize(index + 1, 0);
                }
                let base = ends[index];
                ends[index] += records_of(part);
                PartitionProduceResponse::default()
                    .with_index(part.index)
                    .with_base_offset(base)
                    .with_log_append_time_ms(-1)
            });
            TopicProduceResponse::default()
                .with_name(data.name.clone())
                .with_partition_responses(appended.collect())
        });
        ProduceResponse::default().with_responses(responses.collect())
    }

    fn create(&self, request: &CreateTopicsRequest) -> CreateTopicsResponse {
        let mut topics = self.topics.lock();
        let created = request.topics.iter().map(|topic| {
            let partitions = usize::try_from(topic.num_partitions).unwrap_or(1);
            topics.insert(topic.name.clone(), vec![0; partitions]);
            CreatableTopicResult::default().with_name(topic.name.clone())
        });
        CreateTopicsResponse::default().with_topics(created.collect())
    }

    fn offsets(&self, request: ListOffsetsRequest) -> ListOffsetsResponse {
        let topics = self.topics.lock();
        let listed = request.topics.into_iter().map(|asked| {
            let ends = topics.get(&asked.name);
            let parts = asked.partitions.iter().map(|part| {
                let index = usize::try_from(part.partition_index).unwrap_or(usize::MAX);
                let end = ends.and_then(|ends| ends.get(index)).copied();
                ListOffsetsPartitionResponse::default()
                    .with_partition_index(part.partition_index)
                    .with_timestamp(-1)
                    .with_offset(end.unwrap_or(0))
            });
            ListOffsetsTopicResponse::default()
                .with_partitions(parts.collect())
                .with_name(asked.name)
        });
        ListOffsetsResponse::default().with_topics(listed.collect())
    }

    fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let topics = self.topics.lock();
        let asked = request.topics.iter().flatten();
        let described = asked.filter_map(|topic| topic.name.clone()).map(|name| {
            let count = i32::try_from(topics.get(&name).map_or(1, Vec::len)).unwrap_or(1);
            let partitions = (0..count).map(|index| {
                MetadataResponsePartition::default()
                    .with_partition_index(index)
                    .with_leader_id(NODE)
                    .with_replica_nodes(vec![NODE])
                    .with_isr_nodes(vec![NODE])
            });
            MetadataResponseTopic::default()
                .with_name(Some(name))
                .with_partitions(partitions.collect())
        });
        let node = MetadataResponseBroker::default()
            .with_node_id(NODE)
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(i32::from(self.port));
        MetadataResponse::default()
            .with_brokers(vec![node])
            .with_controller_id(NODE)
            .with_topics(described.collect())
    }
}

/// How many records a partition's batch has: since version 3 there is one batch.
fn records_of(part: &PartitionProduceData) -> i64 {
    let batch: &[u8] = part.records.as_deref().unwrap_or_default();
    let count = batch.get(COUNT_AT..).and_then(|rest| rest.first_chunk());
    count.map_or(0, |count| i64::from(i32::from_be_bytes(*count)))
}

/// The next request without its length; nothing where the other side has closed.
fn read_frame(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<Option<Bytes>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    // The bytes of the last request are free by now, and are used again.
    buffer.resize(length, 0);
    stream.read_exact(buffer)?;
    Ok(Some(buffer.split().freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_says_how_many_records_it_has() {
        let mut batch = vec![0; 61];
        batch[COUNT_AT..].copy_from_slice(&7_i32.to_be_bytes());
        let part = |records| PartitionProduceData::default().with_records(records);
        assert_eq!(records_of(&part(Some(batch.into()))), 7);
        assert_eq!(records_of(&part(None)), 0);
    }
}
