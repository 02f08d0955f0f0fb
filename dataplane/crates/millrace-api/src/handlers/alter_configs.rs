//! AlterConfigs: all configurations of a topic or of this broker are replaced. Clients older than
//! IncrementalAlterConfigs (KIP-339) know no other way.

use std::sync::Arc;

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
    call::{Answer, Call, Outcome, Reply, first_error},
    config_changes::{Asked, Change, Changed, by_name, change_all},
    context::Context,
    topic_changes::enqueue,
    topics::Refused,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterConfigsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    enqueue(context, async move { answer(&own, reply, request).await }).await
}

async fn answer(context: &Context, reply: Reply, request: AlterConfigsRequest) -> Answer {
    let changes = request.resources.into_iter().map(asked).collect();
    let changed = change_all(context, changes, request.validate_only).await;
    let error = first_error(changed.iter().map(|changed| changed.error));
    let responses = changed.into_iter().map(response).collect();
    reply.with(
        &AlterConfigsResponse::default().with_responses(responses),
        error,
    )
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

fn response(changed: Changed) -> AlterConfigsResourceResponse {
    AlterConfigsResourceResponse::default()
        .with_error_code(changed.error)
        .with_error_message(changed.message)
        .with_resource_type(changed.kind)
        .with_resource_name(changed.name)
}
