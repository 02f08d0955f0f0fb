//! The settings of groups, and the bounds that are not settings.

use std::time::Duration;

use crate::{Assignor, GroupConfigs};

/// The longest id of a group or a transaction, in bytes. Kafka's wire allows 32 KiB; ids are map keys and log fields,
/// and no client makes one this long.
pub const ID_BYTES_MAX: usize = 4_096;

/// Groups that one broker holds. Whoever looks at all of them, as ListGroups and the sweep do, takes
/// about 20 ms for so many; their memory has a bound of its own ([`GroupConfig::memory_bytes`]).
pub const GROUPS_MAX: usize = 100_000;

/// What a group costs with nothing in it, bytes: its state, its lock, its alarm, its place in the shard.
pub(crate) const GROUP_BYTES: u64 = 1_024;

/// What a member costs beside its names, subscription and assignment, bytes: its state, two waiting
/// answers, its places in the group's tables.
pub(crate) const MEMBER_BYTES: u64 = 1_024;

/// What a member costs that was given an id and has not come back with it, beside the id, bytes.
pub(crate) const PENDING_MEMBER_BYTES: u64 = 128;

/// What a committed offset costs beside its metadata, bytes. Its topic's name is shared.
pub(crate) const OFFSET_BYTES: u64 = 192;

/// What is on its way to the groups' log, in bytes of memory: what waits for the writers, and what
/// they encode. Four times [`GROUP_RECORD_BYTES_MAX`], which is what one record of that size takes:
/// the generation, its encoded form, and the batch that it grows in.
pub const GROUP_WRITES_BYTES_MAX: u64 = 4 * GROUP_RECORD_BYTES_MAX as u64;

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

/// Bytes of a regular expression that a client sends.
pub const PATTERN_BYTES_MAX: usize = 4_096;

/// What a compiled regular expression may take, in bytes: enough for any list of names, and little
/// beside a group.
pub(crate) const PATTERN_COMPILED_BYTES_MAX: usize = 1024 * 1024;

/// How often a group's patterns are matched again while topics come and go.
pub(crate) const PATTERN_REFRESH_MIN: Duration = Duration::from_secs(1);

/// How long a group's patterns are not matched again while topics stay as they are. Later rights to
/// describe topics count from then on (Kafka's number).
pub(crate) const PATTERN_REFRESH_MAX: Duration = Duration::from_secs(600);

/// Topics that one member of a share group may subscribe to.
pub const SHARE_MEMBER_TOPICS_MAX: usize = 10_000;

/// When members ask again whose group waits for the states of its share partitions: they have been assigned nothing until then, or
/// not all.
pub(crate) const SHARE_INITIALIZING_INTERVAL: Duration = Duration::from_millis(500);

/// How long after a failure the share coordinator is not asked again to initialize the states of a group.
pub(crate) const SHARE_STATES_RETRY: Duration = Duration::from_secs(5);

/// States of share partitions that one group asks the share coordinator for at the same time.
pub(crate) const SHARE_STATES_ASKED_MAX: usize = 16;

/// How long the share coordinator may take to answer about one share partition.
pub(crate) const SHARE_STATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Which members may convert a group to the other protocol: `group.consumer.migration.policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// Neither protocol's members can join the other's group.
    Disabled,
    /// The first member with the consumer protocol converts a classic group.
    Upgrade,
    /// A consumer group that is left with classic members only becomes classic.
    Downgrade,
    /// Both.
    Bidirectional,
}

impl MigrationPolicy {
    /// The policy with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "disabled" => Self::Disabled,
            "upgrade" => Self::Upgrade,
            "downgrade" => Self::Downgrade,
            "bidirectional" => Self::Bidirectional,
            _ => return None,
        })
    }

    pub(crate) const fn upgrades(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    pub(crate) const fn downgrades(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}

/// Settings of consumer groups (KIP-848). Their members have no say in them.
#[derive(Debug, Clone)]
pub struct ConsumerGroupConfig {
    /// `group.consumer.session.timeout.ms`
    pub session_timeout: Duration,
    /// `group.consumer.heartbeat.interval.ms`
    pub heartbeat_interval: Duration,
    /// `group.consumer.max.size`: members of one group.
    pub group_size_max: usize,
    /// `group.consumer.assignors`; a group whose members do not choose has the first.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.migration.policy`
    pub migration: MigrationPolicy,
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(5),
            group_size_max: i32::MAX.unsigned_abs() as usize,
            assignors: vec![Assignor::Uniform, Assignor::Range],
            migration: MigrationPolicy::Bidirectional,
        }
    }
}

/// Settings of share groups (KIP-932). Their members have no say in them.
#[derive(Debug, Clone)]
pub struct ShareGroupConfig {
    /// `group.share.session.timeout.ms`
    pub session_timeout: Duration,
    /// `group.share.heartbeat.interval.ms`
    pub heartbeat_interval: Duration,
    /// `group.share.max.size`: members of one group.
    pub group_size_max: usize,
}

impl Default for ShareGroupConfig {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(5),
            group_size_max: 200,
        }
    }
}

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
    /// `group.memory.max.bytes`: what all groups may take, with their members, subscriptions,
    /// assignments and committed offsets.
    pub memory_bytes: u64,
    /// `offsets.retention.minutes`
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`
    pub retention_check_interval: Duration,
    /// `offset.metadata.max.bytes`: the text that a commit may carry.
    pub offset_metadata_bytes_max: usize,
    /// Records that the log of one partition gathers before its live state is rewritten at its
    /// tail and the rest is trimmed. At least twice the live state is always allowed.
    pub rewrite_after_records: u64,
    /// `group.consumer.*`
    pub consumer: ConsumerGroupConfig,
    /// What is set for single groups; the other settings hold for those that do not set them.
    pub of_groups: GroupConfigs,
    /// `group.share.*`
    pub share: ShareGroupConfig,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            initial_rebalance_delay: Duration::ZERO,
            group_size_max: 10_000,
            memory_bytes: 256 * 1024 * 1024,
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
            retention_check_interval: Duration::from_secs(600),
            offset_metadata_bytes_max: 4_096,
            rewrite_after_records: 50_000,
            consumer: ConsumerGroupConfig::default(),
            of_groups: GroupConfigs::default(),
            share: ShareGroupConfig::default(),
        }
    }
}
