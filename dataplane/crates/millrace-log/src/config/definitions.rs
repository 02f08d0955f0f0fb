//! The topic configurations of Apache Kafka 4: type, default, legal values, and what each means here.
//!
//! A value is accepted only if the broker acts on it, or if what it asks for holds anyway. For
//! example, `flush.messages` asks for records to be durable after so many of them; here they are
//! durable before they are acknowledged. All other values are rejected with a reason. Configurations
//! that Kafka 4 removed are unknown here, too.

use std::fmt;

/// What kind of value a configuration has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// `true` or `false`.
    Boolean,
    /// One of several words.
    String,
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 64 bits.
    Long,
    /// A decimal number.
    Double,
    /// Texts, separated by commas.
    List,
}

/// A property of the broker that gives a topic configuration its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerSynonym {
    /// The property.
    pub name: &'static str,
    /// By what its value is multiplied: hours are milliseconds for the topic.
    pub unit: i64,
}

impl BrokerSynonym {
    /// The property's value in the topic's unit. What is not a number stays as it is.
    #[must_use]
    pub fn to_topic(self, value: &str) -> String {
        match value.trim().parse::<i64>() {
            Ok(number) if self.unit > 1 => number.saturating_mul(self.unit).to_string(),
            _ => value.trim().to_owned(),
        }
    }

    /// The topic's value in the property's unit.
    #[must_use]
    pub fn of_topic(self, value: &str) -> String {
        match value.parse::<i64>() {
            Ok(number) if self.unit > 1 => (number / self.unit).to_string(),
            _ => value.to_owned(),
        }
    }
}

/// One topic configuration.
#[derive(Debug)]
pub struct TopicConfigDefinition {
    /// Its name.
    pub name: &'static str,
    /// What kind of value it has.
    pub kind: ConfigKind,
    /// What holds where nobody sets it.
    pub default: &'static str,
    /// The broker's properties that give it another default, the one that wins first.
    pub synonyms: &'static [BrokerSynonym],
    /// What it does.
    pub documentation: &'static str,
    legal: Legal,
}

/// Which values are legal.
#[derive(Debug, Clone, Copy)]
enum Legal {
    Flag,
    /// `true` asks for what there is not.
    False {
        because: &'static str,
    },
    Number {
        min: i64,
        max: i64,
        because: &'static str,
    },
    /// A number of the range, or this one besides.
    NumberOr(i64, i64, i64),
    Ratio,
    OneOf(&'static [&'static str]),
    AnyOf(&'static [&'static str]),
    /// `*`, or pairs of a partition and a broker.
    ThrottledReplicas,
}

impl Legal {
    const fn at_least(min: i64) -> Self {
        Self::Number {
            min,
            max: i64::MAX,
            because: "",
        }
    }

    const fn int_at_least(min: i64) -> Self {
        Self::range(min, i32::MAX as i64)
    }

    const fn range(min: i64, max: i64) -> Self {
        Self::Number {
            min,
            max,
            because: "",
        }
    }

    fn allows(self, value: &str) -> bool {
        let number = value.parse::<i64>();
        match self {
            Self::Flag => flag(value).is_some(),
            Self::False { .. } => flag(value) == Some(false),
            Self::Number { min, max, .. } => number.is_ok_and(|n| (min..=max).contains(&n)),
            Self::NumberOr(other, min, max) => {
                number.is_ok_and(|n| n == other || (min..=max).contains(&n))
            }
            Self::Ratio => value.parse().is_ok_and(|n: f64| (0.0..=1.0).contains(&n)),
            Self::OneOf(words) => words.contains(&value),
            Self::AnyOf(words) => {
                let elements: Vec<&str> = elements(value).collect();
                let is_legal = |(index, element): (usize, &&str)| {
                    words.contains(element) && !elements.iter().take(index).any(|e| e == element)
                };
                elements.iter().enumerate().all(is_legal)
            }
            Self::ThrottledReplicas => {
                let is_pair = |element: &str| {
                    let pair = element.split_once(':');
                    pair.is_some_and(|(partition, broker)| {
                        partition.parse::<u32>().is_ok() && broker.parse::<u32>().is_ok()
                    })
                };
                value == "*" || elements(value).all(is_pair)
            }
        }
    }
}

