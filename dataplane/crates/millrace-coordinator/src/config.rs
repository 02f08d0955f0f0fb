//! What an operator sets about groups, and the bounds that stand whatever they set.

use std::time::Duration;

/// The longest group id, in bytes. Kafka's wire allows 32 KiB; ids are map keys and log fields, and
/// no client makes one this long.
pub const GROUP_ID_BYTES_MAX: usize = 4_096;

/// Groups that one broker holds. A group without members costs about 1 KiB, so this is 100 MiB.
pub const GROUPS_MAX: usize = 100_000;

/// Subscription bytes of one member over all its protocols: ten thousand topic names of 100 bytes.
pub const MEMBER_METADATA_BYTES_MAX: usize = 1024 * 1024;

/// Protocols that one member may offer. Clients offer one to four assignors.
pub const MEMBER_PROTOCOLS_MAX: usize = 64;

/// Key and value bytes of one record of the group log. Wider than a client's `message.max.bytes`,
/// because one record holds all members of a group.
pub const GROUP_RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A member that joins for the first time does not know its id yet, so it cannot send heartbeats
/// while the rebalance lasts; it is given this long instead of its session timeout (Kafka's number).
pub const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Settings of the coordinator. The names in quotes are the broker's properties.
#[derive(Debug, Clone)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`
    pub session_timeout_min: Duration,
    /// `group.max.session.timeout.ms`
    pub session_timeout_max: Duration,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits
    /// for more members.
    pub initial_rebalance_delay: Duration,
    /// `group.max.size`: members of one group.
    pub group_size_max: usize,
    /// `offsets.retention.minutes`
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`
    pub retention_check_interval: Duration,
    /// `offset.metadata.max.bytes`: the text that a commit may carry.
    pub offset_metadata_bytes_max: usize,
    /// Records that the log of one partition gathers before its live state is written anew at its
    /// tail and the rest is trimmed. At least twice the live state is always allowed.
    pub rewrite_after_records: u64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            initial_rebalance_delay: Duration::ZERO,
            group_size_max: 10_000,
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
            retention_check_interval: Duration::from_secs(600),
            offset_metadata_bytes_max: 4_096,
            rewrite_after_records: 50_000,
        }
    }
}
