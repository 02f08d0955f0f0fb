//! The producer against a scripted cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_client::{
    Client, Compression, ErrorCode, Producer, ProducerConfig, ProducerRecord,
    producer::{Acks, Delivery, DeliveryError, RecordMetadata, SendError},
};
use millrace_wire::{ApiKey, error_code};

use crate::{
    cluster::{Cluster, Fault},
    cut_writes::CutsWrites,
};

pub(crate) fn producer(
    cluster: &Arc<Cluster>,
    change: impl FnOnce(&mut ProducerConfig),
) -> Producer {
    let mut config = ProducerConfig::default();
    change(&mut config);
    Producer::new(&Client::new(cluster.config(7)), config).expect("a legal configuration")
}

async fn send(producer: &Producer, value: &str) -> Delivery {
    let record = ProducerRecord::to("t").partition(0).value(value.as_bytes());
    producer.send(record).await.expect("accepted")
}

async fn stored(delivery: Delivery) -> RecordMetadata {
    delivery.await.expect("stored")
}

fn texts(cluster: &Cluster, partition: usize) -> Vec<String> {
    let values = cluster.values("t", partition);
    let text = |value: &bytes::Bytes| String::from_utf8(value.to_vec()).expect("text");
    values.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn records_that_come_within_linger_share_a_batch() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| config.linger = Duration::from_millis(50));
    let mut deliveries = Vec::new();
    for value in ["a", "b", "c"] {
        deliveries.push(send(&producer, value).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (offset, delivery) in (0..).zip(deliveries) {
        let metadata = stored(delivery).await;
        assert_eq!((metadata.partition, metadata.offset), (0, Some(offset)));
    }
    assert_eq!(texts(&cluster, 0), ["a", "b", "c"]);
    assert_eq!(cluster.batches("t", 0), 1);
    let (_, sent) = cluster.requests(ApiKey::Produce)[0];
    assert!(
        sent >= Duration::from_millis(50) && sent < Duration::from_millis(60),
        "{sent:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_does_not_wait_for_linger() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| {
        config.linger = Duration::from_secs(60);
        config.batch_size = 1_000;
    });
    let value = "v".repeat(300);
    let first = send(&producer, &value).await;
    for _ in 0..3 {
        drop(send(&producer, &value).await);
    }
    stored(first).await;
    assert_eq!(
        cluster.values("t", 0).len(),
        3,
        "the fourth record did not fit"
    );
    producer.flush().await;
    assert_eq!(cluster.values("t", 0).len(), 4);
    assert_eq!(cluster.batches("t", 0), 2);
}

