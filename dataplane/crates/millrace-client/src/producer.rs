//! The producer: records to batches to requests.
//!
//! ```text
//! send ─► partitioner ─► accumulator (one queue per partition) ─► sender ─► connections
//!                              ▲ memory                              │
//!                              └──────────── completions ◄───────────┘
//! ```
//!
//! A record is copied once, into the bytes that are sent. A caller that appends to an open batch wakes
//! nobody: the sender is woken by a new batch, by a full one, by an answer and by its timer.

// - `record`, `config`, `error`: what users hand in and get back
// - `partitioner`: which partition a record goes to
// - `accumulator`: open batches
// - `memory`: `buffer.memory`, and buffers to use again
// - `topic`: a topic's partitions
// - `partition`: one partition's batches: open, closed, in flight, with their sequences
// - `completion`: what the records of one batch share, so that a record allocates nothing
// - `sender`: one task per producer: closes batches that are due, sends them, handles the answers

mod accumulator;
mod completion;
mod config;
mod error;
mod memory;
mod partition;
mod partitioner;
mod record;
mod sender;
mod topic;

use std::{fmt, sync::Arc, time::Duration};

use self::{
    accumulator::{Accumulator, Append},
    sender::Sender,
    topic::TopicQueue,
};
pub use self::{
    completion::Delivery,
    config::{Acks, InvalidProducerConfig, ProducerConfig},
    error::{DeliveryError, SendError},
    partitioner::{Partitioner, Partitioning, TopicView, murmur2, partition_for_key},
    record::{ProducerRecord, RecordMetadata},
};
use crate::{
    client::{Client, Retry},
    error::RequestError,
};

/// Sends records to topics.
///
/// Records for one partition are collected into batches and sent in the order of the `send` calls.
/// With idempotence (the default) the order holds over retries, and a retry never appends a record
/// twice. What is not yet sent is held in memory, at most [`ProducerConfig::buffer_memory`] bytes;
/// `send` waits for room.
///
/// Clones share everything. After the last one is dropped the records that were accepted are still
/// sent for as long as the runtime lives; [`Producer::close`] waits for them.
///
/// ```no_run
/// use millrace_client::{Client, ClientConfig, Producer, ProducerConfig, ProducerRecord};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(ClientConfig::new("localhost:9092")?);
/// let producer = Producer::new(&client, ProducerConfig::default())?;
/// let record = ProducerRecord::to("orders").key(b"42").value(b"paid");
/// let delivery = producer.send(record).await?;
/// println!("stored at offset {:?}", delivery.await?.offset);
/// producer.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// Lets the sender finish once the last clone is gone.
struct Handle {
    accumulator: Arc<Accumulator>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.accumulator.finish();
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("config", self.accumulator().config())
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer with connections of its own.
    ///
    /// # Errors
    /// The settings contradict each other.
    ///
    /// # Panics
    /// It is not called from within a tokio runtime.
    pub fn new(client: &Client, config: ProducerConfig) -> Result<Self, InvalidProducerConfig> {
        config.validate(client.config())?;
        let accumulator = Arc::new(Accumulator::new(client.clone(), config));
        let sender = Sender::new(client.clone(), Arc::clone(&accumulator));
        // Not supervised: it ends with its producer, and completes every record that it drops.
        tokio::spawn(sender.run());
        Ok(Self {
            handle: Arc::new(Handle { accumulator }),
        })
    }

    /// Hands a record over. Waits, for at most [`ProducerConfig::max_block`], for the topic's
    /// metadata and for memory. The returned future says what became of the record; dropping it
    /// changes nothing about that.
    ///
    /// Cancel-safe: a call that is dropped before it returns has handed nothing over.
    ///
    /// # Errors
    /// The record was not accepted and will not be sent.
    pub async fn send(&self, record: ProducerRecord<'_>) -> Result<Delivery, SendError> {
        let accumulator = self.accumulator();
        // Nothing is waited for when all is known and there is room: then the clock is not read.
        let mut deadline = None;
        let topic = match accumulator.topic(record.topic) {
            Some(topic) => topic,
            None => {
                self.may_wait(&mut deadline);
                self.load_topic(record.topic).await?
            }
        };
        let mut reserved = None;
        loop {
            match accumulator.append(&topic, &record, &mut reserved)? {
                Append::Done(delivery) => return Ok(delivery),
                Append::NeedsMemory(bytes) => {
                    let may_wait = self.may_wait(&mut deadline);
                    reserved = Some(accumulator.wait_for_memory(bytes, may_wait).await?);
                }
                Append::NeedsMetadata => {
                    let may_wait = self.may_wait(&mut deadline);
                    self.refresh_topic(&topic, &record, may_wait).await?;
                }
            }
        }
    }

