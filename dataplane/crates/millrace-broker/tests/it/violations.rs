//! What clients must not send: each gets the right answer, and nothing else is disturbed.

use std::time::Duration;

use crate::support::{Home, address, batch, client, values};
use bytes::BytesMut;
use millrace_record::Compression;
use millrace_testkit::KafkaClient;

/// Kafka's CORRUPT_MESSAGE.
const CORRUPT_MESSAGE: i16 = 2;
/// Kafka's UNKNOWN_TOPIC_OR_PARTITION.
const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
/// Kafka's MESSAGE_TOO_LARGE.
const MESSAGE_TOO_LARGE: i16 = 10;

/// A connection that keeps working while others misbehave.
struct Bystander {
    client: KafkaClient,
    next: i64,
}

impl Bystander {
    async fn new(broker: &millrace_broker::Broker) -> Self {
        let mut client = client(broker).await;
        assert_eq!(client.create_topic("bystander", 1).await, 0);
        Self { client, next: 0 }
    }

    async fn is_fine(&mut self) {
        let base = self
            .client
            .produce("bystander", 0, batch(&["v"], Compression::None))
            .await;
        assert_eq!(base, Ok(self.next));
        let read = self
            .client
            .fetch("bystander", 0, self.next, Duration::ZERO)
            .await;
        assert_eq!(values(&read), [(self.next, "v".to_owned())]);
        self.next += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn illegal_frames_end_their_own_connection_only() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut bystander = Bystander::new(&broker).await;
    let mut short_header = vec![0, 0, 0, 3];
    short_header.extend([0, 18, 0]);
    let mut unknown_api = vec![0, 0, 0, 10];
    unknown_api.extend([0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]);
    let mut garbage_body = vec![0, 0, 0, 40];
    garbage_body.extend([0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff]);
    garbage_body.extend([0xff; 30]);
    let frames: [(&str, Vec<u8>); 7] = [
        ("a length of 200 MB", 200_000_000_u32.to_be_bytes().to_vec()),
        ("a negative length", (-1_i32).to_be_bytes().to_vec()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
        ("an empty frame", vec![0, 0, 0, 0]),
        ("a header cut short", short_header),
        ("an unknown API", unknown_api),
        ("a body of garbage", garbage_body),
    ];
    for (what, frame) in frames {
        let mut offender = KafkaClient::connect(address(&broker)).await;
        offender.send_raw(&frame).await;
        assert!(offender.is_closed().await, "{what} closes the connection");
        bystander.is_fine().await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_batch_is_refused_and_leaves_no_trace() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let mut bystander = Bystander::new(&broker).await;
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    let good = batch(&["good"], Compression::None);
    for flipped in [17, 20, good.len() - 1] {
        let mut bad = BytesMut::from(&good[..]);
        bad[flipped] ^= 1;
        let outcome = client.produce("t", 0, bad.freeze()).await;
        assert_eq!(outcome, Err(CORRUPT_MESSAGE), "byte {flipped}");
        bystander.is_fine().await;
    }
    assert_eq!(
        client.produce("t", 0, good).await,
        Ok(0),
        "the same connection goes on"
    );
    let read = client.fetch("t", 0, 0, Duration::ZERO).await;
    assert_eq!(values(&read), [(0, "good".to_owned())]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_too_large_is_refused() {
    let home = Home::new();
    let broker = home.start(&["message.max.bytes=10000"]).await;
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    let large = batch(&["x".repeat(20_000).as_str()], Compression::None);
    assert_eq!(client.produce("t", 0, large).await, Err(MESSAGE_TOO_LARGE));
    assert_eq!(
        client
            .produce("t", 0, batch(&["fits"], Compression::None))
            .await,
        Ok(0)
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_that_does_not_exist_is_named_as_such() {
    let home = Home::new();
    let broker = home.start(&["auto.create.topics.enable=false"]).await;
    let mut client = client(&broker).await;
    let outcome = client
        .produce("nowhere", 0, batch(&["v"], Compression::None))
        .await;
    assert_eq!(outcome, Err(UNKNOWN_TOPIC_OR_PARTITION));
    assert_eq!(client.create_topic("t", 1).await, 0);
    let outcome = client
        .produce("t", 7, batch(&["v"], Compression::None))
        .await;
    assert_eq!(outcome, Err(UNKNOWN_TOPIC_OR_PARTITION));
    let read = client.fetch("t", 7, 0, Duration::ZERO).await;
    assert_eq!(read.error_code, UNKNOWN_TOPIC_OR_PARTITION);
    broker.stop().await;
}
