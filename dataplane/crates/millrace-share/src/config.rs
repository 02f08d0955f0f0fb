//! The settings of share groups, with Kafka's defaults.

use std::time::Duration;

use crate::in_flight::Limits;

/// What the broker's settings say of share partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareConfig {
    /// What a group has that does not set its own.
    pub group: GroupSettings,
    /// `group.share.partition.max.record.locks`: records in flight per share partition.
    pub record_locks_max: u32,
    /// `group.share.max.share.sessions`: share sessions of this broker.
    pub sessions_max: usize,
}

/// What a group can set for itself (KIP-932's group configurations).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSettings {
    /// `share.record.lock.duration.ms`: how long a member holds records that it does not acknowledge.
    pub record_lock: Duration,
    /// `share.delivery.count.limit`: a record that was delivered so often is not delivered again.
    pub delivery_count_limit: i16,
    /// `share.auto.offset.reset`: where a share partition without an offset begins.
    pub reset: ResetStrategy,
    /// `share.isolation.level`: whether records of aborted transactions are left out.
    pub is_read_committed: bool,
}

/// Where a share partition without an offset begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetStrategy {
    /// At the first record.
    Earliest,
    /// After the last record.
    Latest,
    /// At the first record that is not older than this.
    ByDuration(Duration),
}

impl Default for ShareConfig {
    fn default() -> Self {
        Self {
            group: GroupSettings::default(),
            record_locks_max: 2_000,
            sessions_max: 2_000,
        }
    }
}

impl Default for GroupSettings {
    fn default() -> Self {
        Self {
            record_lock: Duration::from_secs(30),
            delivery_count_limit: 5,
            reset: ResetStrategy::Latest,
            is_read_committed: false,
        }
    }
}

impl ShareConfig {
    /// What bounds a share partition of a group.
    #[must_use]
    pub fn limits(&self, group: &GroupSettings) -> Limits {
        Limits {
            delivery_count: group.delivery_count_limit,
            record_locks: self.record_locks_max,
        }
    }
}
