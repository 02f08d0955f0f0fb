//! What consumers get: records, and batches of them.

use std::sync::Arc;

use bytes::Bytes;
use millrace_record::{Record, Records};

use super::error::ConsumerError;
use crate::topic_partition::TopicPartition;

/// One record. Key, value and headers share the memory of the batch that they came in: whoever
/// keeps a small part of it for long should copy that part.
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
    /// Records before this offset are skipped: a batch is fetched as a whole.
    pub(super) from: i64,
    /// The offset that follows the batch.
    pub(super) next_offset: i64,
    pub(super) records: Records,
}

impl RecordBatch {
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
}

impl Iterator for RecordBatch {
    type Item = Result<ConsumerRecord, ConsumerError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.next()? {
                Ok(record) if record.offset < self.from => {}
                Ok(record) => {
                    let record = ConsumerRecord::new(&self.name, self.leader_epoch, record);
                    return Some(Ok(record));
                }
                Err(reason) => {
                    return Some(Err(ConsumerError::Corrupt {
                        partition: self.name.clone(),
                        offset: self.from,
                        reason: reason.to_string(),
                    }));
                }
            }
        }
    }
}
