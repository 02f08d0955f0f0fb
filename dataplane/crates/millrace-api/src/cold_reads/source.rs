//! Where records that have left memory are read from.

use std::sync::Arc;

use millrace_log::{
    CommittedLog, Isolation, PartitionLog, ReadResult,
    error::{ReadCommittedError, ReadError},
};
use millrace_model::{Offset, TopicPartition};
use millrace_wire::messages::BrokerId;

/// Where a partition is read from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) log: SourceLog,
    pub(crate) offset: Offset,
    /// Which records the client wants. Committed ones are only read where the partition is led.
    pub(crate) isolation: Isolation,
}

impl Source {
    /// Reads from memory; `None` where this broker does not lead the partition, or would have to read objects.
    pub(crate) fn read_memory(
        &self,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Option<Result<ReadResult, ReadError>> {
        let log = self.log.led()?;
        log.try_read_cached(self.isolation, self.offset, bytes_max, at_least_one)
            .transpose()
    }

    /// A read that has found nothing, with the log's bounds as they are now; `None` where they are not known.
    pub(crate) fn nothing(&self) -> Option<ReadResult> {
        match &self.log {
            SourceLog::Led(log) => {
                // In this order, so that it is not above the high watermark.
                let last_stable_offset = log.last_stable_offset();
                let is_committed = self.isolation == Isolation::ReadCommitted;
                Some(ReadResult {
                    batches: Vec::new(),
                    aborted_transactions: is_committed.then(Vec::new),
                    high_watermark: log.high_watermark(),
                    last_stable_offset,
                    log_start: log.start_offset(),
                })
            }
            // Where the leader's log ends is not known here.
            SourceLog::Committed { .. } => None,
        }
    }

    pub(super) async fn read_local(
        &self,
        bytes_max: usize,
    ) -> Option<Result<ReadResult, ColdReadError>> {
        let log = self.log.led()?;
        let read = log.read_local(self.isolation, self.offset, bytes_max, true);
        read.await.map_err(ColdReadError::from).transpose()
    }

    pub(super) async fn read(&self, bytes_max: usize) -> Result<ReadResult, ColdReadError> {
        match &self.log {
            SourceLog::Led(log) => {
                let read = log.read_isolated(self.isolation, self.offset, bytes_max, true);
                Ok(read.await?)
            }
            SourceLog::Committed { log, .. } => Ok(log.read(self.offset, bytes_max).await?),
        }
    }
}

/// Whose records these are.
#[derive(Debug, Clone)]
pub(crate) enum SourceLog {
    /// This broker leads the partition.
    Led(Arc<PartitionLog>),
    /// Another broker does, or nobody who is there. What is in objects can be read.
    Committed {
        log: Arc<CommittedLog>,
        leader: Option<BrokerId>,
    },
}

/// Why a read gave nothing.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ColdReadError {
    /// The error is final.
    #[error(transparent)]
    Led(#[from] ReadError),
    /// The leader may still have the records.
    #[error(transparent)]
    Committed(#[from] ReadCommittedError),
}

impl SourceLog {
    pub(crate) fn id(&self) -> &TopicPartition {
        match self {
            Self::Led(log) => log.id(),
            Self::Committed { log, .. } => log.id(),
        }
    }

    /// The log, where this broker leads the partition.
    pub(crate) fn led(&self) -> Option<&Arc<PartitionLog>> {
        match self {
            Self::Led(log) => Some(log),
            Self::Committed { .. } => None,
        }
    }

    /// A number that no other log has as long as this one is held.
    pub(super) fn address(&self) -> usize {
        match self {
            Self::Led(log) => Arc::as_ptr(log).addr(),
            Self::Committed { log, .. } => Arc::as_ptr(log).addr(),
        }
    }

    /// Whether a batch at `offset` would be read without objects, now.
    pub(super) fn is_local(&self, offset: Offset) -> bool {
        self.led().is_some_and(|log| log.is_local(offset))
    }

    /// Looks up in the metadata what a read from objects needs.
    pub(super) async fn prepare(&self, offset: Offset) {
        if let Self::Committed { log, .. } = self {
            log.prepare(offset).await;
        }
    }

    /// A result that was found a while ago, as it is answered now.
    pub(super) fn refreshed(&self, read: ReadResult) -> ReadResult {
        match self {
            Self::Led(log) => ReadResult {
                last_stable_offset: log.last_stable_offset(),
                high_watermark: log.high_watermark(),
                log_start: log.start_offset(),
                ..read
            },
            Self::Committed { .. } => read,
        }
    }
}
