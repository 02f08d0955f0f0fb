//! Log compaction in `/v1/status`.

use std::time::Duration;

use millrace_log::{CompactionFailure, CompactionReport, CompactionRun, WaitingPartition};
use millrace_time::rfc3339;
use serde::Serialize;

/// Log compaction in `/v1/status`, since the broker started.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LogCompactionStatus {
    /// `log.cleaner.enable`
    pub(crate) enabled: bool,
    /// The partition that is being compacted; `null` where none is.
    pub(crate) running: Option<RunningCompaction>,
    /// Partitions that are due as of the last check, in the order in which they come, 100 of them at most.
    pub(crate) waiting: Vec<WaitingCompaction>,
    /// How many there are.
    pub(crate) waiting_total: usize,
    /// The last compaction that ended; `null` where none has.
    pub(crate) last_run: Option<EndedCompaction>,
    /// Compactions that have ended.
    pub(crate) runs: u64,
    /// Those of them that failed.
    pub(crate) failed_runs: u64,
    /// Bytes that they read from objects.
    pub(crate) read_bytes: u64,
    /// Bytes that they wrote to objects.
    pub(crate) written_bytes: u64,
    /// Bytes of batches that they removed.
    pub(crate) removed_bytes: u64,
    /// Partitions whose last compaction failed, the newest failures first, 100 of them at most.
    pub(crate) failures: Vec<FailedCompaction>,
}

/// The partition that is being compacted.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunningCompaction {
    /// Its topic.
    pub(crate) topic: String,
    /// Its index.
    pub(crate) partition: u32,
    /// For how long, in milliseconds.
    pub(crate) for_ms: u64,
}

/// A partition that is to be compacted.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WaitingCompaction {
    /// Its topic.
    pub(crate) topic: String,
    /// Its index.
    pub(crate) partition: u32,
    /// The share of its bytes that no compaction has seen, from 0 to 1.
    pub(crate) dirty_ratio: f64,
}

/// A compaction that has ended.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EndedCompaction {
    /// The partition's topic.
    pub(crate) topic: String,
    /// The partition's index.
    pub(crate) partition: u32,
    /// When it ended, as RFC 3339 in UTC.
    pub(crate) ended: String,
    /// How long it took, in milliseconds.
    pub(crate) took_ms: u64,
    /// `done`, `superseded`, `failed` or `corrupt`.
    pub(crate) outcome: &'static str,
    /// Bytes that it read from objects.
    pub(crate) read_bytes: u64,
    /// Bytes that it wrote to objects.
    pub(crate) written_bytes: u64,
    /// Bytes of batches that it removed.
    pub(crate) removed_bytes: u64,
}

/// A partition whose last compaction failed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FailedCompaction {
    /// Its topic.
    pub(crate) topic: String,
    /// Its index.
    pub(crate) partition: u32,
    /// When, as RFC 3339 in UTC.
    pub(crate) at: String,
    /// `transient`, `corrupt` or `rejected`.
    pub(crate) class: &'static str,
    /// Why, for the operator.
    pub(crate) reason: String,
}

impl From<CompactionReport> for LogCompactionStatus {
    fn from(report: CompactionReport) -> Self {
        let CompactionReport {
            is_enabled,
            running,
            waiting,
            waiting_total,
            last_run,
            totals,
            failures,
        } = report;
        Self {
            enabled: is_enabled,
            running: running.map(|(partition, elapsed)| RunningCompaction {
                topic: partition.topic.to_string(),
                partition: partition.partition,
                for_ms: millis(elapsed),
            }),
            waiting: waiting.into_iter().map(Into::into).collect(),
            waiting_total,
            last_run: last_run.map(Into::into),
            runs: totals.runs,
            failed_runs: totals.failed,
            read_bytes: totals.read_bytes,
            written_bytes: totals.written_bytes,
            removed_bytes: totals.removed_bytes,
            failures: failures.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<WaitingPartition> for WaitingCompaction {
    fn from(waiting: WaitingPartition) -> Self {
        Self {
            topic: waiting.partition.topic.to_string(),
            partition: waiting.partition.partition,
            dirty_ratio: waiting.dirty_ratio,
        }
    }
}

impl From<CompactionRun> for EndedCompaction {
    fn from(run: CompactionRun) -> Self {
        Self {
            topic: run.partition.topic.to_string(),
            partition: run.partition.partition,
            ended: rfc3339::format(run.ended_ms),
            took_ms: millis(run.took),
            outcome: run.outcome,
            read_bytes: run.read_bytes,
            written_bytes: run.written_bytes,
            removed_bytes: run.removed_bytes,
        }
    }
}

impl From<CompactionFailure> for FailedCompaction {
    fn from(failure: CompactionFailure) -> Self {
        Self {
            topic: failure.partition.topic.to_string(),
            partition: failure.partition.partition,
            at: rfc3339::format(failure.at_ms),
            class: failure.class.as_str(),
            reason: failure.reason,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
