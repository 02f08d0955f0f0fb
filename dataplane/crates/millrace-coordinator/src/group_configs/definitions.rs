//! The configurations that a group may have: those of Apache Kafka 4.1.

use std::{collections::BTreeMap, time::Duration};

use super::{
    AllowedTime, GroupConfigLimits, GroupOverrides, ShareIsolation, ShareOffsetReset, duration,
};

/// What Kafka calls a duration as a value of `share.auto.offset.reset`.
const BY_DURATION: &str = "by_duration:";

/// Groups of Kafka Streams (KIP-1071) have configurations of their own.
const STREAMS_PREFIX: &str = "streams.";

/// What kind of value a configuration has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupConfigKind {
    /// A whole number of 32 bits.
    Int,
    /// A text.
    String,
}

/// One configuration of a group.
#[derive(Debug)]
pub struct GroupConfigDefinition {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub documentation: &'static str,
    /// The broker's property that holds where the group does not set it, if there is one.
    pub broker_property: Option<&'static str>,
    value: Value,
}

/// A configuration that a group may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGroupConfig {
    /// There is no such configuration.
    #[error("Unknown group config name: {0}")]
    Unknown(String),
    /// It belongs to a kind of group that there is not.
    #[error("{0} cannot be set: this cluster has no streams groups")]
    Streams(String),
    /// The value is of another kind, or none of those that there are.
    #[error("Invalid value {value} for configuration {name}: {problem}")]
    Value {
        /// The configuration.
        name: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The broker does not allow less.
    #[error("{name} must be greater than or equal to {bound}")]
    TooSmall {
        /// The configuration.
        name: &'static str,
        /// The broker's property.
        bound: &'static str,
    },
    /// The broker does not allow more.
    #[error("{name} must be less than or equal to {bound}")]
    TooLarge {
        /// The configuration.
        name: &'static str,
        /// The broker's property.
        bound: &'static str,
    },
    /// Members would time out between two heartbeats.
    #[error("{session} must be greater than {heartbeat}")]
    SessionTooShort {
        /// The configuration of the session timeout.
        session: &'static str,
        /// The configuration of the heartbeat interval.
        heartbeat: &'static str,
    },
}

#[derive(Debug)]
enum Value {
    Time(Time),
    OffsetReset,
    Isolation,
}

/// A time in milliseconds, with the broker's properties that bound it.
#[derive(Debug)]
struct Time {
    min_key: &'static str,
    max_key: &'static str,
    allowed: fn(&GroupConfigLimits) -> AllowedTime,
    place: fn(&mut GroupOverrides) -> &mut Option<Duration>,
}

