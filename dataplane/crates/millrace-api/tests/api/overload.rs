//! When there is no room for what clients send.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::{error::ResponseError as Code, messages::ProduceRequest};
use millrace_record::{BatchBuilder, Compression};
use millrace_testkit::BucketFaults;
use millrace_time::SystemClock;

use crate::{
    calls::{NAMED_PRODUCE, batch, only_partition, produce_request},
    transactions::{self, PRODUCE_2, Producer},
    world::{Sent, World, answer},
};

fn large() -> BytesMut {
    of_bytes(1_000_000)
}

fn of_bytes(bytes: usize) -> BytesMut {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(5, None, Some(&vec![b'x'; bytes]), &[]);
    builder.build()
}

/// A world whose log is full and stays full.
async fn full() -> World {
    let world = World::new().await;
    world.create("t", 4, &[]).await;
    fill(&world, 1_000_000).await;
    world
}

/// Until a record of so many bytes has no room.
async fn fill(world: &World, bytes: usize) {
    world.bucket.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    for _ in 0..200 {
        let request = produce_request("t", &[(0, of_bytes(bytes))], -1).with_timeout_ms(1_000);
        let produced = only_partition(world.ask(NAMED_PRODUCE, &request).await);
        if produced.error_code == Code::RequestTimedOut.code() {
            return;
        }
        assert_eq!(produced.error_code, 0, "{:?}", produced.error_message);
    }
    panic!("a log of 64 MiB has taken 200 MB");
}

#[tokio::test]
async fn a_request_waits_for_room_once_however_many_partitions_it_has() {
    let world = full().await;
    let clock = SystemClock::shared();
    let all = [0, 1, 2, 3].map(|partition| (partition, large()));
    let request = produce_request("t", &all, -1).with_timeout_ms(1_200);
    let began = clock.now();
    let sent = world.send(NAMED_PRODUCE, &request).await;
    let waited = clock.now() - began;
    assert!(
        (Duration::from_millis(1_200)..Duration::from_millis(2_200)).contains(&waited),
        "four partitions without room took {waited:?}"
    );
    let response = answer::<ProduceRequest>(NAMED_PRODUCE, sent).await;
    let partitions = &response.responses[0].partition_responses;
    assert_eq!(partitions.len(), 4);
    for partition in partitions {
        assert_eq!(partition.error_code, Code::RequestTimedOut.code());
        assert!(Code::RequestTimedOut.is_retriable());
    }
}

/// What is too large for the room that is left does not keep out what fits.
#[tokio::test]
async fn once_the_wait_is_over_what_has_room_is_still_taken() {
    let world = full().await;
    let before = world.fetch_from("t", 1, 0).await.high_watermark;
    let request = produce_request("t", &[(0, large()), (1, batch(&["small"]))], -1);
    let sent = world
        .send(NAMED_PRODUCE, &request.with_timeout_ms(1_000))
        .await;
    let Sent::Later(_) = &sent else {
        panic!("one of two may be under way")
    };
    let response = answer::<ProduceRequest>(NAMED_PRODUCE, sent).await;
    let codes: Vec<i16> = response.responses[0]
        .partition_responses
        .iter()
        .map(|partition| partition.error_code)
        .collect();
    assert_eq!(codes, [Code::RequestTimedOut.code(), 0]);
    let after = world.fetch_from("t", 1, 0).await.high_watermark;
    assert_eq!(after, before + 1);
}

#[tokio::test]
async fn a_request_waits_for_the_coordinator_of_its_transaction_no_longer_than_for_room() {
    let world = transactions::world().await;
    let mut producer = Producer::init(&world, "tx").await;
    for bytes in [1_000_000, 50_000, 1_000, 10] {
        fill(&world, bytes).await;
    }
    let clock = SystemClock::shared();
    let request = producer.request(1, "a").with_timeout_ms(1_200);
    let began = clock.now();
    let sent = world.send(PRODUCE_2, &request).await;
    let waited = clock.now() - began;
    assert!(waited < Duration::from_millis(2_200), "{waited:?}");
    let refused = only_partition(answer::<ProduceRequest>(PRODUCE_2, sent).await);
    assert_eq!(refused.error_code, Code::NotEnoughReplicas.code());
    assert!(Code::NotEnoughReplicas.is_retriable());
}
