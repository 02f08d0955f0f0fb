//! Topic configurations over the broker's defaults, under Kafka's own names.

use std::{collections::BTreeMap, time::Duration};

use millrace_model::limits::BATCH_BYTES_MAX;
use millrace_record::TimestampType;

/// Defaults that a topic may override, and how topics come to be. One value per broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDefaults {
    /// `num.partitions`: partitions of a topic created without a count.
    pub num_partitions: u32,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `message.max.bytes`: the largest batch, in bytes with its header.
    pub message_max_bytes: usize,
    /// `log.message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `log.retention.ms`; -1 keeps records forever.
    pub retention_ms: i64,
    /// `log.retention.bytes`; -1 means no bound.
    pub retention_bytes: i64,
    /// `log.retention.check.interval.ms`: how often it is looked for records to delete.
    pub retention_check_interval: Duration,
    /// `offsets.topic.num.partitions`.
    pub offsets_topic_partitions: u32,
    /// `transaction.state.log.num.partitions`.
    pub transaction_topic_partitions: u32,
    /// `producer.id.expiration.ms`: a producer that has not written for this long is forgotten.
    pub producer_id_expiration_ms: i64,
    /// `producer.ids.max`: producers whose sequences are remembered, over all partitions. Each costs
    /// [`PRODUCER_BYTES`](crate::PRODUCER_BYTES) in every partition that it writes to.
    pub producer_ids_max: u64,
    /// `partitions.max`: partitions of all topics. Each costs
    /// [`PARTITION_BYTES`](crate::PARTITION_BYTES).
    pub partitions_max: u64,
}

impl Default for LogDefaults {
    fn default() -> Self {
        Self {
            num_partitions: 1,
            auto_create_topics: true,
            message_max_bytes: BATCH_BYTES_MAX,
            timestamp_type: TimestampType::CreateTime,
            retention_ms: 7 * 24 * 3_600 * 1_000,
            retention_bytes: -1,
            retention_check_interval: Duration::from_secs(300),
            offsets_topic_partitions: 8,
            transaction_topic_partitions: 8,
            producer_id_expiration_ms: 24 * 3_600 * 1_000,
            producer_ids_max: 1_000_000,
            partitions_max: 100_000,
        }
    }
}

/// A configuration that was not accepted. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicConfig {
    /// No such configuration.
    #[error("unknown topic config: {0}")]
    Unknown(String),
    /// Not a legal value.
    #[error("invalid value {value:?} for topic config {name}: expected {expected}")]
    Value {
        /// The configuration.
        name: String,
        /// What was given.
        value: String,
        /// What is legal.
        expected: &'static str,
    },
}

/// The configuration that a topic lives by: its overrides over the broker's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// `max.message.bytes`: the largest batch, in bytes with its header.
    pub max_message_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `retention.ms`; -1 keeps records forever.
    pub retention_ms: i64,
    /// `retention.bytes`; -1 means no bound.
    pub retention_bytes: i64,
    /// `cleanup.policy`: `delete`, `compact` or `compact,delete`.
    pub cleanup_policy: String,
    /// `compression.type`. Only `producer` and its synonyms of "leave as is" take effect.
    pub compression_type: String,
}

/// Configurations of Kafka that are stored and reported but that nothing here reads: they steer
/// segment files and replicas, which streams do not have.
const ACCEPTED_WITHOUT_EFFECT: &[&str] = &[
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "max.compaction.lag.ms",
    "message.downconversion.enable",
    "message.format.version",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.difference.max.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
];

impl TopicConfig {
    /// Lays a topic's overrides over the broker's defaults.
    ///
    /// # Errors
    /// Names the first configuration that is unknown or has an illegal value.
    pub fn resolve(
        defaults: &LogDefaults,
        overrides: &BTreeMap<String, String>,
    ) -> Result<Self, InvalidTopicConfig> {
        let mut config = Self::of_defaults(defaults);
        for (name, value) in overrides {
            config.set(name, value)?;
        }
        Ok(config)
    }

