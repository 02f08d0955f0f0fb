//! Partitions that move to other brokers (KIP-455), and elections of preferred leaders (KIP-460).

use std::{collections::BTreeMap, time::Duration};

use millrace_wire::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic},
    elect_leaders_request::TopicPartitions,
};

use super::{Admin, Results};
use crate::{
    error::{BrokerError, RequestError},
    topic_partition::{TopicPartition, by_topic, topic_name},
};

/// The preferred replica is to lead, as opposed to any that is there.
const PREFERRED: i8 = 0;

/// A partition's index, and the brokers that it is to move to; nothing cancels.
type Wanted<'a> = (i32, &'a Option<Vec<i32>>);

/// Where a partition is moving.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reassignment {
    /// The brokers that it moves to.
    pub adding: Vec<i32>,
    /// The brokers that it leaves.
    pub removing: Vec<i32>,
}

impl Admin {
    /// Has partitions move to these brokers; nothing in the place of brokers cancels a move. Returns once that is recorded:
    /// [`Admin::list_reassignments`] says which moves are still to be made.
    ///
    /// # Errors
    /// No broker could answer, or the client may not do it.
    pub async fn reassign_partitions(
        &self,
        wanted: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
    ) -> Result<Results<TopicPartition, ()>, RequestError> {
        let topics = by_topic(wanted.iter().map(|(name, to)| (name, (name.partition, to))));
        let topic = |(name, partitions): (&&str, &Vec<Wanted<'_>>)| {
            let partition = |(index, to): &Wanted<'_>| {
                let to = to.as_ref();
                let replicas = to.map(|to| to.iter().copied().map(BrokerId).collect());
                ReassignablePartition::default()
                    .with_partition_index(*index)
                    .with_replicas(replicas)
            };
            ReassignableTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.iter().map(partition).collect())
        };
        let response = self
            .client
            .call_controller::<AlterPartitionReassignmentsRequest>(i16::MAX, |_| {
                AlterPartitionReassignmentsRequest::default()
                    .with_topics(topics.iter().map(topic).collect())
            })
            .await?;
        BrokerError::check(response.error_code, response.error_message.as_deref())?;
        let mut results = Results::new();
        for topic in &response.responses {
            for partition in &topic.partitions {
                let message = partition.error_message.as_deref();
                let name = TopicPartition::new(&topic.name, partition.partition_index);
                results.insert(name, BrokerError::check(partition.error_code, message));
            }
        }
        Ok(results)
    }

    /// The partitions that are moving.
    ///
    /// # Errors
    /// No broker could answer, or the client may not see it.
    pub async fn list_reassignments(
        &self,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>, RequestError> {
        let response = self
            .client
            .call_any::<ListPartitionReassignmentsRequest>(i16::MAX, |_| {
                ListPartitionReassignmentsRequest::default().with_topics(None)
            })
            .await?;
        BrokerError::check(response.error_code, response.error_message.as_deref())?;
        let ids = |brokers: &[BrokerId]| brokers.iter().map(|broker| broker.0).collect();
        let mut moving = BTreeMap::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                let name = TopicPartition::new(&topic.name, partition.partition_index);
                let reassignment = Reassignment {
                    adding: ids(&partition.adding_replicas),
                    removing: ids(&partition.removing_replicas),
                };
                moving.insert(name, reassignment);
            }
        }
        Ok(moving)
    }

    /// Has partitions move back to their preferred leaders, and waits until they are there. `ELECTION_NOT_NEEDED` is the
    /// result of those that are there already.
    ///
    /// # Errors
    /// No broker could answer, or the client may not do it.
    pub async fn elect_preferred_leaders(
        &self,
        partitions: &[TopicPartition],
        wait: Duration,
    ) -> Result<Results<TopicPartition, ()>, RequestError> {
        let topics = by_topic(partitions.iter().map(|name| (name, name.partition)));
        let topic = |(name, partitions): (&&str, &Vec<i32>)| {
            TopicPartitions::default()
                .with_topic(topic_name(name))
                .with_partitions(partitions.clone())
        };
        let wait_ms = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        let response = self
            .client
            .call_controller::<ElectLeadersRequest>(i16::MAX, |_| {
                ElectLeadersRequest::default()
                    .with_election_type(PREFERRED)
                    .with_topic_partitions(Some(topics.iter().map(topic).collect()))
                    .with_timeout_ms(wait_ms)
            })
            .await?;
        BrokerError::check(response.error_code, None)?;
        let mut results = Results::new();
        for topic in &response.replica_election_results {
            for partition in &topic.partition_result {
                let message = partition.error_message.as_deref();
                let name = TopicPartition::new(&topic.topic, partition.partition_id);
                results.insert(name, BrokerError::check(partition.error_code, message));
            }
        }
        Ok(results)
    }
}
