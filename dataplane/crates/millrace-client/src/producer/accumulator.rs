//! Open batches, and how a record gets into one.
//!
//! A record is written straight into its batch's buffer, under the lock of its partition alone.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use foldhash::fast::RandomState;
use millrace_record::BatchBuilder;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::{
    ProducerMetrics,
    completion::{BatchCompletion, Delivery, Outcome},
    config::ProducerConfig,
    error::{DeliveryError, SendError},
    memory::{Memory, Reserved},
    partition::{Guard, OpenBatch, PartitionQueue},
    partitioner::{Partitioning, TopicView, partition_for_key},
    record::ProducerRecord,
    topic::TopicQueue,
};
use crate::client::{Client, Interest, TopicMetadata};

/// What users and sender of one producer share.
pub(super) struct Accumulator {
    client: Client,
    config: ProducerConfig,
    /// Bounded by the topics that the user sends to.
    topics: RwLock<HashMap<Arc<str>, Arc<TopicQueue>, RandomState>>,
    pub(super) memory: Memory,
    /// Partitions that the sender should look at.
    attention: Mutex<Vec<Arc<PartitionQueue>>>,
    pub(super) wake: Notify,
    /// Batches that are not settled, by number.
    incomplete: Mutex<BTreeMap<u64, Arc<BatchCompletion>>>,
    next_batch: AtomicU64,
    /// Batches with a lower number do not wait for more records.
    flush_before: AtomicU64,
    is_closing: AtomicBool,
    failed: OnceLock<DeliveryError>,
    pub(super) counters: Counters,
}

/// See [`ProducerMetrics`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) retried_batches: AtomicU64,
    pub(super) failed_records: AtomicU64,
    pub(super) epoch_bumps: AtomicU64,
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// What became of a try to append.
pub(super) enum Append {
    /// The record is in a batch.
    Done(Delivery),
    /// A new batch needs so many bytes, which are not free.
    NeedsMemory(usize),
    /// The record names a partition that is not known.
    NeedsMetadata,
}

/// Who chose a record's partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chosen {
    /// The record or its key.
    Fixed,
    /// The built-in partitioner of records without a key.
    Keyless,
    /// The user's partitioner.
    Custom,
}

