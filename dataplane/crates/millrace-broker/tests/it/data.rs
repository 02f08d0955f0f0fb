//! Records through a whole broker: produced, read back, kept.

use std::time::{Duration, Instant};

use crate::support::{Home, batch, client, values};
use millrace_record::Compression;
use millrace_testkit::{PRODUCE_VERSION, produce_request};

const PATIENCE: Duration = Duration::from_secs(20);
const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn expected(from: i64, texts: &[&str]) -> Vec<(i64, String)> {
    (from..)
        .zip(texts.iter().map(|&text| text.to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_every_compression_are_read_back_equal_and_in_order() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 2).await, 0);
    for (round, compression) in (0_i64..).zip(ALL) {
        let base = client
            .produce("t", 1, batch(&["a", "b", "c"], compression))
            .await;
        assert_eq!(base, Ok(3 * round), "{compression:?}");
    }
    let all = values(&client.fetch("t", 1, 0, PATIENCE).await);
    assert_eq!(all, expected(0, &["a", "b", "c"].repeat(ALL.len())));
    assert_eq!(client.offset_at("t", 1, -1).await, Ok(15));
    assert_eq!(
        client.offset_at("t", 0, -1).await,
        Ok(0),
        "the other partition is empty"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_everything() {
    let home = Home::new();
    for round in 0_i64..3 {
        let broker = home.start(&[]).await;
        let mut client = client(&broker).await;
        if round == 0 {
            assert_eq!(client.create_topic("t", 1).await, 0);
        }
        let base = client
            .produce("t", 0, batch(&["x", "y"], Compression::None))
            .await;
        assert_eq!(base, Ok(2 * round), "offsets go on");
        let all = values(&client.fetch("t", 0, 0, PATIENCE).await);
        let texts = ["x", "y"].repeat(usize::try_from(round + 1).expect("small"));
        assert_eq!(all, expected(0, &texts), "round {round}");
        assert_eq!(broker.stop().await.cut, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_produces_are_appended_and_answered_in_order() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    let mut sent = Vec::new();
    for number in 0..50 {
        let text = number.to_string();
        let request = produce_request("t", 0, batch(&[&text], Compression::None));
        sent.push(client.send(PRODUCE_VERSION, &request).await);
    }
    for (offset, id) in (0_i64..).zip(sent) {
        let answer = client
            .receive::<millrace_wire::messages::ProduceRequest>(PRODUCE_VERSION, id)
            .await;
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, offset));
    }
    let all = values(&client.fetch("t", 0, 0, PATIENCE).await);
    assert!(
        all.iter().all(|(offset, text)| offset.to_string() == *text),
        "{all:?}"
    );
    assert_eq!(all.len(), 50);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_fetch_is_woken_by_the_append() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut producer = client(&broker).await;
    assert_eq!(producer.create_topic("t", 1).await, 0);
    let mut consumer = client(&broker).await;
    let waiting = tokio::spawn(async move {
        let fetched = consumer.fetch("t", 0, 0, PATIENCE).await;
        (values(&fetched), clock())
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let base = producer
        .produce("t", 0, batch(&["late"], Compression::None))
        .await;
    let acknowledged = clock();
    assert_eq!(base, Ok(0));
    let (read, arrived) = waiting.await.expect("no panic");
    assert_eq!(read, expected(0, &["late"]));
    let after = arrived.saturating_duration_since(acknowledged);
    assert!(
        after < Duration::from_secs(2),
        "woken {after:?} after the ack, not by the timeout"
    );
    broker.stop().await;
}

#[expect(clippy::disallowed_methods, reason = "the test measures the real time")]
fn clock() -> Instant {
    Instant::now()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_left_the_log_cache_is_read_from_objects() {
    let home = Home::new();
    let small = [
        "s3.wal.upload.threshold=65536",
        "s3.wal.upload.interval.ms=50",
    ];
    let broker = home.start(&small).await;
    let mut producer = client(&broker).await;
    assert_eq!(producer.create_topic("t", 1).await, 0);
    let text = "z".repeat(10_000);
    for offset in 0..200 {
        let base = producer
            .produce("t", 0, batch(&[&text], Compression::None))
            .await;
        assert_eq!(base, Ok(offset));
    }
    broker.stop().await;
    let broker = home.start(&small).await;
    let mut consumer = client(&broker).await;
    let mut next = 0;
    while next < 200 {
        let read = values(&consumer.fetch("t", 0, next, PATIENCE).await);
        assert!(!read.is_empty(), "nothing at {next}");
        for (offset, value) in read {
            assert_eq!((offset, value.len()), (next, text.len()));
            next += 1;
        }
    }
    broker.stop().await;
}