#[tokio::test(start_paused = true)]
async fn every_compression_and_version_arrives() {
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        for version in [3, 7, 8, 9, 10, 12, 13] {
            let cluster = Cluster::new(1);
            cluster.create("t", 1);
            cluster.serve(ApiKey::Produce, 0, version);
            let producer = producer(&cluster, |config| config.compression = compression);
            let value = "value ".repeat(500);
            let record = ProducerRecord::to("t")
                .key(b"k")
                .value(value.as_bytes())
                .headers(&[("h", Some(b"x")), ("n", None)]);
            let delivery = producer.send(record).await.expect("accepted");
            assert_eq!(
                stored(delivery).await.offset,
                Some(0),
                "{compression:?} {version}"
            );
            assert_eq!(texts(&cluster, 0), [value]);
            producer.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn acks_0_and_1_have_no_offset_and_one() {
    for (acks, offset) in [(Acks::None, None), (Acks::Leader, Some(0))] {
        let cluster = Cluster::new(1);
        cluster.create("t", 1);
        let producer = producer(&cluster, |config| {
            config.acks = acks;
            config.idempotence = false;
        });
        let delivery = send(&producer, "a").await;
        assert_eq!(stored(delivery).await.offset, offset, "{acks:?}");
        producer.close().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(texts(&cluster, 0), ["a"]);
        assert!(cluster.requests(ApiKey::InitProducerId).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn send_waits_for_memory_and_no_longer_than_it_may() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| {
        config.batch_size = 1_000;
        config.buffer_memory = 3_000;
        config.linger = Duration::from_secs(10);
        config.max_block = Duration::from_secs(5);
    });
    let value = "v".repeat(900);
    cluster.script([Fault::Delay(Duration::from_secs(2))]);
    for _ in 0..20 {
        drop(send(&producer, &value).await);
        assert!(producer.metrics().buffered_bytes <= 3_000);
    }
    producer.flush().await;
    assert_eq!(cluster.values("t", 0).len(), 20);
    assert_eq!(producer.metrics().buffered_bytes, 0);

    cluster.script([Fault::Silence]);
    let mut results = Vec::new();
    for _ in 0..4 {
        let record = ProducerRecord::to("t").value(value.as_bytes());
        results.push(producer.send(record).await);
    }
    let error = results.pop().expect("four").expect_err("memory is full");
    assert!(matches!(error, SendError::NoMemory(_)), "{error}");
    assert!(results.iter().all(Result::is_ok));
    let record = ProducerRecord::to("t").value(value.as_bytes());
    let error = producer.try_send(record).expect_err("memory is full");
    assert!(matches!(error, SendError::WouldBlock), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_open_batch_does_not_wait_while_others_wait_for_memory() {
    let cluster = Cluster::new(1);
    cluster.create("t", 4);
    let producer = producer(&cluster, |config| {
        config.batch_size = 1_000;
        config.buffer_memory = 2_000;
        config.linger = Duration::from_secs(30);
    });
    let start = tokio::time::timeout(Duration::from_secs(1), async {
        for partition in 0..4 {
            let record = ProducerRecord::to("t").partition(partition).value(b"v");
            drop(producer.send(record).await.expect("accepted"));
        }
    });
    start
        .await
        .expect("small batches make room for one another");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_too_large_is_not_accepted() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| config.max_request_size = 1_000);
    let record = ProducerRecord::to("t").value(&[0; 1_000]);
    let error = producer.send(record).await.expect_err("too large");
    assert!(
        matches!(error, SendError::TooLarge { max: 1_000, .. }),
        "{error}"
    );
    let record = ProducerRecord::to("t").partition(1).value(b"v");
    let error = producer.send(record).await.expect_err("no such partition");
    assert!(
        matches!(error, SendError::InvalidPartition { partitions: 1, .. }),
        "{error}"
    );
    producer.close().await;
    let record = ProducerRecord::to("t").value(b"v");
    let error = producer.send(record).await.expect_err("closed");
    assert!(matches!(error, SendError::Closed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_does_not_exist_is_waited_for() {
    let cluster = Cluster::new(1);
    let producer = producer(&cluster, |config| config.max_block = Duration::from_secs(3));
    let record = ProducerRecord::to("t").value(b"v");
    let error = producer.send(record).await.expect_err("there is none");
    let SendError::Metadata(error) = error else {
        panic!("{error}")
    };
    assert_eq!(error.code(), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    let sending = tokio::spawn({
        let producer = producer.clone();
        async move { producer.send(ProducerRecord::to("t").value(b"v")).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.create("t", 1);
    let delivery = sending.await.expect("no panic").expect("accepted");
    stored(delivery).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_record_fails_alone_and_the_next_ones_are_stored() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |_| {});
    cluster.script([Fault::InvalidRecord(1)]);
    let failed: Vec<_> = [send(&producer, "a").await, send(&producer, "b").await].into();
    producer.flush().await;
    let next = send(&producer, "c").await;
    let mut failed = failed.into_iter();
    let error = failed
        .next()
        .expect("a")
        .await
        .expect_err("its batch was refused");
    assert!(matches!(&error, DeliveryError::Broker(_)), "{error}");
    let error = failed.next().expect("b").await.expect_err("it was refused");
    assert!(matches!(&error, DeliveryError::InvalidRecord(_)), "{error}");
    assert!(error.to_string().contains("it is not nice"), "{error}");
    assert_eq!(stored(next).await.offset, Some(0));
    // The refused batch had sequences 0 and 1: a new epoch starts at 0 again.
    assert_eq!(producer.metrics().epoch_bumps, 1);
    assert_eq!(producer.metrics().failed_records, 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_too_large_for_the_broker_is_divided() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    cluster.set_message_bytes_max(1_000);
    let producer = producer(&cluster, |_| {});
    let mut deliveries = Vec::new();
    let values: Vec<_> = (0..30).map(|n| format!("{n}{}", "v".repeat(300))).collect();
    for value in &values {
        deliveries.push(send(&producer, value).await);
    }
    producer.flush().await;
    let numbers = |texts: &[String]| -> Vec<String> {
        let number = |text: &String| text.trim_end_matches('v').to_owned();
        texts.iter().map(number).collect()
    };
    assert_eq!(numbers(&texts(&cluster, 0)), numbers(&values));
    for (offset, delivery) in (0..).zip(deliveries) {
        assert_eq!(stored(delivery).await.offset, Some(offset));
    }
    let huge = send(&producer, &"v".repeat(1_000)).await;
    let error = huge.await.expect_err("one record cannot be divided");
    let DeliveryError::Broker(error) = error else {
        panic!("{error}")
    };
    assert_eq!(error.code, ErrorCode::MESSAGE_TOO_LARGE);
    assert_eq!(producer.metrics().buffered_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_fails_after_the_delivery_timeout() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let client = cluster.config(7);
    let mut config = client.clone();
    config.request_timeout = Duration::from_secs(2);
    let mut settings = ProducerConfig::default();
    settings.delivery_timeout = Duration::from_secs(5);
    let producer = Producer::new(&Client::new(config), settings).expect("legal");
    stored(send(&producer, "a").await).await;
    cluster.set_down(1, true);
    #[expect(clippy::disallowed_methods, reason = "a test's clock")]
    let start = tokio::time::Instant::now();
    let error = send(&producer, "b")
        .await
        .await
        .expect_err("nobody takes it");
    let took = start.elapsed();
    assert!(matches!(error, DeliveryError::TimedOut { .. }), "{error}");
    let expected = Duration::from_secs(5)..Duration::from_secs(6);
    assert!(expected.contains(&took), "{took:?}");
    cluster.set_down(1, false);
    assert_eq!(stored(send(&producer, "c").await).await.offset, Some(1));
    assert_eq!(texts(&cluster, 0), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_broker_is_disconnected_and_the_batch_is_stored_once() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |_| {});
    cluster.script([Fault::Silence]);
    let delivery = send(&producer, "a").await;
    assert_eq!(stored(delivery).await.offset, Some(0));
    assert_eq!(texts(&cluster, 0), ["a"]);
    let requests = cluster.requests(ApiKey::Produce);
    let waited = requests[1].1 - requests[0].1;
    assert!(waited >= Duration::from_secs(30), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_throttled_producer_pauses() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |_| {});
    cluster.script([Fault::Throttle(3_000)]);
    stored(send(&producer, "a").await).await;
    stored(send(&producer, "b").await).await;
    let requests = cluster.requests(ApiKey::Produce);
    let waited = requests[1].1 - requests[0].1;
    assert!(waited >= Duration::from_secs(3), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_the_end_of_a_long_throttle_does_not_expire() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let client = Client::new(cluster.config(1));
    let producer = Producer::new(&client, ProducerConfig::default()).expect("legal");
    cluster.script([Fault::Throttle(45_000)]);
    stored(send(&producer, "a").await).await;
    stored(send(&producer, "b").await).await;
    let requests = cluster.requests(ApiKey::Produce);
    let waited = requests[1].1 - requests[0].1;
    assert!(waited >= Duration::from_secs(45), "{waited:?}");
    let counted = &client.metrics().requests["Produce"];
    assert_eq!((counted.answered, counted.failed), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_moves_is_followed() {
    for named in [true, false] {
        let cluster = Cluster::new(2);
        cluster.create("t", 1);
        let producer = producer(&cluster, |_| {});
        cluster.script([Fault::Move { named }]);
        assert_eq!(stored(send(&producer, "a").await).await.offset, Some(0));
        let brokers: Vec<_> = cluster.requests(ApiKey::Produce);
        let brokers: Vec<_> = brokers.iter().map(|(broker, _)| *broker).collect();
        assert_eq!(brokers, [1, 2], "named: {named}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_producer_still_sends_what_it_has_accepted() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| config.linger = Duration::from_secs(30));
    drop(send(&producer, "a").await);
    drop(producer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(texts(&cluster, 0), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn closing_within_a_time_fails_what_is_left() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |_| {});
    cluster.script([Fault::Silence]);
    let delivery = send(&producer, "a").await;
    producer.close_within(Duration::from_secs(1)).await;
    let error = delivery.await.expect_err("given up");
    assert!(matches!(error, DeliveryError::Closed), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_producer_without_permission_ends() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |_| {});
    cluster.script([Fault::Error(
        error_code::ErrorCode::ClusterAuthorizationFailed,
    )]);
    let error = send(&producer, "a").await.await.expect_err("forbidden");
    let DeliveryError::Broker(error) = error else {
        panic!("{error}")
    };
    assert_eq!(error.code, ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
    let error = producer.send(ProducerRecord::to("t").value(b"v")).await;
    let error = error.expect_err("the producer has failed");
    assert!(
        matches!(error, SendError::Failed(_) | SendError::Closed),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_the_same_time_keep_each_ones_order() {
    let cluster = Cluster::new(3);
    cluster.create("t", 5);
    let producer = producer(&cluster, |config| {
        config.batch_size = 500;
        config.buffer_memory = 20_000;
    });
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let producer = producer.clone();
            tokio::spawn(async move {
                let key = format!("caller {caller}");
                for number in 0..500 {
                    let value = format!("{caller} {number}");
                    let record = ProducerRecord::to("t")
                        .key(key.as_bytes())
                        .value(value.as_bytes());
                    drop(producer.send(record).await.expect("accepted"));
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("no panic");
    }
    producer.flush().await;
    let all: Vec<_> = (0..5)
        .flat_map(|partition| texts(&cluster, partition))
        .collect();
    assert_eq!(all.len(), 4_000);
    for caller in 0..8 {
        let own = all
            .iter()
            .filter(|text| text.starts_with(&format!("{caller} ")));
        let expected = (0..500).map(|number| format!("{caller} {number}"));
        assert!(own.cloned().eq(expected), "caller {caller}");
    }
    assert_eq!(producer.metrics().buffered_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_given_up_hands_nothing_over_and_holds_nothing() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| {
        config.batch_size = 1_000;
        config.buffer_memory = 2_000;
        config.linger = Duration::from_secs(1);
    });
    let value = "v".repeat(900);
    let mut accepted = 0;
    cluster.script([Fault::Delay(Duration::from_secs(5))]);
    for _ in 0..200 {
        let record = ProducerRecord::to("t").value(value.as_bytes());
        let sent = tokio::time::timeout(Duration::from_millis(50), producer.send(record)).await;
        accepted += usize::from(sent.is_ok());
    }
    assert!(accepted < 200, "some had to wait for longer");
    producer.flush().await;
    assert_eq!(cluster.values("t", 0).len(), accepted);
    let metrics = producer.metrics();
    assert_eq!((metrics.buffered_bytes, metrics.waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn all_that_a_send_waits_for_has_one_deadline() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    cluster.set_slow(1, Duration::from_mins(1));
    let producer = producer(&cluster, |config| {
        config.batch_size = 1_000;
        config.buffer_memory = 1_500;
        config.max_block = Duration::from_secs(5);
    });
    let value = "v".repeat(900);
    let _delivery = send(&producer, &value).await;
    cluster.grow("t", 1);
    cluster.set_down(1, true);
    let back = tokio::spawn({
        let cluster = Arc::clone(&cluster);
        async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            cluster.set_down(1, false);
        }
    });
    // First for the metadata, then for memory.
    #[expect(clippy::disallowed_methods, reason = "a test's clock")]
    let start = tokio::time::Instant::now();
    let record = ProducerRecord::to("t").partition(1).value(value.as_bytes());
    let error = producer.send(record).await.expect_err("no memory");
    assert!(matches!(error, SendError::NoMemory(_)), "{error}");
    let waited = start.elapsed();
    assert!((4..6).contains(&waited.as_secs()), "{waited:?}");
    assert!(back.is_finished());
}

#[tokio::test(start_paused = true)]
async fn without_acknowledgements_a_connection_that_ends_or_stalls_in_a_write_costs_a_retry() {
    const CUTS: usize = 3;
    for stalls in [false, true] {
        let cluster = Cluster::new(1);
        cluster.create("t", 1);
        let cuts = Arc::new(AtomicUsize::new(CUTS));
        let mut config = cluster.config(7);
        config.request_timeout = Duration::from_secs(5);
        config.connector = Arc::new(CutsWrites {
            inner: Arc::clone(&config.connector),
            stalls,
            cuts: Arc::clone(&cuts),
        });
        let mut settings = ProducerConfig::default();
        settings.acks = Acks::None;
        settings.idempotence = false;
        // More cuts than requests may be in flight: each must end its request.
        settings.max_in_flight = CUTS - 1;
        let producer = Producer::new(&Client::new(config), settings).expect("legal");
        let value = "v".repeat(30_000);
        let delivery = send(&producer, &value).await;
        let delivery = tokio::time::timeout(Duration::from_mins(1), stored(delivery)).await;
        delivery.expect("within the time-outs of the requests");
        producer.close().await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(texts(&cluster, 0), [value]);
        assert_eq!(cuts.load(Ordering::Relaxed), 0);
        assert_eq!(producer.metrics().retried_batches, CUTS as u64);
        assert_eq!(producer.metrics().buffered_bytes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_understood_after_the_metadata_has_lost_the_topic() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let mut config = cluster.config(7);
    config.metadata_max_age = Duration::from_millis(200);
    let settings = ProducerConfig::default();
    let producer = Producer::new(&Client::new(config), settings).expect("legal");
    cluster.script([Fault::Delay(Duration::from_secs(2))]);
    let first = send(&producer, "a").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.hide("t", true);
    assert_eq!(stored(first).await.offset, Some(0));
    let second = send(&producer, "b").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.hide("t", false);
    assert_eq!(stored(second).await.offset, Some(1));
    assert_eq!(texts(&cluster, 0), ["a", "b"]);
    assert_eq!(producer.metrics().epoch_bumps, 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_gets_nothing_before_the_old_one_has_answered_for_what_it_holds() {
    for (idempotence, max_in_flight) in [(true, 5), (false, 1)] {
        let cluster = Cluster::new(2);
        cluster.create("t", 1);
        let mut config = cluster.config(7);
        config.metadata_max_age = Duration::from_millis(200);
        let mut settings = ProducerConfig::default();
        (settings.idempotence, settings.max_in_flight) = (idempotence, max_in_flight);
        settings.linger = Duration::ZERO;
        let producer = Producer::new(&Client::new(config), settings).expect("legal");
        stored(send(&producer, "0").await).await;
        cluster.set_slow(1, Duration::from_secs(3));
        let mut deliveries = Vec::new();
        for number in 1..10 {
            deliveries.push(send(&producer, &number.to_string()).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
            if number == 5 {
                cluster.move_leader("t", 0, 2);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        let to_new = |(broker, _): &(i32, Duration)| *broker == 2;
        assert!(!cluster.requests(ApiKey::Produce).iter().any(to_new));
        for delivery in deliveries {
            stored(delivery).await;
        }
        let expected: Vec<_> = (0..10).map(|number| number.to_string()).collect();
        assert_eq!(texts(&cluster, 0), expected, "idempotence: {idempotence}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_too_large_does_not_hide_the_open_batch_from_a_flush() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let producer = producer(&cluster, |config| {
        config.batch_size = 1_000;
        config.max_request_size = 2_000;
        config.linger = Duration::from_secs(30);
    });
    drop(send(&producer, "a").await);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let record = ProducerRecord::to("t").partition(0).value(&[0; 3_000]);
    let error = producer.send(record).await.expect_err("too large");
    assert!(matches!(error, SendError::TooLarge { .. }), "{error}");
    let flushed = tokio::time::timeout(Duration::from_secs(1), producer.flush()).await;
    flushed.expect("nothing waits for linger");
    assert_eq!(texts(&cluster, 0), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn however_many_callers_wait_for_metadata_none_waits_longer_than_it_may() {
    let cluster = Cluster::new(1);
    cluster.set_down(1, true);
    let producer = producer(&cluster, |config| {
        config.max_block = Duration::from_secs(40)
    });
    #[expect(clippy::disallowed_methods, reason = "a test's clock")]
    let start = tokio::time::Instant::now();
    let callers = (0..20).map(|number| {
        let producer = producer.clone();
        tokio::spawn(async move {
            let topic = number.to_string();
            let sent = producer.send(ProducerRecord::to(&topic).value(b"v")).await;
            sent.expect_err("the cluster is down")
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let error = caller.await.expect("no panic");
        assert!(matches!(error, SendError::Metadata(_)), "{error}");
    }
    assert!(
        start.elapsed() <= Duration::from_secs(41),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_stays_unknown_is_asked_for_ever_more_rarely() {
    let cluster = Cluster::new(1);
    cluster.create("t", 1);
    let mut config = cluster.config(7);
    config.metadata_max_age = Duration::from_secs(5);
    let settings = ProducerConfig::default();
    let producer = Producer::new(&Client::new(config), settings).expect("legal");
    stored(send(&producer, "a").await).await;
    cluster.hide("t", true);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let before = cluster.requests(ApiKey::Metadata).len();
    let delivery = send(&producer, "b").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let asked = cluster.requests(ApiKey::Metadata).len() - before;
    assert!((15..40).contains(&asked), "{asked} requests");
    cluster.hide("t", false);
    assert_eq!(stored(delivery).await.offset, Some(1));
}
