//! Every partition of a topic, from its beginning.

use std::{collections::BTreeMap, time::Duration};

use millrace_client::{
    Client, Consumer, ConsumerConfig, TopicPartition,
    consumer::{ConsumerError, RecordBatch, StartAt},
};
use tokio::time::timeout;

use crate::drill::{Place, pattern};

/// Without a record for so long, there is none.
const SILENCE: Duration = Duration::from_secs(30);

/// A record as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its offset.
    pub offset: i64,
    /// Which record it is; none where it is not one that a producer of this seed has written.
    pub place: Option<Place>,
}

/// Reads every partition from its beginning to its end with a new consumer.
///
/// # Errors
/// A partition cannot be read, or not to its end.
pub async fn read_all(
    client: &Client,
    (topic, partitions): (&str, i32),
    seed: u64,
) -> Result<BTreeMap<i32, Vec<Found>>, String> {
    let failed = |error: ConsumerError| format!("reading everything: {error}");
    let names: Vec<TopicPartition> = (0..partitions)
        .map(|partition| TopicPartition::new(topic, partition))
        .collect();
    let consumer = Consumer::new(client, ConsumerConfig::default());
    let ends = consumer.end_offsets(&names).await.map_err(failed)?;
    consumer
        .assign(names.iter().cloned(), StartAt::Beginning)
        .map_err(failed)?;
    let mut found: BTreeMap<i32, Vec<Found>> = BTreeMap::new();
    let mut left: BTreeMap<i32, i64> = ends
        .iter()
        .filter(|&(_, &end)| end > 0)
        .map(|(name, &end)| (name.partition, end))
        .collect();
    while !left.is_empty() {
        let batch = timeout(SILENCE, consumer.next_batch()).await;
        let batch = batch.map_err(|_| format!("partitions cannot be read to their ends: {left:?}"));
        let batch = batch?.map_err(failed)?;
        let (partition, next) = (batch.topic_partition().partition, batch.next_offset());
        take(batch, found.entry(partition).or_default(), seed)?;
        if left.get(&partition).is_some_and(|&end| next >= end) {
            left.remove(&partition);
        }
    }
    consumer.close().await.map_err(failed)?;
    Ok(found)
}

/// Adds the records of a batch.
pub(super) fn take(
    mut batch: RecordBatch,
    found: &mut Vec<Found>,
    seed: u64,
) -> Result<(), String> {
    let name = batch.topic_partition().clone();
    while let Some(record) = batch.next_ref() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        found.push(Found {
            offset: record.offset,
            place: record.value.and_then(|value| pattern::read(seed, value)),
        });
    }
    Ok(())
}
