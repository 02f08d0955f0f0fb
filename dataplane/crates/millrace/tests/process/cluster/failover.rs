//! Brokers that die, stand still or come back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::harness::{
    Cluster, PARTITIONS, PATIENCE, TOPIC, expected, led_by, producer, send, single,
};
use crate::Home;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_broker_acknowledged_is_read_from_the_others() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..200).await;
    cluster.kill_node(2);
    cluster.expire(2).await;
    cluster
        .until(1, |brokers| brokers[1].1 == "left" && brokers[1].2 == 0)
        .await;
    // An idempotent producer goes on with its sequence at the new leader.
    send(&producer, 200..300).await;
    assert_eq!(cluster.read_all(300).await, expected(300));
    let kinds = cluster.get(1, "/v1/cluster").await["events"].clone();
    let kinds: Vec<&str> = kinds
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| event["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(kinds[..3], ["left", "takeover", "fenced"]);

    // It comes back with its log, of which nothing is needed any more.
    cluster.start_node(2).await;
    cluster.until(3, |brokers| brokers[1].1 == "active").await;
    cluster.kill_node(1);
    cluster.expire(1).await;
    cluster
        .until(2, |brokers| brokers[0].1 == "left" && brokers[1].2 > 0)
        .await;
    send(&producer, 300..400).await;
    assert_eq!(cluster.read_all(400).await, expected(400));
    producer.close().await;
}

/// Damages the record with this value, which is in the log of a broker that does not run.
fn damage(home: &Home, value: &str) {
    let file = home.path().join("wal/wal");
    let mut log = std::fs::read(&file).expect("readable");
    let found = log
        .windows(value.len())
        .position(|at| at == value.as_bytes());
    let at = found.expect("it has not been trimmed");
    log[at] ^= 0x40;
    std::fs::write(file, log).expect("writable");
}

/// Nobody can upload what follows the damaged record, so its partition waits for an operator. The others do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_of_a_dead_broker_keeps_no_other_partition_offline() {
    const DAMAGED: &str = "this record will be damaged";
    let settings = "leader.balance.interval.ms=0\ns3.wal.upload.interval.ms=600000";
    let mut cluster = Cluster::start_with([1, 2], settings).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..20).await;
    let of_two = led_by(&cluster, 2).await;
    let mut raw = cluster.brokers[&2].client().await;
    let produced = raw.produce(TOPIC, of_two[0], single(DAMAGED)).await;
    produced.expect("acknowledged");
    send(&producer, 20..40).await;
    cluster.kill_node(2);
    damage(&cluster.nodes[&2].home, DAMAGED);
    cluster.expire(2).await;
    for partition in (0..PARTITIONS).filter(|&partition| partition != of_two[0]) {
        let read = cluster.read(partition, 40).await;
        assert_eq!(read, expected(40)[&partition]);
    }
    let log = cluster.nodes[&1].home.log();
    assert!(log.contains("damaged records of 1 stream(s)"), "{log}");
    let brokers = cluster.brokers_by(1).await;
    assert_eq!(brokers[1].1, "fenced", "its log is kept");
    let mut raw = cluster.brokers[&1].client().await;
    let wait = Duration::from_millis(100);
    let fetched = raw.fetch(TOPIC, of_two[0], 0, wait).await;
    assert_ne!(fetched.error_code, 0, "it is offline");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_before_anybody_noticed_goes_on_with_its_own_log() {
    let mut cluster = Cluster::start([1, 2]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..100).await;
    cluster.kill_node(1);
    cluster.start_node(1).await;
    send(&producer, 100..200).await;
    assert_eq!(cluster.read_all(200).await, expected(200));
    let leaders = cluster.brokers_by(2).await;
    assert_eq!((leaders[0].2, leaders[1].2), (3, 3), "nothing moved");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_task_of_the_cluster_ends_the_broker() {
    let mut cluster = Cluster::start([1]).await;
    cluster.stop_node(1).await;
    let home = &cluster.nodes[&1].home;
    for task in ["lease-renewal", "failover", "metadata-feed"] {
        home.set(&format!("test.panic.task={task}@200"));
        let mut broker = home.spawn();
        let ended = async {
            loop {
                if let Some(status) = broker.try_wait().expect("our child") {
                    return status;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let status = timeout(PATIENCE, ended).await.expect("it ends by itself");
        assert!(!status.success());
        let panicked = format!("the task {task} panicked");
        assert!(home.log().contains(&panicked), "{}", home.log());
    }
}

/// A broker that stood still while another one took its place. Clients hold connections to it, and have sent it records that it
/// finds when it wakes. An acknowledgement that was on its way when it stopped may still leave: its record was durable under the
/// old fence, so the new leader has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_wakes_after_it_was_replaced_acknowledges_nothing_that_was_lost() {
    let mut cluster = Cluster::start([1, 2]).await;
    cluster.create_topic().await;
    let of_one = led_by(&cluster, 1).await;
    assert_eq!(of_one.len(), 3);
    let is_replaced = Arc::new(AtomicBool::new(false));
    let mut acknowledged = BTreeMap::new();
    let mut writers = Vec::new();
    for partition in of_one {
        let mut client = cluster.brokers[&1].client().await;
        let acknowledged_here = Arc::new(Mutex::new(Vec::new()));
        acknowledged.insert(partition, Arc::clone(&acknowledged_here));
        let is_replaced = Arc::clone(&is_replaced);
        // Ends with its connection.
        writers.push(tokio::spawn(async move {
            let mut late = 0;
            for number in 0.. {
                let value = format!("{partition}-{number}");
                let answer = client.produce(TOPIC, partition, single(&value)).await;
                if answer.is_err() {
                    return;
                }
                acknowledged_here.lock().expect("no panic").push(value);
                if is_replaced.load(Ordering::SeqCst) {
                    late += 1;
                    assert_eq!(late, 1, "acknowledged requests that came after the stop");
                }
            }
        }));
    }
    let all_acknowledged = async {
        let is_none = |of: &Arc<Mutex<Vec<String>>>| of.lock().expect("no panic").is_empty();
        while acknowledged.values().any(is_none) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, all_acknowledged).await.expect("written");
    cluster.signal(1, Signal::STOP);
    cluster.expire(1).await;
    cluster
        .until(2, |brokers| brokers[0].1 == "left" && brokers[1].2 == 6)
        .await;
    is_replaced.store(true, Ordering::SeqCst);
    cluster.signal(1, Signal::CONT);
    let mut broker = cluster.brokers.remove(&1).expect("it runs");
    let ended = async {
        while broker.child.try_wait().expect("our child").is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("it ends by itself");
    let log = cluster.nodes[&1].home.log();
    assert!(
        log.contains("fenced") || log.contains("taken it over"),
        "{log}"
    );
    for writer in writers {
        if let Err(error) = writer.await {
            let panic = error.into_panic();
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            assert!(!text.contains("acknowledged"), "{text}");
        }
    }
    for (partition, acknowledged) in acknowledged {
        let acknowledged = acknowledged.lock().expect("no panic").clone();
        let read = cluster.read(partition, acknowledged.len()).await;
        assert_eq!(
            read[..acknowledged.len()],
            acknowledged,
            "partition {partition}"
        );
    }
}
