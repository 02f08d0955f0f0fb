//! Ids, offsets, epochs, byte sizes, named limits, the checksum and the classes of failures. Knows nothing of anything else.
//!
//! Every id is a newtype, so that a stream's number cannot be passed where an object's is meant;
//! every bound that more than one crate obeys stands in [`limits`], with its reason.

mod crc32c;
mod failure;
mod ids;
pub mod limits;
mod range;
mod topic;

pub use crc32c::{COMBINE_BYTES_MIN, crc32c, crc32c_append, crc32c_combine};
pub use failure::{Cause, Classified, FailureClass};
pub use ids::{NodeEpoch, NodeId, ObjectId, StreamEpoch, StreamId, TopicId};
pub use range::StreamRange;
pub use topic::{InvalidTopicName, TopicName, TopicPartition};

/// An offset in a stream or a partition, counted in records. The first is 0. Kafka writes it as a
/// signed 64-bit number; inside the broker it is never negative.
pub type Offset = u64;

/// A count of bytes.
pub type Bytes64 = u64;
