//! Offsets that brokers know: the first, the last, by time, by epoch.

use std::{collections::HashMap, time::Duration};

use millrace_wire::messages::{
    BrokerId, ListOffsetsRequest, OffsetForLeaderEpochRequest,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
};

use super::{
    config::{IsolationLevel, OffsetReset},
    flow::{Lookup, Question},
};
use crate::{
    client::{Client, Retry},
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::{TopicPartition, topic_name},
};

/// ListOffsets' name for the first offset.
pub(super) const EARLIEST: i64 = -2;
/// ListOffsets' name for the end.
pub(super) const LATEST: i64 = -1;
/// The first version with an isolation level.
const ISOLATION_FROM: i16 = 2;
/// The first version with leader epochs.
const EPOCH_FROM: i16 = 4;
/// The newest version that a consumer needs: later ones know more names for offsets.
const LIST_NEWEST: i16 = 7;
/// The first version of OffsetForLeaderEpoch that consumers may use.
const EPOCH_END_REPLICA_FROM: i16 = 3;
/// Who asks: a consumer, not a replica.
const CONSUMER: BrokerId = BrokerId(-1);

/// An offset and the epoch of its record, or why there is none.
pub(super) type Found = Result<Option<(i64, Option<i32>)>, ErrorCode>;

/// An offset that is found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// The record's timestamp, in milliseconds since 1970; none for the end of the log.
    pub timestamp_ms: Option<i64>,
    /// The epoch of the leader that appended the record, where it is known.
    pub leader_epoch: Option<i32>,
}

/// Asks one node for the answers to questions of one kind: offsets or ends of epochs.
pub(super) async fn look_up(
    client: &Client,
    node: i32,
    isolation: IsolationLevel,
    lookups: &[Lookup],
) -> Result<Vec<Found>, RequestError> {
    let now_ms = client.config().clock.wall_ms();
    let time = |question| match question {
        Question::Reset(OffsetReset::Earliest) => EARLIEST,
        Question::Reset(OffsetReset::ByDuration(age)) => {
            now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
        }
        Question::Timestamp(timestamp) => timestamp,
        _ => LATEST,
    };
    let is_epoch = |lookup: &&Lookup| matches!(lookup.question, Question::EpochEnd(_));
    let epochs: Vec<_> = lookups.iter().filter(is_epoch).collect();
    let mut ends = HashMap::new();
    if !epochs.is_empty() {
        ends = epoch_ends(client, node, &epochs).await?;
    }
    let times: Vec<_> = lookups
        .iter()
        .filter(|lookup| !is_epoch(lookup))
        .map(|lookup| (&lookup.name, time(lookup.question), lookup.leader.epoch))
        .collect();
    let mut offsets = HashMap::new();
    if !times.is_empty() {
        offsets = list(client, node, isolation, &times).await?;
    }
    Ok(lookups
        .iter()
        .map(|lookup| {
            let silent = Err(ErrorCode::UNKNOWN_SERVER_ERROR);
            if is_epoch(&lookup) {
                return ends.get(&lookup.name).copied().unwrap_or(silent);
            }
            let found = offsets.get(&lookup.name).copied().unwrap_or(silent_time());
            found.map(|found| found.map(|found| (found.offset, found.leader_epoch)))
        })
        .collect())
}

fn silent_time() -> Result<Option<OffsetAndTimestamp>, ErrorCode> {
    Err(ErrorCode::UNKNOWN_SERVER_ERROR)
}

/// A partition, the time to look for, and the leader's epoch.
type Asked<'a> = (&'a TopicPartition, i64, Option<i32>);

type Times = HashMap<TopicPartition, Result<Option<OffsetAndTimestamp>, ErrorCode>>;

/// One ListOffsets request. Each partition has the time to look for and its leader's epoch.
async fn list(
    client: &Client,
    node: i32,
    isolation: IsolationLevel,
    asked: &[Asked<'_>],
) -> Result<Times, RequestError> {
    let make = |version| {
        let mut topics: Vec<ListOffsetsTopic> = Vec::new();
        for (name, timestamp, epoch) in asked {
            let partition = ListOffsetsPartition::default()
                .with_partition_index(name.partition)
                .with_timestamp(*timestamp);
            let partition = if version >= EPOCH_FROM {
                partition.with_current_leader_epoch(epoch.unwrap_or(-1))
            } else {
                partition
            };
            match topics.iter_mut().find(|topic| *topic.name.0 == *name.topic) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(
                    ListOffsetsTopic::default()
                        .with_name(topic_name(&name.topic))
                        .with_partitions(vec![partition]),
                ),
            }
        }
        let request = ListOffsetsRequest::default()
            .with_replica_id(CONSUMER)
            .with_topics(topics);
        if version >= ISOLATION_FROM {
            request.with_isolation_level(isolation.code())
        } else {
            request
        }
    };
    let response = client
        .call_node::<ListOffsetsRequest>(node, LIST_NEWEST, make)
        .await?;
    let mut found = HashMap::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            let name = TopicPartition::new(topic.name.as_str(), partition.partition_index);
            let known = |number: i64| (number >= 0).then_some(number);
            let offset = known(partition.offset).map(|offset| OffsetAndTimestamp {
                offset,
                timestamp_ms: known(partition.timestamp),
                leader_epoch: (partition.leader_epoch >= 0).then_some(partition.leader_epoch),
            });
            let outcome = ErrorCode::from_code(partition.error_code).map_or(Ok(offset), Err);
            found.insert(name, outcome);
        }
    }
    Ok(found)
}

