//! Subscriptions to client metrics: the configurations of a CLIENT_METRICS resource.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use millrace_wire::error_code::ErrorCode;
use regex::{Regex, RegexBuilder};

use crate::{catalogue::Kind, topics::Refused};

const METRICS: &str = "metrics";
const INTERVAL: &str = "interval.ms";
const MATCH: &str = "match";

/// Stands for all metrics.
const ALL_METRICS: &str = "*";

/// How often clients push where no subscription says it: Kafka's default, and the value of clients without a subscription.
pub(crate) const INTERVAL_DEFAULT: Duration = Duration::from_millis(INTERVAL_DEFAULT_MS);

const INTERVAL_DEFAULT_MS: u64 = 300_000;

/// Kafka's bounds of `interval.ms`.
const INTERVAL_MIN_MS: i32 = 100;
const INTERVAL_MAX_MS: i32 = 3_600_000;

/// What one compiled pattern may take, in bytes, and each cache for its matches: enough for lists of names. A hundred
/// subscriptions with a pattern for each of the six attributes take 40 MB.
const PATTERN_COMPILED_BYTES_MAX: usize = 64 * 1024;

/// One configuration of a subscription.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) documentation: &'static str,
}

/// All of them.
pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition {
        name: METRICS,
        kind: Kind::List,
        default: "",
        documentation: "Prefixes of the names of the metrics that matching clients push; * stands for all metrics.",
    },
    Definition {
        name: INTERVAL,
        kind: Kind::Int,
        default: "300000",
        documentation: "How often matching clients push their metrics, in milliseconds.",
    },
    Definition {
        name: MATCH,
        kind: Kind::List,
        default: "",
        documentation: "Which clients the subscription is for, as attribute=regular expression; a client has to match all \
                        of them. Attributes: client_instance_id, client_id, client_software_name, \
                        client_software_version, client_source_address, client_source_port.",
    },
];

/// An attribute of a client that a subscription may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribute {
    InstanceId,
    ClientId,
    SoftwareName,
    SoftwareVersion,
    SourceAddress,
    SourcePort,
}

impl Attribute {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "client_instance_id" => Self::InstanceId,
            "client_id" => Self::ClientId,
            "client_software_name" => Self::SoftwareName,
            "client_software_version" => Self::SoftwareVersion,
            "client_source_address" => Self::SourceAddress,
            "client_source_port" => Self::SourcePort,
            _ => return None,
        })
    }
}

/// What one resource asks of which clients.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    /// Prefixes of metrics, or [`ALL_METRICS`].
    pub(crate) metrics: Vec<String>,
    pub(crate) interval: Duration,
    patterns: BTreeMap<Attribute, Regex>,
}

impl Subscription {
    /// The subscription with these configurations.
    ///
    /// # Errors
    /// They are not legal; the codes are Kafka's.
    pub(crate) fn new(configs: &BTreeMap<String, String>) -> Result<Self, Refused> {
        let is_known = |name: &str| DEFINITIONS.iter().any(|known| known.name == name);
        if let Some(unknown) = configs.keys().find(|name| !is_known(name)) {
            let message = format!("Unknown client metrics configuration: {unknown}");
            return Err(Refused::new(ErrorCode::InvalidRequest, message));
        }
        let list = |name: &str| elements(configs.get(name).map_or("", String::as_str));
        let mut patterns = BTreeMap::new();
        for pattern in list(MATCH) {
            let (attribute, regex) = parse_pattern(pattern)?;
            patterns.insert(attribute, regex);
        }
        let interval = configs.get(INTERVAL).map(|text| parse_interval(text));
        Ok(Self {
            metrics: list(METRICS).map(str::to_owned).collect(),
            interval: interval.unwrap_or(Ok(INTERVAL_DEFAULT))?,
            patterns,
        })
    }

    /// Whether it is for the client with these attributes. An attribute that a client does not have matches no pattern.
    pub(crate) fn matches<'a>(&self, attribute: impl Fn(Attribute) -> Option<&'a str>) -> bool {
        let mut patterns = self.patterns.iter();
        patterns.all(|(&of, pattern)| attribute(of).is_some_and(|value| pattern.is_match(value)))
    }
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// Grows with each change.
    pub(crate) version: u64,
    configs: BTreeMap<String, BTreeMap<String, String>>,
    all: Vec<Subscription>,
}

impl Subscriptions {
    /// What they become with these configurations; nothing where those are the same. A subscription that is not legal (any
    /// more) has no effect.
    pub(crate) fn changed_to<'a>(
        &self,
        all: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
    ) -> Option<Self> {
        let configs = all.into_iter();
        let configs = configs.map(|(name, configs)| (name.to_owned(), configs.clone()));
        let configs: BTreeMap<_, _> = configs.collect();
        (configs != self.configs).then(|| Self {
            version: self.version + 1,
            all: configs
                .values()
                .filter_map(|configs| Subscription::new(configs).ok())
                .collect(),
            configs,
        })
    }

    /// The metrics that are asked of the client with these attributes, each once, and how often: the shortest interval.
    pub(crate) fn of<'a>(
        &self,
        attribute: impl Fn(Attribute) -> Option<&'a str>,
    ) -> (Vec<String>, Duration) {
        let mut metrics = BTreeSet::new();
        let mut interval: Option<Duration> = None;
        for subscription in self.all.iter().filter(|one| one.matches(&attribute)) {
            metrics.extend(subscription.metrics.iter().cloned());
            let shortest = interval.map_or(subscription.interval, |i| i.min(subscription.interval));
            interval = Some(shortest);
        }
        if metrics.contains(ALL_METRICS) {
            metrics = BTreeSet::from([ALL_METRICS.to_owned()]);
        }
        let interval = interval.unwrap_or(INTERVAL_DEFAULT);
        (metrics.into_iter().collect(), interval)
    }
}

