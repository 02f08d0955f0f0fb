//! Connections that cost the broker something and give it nothing to do: idle ones, ones that stop
//! in the middle of a frame, ones that ask for records and never read them.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bytes::{BufMut, BytesMut};
use millrace_wire::{
    ApiKey, Encodable, HeaderVersion, RequestMessage, StrBytes,
    messages::{
        ApiVersionsRequest, FetchRequest, RequestHeader, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
    },
};

/// No answer to a request that is served at once takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a client that stops half-way says its frame has, and what it sends of it.
const HALF_FRAME_BYTES: u32 = 1_000_000;
/// Fetches that a client sends whose answers it does not read: as many as may be in flight.
const UNREAD_FETCHES: usize = 64;
/// What each asks for.
const FETCH_BYTES: i32 = 1 << 20;
/// The newest version that names topics.
const FETCH_VERSION: i16 = 12;

/// Connects as many as asked, each of which has asked for the versions once.
pub(crate) fn idle(address: SocketAddr, count: usize) -> io::Result<Vec<TcpStream>> {
    let request = request(0, &ApiVersionsRequest::default());
    let mut answer = Vec::new();
    let connect = |_| {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        ask(&mut stream, &request, &mut answer)?;
        Ok(stream)
    };
    (0..count).map(connect).collect()
}

/// Asks for the versions once more.
pub(crate) fn ask_again(stream: &mut TcpStream) -> io::Result<()> {
    ask(
        stream,
        &request(0, &ApiVersionsRequest::default()),
        &mut Vec::new(),
    )
}

fn ask(stream: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(request)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    answer.resize(u32::from_be_bytes(length) as usize, 0);
    stream.read_exact(answer)
}

/// Connects clients that send half of a frame and then nothing.
pub(crate) fn halves(address: SocketAddr, count: usize) -> io::Result<Vec<TcpStream>> {
    let mut half = HALF_FRAME_BYTES.to_be_bytes().to_vec();
    half.resize(HALF_FRAME_BYTES as usize / 2, 0);
    let connect = |_| {
        let mut stream = TcpStream::connect(address)?;
        send_what_is_taken(&mut stream, &half)?;
        Ok(stream)
    };
    (0..count).map(connect).collect()
}

/// Connects clients that fetch a partition again and again, from `offset` on, and read nothing.
pub(crate) fn slow_readers(
    address: SocketAddr,
    count: usize,
    topic: &str,
    offset: i64,
) -> io::Result<Vec<TcpStream>> {
    let partition = FetchPartition::default()
        .with_fetch_offset(offset)
        .with_partition_max_bytes(FETCH_BYTES);
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(vec![partition]);
    let fetch = FetchRequest::default()
        .with_max_bytes(FETCH_BYTES)
        .with_max_wait_ms(100)
        .with_topics(vec![topic]);
    let fetches = request(FETCH_VERSION, &fetch).repeat(UNREAD_FETCHES);
    let connect = |_| {
        let mut stream = TcpStream::connect(address)?;
        send_what_is_taken(&mut stream, &fetches)?;
        Ok(stream)
    };
    (0..count).map(connect).collect()
}

/// Sends, but does not wait for a broker that takes no more for now.
fn send_what_is_taken(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_millis(20)))?;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn request<R: RequestMessage>(version: i16, request: &R) -> Vec<u8> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_client_id(Some(StrBytes::from_static_str("crowd")))
        .encode(&mut frame, <R as HeaderVersion>::header_version(version))
        .and_then(|()| request.encode(&mut frame, version))
        .unwrap_or_else(|error| {
            panic!("{:?} version {version}: {error}", ApiKey::try_from(R::KEY))
        });
    let length = u32::try_from(frame.len() - 4).expect("a small request");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.to_vec()
}
