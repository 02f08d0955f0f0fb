//! Consumer groups and what they have committed.

use std::collections::BTreeMap;

use millrace_wire::messages::{
    DeleteGroupsRequest, ListGroupsRequest, OffsetDeleteRequest,
    offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
};

use super::{Admin, Results, group_id};
use crate::{
    error::{BrokerError, RequestError},
    group_offsets::{self, CommittedOffset, Member},
    topic_partition::{TopicPartition, by_topic, topic_name},
};

/// A group of a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct GroupListing {
    /// The group's id.
    pub id: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// For example `Stable` or `Empty`; empty where the broker does not tell it.
    pub state: String,
    /// `classic` or `consumer` (KIP-848); empty where the broker does not tell it.
    pub kind: String,
}

/// What a group has committed, by partition.
pub type Offsets = BTreeMap<TopicPartition, CommittedOffset>;

impl Admin {
    /// All groups that the client may see. Each broker knows those that it coordinates.
    ///
    /// # Errors
    /// A broker could not answer.
    pub async fn list_groups(&self) -> Result<Vec<GroupListing>, RequestError> {
        let mut listed = Vec::new();
        for broker in self.describe_cluster().await?.brokers {
            let groups = self.retried(|| async {
                let make = |_| ListGroupsRequest::default();
                let response = self.client.call_node(broker.id, i16::MAX, make).await?;
                BrokerError::check(response.error_code, None)?;
                Ok(response.groups)
            });
            listed.extend(groups.await?.into_iter().map(|group| GroupListing {
                id: group.group_id.to_string(),
                protocol_type: group.protocol_type.to_string(),
                state: group.group_state.to_string(),
                kind: group.group_type.to_string(),
            }));
        }
        listed.sort();
        listed.dedup();
        Ok(listed)
    }

    /// Deletes a group without members, and what it has committed.
    ///
    /// # Errors
    /// The coordinator could not answer, or refused: `NON_EMPTY_GROUP`, `GROUP_ID_NOT_FOUND`.
    pub async fn delete_group(&self, group: &str) -> Result<(), RequestError> {
        let deleted = self.at_coordinator(group, |node| async move {
            let make = |_| DeleteGroupsRequest::default().with_groups_names(vec![group_id(group)]);
            let response = self.client.call_node(node, i16::MAX, make).await?;
            for result in response.results {
                BrokerError::check(result.error_code, None)?;
            }
            Ok(())
        });
        deleted.await
    }

    /// Everything that a group has committed.
    ///
    /// # Errors
    /// The coordinator could not answer, or refused.
    pub async fn group_offsets(&self, group: &str) -> Result<Offsets, RequestError> {
        let fetched = self.at_coordinator(group, |node| async move {
            let id = group_id(group);
            let make = |version| group_offsets::fetch_request(version, &id, None, false);
            let newest = group_offsets::NEWEST;
            let answer = self.client.call_node(node, newest, make).await?;
            let mut offsets = Offsets::new();
            for (name, committed) in group_offsets::fetched(&answer)? {
                if let Some(committed) = committed.map_err(BrokerError::from)? {
                    offsets.insert(name, committed);
                }
            }
            Ok(offsets)
        });
        fetched.await
    }

    /// Sets what a group without members has committed; other partitions stay as they are.
    ///
    /// # Errors
    /// The coordinator could not answer.
    pub async fn alter_group_offsets(
        &self,
        group: &str,
        offsets: &Offsets,
    ) -> Result<Results<TopicPartition, ()>, RequestError> {
        let id = group_id(group);
        let make = |version| group_offsets::commit_request(version, &id, &Member::NONE, offsets);
        let committed = self.at_coordinator(group, |node| async move {
            let answer = self
                .client
                .call_node(node, group_offsets::NEWEST, make)
                .await?;
            let mut results = Results::new();
            for topic in &answer.topics {
                for partition in &topic.partitions {
                    let place = TopicPartition::new(&topic.name, partition.partition_index);
                    results.insert(place, BrokerError::check(partition.error_code, None));
                }
            }
            super::whole(results)
        });
        committed.await
    }

    /// Forgets what a group has committed for partitions of topics that it does not subscribe to.
    ///
    /// # Errors
    /// The coordinator could not answer, or refused.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<Results<TopicPartition, ()>, RequestError> {
        let topics = by_topic(partitions.iter().map(|name| (name, name.partition)));
        let partition =
            |index: &i32| OffsetDeleteRequestPartition::default().with_partition_index(*index);
        let topic = |(name, indexes): (&&str, &Vec<i32>)| {
            OffsetDeleteRequestTopic::default()
                .with_name(topic_name(name))
                .with_partitions(indexes.iter().map(partition).collect())
        };
        let topics: Vec<_> = topics.iter().map(topic).collect();
        let deleted = self.at_coordinator(group, |node| {
            let topics = topics.clone();
            async move {
                let make = |_| {
                    OffsetDeleteRequest::default()
                        .with_group_id(group_id(group))
                        .with_topics(topics.clone())
                };
                let answer = self.client.call_node(node, i16::MAX, make).await?;
                BrokerError::check(answer.error_code, None)?;
                let mut results = Results::new();
                for topic in &answer.topics {
                    for partition in &topic.partitions {
                        let place = TopicPartition::new(&topic.name, partition.partition_index);
                        results.insert(place, BrokerError::check(partition.error_code, None));
                    }
                }
                Ok(results)
            }
        });
        deleted.await
    }
}
