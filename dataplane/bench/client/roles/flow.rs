//! KAFKA-7548's test: all partitions but one, chosen at random, are paused before each record.

use std::{error::Error, time::Duration};

use millrace_bench::machine;
use millrace_client::{
    Client, Consumer, ConsumerConfig, ConsumerRecord, TopicPartition, consumer::StartAt,
};
use millrace_time::SystemClock;
use serde_json::{Value, json};

/// As the Java program polls.
const POLL: Duration = Duration::from_millis(100);
/// The same choices in each run.
const SEED: u64 = 7_548;
/// A drain that gets nothing for so long has lost something.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Each partition is read over and over; its end is known.
struct Passes {
    partitions: Vec<TopicPartition>,
    records: i64,
    /// Passes that were begun, by partition.
    begun: Vec<u64>,
}

impl Passes {
    /// Whether the record is the last one of its partition.
    fn is_last(&self, record: &ConsumerRecord) -> bool {
        record.offset + 1 == self.records
    }
}

/// All partitions but one, chosen at random, are paused before each record. Afterwards all passes are
/// read to their ends without pauses: what was fetched then is compared with what they have.
pub(super) async fn flow(
    client: &Client,
    topic: &str,
    seconds: f64,
    records: i64,
) -> Result<Value, Box<dyn Error>> {
    let partitions = client.topic(topic).await?.partitions.len();
    let mut passes = Passes {
        partitions: (0..i32::try_from(partitions)?)
            .map(|index| TopicPartition::new(topic, index))
            .collect(),
        records,
        begun: vec![1; partitions],
    };
    let consumer = Consumer::new(client, ConsumerConfig::default());
    consumer.assign(passes.partitions.iter().cloned(), StartAt::Beginning)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let clock = SystemClock::shared();
    let (mut delivered, mut bytes, mut polls) = (0_u64, 0, 0_u64);
    let mut others: Vec<TopicPartition> = Vec::with_capacity(partitions);
    while clock.now().as_secs_f64() < seconds {
        let chosen = random.usize(..partitions);
        others.clear();
        others.extend_from_slice(&passes.partitions);
        let chosen = [others.swap_remove(chosen)];
        consumer.pause(&others)?;
        consumer.resume(&chosen)?;
        polls += 1;
        let Ok(record) = tokio::time::timeout(POLL, consumer.next()).await else {
            continue;
        };
        let record = record?;
        delivered += 1;
        bytes += record.value.as_ref().map_or(0, bytes::Bytes::len);
        if passes.is_last(&record) {
            passes.begun[usize::try_from(record.partition)?] += 1;
            consumer.seek(&chosen[0], StartAt::Beginning)?;
        }
    }
    let elapsed = clock.now();
    let fetches = client
        .metrics()
        .requests
        .get("Fetch")
        .cloned()
        .unwrap_or_default();
    drain(&consumer, &passes).await?;
    let metrics = consumer.metrics();
    Ok(json!({
        "records": delivered,
        "bytes": bytes,
        "polls": polls,
        "seconds": elapsed.as_secs_f64(),
        "fetch_requests": fetches.sent,
        "received_bytes": fetches.received_bytes,
        "passes": passes.begun,
        "fetched_bytes": metrics.fetched_bytes,
        "discarded_bytes": metrics.discarded_bytes,
        "buffered_bytes_max": metrics.buffered_bytes_max,
    }))
}

/// Reads each partition to its end.
async fn drain(consumer: &Consumer, passes: &Passes) -> Result<(), Box<dyn Error>> {
    consumer.resume(&passes.partitions)?;
    let mut left = passes.partitions.len();
    while left > 0 {
        let next = tokio::time::timeout(SILENCE_MAX, consumer.next()).await;
        let record = next.map_err(|_| format!("{left} partitions do not come to their ends"))??;
        left -= usize::from(passes.is_last(&record));
    }
    // A fetch that is under way finds nothing; one that found something would be a second one.
    let pause = tokio::task::spawn_blocking(|| machine::pause(Duration::from_secs(1)));
    pause.await?;
    Ok(())
}