impl GroupConfigDefinition {
    /// A time that overrides a property of the broker, within two others of its properties.
    const fn time(
        (name, documentation): (&'static str, &'static str),
        [broker_property, min_key, max_key]: [&'static str; 3],
        allowed: fn(&GroupConfigLimits) -> AllowedTime,
        place: fn(&mut GroupOverrides) -> &mut Option<Duration>,
    ) -> Self {
        Self {
            name,
            documentation,
            broker_property: Some(broker_property),
            value: Value::Time(Time {
                min_key,
                max_key,
                allowed,
                place,
            }),
        }
    }
}

static DEFINITIONS: [GroupConfigDefinition; 7] = [
    GroupConfigDefinition::time(
        (
            "consumer.session.timeout.ms",
            "The time after which a member of a consumer group that sends no heartbeat is removed.",
        ),
        [
            "group.consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ],
        |limits| limits.consumer_session_timeout,
        |set| &mut set.consumer_session_timeout,
    ),
    GroupConfigDefinition::time(
        (
            "consumer.heartbeat.interval.ms",
            "How often members of a consumer group are told to send heartbeats.",
        ),
        [
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ],
        |limits| limits.consumer_heartbeat_interval,
        |set| &mut set.consumer_heartbeat_interval,
    ),
    GroupConfigDefinition::time(
        (
            "share.session.timeout.ms",
            "The time after which a member of a share group that sends no heartbeat is removed.",
        ),
        [
            "group.share.session.timeout.ms",
            "group.share.min.session.timeout.ms",
            "group.share.max.session.timeout.ms",
        ],
        |limits| limits.share_session_timeout,
        |set| &mut set.share_session_timeout,
    ),
    GroupConfigDefinition::time(
        (
            "share.heartbeat.interval.ms",
            "How often members of a share group are told to send heartbeats.",
        ),
        [
            "group.share.heartbeat.interval.ms",
            "group.share.min.heartbeat.interval.ms",
            "group.share.max.heartbeat.interval.ms",
        ],
        |limits| limits.share_heartbeat_interval,
        |set| &mut set.share_heartbeat_interval,
    ),
    GroupConfigDefinition::time(
        (
            "share.record.lock.duration.ms",
            "How long a record that a member of a share group has acquired is locked for the others.",
        ),
        [
            "group.share.record.lock.duration.ms",
            "group.share.min.record.lock.duration.ms",
            "group.share.max.record.lock.duration.ms",
        ],
        |limits| limits.share_record_lock_duration,
        |set| &mut set.share_record_lock_duration,
    ),
    GroupConfigDefinition {
        name: "share.auto.offset.reset",
        documentation: "Where a share group begins in a partition that it has not read: earliest, latest, or \
                        by_duration:PnDTnHnMn.nS for the records of the last so much time.",
        broker_property: None,
        value: Value::OffsetReset,
    },
    GroupConfigDefinition {
        name: "share.isolation.level",
        documentation: "Whether a share group reads all transactional records (read_uncommitted) or those of committed \
                        transactions only (read_committed).",
        broker_property: None,
        value: Value::Isolation,
    },
];

impl GroupConfigDefinition {
    /// All configurations.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &DEFINITIONS
    }

    /// What kind of value it has.
    #[must_use]
    pub fn kind(&self) -> GroupConfigKind {
        match self.value {
            Value::Time(_) => GroupConfigKind::Int,
            Value::OffsetReset | Value::Isolation => GroupConfigKind::String,
        }
    }

    /// What holds where a group does not set it.
    #[must_use]
    pub fn default(&self, limits: &GroupConfigLimits) -> String {
        match &self.value {
            Value::Time(time) => (time.allowed)(limits).default.as_millis().to_string(),
            Value::OffsetReset => "latest".to_owned(),
            Value::Isolation => "read_uncommitted".to_owned(),
        }
    }

    /// Whether a group may set it to this value, whatever else it sets.
    ///
    /// # Errors
    /// See [`InvalidGroupConfig`].
    pub fn check(&self, value: &str, limits: &GroupConfigLimits) -> Result<(), InvalidGroupConfig> {
        self.set(value, limits, &mut GroupOverrides::default())
    }

    fn set(
        &self,
        text: &str,
        limits: &GroupConfigLimits,
        overrides: &mut GroupOverrides,
    ) -> Result<(), InvalidGroupConfig> {
        let invalid = |problem| InvalidGroupConfig::Value {
            name: self.name,
            value: text.to_owned(),
            problem,
        };
        match &self.value {
            Value::Time(time) => {
                let millis = text.trim().parse::<i32>();
                let millis = millis.map_err(|_| invalid("Not a number of type INT"))?;
                let millis =
                    u64::try_from(millis).map_err(|_| invalid("Value must be at least 1"))?;
                let value = Duration::from_millis(millis);
                time.check(self.name, value, limits)?;
                *(time.place)(overrides) = Some(value);
            }
            Value::OffsetReset => {
                let reset = offset_reset(text.trim()).ok_or_else(|| {
                    invalid("must be earliest, latest or by_duration:PnDTnHnMn.nS")
                })?;
                overrides.share_auto_offset_reset = Some(reset);
            }
            Value::Isolation => {
                overrides.share_isolation = Some(match text.trim() {
                    "read_uncommitted" => ShareIsolation::ReadUncommitted,
                    "read_committed" => ShareIsolation::ReadCommitted,
                    _ => return Err(invalid("must be read_committed or read_uncommitted")),
                });
            }
        }
        Ok(())
    }
}

impl Time {
    fn check(
        &self,
        name: &'static str,
        value: Duration,
        limits: &GroupConfigLimits,
    ) -> Result<(), InvalidGroupConfig> {
        let allowed = (self.allowed)(limits);
        if value < allowed.min {
            let bound = self.min_key;
            return Err(InvalidGroupConfig::TooSmall { name, bound });
        }
        if value > allowed.max {
            let bound = self.max_key;
            return Err(InvalidGroupConfig::TooLarge { name, bound });
        }
        Ok(())
    }
}

/// Upper and lower case are the same, as in Kafka.
fn offset_reset(text: &str) -> Option<ShareOffsetReset> {
    match text.to_ascii_lowercase().as_str() {
        "earliest" => Some(ShareOffsetReset::Earliest),
        "latest" => Some(ShareOffsetReset::Latest),
        text => duration::parse(text.strip_prefix(BY_DURATION)?).map(ShareOffsetReset::ByDuration),
    }
}

/// See [`super::GroupConfigs::validate`].
pub(super) fn validate(
    configs: &BTreeMap<String, String>,
    limits: &GroupConfigLimits,
) -> Result<(), InvalidGroupConfig> {
    let mut set = GroupOverrides::default();
    for (name, value) in configs {
        let definition = DEFINITIONS.iter().find(|d| d.name == name.as_str());
        let definition = definition.ok_or_else(|| match name.starts_with(STREAMS_PREFIX) {
            true => InvalidGroupConfig::Streams(name.clone()),
            false => InvalidGroupConfig::Unknown(name.clone()),
        })?;
        definition.set(value, limits, &mut set)?;
    }
    let pairs = [
        (
            ("consumer.session.timeout.ms", set.consumer_session_timeout),
            limits.consumer_session_timeout,
            (
                "consumer.heartbeat.interval.ms",
                set.consumer_heartbeat_interval,
            ),
            limits.consumer_heartbeat_interval,
        ),
        (
            ("share.session.timeout.ms", set.share_session_timeout),
            limits.share_session_timeout,
            ("share.heartbeat.interval.ms", set.share_heartbeat_interval),
            limits.share_heartbeat_interval,
        ),
    ];
    for ((session, timeout), timeout_allowed, (heartbeat, interval), interval_allowed) in pairs {
        let is_set = timeout.is_some() || interval.is_some();
        let timeout = timeout.unwrap_or(timeout_allowed.default);
        let interval = interval.unwrap_or(interval_allowed.default);
        if is_set && timeout <= interval {
            return Err(InvalidGroupConfig::SessionTooShort { session, heartbeat });
        }
    }
    Ok(())
}

/// What is set for a group that sets these. What is not legal is left out.
pub(super) fn overrides(
    configs: &BTreeMap<String, String>,
    limits: &GroupConfigLimits,
) -> GroupOverrides {
    let mut overrides = GroupOverrides::default();
    for definition in &DEFINITIONS {
        if let Some(value) = configs.get(definition.name) {
            // An older broker, or one with other limits, may have accepted it.
            drop(definition.set(value, limits, &mut overrides));
        }
    }
    overrides
}
