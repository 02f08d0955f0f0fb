//! Topic configurations over the broker's defaults, under Kafka's own names.

mod definitions;

use std::{collections::BTreeMap, time::Duration};

use millrace_model::limits::BATCH_BYTES_MAX;
use millrace_record::{Compression, TimestampType};

use self::definitions::elements;
pub use self::definitions::{ConfigKind, TopicConfigDefinition};

/// Kafka's default level of LZ4, which stands for LZ4's fast compressor.
const LZ4_LEVEL_DEFAULT: i32 = 9;

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
    /// What the broker sets for topic configurations that have no field here, by the topic's name for it. The values are
    /// legal ([`TopicConfig::check`]).
    pub topic: BTreeMap<&'static str, String>,
    /// `log.retention.check.interval.ms`: how often it is looked for records to delete.
    pub retention_check_interval: Duration,
    /// `offsets.topic.num.partitions`.
    pub offsets_topic_partitions: u32,
    /// `transaction.state.log.num.partitions`.
    pub transaction_topic_partitions: u32,
    /// `share.coordinator.state.topic.num.partitions`.
    pub share_state_topic_partitions: u32,
    /// `producer.id.expiration.ms`: a producer that has not written for this long is forgotten.
    pub producer_id_expiration_ms: i64,
    /// `producer.ids.max`: producers whose sequences are remembered, over all partitions. Each costs
    /// [`PRODUCER_BYTES`](crate::PRODUCER_BYTES) in every partition that it writes to. Transactions that are open or were
    /// aborted take their memory from the same budget.
    pub producer_ids_max: u64,
    /// `partitions.max`: partitions of all topics. Each costs
    /// [`PARTITION_BYTES`](crate::PARTITION_BYTES).
    pub partitions_max: u64,
    /// `log.cleaner.enable`: whether topics are compacted.
    pub cleaner_enabled: bool,
    /// `log.cleaner.dedupe.buffer.size`: the memory for the keys of one cleaning, bytes. A cleaning that meets more keys ends there, and
    /// the next one goes on.
    pub cleaner_dedupe_bytes: u64,
    /// `log.cleaner.backoff.ms`: the pause between two looks at what is due.
    pub cleaner_backoff: Duration,
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
            topic: BTreeMap::new(),
            retention_check_interval: Duration::from_secs(300),
            offsets_topic_partitions: 8,
            transaction_topic_partitions: 8,
            share_state_topic_partitions: 50,
            producer_id_expiration_ms: 24 * 3_600 * 1_000,
            producer_ids_max: 1_000_000,
            partitions_max: 100_000,
            cleaner_enabled: true,
            cleaner_dedupe_bytes: 16 * 1024 * 1024,
            cleaner_backoff: Duration::from_secs(15),
        }
    }
}

/// A configuration that was not accepted. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicConfig {
    /// No such configuration.
    #[error("unknown topic config name: {0}")]
    Unknown(String),
    /// Not a legal value.
    #[error("invalid value {value:?} for topic config {name}: expected {expected}")]
    Value {
        /// The configuration.
        name: String,
        /// What was given.
        value: String,
        /// What is legal, and why other values are not.
        expected: String,
    },
    /// The shortest time before compaction is longer than the longest.
    #[error(
        "conflicting topic configs: min.compaction.lag.ms is {min_ms}, max.compaction.lag.ms only \
         {max_ms}"
    )]
    CompactionLag {
        /// `min.compaction.lag.ms`
        min_ms: i64,
        /// `max.compaction.lag.ms`
        max_ms: i64,
    },
}

