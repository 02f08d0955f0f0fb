//! Deleting records: the log start moves up, durably, and what only held records below it is freed.
//!
//! Retention is Kafka's: the oldest segment goes while all of its records are older than
//! `retention.ms`, by their timestamps, or `retention.bytes` or more are left behind it. The first
//! one that stays ends it, so a record with a timestamp in the future keeps whatever
//! comes behind it until that time has passed, or `retention.bytes` reaches it. Nothing above the
//! high watermark goes; the last segment goes when it is due like any other.
//!
//! Where Kafka cuts at segment files, this cuts at the segments of [`crate::segments`]: so a record
//! stays up to 10 s of timestamps, or a 128th of the log's, longer than it must, and a log keeps up
//! to one step more than it may, until the next check.

use std::sync::Arc;

use metrics::Counter;
use millrace_model::{Cause, FailureClass, Offset};
use tokio::task::JoinError;

use super::{PartitionLog, State};
use crate::{error::TrimError, segments::Segment};

/// Why records are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// `retention.ms`
    Time,
    /// `retention.bytes`
    Size,
    /// Somebody asked for it.
    Request,
}

/// Counts what is deleted, by reason.
#[derive(Debug)]
pub(crate) struct DeletionMetrics {
    time: ReasonMetrics,
    size: ReasonMetrics,
    request: ReasonMetrics,
}

#[derive(Debug)]
struct ReasonMetrics {
    moves: Counter,
    bytes: Counter,
    records: Counter,
}

impl DeletionMetrics {
    pub(crate) fn new() -> Self {
        let metrics = |reason: &'static str| ReasonMetrics {
            moves: metrics::counter!("millrace_log_start_moves_total", "reason" => reason),
            bytes: metrics::counter!("millrace_log_deleted_bytes_total", "reason" => reason),
            records: metrics::counter!("millrace_log_deleted_records_total", "reason" => reason),
        };
        Self {
            time: metrics("time"),
            size: metrics("size"),
            request: metrics("request"),
        }
    }

    fn count(&self, reason: Reason, records: u64, bytes: u64) {
        let metrics = match reason {
            Reason::Time => &self.time,
            Reason::Size => &self.size,
            Reason::Request => &self.request,
        };
        metrics.moves.increment(1);
        metrics.bytes.increment(bytes);
        metrics.records.increment(records);
    }
}

impl PartitionLog {
    /// Deletes the records below `new_start`, which is at most the high watermark. Durable when it
    /// returns the log start offset. The batch that contains `new_start` stays whole. What has started
    /// goes on when nobody waits for it any more.
    ///
    /// # Errors
    /// See [`TrimError`].
    pub async fn trim(self: &Arc<Self>, new_start: Offset) -> Result<Offset, TrimError> {
        self.trim_because(new_start, Reason::Request).await
    }

    /// The same, counted under `reason`.
    ///
    /// # Errors
    /// See [`TrimError`].
    pub(crate) async fn trim_because(
        self: &Arc<Self>,
        new_start: Offset,
        reason: Reason,
    ) -> Result<Offset, TrimError> {
        let log = Arc::clone(self);
        // Apart from the caller: once the metadata has it, what is known here has to follow.
        let trimming = async move { log.trim_whole(new_start, reason).await };
        let trimmed = self.tasks.spawn_awaited(trimming);
        let stopped =
            |error: JoinError| TrimError::Storage(Cause::of(FailureClass::Transient, error));
        trimmed.await.map_err(stopped)?
    }

    async fn trim_whole(&self, new_start: Offset, reason: Reason) -> Result<Offset, TrimError> {
        if let Some(cause) = self.offline() {
            return Err(TrimError::Offline(cause));
        }
        if self.is_closed() {
            return Err(TrimError::Closed);
        }
        let trimmed = self.data.trim(new_start).await;
        let start = trimmed.map_err(|error| self.trim_error(error))?;
        if let Some((records, bytes)) = self.trim_state(start) {
            self.deletions.count(reason, records, bytes);
        }
        Ok(start)
    }

    /// Forgets what is below the log's new start, as [`State::trim`] does. Where that leaves blocks of aborted transactions without
    /// use, a checkpoint is due, for only a checkpoint trims the stream that has them.
    pub(super) fn trim_state(&self, start: Offset) -> Option<(u64, u64)> {
        let mut state = self.state.lock();
        let gone = state.trim(start);
        if state.cleaner_changed {
            state.dirty_since.get_or_insert_with(|| self.clock.now());
        }
        gone
    }

    fn trim_error(&self, error: millrace_stream::TrimError) -> TrimError {
        use millrace_stream::TrimError as Stream;
        match error {
            // Deleted meanwhile: the metadata does not know the stream any more.
            _ if self.is_closed() => TrimError::Closed,
            Stream::AboveConfirmed { offset, confirmed } => TrimError::OutOfRange {
                offset,
                high_watermark: confirmed,
            },
            Stream::Meta(cause) => TrimError::Storage(cause),
        }
    }

    /// Where the log should begin by its topic's retention, and why; `None` where it may stay as it
    /// is.
    pub(crate) fn retention_due(&self) -> Option<(Offset, Reason)> {
        let config = self.config();
        if !config.deletes() || self.is_closed() || self.offline().is_some() {
            return None;
        }
        // Below zero: no bound.
        let keep_bytes = u64::try_from(config.retention_bytes).ok();
        let keep_ms = Some(config.retention_ms).filter(|keep_ms| *keep_ms >= 0);
        let oldest_ms = keep_ms.map(|keep_ms| self.clock.wall_ms().saturating_sub(keep_ms));
        let goes = |segment: &Segment, behind_bytes: u64| {
            if oldest_ms.is_some_and(|oldest_ms| segment.max_timestamp < oldest_ms) {
                return Some(Reason::Time);
            }
            let enough = keep_bytes.is_some_and(|keep_bytes| behind_bytes >= keep_bytes);
            enough.then_some(Reason::Size)
        };
        let limit = self.high_watermark();
        self.state.lock().segments.end_of_run(limit, goes)
    }
}

impl State {
    /// Forgets what is below the log's new start. Gives the records (by offsets) and bytes that are
    /// gone with it, or `None` where the start has not moved.
    pub(super) fn trim(&mut self, start: Offset) -> Option<(u64, u64)> {
        self.cleaner_changed |= self.transactions.trim(start);
        let records = start.checked_sub(self.segments.start())?;
        if records == 0 {
            return None;
        }
        self.time_index.trim(start);
        self.leader_epochs.trim(start);
        Some((records, self.segments.trim(start)))
    }
}
