//! The client's side of the protocol: requests are written, responses are read.
//!
//! ```text
//! request frame:   length i32 | header 1 or 2 | body
//! response frame:  length i32 | correlation id i32 | tagged fields (flexible versions) | body
//! ```
//!
//! [`negotiate`] chooses a version from what the broker told in ApiVersions. [`encode_request`]
//! writes any message, [`encode_produce`] a Produce whose record batches are shared and not copied.
//! The correlation id is written last ([`RequestFrame::set_correlation_id`]), so that whoever owns
//! the connection numbers the requests in the order in which it sends them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::ApiKey,
    protocol::{Decodable, HeaderVersion, Message, Request as RequestMessage, VersionRange},
};
use millrace_model::TopicId;

use crate::{
    frame_writer::FrameWriter,
    response::{EncodeError, LENGTH_BYTES, length_prefix},
    shape::check_response,
};

/// Where the correlation id stands in a request frame: after length, API key and version.
const CORRELATION_AT: usize = LENGTH_BYTES + 2 + 2;
/// The first Produce version with compact lengths and tagged fields.
const PRODUCE_FLEXIBLE_FROM: i16 = 9;
/// The first Produce version that names topics by their id.
pub const PRODUCE_TOPIC_ID_FROM: i16 = 13;
/// A guess at the bytes of one partition's fields, to allocate once.
const PARTITION_BYTES: usize = 32;

/// The versions of a request that this crate can write and whose answers it can read.
#[must_use]
pub fn spoken<M: RequestMessage>() -> VersionRange {
    M::VERSIONS.intersect(&<M::Response as Message>::VERSIONS)
}

/// The newest version that both sides speak and that is at most `newest`; nothing where there is
/// none.
#[must_use]
pub fn negotiate<M: RequestMessage>(broker: VersionRange, newest: i16) -> Option<i16> {
    let ours = spoken::<M>();
    let both = ours.intersect(&broker);
    let version = both.max.min(newest);
    (version >= both.min).then_some(version)
}

/// A request, ready to be sent once it has its correlation id.
#[derive(Debug)]
pub struct RequestFrame {
    head: BytesMut,
    rest: Vec<Bytes>,
    len: usize,
}

impl RequestFrame {
    /// Writes the number that the answer will repeat.
    pub fn set_correlation_id(&mut self, correlation_id: i32) {
        self.head[CORRELATION_AT..CORRELATION_AT + 4]
            .copy_from_slice(&correlation_id.to_be_bytes());
    }

    /// Size of the frame in bytes, length prefix included.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a frame has at least its length prefix"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The frame's bytes, to be sent in order.
    #[must_use]
    pub fn into_segments(self) -> (Bytes, Vec<Bytes>) {
        (self.head.freeze(), self.rest)
    }
}

/// Why a response cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedResponse {
    /// The frame ends inside its header.
    #[error("the response ends inside its header")]
    Header,
    /// The body does not follow its version's schema.
    #[error("the response to {api_key:?} version {version} is malformed: {reason}")]
    Body {
        /// The API.
        api_key: ApiKey,
        /// The version.
        version: i16,
        /// What the codec says.
        reason: String,
    },
}

/// Writes a request in a version that [`negotiate`] chose.
///
/// # Errors
/// The message has a field that its version does not have, or does not fit into a frame.
pub fn encode_request<M: RequestMessage>(
    version: i16,
    client_id: &str,
    message: &M,
) -> Result<RequestFrame, EncodeError> {
    let api_key = key_of::<M>();
    let field = |reason: String| EncodeError::Field {
        api_key,
        version,
        reason,
    };
    let size = message
        .compute_size(version)
        .map_err(|error| field(error.to_string()))?;
    let mut head = begin_request(api_key, version, client_id, size)?;
    message
        .encode(&mut head, version)
        .map_err(|error| field(error.to_string()))?;
    let len = head.len();
    head[..LENGTH_BYTES].copy_from_slice(&length_prefix(len)?);
    Ok(RequestFrame {
        head,
        rest: Vec::new(),
        len,
    })
}

/// What a Produce request carries.
#[derive(Debug, Clone)]
pub struct ProduceBody<'a> {
    /// -1: all replicas, 1: the leader, 0: no answer at all.
    pub acks: i16,
    /// For how long the broker may wait for its replicas, in milliseconds.
    pub timeout_ms: i32,
    /// The topics.
    pub topics: Vec<ProduceTopic<'a>>,
}

