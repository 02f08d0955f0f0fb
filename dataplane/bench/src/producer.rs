//! A Kafka client for benchmarks and drills: one connection, blocking calls, little CPU.
//!
//! - `connection`: requests and answers, Produce pipelined
//! - `template`: batches that are made once and stamped anew for each request
//! - `frame`: Produce requests as slices around record bytes that are not copied
//!
//! It is no general client: it speaks to one broker, which leads everything, and never retries by
//! itself, so that whoever uses it sees each answer.

mod answer;
mod connection;
mod frame;
mod template;

pub use answer::{PartitionAnswer, ProduceAnswer};
pub(crate) use connection::{
    ANSWER_BYTES_MAX, FETCH_VERSION_MAX, answer_of, frame_of, refuse, topic_name,
};
pub use connection::{ClientError, Connection, Fetched};
pub use frame::{PRODUCE_VERSION, ProduceFrame};
pub use template::{BatchTemplate, ProducerIdentity, Stamp};

/// Kafka's error codes, by name.
pub use millrace_wire::error_code;
