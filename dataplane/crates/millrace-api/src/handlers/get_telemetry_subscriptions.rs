//! GetTelemetrySubscriptions (KIP-714): a client asks which metrics it is to push.

use std::sync::Arc;

use millrace_wire::{
    decode,
    error_code::NONE,
    messages::{GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse},
};

use crate::{
    call::{Call, Outcome},
    client_metrics::Attributes,
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: GetTelemetrySubscriptionsRequest = decode(&call.request)?;
    let id = request.client_instance_id;
    let requested = context.client_metrics.requested(id, &attributes(&call));
    let response = GetTelemetrySubscriptionsResponse::default();
    match requested {
        Ok(requested) => {
            let metrics = requested.metrics.into_iter().map(text);
            let response = response
                .with_client_instance_id(requested.id)
                .with_subscription_id(requested.subscription_id)
                .with_accepted_compression_types(requested.compressions)
                .with_push_interval_ms(requested.interval_ms)
                .with_telemetry_max_bytes(requested.bytes_max)
                // Sums since the client has started say more than those since a push that may have been lost.
                .with_delta_temporality(false)
                .with_requested_metrics(metrics.collect());
            call.reply().now(&response, NONE)
        }
        Err(code) => {
            let response = response.with_error_code(code.code());
            call.reply().now(&response, code.code())
        }
    }
}

/// What subscriptions look at.
pub(crate) fn attributes(call: &Call) -> Attributes {
    let software = call.peer.software.get();
    Attributes {
        client_id: call.client_id(),
        software_name: software.map(|software| software.name.to_string()),
        software_version: software.map(|software| software.version.to_string()),
        address: call.peer.host(),
        port: call.peer.address.port().to_string(),
    }
}
