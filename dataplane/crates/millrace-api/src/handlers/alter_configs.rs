//! AlterConfigs: replaces all configurations of a topic or of this broker. Clients older than
//! IncrementalAlterConfigs (KIP-339) use it.

use std::{future::ready, sync::Arc};

use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        AlterConfigsRequest, AlterConfigsResponse,
        alter_configs_request::{AlterConfigsResource, AlterableConfig},
        alter_configs_response::AlterConfigsResourceResponse,
    },
};

use crate::{
    call::{Call, Outcome},
    config_changes::{Asked, Change, Changed, answer, by_name},
    context::Context,
    topic_changes::enqueue,
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterConfigsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    let changes = request.resources.into_iter().map(asked).collect();
    let asked = (changes, request.validate_only);
    let rights = context.rights(&call);
    let change = async move { answer((&own, &rights), reply, asked, told).await };
    enqueue(context, change, ready).await
}

fn asked(resource: AlterConfigsResource) -> Change {
    let pair = |config: AlterableConfig| {
        let name = config.name.to_string();
        match config.value {
            Some(value) => Ok((name, value.to_string())),
            None => {
                let message = format!("Null value not supported for : {name}");
                Err(Refused::new(ErrorCode::InvalidRequest, message))
            }
        }
    };
    Change {
        kind: resource.resource_type,
        name: resource.resource_name,
        asked: by_name(resource.configs.into_iter().map(pair)).map(Asked::All),
    }
}

fn told(all: Vec<Changed>) -> AlterConfigsResponse {
    let told = |changed: Changed| {
        AlterConfigsResourceResponse::default()
            .with_error_code(changed.error)
            .with_error_message(changed.message)
            .with_resource_type(changed.kind)
            .with_resource_name(changed.name)
    };
    AlterConfigsResponse::default().with_responses(all.into_iter().map(told).collect())
}
