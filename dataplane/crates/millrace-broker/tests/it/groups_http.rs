//! Consumer groups over the admin HTTP: who is a member, and how far behind each partition is.

use std::{collections::BTreeMap, time::Duration};

use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig,
    ProducerRecord, TopicPartition,
    admin::NewTopic,
    consumer::{AutoCommit, CommittedOffset, OffsetReset},
    transport::BrokerAddress,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    records::call,
    support::{Home, address},
};

const PATIENCE: Duration = Duration::from_secs(30);

fn client(broker: &Broker) -> Client {
    let address = address(broker);
    let bootstrap = BrokerAddress::new(&address.ip().to_string(), address.port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.client_id = "reader".to_owned();
    Client::new(config)
}

/// A topic with ten records in each of its partitions.
async fn fill(client: &Client, topic: &str, partitions: i32) {
    let new = [NewTopic::new(topic).partitions(partitions)];
    let results = Admin::new(client).create_topics(&new).await;
    assert!(results.expect("the broker answers")[topic].is_ok());
    let producer = Producer::new(client, ProducerConfig::default()).expect("legal");
    for number in 0..partitions * 10 {
        let record = ProducerRecord::to(topic).partition(number % partitions);
        let delivery = producer.send(record.value(b"value")).await;
        delivery.expect("accepted").await.expect("stored");
    }
}

async fn commit(client: &Client, group: &str, offsets: &[(&str, i32, i64)]) {
    let offset = |&(topic, partition, offset): &(&str, i32, i64)| {
        let partition = TopicPartition::new(topic, partition);
        (partition, CommittedOffset::new(offset))
    };
    let offsets: BTreeMap<_, _> = offsets.iter().map(offset).collect();
    let results = Admin::new(client)
        .alter_group_offsets(group, &offsets)
        .await;
    for (partition, result) in results.expect("the coordinator answers") {
        assert!(result.is_ok(), "{partition:?}: {result:?}");
    }
}

async fn get(broker: &Broker, path: &str) -> Value {
    let (status, _, answer) = call(broker, "GET", path, b"").await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Asks until the answer is as wanted.
async fn until(broker: &Broker, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let asking = async {
        loop {
            let (_, _, answer) = call(broker, "GET", path, b"").await;
            if is_wanted(&answer) {
                return answer;
            }
            last = answer;
            sleep(Duration::from_millis(20)).await;
        }
    };
    let wanted = timeout(PATIENCE, asking).await;
    wanted.unwrap_or_else(|_| panic!("{path}: {last}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_members_is_idle_and_keeps_its_lag() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    fill(&client, "t", 4).await;
    let unknown = call(&broker, "GET", "/v1/groups/g", b"").await;
    assert_eq!(
        (unknown.0, &unknown.2["error"]["code"]),
        (404, &json!("GROUP_ID_NOT_FOUND"))
    );
    commit(
        &client,
        "g",
        &[("t", 0, 4), ("t", 1, 10), ("t", 2, 12), ("t", 3, 2)],
    )
    .await;
    let cut = BTreeMap::from([(TopicPartition::new("t", 3), 5)]);
    let cut = Admin::new(&client)
        .delete_records(cut)
        .await
        .expect("answered");
    assert!(cut.values().all(Result::is_ok), "{cut:?}");
    let group = get(&broker, "/v1/groups/g").await;
    assert_eq!(group["state"], "Empty", "{group}");
    assert_eq!(group["idle"], true, "{group}");
    assert_eq!(group["members"], json!([]), "{group}");
    // 6, 0, 0 behind the end, and the 5 that are left of the last partition.
    assert_eq!(group["lag"], "11", "{group}");
    let partition = |committed: &str, start: &str, lag: &str, out_of_range: bool, index: u32| {
        json!({
            "topic": "t", "partition": index, "member_id": null, "committed_offset": committed,
            "start_offset": start, "end_offset": "10", "lag": lag, "uncommitted": false,
            "out_of_range": out_of_range, "offline": false
        })
    };
    let expected = json!([
        partition("4", "0", "6", false, 0),
        partition("10", "0", "0", false, 1),
        partition("12", "0", "0", true, 2),
        partition("2", "5", "5", true, 3),
    ]);
    assert_eq!(group["partitions"], expected);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assigned_partition_counts_before_its_first_commit() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    fill(&client, "t", 2).await;
    let mut config = ConsumerConfig::in_group("g/é");
    config.auto_offset_reset = OffsetReset::Latest;
    config.auto_commit = AutoCommit::Off;
    let consumer = Consumer::new(&client, config);
    consumer.subscribe(&["t"]).expect("a group");
    let reading = tokio::spawn(async move {
        let _ = consumer.next().await;
    });
    let path = "/v1/groups/g%2F%C3%A9";
    let group = until(&broker, path, |group| group["state"] == "Stable").await;
    assert_eq!(group["group_id"], "g/é", "{group}");
    assert_eq!(group["idle"], false, "{group}");
    assert_eq!(group["lag"], "20", "{group}");
    let member = &group["members"][0];
    assert_eq!(member["client_id"], "reader", "{group}");
    assert_eq!(member["host"], "127.0.0.1", "{group}");
    assert_eq!(member["partition_count"], 2, "{group}");
    for partition in group["partitions"].as_array().expect("a list") {
        assert_eq!(partition["committed_offset"], Value::Null, "{group}");
        assert_eq!(partition["uncommitted"], true, "{group}");
        assert_eq!(partition["lag"], "10", "{group}");
        assert_eq!(partition["member_id"], member["member_id"], "{group}");
    }
    reading.abort();
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_come_in_pages_with_their_lag() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    fill(&client, "t", 1).await;
    for (group, offset) in [("b", 3), ("a", 10), ("c", 0)] {
        commit(&client, group, &[("t", 0, offset)]).await;
    }
    let first = get(&broker, "/v1/groups?limit=2").await;
    let told = |group: &Value| (group["group_id"].clone(), group["lag"].clone());
    let lags = |page: &Value| -> Vec<_> {
        page["groups"]
            .as_array()
            .expect("a list")
            .iter()
            .map(told)
            .collect()
    };
    assert_eq!(
        lags(&first),
        [(json!("a"), json!("0")), (json!("b"), json!("7"))]
    );
    assert_eq!(first["next"], "b");
    assert_eq!(first["groups"][0]["partitions"], Value::Null);
    let second = get(&broker, "/v1/groups?limit=2&after=b&include=partitions").await;
    assert_eq!(lags(&second), [(json!("c"), json!("10"))]);
    assert_eq!(second["next"], Value::Null);
    assert_eq!(second["groups"][0]["partitions"][0]["end_offset"], "10");
    let (status, _, answer) = call(&broker, "GET", "/v1/groups?include=all", b"").await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (400, &json!("INVALID_REQUEST"))
    );
    broker.stop().await;
}
