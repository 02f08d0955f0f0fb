//! The configurations that Kafka's clients and tools expect of topics, brokers, groups and client metrics: names, types,
//! defaults, and the source of each value.

use std::collections::BTreeMap;

use millrace_coordinator::{GroupConfigDefinition, GroupConfigKind, GroupConfigLimits};
use millrace_log::{ConfigKind, TopicConfig, TopicConfigDefinition};

use crate::{
    client_metrics::subscription,
    settings::{BrokerSetting, SettingKind, SettingLayer, SettingScope, SettingSource},
};

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
    /// The subscription to client metrics itself.
    ClientMetrics = 7,
    /// The group itself.
    Group = 8,
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

/// A topic's configurations: what it sets, over what the broker sets, over Kafka's defaults.
/// `config` is what it lives by; where it knows the value, that one is shown.
pub(crate) fn topic(
    config: &TopicConfig,
    overrides: &BTreeMap<String, String>,
    settings: &[BrokerSetting],
) -> Vec<Entry> {
    let effective: BTreeMap<&str, String> = config.entries().into_iter().collect();
    let entry = |definition: &TopicConfigDefinition| {
        let (name, default) = (definition.name, definition.default);
        let own = overrides.get(name);
        // What an older broker accepted and is not legal any more has no effect.
        let own = own.filter(|value| definition.check(value).is_ok());
        let mut synonyms: Vec<Synonym> = own
            .map(|value| Synonym::new(name, value, Source::Topic))
            .into_iter()
            .collect();
        let mut value = own.cloned();
        for broker in definition.synonyms {
            let setting = settings.iter().find(|s| s.name == broker.name);
            let layers = setting.map_or(&[][..], |setting| &setting.layers);
            for layer in layers.iter().filter(|l| l.source != SettingSource::Default) {
                let Some(set) = &layer.value else { continue };
                synonyms.push(Synonym::new(broker.name, set, layer.source.into()));
                value.get_or_insert_with(|| broker.to_topic(set));
            }
        }
        // Where there are several properties, the first one has no default in Kafka, which shows no other one's.
        if let [broker] = definition.synonyms {
            let default = broker.of_topic(default);
            synonyms.push(Synonym::new(broker.name, &default, Source::Default));
        }
        let source = source(&synonyms);
        let value = effective.get(name).cloned().or(value);
        Entry {
            name: name.to_owned(),
            value: Some(value.unwrap_or_else(|| default.to_owned())),
            source,
            kind: definition.kind.into(),
            is_sensitive: false,
            is_read_only: false,
            documentation: Some(definition.documentation.to_owned()),
            synonyms,
        }
    };
    let entries = TopicConfigDefinition::all().iter().map(entry);
    entries.map(Entry::into_parsed).collect()
}

/// A group's configurations: what it sets, over what the broker sets for all groups.
pub(crate) fn group(
    configs: &BTreeMap<String, String>,
    limits: &GroupConfigLimits,
    settings: &[BrokerSetting],
) -> Vec<Entry> {
    let entry = |definition: &GroupConfigDefinition| {
        let (name, default) = (definition.name, definition.default(limits));
        let own = configs.get(name);
        // What an older broker accepted and is not legal any more has no effect.
        let own = own.filter(|value| definition.check(value, limits).is_ok());
        let set = own.map(|value| Synonym::new(name, value, Source::Group));
        let mut synonyms: Vec<Synonym> = set.into_iter().collect();
        if let Some(property) = definition.broker_property {
            let setting = settings.iter().find(|setting| setting.name == property);
            let layers = setting.map_or(&[][..], |setting| &setting.layers);
            for layer in layers {
                let Some(value) = &layer.value else { continue };
                synonyms.push(Synonym::new(property, value, layer.source.into()));
            }
        }
        Entry {
            name: name.to_owned(),
            value: Some(own.cloned().unwrap_or(default)),
            source: source(&synonyms),
            kind: match definition.kind() {
                GroupConfigKind::Int => Kind::Int,
                GroupConfigKind::String => Kind::String,
            },
            is_sensitive: false,
            is_read_only: false,
            documentation: Some(definition.documentation.to_owned()),
            synonyms,
        }
    };
    let entries = GroupConfigDefinition::all().iter().map(entry);
    entries.map(Entry::into_parsed).collect()
}

/// The configurations of a subscription to client metrics.
pub(crate) fn client_metrics(configs: &BTreeMap<String, String>) -> Vec<Entry> {
    let entry = |definition: &subscription::Definition| {
        let own = configs.get(definition.name);
        let own = own.filter(|value| subscription::is_legal(definition.name, value));
        let set = own.map(|value| Synonym::new(definition.name, value, Source::ClientMetrics));
        let synonyms: Vec<Synonym> = set.into_iter().collect();
        Entry {
            name: definition.name.to_owned(),
            value: Some(own.map_or(definition.default, String::as_str).to_owned()),
            source: source(&synonyms),
            kind: definition.kind,
            is_sensitive: false,
            is_read_only: false,
            documentation: Some(definition.documentation.to_owned()),
            synonyms,
        }
    };
    let entries = subscription::DEFINITIONS.iter().map(entry);
    entries.map(Entry::into_parsed).collect()
}