/// The configuration that a topic lives by: its overrides over the broker's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// `max.message.bytes`: the largest batch, in bytes with its header.
    pub max_message_bytes: usize,
    /// `segment.bytes`: no batch may be larger.
    pub segment_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a record's create time may be in the past.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a record's create time may be in the future.
    pub timestamp_after_max_ms: i64,
    /// `retention.ms`; -1 keeps records forever.
    pub retention_ms: i64,
    /// `retention.bytes`; -1 means no bound.
    pub retention_bytes: i64,
    /// `cleanup.policy`: `delete`, `compact`, `compact,delete` or nothing.
    pub cleanup_policy: String,
    /// `compression.type`: what batches are compressed with; `None` is `producer`, which leaves them as they are.
    pub compression: Option<Compression>,
    /// `compression.gzip.level`, `compression.lz4.level` and `compression.zstd.level`.
    pub compression_levels: CompressionLevels,
    /// `segment.ms`
    pub(crate) segment_ms: i64,
    /// `min.cleanable.dirty.ratio`, as its bits, so that configurations can be compared.
    min_cleanable_dirty_ratio: u64,
    /// `min.compaction.lag.ms`
    pub(crate) min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`
    pub(crate) max_compaction_lag_ms: i64,
    /// `delete.retention.ms`
    pub(crate) delete_retention_ms: i64,
}

/// The levels at which the broker compresses, as Kafka numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionLevels {
    gzip: i32,
    lz4: i32,
    zstd: i32,
}

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
        config.check_compaction_lag()?;
        Ok(config)
    }

    /// The same for overrides that are stored: an older broker may have accepted what is not legal any more. Such overrides
    /// are skipped, and given with what is wrong.
    pub(crate) fn resolve_stored(
        defaults: &LogDefaults,
        overrides: &BTreeMap<String, String>,
    ) -> (Self, Vec<InvalidTopicConfig>) {
        let mut config = Self::of_defaults(defaults);
        let set = overrides
            .iter()
            .map(|(name, value)| config.set(name, value));
        let skipped = set.filter_map(Result::err).collect();
        (config, skipped)
    }

    /// What a topic lives by that sets nothing itself.
    pub(crate) fn of_defaults(defaults: &LogDefaults) -> Self {
        let mut config = Self {
            max_message_bytes: defaults.message_max_bytes,
            segment_bytes: 1 << 30,
            timestamp_type: defaults.timestamp_type,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            retention_ms: defaults.retention_ms,
            retention_bytes: defaults.retention_bytes,
            cleanup_policy: "delete".to_owned(),
            compression: None,
            compression_levels: CompressionLevels {
                gzip: -1,
                lz4: LZ4_LEVEL_DEFAULT,
                zstd: 3,
            },
            segment_ms: 7 * 24 * 3_600 * 1_000,
            min_cleanable_dirty_ratio: 0.5_f64.to_bits(),
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            delete_retention_ms: 24 * 3_600 * 1_000,
        };
        for (name, value) in &defaults.topic {
            let set = config.set(name, value);
            debug_assert_eq!(set, Ok(()), "checked when the broker read its file");
        }
        config
    }

    /// Whether the configuration exists and the value is legal for it.
    ///
    /// # Errors
    /// It does not, or is not.
    pub fn check(name: &str, value: &str) -> Result<(), InvalidTopicConfig> {
        let unknown = || InvalidTopicConfig::Unknown(name.to_owned());
        let definition = TopicConfigDefinition::find(name).ok_or_else(unknown)?;
        let legal = definition.check(value);
        legal.map_err(|expected| InvalidTopicConfig::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            expected,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidTopicConfig> {
        Self::check(name, value)?;
        let value = value.trim();
        let long = || value.parse::<i64>().expect("checked");
        let int = || value.parse::<i32>().expect("checked");
        let bytes = || value.parse::<usize>().expect("checked");
        match name {
            "max.message.bytes" => self.max_message_bytes = bytes(),
            "segment.bytes" => self.segment_bytes = bytes(),
            "message.timestamp.type" => {
                self.timestamp_type = match value {
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => TimestampType::CreateTime,
                };
            }
            "message.timestamp.before.max.ms" => self.timestamp_before_max_ms = long(),
            "message.timestamp.after.max.ms" => self.timestamp_after_max_ms = long(),
            "retention.ms" => self.retention_ms = long(),
            "retention.bytes" => self.retention_bytes = long(),
            "cleanup.policy" => value.clone_into(&mut self.cleanup_policy),
            "compression.type" => self.compression = codec(value),
            "compression.gzip.level" => self.compression_levels.gzip = int(),
            "compression.lz4.level" => self.compression_levels.lz4 = int(),
            "compression.zstd.level" => self.compression_levels.zstd = int(),
            "segment.ms" => self.segment_ms = long(),
            "min.cleanable.dirty.ratio" => {
                let ratio = value.parse::<f64>().expect("checked");
                self.min_cleanable_dirty_ratio = ratio.to_bits();
            }
            "delete.retention.ms" => self.delete_retention_ms = long(),
            "min.compaction.lag.ms" => self.min_compaction_lag_ms = long(),
            "max.compaction.lag.ms" => self.max_compaction_lag_ms = long(),
            // What it asks for holds anyway.
            _ => {}
        }
        Ok(())
    }

    fn check_compaction_lag(&self) -> Result<(), InvalidTopicConfig> {
        let (min_ms, max_ms) = (self.min_compaction_lag_ms, self.max_compaction_lag_ms);
        match min_ms > max_ms {
            true => Err(InvalidTopicConfig::CompactionLag { min_ms, max_ms }),
            false => Ok(()),
        }
    }

    /// Whether only the last record of every key is kept: `cleanup.policy` names `compact`.
    #[must_use]
    pub fn compacts(&self) -> bool {
        elements(&self.cleanup_policy).any(|word| word == "compact")
    }

    /// `min.cleanable.dirty.ratio`
    pub(crate) fn min_cleanable_dirty_ratio(&self) -> f64 {
        f64::from_bits(self.min_cleanable_dirty_ratio)
    }

    /// Whether old records are deleted: `cleanup.policy` names `delete`.
    #[must_use]
    pub fn deletes(&self) -> bool {
        elements(&self.cleanup_policy).any(|word| word == "delete")
    }

    /// What a batch that was sent with `sent` is compressed with, and at which level; `None` where it stays as it is.
    #[must_use]
    pub fn recompression(&self, sent: Compression) -> Option<(Compression, Option<i32>)> {
        let target = self.compression.filter(|&target| target != sent)?;
        let levels = self.compression_levels;
        let level = match target {
            Compression::Gzip => Some(levels.gzip).filter(|&level| level >= 0),
            Compression::Lz4 => Some(levels.lz4).filter(|&level| level != LZ4_LEVEL_DEFAULT),
            Compression::Zstd => Some(levels.zstd),
            Compression::None | Compression::Snappy => None,
        };
        Some((target, level))
    }

    /// The configurations that the broker may have a default for, as Kafka names and prints them.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cleanup.policy", self.cleanup_policy.clone()),
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

/// Kafka's words for codecs; `None` is the producer's.
fn codec(name: &str) -> Option<Compression> {
    match name {
        "uncompressed" => Some(Compression::None),
        "gzip" => Some(Compression::Gzip),
        "snappy" => Some(Compression::Snappy),
        "lz4" => Some(Compression::Lz4),
        "zstd" => Some(Compression::Zstd),
        _ => None,
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

    /// Clients are told the definitions' defaults.
    #[test]
    fn the_defaults_are_those_of_the_definitions() {
        let defaults = LogDefaults::default();
        let all = TopicConfigDefinition::all().iter();
        let set = all.map(|one| (one.name.to_owned(), one.default.to_owned()));
        let config = TopicConfig::resolve(&defaults, &set.collect()).expect("legal");
        assert_eq!(config, TopicConfig::of_defaults(&defaults));
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
    fn without_a_policy_records_are_kept() {
        assert!(!resolve("cleanup.policy", "").expect("legal").deletes());
    }

    #[test]
    fn compaction_lags_must_not_conflict() {
        let overrides = [
            ("min.compaction.lag.ms", "2"),
            ("max.compaction.lag.ms", "1"),
        ];
        let overrides = overrides.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let overrides = BTreeMap::from(overrides);
        let conflict = TopicConfig::resolve(&LogDefaults::default(), &overrides);
        let error = InvalidTopicConfig::CompactionLag {
            min_ms: 2,
            max_ms: 1,
        };
        assert_eq!(conflict, Err(error));
    }

    #[test]
    fn the_brokers_defaults_hold_under_the_topics_own() {
        let defaults = LogDefaults {
            topic: BTreeMap::from([
                ("compression.type", "zstd".to_owned()),
                ("compression.zstd.level", "7".to_owned()),
            ]),
            ..LogDefaults::default()
        };
        let overrides = BTreeMap::from([("compression.zstd.level".to_owned(), "9".to_owned())]);
        for (overrides, level) in [(BTreeMap::new(), 7), (overrides, 9)] {
            let config = TopicConfig::resolve(&defaults, &overrides).expect("legal");
            let expected = Some((Compression::Zstd, Some(level)));
            assert_eq!(config.recompression(Compression::Lz4), expected);
            assert_eq!(config.recompression(Compression::Zstd), None);
        }
    }

    #[test]
    fn what_an_older_broker_stored_is_skipped_where_it_is_not_legal() {
        let stored = [
            ("message.format.version", "3.0"),
            ("preallocate", "true"),
            ("retention.ms", "5"),
        ];
        let stored = stored.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (config, skipped) =
            TopicConfig::resolve_stored(&LogDefaults::default(), &BTreeMap::from(stored));
        assert_eq!((config.retention_ms, skipped.len()), (5, 2));
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
