//! `/v1/catch-up` of a running broker.

use std::time::Duration;

use crate::support::{Home, TOKEN, batch, client, get};
use millrace_broker::Broker;
use millrace_record::Compression;
use millrace_wire::{
    StrBytes,
    messages::{
        DeleteGroupsRequest, FindCoordinatorRequest, GroupId, JoinGroupRequest,
        OffsetCommitRequest, SyncGroupRequest, TopicName,
        join_group_request::JoinGroupRequestProtocol,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        sync_group_request::SyncGroupRequestAssignment,
    },
};
use serde_json::Value;

const COMMIT_VERSION: i16 = 7;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

async fn commit(broker: &Broker, group: &str, offset: i64) {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text("t")))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answer = client(broker).await.call(COMMIT_VERSION, &request).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
}

async fn answer(broker: &Broker) -> Value {
    let (code, body) = get(broker, "/v1/catch-up", Some(TOKEN)).await;
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Asks until a group is as it should be: it is looked at once a second.
async fn group_that(broker: &Broker, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..100 {
        let answer = answer(broker).await;
        let groups = answer["groups"].as_array().expect("a list");
        last = groups
            .iter()
            .find(|group| group["group"] == name)
            .cloned()
            .unwrap_or_default();
        if holds(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{last}");
}

/// 4,000 records of a thousand bytes, and a group that is at the first.
async fn backlog(broker: &Broker) {
    assert_eq!(client(broker).await.create_topic("t", 1).await, 0);
    let value = "x".repeat(1_000);
    let values = vec![value.as_str(); 100];
    let mut producer = client(broker).await;
    for _ in 0..40 {
        let records = batch(&values, Compression::None);
        producer.produce("t", 0, records).await.expect("produced");
    }
    let find = FindCoordinatorRequest::default().with_key(text("archive"));
    assert_eq!(client(broker).await.call(2, &find).await.error_code, 0);
    commit(broker, "archive", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_reads_a_backlog_is_told_with_its_rate_and_time() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    backlog(&broker).await;
    let idle = group_that(&broker, "archive", |group| {
        group["backlog_records"] == "4000"
    })
    .await;
    assert_eq!(idle["mode"], "idle");
    assert_eq!(idle["eta_seconds"], Value::Null);
    let bytes: u64 = idle["backlog_bytes"]
        .as_str()
        .and_then(|b| b.parse().ok())
        .expect("a text");
    assert!((4_000_000..5_000_000).contains(&bytes), "{bytes}");

    // Half a megabyte a second, committed as it goes.
    for offset in 1..=6 {
        commit(&broker, "archive", offset * 250).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let reading = group_that(&broker, "archive", |group| group["mode"] == "catch_up").await;
    let progress = reading["progress"].as_f64().expect("under way");
    assert!((0.05..0.6).contains(&progress), "{reading}");
    let eta = reading["eta_seconds"].as_f64().expect("an estimate");
    assert!((1.0..60.0).contains(&eta), "{reading}");
    assert!(
        reading["read_bytes_per_second"].as_f64() > Some(100_000.0),
        "{reading}"
    );
    let partition = &reading["partitions"][0];
    assert_eq!(
        (&partition["topic"], &partition["partition"]),
        (&"t".into(), &0.into())
    );
    assert_eq!(partition["high_watermark"], "4000");
    let (_, metrics) = get(&broker, "/metrics", Some(TOKEN)).await;
    let line = "millrace_group_backlog_records{group=\"archive\",topic=\"t\"} ";
    assert!(metrics.contains(line), "{metrics}");

    commit(&broker, "archive", 4_000).await;
    let done = group_that(&broker, "archive", |group| group["backlog_records"] == "0").await;
    assert_eq!(done["progress"], Value::Null);
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text("archive"))]);
    assert_eq!(
        client(&broker).await.call(1, &delete).await.results[0].error_code,
        0
    );
    group_that(&broker, "archive", Value::is_null).await;
    broker.stop().await;
}

/// `t` with the partitions 0 and 1, as a consumer's leader writes it.
const BOTH_PARTITIONS: &[u8] = b"\0\0\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x01\xff\xff\xff\xff";

/// The only member of a group, assigned both partitions.
async fn join(broker: &Broker, group: &str) -> (i32, StrBytes) {
    let mut member = client(broker).await;
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    let join = JoinGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_session_timeout_ms(60_000)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined = member.call(3, &join).await;
    assert_eq!(joined.error_code, 0);
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(joined.member_id.clone())
        .with_assignment(BOTH_PARTITIONS.into());
    let sync = SyncGroupRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(vec![assignment]);
    assert_eq!(member.call(2, &sync).await.error_code, 0);
    (joined.generation_id, joined.member_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assigned_partition_without_a_commit_is_part_of_the_backlog() {
    let home = Home::new();
    let broker = home.start(&["group.initial.rebalance.delay.ms=0"]).await;
    assert_eq!(client(&broker).await.create_topic("t", 2).await, 0);
    let mut producer = client(&broker).await;
    for partition in [0, 1] {
        let records = batch(&["a", "b", "c"], Compression::None);
        let produced = producer.produce("t", partition, records).await;
        produced.expect("produced");
    }
    let find = FindCoordinatorRequest::default().with_key(text("readers"));
    assert_eq!(client(&broker).await.call(2, &find).await.error_code, 0);
    let (generation, member) = join(&broker, "readers").await;
    let all = |group: &Value| group["backlog_records"] == "6";
    group_that(&broker, "readers", all).await;

    let partition = OffsetCommitRequestPartition::default().with_committed_offset(3);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(text("t")))
        .with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(GroupId(text("readers")))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(member)
        .with_topics(vec![topic]);
    let answer = client(&broker).await.call(COMMIT_VERSION, &commit).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    let half = |group: &Value| group["backlog_records"] == "3";
    let group = group_that(&broker, "readers", half).await;
    assert_eq!(group["partitions"].as_array().map(Vec::len), Some(2));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_tells_its_cache_and_network() {
    let home = Home::new();
    let broker = home
        .start(&["s3.network.ingress.baseline.bandwidth=100000000"])
        .await;
    let whole = answer(&broker).await;
    assert_eq!(
        whole["network"]["ingress"]["baseline_bytes_per_second"],
        "100000000"
    );
    assert_eq!(
        whole["network"]["egress"]["baseline_bytes_per_second"],
        Value::Null
    );
    assert_eq!(
        whole["network"]["egress"]["tiers"].as_array().map(Vec::len),
        Some(5)
    );
    assert_eq!(whole["cache"]["size_bytes"], "16777216");
    assert_eq!(
        (&whole["truncated"], &whole["node_id"]),
        (&false.into(), &0.into())
    );
    assert!(
        whole["time"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_bucket_was_asked_for_is_counted() {
    let home = Home::new();
    let broker = home.start(&["s3.wal.upload.interval.ms=10"]).await;
    assert_eq!(client(&broker).await.create_topic("t", 1).await, 0);
    let records = batch(&["a"], Compression::None);
    client(&broker)
        .await
        .produce("t", 0, records)
        .await
        .expect("produced");
    let mut puts = Value::Null;
    for _ in 0..100 {
        let answer = answer(&broker).await;
        let calls = answer["bucket_calls"].as_array().expect("a list");
        let is_put = |call: &&Value| call["operation"] == "put" && call["status"] == "ok";
        puts = calls.iter().find(is_put).cloned().unwrap_or_default();
        if !puts.is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        puts["calls"].as_str().is_some_and(|calls| calls != "0"),
        "{puts}"
    );
    assert_eq!(get(&broker, "/v1/catch-up", None).await.0, 401);
    broker.stop().await;
}
