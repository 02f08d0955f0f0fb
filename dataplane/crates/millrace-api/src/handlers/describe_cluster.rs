//! DescribeCluster: the cluster's brokers.

use std::sync::Arc;

use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        BrokerId, DescribeClusterRequest, DescribeClusterResponse,
        describe_cluster_response::DescribeClusterBroker,
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
    members::Member,
    topics::OPERATIONS_NOT_ASKED,
};

/// The first version that tells brokers from controllers (KIP-919).
const FIRST_WITH_ENDPOINT_TYPE: i16 = 1;
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeClusterRequest = decode(&call.request)?;
    if call.version() >= FIRST_WITH_ENDPOINT_TYPE && request.endpoint_type != BROKERS {
        let (code, message) = match request.endpoint_type {
            CONTROLLERS => (
                ErrorCode::MismatchedEndpointType,
                "this endpoint is a broker's",
            ),
            _ => (
                ErrorCode::UnsupportedEndpointType,
                "no such type of endpoint",
            ),
        };
        let response = DescribeClusterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(message)))
            .with_controller_id(BrokerId(-1));
        return call.reply().now(&response, code.code());
    }
    let broker = |member: Member| {
        DescribeClusterBroker::default()
            .with_broker_id(member.id)
            .with_host(member.host)
            .with_port(member.port)
            .with_rack(member.rack)
    };
    let brokers = context
        .members(&call.peer)
        .into_iter()
        .map(broker)
        .collect();
    let operations = match request.include_cluster_authorized_operations {
        true => context.rights(&call).cluster_operations(),
        false => OPERATIONS_NOT_ASKED,
    };
    let response = DescribeClusterResponse::default()
        .with_cluster_id(text(context.config.cluster_id.clone()))
        .with_controller_id(context.broker_id())
        .with_brokers(brokers)
        .with_cluster_authorized_operations(operations);
    call.reply().now(&response, NONE)
}
