//! Changes of configurations: what the two requests for it have in common.
//!
//! A change of one resource takes effect whole or not at all; resources stand or fall by themselves.
//! They are changed in the queue of topic changes, so that nobody reads, changes and writes a
//! topic's configurations between another's reading and writing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use millrace_log::{Topic, TopicConfig, error::SetTopicConfigsError};
use millrace_security::acl::Operation;
use millrace_wire::{Encodable, HeaderVersion, StrBytes, error_code::ErrorCode};

use crate::{
    authorization::Rights,
    call::{Answer, Reply, first_error},
    catalogue, code,
    config_resource::{self, Resource},
    context::Context,
    settings::{AlterSettingsError, SettingsChange},
    topics::{Refused, is_internal},
};

/// What is to become of one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigOperation {
    Set(String),
    /// Back to what holds without the resource.
    Delete,
    /// Elements that a list is to have.
    Append(String),
    /// Elements that it is not to have.
    Subtract(String),
}

impl ConfigOperation {
    /// By Kafka's numbers.
    pub(crate) fn new(name: &str, number: i8, value: Option<String>) -> Result<Self, Refused> {
        let value = || {
            let message = format!("Null value not supported for : {name}");
            value.ok_or_else(|| Refused::new(ErrorCode::InvalidRequest, message))
        };
        match number {
            0 => Ok(Self::Set(value()?)),
            1 => Ok(Self::Delete),
            2 => Ok(Self::Append(value()?)),
            3 => Ok(Self::Subtract(value()?)),
            other => {
                let message = format!("Unknown operation type {other} for config key {name}");
                Err(Refused::new(ErrorCode::InvalidRequest, message))
            }
        }
    }
}

/// What is asked for one resource.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Only these change.
    Some(BTreeMap<String, ConfigOperation>),
    /// It sets these and nothing else.
    All(BTreeMap<String, String>),
}

/// A change of one resource, as a request asks for it.
#[derive(Debug)]
pub(crate) struct Change {
    /// Kafka's number for its type.
    pub(crate) kind: i8,
    pub(crate) name: StrBytes,
    pub(crate) asked: Result<Asked, Refused>,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) kind: i8,
    pub(crate) name: StrBytes,
    pub(crate) error: i16,
    pub(crate) message: Option<StrBytes>,
}

/// Configurations by name, unless one comes twice.
pub(crate) fn by_name<T>(
    pairs: impl IntoIterator<Item = Result<(String, T), Refused>>,
) -> Result<BTreeMap<String, T>, Refused> {
    let mut map = BTreeMap::new();
    for pair in pairs {
        let (name, value) = pair?;
        if map.insert(name, value).is_some() {
            let message = "Error due to duplicate config keys";
            return Err(Refused::new(ErrorCode::InvalidRequest, message));
        }
    }
    Ok(map)
}

/// Changes resources, one after the other; one that is named twice is not changed.
async fn change_all(
    (context, rights): (&Context, &Rights),
    changes: Vec<Change>,
    validate_only: bool,
) -> Vec<Changed> {
    let mut times: HashMap<(i8, StrBytes), usize> = HashMap::new();
    for change in &changes {
        *times.entry((change.kind, change.name.clone())).or_default() += 1;
    }
    let mut all = Vec::with_capacity(changes.len());
    for Change { kind, name, asked } in changes {
        let allowed = config_resource::check(rights, Operation::AlterConfigs, kind, &name);
        let is_allowed = allowed.is_ok();
        let outcome = match (times.get(&(kind, name.clone())), allowed.and(asked)) {
            (Some(2..), _) => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Each resource must appear at most once.",
            )),
            (_, Err(refused)) => Err(refused),
            _ if kind == config_resource::TOPIC && name.is_empty() => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "There is no default of all topics to change.",
            )),
            (_, Ok(asked)) => match Resource::find(context, kind, &name) {
                Ok(resource) => change(context, resource, asked, validate_only).await,
                Err(refused) if refused.code == ErrorCode::UnknownTopicOrPartition => {
                    // Kafka, too, looks at the values first.
                    let altered = altered_topic(context, BTreeMap::new(), asked);
                    altered.and(Err(refused))
                }
                Err(refused) => Err(refused),
            },
        };
        let (error, message) = Refused::worded_parts(&outcome);
        if !validate_only && is_allowed {
            config_resource::audit(rights, kind, &name, error);
        }
        all.push(Changed {
            kind,
            name,
            error,
            message,
        });
    }
    all
}

