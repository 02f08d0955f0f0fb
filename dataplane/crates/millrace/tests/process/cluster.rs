//! Several brokers of one cluster, on one PostgreSQL database and one bucket.

mod failover;
pub(crate) mod harness;
mod moves;
mod share_states;
mod transactions;

use std::{collections::BTreeMap, time::Duration};

use millrace_client::{
    Admin, TopicPartition,
    admin::{ConfigChange, ConfigResource},
    consumer::CommittedOffset,
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use self::harness::{Cluster, PARTITIONS, PATIENCE, TOPIC, expected, opened, producer, send};

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_spread_and_every_broker_knows_them() {
    let cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    for node in [1, 2, 3] {
        cluster
            .until(node, |brokers| {
                brokers.len() == 3
                    && brokers
                        .iter()
                        .all(|(_, state, leaders)| state == "active" && *leaders == 2)
            })
            .await;
    }
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..50).await;
    assert_eq!(cluster.read_all(50).await, expected(50));
    let view = cluster.get(2, "/v1/cluster").await;
    assert_eq!(view["brokers"][0]["rack"], "zone-1");
    assert_eq!(view["events"][0]["kind"], "joined");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_topic_is_every_brokers() {
    let cluster = Cluster::start([1, 2]).await;
    cluster.create_topic().await;
    let ask = async |node: u32| {
        let answer = cluster.get(node, "/v1/topics?include=configs,partitions");
        answer.await["topics"].clone()
    };
    let first = ask(1).await;
    assert_eq!(first[0]["partition_count"], PARTITIONS);
    assert_eq!((opened(&first), opened(&ask(2).await)), (3, 3));

    let client = cluster.client();
    let admin = Admin::new(&client);
    let change = ConfigChange::Set("1234567".to_owned());
    let changes = BTreeMap::from([("retention.ms".to_owned(), change)]);
    let resource = ConfigResource::Topic(TOPIC.to_owned());
    let changed = admin
        .alter_configs(&BTreeMap::from([(resource, changes)]))
        .await;
    changed.expect("a broker answers");
    for node in [1, 2] {
        let told = async {
            while ask(node).await[0]["configs"]["retention.ms"]["value"] != "1234567" {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, told).await.expect("it learns of it");
    }
    let deleted = admin
        .delete_topics(&[TOPIC])
        .await
        .expect("a broker answers");
    assert!(deleted[TOPIC].is_ok(), "{deleted:?}");
    for node in [1, 2] {
        let gone = async {
            while ask(node).await != Value::Array(Vec::new()) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("it is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_groups_have_committed_outlives_their_broker() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let admin = Admin::new(&client);
    let at = TopicPartition::new(TOPIC, 0);
    let groups: Vec<String> = (0..20).map(|group| format!("group-{group}")).collect();
    let commit = async |offset: i64| {
        for group in &groups {
            let offsets = BTreeMap::from([(at.clone(), CommittedOffset::new(offset))]);
            let committing = async {
                // What a coordinator refuses that is just gone or loading is tried again.
                loop {
                    let answer = admin.alter_group_offsets(group, &offsets).await;
                    if answer.is_ok_and(|answer| answer.values().all(Result::is_ok)) {
                        break;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(PATIENCE, committing).await.expect("commits");
        }
    };
    let committed = async |expected: i64| {
        for group in &groups {
            let looking = async {
                loop {
                    if let Ok(found) = admin.group_offsets(group).await {
                        return found.get(&at).map(|committed| committed.offset);
                    }
                }
            };
            let found = timeout(PATIENCE, looking).await.expect("answers");
            assert_eq!(found, Some(expected), "{group}");
        }
    };
    commit(7).await;
    cluster.kill_node(2);
    cluster.expire(2).await;
    committed(7).await;
    commit(8).await;
    cluster.stop_node(1).await;
    committed(8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_one_broker_was_told_holds_at_all() {
    let cluster = Cluster::start([1, 2]).await;
    let change =
        r#"{"entity":[{"type":"user","name":"ada"}],"limits":{"producer_byte_rate":1048576}}"#;
    cluster.ask(1, "PATCH", "/v1/client-quotas", change).await;
    for node in [1, 2] {
        let told = async {
            let quotas = async || cluster.get(node, "/v1/client-quotas").await.to_string();
            while !quotas().await.contains("1048576") {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, told).await.expect("it learns of it");
    }
}

/// Brokers reach each other whatever their listeners ask of clients.
#[tokio::test(flavor = "multi_thread")]
async fn every_broker_serves_the_records_of_all_and_knows_the_lag_of_its_groups() {
    let cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..10).await;
    for node in [1, 2, 3] {
        for partition in 0..PARTITIONS {
            let path = format!("/v1/topics/{TOPIC}/records?partition={partition}&from=earliest");
            let page = cluster.get(node, &path).await;
            assert_eq!(page["records"].as_array().map(Vec::len), Some(10), "{page}");
        }
    }
    let offsets = (0..PARTITIONS).map(|index| {
        let name = TopicPartition::new(TOPIC, index);
        (name, CommittedOffset::new(4))
    });
    let offsets: BTreeMap<_, _> = offsets.collect();
    let admin = Admin::new(&client);
    let committing = async {
        loop {
            let answer = admin.alter_group_offsets("g", &offsets).await;
            if answer.is_ok_and(|answer| answer.values().all(Result::is_ok)) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, committing).await.expect("commits");
    let lags = async || {
        let mut lags = Vec::new();
        for node in [1, 2, 3] {
            let page = cluster.get(node, "/v1/groups").await;
            let groups = page["groups"].as_array().expect("a list").clone();
            lags.extend(
                groups
                    .iter()
                    .map(|group| group["lag"].as_str().map(str::to_owned)),
            );
        }
        lags
    };
    let known = async {
        while lags().await != [Some("36".to_owned())] {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let known = timeout(PATIENCE, known).await;
    assert!(known.is_ok(), "{:?}", lags().await);
    producer.close().await;
}
