//! Consumer groups and what they have committed.

use std::collections::BTreeMap;

use millrace_wire::messages::{
    DeleteGroupsRequest, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, OffsetFetchResponse,
    offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
    offset_fetch_request::OffsetFetchRequestGroup,
};

use super::{Admin, Results, by_topic, group_id, text};
use crate::{
    error::{BrokerError, RequestError},
    topic_partition::TopicPartition,
};

/// Since this version OffsetFetch asks for several groups at once.
const FETCH_GROUPS_FROM: i16 = 8;
/// The newest version that names topics by name.
const OFFSETS_BY_NAME: i16 = 9;
/// A commit from outside the group.
const NO_GENERATION: i32 = -1;

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

/// What a group has committed for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommittedOffset {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The epoch of the leader that appended the record before it.
    pub leader_epoch: Option<i32>,
    /// Text that the member added.
    pub metadata: String,
}

impl CommittedOffset {
    /// An offset alone.
    #[must_use]
    pub fn new(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: None,
            metadata: String::new(),
        }
    }
}

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
            let make = |version| {
                if version >= FETCH_GROUPS_FROM {
                    let asked = OffsetFetchRequestGroup::default()
                        .with_group_id(group_id(group))
                        .with_topics(None);
                    OffsetFetchRequest::default().with_groups(vec![asked])
                } else {
                    OffsetFetchRequest::default()
                        .with_group_id(group_id(group))
                        .with_topics(None)
                }
            };
            let answer = self.client.call_node(node, OFFSETS_BY_NAME, make).await?;
            committed(&answer)
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
        let topics = by_topic(offsets);
        let topic = |(name, partitions): (&_, &Vec<(i32, CommittedOffset)>)| {
            let partition = |(index, committed): &(i32, CommittedOffset)| {
                let epoch = committed.leader_epoch.unwrap_or(-1);
                (*index, committed.offset, epoch, text(&committed.metadata))
            };
            let partitions: Vec<_> = partitions.iter().map(partition).collect();
            (Clone::clone(name), partitions)
        };
        let topics: Vec<_> = topics.iter().map(topic).collect();
        let make = |version| {
            let topic = |(name, partitions): &(_, Vec<(i32, i64, i32, _)>)| {
                let partitions = partitions.iter().map(|(index, offset, epoch, metadata)| {
                    let partition = OffsetCommitRequestPartition::default()
                        .with_partition_index(*index)
                        .with_committed_offset(*offset)
                        .with_committed_metadata(Some(Clone::clone(metadata)));
                    if version >= 6 {
                        partition.with_committed_leader_epoch(*epoch)
                    } else {
                        partition
                    }
                });
                OffsetCommitRequestTopic::default()
                    .with_name(Clone::clone(name))
                    .with_partitions(partitions.collect())
            };
            OffsetCommitRequest::default()
                .with_group_id(group_id(group))
                .with_generation_id_or_member_epoch(NO_GENERATION)
                .with_topics(topics.iter().map(topic).collect())
        };
        let committed = self.at_coordinator(group, |node| async move {
            let answer = self.client.call_node(node, OFFSETS_BY_NAME, make).await?;
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
        let wanted = partitions.iter().map(|partition| (partition.clone(), ()));
        let topics = by_topic(&wanted.collect());
        let topic = |(name, partitions): (&_, &Vec<(i32, ())>)| {
            let partition = |(index, ()): &(i32, ())| {
                OffsetDeleteRequestPartition::default().with_partition_index(*index)
            };
            OffsetDeleteRequestTopic::default()
                .with_name(Clone::clone(name))
                .with_partitions(partitions.iter().map(partition).collect())
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

fn committed(answer: &OffsetFetchResponse) -> Result<Offsets, RequestError> {
    let mut offsets = Offsets::new();
    let mut insert = |topic: &str, index, offset, epoch, metadata: Option<&str>, code| {
        BrokerError::check(code, None)?;
        if offset >= 0 {
            let committed = CommittedOffset {
                offset,
                leader_epoch: Some(epoch).filter(|epoch| *epoch >= 0),
                metadata: metadata.unwrap_or_default().to_owned(),
            };
            offsets.insert(TopicPartition::new(topic, index), committed);
        }
        Ok::<_, BrokerError>(())
    };
    BrokerError::check(answer.error_code, None)?;
    for topic in &answer.topics {
        for one in &topic.partitions {
            let (offset, epoch) = (one.committed_offset, one.committed_leader_epoch);
            let metadata = one.metadata.as_deref();
            insert(
                &topic.name,
                one.partition_index,
                offset,
                epoch,
                metadata,
                one.error_code,
            )?;
        }
    }
    for group in &answer.groups {
        BrokerError::check(group.error_code, None)?;
        for topic in &group.topics {
            for one in &topic.partitions {
                let (offset, epoch) = (one.committed_offset, one.committed_leader_epoch);
                let metadata = one.metadata.as_deref();
                insert(
                    &topic.name,
                    one.partition_index,
                    offset,
                    epoch,
                    metadata,
                    one.error_code,
                )?;
            }
        }
    }
    Ok(offsets)
}
