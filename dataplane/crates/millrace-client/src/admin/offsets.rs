//! Offsets for times, and the deletion of records.

use std::collections::BTreeMap;

use millrace_wire::messages::{
    BrokerId, DeleteRecordsRequest, ListOffsetsRequest,
    delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
};

use super::{Admin, Results};
use crate::{
    error::{BrokerError, RequestError},
    topic_partition::{TopicPartition, by_topic, topic_name},
};

/// A client, not a replica.
const NO_REPLICA: i32 = -1;

/// Values by partition.
pub type PartitionOffsets = BTreeMap<TopicPartition, i64>;

/// Which offset of a partition is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetSpec {
    /// The first record that is still there.
    Earliest,
    /// The one after the last record.
    Latest,
    /// The first record with this or a later timestamp, in milliseconds since 1970.
    Timestamp(i64),
    /// The record with the largest timestamp (Kafka 3.0 and later).
    MaxTimestamp,
}

impl OffsetSpec {
    fn code(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::Timestamp(ms) => ms,
        }
    }
}

/// The answer to an [`OffsetSpec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedOffset {
    /// The offset; none where no record has the timestamp.
    pub offset: Option<i64>,
    /// The record's timestamp, where the question was about one.
    pub timestamp_ms: Option<i64>,
    /// The epoch of the leader that appended the record, where the broker tells it.
    pub leader_epoch: Option<i32>,
}

impl Admin {
    /// Offsets by position or time.
    ///
    /// # Errors
    /// No leader could answer. Where only some could not, their partitions have errors.
    pub async fn list_offsets(
        &self,
        wanted: BTreeMap<TopicPartition, OffsetSpec>,
    ) -> Result<Results<TopicPartition, ListedOffset>, RequestError> {
        self.at_leaders(wanted, |node, part| self.list_at(node, part))
            .await
    }

    async fn list_at(
        &self,
        node: i32,
        wanted: BTreeMap<TopicPartition, OffsetSpec>,
    ) -> Result<Results<TopicPartition, ListedOffset>, RequestError> {
        let topics = by_topic(
            wanted
                .iter()
                .map(|(name, spec)| (name, (name.partition, spec))),
        );
        let topic = |(name, partitions): (&&str, &Vec<(i32, &OffsetSpec)>)| {
            let partition = |(index, spec): &(i32, &OffsetSpec)| {
                ListOffsetsPartition::default()
                    .with_partition_index(*index)
                    .with_timestamp(spec.code())
            };
            ListOffsetsTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.iter().map(partition).collect())
        };
        let response = self
            .client
            .call_node::<ListOffsetsRequest>(node, i16::MAX, |_| {
                ListOffsetsRequest::default()
                    .with_replica_id(BrokerId(NO_REPLICA))
                    .with_topics(topics.iter().map(topic).collect())
            })
            .await?;
        let mut results = Results::new();
        for topic in &response.topics {
            for answer in &topic.partitions {
                let known = |number: i64| Some(number).filter(|number| *number >= 0);
                let listed = ListedOffset {
                    offset: known(answer.offset),
                    timestamp_ms: known(answer.timestamp),
                    leader_epoch: Some(answer.leader_epoch).filter(|epoch| *epoch >= 0),
                };
                let result = BrokerError::check(answer.error_code, None).map(|()| listed);
                let partition = TopicPartition::new(&topic.name, answer.partition_index);
                results.insert(partition, result);
            }
        }
        Ok(results)
    }

    /// Deletes all records before these offsets, or all records where the offset is -1; the first
    /// offsets that are left.
    ///
    /// # Errors
    /// No leader could answer. Where only some could not, their partitions have errors.
    pub async fn delete_records(
        &self,
        before: PartitionOffsets,
    ) -> Result<Results<TopicPartition, i64>, RequestError> {
        self.at_leaders(before, |node, part| self.delete_at(node, part))
            .await
    }

    async fn delete_at(
        &self,
        node: i32,
        before: PartitionOffsets,
    ) -> Result<Results<TopicPartition, i64>, RequestError> {
        let topics = by_topic(
            before
                .iter()
                .map(|(name, offset)| (name, (name.partition, *offset))),
        );
        let topic = |(name, partitions): (&&str, &Vec<(i32, i64)>)| {
            let partition = |(index, offset): &(i32, i64)| {
                DeleteRecordsPartition::default()
                    .with_partition_index(*index)
                    .with_offset(*offset)
            };
            DeleteRecordsTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.iter().map(partition).collect())
        };
        let response = self
            .client
            .call_node::<DeleteRecordsRequest>(node, i16::MAX, |_| {
                DeleteRecordsRequest::default()
                    .with_topics(topics.iter().map(topic).collect())
                    .with_timeout_ms(self.timeout_ms())
            })
            .await?;
        let mut results = Results::new();
        for topic in &response.topics {
            for answer in &topic.partitions {
                let checked = BrokerError::check(answer.error_code, None);
                let partition = TopicPartition::new(&topic.name, answer.partition_index);
                results.insert(partition, checked.map(|()| answer.low_watermark));
            }
        }
        Ok(results)
    }
}
