//! Configurations of topics, brokers and groups.

use std::collections::BTreeMap;

use millrace_wire::messages::{
    DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    describe_configs_request::DescribeConfigsResource,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};

use super::{Admin, Results, text};
use crate::error::{BrokerError, RequestError};

/// What has a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ConfigResource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by node id.
    Broker(i32),
    /// All brokers: what they have in common.
    Brokers,
    /// A consumer group.
    Group(String),
}

impl ConfigResource {
    /// Kafka's number for the kind, and the name.
    fn parts(&self) -> (i8, String) {
        match self {
            Self::Topic(name) => (2, name.clone()),
            Self::Broker(id) => (4, id.to_string()),
            Self::Brokers => (4, String::new()),
            Self::Group(name) => (32, name.clone()),
        }
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// Its value; none where it is secret or not set.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it can be changed while the broker runs.
    pub is_read_only: bool,
    /// Whether the value is secret.
    pub is_sensitive: bool,
}

/// Where a setting comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigSource {
    /// Set for the topic.
    Topic,
    /// Set for the broker while it ran.
    Broker,
    /// Set for all brokers while they ran.
    Brokers,
    /// From the broker's file.
    File,
    /// Nobody has set it.
    Default,
    /// Set for the group.
    Group,
    /// A number that this client does not know.
    Other(i8),
}

impl ConfigSource {
    fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::Broker,
            3 => Self::Brokers,
            4 => Self::File,
            5 => Self::Default,
            8 => Self::Group,
            other => Self::Other(other),
        }
    }
}

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigChange {
    /// Sets the value.
    Set(String),
    /// Goes back to the default.
    Delete,
    /// Adds to a list.
    Append(String),
    /// Removes from a list.
    Subtract(String),
}

impl ConfigChange {
    fn parts(&self) -> (i8, Option<&str>) {
        match self {
            Self::Set(value) => (0, Some(value)),
            Self::Delete => (1, None),
            Self::Append(value) => (2, Some(value)),
            Self::Subtract(value) => (3, Some(value)),
        }
    }
}

impl Admin {
    /// All settings of each resource, by name.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn describe_configs(
        &self,
        resources: &[ConfigResource],
    ) -> Result<Results<ConfigResource, BTreeMap<String, ConfigEntry>>, RequestError> {
        let mut results = Results::new();
        for resource in resources {
            let described = self.retried(|| self.describe_config(resource)).await;
            insert(&mut results, resource, described)?;
        }
        Ok(results)
    }

    async fn describe_config(
        &self,
        resource: &ConfigResource,
    ) -> Result<BTreeMap<String, ConfigEntry>, RequestError> {
        let (kind, name) = resource.parts();
        let make = |_| {
            let asked = DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(&name))
                .with_configuration_keys(None);
            DescribeConfigsRequest::default().with_resources(vec![asked])
        };
        // A broker's own settings are known to itself only.
        let response = match resource {
            ConfigResource::Broker(id) => self.client.call_node(*id, i16::MAX, make).await?,
            _ => self.client.call_any(i16::MAX, make).await?,
        };
        let mut entries = BTreeMap::new();
        for result in response.results {
            BrokerError::check(result.error_code, result.error_message.as_deref())?;
            for entry in result.configs {
                let described = ConfigEntry {
                    value: entry.value.as_deref().map(ToOwned::to_owned),
                    source: ConfigSource::from_code(entry.config_source),
                    is_read_only: entry.read_only,
                    is_sensitive: entry.is_sensitive,
                };
                entries.insert(entry.name.to_string(), described);
            }
        }
        Ok(entries)
    }

    /// Changes settings; those that are not named stay as they are (KIP-339). All changes of one
    /// resource are made, or none.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn alter_configs(
        &self,
        changes: &BTreeMap<ConfigResource, BTreeMap<String, ConfigChange>>,
    ) -> Result<Results<ConfigResource, ()>, RequestError> {
        let mut results = Results::new();
        for (resource, changes) in changes {
            let altered = self.retried(|| self.alter_config(resource, changes)).await;
            insert(&mut results, resource, altered)?;
        }
        Ok(results)
    }

    async fn alter_config(
        &self,
        resource: &ConfigResource,
        changes: &BTreeMap<String, ConfigChange>,
    ) -> Result<(), RequestError> {
        let (kind, name) = resource.parts();
        let make = |_| {
            let change = |(name, change): (&String, &ConfigChange)| {
                let (operation, value) = change.parts();
                AlterableConfig::default()
                    .with_name(text(name))
                    .with_config_operation(operation)
                    .with_value(value.map(text))
            };
            let asked = AlterConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(&name))
                .with_configs(changes.iter().map(change).collect());
            IncrementalAlterConfigsRequest::default().with_resources(vec![asked])
        };
        let response = match resource {
            ConfigResource::Broker(id) => self.client.call_node(*id, i16::MAX, make).await?,
            _ => self.client.call_controller(i16::MAX, make).await?,
        };
        for result in response.responses {
            BrokerError::check(result.error_code, result.error_message.as_deref())?;
        }
        Ok(())
    }
}

/// Notes a broker's answer; any other error is the whole call's.
fn insert<T>(
    results: &mut Results<ConfigResource, T>,
    resource: &ConfigResource,
    result: Result<T, RequestError>,
) -> Result<(), RequestError> {
    let result = match result {
        Ok(value) => Ok(value),
        Err(RequestError::Broker(error)) => Err(error),
        Err(error) => return Err(error),
    };
    results.insert(resource.clone(), result);
    Ok(())
}
