//! Ends of transactions, written to the partitions that took part.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::{join, join_all};
use millrace_coordinator::{BoxFuture, GroupCoordinator, MarkerOutcome, MarkerWriter};
use millrace_log::{CONSUMER_OFFSETS_TOPIC, LogManager, TransactionMarker, error::AppendError};
use millrace_model::{NodeId, TopicPartition};
use millrace_wire::error_code::ErrorCode;

use super::{PartitionResults, TransactionPeers, all_refused, replaced};
use crate::{code, topics};

/// How long this broker may take to find out whether partitions that it does not know are gone, or new.
const CATCH_UP_WAIT: Duration = Duration::from_secs(3);

/// Writes the markers of the transaction coordinator: to this broker's partitions itself, to those of others through
/// their leaders.
#[derive(Debug)]
pub struct Markers {
    logs: LogManager,
    groups: GroupCoordinator,
    peers: Arc<dyn TransactionPeers>,
}

impl Markers {
    /// A writer of markers.
    #[must_use]
    pub fn new(
        logs: LogManager,
        groups: GroupCoordinator,
        peers: Arc<dyn TransactionPeers>,
    ) -> Self {
        Self {
            logs,
            groups,
            peers,
        }
    }

    async fn write_everywhere(
        &self,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> PartitionResults {
        let is_here = |partition: &TopicPartition| {
            let topic = self.logs.topic(&partition.topic);
            let index = usize::try_from(partition.partition).unwrap_or(usize::MAX);
            topic.is_some_and(|topic| topic.log(index).is_some())
        };
        let (here, elsewhere): (Vec<_>, Vec<_>) = partitions.into_iter().partition(is_here);
        let mut by_leader: BTreeMap<Option<NodeId>, Vec<TopicPartition>> = BTreeMap::new();
        for partition in elsewhere {
            let leader = self.leader(&partition);
            by_leader.entry(leader).or_default().push(partition);
        }
        let of_peers = by_leader.into_iter().map(|(leader, led)| async move {
            match leader {
                Some(leader) => self.write_at(leader, marker, led).await,
                None => all_refused(led, ErrorCode::NotLeaderOrFollower),
            }
        });
        let of_peers = join_all(of_peers);
        let of_this = write_markers(&self.logs, &self.groups, marker, here);
        let (mut results, others) = join(of_this, of_peers).await;
        results.extend(others.into_iter().flatten());
        results
    }

    /// Has a broker write a marker, for as long as it leads any of these partitions.
    async fn write_at(
        &self,
        leader: NodeId,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> PartitionResults {
        let is_led = |partition| self.leader(partition) == Some(leader);
        let is_replaced = || !partitions.iter().any(is_led);
        tokio::select! {
            results = self.peers.write_marker(leader, marker, partitions.clone()) => results,
            () = replaced(is_replaced) => {
                all_refused(partitions.clone(), ErrorCode::NotLeaderOrFollower)
            },
        }
    }

    /// The node that leads a partition, as this broker knows it.
    fn leader(&self, partition: &TopicPartition) -> Option<NodeId> {
        let topic = self.logs.topic(&partition.topic)?;
        let index = usize::try_from(partition.partition).ok()?;
        topic.partitions.get(index)?.leader()?.node
    }

    /// What is not there any more needs no marker. A deletion is known here before its partition refuses anything, but
    /// what another broker has created may not be known here yet.
    async fn of_unknown(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Vec<(TopicPartition, MarkerOutcome)> {
        let knows_all = partitions.is_empty() || self.logs.catch_up(CATCH_UP_WAIT).await;
        let outcome = |partition: TopicPartition| {
            let is_gone = knows_all && !self.logs.exists(&partition);
            let outcome = match is_gone {
                true => MarkerOutcome::Gone,
                false => MarkerOutcome::Retry,
            };
            (partition, outcome)
        };
        partitions.into_iter().map(outcome).collect()
    }
}

impl MarkerWriter for Markers {
    fn write(
        &self,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, Vec<(TopicPartition, MarkerOutcome)>> {
        Box::pin(async move {
            let (there, unknown): (Vec<_>, Vec<_>) = partitions
                .into_iter()
                .partition(|partition| self.logs.exists(partition));
            let written = self.write_everywhere(marker, there);
            let (results, mut outcomes) = join(written, self.of_unknown(unknown)).await;
            outcomes.extend(results.into_iter().map(|(partition, result)| {
                let outcome = outcome_of(result);
                tracing::debug!(%partition, ?marker, ?result, "transaction marker");
                (partition, outcome)
            }));
            outcomes
        })
    }
}

fn outcome_of(result: Result<(), ErrorCode>) -> MarkerOutcome {
    match result {
        // A newer epoch of the producer has ended the transaction there.
        Ok(()) | Err(ErrorCode::InvalidProducerEpoch) => MarkerOutcome::Done,
        Err(ErrorCode::TransactionCoordinatorFenced) => MarkerOutcome::Fenced,
        Err(_) => MarkerOutcome::Retry,
    }
}

/// Writes a marker to partitions that this broker leads; each result comes when it is durable and, for offsets of
/// groups, in effect.
pub(crate) async fn write_markers(
    logs: &LogManager,
    groups: &GroupCoordinator,
    marker: TransactionMarker,
    partitions: Vec<TopicPartition>,
) -> PartitionResults {
    let written = partitions.into_iter().map(|partition| async move {
        let result = write(logs, groups, marker, &partition).await;
        (partition, result)
    });
    join_all(written).await
}

async fn write(
    logs: &LogManager,
    groups: &GroupCoordinator,
    marker: TransactionMarker,
    partition: &TopicPartition,
) -> Result<(), ErrorCode> {
    let topic = logs.topic(&partition.topic);
    let topic = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let index = i32::try_from(partition.partition);
    let index = index.map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
    let log = topics::partition(&topic, index)?;
    if partition.topic.as_str() == CONSUMER_OFFSETS_TOPIC {
        let written = groups.write_marker(partition.partition, marker).await;
        return written.map_err(|error| match code::of_group(&error) {
            // The sender asks by partition, not by group.
            ErrorCode::NotCoordinator => ErrorCode::NotLeaderOrFollower,
            code => code,
        });
    }
    let of_append = |error: AppendError| code::of_append(&error);
    let ticket = log.append_marker(marker).await.map_err(of_append)?;
    ticket.await.map(drop).map_err(of_append)
}
