#![doc = include_str!("../README.md")]
//!
//! # Modules
//!
//! What most programs need is here; the rest is in the module of its subject.
//!
//! | module | what it has |
//! |---|---|
//! | [`producer`] | settings and outcomes of a [`Producer`], partitioners |
//! | [`consumer`] | settings of a [`Consumer`], streams, batches, rebalances |
//! | [`admin`] | topics, configurations, groups, offsets, as an [`Admin`] sees them |
//! | [`metadata`] | brokers, topics and leaders, as a [`Client`] knows them |
//! | [`transport`] | the seams: how connections are opened and authenticated |
//! | [`security`] | TLS, SASL PLAIN and SCRAM behind these seams |
//! | [`metrics`] | what a client counts |
//! | [`time`] | the clock and the randomness of [`ClientConfig`] |

// Private parts:
//
// - `config`: what all parts share: where the cluster is, how long to wait, how much to hold
// - `connection`: one connection: versions, pipelining, deadlines, throttling
// - `client`: metadata, connections by broker and lane, requests to nodes, controller, coordinators
// - `group_offsets`: what groups have committed
//
// `millrace-wire` has the messages and `millrace-record` the batches. No type of theirs is part of the
// public face, except `Compression`.

pub mod admin;
mod authenticate;
mod backoff;
mod client;
mod config;
mod connection;
pub mod consumer;
mod error;
mod group_offsets;
pub mod metrics;
pub mod producer;
pub mod security;
mod throttle;
mod topic_partition;
pub mod transport;

pub mod metadata {
    //! The cluster as a [`Client`](crate::Client) knows it: brokers, topics, leaders.

    pub use crate::client::{Broker, Metadata, PartitionMetadata, TopicMetadata};
}

pub mod time {
    //! The clock and the randomness of a client, which tests replace.

    pub use millrace_time::{Clock, Random, SharedClock, SharedRandom, SystemClock, SystemRandom};
}

pub use admin::Admin;
pub use client::Client;
pub use config::ClientConfig;
pub use consumer::{Consumer, ConsumerConfig, ConsumerError, ConsumerRecord};
pub use error::{BrokerError, ErrorCode, RequestError};
pub use millrace_model::TopicId;
pub use millrace_record::Compression;
pub use producer::{Producer, ProducerConfig, ProducerRecord};
pub use topic_partition::TopicPartition;
pub use transport::BoxFuture;
