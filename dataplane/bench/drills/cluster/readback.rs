//! Reads every partition from its beginning.

use std::time::Duration;

use millrace_client::{Client, Consumer, ConsumerConfig, TopicPartition, consumer::StartAt};
use tokio::time::timeout;

use crate::{
    clients::{Promises, TOPIC},
    history::{Counters, check},
};

/// Longer than reading everything takes.
const READ_WAIT: Duration = Duration::from_secs(300);

/// Compares what is there with what was promised.
pub(crate) async fn audit(client: &Client, promises: &Promises) -> Result<(Counters, u64), String> {
    let mut counters = Counters {
        failed: promises.failed,
        offsets_back: promises.offsets_back,
        ..Counters::default()
    };
    let reading = read_all(client, promises.acknowledged.len());
    let found = timeout(READ_WAIT, reading).await;
    let found =
        found.map_err(|_| format!("not everything could be read within {READ_WAIT:?}"))??;
    for (acknowledged, found) in promises.acknowledged.iter().zip(&found) {
        check(acknowledged, found, &mut counters);
    }
    let records = found.iter().map(Vec::len).sum::<usize>();
    Ok((counters, records as u64))
}

async fn read_all(client: &Client, partitions: usize) -> Result<Vec<Vec<u64>>, String> {
    let failed = |error: millrace_client::consumer::ConsumerError| format!("reading: {error}");
    let names: Vec<TopicPartition> = (0..partitions)
        .map(|partition| TopicPartition::new(TOPIC, i32::try_from(partition).unwrap_or(i32::MAX)))
        .collect();
    let consumer = Consumer::new(client, ConsumerConfig::default());
    let ends = consumer.end_offsets(&names).await.map_err(failed)?;
    consumer
        .assign(names.iter().cloned(), StartAt::Beginning)
        .map_err(failed)?;
    let mut left: i64 = ends.values().sum();
    let mut found = vec![Vec::new(); partitions];
    while left > 0 {
        let record = consumer.next().await.map_err(failed)?;
        left -= 1;
        let number = record.value.as_deref().map(String::from_utf8_lossy);
        let number = number.and_then(|number| number.parse().ok());
        let place = usize::try_from(record.partition).ok();
        let place = place.and_then(|partition| found.get_mut(partition));
        match (place, number) {
            (Some(numbers), Some(number)) => numbers.push(number),
            _ => return Err(format!("a record that nobody sent: {record:?}")),
        }
    }
    Ok(found)
}
