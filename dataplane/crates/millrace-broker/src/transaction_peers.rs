//! How transactions reach the other brokers of the cluster: by the broker's own client, through the listener that brokers
//! have for each other.

use std::sync::OnceLock;

use millrace_api::{PartitionResults, TransactionPeers, TransactionProducer, all_refused};
use millrace_client::{
    Admin, BoxFuture, Client, ErrorCode as ClientCode, RequestError, TopicPartition as Place,
    admin::{Results, TransactionMarker as Marker, TransactionProducer as Producer},
};
use millrace_log::TransactionMarker;
use millrace_model::{NodeId, TopicPartition};
use millrace_wire::error_code::ErrorCode;

/// The other brokers. They can be asked once this broker serves, because only then it has a client.
#[derive(Debug, Default)]
pub(crate) struct OtherBrokers(OnceLock<Client>);

impl OtherBrokers {
    /// Asks with this client from now on.
    pub(crate) fn ask_with(&self, client: Client) {
        // Called once, by the start.
        drop(self.0.set(client));
    }

    fn admin(&self) -> Option<Admin> {
        self.0.get().map(Admin::new)
    }
}

impl TransactionPeers for OtherBrokers {
    fn write_marker(
        &self,
        leader: NodeId,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, PartitionResults> {
        Box::pin(async move {
            let node = i32::try_from(leader.get()).unwrap_or(i32::MAX);
            let Some(admin) = self.admin() else {
                return all_refused(partitions, ErrorCode::NotLeaderOrFollower);
            };
            let written = Marker {
                producer_id: marker.producer_id,
                producer_epoch: marker.producer_epoch,
                coordinator_epoch: marker.coordinator_epoch,
                committed: marker.committed,
                transaction_version: marker.transaction_version,
            };
            let places: Vec<Place> = partitions.iter().map(place).collect();
            let results = admin.write_transaction_marker(node, written, &places).await;
            by_partition(partitions, results)
        })
    }

    fn add_partitions(
        &self,
        coordinator: NodeId,
        producer: TransactionProducer,
        verify_only: bool,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, PartitionResults> {
        Box::pin(async move {
            let node = i32::try_from(coordinator.get()).unwrap_or(i32::MAX);
            let Some(admin) = self.admin() else {
                return all_refused(partitions, ErrorCode::CoordinatorNotAvailable);
            };
            let places: Vec<Place> = partitions.iter().map(place).collect();
            let producer = Producer {
                transactional_id: &producer.transactional_id,
                producer_id: producer.producer_id,
                producer_epoch: producer.producer_epoch,
            };
            let adding = admin.add_partitions_to_transaction(node, producer, verify_only, &places);
            let results = adding.await;
            by_partition(partitions, results)
        })
    }
}

fn place(partition: &TopicPartition) -> Place {
    let index = i32::try_from(partition.partition).unwrap_or(i32::MAX);
    Place::new(partition.topic.as_str(), index)
}

/// One result per partition; those that nobody answered for count as not reached.
fn by_partition(
    partitions: Vec<TopicPartition>,
    results: Result<Results<Place, ()>, RequestError>,
) -> PartitionResults {
    let results = match results {
        Ok(results) => results,
        Err(error) => {
            tracing::debug!(%error, "another broker did not answer for a transaction");
            return all_refused(
                partitions,
                error.code().map_or(ErrorCode::NetworkException, known),
            );
        }
    };
    let result = |partition: TopicPartition| {
        let result = match results.get(&place(&partition)) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(known(error.code)),
            None => Err(ErrorCode::NetworkException),
        };
        (partition, result)
    };
    partitions.into_iter().map(result).collect()
}

fn known(code: ClientCode) -> ErrorCode {
    ErrorCode::try_from_code(code.code()).unwrap_or(ErrorCode::UnknownServerError)
}
