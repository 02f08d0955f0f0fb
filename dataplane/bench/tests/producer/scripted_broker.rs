//! A broker that keeps one connection's batches in memory and does wrong where it is told to, to see
//! what a client makes of its answers.

use std::{
    collections::HashMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use bytes::{Bytes, BytesMut};
use millrace_record::{BatchLimits, records, split};
use millrace_wire::{
    ApiKey, Encodable, FetchAnswer, FetchedPartition, FetchedTopic, HeaderVersion, Request,
    StrBytes, advertised_versions, decode, encode, encode_fetch,
    messages::{
        ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse, FetchRequest,
        InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
        MetadataResponse, ProduceResponse, ProducerId, TopicName,
        create_topics_response::CreatableTopicResult,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::{MetadataResponsePartition, MetadataResponseTopic},
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
    },
    parse_request, split_produce,
};

/// The only topic there is.
const TOPIC: &str = "topic";

/// What it does wrong, from the n-th Produce on, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Answers one Produce with an error code.
    Refuse(usize, i16),
    /// Leaves an offset out.
    Skip(usize),
    /// Answers with another request's number.
    Confuse(usize),
    /// Closes the connection without an answer.
    Close(usize),
}

/// What it was sent, of one connection.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Number of Produce requests.
    pub(crate) produces: usize,
    /// By partition: the number of records.
    pub(crate) records: HashMap<i32, i64>,
    /// By partition: the sequence that the next batch of a producer must have.
    pub(crate) sequences: HashMap<i32, i32>,
    /// Partitions of the topic, once it was made.
    partitions: i32,
    /// By partition: its batches, back to back.
    batches: HashMap<i32, Vec<u8>>,
    /// How often a producer id was asked for.
    ids_asked: usize,
}

/// Serves one connection; the address to connect to, and a thread that ends with the connection.
pub(crate) fn start(fault: Fault) -> (SocketAddr, thread::JoinHandle<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        serve(&stream, fault)
    });
    (address, serving)
}

fn serve(mut stream: &TcpStream, fault: Fault) -> Seen {
    let mut seen = Seen::default();
    while let Ok(frame) = read_frame(stream) {
        let request = parse_request(frame).expect("a request");
        let answer = match request.api_key {
            ApiKey::Produce => match produce(request, fault, &mut seen) {
                Some(answer) => answer,
                None => break,
            },
            ApiKey::Fetch => fetch(&request, &seen),
            _ => administer(&request, &mut seen),
        };
        // A client that judged an answer to be wrong may be gone.
        if stream.write_all(&answer).is_err() {
            break;
        }
    }
    seen
}

fn read_frame(mut stream: &TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame.into())
}

fn frame_of<M: Encodable + HeaderVersion>(request: &Request, message: &M) -> Vec<u8> {
    let (version, id) = (request.version, request.correlation_id);
    let answer = encode(request.api_key, version, id, message).expect("a legal answer");
    answer.into_segments().concat()
}

fn administer(request: &Request, seen: &mut Seen) -> Vec<u8> {
    match request.api_key {
        ApiKey::ApiVersions => {
            let answer = ApiVersionsResponse::default().with_api_keys(advertised_versions());
            frame_of(request, &answer)
        }
        ApiKey::CreateTopics => {
            let message: CreateTopicsRequest = decode(request).expect("legal");
            let name = message.topics[0].name.clone();
            seen.partitions = message.topics[0].num_partitions;
            let topic = CreatableTopicResult::default().with_name(name);
            frame_of(
                request,
                &CreateTopicsResponse::default().with_topics(vec![topic]),
            )
        }
        ApiKey::ListOffsets => {
            let message: ListOffsetsRequest = decode(request).expect("legal");
            let topic = &message.topics[0];
            let partition = ListOffsetsPartitionResponse::default()
                .with_partition_index(topic.partitions[0].partition_index)
                .with_offset(0);
            let topic = ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(vec![partition]);
            frame_of(
                request,
                &ListOffsetsResponse::default().with_topics(vec![topic]),
            )
        }
        ApiKey::Metadata => {
            let message: MetadataRequest = decode(request).expect("legal");
            let name = message.topics.expect("a topic")[0].name.clone();
            let unknown = name.as_ref().is_none_or(|name| ***name != *TOPIC);
            let partitions = (0..seen.partitions)
                .map(|index| MetadataResponsePartition::default().with_partition_index(index));
            let topic = MetadataResponseTopic::default()
                .with_name(name)
                .with_error_code(if unknown { 3 } else { 0 })
                .with_partitions(partitions.collect());
            frame_of(
                request,
                &MetadataResponse::default().with_topics(vec![topic]),
            )
        }
        ApiKey::InitProducerId => {
            // As a broker does that has just started: COORDINATOR_LOAD_IN_PROGRESS.
            seen.ids_asked += 1;
            let code = if seen.ids_asked < 3 { 14 } else { 0 };
            let answer = InitProducerIdResponse::default()
                .with_error_code(code)
                .with_producer_id(ProducerId(7))
                .with_producer_epoch(0);
            frame_of(request, &answer)
        }
        other => panic!("{other:?} is not in the script"),
    }
}

