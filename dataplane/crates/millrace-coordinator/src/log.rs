//! The seam to the log that keeps a shard's state: one partition of an internal topic.

#[cfg(test)]
pub(crate) mod memory;

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::{Bytes, BytesMut};
use millrace_log::{
    AppendOrigin, AppendTicket, CONSUMER_OFFSETS_TOPIC, LogManager, PartitionLog,
    SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, TransactionMarker,
};
use millrace_model::{Cause, Classified, FailureClass, Offset};
use millrace_record::split;
use tokio::sync::watch;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the log could not do, and its class. Clients only learn that the coordinator is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogFault(pub Cause);

impl LogFault {
    fn new(error: impl Classified + Send + Sync + 'static) -> Self {
        Self(Cause::new(error))
    }

    /// Stored bytes are not what the coordinator writes.
    pub(crate) fn corrupt(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(Cause::of(FailureClass::Corrupt, error))
    }
}

impl Classified for LogFault {
    fn class(&self) -> FailureClass {
        self.0.class()
    }
}

/// The offset of an append's first record, once it is durable.
pub type Durable = BoxFuture<'static, Result<Offset, LogFault>>;

/// One partition's log, for as long as this broker leads the partition. Once it is lost, appends and
/// trims are refused, and every append that was taken resolves: durable if the next leader will read
/// it, refused otherwise.
pub trait StateLog: Send + Sync + 'static {
    /// Tells this log from all others that exist at the same time. A partition that is lost and gained
    /// again has another log.
    fn id(&self) -> usize;
    /// The leader epoch of the partition: it grows with every change of its leader.
    fn epoch(&self) -> i32;
    /// Takes the end of a producer's transaction into the order of the log. The inner future waits for durability.
    ///
    /// # Errors
    /// The outer future: the log refused it, and does not have it. The inner one: it did not become durable.
    fn append_marker(&self, marker: TransactionMarker) -> BoxFuture<'_, Result<Durable, LogFault>>;
    /// Takes a batch into the order of the log. The inner future waits for durability.
    fn append(&self, batch: BytesMut) -> BoxFuture<'_, Result<Durable, LogFault>>;
    /// The first offset that is kept.
    fn start(&self) -> Offset;
    /// One past the last durable record.
    fn end(&self) -> Offset;
    /// Whole batches from `offset` on, at least one unless `offset` is the end.
    fn read(&self, offset: Offset) -> BoxFuture<'_, Result<Vec<Bytes>, LogFault>>;
    /// Drops what is below `new_start`.
    fn trim(&self, new_start: Offset) -> BoxFuture<'_, Result<(), LogFault>>;
}

/// The topic as a whole. Its number of partitions never changes.
pub trait StateTopic: Send + Sync + 'static {
    /// The logs of all partitions, by index: `None` before the topic exists, and an inner `None` for a
    /// partition that this broker does not lead now.
    fn partitions(&self) -> Option<Vec<Option<Arc<dyn StateLog>>>>;
    /// Creates the topic where it does not exist. `partitions` knows it once this has succeeded.
    fn create(&self) -> BoxFuture<'_, Result<(), LogFault>>;
    /// Is marked as changed behind every change of what `partitions` returns.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Bytes per read while a log is loaded: large enough that a cold read's round trip does not
/// dominate, small enough to hold for every partition at once.
const READ_BYTES: usize = 1024 * 1024;

/// `__consumer_offsets`, the topic that keeps consumer groups.
#[must_use]
pub fn consumer_offsets(logs: &LogManager) -> Arc<dyn StateTopic> {
    Arc::new(InternalTopic {
        logs: logs.clone(),
        name: CONSUMER_OFFSETS_TOPIC,
    })
}

/// `__transaction_state`, the topic that keeps transactions.
#[must_use]
pub fn transaction_state(logs: &LogManager) -> Arc<dyn StateTopic> {
    Arc::new(InternalTopic {
        logs: logs.clone(),
        name: TRANSACTION_STATE_TOPIC,
    })
}

/// `__share_group_state`, the topic that keeps the state of share partitions.
#[must_use]
pub fn share_group_state(logs: &LogManager) -> Arc<dyn StateTopic> {
    Arc::new(InternalTopic {
        logs: logs.clone(),
        name: SHARE_GROUP_STATE_TOPIC,
    })
}

/// A topic of the broker itself.
struct InternalTopic {
    logs: LogManager,
    name: &'static str,
}

impl StateTopic for InternalTopic {
    fn partitions(&self) -> Option<Vec<Option<Arc<dyn StateLog>>>> {
        let topics = self.logs.topics();
        let topic = topics
            .iter()
            .find(|topic| topic.name.as_str() == self.name)?;
        let log = |log: &Arc<PartitionLog>| Arc::new(Partition(Arc::clone(log))) as Arc<_>;
        let partitions = topic.partitions.iter();
        Some(
            partitions
                .map(|partition| partition.log().map(log))
                .collect(),
        )
    }

    fn create(&self) -> BoxFuture<'_, Result<(), LogFault>> {
        Box::pin(async {
            let created = self.logs.internal_topic(self.name).await;
            created.map(drop).map_err(LogFault::new)
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.logs.changes()
    }
}

/// A partition of the real topic.
struct Partition(Arc<PartitionLog>);

impl StateLog for Partition {
    fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    fn epoch(&self) -> i32 {
        self.0.leader_epoch()
    }

    fn append_marker(&self, marker: TransactionMarker) -> BoxFuture<'_, Result<Durable, LogFault>> {
        Box::pin(async move {
            let ticket = self.0.append_marker(marker).await;
            Ok(durable(ticket.map_err(LogFault::new)?))
        })
    }

    fn append(&self, batch: BytesMut) -> BoxFuture<'_, Result<Durable, LogFault>> {
        Box::pin(async {
            let batches = split(batch).map_err(LogFault::corrupt)?;
            let ticket = self.0.append(batches, AppendOrigin::Coordinator).await;
            Ok(durable(ticket.map_err(LogFault::new)?))
        })
    }

    fn start(&self) -> Offset {
        self.0.start_offset()
    }

    fn end(&self) -> Offset {
        self.0.high_watermark()
    }

    fn read(&self, offset: Offset) -> BoxFuture<'_, Result<Vec<Bytes>, LogFault>> {
        Box::pin(async move {
            let read = self
                .0
                .read(offset, READ_BYTES, true)
                .await
                .map_err(LogFault::new)?;
            Ok(read.batches)
        })
    }

    fn trim(&self, new_start: Offset) -> BoxFuture<'_, Result<(), LogFault>> {
        Box::pin(async move {
            self.0.trim(new_start).await.map_err(LogFault::new)?;
            Ok(())
        })
    }
}

fn durable(ticket: AppendTicket) -> Durable {
    Box::pin(async {
        let appended = ticket.await.map_err(LogFault::new)?;
        Ok(appended.base_offset)
    })
}
