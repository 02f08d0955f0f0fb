//! A compacted topic of a whole broker: what consumers read once it is clean.

use std::time::Duration;

use bytes::Bytes;
use millrace_broker::Broker;
use millrace_record::{BatchBuilder, Compression, header_of, records};
use millrace_testkit::KafkaClient;
use serde_json::Value;

use crate::{
    operation::objects_under,
    support::{Home, TOKEN, client, get},
};

const SETTINGS: &[&str] = &[
    "log.cleanup.policy=compact",
    "log.roll.ms=1",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.cleaner.backoff.ms=100",
    "s3.wal.upload.interval.ms=100",
];
/// One record in a hundred stays.
const KEYS: i64 = 20;
const RECORDS: i64 = 2_000;

fn keyed(records: std::ops::Range<i64>) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::Zstd);
    for n in records {
        let (key, value) = ((n % KEYS).to_be_bytes(), n.to_be_bytes());
        builder.push(1_700_000_000_000, Some(&key), Some(&value), &[]);
    }
    builder.build().freeze()
}

/// Reads from `from` up to the high watermark: offsets with keys and values.
async fn read(client: &mut KafkaClient, from: i64) -> Vec<(i64, i64, i64)> {
    let number = |bytes: Option<Bytes>| {
        let bytes = bytes.expect("there");
        i64::from_be_bytes(bytes[..].try_into().expect("eight bytes"))
    };
    let (mut at, mut all) = (from, Vec::new());
    loop {
        let fetched = client.fetch("t", 0, at, Duration::ZERO).await;
        assert_eq!(fetched.error_code, 0, "from {at}");
        let mut rest = fetched.records.clone();
        while !rest.is_empty() {
            let header = header_of(&rest).expect("a batch");
            let batch = rest.split_to(header.size_bytes());
            assert!(header.next_offset() > at, "it goes on");
            at = header.next_offset();
            for record in records(&batch).expect("sound") {
                let record = record.expect("sound");
                all.push((record.offset, number(record.key), number(record.value)));
            }
        }
        if at >= fetched.high_watermark {
            return all;
        }
    }
}

async fn wait_until_clean(client: &mut KafkaClient) -> Vec<(i64, i64, i64)> {
    for _ in 0..200 {
        let all = read(client, 0).await;
        if i64::try_from(all.len()).expect("few") <= KEYS {
            return all;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the topic is not compacted");
}

async fn check(broker: &Broker, live: &[(i64, i64, i64)]) {
    let mut client = client(broker).await;
    assert_eq!(read(&mut client, 0).await, live);
    for from in (0..RECORDS).step_by(173) {
        let mut found = read(&mut client, from).await;
        // A batch that begins before the offset comes whole.
        found.retain(|record| record.0 >= from);
        let expected: Vec<_> = live
            .iter()
            .filter(|record| record.0 >= from)
            .copied()
            .collect();
        assert_eq!(found, expected, "from {from}");
    }
    assert_eq!(client.offset_at("t", 0, -1).await, Ok(RECORDS));
    assert_eq!(client.offset_at("t", 0, -2).await, Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_read_exactly_the_last_record_of_each_key() {
    let home = Home::new();
    let broker = home.start(SETTINGS).await;
    let live = {
        let mut client = client(&broker).await;
        assert_eq!(client.create_topic("t", 1).await, 0);
        for from in (0..RECORDS).step_by(50) {
            let base = client.produce("t", 0, keyed(from..from + 50)).await;
            assert_eq!(base, Ok(from));
        }
        let live = wait_until_clean(&mut client).await;
        let expected: Vec<_> = (RECORDS - KEYS..RECORDS)
            .map(|n| (n, n % KEYS, n))
            .collect();
        assert_eq!(live, expected);
        live
    };
    check(&broker, &live).await;
    broker.stop().await;
    let broker = home.start(SETTINGS).await;
    check(&broker, &live).await;
    broker.stop().await;
}

/// What `/v1/status` says of log compaction once `is_done` accepts it.
async fn status(broker: &Broker, is_done: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    for _ in 0..200 {
        let (_, status) = get(broker, "/v1/status", Some(TOKEN)).await;
        let status: Value = serde_json::from_str(&status).expect("JSON");
        shown = status["log_compaction"].clone();
        if is_done(&shown) {
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("log compaction did not get there: {shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_what_log_compaction_does() {
    let home = Home::new();
    let broker = home.start(SETTINGS).await;
    let idle = status(&broker, |_| true).await;
    let expected = serde_json::json!({
        "enabled": true, "running": null, "waiting": [], "waiting_total": 0, "last_run": null,
        "runs": 0, "failed_runs": 0, "read_bytes": 0, "written_bytes": 0, "removed_bytes": 0,
        "failures": [],
    });
    assert_eq!(idle, expected);
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    for from in (0..100).step_by(50) {
        let base = client.produce("t", 0, keyed(from..from + 50)).await;
        assert_eq!(base, Ok(from));
    }
    let compacted = status(&broker, |status| status["removed_bytes"] != 0).await;
    let last = &compacted["last_run"];
    assert_eq!(
        (&last["topic"], &last["partition"], &last["outcome"]),
        (&"t".into(), &0.into(), &"done".into())
    );
    assert!(last["ended"].as_str().is_some_and(|at| at.ends_with('Z')));
    assert!(compacted["read_bytes"].as_u64() > Some(0), "{compacted}");
    assert!(compacted["runs"].as_u64() > Some(0), "{compacted}");
    assert_eq!(compacted["failures"], serde_json::json!([]));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_says_why_log_compaction_failed() {
    let home = Home::new();
    let without = [SETTINGS, &["log.cleaner.enable=false"]].concat();
    let broker = home.start(&without).await;
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    assert_eq!(client.produce("t", 0, keyed(0..100)).await, Ok(0));
    assert_eq!(status(&broker, |_| true).await["enabled"], false);
    broker.stop().await;
    let mut objects = Vec::new();
    objects_under(&home.path().join("objects"), &mut objects);
    assert!(!objects.is_empty(), "the stop has uploaded");
    for object in objects {
        // The records come first, in a block of their own.
        let mut bytes = std::fs::read(&object).expect("readable");
        bytes[60] ^= 1;
        std::fs::write(&object, bytes).expect("writable");
    }
    let broker = home.start(SETTINGS).await;
    let failed = status(&broker, |status| status["failed_runs"] == 1).await;
    let failure = &failed["failures"][0];
    assert_eq!(
        (&failure["topic"], &failure["partition"], &failure["class"]),
        (&"t".into(), &0.into(), &"corrupt".into())
    );
    assert!(
        failure["reason"]
            .as_str()
            .is_some_and(|why| !why.is_empty())
    );
    assert_eq!(failed["last_run"]["outcome"], "corrupt");
    broker.stop().await;
}
