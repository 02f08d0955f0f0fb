//! The partitions of one request: where each stands.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use millrace_client::{
    Admin, Client, Consumer, ErrorCode, RequestError, TopicPartition, consumer::StartAt,
};
use serde::Serialize;

use crate::{
    cursor::Cursor,
    error::RecordsError,
    limits::PARTITIONS_MAX,
    query::{Selection, Start, too_many_partitions},
    record::Decimal,
};

/// A topic that exists.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    /// 0 where it is not known.
    pub(crate) id: u128,
    pub(crate) is_internal: bool,
    partitions: i32,
}

/// One partition of a request.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) name: TopicPartition,
    pub(crate) earliest: i64,
    /// Where the partition ended when the request came.
    pub(crate) end: i64,
    /// The offset to go on at.
    pub(crate) next: i64,
}

/// By partition.
pub(crate) type Lanes = BTreeMap<i32, Lane>;

/// A partition in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct PartitionStatus {
    partition: i32,
    earliest_offset: Decimal,
    end_offset: Decimal,
    next_offset: Decimal,
}

impl Lane {
    pub(crate) fn status(&self) -> PartitionStatus {
        PartitionStatus {
            partition: self.name.partition,
            earliest_offset: Decimal(self.earliest),
            end_offset: Decimal(self.end),
            next_offset: Decimal(self.next),
        }
    }
}

impl Topic {
    /// Asks the cluster.
    pub(crate) async fn find(client: &Client, name: &str) -> Result<Self, RecordsError> {
        let mut described = Admin::new(client).describe_topics(&[name]).await?;
        let topic = match described.remove(name) {
            Some(Ok(topic)) => topic,
            Some(Err(error)) if error.code == ErrorCode::INVALID_TOPIC => {
                return Err(RequestError::from(error).into());
            }
            _ => {
                return Err(RecordsError::not_found(format!(
                    "there is no topic {name:?}"
                )));
            }
        };
        Ok(Self {
            name: Arc::clone(&topic.name),
            id: topic.id.map_or(0, |id| id.0.as_u128()),
            is_internal: topic.is_internal,
            partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        })
    }

