//! A bucket that is down, or takes no writes, when the broker starts.

use std::{sync::Arc, time::Duration};

use millrace_broker::{Broker, Closed, Seams};
use millrace_objects::bucket::{BucketUri, StoreBucket};
use millrace_record::Compression;
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::SeededRandom;

use crate::support::{Home, TOKEN, batch, client, get, values};

/// The bucket of a home, with faults.
fn faulty(home: &Home) -> FaultyBucket {
    let uri = format!("0@file://{}/objects", home.path().display());
    let uri: BucketUri = uri.parse().expect("an address");
    let store = StoreBucket::open(&uri).expect("opens");
    FaultyBucket::new(store, SeededRandom::shared(1))
}

async fn start(home: &Home, bucket: &FaultyBucket) -> Broker {
    let seams = Seams {
        bucket: Some(Arc::new(bucket.clone())),
        ..Seams::system()
    };
    let started = Broker::start_with(home.config(&[]), seams);
    let started = tokio::time::timeout(Duration::from_secs(40), started).await;
    let started = started.expect("the start does not wait for the bucket");
    started.unwrap_or_else(|error| panic!("{error}"))
}

async fn ready_text(broker: &Broker) -> String {
    let (code, text) = get(broker, "/readyz", Some(TOKEN)).await;
    assert_eq!(code, 200, "{text}");
    text
}

/// A broker that was stopped in peace: one record is uploaded.
async fn stopped() -> Home {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut kafka = client(&broker).await;
    assert_eq!(kafka.create_topic("t", 1).await, 0);
    assert_eq!(kafka.create_topic("empty", 1).await, 0);
    let texts = batch(&["1"], Compression::None);
    assert_eq!(kafka.produce("t", 0, texts).await, Ok(0));
    assert_eq!(broker.stop().await.storage, Closed::Uploaded);
    home
}

/// A bucket that denied writes stopped the start, although records would have been safe in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_takes_no_writes_does_not_stop_the_start() {
    let home = stopped().await;
    let bucket = faulty(&home);
    bucket.set(BucketFaults {
        read_only: true,
        ..BucketFaults::default()
    });
    let broker = start(&home, &bucket).await;
    let text = ready_text(&broker).await;
    assert!(text.contains("uploads and deletions wait"), "{text}");
    assert!(text.contains("metadata backup"), "{text}");
    let (_, status) = get(&broker, "/v1/status", Some(TOKEN)).await;
    assert!(!status.contains("\"uploads_wait_for\":null"), "{status}");
    let mut kafka = client(&broker).await;
    let texts = batch(&["2"], Compression::None);
    assert_eq!(kafka.produce("t", 0, texts).await, Ok(1));
    let read = kafka.fetch("t", 0, 0, Duration::ZERO).await;
    assert_eq!(values(&read)[0], (0, "1".to_owned()));
    bucket.set(BucketFaults::default());
    let usable = async {
        while ready_text(&broker).await != "ready\n" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let usable = tokio::time::timeout(Duration::from_secs(30), usable).await;
    usable.expect("the bucket is checked again");
    assert_eq!(broker.stop().await.storage, Closed::Uploaded);
}

/// A bucket that was down kept a broker from starting as soon as one partition had to read an object.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_bucket_is_down_at_startup_what_needs_no_object_is_served() {
    let home = stopped().await;
    let bucket = faulty(&home);
    bucket.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    let broker = start(&home, &bucket).await;
    let (_, status) = get(&broker, "/v1/status", Some(TOKEN)).await;
    assert!(status.contains("\"class\":\"transient\""), "{status}");
    let mut kafka = client(&broker).await;
    let texts = |text: &str| batch(&[text], Compression::None);
    assert_eq!(kafka.produce("empty", 0, texts("a")).await, Ok(0));
    const KAFKA_STORAGE_ERROR: i16 = 56;
    let refused = kafka.produce("t", 0, texts("2")).await;
    assert_eq!(refused, Err(KAFKA_STORAGE_ERROR));
    bucket.set(BucketFaults::default());
    let served = async {
        while kafka.produce("t", 0, texts("2")).await != Ok(1) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let served = tokio::time::timeout(Duration::from_secs(60), served).await;
    served.expect("the partition opens");
    broker.stop().await;
}
