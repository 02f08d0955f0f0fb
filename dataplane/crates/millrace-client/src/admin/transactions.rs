//! What brokers ask each other about transactions.

use millrace_wire::{
    messages::{
        AddPartitionsToTxnRequest, ProducerId, TransactionalId, WriteTxnMarkersRequest,
        add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction},
        write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic},
    },
    with_transaction_version,
};

use super::{Admin, Results, text};
use crate::{
    error::{BrokerError, RequestError},
    throttle::Call,
    topic_partition::{TopicPartition, by_topic, topic_name},
};

/// The end of a producer's transaction, to be written to partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionMarker {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Grows with every change of the transaction coordinator's leader.
    pub coordinator_epoch: i32,
    /// Whether the transaction was committed, not aborted.
    pub committed: bool,
    /// The version of the transaction protocol, which Millrace's brokers alone understand.
    pub transaction_version: i16,
}

/// A producer that has a transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionProducer<'a> {
    /// Its transactional id.
    pub transactional_id: &'a str,
    /// Its producer id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
}

impl Admin {
    /// Has a node write a marker to partitions that it leads: one result per partition. Not retried. Needs the right
    /// `ClusterAction`.
    ///
    /// # Errors
    /// The node did not answer.
    pub async fn write_transaction_marker(
        &self,
        node: i32,
        marker: TransactionMarker,
        partitions: &[TopicPartition],
    ) -> Result<Results<TopicPartition, ()>, RequestError> {
        let topics = by_topic(partitions.iter().map(|name| (name, name.partition)));
        let topic = |(name, partitions): (&&str, &Vec<i32>)| {
            WritableTxnMarkerTopic::default()
                .with_name(topic_name(name))
                .with_partition_indexes(partitions.clone())
        };
        let written = WritableTxnMarker::default()
            .with_producer_id(ProducerId(marker.producer_id))
            .with_producer_epoch(marker.producer_epoch)
            .with_coordinator_epoch(marker.coordinator_epoch)
            .with_transaction_result(marker.committed)
            .with_topics(topics.iter().map(topic).collect());
        let written = with_transaction_version(written, marker.transaction_version);
        let make = |_| WriteTxnMarkersRequest::default().with_markers(vec![written]);
        let response = self.ask_peer(node, make).await?;
        let mut results = Results::new();
        for topic in response.markers.iter().flat_map(|marker| &marker.topics) {
            for partition in &topic.partitions {
                let place = TopicPartition::new(&topic.name, partition.partition_index);
                results.insert(place, BrokerError::check(partition.error_code, None));
            }
        }
        Ok(results)
    }

    /// Has a coordinator add partitions to a producer's transaction, or, if `verify_only`, check that they are in
    /// it: one result per partition. Not retried. Needs the right `ClusterAction`.
    ///
    /// # Errors
    /// The node did not answer, or refused.
    pub async fn add_partitions_to_transaction(
        &self,
        node: i32,
        producer: TransactionProducer<'_>,
        verify_only: bool,
        partitions: &[TopicPartition],
    ) -> Result<Results<TopicPartition, ()>, RequestError> {
        let topics = by_topic(partitions.iter().map(|name| (name, name.partition)));
        let topic = |(name, partitions): (&&str, &Vec<i32>)| {
            AddPartitionsToTxnTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.clone())
        };
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(TransactionalId(text(producer.transactional_id)))
            .with_producer_id(ProducerId(producer.producer_id))
            .with_producer_epoch(producer.producer_epoch)
            .with_verify_only(verify_only)
            .with_topics(topics.iter().map(topic).collect());
        let make = |_| AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]);
        let response = self.ask_peer(node, make).await?;
        BrokerError::check(response.error_code, None)?;
        let mut results = Results::new();
        let transactions = response.results_by_transaction.iter();
        for topic in transactions.flat_map(|transaction| &transaction.topic_results) {
            for partition in &topic.results_by_partition {
                let place = TopicPartition::new(&topic.name, partition.partition_index);
                let error = partition.partition_error_code;
                results.insert(place, BrokerError::check(error, None));
            }
        }
        Ok(results)
    }

    /// One request to one node. One that cannot be reached may come back at another address, which is looked up for
    /// whoever tries again.
    pub(super) async fn ask_peer<M: Call>(
        &self,
        node: i32,
        make: impl FnOnce(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let answer = self.client.call_node(node, i16::MAX, make).await;
        if answer.is_err() {
            drop(self.client.refresh_topics(&[]).await);
        }
        answer
    }
}
