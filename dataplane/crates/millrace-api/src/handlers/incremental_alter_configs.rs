//! IncrementalAlterConfigs: single configurations of topics and of this broker are changed.

use std::sync::Arc;

use millrace_wire::{
    decode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};

use crate::{
    call::{Answer, Call, Outcome, Reply, first_error},
    config_changes::{Asked, Change, Changed, Operation, by_name, change_all},
    context::Context,
    topic_changes::enqueue,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: IncrementalAlterConfigsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    enqueue(context, async move { answer(&own, reply, request).await }).await
}

async fn answer(
    context: &Context,
    reply: Reply,
    request: IncrementalAlterConfigsRequest,
) -> Answer {
    let changes = request.resources.into_iter().map(asked).collect();
    let changed = change_all(context, changes, request.validate_only).await;
    let error = first_error(changed.iter().map(|changed| changed.error));
    let responses = changed.into_iter().map(response).collect();
    reply.with(
        &IncrementalAlterConfigsResponse::default().with_responses(responses),
        error,
    )
}

fn asked(resource: AlterConfigsResource) -> Change {
    let operation = |config: AlterableConfig| {
        let name = config.name.to_string();
        let value = config.value.map(|value| value.to_string());
        let operation = Operation::new(&name, config.config_operation, value)?;
        Ok((name, operation))
    };
    Change {
        kind: resource.resource_type,
        name: resource.resource_name,
        asked: by_name(resource.configs.into_iter().map(operation)).map(Asked::Some),
    }
}

fn response(changed: Changed) -> AlterConfigsResourceResponse {
    AlterConfigsResourceResponse::default()
        .with_error_code(changed.error)
        .with_error_message(changed.message)
        .with_resource_type(changed.kind)
        .with_resource_name(changed.name)
}
