//! A Kafka consumer that costs little: one connection, one fetch under way, every batch checked.
//!
//! - `connection`: requests and answers
//! - `batches`: whether what was fetched is what follows, and whole
//!
//! It is no general client: it reads the partitions that it is told to from a broker that leads
//! them all. Of groups it knows single requests: it commits offsets, and sends the heartbeats that it is given.

mod batches;
mod connection;

pub use batches::{Taken, Unsound, check_crc, take};
pub use connection::{Consumer, FetchLimits, Position};