/// All of a partition, from wherever it is asked for.
fn fetch(request: &Request, seen: &Seen) -> Vec<u8> {
    let message: FetchRequest = decode(request).expect("legal");
    let asked = &message.topics[0].partitions[0];
    let end = seen.records.get(&asked.partition).copied().unwrap_or(0);
    let is_beyond = asked.fetch_offset > end;
    let batches = seen.batches.get(&asked.partition).cloned();
    let partition = FetchedPartition {
        index: asked.partition,
        // OFFSET_OUT_OF_RANGE.
        error_code: if is_beyond { 1 } else { 0 },
        high_watermark: end,
        log_start_offset: 0,
        records: vec![batches.unwrap_or_default().into()],
        ..FetchedPartition::default()
    };
    let topic = FetchedTopic {
        topic: StrBytes::from_static_str(TOPIC),
        partitions: vec![partition],
        ..FetchedTopic::default()
    };
    let answer = FetchAnswer {
        topics: vec![topic],
        ..FetchAnswer::default()
    };
    let (version, id) = (request.version, request.correlation_id);
    let answer = encode_fetch(version, id, answer).expect("a legal answer");
    answer.into_segments().concat()
}

/// Checks what came and answers as the script says; nothing where it says to close.
fn produce(mut request: Request, fault: Fault, seen: &mut Seen) -> Option<Vec<u8>> {
    let number = seen.produces;
    seen.produces += 1;
    if fault == Fault::Close(number) {
        return None;
    }
    let answered = request.clone();
    // The frame's bytes become the batches' own.
    request.body = Bytes::from(request.body.to_vec());
    let (message, sets) = split_produce(request).expect("a legal Produce");
    let partitions = &message.topic_data[0].partition_data;
    let answers = partitions.iter().zip(sets.into_iter().flatten());
    let answers = answers.map(|(partition, set)| {
        let end = seen.records.entry(partition.index).or_default();
        if fault == Fault::Skip(number) {
            *end += 1;
        }
        let base_offset = *end;
        let log = seen.batches.entry(partition.index).or_default();
        log.extend_from_slice(&set);
        let sequence = seen.sequences.entry(partition.index).or_default();
        *end += append(set, sequence);
        match fault {
            Fault::Refuse(at, code) if at == number => (partition.index, code, -1),
            _ => (partition.index, 0, base_offset),
        }
    });
    let answers = answers.map(|(partition, code, base_offset)| {
        PartitionProduceResponse::default()
            .with_index(partition)
            .with_error_code(code)
            .with_base_offset(base_offset)
    });
    let topic = TopicProduceResponse::default()
        .with_name(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partition_responses(answers.collect());
    let answer = ProduceResponse::default().with_responses(vec![topic]);
    let mut frame = frame_of(&answered, &answer);
    if fault == Fault::Confuse(number) {
        // The correlation id follows the length.
        frame[7] ^= 1;
    }
    Some(frame)
}

/// Judges a batch as a broker does; its number of records.
fn append(set: BytesMut, next_sequence: &mut i32) -> i64 {
    let batches = split(set).expect("whole batches");
    assert_eq!(batches.len(), 1, "one batch for each partition");
    let batch = &batches[0];
    assert_eq!(batch.validate(&BatchLimits::default()), Ok(()));
    let all = records(&Bytes::copy_from_slice(batch.bytes())).expect("records");
    assert!(all.inspect(|record| assert!(record.is_ok())).count() > 0);
    if batch.header().has_producer_id() {
        assert_eq!(batch.header().base_sequence, *next_sequence);
        *next_sequence += batch.header().count;
    }
    i64::from(batch.header().count)
}
