//! Kafka's error codes by name.

pub use kafka_protocol::error::ResponseError as ErrorCode;

/// The code that says there is no error.
pub const NONE: i16 = 0;
