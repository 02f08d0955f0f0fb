//! ListConfigResources (KIP-1142): what has configurations.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        ListConfigResourcesRequest, ListConfigResourcesResponse,
        list_config_resources_response::ConfigResource,
    },
};

use crate::{
    call::{Call, Outcome},
    config_resource::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC},
    context::{Context, text},
    resource_configs::ResourceKind,
};

/// The first version that lists other resources than those of client metrics.
const FIRST_WITH_TYPES: i16 = 1;

const TYPES: [i8; 5] = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ListConfigResourcesRequest = decode(&call.request)?;
    let listed = match context.rights(&call).cluster(Operation::DescribeConfigs) {
        Ok(()) => list(context, &call, &request.resource_types),
        Err(code) => Err(code),
    };
    let (error, resources) = match listed {
        Ok(resources) => (NONE, resources),
        Err(code) => (code.code(), Vec::new()),
    };
    let response = ListConfigResourcesResponse::default()
        .with_error_code(error)
        .with_config_resources(resources);
    call.reply().now(&response, error)
}

fn list(context: &Context, call: &Call, asked: &[i8]) -> Result<Vec<ConfigResource>, ErrorCode> {
    let types = match (call.version(), asked) {
        (..FIRST_WITH_TYPES, _) => &[CLIENT_METRICS][..],
        (_, []) => &TYPES[..],
        (_, asked) => asked,
    };
    if types.iter().any(|kind| !TYPES.contains(kind)) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    // There are no loggers with configurations.
    let mut resources = Vec::new();
    let resource = |kind, name: String| {
        ConfigResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
    };
    if types.contains(&BROKER) {
        let brokers = context.members(&call.peer).into_iter();
        resources.extend(brokers.map(|broker| resource(BROKER, broker.id.0.to_string())));
    }
    if types.contains(&TOPIC) {
        let topics = context.logs.topics().into_iter();
        resources.extend(topics.map(|topic| resource(TOPIC, topic.name.as_str().to_owned())));
    }
    for (kind, number) in [
        (ResourceKind::ClientMetrics, CLIENT_METRICS),
        (ResourceKind::Group, GROUP),
    ] {
        if types.contains(&number) {
            let names = context.resource_configs.names(kind).into_iter();
            resources.extend(names.map(|name| resource(number, name)));
        }
    }
    Ok(resources)
}
