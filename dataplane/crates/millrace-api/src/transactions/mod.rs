//! Transactions (KIP-98, KIP-890): what handlers need of the coordinator, here or at another broker.
//!
//! - this file: the seam to other brokers
//! - `produce`: transactional records of Produce requests
//! - `markers`: ends of transactions are written to the partitions that took part
//! - `verification`: before a partition takes a producer's first transactional records, the coordinator says that it
//!   is part of the transaction

mod markers;
mod produce;
mod verification;

use std::{fmt, sync::Arc, time::Duration};

use millrace_coordinator::partition_of;
use millrace_log::{TRANSACTION_STATE_TOPIC, TransactionMarker};
use millrace_model::{NodeId, TopicName, TopicPartition};
use millrace_wire::{error_code::ErrorCode, messages::BrokerId, service::BoxFuture};

pub use self::markers::Markers;
pub(crate) use self::{
    markers::write_markers,
    produce::{Candidate, verify},
    verification::{Joining, join},
};
use crate::context::Context;

/// A producer that has a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionProducer {
    /// Its transactional id.
    pub transactional_id: String,
    /// Its producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
}

/// Results by partition.
pub type PartitionResults = Vec<(TopicPartition, Result<(), ErrorCode>)>;

/// The same error for all partitions.
#[must_use]
pub fn all_refused(partitions: Vec<TopicPartition>, code: ErrorCode) -> PartitionResults {
    let refused = partitions.into_iter();
    refused.map(|partition| (partition, Err(code))).collect()
}

/// The other brokers of the cluster, as transactions need them.
pub trait TransactionPeers: fmt::Debug + Send + Sync {
    /// Has the leader of these partitions write a marker to them. Not retried. One result per partition;
    /// `NETWORK_EXCEPTION` for those that got no answer.
    fn write_marker(
        &self,
        leader: NodeId,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, PartitionResults>;

    /// Has the coordinator at this broker add partitions to the producer's transaction, or, if `verify_only`,
    /// check that they are in it. One result per partition; `NETWORK_EXCEPTION` for those that got no answer.
    fn add_partitions(
        &self,
        coordinator: NodeId,
        producer: TransactionProducer,
        verify_only: bool,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, PartitionResults>;
}

/// How often it is checked that a broker that has not answered is still the one to ask.
const STILL_THERE_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until the broker that was asked is no longer the one to ask. One that hangs answers nothing before the request
/// times out, long after others have taken over what it led.
pub(crate) async fn replaced(is_replaced: impl Fn() -> bool) {
    while !is_replaced() {
        tokio::time::sleep(STILL_THERE_INTERVAL).await;
    }
}

/// No other brokers: this one leads everything.
#[derive(Debug)]
pub struct NoPeers;

impl TransactionPeers for NoPeers {
    fn write_marker(
        &self,
        _leader: NodeId,
        _marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, PartitionResults> {
        let refused = all_refused(partitions, ErrorCode::NotLeaderOrFollower);
        Box::pin(async { refused })
    }

    fn add_partitions(
        &self,
        _coordinator: NodeId,
        _producer: TransactionProducer,
        _verify_only: bool,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, PartitionResults> {
        let refused = all_refused(partitions, ErrorCode::NotCoordinator);
        Box::pin(async { refused })
    }
}

impl Context {
    /// The broker that coordinates the transactions of an id; `None` where nobody does now.
    pub(crate) fn transaction_coordinator(&self, transactional_id: &str) -> Option<BrokerId> {
        self.coordinator_of(TRANSACTION_STATE_TOPIC, |partitions| {
            partition_of(transactional_id, partitions)
        })
    }

    /// The leader of a partition of an internal topic: of the one that `which` gives, of so many.
    pub(crate) fn coordinator_of(
        &self,
        topic: &str,
        which: impl FnOnce(usize) -> usize,
    ) -> Option<BrokerId> {
        let name = TopicName::new(topic).expect("Kafka's own names are legal");
        let topic: Arc<_> = self.logs.topic(&name)?;
        let partitions = &topic.partitions;
        let partition = partitions.get(which(partitions.len()))?;
        let (leader, _) = self.leader_of(partition)?;
        Some(leader)
    }
}
