//! Configurations of single groups, which hold over the broker's settings: ConfigResource type GROUP.
//!
//! [`GroupConfigs`] is the seam. Whoever stores the configurations replaces all of them; coordinators read those of a group
//! whenever they need a value, so a change takes effect with the next one.

mod definitions;
mod duration;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::RwLock;

pub use self::definitions::{GroupConfigDefinition, GroupConfigKind, InvalidGroupConfig};

/// A time that a group may set: the broker's own, and the least and longest that it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedTime {
    /// What holds for groups that do not set it.
    pub default: Duration,
    /// The least that a group may set.
    pub min: Duration,
    /// The longest that a group may set.
    pub max: Duration,
}

impl AllowedTime {
    const fn millis(default: u64, min: u64, max: u64) -> Self {
        Self {
            default: Duration::from_millis(default),
            min: Duration::from_millis(min),
            max: Duration::from_millis(max),
        }
    }
}

/// The broker's settings that groups may override. The names in quotes are its properties; each has a `min` and a `max`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfigLimits {
    /// `group.consumer.session.timeout.ms`
    pub consumer_session_timeout: AllowedTime,
    /// `group.consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval: AllowedTime,
    /// `group.share.session.timeout.ms`
    pub share_session_timeout: AllowedTime,
    /// `group.share.heartbeat.interval.ms`
    pub share_heartbeat_interval: AllowedTime,
    /// `group.share.record.lock.duration.ms`
    pub share_record_lock_duration: AllowedTime,
}

/// Kafka's defaults.
impl Default for GroupConfigLimits {
    fn default() -> Self {
        Self {
            consumer_session_timeout: AllowedTime::millis(45_000, 45_000, 60_000),
            consumer_heartbeat_interval: AllowedTime::millis(5_000, 5_000, 15_000),
            share_session_timeout: AllowedTime::millis(45_000, 45_000, 60_000),
            share_heartbeat_interval: AllowedTime::millis(5_000, 5_000, 15_000),
            share_record_lock_duration: AllowedTime::millis(30_000, 15_000, 60_000),
        }
    }
}

/// Where a share group begins in a partition that it has not read: `share.auto.offset.reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareOffsetReset {
    /// At the first record.
    Earliest,
    /// Behind the last record.
    Latest,
    /// At the first record that is not older than this.
    ByDuration(Duration),
}

/// Which transactional records a share group reads: `share.isolation.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareIsolation {
    /// All.
    ReadUncommitted,
    /// Those of transactions that were committed.
    ReadCommitted,
}

/// What is set for one group; nothing where the broker's setting holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupOverrides {
    /// `consumer.session.timeout.ms`
    pub consumer_session_timeout: Option<Duration>,
    /// `consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval: Option<Duration>,
    /// `share.session.timeout.ms`
    pub share_session_timeout: Option<Duration>,
    /// `share.heartbeat.interval.ms`
    pub share_heartbeat_interval: Option<Duration>,
    /// `share.record.lock.duration.ms`
    pub share_record_lock_duration: Option<Duration>,
    /// `share.auto.offset.reset`
    pub share_auto_offset_reset: Option<ShareOffsetReset>,
    /// `share.isolation.level`
    pub share_isolation: Option<ShareIsolation>,
}

/// The settings of one share group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareGroupSettings {
    /// After this long without a heartbeat, a member is removed.
    pub session_timeout: Duration,
    /// How often members are to send heartbeats.
    pub heartbeat_interval: Duration,
}

/// The configurations of all groups. Cheap to clone; all clones show the same.
#[derive(Clone)]
pub struct GroupConfigs(Arc<Inner>);

struct Inner {
    limits: GroupConfigLimits,
    overrides: RwLock<HashMap<String, GroupOverrides>>,
}

impl GroupConfigs {
    /// Nothing is set for any group.
    #[must_use]
    pub fn new(limits: GroupConfigLimits) -> Self {
        Self(Arc::new(Inner {
            limits,
            overrides: RwLock::default(),
        }))
    }

    /// The settings that groups may override.
    #[must_use]
    pub fn limits(&self) -> &GroupConfigLimits {
        &self.0.limits
    }

    /// What is set for a group.
    #[must_use]
    pub fn overrides(&self, group: &str) -> GroupOverrides {
        let all = self.0.overrides.read();
        all.get(group).copied().unwrap_or_default()
    }

    /// What holds for a share group.
    #[must_use]
    pub fn share(&self, group: &str) -> ShareGroupSettings {
        let (set, limits) = (self.overrides(group), &self.0.limits);
        let time = |set: Option<Duration>, allowed: AllowedTime| set.unwrap_or(allowed.default);
        ShareGroupSettings {
            session_timeout: time(set.share_session_timeout, limits.share_session_timeout),
            heartbeat_interval: time(
                set.share_heartbeat_interval,
                limits.share_heartbeat_interval,
            ),
        }
    }

    /// Replaces the configurations of all groups. A value that is not legal (any more) has no effect.
    pub fn replace<'a>(
        &self,
        all: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
    ) {
        let limits = &self.0.limits;
        let overrides = all.into_iter().filter_map(|(group, configs)| {
            let overrides = definitions::overrides(configs, limits);
            (overrides != GroupOverrides::default()).then(|| (group.to_owned(), overrides))
        });
        let overrides = overrides.collect();
        *self.0.overrides.write() = overrides;
    }

    /// Whether a group may set these configurations and no others.
    ///
    /// # Errors
    /// See [`InvalidGroupConfig`].
    pub fn validate(&self, configs: &BTreeMap<String, String>) -> Result<(), InvalidGroupConfig> {
        definitions::validate(configs, &self.0.limits)
    }
}

impl Default for GroupConfigs {
    fn default() -> Self {
        Self::new(GroupConfigLimits::default())
    }
}

impl fmt::Debug for GroupConfigs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupConfigs")
            .field("groups", &self.0.overrides.read().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
