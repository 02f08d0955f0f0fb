//! Requests: header and body.
//!
//! ```text
//! header 1:  api key i16 | version i16 | correlation id i32 | client id (i16 length, -1: null)
//! header 2:  the same, then tagged fields
//! ```

use bytes::{Buf, Bytes};
use kafka_protocol::{
    messages::ApiKey,
    protocol::{self, StrBytes},
};

use crate::{
    api::{codec_version, support_of},
    shape::{self, MalformedBody, Reader},
    topic_ids,
};

/// One request: its header, and its body still as bytes.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is asked.
    pub api_key: ApiKey,
    /// In which version; one that is served.
    pub version: i16,
    /// What the answer must repeat.
    pub correlation_id: i32,
    /// The client's name for itself. Never a slice of the frame, so that it does not keep the
    /// frame's bytes shared.
    pub client_id: Option<StrBytes>,
    /// Size of the frame, all of which stays in memory for as long as a slice of the body does.
    pub frame_bytes: usize,
    /// What follows the header; shares the frame's bytes.
    pub body: Bytes,
}

/// Why a frame is not a request that can be served. Kafka closes the connection after any of
/// these, except that it answers ApiVersions of an unknown version
/// ([`crate::encode_unsupported_api_versions`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// The header is cut off or not UTF-8.
    #[error("the request header is malformed: {0}")]
    Header(MalformedBody),
    /// No served API has this key.
    #[error("API key {api_key} is not supported")]
    UnknownApi {
        /// The key.
        api_key: i16,
        /// What an answer would repeat.
        correlation_id: i32,
    },
    /// The API is served, but not in this version.
    #[error("version {version} of {api_key:?} is not supported")]
    UnsupportedVersion {
        /// The API.
        api_key: ApiKey,
        /// The version asked for.
        version: i16,
        /// What an answer would repeat.
        correlation_id: i32,
    },
    /// The body does not follow its version's schema.
    #[error("the body of {api_key:?} version {version} is malformed: {reason}")]
    Body {
        /// The API.
        api_key: ApiKey,
        /// The version.
        version: i16,
        /// What is wrong.
        reason: MalformedBody,
    },
}

/// Reads the header of a frame, whose length prefix is already gone.
///
/// # Errors
/// The header is malformed, or what it asks for is not served.
pub fn parse_request(mut frame: Bytes) -> Result<Request, MalformedRequest> {
    let frame_bytes = frame.len();
    let mut reader = Reader::new(&frame);
    let key = reader.i16().map_err(MalformedRequest::Header)?;
    let version = reader.i16().map_err(MalformedRequest::Header)?;
    let correlation_id = reader.i32().map_err(MalformedRequest::Header)?;
    let support = ApiKey::try_from(key).ok().and_then(support_of);
    let Some(support) = support else {
        return Err(MalformedRequest::UnknownApi {
            api_key: key,
            correlation_id,
        });
    };
    let api_key = support.api_key;
    if !(support.min..=support.max).contains(&version) {
        return Err(MalformedRequest::UnsupportedVersion {
            api_key,
            version,
            correlation_id,
        });
    }
    let client_id = reader.nullable_string().map_err(MalformedRequest::Header)?;
    let client_id = client_id.map(|id| StrBytes::from_string(String::from_utf8_lossy(id).into()));
    if api_key.request_header_version(version) >= 2 {
        reader
            .skip_tagged_fields()
            .map_err(MalformedRequest::Header)?;
    }
    let header_bytes = frame.len() - reader.remaining();
    frame.advance(header_bytes);
    Ok(Request {
        api_key,
        version,
        correlation_id,
        client_id,
        frame_bytes,
        body: frame,
    })
}

/// Reads the body of a request as its message. Bytes after the message are ignored, as Kafka
/// does. Strings and byte fields of the message share the request's bytes.
///
/// OffsetCommit and OffsetFetch from version 10 on name topics by id, which the codec's messages have no field for: the
/// id's text stands in the place of the name.
///
/// # Errors
/// [`MalformedRequest::Body`].
pub fn decode<M: protocol::Request>(request: &Request) -> Result<M, MalformedRequest> {
    let Request {
        api_key, version, ..
    } = *request;
    let malformed = |reason| MalformedRequest::Body {
        api_key,
        version,
        reason,
    };
    if M::KEY != api_key as i16 {
        return Err(malformed(MalformedBody::OtherApi));
    }
    let (written, mut body) = match topic_ids::rewritten_version(api_key, version) {
        Some(older) => {
            let rewritten = topic_ids::rewrite(api_key, version, &request.body);
            (older, rewritten.map_err(malformed)?)
        }
        None => {
            shape::check(api_key, version, &request.body).map_err(malformed)?;
            (codec_version(api_key, version), request.body.clone())
        }
    };
    M::decode(&mut body, written).map_err(|_| malformed(MalformedBody::Schema))
}

#[cfg(test)]
mod tests;
