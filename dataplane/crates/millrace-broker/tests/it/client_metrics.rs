//! Metrics that clients push (KIP-714): asked for by a client, pushed by another, shown over HTTP.

use crate::support::{Home, TOKEN, client, get};
use millrace_broker::Broker;
use millrace_wire::{
    StrBytes,
    messages::{
        GetTelemetrySubscriptionsRequest, IncrementalAlterConfigsRequest, PushTelemetryRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use serde_json::{Value, json};

const CLIENT_METRICS: i8 = 16;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// An OTLP message with the gauge `g` of 1.5, written by hand.
fn otlp() -> Vec<u8> {
    let within = |field: u8, inner: &[u8]| {
        let length = u8::try_from(inner.len()).expect("short");
        [&[field << 3 | 2, length], inner].concat()
    };
    let point = [&[0x21][..], &1.5_f64.to_le_bytes()].concat();
    let metric = [within(1, b"g"), within(5, &within(1, &point))].concat();
    within(1, &within(2, &within(2, &metric)))
}

async fn subscribe(broker: &Broker) {
    let config = |(name, value): (&str, &str)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    };
    let configs = [("metrics", "g"), ("interval.ms", "60000")].map(config);
    let resource = AlterConfigsResource::default()
        .with_resource_type(CLIENT_METRICS)
        .with_resource_name(text("s"))
        .with_configs(configs.to_vec());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = client(broker).await.call(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
}

async fn shown(broker: &Broker, query: &str) -> Value {
    let (code, body) = get(broker, &format!("/v1/client-metrics{query}"), Some(TOKEN)).await;
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

#[tokio::test]
async fn what_clients_push_is_shown() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    subscribe(&broker).await;
    broker.stop().await;

    // The subscription is kept.
    let broker = home.start(&[]).await;
    let nothing = json!({"clients": [], "total": 0, "truncated": false});
    assert_eq!(shown(&broker, "").await, nothing);
    let mut pushing = client(&broker).await;
    let request = GetTelemetrySubscriptionsRequest::default();
    let told = pushing.call(0, &request).await;
    assert_eq!((told.error_code, told.push_interval_ms), (0, 60_000));
    let push = PushTelemetryRequest::default()
        .with_client_instance_id(told.client_instance_id)
        .with_subscription_id(told.subscription_id)
        .with_metrics(otlp().into());
    assert_eq!(pushing.call(0, &push).await.error_code, 0);

    let mut all = shown(&broker, "?metric=g&limit=1").await;
    let one = &mut all["clients"][0];
    assert_eq!(
        one["metrics"],
        json!([{"name": "g", "labels": {}, "kind": "gauge", "value": 1.5}])
    );
    assert_eq!(one["interval_ms"], 60_000);
    let instance = one["client_instance_id"]
        .as_str()
        .expect("a text")
        .to_owned();
    let found = shown(
        &broker,
        &format!("?client_instance_id={instance}&metric=other"),
    )
    .await;
    assert_eq!(found["clients"][0]["metrics"], json!([]));
    assert_eq!(shown(&broker, "?client_id=nobody").await, nothing);
    for illegal in ["?limit=0", "?limit=1001", "?colour=red"] {
        let path = format!("/v1/client-metrics{illegal}");
        let (code, body) = get(&broker, &path, Some(TOKEN)).await;
        assert_eq!(code, 400, "{body}");
    }
    assert_eq!(get(&broker, "/v1/client-metrics", None).await.0, 401);
    let (_, metrics) = get(&broker, "/metrics", Some(TOKEN)).await;
    let accepted = "millrace_client_metrics_pushes_total{result=\"accepted\"} 1";
    assert!(metrics.contains(accepted), "{metrics}");
    assert!(
        metrics.contains("millrace_client_metrics_clients 1"),
        "{metrics}"
    );
    broker.stop().await;
}
