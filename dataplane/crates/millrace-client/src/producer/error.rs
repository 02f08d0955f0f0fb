//! Why a record was not accepted, or not stored.

use std::time::Duration;

use crate::error::{BrokerError, RequestError};

/// Why [`Producer::send`](crate::Producer::send) did not accept a record.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nothing is known of the topic within `max_block`.
    #[error("the topic's metadata is not available: {0}")]
    Metadata(#[source] RequestError),
    /// The topic has no such partition.
    #[error("{topic} has {partitions} partitions, but the record is for partition {partition}")]
    InvalidPartition {
        /// The topic.
        topic: String,
        /// The record's partition.
        partition: i32,
        /// How many there are.
        partitions: usize,
    },
    /// The record is larger than a request or the memory may be.
    #[error("the record has {bytes} bytes in a batch; the maximum is {max}, see {setting}")]
    TooLarge {
        /// The record's size in a batch of its own.
        bytes: usize,
        /// The bound.
        max: usize,
        /// The setting that gives the bound.
        setting: &'static str,
    },
    /// Memory was full for all of `max_block`: brokers take less than is sent.
    #[error("no room in buffer_memory within {0:?}")]
    NoMemory(Duration),
    /// `try_send` only: `send` would wait for metadata or memory.
    #[error("the record cannot be accepted without waiting")]
    WouldBlock,
    /// The producer has been closed.
    #[error("the producer is closed")]
    Closed,
    /// The producer cannot go on; make another one.
    #[error("the producer has failed: {0}")]
    Failed(#[source] DeliveryError),
}

/// Why a record that was accepted is not stored, as far as the producer knows.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// The broker refused the record's batch, and a retry cannot help.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// The broker refused this very record.
    #[error("the broker refused the record: {0}")]
    InvalidRecord(BrokerError),
    /// It could not be stored within `delivery_timeout`. It may be stored nevertheless if it had
    /// been sent.
    #[error("not stored within {after:?}{}", .last.as_ref().map_or_else(String::new, |last| format!("; the last attempt: {last}")))]
    TimedOut {
        /// `delivery_timeout`.
        after: Duration,
        /// Why the last attempt failed, if there was one.
        last: Option<RequestError>,
    },
    /// The request failed in a way that a retry cannot repair.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The producer was closed before the record was stored. It may be stored nevertheless.
    #[error("the producer was closed before the record was stored")]
    Closed,
}
