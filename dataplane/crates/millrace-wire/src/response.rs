//! Responses: whole frames, length prefix included.

use std::{fmt, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::{
    messages::{ApiKey, ApiVersionsResponse},
    protocol::{Encodable, HeaderVersion},
};

use crate::{
    api::{advertised_versions, codec_version},
    error_code::ErrorCode,
    service::BoxFuture,
};

/// A frame to send, in the order of its segments. Segments let record bytes travel from the log
/// to the socket without a copy.
#[derive(Debug, Clone)]
pub struct Response {
    segments: Vec<Bytes>,
    len: usize,
    background: Option<Arc<dyn Pace>>,
}

/// When a response may be sent that yields to others.
pub trait Pace: fmt::Debug + Send + Sync + 'static {
    /// Waits until `bytes` more may be sent, then counts them as sent. Dropping the future counts nothing.
    fn pass(&self, bytes: u64) -> BoxFuture<'_, ()>;
}

/// Responses are equal if their frames are.
impl PartialEq for Response {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for Response {}

/// Why a message cannot be written. A defect of whoever built the message, never of the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field is set that this version does not have, or a string is too long.
    #[error("{api_key:?} version {version} cannot encode this message: {reason}")]
    Field {
        /// The API.
        api_key: ApiKey,
        /// The version.
        version: i16,
        /// What the codec says.
        reason: String,
    },
    /// A frame's length is a signed 32-bit number.
    #[error("a message of {0} bytes exceeds the maximum frame size")]
    TooLarge(usize),
}

impl Response {
    /// Joins segments that already form a frame, length prefix included.
    #[must_use]
    pub fn from_segments(segments: Vec<Bytes>) -> Self {
        let len = segments.iter().map(Bytes::len).sum();
        Self {
            segments,
            len,
            background: None,
        }
    }

    /// The same response, which is sent with what processor time others leave, and at this pace.
    #[must_use]
    pub fn in_background(self, pace: Arc<dyn Pace>) -> Self {
        Self {
            background: Some(pace),
            ..self
        }
    }

    /// The pace at which it is sent in the background, if it is.
    #[must_use]
    pub const fn background(&self) -> Option<&Arc<dyn Pace>> {
        self.background.as_ref()
    }

    /// The frame's bytes, length prefix included.
    #[must_use]
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// The frame's bytes, to be sent in order.
    #[must_use]
    pub fn into_segments(self) -> Vec<Bytes> {
        self.segments
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
}

/// Bytes of a frame's length prefix, which does not count itself.
pub(crate) const LENGTH_BYTES: usize = 4;
/// Room for a response header: correlation id and an empty list of tagged fields.
const HEADER_BYTES_MAX: usize = 5;

/// Starts a frame: room for the length, then the response header.
pub(crate) fn begin_frame(
    api_key: ApiKey,
    version: i16,
    correlation_id: i32,
    capacity: usize,
) -> BytesMut {
    let mut out = BytesMut::with_capacity(LENGTH_BYTES + HEADER_BYTES_MAX + capacity);
    out.put_bytes(0, LENGTH_BYTES);
    out.put_i32(correlation_id);
    // Header version 0, which ApiVersions keeps in all versions, has no tagged fields.
    if api_key.response_header_version(version) >= 1 {
        out.put_u8(0);
    }
    out
}

/// What goes into the length prefix of a frame of `len` bytes, prefix included.
pub(crate) fn length_prefix(len: usize) -> Result<[u8; LENGTH_BYTES], EncodeError> {
    let length = i32::try_from(len - LENGTH_BYTES).map_err(|_| EncodeError::TooLarge(len))?;
    Ok(length.to_be_bytes())
}

/// Writes a message as a frame.
///
/// # Errors
/// The message has a field that its version does not have, or does not fit into a frame.
pub fn encode<M: Encodable + HeaderVersion>(
    api_key: ApiKey,
    version: i16,
    correlation_id: i32,
    message: &M,
) -> Result<Response, EncodeError> {
    debug_assert_eq!(
        M::header_version(version),
        api_key.response_header_version(version),
        "the message is not the answer to {api_key:?}"
    );
    let field = |error: &dyn std::fmt::Display| EncodeError::Field {
        api_key,
        version,
        reason: error.to_string(),
    };
    let written = codec_version(api_key, version);
    let size = message
        .compute_size(written)
        .map_err(|error| field(&error))?;
    let mut out = begin_frame(api_key, version, correlation_id, size);
    message
        .encode(&mut out, written)
        .map_err(|error| field(&error))?;
    let length = length_prefix(out.len())?;
    out[..LENGTH_BYTES].copy_from_slice(&length);
    Ok(Response::from_segments(vec![out.freeze()]))
}

/// The answer to ApiVersions in a version that is not served: version 0 of the answer, so that any
/// client can read it, with `UNSUPPORTED_VERSION` and the versions that are (KIP-511).
///
/// # Errors
/// As [`encode`]; never in practice.
pub fn encode_unsupported_api_versions(correlation_id: i32) -> Result<Response, EncodeError> {
    let message = ApiVersionsResponse::default()
        .with_error_code(ErrorCode::UnsupportedVersion.code())
        .with_api_keys(advertised_versions());
    encode(ApiKey::ApiVersions, 0, correlation_id, &message)
}

/// A frame of these bytes alone: what answers a SASL token after a handshake of version 0, which has no
/// header (KIP-43).
///
/// # Errors
/// [`EncodeError::TooLarge`].
pub fn encode_bare(bytes: &[u8]) -> Result<Response, EncodeError> {
    let mut out = BytesMut::with_capacity(LENGTH_BYTES + bytes.len());
    out.put_slice(&length_prefix(LENGTH_BYTES + bytes.len())?);
    out.put_slice(bytes);
    Ok(Response::from_segments(vec![out.freeze()]))
}

#[cfg(test)]
mod tests {
    use bytes::Buf;
    use kafka_protocol::{
        messages::{FetchResponse, HeartbeatResponse, ResponseHeader},
        protocol::Decodable,
    };

