//! The settings of the share coordinator, its bounds and its errors.

use std::time::Duration;

/// Share partitions that one broker keeps.
pub(crate) const SHARE_PARTITIONS_MAX: usize = 100_000;

/// Batches of one share partition: several times as many as records can be in flight in it, which is at most
/// 10,000, and a record of about one megabyte.
pub const SHARE_STATE_BATCHES_MAX: usize = 50_000;

/// What is on its way to the log, in bytes of memory.
pub const SHARE_STATE_WRITES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Settings of the coordinator. The names in quotes are the broker's properties.
#[derive(Debug, Clone)]
pub struct ShareStateConfig {
    /// `share.coordinator.snapshot.update.records.per.snapshot`: updates of a share partition that the log has between two
    /// snapshots.
    pub updates_per_snapshot: u32,
    /// `share.coordinator.write.timeout.ms`: how long a request waits until its change is durable.
    pub write_timeout: Duration,
    /// What all share partitions may take in memory, bytes.
    pub memory_bytes: u64,
    /// Records that the log of one partition gathers before its live state is rewritten.
    pub rewrite_after_records: u64,
}

impl Default for ShareStateConfig {
    fn default() -> Self {
        Self {
            updates_per_snapshot: 500,
            write_timeout: Duration::from_secs(5),
            memory_bytes: 64 * 1024 * 1024,
            rewrite_after_records: 50_000,
        }
    }
}

/// What all share partitions hold, and what they may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareStateMetrics {
    /// Share partitions.
    pub partitions: usize,
    /// What they cost, in bytes.
    pub memory_bytes: u64,
    /// What they may cost, in bytes.
    pub memory_bytes_max: u64,
    /// What is on its way to the log, in bytes of memory.
    pub writes_bytes: u64,
}

/// Why the coordinator refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShareError {
    /// The log of the share partition is still being read. The caller retries.
    #[error("the coordinator is loading the share partition's log; retry")]
    CoordinatorLoading,
    /// The log of the share partition is not there, is overloaded, too slow or failed.
    #[error("the coordinator is not available; look it up again and retry")]
    CoordinatorNotAvailable,
    /// Another broker coordinates the share partition.
    #[error("this broker does not coordinate the share partition; look the coordinator up again")]
    NotCoordinator,
    /// An id is missing or too long, an index or epoch is negative, or batches are malformed.
    #[error("the request is not valid")]
    InvalidRequest,
    /// The state has more batches than a share partition may have.
    #[error("the share partition has too many batches")]
    TooManyBatches,
    /// The topic has no such partition.
    #[error("the topic has no such partition")]
    UnknownPartition,
    /// The share partition was not initialized.
    #[error("the share partition is not initialized")]
    Uninitialized,
    /// The share partition has a newer leader.
    #[error("the share partition has a newer leader")]
    FencedLeaderEpoch,
    /// The share partition was initialized again.
    #[error("the share partition was initialized again")]
    FencedStateEpoch,
    /// The broker keeps as many share partitions, or as large ones, as it can.
    #[error("the broker has no room for more share partitions or batches of them")]
    NoRoom,
}
