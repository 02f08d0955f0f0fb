//! Client quotas of a running broker: set by a client, obeyed by the network, shown over HTTP.

use std::time::Duration;

use crate::support::{Home, TOKEN, batch, client, get};
use millrace_broker::Broker;
use millrace_record::Compression;
use millrace_time::SystemClock;
use millrace_wire::{
    StrBytes,
    messages::{
        AlterClientQuotasRequest, ApiVersionsRequest,
        alter_client_quotas_request::{EntityData, EntryData, OpData},
    },
};
use serde_json::Value;

/// Bytes per second. One second's worth may be sent at once.
const RATE: f64 = 1_500.0;
const SETTINGS: &[&str] = &["quota.window.num=2", "max.connections.per.ip=50"];

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

async fn set(broker: &Broker, kind: &str, key: &str, value: f64) {
    let entity = EntityData::default().with_entity_type(text(kind));
    let op = OpData::default().with_key(text(key)).with_value(value);
    let entry = EntryData::default()
        .with_entity(vec![entity.with_entity_name(None)])
        .with_ops(vec![op]);
    let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    let answer = client(broker).await.call(1, &request).await;
    assert_eq!(answer.entries[0].error_code, 0, "{answer:?}");
}

async fn shown(broker: &Broker) -> Value {
    let (code, body) = get(broker, "/v1/quotas", Some(TOKEN)).await;
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

#[tokio::test]
async fn a_producer_over_its_quota_is_not_read_until_it_has_waited() {
    let home = Home::new();
    let broker = home.start(SETTINGS).await;
    assert_eq!(client(&broker).await.create_topic("t", 1).await, 0);
    assert_eq!(shown(&broker).await["total"], 0);
    set(&broker, "client-id", "producer_byte_rate", RATE).await;
    broker.stop().await;

    // The quota is kept.
    let broker = home.start(SETTINGS).await;
    let clock = SystemClock::shared();
    let mut producer = client(&broker).await;
    let value = "x".repeat(6_000);
    let records = batch(&[&value], Compression::None);
    producer
        .produce("t", 0, records)
        .await
        .expect("acknowledged");
    let began = clock.now();
    let quotas = shown(&broker).await;
    let used = &quotas["usage"][0];
    assert_eq!(
        (&used["quota"], &used["user"]),
        (&"producer_byte_rate".into(), &Value::Null)
    );
    assert!(used["throttle_ms"].as_u64() > Some(0), "{quotas}");
    let (_, metrics) = get(&broker, "/metrics", Some(TOKEN)).await;
    for line in [
        "millrace_quota_throttled_total{kind=\"produce\"} 1",
        "millrace_quota_throttle_seconds_count{kind=\"produce\"} 1",
        "millrace_listener_connections{listener=\"PLAINTEXT\"}",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    // Others are served meanwhile, and so is the producer after three seconds.
    let versions = ApiVersionsRequest::default();
    client(&broker).await.call(0, &versions).await;
    producer.call(0, &versions).await;
    assert!(clock.now() - began > Duration::from_secs(2));
    broker.stop().await;
}