impl fmt::Display for Legal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = |because: &str| match because {
            "" => String::new(),
            because => format!(": {because}"),
        };
        match *self {
            Self::Flag => f.write_str("true or false"),
            Self::False { because } => write!(f, "false{}", reason(because)),
            Self::Number {
                min,
                max: i64::MAX,
                because,
            } => write!(f, "a whole number of at least {min}{}", reason(because)),
            Self::Number { min, max, because } => {
                write!(f, "a whole number from {min} to {max}{}", reason(because))
            }
            Self::NumberOr(other, min, max) => {
                write!(f, "{other}, or a whole number from {min} to {max}")
            }
            Self::Ratio => f.write_str("a number from 0 to 1"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::AnyOf(words) => {
                let words = words.join(", ");
                write!(f, "a list of {words}, each at most once")
            }
            Self::ThrottledReplicas => {
                f.write_str("*, or a list of partition:broker, such as 0:1,1:2")
            }
        }
    }
}

impl TopicConfigDefinition {
    /// The definition of a configuration; none where Kafka 4 has no such topic configuration.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        let index = DEFINITIONS.binary_search_by_key(&name, |definition| definition.name);
        DEFINITIONS.get(index.ok()?)
    }

    /// All of them, by name.
    #[must_use]
    pub fn all() -> &'static [Self] {
        DEFINITIONS
    }

    /// Checks a value.
    ///
    /// # Errors
    /// What is legal, in words.
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self.legal.allows(value.trim()) {
            true => Ok(()),
            false => Err(self.legal.to_string()),
        }
    }
}

