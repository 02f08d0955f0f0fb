//! Partitions that go to other brokers as planned.

use std::{collections::BTreeMap, time::Duration};

use millrace_client::{Admin, TopicPartition};
use tokio::time::{sleep, timeout};

use super::harness::{Cluster, PARTITIONS, PATIENCE, TOPIC, expected, producer, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_does_not_notice_that_brokers_stop_and_come_back() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    let sending = tokio::spawn({
        let producer = producer.clone();
        async move {
            for hundred in 0..20 {
                send(&producer, hundred * 100..(hundred + 1) * 100).await;
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
    for node in [1, 2] {
        cluster.stop_node(node).await;
        cluster
            .until(3, |brokers| {
                brokers.iter().all(|(other, state, leaders)| {
                    *other != u64::from(node) || (state == "left" && *leaders == 0)
                })
            })
            .await;
        cluster.start_node(node).await;
    }
    timeout(PATIENCE, sending)
        .await
        .expect("ends")
        .expect("no error reached the application");
    assert_eq!(cluster.read_all(2_000).await, expected(2_000));
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_joins_is_given_its_share() {
    let mut cluster = Cluster::start_with([1, 2], "leader.balance.interval.ms=200").await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..50).await;
    cluster.start_node(3).await;
    cluster
        .until(1, |brokers| {
            brokers.iter().all(|(.., leaders)| *leaders == 2)
        })
        .await;
    send(&producer, 50..100).await;
    assert_eq!(cluster.read_all(100).await, expected(100));
    let events = cluster.get(3, "/v1/cluster").await["events"].to_string();
    assert!(events.contains("move to node 3"), "{events}");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_go_where_they_are_assigned_and_come_back() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let admin = Admin::new(&client);
    let producer = producer(&client);
    let all: Vec<TopicPartition> = (0..PARTITIONS)
        .map(|index| TopicPartition::new(TOPIC, index))
        .collect();
    let to = |node: i32| {
        let assigned = all.iter().map(|name| (name.clone(), Some(vec![node])));
        assigned.collect::<BTreeMap<_, _>>()
    };
    let to_three = to(3);
    let (_, moved) = tokio::join!(
        send(&producer, 0..200),
        admin.reassign_partitions(&to_three)
    );
    let moved = moved.expect("it may");
    assert!(moved.values().all(Result::is_ok), "{moved:?}");
    let three_leads = |count: u64| {
        move |brokers: &[(u64, String, u64)]| {
            brokers
                .iter()
                .any(|(node, state, leaders)| (*node, *leaders) == (3, count) && state == "active")
        }
    };
    cluster.until(1, three_leads(6)).await;
    let ended = async {
        // Any broker is asked, which may not know yet.
        while !admin.list_reassignments().await.expect("it may").is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("all have moved");
    let absent = admin.reassign_partitions(&to(9)).await.expect("it may");
    assert!(absent.values().all(Result::is_err), "{absent:?}");

    // The preferred leader is the one that was assigned, also after it was gone.
    cluster.stop_node(3).await;
    send(&producer, 200..250).await;
    cluster.start_node(3).await;
    // Any broker is asked to elect: all must know that it is back.
    for node in [1, 2, 3] {
        cluster.until(node, three_leads(0)).await;
    }
    let wait = Duration::from_secs(30);
    let elected = admin.elect_preferred_leaders(&all, wait).await;
    let elected = elected.expect("it may");
    assert!(elected.values().all(Result::is_ok), "{elected:?}");
    cluster.until(1, three_leads(6)).await;
    let again = admin.elect_preferred_leaders(&all, wait).await;
    let again = again.expect("it may");
    assert!(again.values().all(Result::is_err), "{again:?}");
    send(&producer, 250..300).await;
    assert_eq!(cluster.read_all(300).await, expected(300));
    producer.close().await;
}
