//! Settings change while the broker runs, through the Kafka protocol, and last.

use crate::support::{Home, TOKEN, batch, client, get, values};
use millrace_broker::Broker;
use millrace_record::Compression;
use millrace_wire::{
    StrBytes,
    messages::{
        DescribeConfigsRequest, IncrementalAlterConfigsRequest,
        describe_configs_request::DescribeConfigsResource,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use serde_json::Value;

const BROKER: i8 = 4;
const INVALID_CONFIG: i16 = 40;

/// Error code and text of a change of this broker's settings.
async fn set(broker: &Broker, name: &str, pairs: &[(&str, &str)]) -> (i16, String) {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let config = |(name, value): &(&str, &str)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(text(name))
        .with_configs(pairs.iter().map(config).collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = client(broker).await.call(1, &request).await;
    let answer = &answer.responses[0];
    let message = answer.error_message.clone().unwrap_or_default();
    (answer.error_code, message.to_string())
}

/// One setting as `/v1/config` has it.
async fn shown(broker: &Broker, key: &str) -> Value {
    let (code, body) = get(broker, "/v1/config", Some(TOKEN)).await;
    assert_eq!(code, 200);
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let settings = body["settings"].as_array().expect("a list");
    let found = settings.iter().find(|setting| setting["key"] == key);
    found.expect("known").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_set_is_in_force_at_once_and_after_a_restart() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let changes = [
        ("s3.block.cache.size", "25165824"),
        ("s3.prefetch.max.bytes", "1048576"),
        ("s3.network.ingress.baseline.bandwidth", "50000000"),
        ("s3.network.egress.baseline.bandwidth", "60000000"),
        ("s3.wal.cache.size", "41943040"),
        ("s3.wal.upload.threshold", "5242880"),
    ];
    assert_eq!(set(&broker, "0", &changes).await, (0, String::new()));
    let shared = [("s3.prefetch.max.bytes", "2097152")];
    assert_eq!(set(&broker, "", &shared).await.0, 0);
    let (_, status) = get(&broker, "/v1/status", Some(TOKEN)).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["storage"]["log_cache_capacity_bytes"], 41_943_040);
    assert_eq!(client(&broker).await.create_topic("t", 1).await, 0);
    let records = batch(&["a", "b"], Compression::None);
    assert_eq!(client(&broker).await.produce("t", 0, records).await, Ok(0));
    broker.stop().await;

    let broker = home.start(&[]).await;
    for (key, value) in changes {
        let setting = shown(&broker, key).await;
        assert_eq!(setting["value"], value, "{setting}");
        assert_eq!(setting["source"], "DYNAMIC_BROKER_CONFIG", "{setting}");
        assert_eq!(setting["dynamic"], true, "{setting}");
    }
    let (_, status) = get(&broker, "/v1/status", Some(TOKEN)).await;
    assert!(
        status.contains("\"log_cache_capacity_bytes\":41943040"),
        "{status}"
    );
    let fetched = client(&broker)
        .await
        .fetch("t", 0, 0, std::time::Duration::from_secs(1))
        .await;
    assert_eq!(values(&fetched).len(), 2);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_which_bound_and_why_and_changes_nothing() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let changes = [
        ("s3.block.cache.size", "4096"),
        ("s3.prefetch.max.bytes", "1048576"),
    ];
    let (code, message) = set(&broker, "0", &changes).await;
    assert_eq!(code, INVALID_CONFIG);
    assert!(
        message.starts_with("s3.block.cache.size: 4096 is below the least of 16777216: ")
            && message.ends_with("; write at least 16777216"),
        "{message}"
    );
    let prefetch = shown(&broker, "s3.prefetch.max.bytes").await;
    assert_eq!(prefetch["value"], "33554432");
    assert_eq!(prefetch["is_default"], true);
    let (code, message) = set(&broker, "0", &[("num.partitions", "3")]).await;
    assert_eq!(code, INVALID_CONFIG);
    assert!(message.contains("set it in server.properties"), "{message}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafkas_tools_see_sources_types_and_explanations() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let change = [("s3.wal.cache.size", "41943040")];
    assert_eq!(set(&broker, "0", &change).await.0, 0);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(BROKER)
        .with_resource_name(StrBytes::from_static_str("0"))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(true);
    let answer = client(&broker).await.call(4, &request).await;
    let configs = &answer.results[0].configs;
    let find = |name: &str| configs.iter().find(|c| c.name.as_str() == name);
    let cache = find("s3.wal.cache.size").expect("shown");
    let sources: Vec<i8> = cache
        .synonyms
        .iter()
        .map(|synonym| synonym.source)
        .collect();
    assert_eq!((cache.config_source, sources), (2, vec![2, 4, 5]));
    assert_eq!((cache.read_only, cache.config_type), (false, 5));
    assert!(cache.documentation.is_some());
    let partitions = find("num.partitions").expect("shown");
    assert_eq!((partitions.read_only, partitions.config_type), (true, 3));
    broker.stop().await;
}

/// Bytes of the block cache and of the log cache.
async fn cache_bytes(broker: &Broker) -> (u64, u64) {
    let (_, answer) = get(broker, "/v1/catch-up", Some(TOKEN)).await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let block = answer["cache"]["size_bytes"].as_str().expect("a text");
    let (_, status) = get(broker, "/v1/status", Some(TOKEN)).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let log = &status["storage"]["log_cache_capacity_bytes"];
    (
        block.parse().expect("a number"),
        log.as_u64().expect("a number"),
    )
}

/// One cache is to have what the other gives, which it cannot while the bucket is away.
#[tokio::test(flavor = "multi_thread")]
async fn memory_goes_from_cache_to_cache_and_is_never_in_both() {
    const MIB: u64 = 1 << 20;
    let home = Home::new();
    let broker = home.start(&["s3.wal.cache.size=96MiB"]).await;
    assert_eq!(cache_bytes(&broker).await, (16 * MIB, 96 * MIB));
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    // A plain file in the place of the bucket's folder.
    let (bucket, away) = (home.path().join("objects"), home.path().join("away"));
    std::fs::rename(&bucket, &away).expect("there");
    std::fs::write(&bucket, b"").expect("writable");
    let records = batch(&["a", "b"], Compression::None);
    assert_eq!(client.produce("t", 0, records).await, Ok(0));
    let to = |block: u64, wal: u64| {
        [
            ("s3.block.cache.size", (block * MIB).to_string()),
            ("s3.wal.cache.size", (wal * MIB).to_string()),
        ]
    };
    for (block, wal) in [(64, 48), (80, 32)] {
        let wanted = to(block, wal);
        let wanted = wanted
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        assert_eq!(set(&broker, "0", &wanted).await, (0, String::new()));
        assert_eq!(
            cache_bytes(&broker).await,
            (16 * MIB, 96 * MIB),
            "what is not uploaded keeps its memory"
        );
    }
    std::fs::remove_file(&bucket).expect("there");
    std::fs::rename(&away, &bucket).expect("there");
    let gone_over = async {
        while cache_bytes(&broker).await != (80 * MIB, 32 * MIB) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), gone_over).await;
    assert!(waited.is_ok(), "{:?}", cache_bytes(&broker).await);
    broker.stop().await;
}