    /// Whether the cluster has lost the topic since, as far as the client knows.
    pub(crate) fn is_gone(&self, client: &Client) -> bool {
        let metadata = client.metadata();
        metadata.topic(&self.name).is_some_and(|now| {
            let id = now.id.map_or(self.id, |id| id.0.as_u128());
            now.error == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) || id != self.id
        })
    }

    /// The partitions that are asked for, each where it starts.
    pub(crate) async fn lanes(
        &self,
        consumer: &Consumer,
        selection: &Selection,
    ) -> Result<Lanes, RecordsError> {
        let names = self.named(selection)?;
        let earliest = consumer.beginning_offsets(&names).await?;
        let ends = consumer.end_offsets(&names).await?;
        let mut lanes = Lanes::new();
        for name in names {
            let offset = |offsets: &HashMap<TopicPartition, i64>| {
                offsets.get(&name).copied().unwrap_or_default()
            };
            let (earliest, end) = (offset(&earliest), offset(&ends));
            let lane = Lane {
                earliest,
                end,
                next: end,
                name: name.clone(),
            };
            lanes.insert(name.partition, lane);
        }
        self.place(consumer, selection, &mut lanes).await?;
        Ok(lanes)
    }

    fn named(&self, selection: &Selection) -> Result<Vec<TopicPartition>, RecordsError> {
        let numbers = match (&selection.start, &selection.partitions) {
            (Start::Cursor(cursor), named) => {
                self.check(cursor, named.as_deref())?;
                match cursor.all_partitions {
                    true => (0..self.partitions).collect(),
                    false => cursor.offsets.keys().copied().collect(),
                }
            }
            (_, Some(named)) => named.clone(),
            (_, None) => (0..self.partitions).collect::<Vec<_>>(),
        };
        if numbers.len() > PARTITIONS_MAX {
            return Err(too_many_partitions());
        }
        if let Some(unknown) = numbers.iter().find(|number| **number >= self.partitions) {
            let (topic, count) = (&self.name, self.partitions);
            return Err(RecordsError::not_found(format!(
                "{topic} has {count} partitions, from 0 on, and none with number {unknown}"
            )));
        }
        let name = |number| TopicPartition::from((Arc::clone(&self.name), number));
        Ok(numbers.into_iter().map(name).collect())
    }

    fn check(&self, cursor: &Cursor, named: Option<&[i32]>) -> Result<(), RecordsError> {
        if cursor.topic_id != self.id {
            return Err(RecordsError::invalid(
                "the cursor is of another topic, or of one that was deleted and created again; \
                 start without it",
            ));
        }
        let same = named.is_none_or(|named| named.iter().eq(cursor.offsets.keys()));
        if same {
            return Ok(());
        }
        Err(RecordsError::invalid(
            "the cursor is of other partitions; leave out partition=…, or start without the cursor",
        ))
    }

    /// Sets where each partition starts.
    async fn place(
        &self,
        consumer: &Consumer,
        selection: &Selection,
        lanes: &mut Lanes,
    ) -> Result<(), RecordsError> {
        match &selection.start {
            Start::Newest(_) | Start::Latest => {}
            Start::Earliest => lanes
                .values_mut()
                .for_each(|lane| lane.next = lane.earliest),
            Start::Offset(offset) => {
                for lane in lanes.values_mut() {
                    let (from, to) = (lane.earliest, lane.end);
                    if !(from..=to).contains(offset) {
                        let offsets = match to - from {
                            0 => String::from("is empty"),
                            _ => format!("has offsets {from} to {}", to - 1),
                        };
                        return Err(RecordsError::out_of_range(format!(
                            "offset {offset} does not exist: {} {offsets}",
                            lane.name
                        )));
                    }
                    lane.next = *offset;
                }
            }
            Start::Time(time) => {
                let asked: Vec<_> = lanes
                    .values()
                    .map(|lane| (lane.name.clone(), *time))
                    .collect();
                let found = consumer.offsets_for_times(&asked).await?;
                for lane in lanes.values_mut() {
                    // Without a record that is as new, at the end.
                    let found = found.get(&lane.name).copied().flatten();
                    lane.next = found.map_or(lane.end, |found| found.offset);
                }
            }
            Start::Cursor(cursor) => {
                for (number, lane) in lanes {
                    // A new partition has only records that came after the cursor.
                    let next = cursor.offsets.get(number).copied();
                    let next = next.unwrap_or(lane.earliest);
                    lane.next = next.max(lane.earliest).min(lane.end.max(lane.earliest));
                }
            }
        }
        Ok(())
    }

    /// Where to go on.
    pub(crate) fn cursor(&self, selection: &Selection, lanes: &Lanes) -> Cursor {
        let all_partitions = match &selection.start {
            Start::Cursor(cursor) => cursor.all_partitions,
            _ => selection.partitions.is_none(),
        };
        let next = |(number, lane): (&i32, &Lane)| (*number, lane.next);
        Cursor {
            topic_id: self.id,
            all_partitions,
            offsets: lanes.iter().map(next).collect(),
        }
    }
}

/// Lets a consumer read exactly these partitions, from where they stand.
pub(crate) fn assign<'a>(
    consumer: &Consumer,
    lanes: impl Iterator<Item = &'a Lane> + Clone,
) -> Result<(), RecordsError> {
    let names = lanes.clone().map(|lane| lane.name.clone());
    // Nothing is fetched before somebody reads, so the common offset is never used.
    consumer.assign(names, StartAt::Offset(0))?;
    for lane in lanes {
        consumer.seek(&lane.name, StartAt::Offset(lane.next))?;
        // An earlier scan may have left it.
        consumer.resume(std::slice::from_ref(&lane.name))?;
    }
    Ok(())
}