    /// What a topic lives by that sets nothing itself.
    pub(crate) fn of_defaults(defaults: &LogDefaults) -> Self {
        Self {
            max_message_bytes: defaults.message_max_bytes,
            timestamp_type: defaults.timestamp_type,
            retention_ms: defaults.retention_ms,
            retention_bytes: defaults.retention_bytes,
            cleanup_policy: "delete".to_owned(),
            compression_type: "producer".to_owned(),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidTopicConfig> {
        let illegal = |expected| InvalidTopicConfig::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let from_minus_one = || {
            let number = value.parse::<i64>().ok().filter(|&n| n >= -1);
            number.ok_or_else(|| illegal("a whole number, -1 or above"))
        };
        match name {
            "max.message.bytes" => {
                let bytes = value
                    .parse::<i32>()
                    .ok()
                    .and_then(|n| usize::try_from(n).ok());
                self.max_message_bytes = bytes.ok_or_else(|| illegal("0 to 2147483647"))?;
            }
            "message.timestamp.type" => {
                self.timestamp_type = match value {
                    "CreateTime" => TimestampType::CreateTime,
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => return Err(illegal("CreateTime or LogAppendTime")),
                };
            }
            "retention.ms" => self.retention_ms = from_minus_one()?,
            "retention.bytes" => self.retention_bytes = from_minus_one()?,
            "cleanup.policy" => {
                let legal = |word: &str| matches!(word.trim(), "delete" | "compact");
                if value.is_empty() || !value.split(',').all(legal) {
                    return Err(illegal("delete, compact or both, separated by a comma"));
                }
                value.clone_into(&mut self.cleanup_policy);
            }
            "compression.type" => {
                const TYPES: &[&str] =
                    &["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"];
                if !TYPES.contains(&value) {
                    return Err(illegal("producer, uncompressed, gzip, snappy, lz4 or zstd"));
                }
                value.clone_into(&mut self.compression_type);
            }
            _ if ACCEPTED_WITHOUT_EFFECT.contains(&name) => {}
            _ => return Err(InvalidTopicConfig::Unknown(name.to_owned())),
        }
        Ok(())
    }

    /// Whether old records are deleted: `cleanup.policy` names `delete`. Compaction is not built:
    /// a topic that names `compact` alone keeps every record.
    #[must_use]
    pub fn deletes(&self) -> bool {
        let mut words = self.cleanup_policy.split(',').map(str::trim);
        words.any(|word| word == "delete")
    }

    /// The configurations that take effect, as Kafka names and prints them.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cleanup.policy", self.cleanup_policy.clone()),
            ("compression.type", self.compression_type.clone()),
            ("max.message.bytes", self.max_message_bytes.to_string()),
            (
                "message.timestamp.type",
                timestamp_type_name(self.timestamp_type).to_owned(),
            ),
            ("retention.bytes", self.retention_bytes.to_string()),
            ("retention.ms", self.retention_ms.to_string()),
        ]
    }
}

/// Kafka's word for whose clock stamps records.
const fn timestamp_type_name(kind: TimestampType) -> &'static str {
    match kind {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(name: &str, value: &str) -> Result<TopicConfig, InvalidTopicConfig> {
        let overrides = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        TopicConfig::resolve(&LogDefaults::default(), &overrides)
    }

    #[test]
    fn overrides_win_over_defaults() {
        let plain = TopicConfig::resolve(&LogDefaults::default(), &BTreeMap::new());
        assert_eq!(
            plain.expect("defaults are legal").max_message_bytes,
            BATCH_BYTES_MAX
        );
        let config = resolve("max.message.bytes", "100").expect("legal");
        assert_eq!(config.max_message_bytes, 100);
        let config = resolve("message.timestamp.type", "LogAppendTime").expect("legal");
        assert_eq!(config.timestamp_type, TimestampType::LogAppendTime);
        let config = resolve("cleanup.policy", "compact, delete").expect("legal");
        assert_eq!(config.cleanup_policy, "compact, delete");
        assert!(config.deletes());
        let compact = resolve("cleanup.policy", "compact").expect("legal");
        assert!(!compact.deletes());
    }

    #[test]
    fn illegal_values_are_named() {
        for (name, value) in [
            ("max.message.bytes", "-1"),
            ("retention.ms", "-2"),
            ("retention.bytes", "1k"),
            ("cleanup.policy", ""),
            ("cleanup.policy", "compact,burn"),
            ("compression.type", "rar"),
            ("message.timestamp.type", "Now"),
        ] {
            let error = resolve(name, value).expect_err("illegal");
            assert!(matches!(error, InvalidTopicConfig::Value { name: n, .. } if n == name));
        }
        assert_eq!(
            resolve("colour", "red"),
            Err(InvalidTopicConfig::Unknown("colour".into()))
        );
    }

    #[test]
    fn what_is_reported_can_be_set_again() {
        let config = resolve("retention.ms", "5").expect("legal");
        let overrides = config
            .entries()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        assert_eq!(
            TopicConfig::resolve(&LogDefaults::default(), &overrides),
            Ok(config)
        );
    }
}
