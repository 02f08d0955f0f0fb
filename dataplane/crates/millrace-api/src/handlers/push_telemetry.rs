//! PushTelemetry (KIP-714): a client pushes its metrics.

use std::sync::Arc;

use millrace_wire::{
    decode,
    messages::{PushTelemetryRequest, PushTelemetryResponse},
};

use super::get_telemetry_subscriptions::attributes;
use crate::{
    call::{Call, Outcome, code_of},
    client_metrics::Push,
    context::Context,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: PushTelemetryRequest = decode(&call.request)?;
    let push = Push {
        id: request.client_instance_id,
        subscription_id: request.subscription_id,
        is_terminating: request.terminating,
        compression: request.compression_type,
        metrics: &request.metrics,
    };
    let pushed = context.client_metrics.push(&push, &attributes(&call));
    let error = code_of(&pushed);
    let response = PushTelemetryResponse::default().with_error_code(error);
    call.reply().now(&response, error)
}
