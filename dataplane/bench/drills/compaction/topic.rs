//! The topic that is compacted.

use std::{collections::BTreeMap, time::Duration};

use millrace_client::{
    Admin, Client, Consumer, ConsumerConfig, Producer, ProducerConfig, ProducerRecord,
    TopicPartition,
    admin::{ConfigChange, ConfigResource, NewTopic},
    consumer::{ConsumerError, StartAt},
};
use tokio::time::timeout;

use crate::arguments::Arguments;

const NAME: &str = "compacted";
pub(crate) const RECORD_BYTES: u64 = 1_024;
/// `segment.bytes`: the newest part, which is not compacted.
pub(crate) const ACTIVE_BYTES: u64 = 16 << 20;
/// While the topic is filled, nothing is old enough.
const LAG: &str = "min.compaction.lag.ms";
const LAG_MS: &str = "604800000";
/// Without a record for so long, there is none.
const SILENCE: Duration = Duration::from_secs(60);
/// The keys follow from it.
pub(crate) const SEED: u64 = 7;
/// Every tenth key is written once, at the beginning: its value survives only where old records are kept.
const OLD_KEYS_PART: u64 = 10;

/// The topic that is compacted.
pub(crate) struct Topic {
    records: u64,
    keys: u64,
}

impl Topic {
    pub(crate) async fn create(client: &Client, arguments: &Arguments) -> Result<Self, String> {
        let records = ((arguments.gib as u64) << 30) / RECORD_BYTES;
        let keys = records * arguments.live_percent as u64 / 100;
        let topic = NewTopic::new(NAME)
            .partitions(1)
            .config("cleanup.policy", "compact")
            .config("segment.bytes", &ACTIVE_BYTES.to_string())
            .config("min.cleanable.dirty.ratio", "0.01")
            .config(LAG, LAG_MS);
        let created = Admin::new(client).create_topics(&[topic]).await;
        for (_, result) in created.map_err(|error| error.to_string())? {
            result.map_err(|error| error.to_string())?;
        }
        Ok(Self { records, keys })
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.keys * RECORD_BYTES
    }

    /// Writes all records; gives the number of the last one of each key. Every key has one.
    pub(crate) async fn fill(&self, client: &Client) -> Result<Vec<u64>, String> {
        let mut config = ProducerConfig::default();
        config.batch_size = 512 << 10;
        let producer = Producer::new(client, config).map_err(|error| error.to_string())?;
        let mut random = fastrand::Rng::with_seed(SEED);
        let mut last = vec![0; self.keys as usize];
        let mut value = vec![b'v'; RECORD_BYTES as usize];
        let mut newest = None;
        for number in 0..self.records {
            let key = match number < self.keys {
                true => number,
                false => self.changing_key(&mut random),
            };
            last[key as usize] = number;
            value[..8].copy_from_slice(&number.to_be_bytes());
            let key = key.to_be_bytes();
            let record = ProducerRecord::to(NAME)
                .partition(0)
                .key(&key)
                .value(&value);
            let sent = producer.send(record).await;
            newest = Some(sent.map_err(|error| format!("filling: {error}"))?);
        }
        producer.flush().await;
        // Its predecessors are stored if it is: the producer is idempotent.
        if let Some(newest) = newest {
            newest.await.map_err(|error| format!("filling: {error}"))?;
        }
        Ok(last)
    }

    fn changing_key(&self, random: &mut fastrand::Rng) -> u64 {
        loop {
            let key = random.u64(0..self.keys);
            if !key.is_multiple_of(OLD_KEYS_PART) {
                return key;
            }
        }
    }

    /// Its bytes at the broker.
    pub(crate) async fn size(&self, client: &Client) -> Result<u64, String> {
        let sizes = Admin::new(client).partition_sizes([partition()]).await;
        let mut sizes = sizes.map_err(|error| error.to_string())?;
        let size = sizes.remove(&partition()).ok_or("the topic has no size")?;
        size.map_err(|error| error.to_string())
    }

    /// From now on all of it but the active part may be compacted.
    pub(crate) async fn let_compact(&self, client: &Client) -> Result<(), String> {
        let change = BTreeMap::from([(LAG.to_owned(), ConfigChange::Set("0".to_owned()))]);
        let changes = BTreeMap::from([(ConfigResource::Topic(NAME.to_owned()), change)]);
        let altered = Admin::new(client).alter_configs(&changes).await;
        for (_, result) in altered.map_err(|error| error.to_string())? {
            result.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Reads the topic and compares the last value of each key. Gives how many records there are.
    pub(crate) async fn check(&self, client: &Client, expected: &[u64]) -> Result<u64, String> {
        let failed = |error: ConsumerError| format!("reading the compacted topic: {error}");
        let consumer = Consumer::new(client, ConsumerConfig::default());
        let ends = consumer.end_offsets(&[partition()]).await.map_err(failed)?;
        let end = ends.get(&partition()).copied().unwrap_or(0);
        consumer
            .assign([partition()], StartAt::Beginning)
            .map_err(failed)?;
        let mut found = vec![None; expected.len()];
        let (mut next, mut count) = (0, 0);
        while next < end {
            let batch = timeout(SILENCE, consumer.next_batch()).await;
            let batch = batch.map_err(|_| format!("the topic cannot be read from {next} on"))?;
            let mut batch = batch.map_err(failed)?;
            next = batch.next_offset();
            while let Some(record) = batch.next_ref() {
                let record = record.map_err(failed)?;
                count += 1;
                let key = record.key.and_then(number).map(|key| key as usize);
                let slot = key.and_then(|key| found.get_mut(key));
                *slot.ok_or("a record has a key that nobody wrote")? =
                    record.value.and_then(number);
            }
        }
        consumer.close().await.map_err(failed)?;
        let wrong = expected.iter().zip(&found);
        let wrong = wrong.filter(|&(expected, found)| Some(*expected) != *found);
        match wrong.count() {
            0 => Ok(count),
            wrong => Err(format!("{wrong} keys do not have their last values")),
        }
    }
}

fn partition() -> TopicPartition {
    TopicPartition::new(NAME, 0)
}

/// The number that a key is, or that a value begins with.
fn number(bytes: &[u8]) -> Option<u64> {
    let (number, _) = bytes.split_first_chunk()?;
    Some(u64::from_be_bytes(*number))
}
