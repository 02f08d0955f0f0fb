//! The broker's properties that give topic configurations their defaults, such as
//! `log.cleanup.policy` for `cleanup.policy`.

use std::collections::BTreeMap;

use millrace_api::settings::SettingKind;
use millrace_log::{ConfigKind, TopicConfigDefinition};

use super::reader::Reader;

/// Read as settings of the log ([`millrace_log::LogDefaults`]).
const READ_ELSEWHERE: [&str; 4] = [
    "max.message.bytes",
    "message.timestamp.type",
    "retention.bytes",
    "retention.ms",
];

/// What the file sets for topics, by the topic's names.
pub(super) fn read_topic_defaults(r: &mut Reader<'_>) -> BTreeMap<&'static str, String> {
    let definitions = TopicConfigDefinition::all().iter();
    let mut defaults = BTreeMap::new();
    for definition in definitions.filter(|d| !READ_ELSEWHERE.contains(&d.name)) {
        if let Some(value) = read(r, definition) {
            defaults.insert(definition.name, value);
        }
    }
    let lag = |name: &str, default: i64| {
        let set = defaults
            .get(name)
            .and_then(|value: &String| value.parse().ok());
        set.unwrap_or(default)
    };
    if lag("min.compaction.lag.ms", 0) > lag("max.compaction.lag.ms", i64::MAX) {
        let problem = "it is larger than log.cleaner.max.compaction.lag.ms";
        r.fail(
            "log.cleaner.min.compaction.lag.ms",
            problem,
            "lower it or raise the other",
        );
    }
    defaults
}

fn read(r: &mut Reader<'_>, definition: &TopicConfigDefinition) -> Option<String> {
    let mut found = None;
    for (index, synonym) in definition.synonyms.iter().enumerate() {
        // The first name stands for the others where none is set.
        let default = (index == 0).then_some(definition.default);
        let Some(text) = r.raw_or_default(synonym.name, kind(definition.kind), default) else {
            continue;
        };
        let scaled = synonym.to_topic(&text);
        if let Err(legal) = definition.check(&scaled) {
            let remedy = format!("remove the line for the default of {}", definition.default);
            r.fail(synonym.name, format!("{text:?} is not {legal}"), &remedy);
            continue;
        }
        found.get_or_insert(scaled);
    }
    found
}

fn kind(kind: ConfigKind) -> SettingKind {
    match kind {
        ConfigKind::Boolean => SettingKind::Boolean,
        ConfigKind::String => SettingKind::String,
        ConfigKind::Int => SettingKind::Int,
        ConfigKind::Long => SettingKind::Long,
        ConfigKind::Double => SettingKind::Double,
        ConfigKind::List => SettingKind::List,
    }
}