/// Changes what a request names and writes its answer; `message` makes one of what became of each.
pub(crate) async fn answer<M: Encodable + HeaderVersion>(
    (context, rights): (&Context, &Rights),
    reply: Reply,
    (changes, validate_only): (Vec<Change>, bool),
    message: impl FnOnce(Vec<Changed>) -> M,
) -> Answer {
    let changed = change_all((context, rights), changes, validate_only).await;
    let error = first_error(changed.iter().map(|changed| changed.error));
    reply.with(&message(changed), error)
}

/// Settings of Kafka's brokers that bound the copying between replicas. `kafka-reassign-partitions --verify` deletes them from all
/// brokers, whether they are set or not; here nothing is copied, and they cannot be set.
const REPLICATION_THROTTLES: [&str; 3] = [
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

/// Changes a resource, or says what would be wrong with that.
async fn change(
    context: &Context,
    resource: Resource,
    mut asked: Asked,
    validate_only: bool,
) -> Result<(), Refused> {
    if let Asked::Some(operations) = &mut asked {
        let before = operations.len();
        operations.retain(|name, operation| {
            *operation != ConfigOperation::Delete || !REPLICATION_THROTTLES.contains(&name.as_str())
        });
        if operations.is_empty() && before > 0 {
            return Ok(());
        }
    }
    match resource {
        Resource::Topic(topic) => change_topic(context, &topic, asked, validate_only).await,
        Resource::Broker(scope) => {
            let change = match asked {
                Asked::Some(operations) => SettingsChange::Some(settings_change(operations)?),
                Asked::All(all) => SettingsChange::All(all),
            };
            let altered = context.settings.alter(scope, change, validate_only).await;
            altered.map_err(|error| refused(&error))
        }
        Resource::Named(kind, name) => {
            let configs = Arc::clone(&context.resource_configs);
            let change = async move { configs.change((kind, name), asked, validate_only).await };
            // In turn with the changes that other brokers have made.
            context.security_changes.enqueue(change).await.await
        }
    }
}

fn refused(error: &AlterSettingsError) -> Refused {
    let code = match error {
        AlterSettingsError::Invalid(_) => ErrorCode::InvalidConfig,
        // Clients look for the controller again, and ask it.
        AlterSettingsError::Fenced => ErrorCode::NotController,
        AlterSettingsError::NotStored(cause) => code::of_storage(cause),
    };
    Refused::new(code, error.to_string())
}

/// None of the broker's settings that can be changed is a list.
fn settings_change(
    operations: BTreeMap<String, ConfigOperation>,
) -> Result<BTreeMap<String, Option<String>>, Refused> {
    let change = |(name, operation): (String, ConfigOperation)| match operation {
        ConfigOperation::Set(value) => Ok((name, Some(value))),
        ConfigOperation::Delete => Ok((name, None)),
        ConfigOperation::Append(_) => Err(no_list(&name, "APPEND")),
        ConfigOperation::Subtract(_) => Err(no_list(&name, "SUBTRACT")),
    };
    operations.into_iter().map(change).collect()
}

fn no_list(name: &str, operation: &str) -> Refused {
    let message = format!(
        "Can't {operation} to key {name} because its type is not LIST; write the whole value"
    );
    Refused::new(ErrorCode::InvalidConfig, message)
}

/// What a topic with these configurations has after the change.
fn altered_topic(
    context: &Context,
    mut overrides: BTreeMap<String, String>,
    asked: Asked,
) -> Result<BTreeMap<String, String>, Refused> {
    match asked {
        Asked::All(all) => overrides = all,
        Asked::Some(operations) => {
            // What an older broker accepted and is not legal any more goes with the next change.
            overrides.retain(|name, value| TopicConfig::check(name, value).is_ok());
            for (name, operation) in operations {
                apply(
                    &mut overrides,
                    name,
                    operation,
                    catalogue::topic_list_default,
                )?;
            }
        }
    }
    let resolved = context.logs.validate_topic_configs(&overrides);
    resolved.map_err(|error| Refused::new(ErrorCode::InvalidConfig, error.to_string()))?;
    Ok(overrides)
}

async fn change_topic(
    context: &Context,
    topic: &Topic,
    asked: Asked,
    validate_only: bool,
) -> Result<(), Refused> {
    if is_internal(topic.name.as_str()) {
        let message = "The configuration of an internal topic cannot be changed.";
        return Err(Refused::new(ErrorCode::InvalidRequest, message));
    }
    let overrides = altered_topic(context, topic.overrides.clone(), asked)?;
    if validate_only {
        return Ok(());
    }
    let logs = &context.logs;
    // Stored even where nothing changes: a write before may have been carried out and said to have
    // failed, and only another one undoes it.
    match logs.set_topic_configs(&topic.name, overrides).await {
        Ok(changed) => {
            tracing::info!(topic = %changed.name, overrides = ?changed.overrides, "configured");
            Ok(())
        }
        Err(error) => {
            if matches!(error, SetTopicConfigsError::Meta(_)) {
                tracing::warn!(topic = %topic.name, %error, "could not be configured");
            }
            let code = code::of_set_topic_configs(&error);
            Err(Refused::new(code, error.to_string()))
        }
    }
}

/// What a list has where it is not set; none for a configuration that is no list.
pub(crate) type ListDefault = fn(&str) -> Option<&'static str>;

/// Changes one of the configurations that a resource sets.
pub(crate) fn apply(
    overrides: &mut BTreeMap<String, String>,
    name: String,
    operation: ConfigOperation,
    default: ListDefault,
) -> Result<(), Refused> {
    let value = match operation {
        ConfigOperation::Set(value) => value,
        ConfigOperation::Delete => {
            overrides.remove(&name);
            return Ok(());
        }
        ConfigOperation::Append(added) => {
            let mut elements = elements((overrides, default), &name, "APPEND")?;
            let mut seen: BTreeSet<String> = elements.iter().cloned().collect();
            let added = split(&added).map(str::to_owned);
            elements.extend(added.filter(|element| seen.insert(element.clone())));
            elements.join(",")
        }
        ConfigOperation::Subtract(taken) => {
            let mut elements = elements((overrides, default), &name, "SUBTRACT")?;
            let taken: BTreeSet<&str> = split(&taken).collect();
            elements.retain(|element| !taken.contains(element.as_str()));
            elements.join(",")
        }
    };
    overrides.insert(name, value);
    Ok(())
}

/// What a list has now.
fn elements(
    (overrides, default): (&BTreeMap<String, String>, ListDefault),
    name: &str,
    operation: &str,
) -> Result<Vec<String>, Refused> {
    let default = default(name).ok_or_else(|| no_list(name, operation))?;
    let now = overrides.get(name).map_or(default, String::as_str);
    Ok(split(now).map(str::to_owned).collect())
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(now: &[(&str, &str)], name: &str, operation: ConfigOperation) -> Option<String> {
        let mut overrides = now
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let default = catalogue::topic_list_default;
        apply(&mut overrides, name.to_owned(), operation, default).expect("legal");
        overrides.remove(name)
    }

    #[test]
    fn lists_grow_and_shrink_by_elements() {
        let policy = "cleanup.policy";
        let append = |value: &str| ConfigOperation::Append(value.to_owned());
        let subtract = |value: &str| ConfigOperation::Subtract(value.to_owned());
        assert_eq!(
            applied(&[], policy, append("compact")).as_deref(),
            Some("delete,compact"),
            "to the default"
        );
        let both = [(policy, "delete, compact")];
        assert_eq!(
            applied(&both, policy, append("compact,compact")).as_deref(),
            Some("delete,compact"),
            "an element stands once"
        );
        assert_eq!(
            applied(&both, policy, subtract("delete, nothing")).as_deref(),
            Some("compact")
        );
        assert_eq!(applied(&both, policy, ConfigOperation::Delete), None);
    }

    #[test]
    fn what_is_no_list_takes_whole_values_only() {
        for operation in [
            ConfigOperation::Append("1".into()),
            ConfigOperation::Subtract("1".into()),
        ] {
            let mut overrides = BTreeMap::new();
            let refused = apply(
                &mut overrides,
                "retention.ms".into(),
                operation.clone(),
                catalogue::topic_list_default,
            );
            assert_eq!(refused.expect_err("no list").code, ErrorCode::InvalidConfig);
            let broker = settings_change(BTreeMap::from([("a".to_owned(), operation)]));
            assert_eq!(broker.expect_err("no list").code, ErrorCode::InvalidConfig);
        }
    }

    #[test]
    fn operations_have_kafkas_numbers() {
        let value = || Some("v".to_owned());
        assert_eq!(
            ConfigOperation::new("k", 0, value()),
            Ok(ConfigOperation::Set("v".into()))
        );
        assert_eq!(
            ConfigOperation::new("k", 1, None),
            Ok(ConfigOperation::Delete)
        );
        assert_eq!(
            ConfigOperation::new("k", 2, value()),
            Ok(ConfigOperation::Append("v".into()))
        );
        assert_eq!(
            ConfigOperation::new("k", 3, value()),
            Ok(ConfigOperation::Subtract("v".into()))
        );
        for (number, value) in [(0, None), (2, None), (3, None), (4, value()), (-1, value())] {
            let refused = ConfigOperation::new("k", number, value).expect_err("illegal");
            assert_eq!(refused.code, ErrorCode::InvalidRequest);
        }
    }
}
