//! A backlog is read by one demand-driven stream per partition; some have a slow stage behind them.
//! Nothing pauses or polls: a stage that works does not ask its stream.

use std::{error::Error, time::Duration};

use futures_util::{StreamExt, future::try_join_all};
use millrace_bench::usage::peak_memory_kib;
use millrace_client::{
    Client, Consumer, ConsumerConfig, ConsumerError, TopicPartition,
    consumer::{PartitionStream, StartAt},
};
use millrace_time::SystemClock;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A stream that brings nothing for so long has lost something.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Reads `records` records of each of `partitions` partitions. Behind the first `slow` ones a record
/// takes `slow_ms`.
pub(super) async fn stream(
    client: &Client,
    topic: &str,
    (partitions, records): (i32, u64),
    (slow, slow_ms): (i32, u64),
) -> Result<Value, Box<dyn Error>> {
    let config = ConsumerConfig::default();
    let bound = config.prefetch_bytes;
    let consumer = Consumer::new(client, config);
    let all = || (0..partitions).map(|index| TopicPartition::new(topic, index));
    consumer.assign(all(), StartAt::Beginning)?;
    let clock = SystemClock::shared();
    let mut stages = Vec::new();
    for (partition, index) in all().zip(0..) {
        let stream = consumer.partition_stream(&partition)?;
        let takes = (index < slow).then(|| Duration::from_millis(slow_ms));
        stages.push(tokio::spawn(stage(stream, records, takes)));
    }
    let mut bytes = 0;
    for stage in try_join_all(stages).await? {
        bytes += stage?;
    }
    let elapsed = clock.now();
    let fetches = client.metrics().requests.get("Fetch").cloned();
    let fetches = fetches.unwrap_or_default();
    let metrics = consumer.metrics();
    Ok(json!({
        "records": metrics.delivered_records,
        "bytes": bytes,
        "seconds": elapsed.as_secs_f64(),
        "fetch_requests": fetches.sent,
        "received_bytes": fetches.received_bytes,
        "fetched_bytes": metrics.fetched_bytes,
        "discarded_bytes": metrics.discarded_bytes,
        "buffered_bytes_max": metrics.buffered_bytes_max,
        "buffered_bytes_bound": bound,
        "peak_memory_kib": peak_memory_kib("self"),
    }))
}

/// Returns the bytes of the values.
async fn stage(
    mut stream: PartitionStream,
    records: u64,
    takes: Option<Duration>,
) -> Result<usize, String> {
    let mut bytes = 0;
    for number in 0..records {
        let next: Option<Result<_, ConsumerError>> = timeout(SILENCE_MAX, stream.next())
            .await
            .map_err(|_| format!("only {number} of {records} records came"))?;
        let record = next
            .ok_or("the stream ended")?
            .map_err(|error| error.to_string())?;
        bytes += record.value.as_ref().map_or(0, bytes::Bytes::len);
        if let Some(takes) = takes {
            sleep(takes).await;
        }
    }
    Ok(bytes)
}
