//! Connections: versions, reconnects, deadlines.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_client::{
    BoxFuture, Client, ErrorCode, Producer, ProducerConfig, ProducerRecord, RequestError,
    transport::{Authenticate, SaslExchange},
};
use millrace_wire::ApiKey;

use crate::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn a_topic_is_found_through_any_bootstrap_server() {
    let cluster = Cluster::new(3);
    cluster.create("t", 4);
    cluster.set_down(1, true);
    cluster.set_down(2, true);
    let client = Client::new(cluster.config(1));
    let topic = client.topic("t").await.expect("broker 3 answers");
    assert_eq!(topic.partitions.len(), 4);
    assert_eq!(topic.partitions[1].leader, Some(2));
    assert_eq!(topic.partitions[1].leader_epoch, Some(3));
    assert!(topic.id.is_some());
    let error = client.topic("u").await.expect_err("there is none");
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    assert!(client.metrics().requests["Metadata"].answered >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_knows_only_old_versions_is_asked_in_them() {
    let cluster = Cluster::new(1);
    cluster.create("t", 2);
    cluster.serve(ApiKey::ApiVersions, 0, 2);
    cluster.serve(ApiKey::Metadata, 1, 5);
    let client = Client::new(cluster.config(1));
    let topic = client.topic("t").await.expect("an answer");
    assert_eq!((topic.partitions.len(), topic.id), (2, None));
    assert_eq!(cluster.requests(ApiKey::ApiVersions).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_down_is_tried_with_pauses_and_then_given_up() {
    let cluster = Cluster::new(1);
    cluster.set_down(1, true);
    let client = Client::new(cluster.config(1));
    let error = client.topic("t").await.expect_err("nobody answers");
    assert!(matches!(error, RequestError::Connect { .. }), "{error}");
    let failed = client.metrics().connections_failed;
    // 30 s of pauses that double from 50 ms up to 1 s.
    assert!((25..60).contains(&failed), "{failed} attempts");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_comes_back_is_found() {
    let cluster = Cluster::new(2);
    cluster.create("t", 1);
    let client = Client::new(cluster.config(1));
    client.topic("t").await.expect("up");
    cluster.set_down(1, true);
    cluster.set_down(2, true);
    let again = tokio::spawn({
        let client = client.clone();
        async move { client.topic("u").await }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.create("u", 1);
    cluster.set_down(2, false);
    let topic = again.await.expect("no panic").expect("found");
    assert_eq!(&*topic.name, "u");
}

#[tokio::test(start_paused = true)]
async fn callers_share_the_failure_of_a_metadata_request() {
    let cluster = Cluster::new(1);
    cluster.set_down(1, true);
    let client = Client::new(cluster.config(1));
    #[expect(clippy::disallowed_methods, reason = "a test's clock")]
    let start = tokio::time::Instant::now();
    let asking: Vec<_> = (0..50)
        .map(|name| {
            let client = client.clone();
            tokio::spawn(async move { client.topic(&name.to_string()).await })
        })
        .collect();
    for asked in asking {
        asked.await.expect("no panic").expect_err("nobody answers");
    }
    // One request that is under way, and one for all who came later.
    assert!(
        start.elapsed() < Duration::from_secs(65),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn callers_share_metadata_requests() {
    let cluster = Cluster::new(1);
    for name in 0..50 {
        cluster.create(&name.to_string(), 1);
    }
    let client = Client::new(cluster.config(1));
    let asking: Vec<_> = (0..50)
        .map(|name| {
            let client = client.clone();
            tokio::spawn(async move { client.topic(&name.to_string()).await })
        })
        .collect();
    for asked in asking {
        asked.await.expect("no panic").expect("found");
    }
    let requests = cluster.requests(ApiKey::Metadata).len();
    assert!(requests <= 3, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_new_topic_is_asked_for_alone_and_an_old_one_is_kept_fresh() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    cluster.create("u", 1);
    let config = cluster.config(1);
    let max_age = config.metadata_max_age;
    let client = Client::new(config);
    let producer = Producer::new(&client, ProducerConfig::default()).expect("legal");
    for topic in ["t", "u"] {
        let record = ProducerRecord::to(topic).value(b"v");
        let delivery = producer.send(record).await.expect("accepted");
        delivery.await.expect("stored");
    }
    assert_eq!(cluster.asked(), [["t"], ["u"]]);
    tokio::time::sleep(max_age).await;
    let mut refreshed = cluster.asked().pop().expect("asked");
    refreshed.sort();
    assert_eq!(refreshed, ["t", "u"]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_answered_although_the_one_who_asks_is_given_up() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    cluster.create("u", 1);
    let client = Client::new(cluster.config(1));
    let asking = |name: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.topic(name).await })
    };
    // Each is polled once, in this order: the first asks for both.
    let (first, second) = (asking("t"), asking("u"));
    tokio::task::yield_now().await;
    first.abort();
    let topic = second.await.expect("no panic").expect("found");
    assert_eq!(topic.partitions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_closes_its_connections() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let client = Client::new(cluster.config(1));
    client.topic("t").await.expect("found");
    let held = Arc::strong_count(&cluster);
    drop(client);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(
        Arc::strong_count(&cluster) < held,
        "the broker's side has ended"
    );
}

/// SASL PLAIN (RFC 4616).
#[derive(Debug)]
struct Plain {
    mechanism: &'static str,
    password: &'static str,
}

impl Authenticate for Plain {
    fn authenticate<'a>(
        &'a self,
        exchange: &'a mut SaslExchange<'_>,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(async move {
            assert_eq!(exchange.host(), "broker");
            exchange.handshake(self.mechanism).await?;
            let message = format!("\0alice\0{}", self.password);
            exchange.send(Bytes::from(message)).await.map(drop)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_authenticated_before_it_is_used() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let find = |mechanism, password| {
        let mut config = cluster.config(1);
        config.authenticate = Some(Arc::new(Plain {
            mechanism,
            password,
        }));
        async move { Client::new(config).topic("t").await }
    };
    find("PLAIN", "secret").await.expect("the right password");
    assert_eq!(cluster.requests(ApiKey::SaslAuthenticate).len(), 1);
    let error = find("PLAIN", "guess")
        .await
        .expect_err("the wrong password");
    assert!(
        matches!(error, RequestError::Authentication { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("wrong password"), "{error}");
    let error = find("SCRAM-SHA-256", "secret")
        .await
        .expect_err("not offered");
    assert!(error.to_string().contains("it offers PLAIN"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_asked_to_starts_over_with_its_bootstrap_servers() {
    let cluster = Cluster::new(2);
    cluster.create("t", 1);
    cluster.create("u", 1);
    let client = Client::new(cluster.config(1));
    client.topic("t").await.expect("found");
    cluster.ask_to_rebootstrap();
    client.topic("u").await.expect("found at the second try");
    assert_eq!(client.metadata().brokers.len(), 2);
}