/// One topic of a Produce request.
#[derive(Debug, Clone)]
pub struct ProduceTopic<'a> {
    /// Its name; told up to version 12.
    pub name: &'a str,
    /// Its id; told from version 13 on.
    pub id: TopicId,
    /// Partition and record batch.
    pub partitions: Vec<(i32, Bytes)>,
}

/// Writes a Produce request. Batches larger than a few hundred bytes stay segments of their own,
/// shared with whoever else holds them.
///
/// # Errors
/// The request does not fit into a frame, or a name is too long.
pub fn encode_produce(
    version: i16,
    client_id: &str,
    body: ProduceBody<'_>,
) -> Result<RequestFrame, EncodeError> {
    let partitions: usize = body.topics.iter().map(|topic| topic.partitions.len()).sum();
    let capacity = (partitions + body.topics.len() + 1) * PARTITION_BYTES;
    let header = begin_request(ApiKey::Produce, version, client_id, capacity)?;
    let flexible = version >= PRODUCE_FLEXIBLE_FROM;
    let mut frame = FrameWriter::new(ApiKey::Produce, version, flexible, header);
    frame.null_string();
    frame.out().put_i16(body.acks);
    frame.out().put_i32(body.timeout_ms);
    frame.count(Some(body.topics.len()))?;
    for topic in body.topics {
        if version >= PRODUCE_TOPIC_ID_FROM {
            frame.out().put_slice(topic.id.0.as_bytes());
        } else {
            frame.string(topic.name)?;
        }
        frame.count(Some(topic.partitions.len()))?;
        for (index, batch) in topic.partitions {
            frame.out().put_i32(index);
            let len = batch.len();
            frame.records([batch], len)?;
            frame.no_tagged_fields();
        }
        frame.no_tagged_fields();
    }
    frame.no_tagged_fields();
    let (head, rest) = frame.finish()?;
    let len = head.len() + rest.iter().map(Bytes::len).sum::<usize>();
    Ok(RequestFrame { head, rest, len })
}

/// The correlation id of a response frame, whose length prefix is already gone.
///
/// # Errors
/// [`MalformedResponse::Header`].
pub fn correlation_id_of(frame: &[u8]) -> Result<i32, MalformedResponse> {
    let id = frame.first_chunk().ok_or(MalformedResponse::Header)?;
    Ok(i32::from_be_bytes(*id))
}

/// Reads a response frame, whose length prefix is already gone, as the answer to `M` in `version`.
/// Strings and byte fields of the message share the frame's bytes. Bytes after the message are
/// ignored.
///
/// # Errors
/// The frame does not follow the schema.
pub fn decode_response<M: RequestMessage>(
    version: i16,
    mut frame: Bytes,
) -> Result<M::Response, MalformedResponse> {
    if frame.len() < 4 {
        return Err(MalformedResponse::Header);
    }
    frame.advance(4);
    if <M::Response as HeaderVersion>::header_version(version) >= 1 {
        let mut reader = crate::shape::Reader::new(&frame);
        reader
            .skip_tagged_fields()
            .map_err(|_| MalformedResponse::Header)?;
        let header_bytes = frame.len() - reader.remaining();
        frame.advance(header_bytes);
    }
    let malformed = |reason: String| MalformedResponse::Body {
        api_key: key_of::<M>(),
        version,
        reason,
    };
    check_response(key_of::<M>(), version, &frame).map_err(|error| malformed(error.to_string()))?;
    M::Response::decode(&mut frame, version).map_err(|error| malformed(error.to_string()))
}

/// The API of a message.
fn key_of<M: RequestMessage>() -> ApiKey {
    ApiKey::try_from(M::KEY).expect("every message of the codec has a key of the codec")
}

/// Starts a frame: room for length and correlation id, and the rest of the header.
fn begin_request(
    api_key: ApiKey,
    version: i16,
    client_id: &str,
    capacity: usize,
) -> Result<BytesMut, EncodeError> {
    let client_id_len = i16::try_from(client_id.len()).map_err(|_| EncodeError::Field {
        api_key,
        version,
        reason: format!("a client id of {} bytes", client_id.len()),
    })?;
    let mut out = BytesMut::with_capacity(CORRELATION_AT + 8 + client_id.len() + capacity);
    out.put_i32(0);
    out.put_i16(api_key as i16);
    out.put_i16(version);
    out.put_i32(0);
    out.put_i16(client_id_len);
    out.put_slice(client_id.as_bytes());
    if api_key.request_header_version(version) >= 2 {
        out.put_u8(0);
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
