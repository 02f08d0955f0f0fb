//! IncrementalAlterConfigs: changes single configurations of topics and of this broker.

use std::{future::ready, sync::Arc};

use millrace_wire::{
    decode,
    messages::{
        IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        incremental_alter_configs_response::AlterConfigsResourceResponse,
    },
};

use crate::{
    call::{Call, Outcome},
    config_changes::{Asked, Change, Changed, ConfigOperation, answer, by_name},
    context::Context,
    topic_changes::enqueue,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: IncrementalAlterConfigsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    let changes = request.resources.into_iter().map(asked).collect();
    let asked = (changes, request.validate_only);
    let rights = context.rights(&call);
    let change = async move { answer((&own, &rights), reply, asked, told).await };
    enqueue(context, change, ready).await
}

fn asked(resource: AlterConfigsResource) -> Change {
    let operation = |config: AlterableConfig| {
        let name = config.name.to_string();
        let value = config.value.map(|value| value.to_string());
        let operation = ConfigOperation::new(&name, config.config_operation, value)?;
        Ok((name, operation))
    };
    Change {
        kind: resource.resource_type,
        name: resource.resource_name,
        asked: by_name(resource.configs.into_iter().map(operation)).map(Asked::Some),
    }
}

fn told(all: Vec<Changed>) -> IncrementalAlterConfigsResponse {
    let told = |changed: Changed| {
        AlterConfigsResourceResponse::default()
            .with_error_code(changed.error)
            .with_error_message(changed.message)
            .with_resource_type(changed.kind)
            .with_resource_name(changed.name)
    };
    IncrementalAlterConfigsResponse::default().with_responses(all.into_iter().map(told).collect())
}
