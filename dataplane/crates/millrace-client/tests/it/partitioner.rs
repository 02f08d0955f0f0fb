//! Partitioners of the producer against a scripted cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_client::{
    ProducerRecord,
    producer::{Partitioner, Partitioning, TopicView},
};

use crate::{cluster::Cluster, producer::producer};

#[tokio::test(start_paused = true)]
async fn records_without_a_key_are_spread_as_the_partitioner_says() {
    for (partitioning, batches) in [
        (Partitioning::RoundRobin, 8..=8),
        (Partitioning::Sticky, 1..=1),
        (Partitioning::UniformSticky, 1..=1),
    ] {
        let cluster = Cluster::new(1);
        cluster.create("t", 8);
        let producer = producer(&cluster, |config| {
            config.partitioning = partitioning.clone()
        });
        for _ in 0..80 {
            let record = ProducerRecord::to("t").value(b"v");
            drop(producer.send(record).await.expect("accepted"));
        }
        producer.flush().await;
        let sent: usize = (0..8)
            .map(|partition| cluster.batches("t", partition))
            .sum();
        assert!(
            batches.contains(&sent),
            "{partitioning:?} made {sent} batches"
        );
        let stored: usize = (0..8)
            .map(|partition| cluster.values("t", partition).len())
            .sum();
        assert_eq!(stored, 80);
    }
}

/// The part of the records that partition 1 gets, whose broker takes 200 ms for a request.
async fn share_of_the_slow(partitioning: Partitioning, availability: Duration) -> f64 {
    const RECORDS: u32 = 8_000;
    let cluster = Cluster::new(2);
    cluster.create("t", 2);
    cluster.set_slow(2, Duration::from_millis(200));
    let producer = producer(&cluster, |config| {
        config.partitioning = partitioning;
        config.availability_timeout = availability;
        config.linger = Duration::ZERO;
        config.batch_size = 2_000;
        config.max_in_flight = 1;
    });
    for _ in 0..RECORDS {
        let record = ProducerRecord::to("t").value(&[7; 100]);
        drop(producer.send(record).await.expect("accepted"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    producer.flush().await;
    cluster.values("t", 1).len() as f64 / f64::from(RECORDS)
}

#[tokio::test(start_paused = true)]
async fn a_slow_broker_gets_more_from_sticky_and_less_from_uniform_sticky() {
    let sticky = share_of_the_slow(Partitioning::Sticky, Duration::ZERO).await;
    assert!(sticky > 0.55, "sticky: {sticky}");
    let uniform = share_of_the_slow(Partitioning::UniformSticky, Duration::ZERO).await;
    assert!(uniform < 0.5, "uniform sticky: {uniform}");
    let avoided = share_of_the_slow(Partitioning::UniformSticky, Duration::from_millis(20)).await;
    assert!(avoided < uniform, "avoided: {avoided}, otherwise {uniform}");
}

/// Sends everything to the last partition, and counts new batches.
#[derive(Debug, Default)]
struct Last(AtomicUsize);

impl Partitioner for Last {
    fn partition(&self, topic: &TopicView<'_>, _record: &ProducerRecord<'_>) -> i32 {
        assert_eq!(topic.name(), "t");
        assert!(topic.is_available(0) && !topic.is_available(9));
        i32::try_from(topic.partitions() - 1).expect("few")
    }

    fn on_new_batch(&self, _topic: &TopicView<'_>, previous: i32) {
        assert_eq!(previous, 3);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_partitioner_of_ones_own_decides_for_records_with_keys_too() {
    let cluster = Cluster::new(1);
    cluster.create("t", 4);
    let last = Arc::new(Last::default());
    let producer = producer(&cluster, |config| {
        config.partitioning = Partitioning::Custom(last.clone());
    });
    for _ in 0..10 {
        let record = ProducerRecord::to("t").key(b"k").value(b"v");
        let delivery = producer.send(record).await.expect("accepted");
        assert_eq!(delivery.partition(), 3);
    }
    producer.flush().await;
    assert_eq!(cluster.values("t", 3).len(), 10);
    assert_eq!(last.0.load(Ordering::Relaxed), 1);
}