impl Accumulator {
    pub(super) fn new(client: Client, config: ProducerConfig) -> Self {
        Self {
            client,
            memory: Memory::new(config.buffer_memory, config.batch_size),
            config,
            topics: RwLock::default(),
            attention: Mutex::default(),
            wake: Notify::new(),
            incomplete: Mutex::default(),
            next_batch: AtomicU64::new(0),
            flush_before: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            failed: OnceLock::new(),
            counters: Counters::default(),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn config(&self) -> &ProducerConfig {
        &self.config
    }

    pub(super) fn topic(&self, name: &str) -> Option<Arc<TopicQueue>> {
        self.topics.read().get(name).cloned()
    }

    pub(super) fn topics(&self) -> Vec<Arc<TopicQueue>> {
        self.topics.read().values().cloned().collect()
    }

    pub(super) fn add_topic(&self, topic: &TopicMetadata, interest: Interest) -> Arc<TopicQueue> {
        let mut topics = self.topics.write();
        let new = || Arc::new(TopicQueue::new(Arc::clone(&topic.name), interest));
        let name = Arc::clone(&topic.name);
        let queue = Arc::clone(topics.entry(name).or_insert_with(new));
        queue.update(topic);
        queue
    }

    pub(super) fn check_open(&self) -> Result<(), SendError> {
        if let Some(error) = self.failed.get() {
            return Err(match error {
                DeliveryError::Closed => SendError::Closed,
                error => SendError::Failed(error.clone()),
            });
        }
        if self.is_closing.load(Ordering::Acquire) {
            return Err(SendError::Closed);
        }
        Ok(())
    }

    /// Writes a record into the open batch of its partition, or into a new one, for which `reserved`
    /// may hold memory.
    pub(super) fn append(
        &self,
        topic: &TopicQueue,
        record: &ProducerRecord<'_>,
        reserved: &mut Option<Reserved>,
    ) -> Result<Append, SendError> {
        let partitions = topic.partitions();
        // In this order: partitions that are added after the sender's end are not seen.
        self.check_open()?;
        let clock = &self.client.config().clock;
        let timestamp = record.timestamp_ms.unwrap_or_else(|| clock.wall_ms());
        let view = TopicView::new(topic.name(), &partitions);
        let mut may_move = true;
        loop {
            let (index, chosen) = self.choose(topic, &view, record);
            let Some(queue) = partitions.get(index) else {
                return Ok(Append::NeedsMetadata);
            };
            let mut state = queue.lock();
            if state.is_ended {
                return Err(SendError::Closed);
            }
            if let Some(delivery) = self.push_to_open(&mut state, record, timestamp) {
                self.after_push(queue, &mut state, topic, chosen, delivery.1);
                return Ok(Append::Done(delivery.0));
            }
            let bytes = self.size_alone(record)?;
            let was_open = state.open.is_some();
            state.close_open(&self.memory, self.config.idempotence);
            if may_move && self.moves_on(topic, &view, index, chosen) {
                may_move = false;
                if was_open {
                    self.attend(queue, &mut state);
                }
                continue;
            }
            let charge = self.memory.charge_for(bytes);
            let memory = match reserved.take() {
                Some(memory) if memory.bytes() >= charge => memory,
                _ => match self.memory.try_reserve(charge) {
                    Some(memory) => memory,
                    None => {
                        self.attend(queue, &mut state);
                        return Ok(Append::NeedsMemory(charge));
                    }
                },
            };
            let open = state.open.insert(self.open_batch(queue, memory));
            // A record that is larger than `batch_size` is a batch of its own.
            let pushed = push(open, usize::MAX, record, timestamp);
            let (delivery, _) = pushed.expect("without a bound every record fits");
            self.after_push(queue, &mut state, topic, chosen, bytes);
            self.attend_new(queue, &mut state, was_open);
            return Ok(Append::Done(delivery));
        }
    }

    fn choose(
        &self,
        topic: &TopicQueue,
        view: &TopicView<'_>,
        record: &ProducerRecord<'_>,
    ) -> (usize, Chosen) {
        // A number that is out of range is no partition's index.
        let index = |partition: i32| usize::try_from(partition).unwrap_or(usize::MAX);
        if let Some(partition) = record.partition {
            return (index(partition), Chosen::Fixed);
        }
        if let Partitioning::Custom(partitioner) = &self.config.partitioning {
            return (index(partitioner.partition(view, record)), Chosen::Custom);
        }
        if let Some(key) = record.key
            && view.partitions() > 0
        {
            return (
                index(partition_for_key(key, view.partitions())),
                Chosen::Fixed,
            );
        }
        let random = &*self.client.config().random;
        let mut keyless = topic.keyless.lock();
        let how = &self.config.partitioning;
        (keyless.peek(how, view, random), Chosen::Keyless)
    }

    /// Whether the partitioner wants another partition, now that this one needs a new batch.
    fn moves_on(
        &self,
        topic: &TopicQueue,
        view: &TopicView<'_>,
        index: usize,
        chosen: Chosen,
    ) -> bool {
        match (chosen, &self.config.partitioning) {
            (Chosen::Fixed, _) => false,
            (Chosen::Custom, Partitioning::Custom(partitioner)) => {
                partitioner.on_new_batch(view, i32::try_from(index).unwrap_or(i32::MAX));
                true
            }
            (_, how) => {
                let random = &*self.client.config().random;
                let mut keyless = topic.keyless.lock();
                keyless.batch_closed(how, view, random, self.config.batch_size)
            }
        }
    }

    /// The size of a batch with this record alone.
    fn size_alone(&self, record: &ProducerRecord<'_>) -> Result<usize, SendError> {
        let bytes = BatchBuilder::bytes_with_one(record.key, record.value, record.headers);
        let bounds = [
            (self.config.max_request_size, "max_request_size"),
            (self.config.buffer_memory, "buffer_memory"),
        ];
        match bounds.into_iter().find(|(max, _)| bytes > *max) {
            None => Ok(bytes),
            Some((max, setting)) => Err(SendError::TooLarge {
                bytes,
                max,
                setting,
            }),
        }
    }

    fn open_batch(&self, queue: &PartitionQueue, reserved: Reserved) -> OpenBatch {
        let number = self
            .next_batch
            .fetch_add(BatchCompletion::SPAN, Ordering::AcqRel);
        let completion = Arc::new(BatchCompletion::new(number, queue.id()));
        self.incomplete
            .lock()
            .insert(number, Arc::clone(&completion));
        let buffer = self.memory.buffer(&reserved);
        OpenBatch {
            builder: BatchBuilder::with_buffer(self.config.compression, buffer),
            completion,
            created_at: self.client.now(),
            reserved,
        }
    }

    /// Appends to the open batch if there is one with room; by how many bytes it grew.
    fn push_to_open(
        &self,
        state: &mut Guard<'_>,
        record: &ProducerRecord<'_>,
        timestamp: i64,
    ) -> Option<(Delivery, usize)> {
        let open = state.open.as_mut()?;
        push(open, self.config.batch_size, record, timestamp)
    }

    fn after_push(
        &self,
        queue: &Arc<PartitionQueue>,
        state: &mut Guard<'_>,
        topic: &TopicQueue,
        chosen: Chosen,
        grown: usize,
    ) {
        let batch_size = self.config.batch_size;
        let is_full = |open: &OpenBatch| open.builder.size_bytes() >= batch_size;
        let is_full = state.open.as_ref().is_none_or(is_full);
        if is_full && !state.is_listed {
            self.attend(queue, state);
        }
        if chosen == Chosen::Keyless {
            let how = &self.config.partitioning;
            topic
                .keyless
                .lock()
                .appended(how, queue.index(), grown, is_full, batch_size);
        }
    }

    /// Tells the sender of a new batch, unless it will look in time anyway.
    fn attend_new(&self, queue: &Arc<PartitionQueue>, state: &mut Guard<'_>, closed_another: bool) {
        let Some(open) = &state.open else {
            return;
        };
        let due = open.created_at + self.config.linger;
        let looks_in_time = state.timer.is_some_and(|timer| timer <= due);
        let waits = !self.config.linger.is_zero() && !closed_another && looks_in_time;
        if !state.is_listed && !waits {
            self.attend(queue, state);
        }
    }

    /// Lets the sender look at a partition.
    fn attend(&self, queue: &Arc<PartitionQueue>, state: &mut Guard<'_>) {
        if !state.has_attention {
            state.has_attention = true;
            self.attention.lock().push(Arc::clone(queue));
            self.wake.notify_one();
        }
    }

    /// Lets the sender look at every partition with an open batch.
    fn attend_open(&self) {
        for topic in self.topics() {
            for queue in topic.partitions().iter() {
                let mut state = queue.lock();
                if state.open.is_some() {
                    self.attend(queue, &mut state);
                }
            }
        }
        self.wake.notify_one();
    }

    /// What the sender should look at.
    pub(super) fn take_attention(&self) -> Vec<Arc<PartitionQueue>> {
        std::mem::take(&mut *self.attention.lock())
    }

    /// Waits for memory. Until it comes, no batch waits for more records.
    pub(super) async fn wait_for_memory(
        &self,
        bytes: usize,
        timeout: Duration,
    ) -> Result<Reserved, SendError> {
        self.memory
            .reserve(bytes, timeout, || self.attend_open())
            .await
    }

    /// Whether an open batch should wait no longer for more records.
    pub(super) fn is_due(&self, open: &OpenBatch, now: Duration) -> bool {
        now >= open.created_at + self.config.linger
            || open.builder.size_bytes() >= self.config.batch_size
            || open.completion.number < self.flush_before.load(Ordering::Acquire)
            || self.memory.is_exhausted()
    }

    /// Lets no batch that is open now wait; all that are not settled.
    pub(super) fn flush(&self) -> Vec<Arc<BatchCompletion>> {
        let before = self.next_batch.load(Ordering::Acquire);
        self.flush_before.fetch_max(before, Ordering::AcqRel);
        self.attend_open();
        self.incomplete.lock().values().cloned().collect()
    }

    /// Accepts no more records; the sender ends once it has settled the others.
    pub(super) fn finish(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.flush_before.store(u64::MAX, Ordering::Release);
        self.attend_open();
    }

    /// Whether the sender has nothing left to do and nothing will come.
    pub(super) fn is_finished(&self) -> bool {
        self.is_closing.load(Ordering::Acquire) && self.incomplete.lock().is_empty()
    }

    /// Ends the producer at once: everything that is not settled fails.
    pub(super) fn abort(&self, error: &DeliveryError) {
        // The first reason stays.
        let _ = self.failed.set(error.clone());
        self.is_closing.store(true, Ordering::Release);
        self.memory.close();
        let incomplete = std::mem::take(&mut *self.incomplete.lock());
        for completion in incomplete.into_values() {
            if completion.complete(Outcome::Failed(error.clone())) {
                let failed = &self.counters.failed_records;
                Counters::add(failed, completion.records() as usize);
            }
        }
        self.wake.notify_one();
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Settles a batch. False where it was settled before.
    pub(super) fn complete(&self, completion: &BatchCompletion, outcome: Outcome) -> bool {
        self.incomplete.lock().remove(&completion.number);
        completion.complete(outcome)
    }

    /// Settles a batch whose records are sent in parts.
    pub(super) fn split(&self, whole: &BatchCompletion, parts: Vec<(u32, Arc<BatchCompletion>)>) {
        let mut incomplete = self.incomplete.lock();
        incomplete.remove(&whole.number);
        for (_, part) in &parts {
            incomplete.insert(part.number, Arc::clone(part));
        }
        drop(incomplete);
        whole.complete(Outcome::Split(parts));
    }

    /// Whether no batch is unsettled.
    pub(super) fn is_idle(&self) -> bool {
        self.incomplete.lock().is_empty()
    }

    /// The sender is gone: nothing can be appended any more, and what is left fails.
    pub(super) fn end(&self) {
        for topic in self.topics() {
            for queue in topic.partitions().iter() {
                let _left = queue.lock().end();
            }
        }
        self.abort(&DeliveryError::Closed);
    }

    pub(super) fn metrics(&self) -> ProducerMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProducerMetrics {
            requests: read(&self.counters.requests),
            batches: read(&self.counters.batches),
            records: read(&self.counters.records),
            bytes: read(&self.counters.bytes),
            retried_batches: read(&self.counters.retried_batches),
            failed_records: read(&self.counters.failed_records),
            epoch_bumps: read(&self.counters.epoch_bumps),
            buffered_bytes: self.memory.used(),
            waiting: self.memory.waiting(),
        }
    }
}

/// Writes a record into a batch if it has at most `size_max` bytes with it; by how many it grew.
fn push(
    open: &mut OpenBatch,
    size_max: usize,
    record: &ProducerRecord<'_>,
    timestamp: i64,
) -> Option<(Delivery, usize)> {
    let index = open.builder.count().unsigned_abs();
    let (key, value) = (record.key, record.value);
    let bytes = open
        .builder
        .push_within(size_max, timestamp, key, value, record.headers)?;
    open.completion.set_records(index + 1);
    let delivery = Delivery::new(Arc::clone(&open.completion), index, timestamp);
    Some((delivery, bytes))
}

#[cfg(test)]
mod tests;
