//! How large partitions are.

use std::collections::BTreeMap;

use millrace_wire::messages::{
    DescribeLogDirsRequest, describe_log_dirs_request::DescribableLogDirTopic,
};

use super::{Admin, Results};
use crate::{
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::{TopicPartition, by_topic, topic_name},
};

impl Admin {
    /// The sizes of partitions at their leaders, in bytes.
    ///
    /// # Errors
    /// No leader could answer. Where only some could not, their partitions have errors.
    pub async fn partition_sizes(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<Results<TopicPartition, u64>, RequestError> {
        let wanted = partitions.into_iter().map(|partition| (partition, ()));
        self.at_leaders(wanted.collect(), |node, part| self.sizes_at(node, part))
            .await
    }

    async fn sizes_at(
        &self,
        node: i32,
        wanted: BTreeMap<TopicPartition, ()>,
    ) -> Result<Results<TopicPartition, u64>, RequestError> {
        let topics = by_topic(wanted.keys().map(|name| (name, name.partition)));
        let topic = |(name, partitions): (&&str, &Vec<i32>)| {
            DescribableLogDirTopic::default()
                .with_topic(topic_name(name))
                .with_partitions(partitions.clone())
        };
        let response = self
            .client
            .call_node::<DescribeLogDirsRequest>(node, i16::MAX, |_| {
                let topics = topics.iter().map(topic).collect();
                DescribeLogDirsRequest::default().with_topics(Some(topics))
            })
            .await?;
        BrokerError::check(response.error_code, None)?;
        // What a broker does not lead is left out of its answer.
        let moved = |partition| (partition, Err(ErrorCode::NOT_LEADER_OR_FOLLOWER.into()));
        let mut results: Results<TopicPartition, u64> = wanted.into_keys().map(moved).collect();
        for dir in &response.results {
            let error = BrokerError::check(dir.error_code, None);
            for topic in &dir.topics {
                for partition in &topic.partitions {
                    let name = TopicPartition::new(&topic.name, partition.partition_index);
                    let size = u64::try_from(partition.partition_size).unwrap_or(0);
                    results.insert(name, error.clone().map(|()| size));
                }
            }
        }
        Ok(results)
    }
}