    use super::*;

    fn split_frame(response: &Response) -> (i32, Bytes) {
        let mut bytes = Bytes::from(response.segments().concat());
        assert_eq!(bytes.len(), response.len());
        (bytes.get_i32(), bytes)
    }

    #[test]
    fn the_length_prefix_does_not_count_itself() {
        let message = HeartbeatResponse::default().with_error_code(25);
        for version in 0..=4 {
            let response = encode(ApiKey::Heartbeat, version, 7, &message).expect("encodable");
            let (length, mut rest) = split_frame(&response);
            assert_eq!(length as usize, rest.len());
            let header_version = ApiKey::Heartbeat.response_header_version(version);
            let header = ResponseHeader::decode(&mut rest, header_version).expect("a header");
            assert_eq!(header.correlation_id, 7);
            let decoded = HeartbeatResponse::decode(&mut rest, version).expect("a body");
            assert_eq!((decoded, rest.remaining()), (message.clone(), 0));
        }
    }

    #[test]
    fn a_bare_frame_is_its_length_and_its_bytes() {
        let bare = encode_bare(b"token").expect("small");
        assert_eq!(bare.segments().concat(), b"\0\0\0\x05token");
    }

    #[test]
    fn api_versions_keeps_the_old_header_in_all_versions() {
        for version in 0..=4 {
            let message = ApiVersionsResponse::default().with_api_keys(advertised_versions());
            let response = encode(ApiKey::ApiVersions, version, 9, &message).expect("encodable");
            let (_, mut rest) = split_frame(&response);
            assert_eq!(rest.get_i32(), 9);
            let decoded = ApiVersionsResponse::decode(&mut rest, version).expect("no tags before");
            assert_eq!(decoded.api_keys, message.api_keys);
        }
    }

    #[test]
    fn an_unknown_version_of_api_versions_is_answered_as_version_0() {
        let (_, mut rest) = split_frame(&encode_unsupported_api_versions(3).expect("encodable"));
        assert_eq!(rest.get_i32(), 3);
        let decoded = ApiVersionsResponse::decode(&mut rest, 0).expect("version 0");
        assert_eq!(decoded.error_code, 35);
        assert_eq!(decoded.api_keys, advertised_versions());
    }

    #[test]
    fn a_field_that_the_version_lacks_is_an_error() {
        let message = FetchResponse::default().with_session_id(7);
        assert!(encode(ApiKey::Fetch, 7, 1, &message).is_ok());
        let error = encode(ApiKey::Fetch, 6, 1, &message).expect_err("no sessions yet");
        assert!(matches!(error, EncodeError::Field { version: 6, .. }));
    }
}
