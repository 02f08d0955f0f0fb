//! The Kafka protocol without I/O: frames, versions, codecs.
//!
//! This is the only crate that names Kafka's messages. A frame comes in as bytes without its
//! length prefix: [`parse_request`] reads the header, [`decode`] the body, [`split_produce`] a
//! Produce body together with its records as unique bytes. A [`Response`] is a
//! whole frame in segments: [`encode`] makes one from a message, [`encode_fetch`] and
//! [`encode_share_fetch`] ones whose records are not copied. [`service`] is the seam between the network and the handlers.
//! [`client`] is the other direction: requests are written, responses read.
//!
//! No frame can make this crate panic or allocate much more memory than the frame's own size: see
//! [`REQUEST_ELEMENTS_MAX`] and [`RESPONSE_ELEMENTS_MAX`].

mod api;
pub mod client;
pub mod error_code;
mod fetch;
mod frame_writer;
mod produce;
mod request;
mod response;
pub mod service;
mod shape;
mod share_fetch;
mod throttle;
mod topic_ids;
mod transaction_version;

pub use api::{ApiSupport, SUPPORTED, advertised_versions, codec_version, support_of};
pub use fetch::{
    AbortedTransaction, FetchAnswer, FetchEndpoint, FetchedPartition, FetchedTopic, encode_fetch,
};
pub use kafka_protocol::{
    messages::{self, ApiKey},
    protocol::{
        Decodable, Encodable, HeaderVersion, Message, Request as RequestMessage, StrBytes,
        VersionRange,
    },
};
pub use produce::split_produce;
pub use request::{MalformedRequest, Request, decode, parse_request};
pub use response::{
    EncodeError, Pace, Response, encode, encode_bare, encode_unsupported_api_versions,
};
pub use shape::{MalformedBody, REQUEST_ELEMENTS_MAX, RESPONSE_ELEMENTS_MAX};
pub use share_fetch::{
    AcquiredRange, ShareFetchAnswer, ShareFetchedPartition, ShareFetchedTopic, encode_share_fetch,
};
pub use transaction_version::{transaction_version_of, with_transaction_version};
