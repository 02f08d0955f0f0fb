#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! | module | what it holds |
//! |---|---|
//! | `config` | what all parts share: where the cluster is, how long to wait, how much to hold |
//! | `transport`, `authenticate` | the seams to the network: connectors (TLS goes here), SASL |
//! | `connection` | one connection: versions, pipelining, deadlines, throttling |
//! | `client` | metadata, connections by broker and lane, requests to nodes, controller, coordinators |
//! | `producer` | records to batches to requests |
//! | `consumer` | fetches, buffers, streams, groups |
//! | `admin` | topics, configurations, groups, offsets |
//! | `group_offsets` | what groups have committed |
//! | `metrics` | what the client counts |
//!
//! `millrace-wire` has the messages and `millrace-record` the batches; no type of theirs is part of
//! this crate's public face, except [`Compression`].

mod admin;
mod authenticate;
mod backoff;
mod client;
mod config;
mod connection;
mod consumer;
mod error;
mod group_offsets;
mod metrics;
mod producer;
mod throttle;
mod topic_partition;
mod transport;

pub use admin::{
    Admin, ClusterDescription, ConfigChange, ConfigEntry, ConfigResource, ConfigSource,
    GroupDescription, GroupListing, GroupMember, ListedOffset, NewTopic, OffsetSpec, Offsets,
    PartitionOffsets, Results, TopicListing,
};
pub use authenticate::{Authenticate, SaslExchange};
pub use client::{Broker, Client, Metadata, PartitionMetadata, TopicMetadata};
pub use config::ClientConfig;
pub use consumer::{
    Assignor, AutoCommit, Consumer, ConsumerConfig, ConsumerError, ConsumerMetrics, ConsumerRecord,
    GroupProtocol, IsolationLevel, NoListener, OffsetAndTimestamp, OffsetReset, PartitionStream,
    RebalanceListener, RecordBatch, RecordHeader, RecordRef, RecordStream, StartAt,
};
pub use error::{BrokerError, ErrorCode, RequestError};
pub use group_offsets::CommittedOffset;
pub use metrics::{MetricsSnapshot, RequestMetrics};
pub use millrace_record::Compression;
pub use producer::{
    Acks, Delivery, DeliveryError, InvalidProducerConfig, Partitioner, Partitioning, Producer,
    ProducerConfig, ProducerMetrics, ProducerRecord, RecordMetadata, SendError, TopicView, murmur2,
    partition_for_key,
};
pub use topic_partition::TopicPartition;
pub use transport::{BoxFuture, BrokerAddress, Connector, InvalidAddress, TcpConnector, Transport};
