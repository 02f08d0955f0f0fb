//! What consumers get: records, and batches of them.

use std::sync::Arc;

use bytes::Bytes;
use millrace_record::{InvalidBatch, Record, RecordView, Records, TimestampType};

use super::error::ConsumerError;
use crate::topic_partition::TopicPartition;

/// One record. Key, value and headers share the memory of the batch that they came in: copy
/// what you keep for long.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerRecord {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The offset in the partition.
    pub offset: i64,
    /// The epoch of the leader that appended the record, where it is known.
    pub leader_epoch: Option<i32>,
    /// Milliseconds since 1970: the producer's time, or the broker's where the topic says so.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; none is a tombstone.
    pub value: Option<Bytes>,
    /// Headers in order; keys may repeat.
    pub headers: Vec<RecordHeader>,
}

/// One header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordHeader {
    /// The key: UTF-8 by convention, unchecked.
    pub key: Bytes,
    /// The value.
    pub value: Option<Bytes>,
}

impl ConsumerRecord {
    pub(super) fn new(name: &TopicPartition, leader_epoch: Option<i32>, record: Record) -> Self {
        let header = |header: millrace_record::Header| RecordHeader {
            key: header.key,
            value: header.value,
        };
        Self {
            topic: Arc::clone(&name.topic),
            partition: name.partition,
            offset: record.offset,
            leader_epoch,
            timestamp_ms: record.timestamp,
            key: record.key,
            value: record.value,
            headers: record.headers.into_iter().map(header).collect(),
        }
    }

    /// The partition that the record is from.
    #[must_use]
    pub fn topic_partition(&self) -> TopicPartition {
        TopicPartition::of(Arc::clone(&self.topic), self.partition)
    }
}

/// Records of one partition in order: what is left of one batch as its producer sent it. An
/// iterator over them; a record that is malformed is an error and the last item.
#[derive(Debug)]
pub struct RecordBatch {
    pub(super) name: TopicPartition,
    pub(super) leader_epoch: Option<i32>,
    /// Where the reader stood.
    pub(super) from: i64,
    /// The offset that follows the batch.
    pub(super) next_offset: i64,
    pub(super) records: Records,
}

impl RecordBatch {
    /// What is left of an open batch, from an offset on: a batch is fetched as a whole.
    pub(super) fn new(
        name: TopicPartition,
        leader_epoch: Option<i32>,
        (from, next_offset): (i64, i64),
        mut records: Records,
    ) -> Self {
        while records.next_offset().is_some_and(|offset| offset < from) {
            records.next_view();
        }
        Self {
            name,
            leader_epoch,
            from,
            next_offset,
            records,
        }
    }

    /// The partition.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.name
    }

    /// The offset that follows the last record's: what to commit once all are processed.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Bytes of its records, delivered or not, decompressed: what it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.records.total_bytes()
    }

    /// Whether the broker gave the records their timestamps, as `message.timestamp.type` says;
    /// otherwise their producer did.
    #[must_use]
    pub fn has_log_append_time(&self) -> bool {
        self.records.header().timestamp_type() == TimestampType::LogAppendTime
    }
}

/// One record that borrows its batch: for readers that look at many and keep few.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RecordRef<'a> {
    /// The offset in the partition.
    pub offset: i64,
    /// Milliseconds since 1970: the producer's time, or the broker's where the topic says so.
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; none is a tombstone.
    pub value: Option<&'a [u8]>,
    view: RecordView<'a>,
}

impl<'a> RecordRef<'a> {
    /// Keys and values of the headers, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        self.view.headers()
    }
}

impl RecordBatch {
    /// The next record without a share in the batch's memory; otherwise as the iterator.
    pub fn next_ref(&mut self) -> Option<Result<RecordRef<'_>, ConsumerError>> {
        match self.records.next_view()? {
            Ok(view) => Some(Ok(RecordRef {
                offset: view.offset,
                timestamp_ms: view.timestamp,
                key: view.key,
                value: view.value,
                view,
            })),
            Err(reason) => Some(Err(corrupt(&self.name, self.from, &reason))),
        }
    }
}

fn corrupt(name: &TopicPartition, offset: i64, reason: &InvalidBatch) -> ConsumerError {
    ConsumerError::Corrupt {
        partition: name.clone(),
        offset,
        reason: reason.to_string(),
    }
}

impl Iterator for RecordBatch {
    type Item = Result<ConsumerRecord, ConsumerError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.records.next()? {
            Ok(record) => Ok(ConsumerRecord::new(&self.name, self.leader_epoch, record)),
            Err(reason) => Err(corrupt(&self.name, self.from, &reason)),
        })
    }
}