/// Whether one configuration is legal by itself.
pub(crate) fn is_legal(name: &str, value: &str) -> bool {
    Subscription::new(&BTreeMap::from([(name.to_owned(), value.to_owned())])).is_ok()
}

/// What a list has where nobody sets it; none for a configuration that is no list.
pub(crate) fn list_default(name: &str) -> Option<&'static str> {
    let mut lists = DEFINITIONS.iter().filter(|d| d.kind == Kind::List);
    lists.find(|d| d.name == name).map(|d| d.default)
}

fn elements(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

fn parse_interval(text: &str) -> Result<Duration, Refused> {
    let millis = text.trim().parse::<i32>().map_err(|_| {
        let message =
            format!("Invalid value {text} for configuration {INTERVAL}: Not a number of type INT");
        Refused::new(ErrorCode::InvalidConfig, message)
    })?;
    let legal = (INTERVAL_MIN_MS..=INTERVAL_MAX_MS).contains(&millis);
    let legal = legal.then(|| u64::try_from(millis).ok()).flatten();
    legal.map(Duration::from_millis).ok_or_else(|| {
        let message = format!(
            "Invalid value {millis} for {INTERVAL}, interval must be between {INTERVAL_MIN_MS} and {INTERVAL_MAX_MS} \
             (1 hour)"
        );
        Refused::new(ErrorCode::InvalidRequest, message)
    })
}

/// `attribute=pattern`, where the pattern has to match the whole attribute and has no `=`, as in Kafka.
fn parse_pattern(text: &str) -> Result<(Attribute, Regex), Refused> {
    let illegal = |why: &str| {
        let message = format!("Illegal client matching pattern: {text}: {why}");
        Refused::new(ErrorCode::InvalidConfig, message)
    };
    let (attribute, pattern) = text
        .split_once('=')
        .ok_or_else(|| illegal("it is not attribute=pattern"))?;
    let attribute =
        Attribute::named(attribute.trim()).ok_or_else(|| illegal("there is no such attribute"))?;
    let pattern = pattern.trim();
    if pattern.is_empty() || pattern.contains('=') {
        return Err(illegal("it is not attribute=pattern"));
    }
    let build = |text: &str| {
        let compiled = RegexBuilder::new(text)
            .size_limit(PATTERN_COMPILED_BYTES_MAX)
            .dfa_size_limit(PATTERN_COMPILED_BYTES_MAX)
            .build();
        compiled.map_err(|_| illegal("it is not a regular expression, or is too large"))
    };
    // By itself first: a stray parenthesis must not close the group around it.
    build(pattern)?;
    Ok((attribute, build(&format!(r"\A(?:{pattern})\z"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(pairs: &[(&str, &str)]) -> Result<Subscription, Refused> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Subscription::new(&pairs.iter().map(owned).collect())
    }

    #[test]
    fn what_is_not_set_has_kafkas_defaults() {
        let nothing = subscription(&[]).expect("legal");
        assert!(nothing.metrics.is_empty());
        assert_eq!(nothing.interval, INTERVAL_DEFAULT);
        assert!(nothing.matches(|_| None), "it is for all clients");
        for definition in &DEFINITIONS {
            assert!(is_legal(definition.name, definition.default));
        }
    }

    #[test]
    fn a_client_has_to_match_all_patterns_as_a_whole() {
        let patterns = "client_id = a.*, client_source_port=\\d+";
        let subscription = subscription(&[
            ("metrics", "org.apache.kafka.producer., *"),
            ("interval.ms", " 100 "),
            ("match", patterns),
        ])
        .expect("legal");
        assert_eq!(subscription.metrics, ["org.apache.kafka.producer.", "*"]);
        assert_eq!(subscription.interval, Duration::from_millis(100));
        let client = |id: &'static str, port: Option<&'static str>| {
            subscription.matches(|attribute| match attribute {
                Attribute::ClientId => Some(id),
                Attribute::SourcePort => port,
                _ => None,
            })
        };
        assert!(client("app", Some("9092")));
        assert!(!client("an app", None));
        assert!(!client("my app", Some("9092")));
        assert!(!client("app", Some("9092a")));
    }

    #[test]
    fn illegal_configurations_have_kafkas_codes() {
        for (name, value, code) in [
            ("unheard.of", "1", ErrorCode::InvalidRequest),
            ("interval.ms", "99", ErrorCode::InvalidRequest),
            ("interval.ms", "3600001", ErrorCode::InvalidRequest),
            ("interval.ms", "soon", ErrorCode::InvalidConfig),
            ("match", "client_id", ErrorCode::InvalidConfig),
            ("match", "client_id=", ErrorCode::InvalidConfig),
            ("match", "client_id=a=b", ErrorCode::InvalidConfig),
            ("match", "colour=red", ErrorCode::InvalidConfig),
            ("match", "client_id=(", ErrorCode::InvalidConfig),
            ("match", "client_id=a)|(b", ErrorCode::InvalidConfig),
            ("match", "client_id=\\w{5000}", ErrorCode::InvalidConfig),
        ] {
            let refused = subscription(&[(name, value)]).expect_err("illegal");
            assert_eq!(refused.code, code, "{name}={value}");
        }
    }
}
