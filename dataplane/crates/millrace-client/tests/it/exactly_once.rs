//! Whatever happens to requests, connections and leaders: an idempotent producer stores each record
//! once, in order.

use std::{sync::Arc, time::Duration};

use millrace_client::{
    Client, Compression, Producer, ProducerConfig, ProducerRecord, producer::Delivery,
};
use millrace_wire::error_code::ErrorCode;
use proptest::prelude::*;

use crate::cluster::{Cluster, Fault};

const PARTITIONS: usize = 3;

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        2 => Just(Fault::CutBefore),
        3 => Just(Fault::CutAfter),
        1 => Just(Fault::Silence),
        2 => (1_u64..20_000).prop_map(|ms| Fault::Delay(Duration::from_millis(ms))),
        1 => (1_i32..2_000).prop_map(Fault::Throttle),
        1 => any::<bool>().prop_map(|named| Fault::Move { named }),
        3 => prop::sample::select(&[
            ErrorCode::NotEnoughReplicas,
            ErrorCode::RequestTimedOut,
            ErrorCode::KafkaStorageError,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::CorruptMessage,
        ][..]).prop_map(Fault::Error),
    ]
}

/// Faults in which nobody loses an answer: then even a broker that forgets its producers must not
/// get anything twice.
fn forgetful() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::None),
        3 => Just(Fault::Forget),
        2 => (1_u64..2_000).prop_map(|ms| Fault::Delay(Duration::from_millis(ms))),
        1 => Just(Fault::Error(ErrorCode::NotEnoughReplicas)),
    ]
}

#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    faults: Vec<Fault>,
    /// Pauses between records, in milliseconds.
    pauses: Vec<u64>,
    batch_size: usize,
    in_flight: usize,
    compression: Compression,
}

fn case(fault: impl Strategy<Value = Fault>) -> impl Strategy<Value = Case> {
    let codec = prop::sample::select(&[Compression::None, Compression::Lz4][..]);
    (
        any::<u64>(),
        prop::collection::vec(fault, 0..40),
        prop::collection::vec(prop_oneof![3 => Just(0), 1 => 1_u64..200], 1..120),
        prop_oneof![Just(100_usize), Just(400), Just(16_384)],
        1_usize..=5,
        codec,
    )
        .prop_map(
            |(seed, faults, pauses, batch_size, in_flight, compression)| Case {
                seed,
                faults,
                pauses,
                batch_size,
                in_flight,
                compression,
            },
        )
}

async fn run(case: Case) {
    let cluster = Cluster::new(3);
    cluster.create("t", PARTITIONS);
    cluster.script(case.faults.iter().copied());
    let mut config = ProducerConfig::default();
    config.batch_size = case.batch_size;
    config.max_in_flight = case.in_flight;
    config.compression = case.compression;
    // Longer than all faults together can take.
    config.delivery_timeout = Duration::from_hours(2);
    config.max_block = Duration::from_hours(2);
    let client = Client::new(cluster.config(case.seed));
    let producer = Producer::new(&client, config).expect("legal");
    let mut deliveries = Vec::new();
    for (number, pause) in case.pauses.iter().enumerate() {
        let partition = number % PARTITIONS;
        let value = number.to_string();
        let record = ProducerRecord::to("t")
            .partition(i32::try_from(partition).expect("few"))
            .value(value.as_bytes());
        deliveries.push((partition, producer.send(record).await.expect("accepted")));
        if *pause > 0 {
            tokio::time::sleep(Duration::from_millis(*pause)).await;
        }
    }
    for (number, (partition, delivery)) in deliveries.into_iter().enumerate() {
        let metadata = delivery
            .await
            .unwrap_or_else(|error| panic!("{number}: {error}"));
        let offset = metadata.offset.expect("known");
        let values = cluster.values("t", partition);
        let at = usize::try_from(offset).expect("positive");
        assert_eq!(values[at], number.to_string(), "offset {offset}");
    }
    for partition in 0..PARTITIONS {
        let expected = (partition..case.pauses.len()).step_by(PARTITIONS);
        let expected: Vec<_> = expected.map(|number| number.to_string()).collect();
        let values = cluster.values("t", partition);
        assert_eq!(values, expected, "partition {partition}");
    }
    assert_eq!(producer.metrics().buffered_bytes, 0);
    producer.close().await;
    drop((producer, client));
    // A broker may still be about to answer somebody who has left.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(Arc::strong_count(&cluster), 1, "every task has ended");
}

/// Each case is seconds of a cluster's life: a quarter of the usual number.
fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(4),
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn records_are_stored_once_and_in_order(case in case(fault())) {
        runtime().block_on(run(case));
    }

    #[test]
    fn a_forgetful_broker_stores_records_once_and_in_order(case in case(forgetful())) {
        runtime().block_on(run(case));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

async fn send(producer: &Producer, value: &str) -> Delivery {
    let record = ProducerRecord::to("t").value(value.as_bytes());
    producer.send(record).await.expect("accepted")
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_forgets_the_producer_gets_a_new_epoch() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let client = Client::new(cluster.config(1));
    let producer = Producer::new(&client, ProducerConfig::default()).expect("legal");
    let mut faults = vec![Fault::None; 10];
    faults[3] = Fault::Forget;
    faults[9] = Fault::Forget;
    cluster.script(faults);
    let mut deliveries = Vec::new();
    for number in 0..40 {
        let value = number.to_string();
        let record = ProducerRecord::to("t").value(value.as_bytes());
        deliveries.push(producer.send(record).await.expect("accepted"));
        // Longer than linger: each record is a request.
        tokio::time::sleep(Duration::from_millis(6)).await;
    }
    for (number, delivery) in (0..).zip(deliveries) {
        assert_eq!(delivery.await.expect("stored").offset, Some(number));
    }
    let expected: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    assert_eq!(cluster.values("t", 0), expected);
    assert!(
        producer.metrics().epoch_bumps >= 2,
        "{:?}",
        producer.metrics()
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_given_up_leaves_no_hole_for_the_next_ones() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let mut config = cluster.config(1);
    config.request_timeout = Duration::from_secs(2);
    let mut settings = ProducerConfig::default();
    settings.delivery_timeout = Duration::from_secs(3);
    settings.linger = Duration::ZERO;
    let producer = Producer::new(&Client::new(config), settings).expect("legal");
    send(&producer, "a").await.await.expect("stored");
    // Nobody can know whether this one was stored: it was, and no answer came.
    cluster.script([Fault::CutAfter, Fault::Silence, Fault::Silence]);
    let lost = send(&producer, "b").await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let behind = send(&producer, "c").await;
    lost.await.expect_err("no answer in time");
    behind
        .await
        .expect_err("it waited behind the other for as long");
    send(&producer, "d").await.await.expect("stored");
    let values = cluster.values("t", 0);
    assert_eq!(
        values,
        ["a", "b", "d"],
        "nothing twice, nothing out of order"
    );
}
