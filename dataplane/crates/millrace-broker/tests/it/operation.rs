//! Running a broker: the lock, ports, the cluster's id, the admin HTTP.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::support::{Home, TOKEN, batch, client, get};
use bytes::Bytes;
use millrace_broker::{Broker, StartError};
use millrace_record::Compression;
use millrace_wire::{
    StrBytes,
    messages::{
        FindCoordinatorRequest, GroupId, JoinGroupRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol,
    },
};

async fn refusal(outcome: Result<Broker, StartError>) -> StartError {
    match outcome {
        Ok(_) => panic!("it must not start"),
        Err(error) => error,
    }
}

/// The objects under a folder bucket: files named by 16 hexadecimal digits.
pub(crate) fn objects_under(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_object = name.is_some_and(|name| {
            name.len() == 16 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        if path.is_dir() {
            // Not the metadata's backup.
            if name != Some("meta") {
                objects_under(&path, found);
            }
        } else if is_object {
            found.push(path);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_objects_take_their_partitions_offline_and_the_status_says_so() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut first = client(&broker).await;
    assert_eq!(first.create_topic("lost", 1).await, 0);
    let records = || batch(&["a"], Compression::None);
    assert_eq!(first.produce("lost", 0, records()).await, Ok(0));
    broker.stop().await;
    let mut objects = Vec::new();
    objects_under(&home.path().join("objects"), &mut objects);
    assert!(!objects.is_empty(), "the stop has uploaded");
    for object in objects {
        let mut bytes = std::fs::read(&object).expect("readable");
        let in_footer = bytes.len() - 30;
        bytes[in_footer] ^= 1;
        std::fs::write(&object, bytes).expect("writable");
    }

    let broker = home.start(&[]).await;
    let (_, status) = get(&broker, "/v1/status", Some(TOKEN)).await;
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["offline_partitions_total"], 1, "{status}");
    let offline = &status["offline_partitions"][0];
    assert_eq!(
        (&offline["topic"], &offline["class"]),
        (&"lost".into(), &"corrupt".into())
    );
    let part = &status["corrupt_parts"][0];
    assert_eq!(part["part"], "footer", "{status}");
    assert!(
        part["stream"].is_u64() && part["to_offset"].is_u64(),
        "{status}"
    );
    let mut again = client(&broker).await;
    assert_eq!(again.produce("lost", 0, records()).await, Err(56));
    assert_eq!(again.create_topic("new", 1).await, 0);
    assert_eq!(again.produce("new", 0, records()).await, Ok(0));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_http_answers_who_shows_the_token() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    assert_eq!(client(&broker).await.create_topic("t", 3).await, 0);
    assert_eq!(
        get(&broker, "/healthz", None).await,
        (200, "ok\n".to_owned())
    );
    // A load balancer's health check: the status code, and nothing about the broker.
    assert_eq!(get(&broker, "/readyz", None).await, (200, String::new()));
    for path in ["/readyz", "/metrics", "/v1/status", "/v1/config"] {
        if path != "/readyz" {
            assert_eq!(get(&broker, path, None).await.0, 401, "{path}");
        }
        assert_eq!(get(&broker, path, Some("wrong")).await.0, 401, "{path}");
        assert_eq!(get(&broker, path, Some(TOKEN)).await.0, 200, "{path}");
    }
    let (code, text) = get(&broker, "/v1/nothing", Some(TOKEN)).await;
    let error = r#"{"error":{"code":"UNSUPPORTED_VERSION","message":"there is no /v1/nothing"}}"#;
    assert_eq!((code, &*text), (404, error));
    assert_eq!(get(&broker, "/v1/nothing", None).await.0, 401);
    let (_, status) = get(&broker, "/v1/status", Some(TOKEN)).await;
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["phase"], "running");
    assert_eq!(status["cluster_id"], "test");
    assert_eq!(status["partitions"], 3);
    assert_eq!(status["storage"]["log_cache_capacity_bytes"], 33_554_432);
    assert!(
        status["storage"]["wal_capacity_bytes"].as_u64() > Some(60_000_000),
        "{status}"
    );
    let (_, config) = get(&broker, "/v1/config", Some(TOKEN)).await;
    assert!(
        config.contains("\"s3.wal.cache.size\"") && config.contains("33554432"),
        "{config}"
    );
    let (_, metrics) = get(&broker, "/metrics", Some(TOKEN)).await;
    for name in [
        "millrace_connections",
        "millrace_bucket_unchecked",
        "millrace_offline_partitions",
        "millrace_wal_capacity_bytes",
        "millrace_wal_used_bytes",
        "millrace_wal_trim_position",
        "millrace_wal_seconds_left",
        "millrace_upload_pending_bytes",
    ] {
        let line = format!("\n{name} ");
        assert!(metrics.contains(&line), "{name} in {metrics}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_broker_on_the_same_folder_is_refused() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let error = refusal(Broker::start(home.config(&[])).await).await;
    assert!(matches!(error, StartError::Folder(_)), "{error}");
    assert!(
        error.to_string().contains("in use by another broker"),
        "{error}"
    );
    assert_eq!(
        client(&broker).await.create_topic("t", 1).await,
        0,
        "the first is not disturbed"
    );
    broker.stop().await;
    home.start(&[]).await.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_named() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port();
    let listener = format!("listeners=PLAINTEXT://127.0.0.1:{port}");
    let error = refusal(Broker::start(home.config(&[&listener])).await).await;
    assert!(matches!(error, StartError::Bind(_)), "{error}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_clusters_folder_is_refused() {
    let home = Home::new();
    home.start(&[]).await.stop().await;
    let error = refusal(Broker::start(home.config(&["cluster.id=other"])).await).await;
    let text = error.to_string();
    assert!(
        text.contains("other") && text.contains("belongs to the cluster test"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_creation_makes_a_topic_that_has_the_configured_partitions() {
    let home = Home::new();
    let broker = home.start(&["num.partitions=3"]).await;
    let mut client = client(&broker).await;
    let mut partitions = 0;
    for _ in 0..20 {
        let metadata = client.metadata("new").await;
        partitions = metadata.topics[0].partitions.len();
        if partitions > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(partitions, 3);
    let advertised = &client.metadata("new").await.brokers[0];
    assert_eq!(
        advertised.port,
        i32::from(crate::support::address(&broker).port())
    );
    broker.stop().await;
}

/// Kafka's COORDINATOR_NOT_AVAILABLE.
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
/// A version of JoinGroup and SyncGroup in which the first join is answered at once.
const GROUP_VERSION: i16 = 3;

fn join_request() -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(Bytes::from_static(b"m"));
    JoinGroupRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocols(vec![protocol])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_a_rebalance_or_a_long_poll() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut first = client(&broker).await;
    assert_eq!(first.create_topic("t", 1).await, 0);
    let find = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("g"));
    assert_eq!(
        first.call(2, &find).await.error_code,
        0,
        "it creates the groups' topic"
    );
    let joined = first.call(GROUP_VERSION, &join_request()).await;
    assert_eq!(joined.error_code, 0);
    let sync = SyncGroupRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str("g")))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id);
    assert_eq!(first.call(GROUP_VERSION, &sync).await.error_code, 0);
    let mut second = client(&broker).await;
    let waiting = second.send(GROUP_VERSION, &join_request()).await;
    let mut third = client(&broker).await;
    let poll = tokio::spawn(async move { third.fetch("t", 0, 0, Duration::from_secs(60)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopped = tokio::time::timeout(Duration::from_secs(5), broker.stop()).await;
    assert_eq!(stopped.expect("well before the drain's end").cut, 0);
    let refused = second
        .receive::<JoinGroupRequest>(GROUP_VERSION, waiting)
        .await;
    assert_eq!(refused.error_code, COORDINATOR_NOT_AVAILABLE);
    assert!(poll.await.expect("answered").records.is_empty());
}
