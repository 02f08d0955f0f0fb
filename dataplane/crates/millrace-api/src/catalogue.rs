//! The configurations that Kafka's clients and tools expect of a topic and a broker: names, types,
//! defaults, and the source of each value.

use std::collections::BTreeMap;

use millrace_log::TopicConfig;

use crate::settings::{BrokerSetting, SettingKind, SettingLayer, SettingScope, SettingSource};

/// Where a value comes from, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The topic itself.
    Topic = 1,
    /// Set at run time for this broker.
    DynamicBroker = 2,
    /// Set at run time for all brokers.
    DynamicDefaultBroker = 3,
    /// The broker's file or command line.
    StaticBroker = 4,
    /// Nobody set it.
    Default = 5,
}

/// What kind of value it is, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// What it does; none where there is no text.
    pub(crate) documentation: Option<String>,
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
        let setting = settings.iter().find(|s| s.name == *broker_name);
        let layers = setting.map_or(&[][..], |setting| &setting.layers);
        for layer in layers.iter().filter(|l| l.source != SettingSource::Default) {
            if let Some(value) = &layer.value {
                add(broker_name, value, layer.source.into());
            }
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
            documentation: None,
            synonyms,
        }
    };
    TOPIC.iter().map(entry).collect()
}

/// Whether a topic's configuration is a list, to which elements may be added; none for one that is
/// not in the catalogue.
pub(crate) fn topic_list_default(name: &str) -> Option<&'static str> {
    TOPIC
        .iter()
        .find(|Line(topic_name, kind, ..)| *topic_name == name && *kind == Kind::List)
        .map(|Line(_, _, _, default)| *default)
}

/// The broker's settings: those in force, or, for all brokers, what is set at run time for all.
pub(crate) fn broker(settings: &[BrokerSetting], scope: SettingScope) -> Vec<Entry> {
    let entry = |setting: &BrokerSetting| {
        let first = match scope {
            SettingScope::Broker => 0,
            SettingScope::Cluster => {
                let is_default = |l: &SettingLayer| l.source == SettingSource::DynamicDefault;
                setting.layers.iter().position(is_default)?
            }
        };
        let layers = setting.layers.get(first..)?;
        let synonym = |layer: &SettingLayer| Synonym {
            name: layer.name.clone(),
            value: layer.value.clone(),
            source: layer.source.into(),
        };
        let holds = layers.first()?;
        Some(Entry {
            name: setting.name.clone(),
            value: holds.value.clone(),
            source: holds.source.into(),
            kind: setting.kind.into(),
            is_sensitive: setting.value.is_none(),
            is_read_only: !setting.is_dynamic,
            documentation: Some(setting.documentation.clone()).filter(|text| !text.is_empty()),
            synonyms: layers.iter().map(synonym).collect(),
        })
    };
    settings.iter().filter_map(entry).collect()
}

impl From<SettingSource> for Source {
    fn from(source: SettingSource) -> Self {
        match source {
            SettingSource::DynamicBroker => Self::DynamicBroker,
            SettingSource::DynamicDefault => Self::DynamicDefaultBroker,
            SettingSource::StaticBroker => Self::StaticBroker,
            SettingSource::Default => Self::Default,
        }
    }
}

impl From<SettingKind> for Kind {
    fn from(kind: SettingKind) -> Self {
        match kind {
            SettingKind::Boolean => Self::Boolean,
            SettingKind::String => Self::String,
            SettingKind::Int => Self::Int,
            SettingKind::Long => Self::Long,
            SettingKind::List => Self::List,
        }
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
        let setting = setting("log.retention.ms", Some("5"), SettingSource::StaticBroker);
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

    fn setting(name: &str, value: Option<&str>, source: SettingSource) -> BrokerSetting {
        let value = value.map(str::to_owned);
        let layer = |source| SettingLayer {
            source,
            name: name.to_owned(),
            value: value.clone(),
        };
        BrokerSetting {
            name: name.to_owned(),
            value: value.clone(),
            kind: SettingKind::Long,
            is_dynamic: false,
            documentation: String::new(),
            layers: vec![layer(source), layer(SettingSource::Default)],
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = setting("s3.data.buckets", None, SettingSource::StaticBroker);
        let entries = broker(&[secret], SettingScope::Broker);
        assert!(entries[0].is_sensitive && entries[0].value.is_none());
    }

    #[test]
    fn for_all_brokers_only_what_is_set_for_all_is_shown() {
        let own = setting("a", Some("1"), SettingSource::DynamicBroker);
        let mut both = setting("b", Some("2"), SettingSource::DynamicBroker);
        both.layers.insert(
            1,
            SettingLayer {
                source: SettingSource::DynamicDefault,
                name: "b".into(),
                value: Some("3".into()),
            },
        );
        let settings = [own, both];
        assert_eq!(broker(&settings, SettingScope::Broker).len(), 2);
        let shared = broker(&settings, SettingScope::Cluster);
        assert_eq!(shared.len(), 1);
        let shared = &shared[0];
        assert_eq!(
            (shared.name.as_str(), shared.value.as_deref(), shared.source),
            ("b", Some("3"), Source::DynamicDefaultBroker)
        );
        assert_eq!(shared.synonyms.len(), 2);
    }
}