/// Where the value in force comes from.
fn source(synonyms: &[Synonym]) -> Source {
    let first = synonyms.first();
    first.map_or(Source::Default, |first| first.source)
}

/// What a topic's list has where nobody sets it; none for a configuration that is no list.
pub(crate) fn topic_list_default(name: &str) -> Option<&'static str> {
    TopicConfigDefinition::find(name)
        .filter(|definition| definition.kind == ConfigKind::List)
        .map(|definition| definition.default)
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
    let entries = settings.iter().filter_map(entry);
    entries.map(Entry::into_parsed).collect()
}

impl Entry {
    /// Kafka shows a value as it has parsed it, not as it was written.
    fn into_parsed(mut self) -> Self {
        let values = self.synonyms.iter_mut().map(|synonym| &mut synonym.value);
        for value in values.chain([&mut self.value]).flatten() {
            if let Some(parsed) = self.kind.parsed(value) {
                *value = parsed;
            }
        }
        self
    }
}

impl Kind {
    /// The text of a value, as Java writes it once it is parsed; none where it cannot be parsed.
    fn parsed(self, text: &str) -> Option<String> {
        let text = text.trim();
        match self {
            Self::Boolean => Some(text.to_ascii_lowercase()),
            Self::Int | Self::Long => text.parse().ok().map(|number: i64| number.to_string()),
            Self::Double => text.parse().ok().map(java_double),
            Self::List => {
                let items: Vec<_> = text.split(',').map(str::trim).collect();
                Some(items.join(","))
            }
            Self::String => None,
        }
    }
}

/// `Double.toString`.
fn java_double(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

impl Synonym {
    fn new(name: &str, value: &str, source: Source) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source,
        }
    }
}

impl From<ConfigKind> for Kind {
    fn from(kind: ConfigKind) -> Self {
        match kind {
            ConfigKind::Boolean => Self::Boolean,
            ConfigKind::String => Self::String,
            ConfigKind::Int => Self::Int,
            ConfigKind::Long => Self::Long,
            ConfigKind::Double => Self::Double,
            ConfigKind::List => Self::List,
        }
    }
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
            SettingKind::Double => Self::Double,
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
    fn values_are_shown_as_java_writes_them() {
        for (kind, written, shown) in [
            (Kind::Boolean, "TRUE", "true"),
            (Kind::Double, "0", "0.0"),
            (Kind::Double, "0.50", "0.5"),
            (Kind::Double, "0.00001", "1.0E-5"),
            (Kind::Double, "0.000125", "1.25E-4"),
            (Kind::Long, "+0060", "60"),
            (Kind::List, "compact, delete", "compact,delete"),
        ] {
            assert_eq!(kind.parsed(written).as_deref(), Some(shown), "{written}");
        }
        assert_eq!(Kind::String.parsed("As it IS"), None);
        assert_eq!(Kind::Int.parsed("many"), None);
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
        assert_eq!(sources, [Source::Topic, Source::StaticBroker]);
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
        for definition in TopicConfigDefinition::all() {
            let (name, default) = (definition.name, definition.default);
            let entries = shown(&[(name, default)], &[]);
            assert_eq!(find(&entries, name).value.as_deref(), Some(default));
        }
    }

    #[test]
    fn hours_of_the_broker_are_milliseconds_of_the_topic() {
        let setting = setting("log.roll.hours", Some("2"), SettingSource::StaticBroker);
        let entries = shown(&[], &[setting]);
        let entry = find(&entries, "segment.ms");
        assert_eq!(
            (entry.value.as_deref(), entry.source),
            (Some("7200000"), Source::StaticBroker)
        );
        assert_eq!(entry.synonyms[0].value.as_deref(), Some("2"));
        let unset = shown(&[], &[]);
        assert_eq!(find(&unset, "segment.ms").synonyms, []);
    }

    #[test]
    fn an_override_that_is_not_legal_any_more_is_not_shown() {
        let config = TopicConfig::resolve(&LogDefaults::default(), &BTreeMap::new());
        let stored = BTreeMap::from([("preallocate".to_owned(), "true".to_owned())]);
        let entries = topic(&config.expect("legal"), &stored, &[]);
        let entry = find(&entries, "preallocate");
        assert_eq!(
            (entry.value.as_deref(), entry.source),
            (Some("false"), Source::Default)
        );
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