async fn epoch_ends(
    client: &Client,
    node: i32,
    lookups: &[&Lookup],
) -> Result<HashMap<TopicPartition, Found>, RequestError> {
    let make = |version| {
        let mut topics: Vec<OffsetForLeaderTopic> = Vec::new();
        for lookup in lookups {
            let Question::EpochEnd(epoch) = lookup.question else {
                continue;
            };
            let partition = OffsetForLeaderPartition::default()
                .with_partition(lookup.name.partition)
                .with_current_leader_epoch(lookup.leader.epoch.unwrap_or(-1))
                .with_leader_epoch(epoch);
            let known = topics
                .iter_mut()
                .find(|topic| *topic.topic.0 == *lookup.name.topic);
            match known {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(
                    OffsetForLeaderTopic::default()
                        .with_topic(topic_name(&lookup.name.topic))
                        .with_partitions(vec![partition]),
                ),
            }
        }
        let request = OffsetForLeaderEpochRequest::default().with_topics(topics);
        if version >= EPOCH_END_REPLICA_FROM {
            request.with_replica_id(CONSUMER)
        } else {
            request
        }
    };
    let response = client
        .call_node::<OffsetForLeaderEpochRequest>(node, i16::MAX, make)
        .await?;
    let mut found = HashMap::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            let name = TopicPartition::new(topic.topic.as_str(), partition.partition);
            let end = (partition.end_offset >= 0 && partition.leader_epoch >= 0)
                .then_some((partition.end_offset, Some(partition.leader_epoch)));
            let outcome = ErrorCode::from_code(partition.error_code).map_or(Ok(end), Err);
            found.insert(name, outcome);
        }
    }
    Ok(found)
}

/// The offsets at these times, from the partitions' leaders; retried within `timeout`.
pub(super) async fn offsets_at(
    client: &Client,
    isolation: IsolationLevel,
    asked: &[(TopicPartition, i64)],
    timeout: Duration,
) -> Result<HashMap<TopicPartition, Option<OffsetAndTimestamp>>, RequestError> {
    let mut retry = Retry::new(client, timeout);
    let mut found = HashMap::new();
    loop {
        let missing = asked.iter().filter(|(name, _)| !found.contains_key(name));
        let missing: Vec<_> = missing.collect();
        if missing.is_empty() {
            return Ok(found);
        }
        match offsets_once(client, isolation, &missing, &mut found).await {
            Ok(()) => {}
            Err(error) => {
                client.request_refresh();
                retry.after(error).await?;
            }
        }
    }
}

async fn offsets_once(
    client: &Client,
    isolation: IsolationLevel,
    asked: &[&(TopicPartition, i64)],
    found: &mut HashMap<TopicPartition, Option<OffsetAndTimestamp>>,
) -> Result<(), RequestError> {
    let mut by_node: HashMap<i32, Vec<Asked<'_>>> = HashMap::new();
    for (name, timestamp) in asked {
        let topic = client.topic(&name.topic).await?;
        let index = usize::try_from(name.partition).unwrap_or(usize::MAX);
        let partition = topic
            .partitions
            .get(index)
            .ok_or_else(|| BrokerError::from(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
        let leader = partition
            .leader
            .ok_or_else(|| BrokerError::from(ErrorCode::LEADER_NOT_AVAILABLE))?;
        let part = (name, *timestamp, partition.leader_epoch);
        by_node.entry(leader).or_default().push(part);
    }
    let requests = by_node
        .iter()
        .map(|(node, parts)| list(client, *node, isolation, parts));
    let mut failed = None;
    for answer in futures_util::future::join_all(requests).await {
        match answer {
            Err(error) => failed = Some(error),
            Ok(answers) => {
                for (name, outcome) in answers {
                    match outcome {
                        Ok(offset) => drop(found.insert(name, offset)),
                        Err(code) => failed = Some(BrokerError::from(code).into()),
                    }
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
