//! The consumer against scripted brokers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, poll};
use millrace_client::{
    Client, Compression, Consumer, ConsumerConfig, ConsumerError, TopicPartition,
    consumer::{AutoCommit, DecompressionGate, IsolationLevel, OffsetReset, StartAt},
};
use millrace_record::BatchBuilder;
use millrace_wire::{ApiKey, error_code::ErrorCode};

use crate::logs::{Fault, Logs};

/// Longer than anything that these consumers wait for.
const IDLE: Duration = Duration::from_secs(3);

fn consumer(logs: &Arc<Logs>, change: impl FnOnce(&mut ConsumerConfig)) -> Consumer {
    let mut config = ConsumerConfig::default();
    config.auto_offset_reset = OffsetReset::Earliest;
    change(&mut config);
    Consumer::new(&Client::new(logs.config()), config)
}

fn t(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

async fn values(consumer: &Consumer, count: usize) -> Vec<String> {
    let mut values = Vec::new();
    for _ in 0..count {
        let record = consumer.next().await.expect("a record");
        values.push(text(record.value.as_deref()));
    }
    values
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8(bytes.expect("a value").to_vec()).expect("text")
}

/// Appends `count` batches of one record each, numbered from `from`; their bytes.
fn fill(logs: &Logs, partition: i32, from: usize, count: usize) -> usize {
    let batch = |number: usize| {
        let value = format!("{number:06}{}", "x".repeat(1_000));
        logs.append(partition, &[&value], Compression::None)
    };
    (from..from + count).map(batch).sum()
}

fn number(value: Option<&[u8]>) -> usize {
    text(value)[..6].parse().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn records_come_in_order_with_all_that_belongs_to_them() {
    let logs = Logs::new(2, 3);
    let codecs = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for codec in codecs {
        logs.append(0, &["a", "b"], codec);
    }
    let consumer = consumer(&logs, |_| {});
    consumer
        .assign([("t", 0)], StartAt::Beginning)
        .expect("manual");
    let first = consumer.next().await.expect("a record");
    assert_eq!((&*first.topic, first.partition, first.offset), ("t", 0, 0));
    assert_eq!(first.timestamp_ms, 1_000);
    assert_eq!(first.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(&first.headers[0].key[..], b"h");
    assert_eq!(first.headers[0].value.as_deref(), Some(&b"v"[..]));
    assert_eq!(first.leader_epoch, Some(0));
    let rest = values(&consumer, 2 * codecs.len() - 1).await;
    assert_eq!(
        rest.concat(),
        "b".to_owned() + &"ab".repeat(codecs.len() - 1)
    );
    assert_eq!(consumer.position(&t(0)).await.expect("known"), 10);
    assert_eq!(consumer.lag(&t(0)), Some(0));
    // What comes later is delivered too.
    logs.append(0, &["c"], Compression::None);
    assert_eq!(values(&consumer, 1).await, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn every_version_of_fetch_works() {
    for version in 4..=18 {
        let logs = Logs::new(1, 2);
        logs.serve(ApiKey::Fetch, version);
        logs.append(0, &["a", "b"], Compression::Lz4);
        logs.append(1, &["c"], Compression::None);
        let consumer = consumer(&logs, |_| {});
        let both = [("t", 0), ("t", 1)];
        consumer.assign(both, StartAt::Beginning).expect("manual");
        let mut read = values(&consumer, 3).await;
        read.sort();
        assert_eq!(read.concat(), "abc", "version {version}");
    }
}

#[tokio::test(start_paused = true)]
async fn positions_are_found_by_time_and_at_both_ends() {
    let logs = Logs::new(2, 2);
    logs.append(0, &["a", "b", "c"], Compression::None);
    logs.delete_before(0, 1);
    let consumer = consumer(&logs, |_| {});
    let offsets = consumer
        .beginning_offsets(&[t(0), t(1)])
        .await
        .expect("told");
    assert_eq!(offsets, HashMap::from([(t(0), 1), (t(1), 0)]));
    let offsets = consumer.end_offsets(&[t(0), t(1)]).await.expect("told");
    assert_eq!(offsets, HashMap::from([(t(0), 3), (t(1), 0)]));
    let asked = [(t(0), 1_002), (t(1), 5)];
    let times = consumer.offsets_for_times(&asked).await.expect("told");
    let found = times[&t(0)].expect("a record");
    assert_eq!((found.offset, found.timestamp_ms), (2, Some(1_002)));
    assert_eq!(times[&t(1)], None);
    consumer
        .assign([("t", 0)], StartAt::Timestamp(1_002))
        .expect("manual");
    assert_eq!(values(&consumer, 1).await, ["c"]);
    consumer.seek(&t(0), StartAt::Beginning).expect("assigned");
    assert_eq!(values(&consumer, 2).await, ["b", "c"]);
    consumer.seek(&t(0), StartAt::Offset(2)).expect("assigned");
    assert_eq!(values(&consumer, 1).await, ["c"]);
    consumer.seek(&t(0), StartAt::End).expect("assigned");
    assert_eq!(consumer.position(&t(0)).await.expect("known"), 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_fetched_before_a_pause_is_kept_and_nothing_is_fetched_during_it() {
    let logs = Logs::new(1, 2);
    let bytes = fill(&logs, 0, 0, 100);
    fill(&logs, 1, 0, 10);
    let consumer = consumer(&logs, |_| {});
    let both = [("t", 0), ("t", 1)];
    consumer.assign(both, StartAt::Beginning).expect("manual");
    let mut next = [0, 0];
    let mut take = async |consumer: &Consumer| {
        let record = consumer.next().await.expect("a record");
        let at = usize::try_from(record.partition).expect("small");
        assert_eq!(number(record.value.as_deref()), next[at]);
        next[at] += 1;
        record.partition
    };
    take(&consumer).await;
    tokio::time::sleep(IDLE).await;
    consumer.pause(&[t(0)]).expect("assigned");
    assert_eq!(consumer.paused(), [t(0)]);
    let before = logs.fetches().len();
    let waiting = tokio::time::timeout(IDLE, async {
        loop {
            assert_eq!(take(&consumer).await, 1, "partition 0 is paused");
        }
    });
    assert!(waiting.await.is_err(), "partition 1 has no more");
    let during = logs.fetches().split_off(before);
    assert!(!during.is_empty() && during.iter().all(|fetch| !fetch.contains(&0)));
    consumer.resume(&[t(0)]).expect("assigned");
    for _ in 0..100 {
        if logs.sent_bytes(0) == bytes && consumer.lag(&t(0)) == Some(0) {
            break;
        }
        assert_eq!(take(&consumer).await, 0);
    }
    assert_eq!(logs.sent_bytes(0), bytes, "each byte once");
    assert_eq!(consumer.metrics().discarded_bytes, 0);
}

/// The setting of KAFKA-7548: nine of ten partitions are paused before each record.
#[tokio::test(start_paused = true)]
async fn nine_of_ten_partitions_paused_at_each_record_cost_no_second_fetch() {
    const EACH: usize = 60;
    let logs = Logs::new(1, 10);
    let bytes: usize = (0..10).map(|index| fill(&logs, index, 0, EACH)).sum();
    let consumer = consumer(&logs, |config| config.prefetch_bytes = 300_000);
    let all: Vec<_> = (0..10).map(t).collect();
    consumer
        .assign(all.clone(), StartAt::Beginning)
        .expect("manual");
    let mut next = [0; 10];
    let mut state = 1_u32;
    let mut read = 0;
    while read < 10 * EACH {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let open = (0..10).map(|n| (n + state as usize / 65_536) % 10);
        let open = open.clone().find(|at| next[*at] < EACH).expect("more");
        consumer.pause(&all).expect("assigned");
        consumer.resume(&all[open..=open]).expect("assigned");
        let record = consumer.next().await.expect("a record");
        assert_eq!(usize::try_from(record.partition).expect("small"), open);
        assert_eq!(number(record.value.as_deref()), next[open]);
        next[open] += 1;
        read += 1;
    }
    let sent: usize = (0..10).map(|index| logs.sent_bytes(index)).sum();
    assert_eq!(sent, bytes, "each byte once");
    assert!(consumer.metrics().buffered_bytes_max <= 300_000);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_polls_costs_no_traffic_and_delays_no_other() {
    let logs = Logs::new(1, 2);
    let bytes = [fill(&logs, 0, 0, 400), fill(&logs, 1, 0, 400)];
    let consumer = consumer(&logs, |config| {
        config.prefetch_bytes = 200_000;
        config.max_partition_fetch_bytes = 20_000;
    });
    let both = [("t", 0), ("t", 1)];
    consumer.assign(both, StartAt::Beginning).expect("manual");
    let mut slow = consumer.partition_stream(&t(0)).expect("assigned");
    let mut fast = consumer.partition_stream(&t(1)).expect("assigned");
    let again = consumer.partition_stream(&t(1)).map(drop);
    assert!(matches!(again, Err(ConsumerError::HasStream(_))));
    let first = slow.next().await.expect("open").expect("a record");
    assert_eq!(first.offset, 0);
    for expected in 0..400 {
        let record = fast.next().await.expect("open").expect("a record");
        assert_eq!(number(record.value.as_deref()), expected);
    }
    assert!(poll!(fast.next()).is_pending());
    let sent = logs.sent_bytes(0);
    assert!(
        sent <= 120_000,
        "the slow one is fetched up to its part, not {sent}"
    );
    // Beyond the time that prefetching goes on for a reader that does not ask, there is nothing.
    drop(fast);
    tokio::time::sleep(IDLE).await;
    let (sent, fetches) = (logs.sent_bytes(0), logs.fetches().len());
    fill(&logs, 0, 400, 50);
    tokio::time::sleep(IDLE).await;
    assert_eq!((logs.sent_bytes(0), logs.fetches().len()), (sent, fetches));
    for expected in 1..450 {
        let record = slow.next().await.expect("open").expect("a record");
        assert_eq!(number(record.value.as_deref()), expected);
    }
    assert!(logs.sent_bytes(0) < bytes[0] + 60_000 && logs.sent_bytes(1) == bytes[1]);
    assert_eq!(consumer.metrics().discarded_bytes, 0);
    consumer
        .assign([("t", 1)], StartAt::Beginning)
        .expect("manual");
    assert!(slow.next().await.is_none(), "the partition was taken away");
}

#[tokio::test(start_paused = true)]
async fn faults_of_fetches_lose_and_repeat_nothing() {
    let logs = Logs::new(3, 3);
    for index in 0..3 {
        fill(&logs, index, 0, 50);
    }
    logs.script(
        [
            Fault::Cut,
            Fault::Error(ErrorCode::NotLeaderOrFollower),
            Fault::None,
            Fault::Whole(ErrorCode::FetchSessionIdNotFound),
            Fault::Whole(ErrorCode::InvalidFetchSessionEpoch),
            Fault::Damage,
            Fault::Error(ErrorCode::KafkaStorageError),
            Fault::Move,
            Fault::Cut,
            Fault::Error(ErrorCode::UnknownLeaderEpoch),
            Fault::Move,
        ]
        .repeat(3),
    );
    let consumer = consumer(&logs, |config| config.max_partition_fetch_bytes = 5_000);
    let all = [("t", 0), ("t", 1), ("t", 2)];
    consumer.assign(all, StartAt::Beginning).expect("manual");
    let mut next = [0; 3];
    for _ in 0..150 {
        let record = consumer.next().await;
        let record = match record {
            // Two damaged answers in a row are an error; nothing is skipped.
            Err(ConsumerError::Corrupt {
                partition, offset, ..
            }) => {
                consumer
                    .seek(&partition, StartAt::Offset(offset))
                    .expect("assigned");
                consumer.next().await.expect("a record")
            }
            record => record.expect("a record"),
        };
        let at = usize::try_from(record.partition).expect("small");
        assert_eq!(number(record.value.as_deref()), next[at]);
        next[at] += 1;
    }
    assert_eq!(next, [50; 3]);
}

#[tokio::test(start_paused = true)]
async fn damage_that_stays_is_an_error_and_a_seek_goes_on() {
    let logs = Logs::new(1, 1);
    logs.append(0, &["a"], Compression::None);
    // The second is for the fetch behind the batch, which waits meanwhile.
    logs.script([Fault::Damage; 3]);
    let consumer = consumer(&logs, |_| {});
    consumer
        .assign([("t", 0)], StartAt::Beginning)
        .expect("manual");
    let error = consumer.next().await.expect_err("damaged twice");
    let ConsumerError::Corrupt {
        partition, offset, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((partition, offset), (t(0), 0));
    consumer.seek(&t(0), StartAt::Offset(0)).expect("assigned");
    assert_eq!(values(&consumer, 1).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_offset_out_of_range_is_reset_or_an_error() {
    let logs = Logs::new(1, 1);
    logs.append(0, &["a", "b"], Compression::None);
    logs.append(0, &["c"], Compression::None);
    logs.delete_before(0, 2);
    let reset = consumer(&logs, |_| {});
    reset
        .assign([("t", 0)], StartAt::Offset(0))
        .expect("manual");
    assert_eq!(values(&reset, 1).await, ["c"]);
    let strict = consumer(&logs, |config| config.auto_offset_reset = OffsetReset::None);
    strict
        .assign([("t", 0)], StartAt::Offset(0))
        .expect("manual");
    let error = strict.next().await.expect_err("no such offset");
    assert!(
        matches!(
            error,
            ConsumerError::NoOffset {
                offset: Some(0),
                ..
            }
        ),
        "{error}"
    );
    strict.seek(&t(0), StartAt::Beginning).expect("assigned");
    assert_eq!(values(&strict, 1).await, ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_truncated_log_is_found_out() {
    for policy in [OffsetReset::Latest, OffsetReset::None] {
        let logs = Logs::new(2, 1);
        logs.append(0, &["a"], Compression::None);
        logs.append(0, &["b"], Compression::None);
        let consumer = consumer(&logs, |config| config.auto_offset_reset = policy);
        consumer
            .assign([("t", 0)], StartAt::Offset(0))
            .expect("manual");
        assert_eq!(values(&consumer, 2).await, ["a", "b"]);
        // The new leader has never seen b.
        logs.elect(0, 2, 1);
        logs.append(0, &["c"], Compression::None);
        logs.append(0, &["d"], Compression::None);
        let next = consumer.next().await;
        if policy == OffsetReset::Latest {
            assert_eq!(text(next.expect("a record").value.as_deref()), "c");
            assert_eq!(values(&consumer, 1).await, ["d"]);
        } else {
            let error = next.expect_err("b has gone");
            assert!(
                matches!(
                    error,
                    ConsumerError::Truncated {
                        offset: 2,
                        diverges_at: Some(1),
                        ..
                    }
                ),
                "{error}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn aborted_transactions_are_delivered_only_to_readers_of_uncommitted_records() {
    let logs = Logs::new(1, 1);
    let transaction = || {
        BatchBuilder::new(Compression::None)
            .producer(9, 0, 0)
            .transactional()
    };
    logs.append_with(0, &["aborted"], transaction());
    logs.append(0, &["plain"], Compression::None);
    logs.abort(0, 0, 9);
    for isolation in [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
    ] {
        let consumer = consumer(&logs, |config| config.isolation_level = isolation);
        consumer
            .assign([("t", 0)], StartAt::Beginning)
            .expect("manual");
        let expected: &[_] = match isolation {
            IsolationLevel::ReadCommitted => &["plain"],
            _ => &["aborted", "plain"],
        };
        assert_eq!(values(&consumer, expected.len()).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_takes_no_record_and_ends_the_demand() {
    let logs = Logs::new(1, 1);
    let consumer = consumer(&logs, |_| {});
    consumer
        .assign([("t", 0)], StartAt::Beginning)
        .expect("manual");
    let waited = tokio::time::timeout(Duration::from_secs(1), consumer.next()).await;
    assert!(waited.is_err(), "there is nothing");
    tokio::time::sleep(IDLE).await;
    let fetches = logs.fetches().len();
    logs.append(0, &["a", "b"], Compression::None);
    tokio::time::sleep(IDLE).await;
    assert_eq!(logs.fetches().len(), fetches, "nobody asks");
    assert_eq!(values(&consumer, 2).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_with_nothing_left_does_not_wait_for_another_partitions_long_poll() {
    let logs = Logs::new(1, 2);
    fill(&logs, 0, 0, 1);
    let consumer = consumer(&logs, |_| {});
    let both = [("t", 0), ("t", 1)];
    consumer.assign(both, StartAt::Beginning).expect("manual");
    consumer.pause(&[t(0)]).expect("assigned");
    let mut waits = consumer.partition_stream(&t(1)).expect("assigned");
    tokio::spawn(async move { waits.next().await });
    // In the middle of a long poll, which takes half a second.
    tokio::time::sleep(Duration::from_millis(700)).await;
    consumer.resume(&[t(0)]).expect("assigned");
    let soon = tokio::time::timeout(Duration::from_millis(100), consumer.next());
    soon.await.expect("soon").expect("a record");
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_delivered_as_a_whole_or_what_is_left_of_it() {
    let logs = Logs::new(1, 1);
    logs.append(0, &["a", "b", "c"], Compression::Zstd);
    let consumer = consumer(&logs, |_| {});
    consumer
        .assign([("t", 0)], StartAt::Offset(1))
        .expect("manual");
    let batch = consumer.next_batch().await.expect("a batch");
    assert_eq!(
        (batch.topic_partition().clone(), batch.next_offset()),
        (t(0), 3)
    );
    let offsets: Vec<_> = batch
        .map(|record| record.expect("a record").offset)
        .collect();
    assert_eq!(offsets, [1, 2]);
    assert_eq!(consumer.metrics().buffered_bytes, 0);
    consumer.close().await.expect("no group");
    let closed = consumer.next().await.expect_err("closed");
    assert!(matches!(closed, ConsumerError::Closed), "{closed}");
}

#[tokio::test(start_paused = true)]
async fn large_batches_pass_their_gate_one_after_the_other_and_others_are_not_held_up() {
    const LARGE: usize = 40 << 20;
    let logs = Logs::new(1, 2);
    let value = "x".repeat(LARGE / 8);
    logs.append(0, &[&*value; 8], Compression::Zstd);
    logs.append(1, &["small"], Compression::Zstd);
    let gate = DecompressionGate::new(1 << 20);
    let open = |partition| {
        let consumer = consumer(&logs, |config| {
            config.decompression_gate = Some(gate.clone());
        });
        let only = [("t", partition)];
        consumer.assign(only, StartAt::Beginning).expect("manual");
        consumer
    };
    let (first, second, third, small) = (open(0), open(0), open(0), open(1));
    let held = first.next_batch().await.expect("its turn");
    assert!(held.memory_bytes() > LARGE);
    // A call that is dropped gives its batch back.
    let waited = tokio::time::timeout(IDLE, second.next_batch()).await;
    assert!(waited.is_err() && !second.is_waiting_for_gate());
    assert_eq!(values(&small, 1).await, ["small"]);
    // One that is closed waits no longer.
    let (waited, closed) = tokio::join!(third.next_batch(), async {
        tokio::time::sleep(IDLE).await;
        assert!(third.is_waiting_for_gate());
        third.close().await
    });
    assert!(matches!(waited, Err(ConsumerError::Closed)) && closed.is_ok());
    // The stream of a partition that is given up ends.
    let fourth = open(0);
    let mut stream = fourth
        .partition_stream(&TopicPartition::new("t", 0))
        .expect("assigned");
    let (ended, ()) = tokio::join!(stream.next_batch(), async {
        tokio::time::sleep(IDLE).await;
        assert!(fourth.is_waiting_for_gate());
        let other = [("t", 1)];
        fourth.assign(other, StartAt::Beginning).expect("manual");
    });
    assert!(ended.is_none() && !fourth.is_waiting_for_gate());
    // A single record keeps the memory of its batch.
    let mut records = held;
    let record = records.next().expect("a record").expect("whole");
    drop(records);
    let waited = tokio::time::timeout(IDLE, second.next()).await;
    assert!(waited.is_err());
    drop(record);
    for offset in 0..8 {
        let record = second.next().await.expect("its turn");
        assert_eq!(record.offset, offset);
        assert_eq!(record.value.map(|value| value.len()), Some(LARGE / 8));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_buffer_is_full_lets_other_tasks_run() {
    let logs = Logs::new(1, 1);
    fill(&logs, 0, 0, 500);
    let consumer = consumer(&logs, |_| {});
    let only = [("t", 0)];
    consumer.assign(only, StartAt::Beginning).expect("manual");
    values(&consumer, 1).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let fetches = logs.fetches().len();
    values(&consumer, 400).await;
    assert_eq!(logs.fetches().len(), fetches, "all was there");
    assert!(turns.load(Ordering::Relaxed) >= 2);
    other.abort();
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_fetch_sessions() {
    for idle in [Duration::ZERO, Duration::from_secs(5)] {
        let logs = Logs::new(2, 2);
        fill(&logs, 0, 0, 1);
        fill(&logs, 1, 0, 1);
        let consumer = consumer(&logs, |_| {});
        let both = [("t", 0), ("t", 1)];
        consumer.assign(both, StartAt::Beginning).expect("manual");
        values(&consumer, 2).await;
        tokio::time::sleep(idle).await;
        assert_eq!(logs.sessions(), 2);
        consumer.close().await.expect("closed");
        assert_eq!(logs.sessions(), 0, "{idle:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_of_assigned_partitions_that_is_dropped_commits_what_it_has_read() {
    let logs = Logs::new(1, 1);
    logs.append(0, &["a", "b", "c"], Compression::None);
    let consumer = consumer(&logs, |config| {
        config.group_id = Some("g".to_owned());
        config.auto_commit = AutoCommit::WhenAsked;
        // Nothing else commits.
        config.auto_commit_interval = Duration::from_hours(1);
    });
    let only = [("t", 0)];
    consumer.assign(only, StartAt::Beginning).expect("manual");
    values(&consumer, 3).await;
    assert!(tokio::time::timeout(IDLE, consumer.next()).await.is_err());
    drop(consumer);
    tokio::time::sleep(IDLE).await;
    assert_eq!(logs.group().committed()[0], 3);
}
