//! Clients that move more than their quota.

use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::{FetchRequest, ProduceRequest};
use millrace_api::QuotaConfig;
use millrace_record::{BatchBuilder, Compression};
use millrace_security::quota::Windows;
use millrace_time::SystemClock;

use crate::{
    calls::{NAMED_FETCH, NAMED_PRODUCE, fetch_request, only_fetched, produce_request, values},
    world::{Sent, Settings, World, answer},
};

/// Bytes per second.
const RATE: u64 = 10_000;

/// A second's worth may be used at once.
pub(crate) fn windows() -> QuotaConfig {
    QuotaConfig {
        windows: Windows {
            samples: 11,
            length: Duration::from_millis(100),
        },
        ..QuotaConfig::default()
    }
}

async fn world(quotas: QuotaConfig) -> World {
    let world = World::with(Settings {
        quotas,
        ..Settings::default()
    })
    .await;
    world.create("t", 1, &[]).await;
    world
}

fn batch_of(bytes: usize) -> BytesMut {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(5, None, Some(&vec![b'x'; bytes]), &[]);
    builder.build()
}

impl World {
    /// Whether the connection may not be read at the moment. Clocks of one process agree on how
    /// long a second is, not on when it began: only the service's own knows how much is left.
    fn is_throttled(&self) -> bool {
        self.peer.throttle.left(Duration::ZERO).is_some()
    }
}

fn about(told_ms: i32, expected_ms: i32) -> bool {
    // What is told has become less by the time that the answer took.
    (expected_ms - 900..=expected_ms + 20).contains(&told_ms)
}

#[tokio::test]
async fn a_producer_over_its_quota_is_acknowledged_at_once_and_told_to_wait() {
    let world = world(QuotaConfig {
        produce_bytes_per_s: Some(RATE),
        ..windows()
    })
    .await;
    let clock = SystemClock::shared();
    let small = produce_request("t", &[(0, batch_of(5_000))], -1);
    let response = world.ask(NAMED_PRODUCE, &small).await;
    assert_eq!(response.throttle_time_ms, 0, "half a second ahead");
    assert!(!world.is_throttled());

    let began = clock.now();
    let large = produce_request("t", &[(0, batch_of(45_000))], -1);
    let response = world.ask(NAMED_PRODUCE, &large).await;
    assert!(
        clock.now() - began < Duration::from_secs(2),
        "not held back"
    );
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!((partition.error_code, partition.base_offset), (0, 1));
    assert!(about(response.throttle_time_ms, 4_000), "{response:?}");
    assert!(world.is_throttled());

    // Fetching is another quota, and reading what was produced is free here.
    let fetched = world.fetch_from("t", 0, 0).await;
    assert_eq!(fetched.high_watermark, 2);
}

#[tokio::test]
async fn a_producer_that_wants_no_acknowledgement_is_slowed_down_all_the_same() {
    let world = world(QuotaConfig {
        produce_bytes_per_s: Some(RATE),
        ..windows()
    })
    .await;
    let request = produce_request("t", &[(0, batch_of(30_000))], 0);
    let Sent::Silent(durable) = world.send(NAMED_PRODUCE, &request).await else {
        panic!("acks=0")
    };
    assert!(world.is_throttled(), "before anything else is read");
    durable.await;
}

#[tokio::test]
async fn a_consumer_over_its_quota_gets_its_records_and_then_none_until_it_has_paid() {
    let world = world(QuotaConfig {
        fetch_bytes_per_s: Some(RATE),
        ..windows()
    })
    .await;
    for _ in 0..4 {
        assert_eq!(world.produce("t", 0, batch_of(8_000)).await.error_code, 0);
    }
    assert!(!world.is_throttled(), "producing is another quota");
    let request = fetch_request("t", &[(0, 0)]);
    let first = world.ask(NAMED_FETCH, &request).await;
    assert_eq!(first.throttle_time_ms, 0);
    assert_eq!(
        values(&only_fetched(first)).len(),
        1,
        "no more than a second's worth at once"
    );
    let second = world.ask(NAMED_FETCH, &fetch_request("t", &[(0, 1)])).await;
    let told = second.throttle_time_ms;
    assert_eq!(values(&only_fetched(second)).len(), 1);
    assert!((1..=700).contains(&told), "{told}");
    assert!(world.is_throttled());

    // Another connection of the same client finds the quota used up.
    let third = world.ask(NAMED_FETCH, &fetch_request("t", &[(0, 2)])).await;
    assert_eq!((third.error_code, third.responses.len()), (0, 0));
    assert!((1..=told).contains(&third.throttle_time_ms));
    tokio::time::sleep(Duration::from_millis(
        u64::try_from(told).expect("positive"),
    ))
    .await;
    let fourth = world.ask(NAMED_FETCH, &fetch_request("t", &[(0, 2)])).await;
    assert_eq!(values(&only_fetched(fourth)).len(), 1);
}

#[tokio::test]
async fn a_fetch_that_waited_while_the_quota_was_used_up_brings_no_records() {
    let world = world(QuotaConfig {
        fetch_bytes_per_s: Some(RATE),
        ..windows()
    })
    .await;
    for _ in 0..4 {
        assert_eq!(world.produce("t", 0, batch_of(8_000)).await.error_code, 0);
    }
    let waiting = fetch_request("t", &[(0, 4)]).with_max_wait_ms(10_000);
    let Sent::Later(waiting) = world.send(NAMED_FETCH, &waiting).await else {
        panic!("nothing yet")
    };
    let waiting = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(waiting)));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    for offset in [0, 1] {
        let fetched = world.fetch_from("t", 0, offset).await;
        assert_eq!(values(&fetched).len(), 1);
    }
    assert_eq!(world.produce("t", 0, batch_of(10)).await.error_code, 0);
    let answered = waiting.await.expect("no panic");
    assert_eq!((answered.error_code, answered.responses.len()), (0, 0));
    assert!(answered.throttle_time_ms > 0);
}

#[tokio::test]
async fn without_quotas_nobody_waits() {
    let world = world(QuotaConfig::default()).await;
    for _ in 0..3 {
        let request = produce_request("t", &[(0, batch_of(900_000))], -1);
        let sent = world.send(NAMED_PRODUCE, &request).await;
        let response = answer::<ProduceRequest>(NAMED_PRODUCE, sent).await;
        assert_eq!(response.throttle_time_ms, 0);
    }
    assert!(!world.is_throttled());
}
