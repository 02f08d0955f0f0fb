//! What configurations belong to: a topic, this broker, all brokers, a group, or a subscription to client metrics.

use std::sync::Arc;

use millrace_log::Topic;
use millrace_model::TopicName;
use millrace_security::acl::Operation;
use millrace_wire::error_code::ErrorCode;

use crate::{
    authorization::{Changed, Rights},
    context::Context,
    resource_configs::ResourceKind,
    settings::SettingScope,
    topics::Refused,
};

/// Kafka's numbers for the types of resources.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
pub(crate) const BROKER_LOGGER: i8 = 8;
pub(crate) const CLIENT_METRICS: i8 = 16;
pub(crate) const GROUP: i8 = 32;

/// Whether the client may do this to the configurations of the resource: those of brokers and of client metrics belong
/// to the cluster. A type that is not supported is refused when it is looked for.
pub(crate) fn check(
    rights: &Rights,
    operation: Operation,
    kind: i8,
    name: &str,
) -> Result<(), Refused> {
    let allowed = match kind {
        TOPIC => rights.topic(operation, name),
        GROUP => rights.group(operation, name),
        _ => rights.cluster(operation),
    };
    allowed.map_err(|code| Refused::new(code, code.to_string()))
}

/// Logs that the client has changed the configurations of the resource.
pub(crate) fn audit(rights: &Rights, kind: i8, name: &str, error: i16) {
    let changed = match kind {
        TOPIC => Changed::TopicConfigs,
        GROUP => Changed::GroupConfigs,
        CLIENT_METRICS => Changed::ClientMetrics,
        _ => Changed::BrokerConfigs,
    };
    rights.audit(Operation::AlterConfigs, changed, name, error);
}

/// What a request names.
#[derive(Debug, Clone)]
pub(crate) enum Resource {
    Topic(Arc<Topic>),
    /// The broker itself by its id, or all brokers by an empty name.
    Broker(SettingScope),
    /// A group, whether it exists or not, or a subscription to client metrics.
    Named(ResourceKind, String),
}

impl Resource {
    pub(crate) fn find(context: &Context, kind: i8, name: &str) -> Result<Self, Refused> {
        match kind {
            TOPIC => {
                let name = TopicName::new(name).map_err(|error| {
                    Refused::new(ErrorCode::InvalidTopicException, error.to_string())
                })?;
                let topic = context.logs.topic(&name);
                Ok(Self::Topic(
                    topic.ok_or(ErrorCode::UnknownTopicOrPartition)?,
                ))
            }
            BROKER if name.is_empty() => Ok(Self::Broker(SettingScope::Cluster)),
            BROKER if name == context.config.node_id.to_string() => {
                Ok(Self::Broker(SettingScope::Broker))
            }
            BROKER => {
                let id = context.config.node_id;
                let message = format!(
                    "Unexpected broker id, expected {id} or empty string, but received {name}"
                );
                Err(Refused::new(ErrorCode::InvalidRequest, message))
            }
            GROUP if name.is_empty() => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Default group resources are not allowed.",
            )),
            GROUP => Ok(Self::Named(ResourceKind::Group, name.to_owned())),
            CLIENT_METRICS if name.is_empty() => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Subscription name can't be empty",
            )),
            CLIENT_METRICS => Ok(Self::Named(ResourceKind::ClientMetrics, name.to_owned())),
            other => {
                let message = match other {
                    BROKER_LOGGER => "Log levels cannot be changed while the broker runs.",
                    _ => &format!("Unknown resource type {other}"),
                };
                Err(Refused::new(ErrorCode::InvalidRequest, message))
            }
        }
    }
}