/// Kafka takes flags in any case.
fn flag(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// The elements of a list.
pub(super) fn elements(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

const fn synonym(name: &'static str) -> BrokerSynonym {
    BrokerSynonym { name, unit: 1 }
}

const fn scaled(name: &'static str, unit: i64) -> BrokerSynonym {
    BrokerSynonym { name, unit }
}

const NEVER: &str = "9223372036854775807";

const NO_LOCAL_COPY: &str = "records are kept in object storage, and there is no local copy whose \
                             size could be bounded";

use ConfigKind::{Boolean, Double, Int, List, Long, String as Text};

/// Sorted by name.
const DEFINITIONS: &[TopicConfigDefinition] = &[
    TopicConfigDefinition {
        name: "cleanup.policy",
        kind: List,
        default: "delete",
        synonyms: &[synonym("log.cleanup.policy")],
        documentation: "What becomes of old records: delete removes those beyond retention.ms or \
                        retention.bytes, compact keeps the last record of each key. Both may be \
                        named. Without any, all records are kept.",
        legal: Legal::AnyOf(&["compact", "delete"]),
    },
    TopicConfigDefinition {
        name: "compression.gzip.level",
        kind: Int,
        default: "-1",
        synonyms: &[synonym("compression.gzip.level")],
        documentation: "The level at which the broker compresses if compression.type is gzip; -1 \
                        is gzip's default.",
        legal: Legal::NumberOr(-1, 1, 9),
    },
    TopicConfigDefinition {
        name: "compression.lz4.level",
        kind: Int,
        default: "9",
        synonyms: &[synonym("compression.lz4.level")],
        documentation: "The level at which the broker compresses if compression.type is lz4. The \
                        default, 9, is LZ4's fast compressor, as in Apache Kafka.",
        legal: Legal::range(1, 17),
    },
    TopicConfigDefinition {
        name: "compression.type",
        kind: Text,
        default: "producer",
        synonyms: &[synonym("compression.type")],
        documentation: "How batches are compressed in the log. producer keeps them as they were \
                        sent. With any other value, the broker compresses batches that were sent \
                        with another codec anew, or decompresses them for uncompressed.",
        legal: Legal::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
    },
    TopicConfigDefinition {
        name: "compression.zstd.level",
        kind: Int,
        default: "3",
        synonyms: &[synonym("compression.zstd.level")],
        documentation: "The level at which the broker compresses if compression.type is zstd.",
        legal: Legal::range(-131_072, 22),
    },
    TopicConfigDefinition {
        name: "delete.retention.ms",
        kind: Long,
        default: "86400000",
        synonyms: &[synonym("log.cleaner.delete.retention.ms")],
        documentation: "How long compaction keeps a tombstone, which is a record without a value, \
                        in milliseconds.",
        legal: Legal::at_least(0),
    },
    TopicConfigDefinition {
        name: "file.delete.delay.ms",
        kind: Long,
        default: "60000",
        synonyms: &[synonym("log.segment.delete.delay.ms")],
        documentation: "For how long data stays in storage after its records were deleted, at \
                        least, in milliseconds. Objects stay for s3.object.delete.retention.ms, \
                        which is longer.",
        legal: Legal::Number {
            min: 0,
            max: 60_000,
            because: "objects stay in the bucket for s3.object.delete.retention.ms, which is set \
                      for the whole broker",
        },
    },
    TopicConfigDefinition {
        name: "flush.messages",
        kind: Long,
        default: NEVER,
        synonyms: &[synonym("log.flush.interval.messages")],
        documentation: "After how many records the log is flushed to disk, at the latest. Every \
                        record is durable before it is acknowledged, so all values hold.",
        legal: Legal::at_least(1),
    },
    TopicConfigDefinition {
        name: "flush.ms",
        kind: Long,
        default: NEVER,
        synonyms: &[
            synonym("log.flush.interval.ms"),
            synonym("log.flush.scheduler.interval.ms"),
        ],
        documentation: "After how many milliseconds the log is flushed to disk, at the latest. \
                        Every record is durable before it is acknowledged, so all values hold.",
        legal: Legal::at_least(0),
    },
    TopicConfigDefinition {
        name: "follower.replication.throttled.replicas",
        kind: List,
        default: "",
        synonyms: &[],
        documentation: "Replicas whose replication is throttled at the follower. Partitions move \
                        without copying records, so no throttle is exceeded.",
        legal: Legal::ThrottledReplicas,
    },
    TopicConfigDefinition {
        name: "index.interval.bytes",
        kind: Int,
        default: "4096",
        synonyms: &[synonym("log.index.interval.bytes")],
        documentation: "How many bytes may lie between entries of the offset index. Every batch is \
                        found by its offset, so all values hold.",
        legal: Legal::int_at_least(0),
    },
    TopicConfigDefinition {
        name: "leader.replication.throttled.replicas",
        kind: List,
        default: "",
        synonyms: &[],
        documentation: "Replicas whose replication is throttled at the leader. Partitions move \
                        without copying records, so no throttle is exceeded.",
        legal: Legal::ThrottledReplicas,
    },
    TopicConfigDefinition {
        name: "local.retention.bytes",
        kind: Long,
        default: "-2",
        synonyms: &[synonym("log.local.retention.bytes")],
        documentation: "The size of a partition's local copy if it has remote storage. There is no \
                        local copy.",
        legal: Legal::Number {
            min: -2,
            max: -2,
            because: NO_LOCAL_COPY,
        },
    },
    TopicConfigDefinition {
        name: "local.retention.ms",
        kind: Long,
        default: "-2",
        synonyms: &[synonym("log.local.retention.ms")],
        documentation: "How long a partition with remote storage keeps a local copy of records. \
                        There is no local copy.",
        legal: Legal::Number {
            min: -2,
            max: -2,
            because: NO_LOCAL_COPY,
        },
    },
    TopicConfigDefinition {
        name: "max.compaction.lag.ms",
        kind: Long,
        default: NEVER,
        synonyms: &[synonym("log.cleaner.max.compaction.lag.ms")],
        documentation: "The maximum time, in milliseconds, that a record may stay ineligible for compaction.",
        legal: Legal::at_least(1),
    },
    TopicConfigDefinition {
        name: "max.message.bytes",
        kind: Int,
        default: "1048588",
        synonyms: &[synonym("message.max.bytes")],
        documentation: "The largest batch of records, as it was sent and as it is stored, with its \
                        header, in bytes.",
        legal: Legal::int_at_least(0),
    },
    TopicConfigDefinition {
        name: "message.timestamp.after.max.ms",
        kind: Long,
        default: "3600000",
        synonyms: &[synonym("log.message.timestamp.after.max.ms")],
        documentation: "By how many milliseconds a record's timestamp may be ahead of the broker's \
                        clock. Not checked if message.timestamp.type is LogAppendTime.",
        legal: Legal::at_least(0),
    },
    TopicConfigDefinition {
        name: "message.timestamp.before.max.ms",
        kind: Long,
        default: NEVER,
        synonyms: &[synonym("log.message.timestamp.before.max.ms")],
        documentation: "By how many milliseconds a record's timestamp may be behind the broker's \
                        clock. Not checked if message.timestamp.type is LogAppendTime.",
        legal: Legal::at_least(0),
    },
    TopicConfigDefinition {
        name: "message.timestamp.type",
        kind: Text,
        default: "CreateTime",
        synonyms: &[synonym("log.message.timestamp.type")],
        documentation: "Whose clock gives records their timestamps: CreateTime is the producer's, \
                        LogAppendTime the broker's.",
        legal: Legal::OneOf(&["CreateTime", "LogAppendTime"]),
    },
    TopicConfigDefinition {
        name: "min.cleanable.dirty.ratio",
        kind: Double,
        default: "0.5",
        synonyms: &[synonym("log.cleaner.min.cleanable.ratio")],
        documentation: "The log is compacted once more than this share of its bytes is uncompacted, from 0 to 1.",
        legal: Legal::Ratio,
    },
    TopicConfigDefinition {
        name: "min.compaction.lag.ms",
        kind: Long,
        default: "0",
        synonyms: &[synonym("log.cleaner.min.compaction.lag.ms")],
        documentation: "The minimum time, in milliseconds, before a record may be compacted.",
        legal: Legal::at_least(0),
    },
    TopicConfigDefinition {
        name: "min.insync.replicas",
        kind: Int,
        default: "1",
        synonyms: &[synonym("min.insync.replicas")],
        documentation: "How many replicas must have a record before it is acknowledged to a \
                        producer with acks=all. The storage replicates records, and they are \
                        durable there before they are acknowledged, so all values hold.",
        legal: Legal::int_at_least(1),
    },
    TopicConfigDefinition {
        name: "preallocate",
        kind: Boolean,
        default: "false",
        synonyms: &[synonym("log.preallocate")],
        documentation: "Whether files of segments are allocated before they are written. There are \
                        no such files.",
        legal: Legal::False {
            because: "there are no segment files that could be preallocated",
        },
    },
    TopicConfigDefinition {
        name: "remote.log.copy.disable",
        kind: Boolean,
        default: "false",
        synonyms: &[],
        documentation: "Whether a topic with remote storage stops copying records there. Records \
                        are always kept in object storage.",
        legal: Legal::False {
            because: "records are always kept in object storage",
        },
    },
    TopicConfigDefinition {
        name: "remote.log.delete.on.disable",
        kind: Boolean,
        default: "false",
        synonyms: &[],
        documentation: "Whether records in remote storage are deleted once it is turned off. \
                        Records are always kept in object storage.",
        legal: Legal::False {
            because: "records are always kept in object storage",
        },
    },
    TopicConfigDefinition {
        name: "remote.storage.enable",
        kind: Boolean,
        default: "false",
        synonyms: &[],
        documentation: "Whether Apache Kafka's tiered storage copies old records. Records of all \
                        topics are kept in object storage without it.",
        legal: Legal::False {
            because: "tiered storage is disabled in the broker, which keeps the records of all \
                      topics in object storage anyway",
        },
    },
    TopicConfigDefinition {
        name: "retention.bytes",
        kind: Long,
        default: "-1",
        synonyms: &[synonym("log.retention.bytes")],
        documentation: "The size of a partition, in bytes, beyond which the oldest records are \
                        deleted if cleanup.policy names delete; -1 is no bound.",
        legal: Legal::at_least(-1),
    },
    TopicConfigDefinition {
        name: "retention.ms",
        kind: Long,
        default: "604800000",
        synonyms: &[
            synonym("log.retention.ms"),
            scaled("log.retention.minutes", MINUTE_MS),
            scaled("log.retention.hours", HOUR_MS),
        ],
        documentation: "For how many milliseconds records are kept if cleanup.policy names delete; \
                        -1 is no bound.",
        legal: Legal::at_least(-1),
    },
    TopicConfigDefinition {
        name: "segment.bytes",
        kind: Int,
        default: "1073741824",
        synonyms: &[synonym("log.segment.bytes")],
        documentation: "The size of a segment, in bytes: no batch may be larger. Retention deletes \
                        in smaller steps than segments of Apache Kafka, whatever their size. The \
                        newest segment.bytes of a compacted topic are not compacted before they \
                        are segment.ms old.",
        legal: Legal::int_at_least(1 << 20),
    },
    TopicConfigDefinition {
        name: "segment.index.bytes",
        kind: Int,
        default: "10485760",
        synonyms: &[synonym("log.index.size.max.bytes")],
        documentation: "The largest size of an index file. There are no index files, so all values \
                        hold.",
        legal: Legal::int_at_least(4),
    },
    TopicConfigDefinition {
        name: "segment.jitter.ms",
        kind: Long,
        default: "0",
        synonyms: &[
            synonym("log.roll.jitter.ms"),
            scaled("log.roll.jitter.hours", HOUR_MS),
        ],
        documentation: "By how many milliseconds the end of a segment is brought forward at \
                        random, at most. No files begin at the same time, so all values hold.",
        legal: Legal::at_least(0),
    },
    TopicConfigDefinition {
        name: "segment.ms",
        kind: Long,
        default: "604800000",
        synonyms: &[synonym("log.roll.ms"), scaled("log.roll.hours", HOUR_MS)],
        documentation: "After how many milliseconds records may be deleted or compacted although \
                        few have followed them, at the latest. Retention never waits for a segment \
                        to fill.",
        legal: Legal::at_least(1),
    },
    TopicConfigDefinition {
        name: "unclean.leader.election.enable",
        kind: Boolean,
        default: "false",
        synonyms: &[synonym("unclean.leader.election.enable")],
        documentation: "Whether a replica that lacks records may become the leader if there is no \
                        other. A leader never lacks acknowledged records, so both values hold.",
        legal: Legal::Flag,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_sorted_and_every_default_is_legal() {
        assert!(DEFINITIONS.is_sorted_by_key(|definition| definition.name));
        for definition in DEFINITIONS {
            assert_eq!(
                definition.check(definition.default),
                Ok(()),
                "{definition:?}"
            );
            assert!(definition.documentation.ends_with('.'), "{definition:?}");
            let found = TopicConfigDefinition::find(definition.name).expect("found");
            assert_eq!(found.name, definition.name);
        }
        for removed in [
            "message.downconversion.enable",
            "message.format.version",
            "message.timestamp.difference.max.ms",
        ] {
            assert!(TopicConfigDefinition::find(removed).is_none(), "{removed}");
        }
    }

    #[test]
    fn what_streams_and_connect_set_is_legal() {
        for (name, value) in [
            ("cleanup.policy", "compact"),
            ("cleanup.policy", "compact,delete"),
            ("message.timestamp.type", "CreateTime"),
            ("min.insync.replicas", "2"),
            ("retention.bytes", "-1"),
            ("retention.ms", "-1"),
            ("segment.bytes", "52428800"),
            ("segment.index.bytes", "10485760"),
            ("segment.ms", "600000"),
            ("unclean.leader.election.enable", "false"),
        ] {
            let definition = TopicConfigDefinition::find(name).expect("found");
            assert_eq!(definition.check(value), Ok(()), "{name}={value}");
        }
    }

    #[test]
    fn illegal_values_are_refused_with_what_is_legal() {
        for (name, value, text) in [
            (
                "cleanup.policy",
                "compact,compact",
                "a list of compact, delete, each at most once",
            ),
            (
                "cleanup.policy",
                "burn",
                "a list of compact, delete, each at most once",
            ),
            (
                "compression.gzip.level",
                "0",
                "-1, or a whole number from 1 to 9",
            ),
            ("compression.lz4.level", "18", "a whole number from 1 to 17"),
            (
                "compression.zstd.level",
                "23",
                "a whole number from -131072 to 22",
            ),
            ("min.cleanable.dirty.ratio", "1.5", "a number from 0 to 1"),
            ("min.cleanable.dirty.ratio", "NaN", "a number from 0 to 1"),
            (
                "min.insync.replicas",
                "0",
                "a whole number from 1 to 2147483647",
            ),
            (
                "segment.bytes",
                "1048575",
                "a whole number from 1048576 to 2147483647",
            ),
            ("segment.ms", "0", "a whole number of at least 1"),
            (
                "leader.replication.throttled.replicas",
                "0-1",
                "*, or a list of partition:broker, such as 0:1,1:2",
            ),
            ("unclean.leader.election.enable", "yes", "true or false"),
        ] {
            let definition = TopicConfigDefinition::find(name).expect("found");
            assert_eq!(
                definition.check(value),
                Err(text.to_owned()),
                "{name}={value}"
            );
        }
        for (name, value) in [
            ("preallocate", "true"),
            ("remote.storage.enable", "true"),
            ("remote.log.copy.disable", "true"),
            ("local.retention.ms", "1000"),
            ("file.delete.delay.ms", "60001"),
        ] {
            let definition = TopicConfigDefinition::find(name).expect("found");
            let text = definition.check(value).expect_err("illegal");
            assert!(text.contains(": "), "a reason: {text}");
        }
    }
}