    /// As [`Self::send`], but never waits, not even for the metadata of a topic that it is the
    /// first record of: use `send` for that one.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] where `send` would wait; otherwise as `send`.
    pub fn try_send(&self, record: ProducerRecord<'_>) -> Result<Delivery, SendError> {
        let accumulator = self.accumulator();
        accumulator.check_open()?;
        let topic = accumulator
            .topic(record.topic)
            .ok_or(SendError::WouldBlock)?;
        match accumulator.append(&topic, &record, &mut None)? {
            Append::Done(delivery) => Ok(delivery),
            Append::NeedsMemory(_) | Append::NeedsMetadata => Err(SendError::WouldBlock),
        }
    }

    /// Sends what is collected without waiting for [`ProducerConfig::linger`], and waits until
    /// every record that was handed over before this call is stored or has failed.
    pub async fn flush(&self) {
        for batch in self.accumulator().flush() {
            batch.done().await;
        }
    }

    /// Accepts no more records, and waits until all that were handed over are stored or have
    /// failed: at most [`ProducerConfig::delivery_timeout`] and one request time-out.
    pub async fn close(&self) {
        self.accumulator().finish();
        self.flush().await;
    }

    /// As [`Self::close`], but after `timeout` the records that are left fail with
    /// [`DeliveryError::Closed`]. They may be stored nevertheless.
    pub async fn close_within(&self, timeout: Duration) {
        self.accumulator().finish();
        if tokio::time::timeout(timeout, self.flush()).await.is_err() {
            self.accumulator().abort(&DeliveryError::Closed);
        }
    }

    /// What the producer has done so far.
    #[must_use]
    pub fn metrics(&self) -> ProducerMetrics {
        self.accumulator().metrics()
    }

    /// The number of partitions of a topic, as far as this producer knows it: after the first
    /// `send` to it.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Option<usize> {
        let topic = self.accumulator().topic(topic)?;
        Some(topic.partitions().len())
    }

    fn accumulator(&self) -> &Arc<Accumulator> {
        &self.handle.accumulator
    }

    /// How long a call of `send` may still wait; its first wait sets the deadline of all.
    fn may_wait(&self, deadline: &mut Option<Duration>) -> Duration {
        let accumulator = self.accumulator();
        let now = accumulator.client().now();
        let deadline = deadline.get_or_insert_with(|| now + accumulator.config().max_block);
        deadline.saturating_sub(now)
    }

    async fn load_topic(&self, name: &str) -> Result<Arc<TopicQueue>, SendError> {
        let accumulator = self.accumulator();
        accumulator.check_open()?;
        let client = accumulator.client();
        let max_block = accumulator.config().max_block;
        let mut retry = Retry::new(client, max_block);
        let interest = client.interest(name);
        let topic = async {
            loop {
                match client.topic(name).await {
                    Ok(topic) => return Ok(topic),
                    Err(error) => retry.after(error).await?,
                }
            }
        };
        let topic = within(max_block, name, topic).await?;
        Ok(accumulator.add_topic(&topic, interest))
    }

    /// A record names a partition that the topic does not have: it may be new.
    async fn refresh_topic(
        &self,
        topic: &TopicQueue,
        record: &ProducerRecord<'_>,
        may_wait: Duration,
    ) -> Result<(), SendError> {
        let client = self.accumulator().client();
        let names = [record.topic];
        let metadata = within(may_wait, record.topic, client.refresh_topics(&names)).await?;
        if let Some(told) = metadata.topic(record.topic) {
            topic.update(told);
        }
        let partitions = topic.partitions().len();
        let partition = record.partition.unwrap_or(-1);
        if usize::try_from(partition).is_ok_and(|partition| partition < partitions) {
            return Ok(());
        }
        Err(SendError::InvalidPartition {
            topic: record.topic.to_owned(),
            partition,
            partitions,
        })
    }
}

/// Waits for something about a topic's metadata, and no longer than this.
async fn within<T>(
    may_wait: Duration,
    topic: &str,
    work: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, SendError> {
    let outcome = tokio::time::timeout(may_wait, work).await;
    let outcome = outcome.unwrap_or_else(|_| {
        Err(RequestError::TimedOut {
            what: format!("the metadata of topic {topic}"),
            after: may_wait,
        })
    });
    outcome.map_err(SendError::Metadata)
}

/// What a producer has done so far. All numbers but the last two only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerMetrics {
    /// Produce requests that were sent, retries included.
    pub requests: u64,
    /// Batches in them.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of these batches, compressed.
    pub bytes: u64,
    /// Batches that were sent again.
    pub retried_batches: u64,
    /// Records that failed.
    pub failed_records: u64,
    /// Epochs that were started after a gap in the sequences (KIP-360).
    pub epoch_bumps: u64,
    /// Bytes of [`ProducerConfig::buffer_memory`] in use.
    pub buffered_bytes: usize,
    /// Callers of `send` that wait for memory.
    pub waiting: usize,
}
