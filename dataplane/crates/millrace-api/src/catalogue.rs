//! The configurations that Kafka's clients and tools expect a topic and a broker to have: names,
//! types, defaults, and where a value comes from.

use std::collections::BTreeMap;

use millrace_log::TopicConfig;

use crate::context::BrokerSetting;

/// Where a value comes from, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The topic itself.
    Topic = 1,
    /// The broker's file or command line.
    StaticBroker = 4,
    /// Nobody set it.
    Default = 5,
}

/// What kind of value it is, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Unknown = 0,
    Boolean = 1,
    String = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// One configuration as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// None where it is a secret.
    pub(crate) value: Option<String>,
    pub(crate) source: Source,
    pub(crate) kind: Kind,
    pub(crate) is_sensitive: bool,
    pub(crate) is_read_only: bool,
    /// All places where a value is set, the one that holds first.
    pub(crate) synonyms: Vec<Synonym>,
}

/// One place where a value is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synonym {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) source: Source,
}

/// One line of the catalogue: the topic's name for it, its kind, the broker's name for the default,
/// and Kafka's own default.
struct Line(&'static str, Kind, &'static str, &'static str);

/// The topic configurations of Kafka 4, by name. Segment files, compaction and replicas are not how
/// Millrace keeps records; those lines are here because tools read them.
const TOPIC: &[Line] = &[
    Line("cleanup.policy", Kind::List, "log.cleanup.policy", "delete"),
    Line(
        "compression.type",
        Kind::String,
        "compression.type",
        "producer",
    ),
    Line(
        "delete.retention.ms",
        Kind::Long,
        "log.cleaner.delete.retention.ms",
        "86400000",
    ),
    Line(
        "file.delete.delay.ms",
        Kind::Long,
        "log.segment.delete.delay.ms",
        "60000",
    ),
    Line(
        "flush.messages",
        Kind::Long,
        "log.flush.interval.messages",
        "9223372036854775807",
    ),
    Line(
        "flush.ms",
        Kind::Long,
        "log.flush.interval.ms",
        "9223372036854775807",
    ),
    Line(
        "follower.replication.throttled.replicas",
        Kind::List,
        "",
        "",
    ),
    Line(
        "index.interval.bytes",
        Kind::Int,
        "log.index.interval.bytes",
        "4096",
    ),
    Line("leader.replication.throttled.replicas", Kind::List, "", ""),
    Line(
        "max.compaction.lag.ms",
        Kind::Long,
        "log.cleaner.max.compaction.lag.ms",
        "9223372036854775807",
    ),
    Line(
        "max.message.bytes",
        Kind::Int,
        "message.max.bytes",
        "1048588",
    ),
    Line(
        "message.timestamp.after.max.ms",
        Kind::Long,
        "log.message.timestamp.after.max.ms",
        "3600000",
    ),
    Line(
        "message.timestamp.before.max.ms",
        Kind::Long,
        "log.message.timestamp.before.max.ms",
        "9223372036854775807",
    ),
    Line(
        "message.timestamp.type",
        Kind::String,
        "log.message.timestamp.type",
        "CreateTime",
    ),
    Line(
        "min.cleanable.dirty.ratio",
        Kind::Double,
        "log.cleaner.min.cleanable.ratio",
        "0.5",
    ),
    Line(
        "min.compaction.lag.ms",
        Kind::Long,
        "log.cleaner.min.compaction.lag.ms",
        "0",
    ),
    Line("min.insync.replicas", Kind::Int, "min.insync.replicas", "1"),
    Line("preallocate", Kind::Boolean, "log.preallocate", "false"),
    Line("retention.bytes", Kind::Long, "log.retention.bytes", "-1"),
    Line("retention.ms", Kind::Long, "log.retention.ms", "604800000"),
    Line(
        "segment.bytes",
        Kind::Int,
        "log.segment.bytes",
        "1073741824",
    ),
    Line(
        "segment.index.bytes",
        Kind::Int,
        "log.index.size.max.bytes",
        "10485760",
    ),
    Line("segment.jitter.ms", Kind::Long, "log.roll.jitter.ms", "0"),
    Line("segment.ms", Kind::Long, "log.roll.ms", "604800000"),
    Line(
        "unclean.leader.election.enable",
        Kind::Boolean,
        "unclean.leader.election.enable",
        "false",
    ),
];

/// A topic's configurations: what it sets, over what the broker sets, over Kafka's defaults.
/// `config` is what it lives by; where it knows the value, that one is shown.
pub(crate) fn topic(
    config: &TopicConfig,
    overrides: &BTreeMap<String, String>,
    settings: &[BrokerSetting],
) -> Vec<Entry> {
    let effective: BTreeMap<&str, String> = config.entries().into_iter().collect();
    let entry = |Line(name, kind, broker_name, default): &Line| {
        let mut synonyms = Vec::new();
        let mut add = |name: &str, value: &str, source| {
            synonyms.push(Synonym {
                name: name.to_owned(),
                value: Some(value.to_owned()),
                source,
            });
        };
        if let Some(value) = overrides.get(*name) {
            add(name, value, Source::Topic);
        }
        let setting = settings
            .iter()
            .find(|s| s.name == *broker_name && !s.is_default);
        if let Some(value) = setting.and_then(|setting| setting.value.as_deref()) {
            add(broker_name, value, Source::StaticBroker);
        }
        if !broker_name.is_empty() {
            add(broker_name, default, Source::Default);
        }
        let holds = synonyms.first();
        let value = effective.get(name).cloned();
        let value = value.or_else(|| holds.and_then(|holds| holds.value.clone()));
        Entry {
            name: (*name).to_owned(),
            value: Some(value.unwrap_or_else(|| (*default).to_owned())),
            source: holds.map_or(Source::Default, |holds| holds.source),
            kind: *kind,
            is_sensitive: false,
            is_read_only: false,
            synonyms,
        }
    };
    TOPIC.iter().map(entry).collect()
}

/// The broker's settings. None can be changed while it runs.
pub(crate) fn broker(settings: &[BrokerSetting]) -> Vec<Entry> {
    let entry = |setting: &BrokerSetting| {
        let source = if setting.is_default {
            Source::Default
        } else {
            Source::StaticBroker
        };
        Entry {
            name: setting.name.clone(),
            value: setting.value.clone(),
            source,
            kind: kind_of(&setting.name),
            is_sensitive: setting.value.is_none(),
            is_read_only: true,
            synonyms: vec![Synonym {
                name: setting.name.clone(),
                value: setting.value.clone(),
                source,
            }],
        }
    };
    settings.iter().map(entry).collect()
}

/// The kind of a broker's setting, where it is one that topics have too or its name tells.
fn kind_of(name: &str) -> Kind {
    if let Some(Line(_, kind, ..)) = TOPIC.iter().find(|Line(_, _, broker, _)| *broker == name) {
        return *kind;
    }
    match name.rsplit('.').next() {
        Some("ms" | "bytes" | "size" | "threshold" | "minutes" | "hours" | "default") => Kind::Long,
        Some("enable") => Kind::Boolean,
        Some("partitions" | "id" | "factor" | "depth") => Kind::Int,
        Some("listeners") => Kind::List,
        Some(_) => Kind::String,
        None => Kind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use millrace_log::LogDefaults;

    use super::*;

    fn shown(overrides: &[(&str, &str)], settings: &[BrokerSetting]) -> Vec<Entry> {
        let overrides: BTreeMap<String, String> = overrides
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        let config = TopicConfig::resolve(&LogDefaults::default(), &overrides).expect("legal");
        topic(&config, &overrides, settings)
    }

    fn find<'a>(entries: &'a [Entry], name: &str) -> &'a Entry {
        entries
            .iter()
            .find(|entry| entry.name == name)
            .expect("in the catalogue")
    }

    #[test]
    fn a_value_says_where_it_comes_from() {
        let setting = BrokerSetting {
            name: "log.retention.ms".into(),
            value: Some("5".into()),
            is_default: false,
        };
        let entries = shown(
            &[("retention.ms", "7"), ("segment.bytes", "1048576")],
            &[setting],
        );
        let retention = find(&entries, "retention.ms");
        assert_eq!(
            (retention.value.as_deref(), retention.source),
            (Some("7"), Source::Topic)
        );
        let sources: Vec<_> = retention.synonyms.iter().map(|s| s.source).collect();
        assert_eq!(
            sources,
            [Source::Topic, Source::StaticBroker, Source::Default]
        );
        let segment = find(&entries, "segment.bytes");
        assert_eq!(
            (segment.value.as_deref(), segment.source),
            (Some("1048576"), Source::Topic)
        );
        let policy = find(&entries, "cleanup.policy");
        assert_eq!(
            (policy.value.as_deref(), policy.source),
            (Some("delete"), Source::Default)
        );
    }

    #[test]
    fn every_shown_default_is_one_that_a_topic_may_set() {
        for Line(name, _, _, default) in TOPIC {
            let entries = shown(&[(name, default)], &[]);
            assert_eq!(find(&entries, name).value.as_deref(), Some(*default));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = BrokerSetting {
            name: "s3.data.buckets".into(),
            value: None,
            is_default: false,
        };
        let entries = broker(&[secret]);
        assert!(entries[0].is_sensitive && entries[0].value.is_none());
    }
}
