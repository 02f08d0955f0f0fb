//! A Kafka consumer that costs little: one connection, one fetch under way, every batch checked.
//!
//! - `connection`: requests and answers
//! - `batches`: whether what was fetched is what follows, and whole
//!
//! It is no general client: it reads the partitions that it is told to from a broker that leads
//! them all, and is a member of no group, though it may commit offsets for one.

mod batches;
mod connection;

pub use batches::{Taken, Unsound, check_crc, take};
pub use connection::{Consumer, FetchLimits, Position};
