//! Streams of records. They are driven by demand: a reader that polls less is sent less.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::Stream;

use super::{
    Consumer,
    error::ConsumerError,
    flow::{PartitionId, Taken},
    reader::Reader,
    record::{ConsumerRecord, RecordBatch},
};
use crate::topic_partition::TopicPartition;

/// The records of all partitions without a stream of their own. Ends when the consumer is closed.
pub struct RecordStream {
    _consumer: Consumer,
    reader: Reader,
}

/// The records of one partition. Ends when the partition is revoked or the consumer is closed.
/// Dropped, it leaves the partition to [`Consumer::next`].
pub struct PartitionStream {
    consumer: Consumer,
    name: TopicPartition,
    id: PartitionId,
    reader: Reader,
}

impl RecordStream {
    pub(super) fn new(consumer: Consumer, reader: Reader) -> Self {
        Self {
            _consumer: consumer,
            reader,
        }
    }
}

impl PartitionStream {
    pub(super) fn new(
        consumer: Consumer,
        name: TopicPartition,
        id: PartitionId,
        reader: Reader,
    ) -> Self {
        Self {
            consumer,
            name,
            id,
            reader,
        }
    }

    /// The partition.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.name
    }

    /// The consumer, for commits and [`Consumer::processed`].
    #[must_use]
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// The rest of the next batch; nothing at the end.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// Something is wrong with the partition.
    pub async fn next_batch(&mut self) -> Option<Result<RecordBatch, ConsumerError>> {
        let reader = &mut self.reader;
        match std::future::poll_fn(|context| reader.poll_take(context, true)).await {
            Taken::Batch(batch) => Some(Ok(batch)),
            Taken::Fault(error) => Some(Err(error)),
            _ => None,
        }
    }
}

impl Drop for PartitionStream {
    fn drop(&mut self) {
        let id = self.id;
        self.reader.shared.with(|flow| flow.set_stream(id, false));
    }
}

fn poll(
    reader: &mut Reader,
    context: &mut Context<'_>,
) -> Poll<Option<Result<ConsumerRecord, ConsumerError>>> {
    reader.poll_take(context, false).map(|taken| match taken {
        Taken::Record(record) => Some(Ok(record)),
        Taken::Fault(error) => Some(Err(error)),
        _ => None,
    })
}

impl Stream for RecordStream {
    type Item = Result<ConsumerRecord, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        poll(&mut self.reader, context)
    }
}

impl Stream for PartitionStream {
    type Item = Result<ConsumerRecord, ConsumerError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        poll(&mut self.reader, context)
    }
}

impl fmt::Debug for RecordStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordStream").finish_non_exhaustive()
    }
}

impl fmt::Debug for PartitionStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionStream")
            .field("partition", &self.name)
            .finish_non_exhaustive()
    }
}
