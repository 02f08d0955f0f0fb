//! Metrics that clients push (KIP-714).

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        ApiVersionsRequest, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
        PushTelemetryRequest,
    },
};
use millrace_api::{ClientMetricValue, ClientMetricsFilter};
use millrace_record::Compression;
use uuid::Uuid;

use crate::{
    authorization::{alice, client},
    configs::{SET, alter},
    world::{World, text},
};

const CLIENT_METRICS: i8 = 16;

/// An OTLP message with the gauge `g` of 1.5, written by hand.
fn otlp() -> Vec<u8> {
    let within = |field: u8, inner: &[u8]| {
        let length = u8::try_from(inner.len()).expect("short");
        [&[field << 3 | 2, length], inner].concat()
    };
    let point = [&[0x21][..], &1.5_f64.to_le_bytes()].concat();
    let gauge = within(5, &within(1, &point));
    let metric = [within(1, b"g"), gauge].concat();
    within(1, &within(2, &within(2, &metric)))
}

async fn subscribe(world: &World, configs: &[(&str, &str)]) {
    let operations: Vec<_> = configs
        .iter()
        .map(|&(name, value)| (name, SET, Some(value)))
        .collect();
    let altered = alter(world, CLIENT_METRICS, "s", &operations).await;
    assert_eq!(altered, (0, String::new()));
}

async fn get(world: &World, id: Uuid) -> GetTelemetrySubscriptionsResponse {
    let request = GetTelemetrySubscriptionsRequest::default().with_client_instance_id(id);
    world.ask(0, &request).await
}

async fn push(
    world: &World,
    told: &GetTelemetrySubscriptionsResponse,
    compression: Compression,
) -> i16 {
    let metrics = compression.compress_onto(&otlp(), Vec::new(), None);
    let request = PushTelemetryRequest::default()
        .with_client_instance_id(told.client_instance_id)
        .with_subscription_id(told.subscription_id)
        .with_compression_type(compression as i8)
        .with_metrics(metrics.expect("compressed").into());
    world.ask(0, &request).await.error_code
}

#[tokio::test]
async fn a_client_pushes_what_it_is_asked_for() {
    let world = World::new().await;
    let without = get(&world, Uuid::nil()).await;
    assert_eq!(without.error_code, 0);
    assert!(without.requested_metrics.is_empty());
    subscribe(&world, &[("metrics", "g"), ("interval.ms", "100")]).await;
    let told = get(&world, without.client_instance_id).await;
    assert_eq!(told.error_code, 0, "the subscriptions have changed");
    assert_eq!(told.client_instance_id, without.client_instance_id);
    assert_eq!(told.push_interval_ms, 100);
    assert_eq!(told.accepted_compression_types, [4, 3, 1, 2]);
    assert_eq!(told.telemetry_max_bytes, 1_048_576);
    let asked: Vec<&str> = told.requested_metrics.iter().map(|m| m.as_str()).collect();
    assert_eq!(asked, ["g"]);
    assert_eq!(push(&world, &told, Compression::None).await, 0);
    let shown = world.service.client_metrics(&ClientMetricsFilter {
        limit: 10,
        ..ClientMetricsFilter::default()
    });
    let client = &shown.clients[0];
    assert_eq!(
        (client.address.as_str(), client.interval_ms),
        ("127.0.0.1", 100)
    );
    assert_eq!(client.metrics[0].value, ClientMetricValue::Gauge(1.5));
    let early = push(&world, &told, Compression::None).await;
    assert_eq!(early, Code::ThrottlingQuotaExceeded.code());
}

#[tokio::test]
async fn every_compression_is_read() {
    let world = World::new().await;
    subscribe(&world, &[("metrics", "*")]).await;
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let told = get(&world, Uuid::nil()).await;
        assert_eq!(push(&world, &told, compression).await, 0, "{compression:?}");
    }
}

#[tokio::test]
async fn subscriptions_are_for_clients_by_what_they_say_of_themselves() {
    let world = World::new().await;
    let java = "client_software_name=java,client_source_address=127\\..*";
    subscribe(&world, &[("metrics", "*"), ("match", java)]).await;
    let request = GetTelemetrySubscriptionsRequest::default();
    for (peer, software, expected) in [(alice(), "java", 1), (client(3, "User:bob"), "go", 0)] {
        let versions = ApiVersionsRequest::default()
            .with_client_software_name(text(software))
            .with_client_software_version(text("1"));
        assert_eq!(world.ask_as(&peer, 3, &versions).await.error_code, 0);
        let told = world.ask_as(&peer, 0, &request).await;
        assert_eq!(told.requested_metrics.len(), expected, "{software}");
    }
    let silent = world.ask_as(&client(4, "User:eve"), 0, &request).await;
    assert!(silent.requested_metrics.is_empty());
}

#[tokio::test]
async fn illegal_pushes_are_refused() {
    let world = World::new().await;
    subscribe(&world, &[("metrics", "*"), ("interval.ms", "100")]).await;
    let request = PushTelemetryRequest::default();
    let refused = world.ask(0, &request).await.error_code;
    assert_eq!(refused, Code::InvalidRequest.code(), "without an id");
    let told = get(&world, Uuid::nil()).await;
    let request = request
        .with_client_instance_id(told.client_instance_id)
        .with_subscription_id(told.subscription_id ^ 1);
    let refused = world.ask(0, &request).await.error_code;
    assert_eq!(refused, Code::UnknownSubscriptionId.code());
    let told = get(&world, told.client_instance_id).await;
    assert_eq!(told.error_code, 0, "it may ask again at once");
}
