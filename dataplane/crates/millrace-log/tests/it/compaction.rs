//! Log compaction of whole partitions: what consumers read afterwards, and what a restart finds.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use crate::{
    broker::{Broker, append, create, open, open_with, partition},
    world::{World, small},
};
use millrace_log::{
    AbortedBounds, AppendOrigin, CompactionFailure, Isolation, LogDefaults, PartitionLog,
    TransactionMarker,
};
use millrace_meta::{MetaStore, ObjectRange};
use millrace_model::{FailureClass, Offset};
use millrace_objects::{ObjectKey, bucket::Bucket as _};
use millrace_record::{Batch, BatchBuilder, Compression, header_of, records, split};
use millrace_testkit::Crash;

const MIB: u64 = 1024 * 1024;

/// Everything is closed and dirty at once, and tombstones go with the second cleaning.
const EAGER: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.ms", "1"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "0"),
];

async fn world() -> World {
    World::in_memory(1, small(), 16 * MIB, Duration::from_millis(100)).await
}

fn batch(producer: Option<(i64, i16, i32)>, records: &[(u32, Option<u32>)]) -> Batch {
    built(producer, false, records)
}

fn built(
    producer: Option<(i64, i16, i32)>,
    transactional: bool,
    records: &[(u32, Option<u32>)],
) -> Batch {
    let mut builder = BatchBuilder::new(Compression::Lz4);
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    if transactional {
        builder = builder.transactional();
    }
    for (key, value) in records {
        let value = value.map(|value| format!("{value:0200}"));
        let value = value.as_ref().map(String::as_bytes);
        builder.push(1_000, Some(&key.to_be_bytes()), value, &[]);
    }
    split(builder.build()).expect("sound").remove(0)
}

/// Reads from `from` to the end; keys and values by offset.
async fn read_from(log: &PartitionLog, from: Offset) -> BTreeMap<Offset, (u32, Option<u32>)> {
    let (mut at, mut all) = (from, BTreeMap::new());
    while at < log.high_watermark() {
        let read = log.read(at, 20_000, true).await.expect("readable");
        assert!(!read.batches.is_empty(), "something follows {at}");
        for batch in read.batches {
            let header = header_of(&batch).expect("a batch");
            let end = u64::try_from(header.next_offset()).expect("not negative");
            assert!(end > at, "it goes on");
            at = end;
            if header.is_control() {
                continue;
            }
            for record in records(&batch).expect("sound") {
                let record = record.expect("sound");
                let key = record.key.expect("keyed");
                let key = u32::from_be_bytes(key[..].try_into().expect("four bytes"));
                let value = record.value.map(|value| {
                    let text = std::str::from_utf8(&value).expect("digits");
                    text.parse().expect("a number")
                });
                all.insert(record.offset as u64, (key, value));
            }
        }
    }
    all
}

fn latest(all: &BTreeMap<Offset, (u32, Option<u32>)>) -> BTreeMap<u32, u32> {
    let mut latest = BTreeMap::new();
    for (key, value) in all.values() {
        match value {
            Some(value) => latest.insert(*key, *value),
            None => latest.remove(key),
        };
    }
    latest
}

/// As the coordinator of transactions has it appended.
async fn append_verified(log: &PartitionLog, batch: Batch) {
    let ticket = log.append(vec![batch], AppendOrigin::Coordinator).await;
    ticket.expect("accepted").await.expect("durable");
}

/// The objects that hold the records of a topic's only partition.
async fn objects(world: &World, topic: &str) -> Vec<ObjectRange> {
    let topics = world.meta.topics().await.expect("found");
    let topic = topics.iter().find(|known| known.name.as_str() == topic);
    let stream = topic.expect("there").partitions[0].data;
    world
        .meta
        .objects_of(stream, 0, 1_000)
        .await
        .expect("found")
}

async fn compact(broker: &Broker) {
    broker.store.flush().await.expect("uploads");
    broker.logs.compact_logs().await;
}

/// Two thousand records of twenty keys, beside another topic in the same objects.
async fn filled(broker: &Broker) -> (Arc<PartitionLog>, Arc<PartitionLog>) {
    let log = create(broker, "compacted", EAGER).await;
    let other = create(broker, "other", &[]).await;
    for round in 0..10 {
        for n in 0..20 {
            let records: Vec<_> = (0..10)
                .map(|i| ((n + i) % 20, Some(round * 1_000 + n)))
                .collect();
            append(&log, batch(None, &records)).await.expect("appends");
        }
        append(&other, batch(None, &[(1, Some(round))]))
            .await
            .expect("appends");
        broker.store.flush().await.expect("uploads");
    }
    (log, other)
}

#[tokio::test]
async fn one_record_of_each_key_is_left_and_all_offsets_read_on() {
    let world = world().await;
    let broker = open(&world).await;
    let (log, other) = filled(&broker).await;
    let (before, others) = (read_from(&log, 0).await, read_from(&other, 0).await);
    let (end, bytes) = (log.high_watermark(), log.size_bytes());
    compact(&broker).await;
    let after = read_from(&log, 0).await;
    assert_eq!(after.len(), 20);
    assert_eq!(latest(&after), latest(&before));
    for (offset, record) in &after {
        assert_eq!(before.get(offset), Some(record));
    }
    assert_eq!((log.start_offset(), log.high_watermark()), (0, end));
    assert!(
        log.size_bytes() < bytes / 10,
        "{} of {bytes}",
        log.size_bytes()
    );
    assert!(log.bytes_between(0, end) == log.size_bytes());
    for from in (0..end).step_by(37) {
        let expected: BTreeMap<_, _> = after
            .range(from..)
            .map(|(&at, &record)| (at, record))
            .collect();
        let found = read_from(&log, from).await;
        let found: BTreeMap<_, _> = found
            .range(from..)
            .map(|(&at, &record)| (at, record))
            .collect();
        assert_eq!(found, expected, "from {from}");
    }
    let first = *after.keys().next().expect("some");
    let by_time = log.offset_for_timestamp(1_000).await.expect("found");
    assert_eq!(by_time.map(|found| found.offset), Some(first));
    let newest = log.max_timestamp().await.expect("found").expect("some");
    assert!(after.contains_key(&newest.offset));
    assert_eq!(read_from(&other, 0).await, others);
}

#[tokio::test]
async fn a_restart_knows_how_far_the_log_is_clean() {
    let world = world().await;
    let broker = open(&world).await;
    let (log, _) = filled(&broker).await;
    compact(&broker).await;
    let after = read_from(&log, 0).await;
    drop((log, broker));
    world.disk.crash(Crash::Killed);
    let broker = open(&world).await;
    let log = partition(&broker, "compacted");
    assert_eq!(read_from(&log, 0).await, after);
    let before = objects(&world, "compacted").await;
    broker.logs.compact_logs().await;
    let now = objects(&world, "compacted").await;
    assert_eq!(now, before, "nothing is dirty");
    append(&log, batch(None, &[(3, Some(77)), (4, None)]))
        .await
        .expect("appends");
    compact(&broker).await;
    let mut expected = latest(&after);
    expected.insert(3, 77);
    expected.remove(&4);
    assert_eq!(latest(&read_from(&log, 0).await), expected);
    broker.close().await;
}

#[tokio::test]
async fn sequences_go_on_although_their_records_are_gone() {
    let world = world().await;
    let broker = open(&world).await;
    let log = create(&broker, "t", EAGER).await;
    for n in 0..5 {
        let batch = batch(Some((7, 0, n * 2)), &[(1, Some(1)), (2, Some(2))]);
        append(&log, batch).await.expect("appends");
    }
    append(&log, batch(None, &[(1, Some(3)), (2, Some(4))]))
        .await
        .expect("appends");
    compact(&broker).await;
    assert_eq!(read_from(&log, 0).await.len(), 2);
    drop((log, broker));
    world.disk.crash(Crash::Killed);
    let broker = open(&world).await;
    let log = partition(&broker, "t");
    let duplicate = batch(Some((7, 0, 8)), &[(1, Some(1)), (2, Some(2))]);
    let appended = append(&log, duplicate).await.expect("known again");
    assert_eq!(appended.base_offset, 8);
    append(&log, batch(Some((7, 0, 10)), &[(1, Some(9))]))
        .await
        .expect("the next one");
}

#[tokio::test]
async fn open_transactions_bound_the_cleaning_and_aborted_data_goes() {
    let world = world().await;
    let broker = open(&world).await;
    let log = create(&broker, "t", EAGER).await;
    let marker = |producer_id, committed| TransactionMarker {
        producer_id,
        producer_epoch: 0,
        coordinator_epoch: 0,
        committed,
        transaction_version: 1,
    };
    let transactional = |id, sequence, records: &[(u32, Option<u32>)]| {
        built(Some((id, 0, sequence)), true, records)
    };
    append(&log, batch(None, &[(1, Some(1)), (2, Some(1))]))
        .await
        .expect("appends");
    append_verified(&log, transactional(5, 0, &[(1, Some(2))])).await;
    append(&log, batch(None, &[(2, Some(2))]))
        .await
        .expect("appends");
    compact(&broker).await;
    let stays = read_from(&log, 0).await;
    assert_eq!(stays.len(), 4, "a transaction is open");
    log.append_marker(marker(5, false))
        .await
        .expect("written")
        .await
        .expect("durable");
    append_verified(&log, transactional(6, 0, &[(3, Some(3))])).await;
    log.append_marker(marker(6, true))
        .await
        .expect("written")
        .await
        .expect("durable");
    compact(&broker).await;
    let after = read_from(&log, 0).await;
    let records: Vec<_> = after.values().copied().collect();
    assert_eq!(records, [(1, Some(1)), (2, Some(2)), (3, Some(3))]);
    assert_eq!(log.last_stable_offset(), log.high_watermark());
    drop((log, broker));
    world.disk.crash(Crash::Killed);
    let broker = open(&world).await;
    let log = partition(&broker, "t");
    assert_eq!(read_from(&log, 0).await, after);
    assert_eq!(log.last_stable_offset(), log.high_watermark());
}

/// Sends the values of one key in transactions, of which every third is committed.
async fn alternate(log: &PartitionLog, rounds: std::ops::Range<i32>) {
    for n in rounds {
        let id = i64::from(n % 2);
        let records = [(n.cast_unsigned() % 5, Some(n.cast_unsigned()))];
        append_verified(log, built(Some((id, 0, n / 2)), true, &records)).await;
        let marker = TransactionMarker {
            producer_id: id,
            producer_epoch: 0,
            coordinator_epoch: 0,
            committed: n % 3 == 0,
            transaction_version: 1,
        };
        let ticket = log.append_marker(marker).await.expect("accepted");
        ticket.await.expect("durable");
    }
}

/// What a consumer of committed records has at the end.
async fn committed(log: &PartitionLog) -> BTreeMap<u32, u32> {
    let (mut at, mut all) = (0, BTreeMap::new());
    while at < log.last_stable_offset() {
        let read = log.read_isolated(Isolation::ReadCommitted, at, 300, true);
        let read = read.await.expect("readable");
        let told = read.aborted_transactions.expect("asked for");
        let mut dropping: Vec<_> = told
            .iter()
            .map(|one| (one.first_offset, one.producer_id))
            .collect();
        dropping.sort_unstable();
        let mut aborting = std::collections::HashSet::new();
        let mut dropping = dropping.into_iter().peekable();
        for batch in read.batches {
            let header = header_of(&batch).expect("a batch");
            at = u64::try_from(header.next_offset()).expect("not negative");
            while let Some((_, id)) = dropping.next_if(|&(first, _)| first < at) {
                aborting.insert(id);
            }
            if header.is_control() {
                aborting.remove(&header.producer_id);
            } else if !aborting.contains(&header.producer_id) {
                for record in records(&batch).expect("sound") {
                    let record = record.expect("sound");
                    let key = record.key.expect("keyed");
                    let key = u32::from_be_bytes(key[..].try_into().expect("four bytes"));
                    let value = record.value.expect("a value");
                    let text = std::str::from_utf8(&value).expect("digits");
                    all.insert(key, text.parse().expect("a number"));
                }
            }
        }
    }
    all
}

/// Aborted transactions of which nothing is left are forgotten, in memory and in blocks, and their markers go.
#[tokio::test]
async fn compaction_forgets_aborted_transactions_in_blocks() {
    const FEW: AbortedBounds = AbortedBounds {
        in_memory: 3,
        per_block: 2,
        merged: 8,
        slack_bytes: 1_000,
    };
    let defaults = || LogDefaults {
        aborted_transactions: FEW,
        ..LogDefaults::default()
    };
    let world = world().await;
    let broker = open_with(&world, defaults()).await;
    let log = create(&broker, "t", EAGER).await;
    alternate(&log, 0..40).await;
    let mut expected = committed(&log).await;
    let told = async |log: &PartitionLog| {
        let told = log.aborted_transactions(0, log.last_stable_offset()).await;
        told.expect("readable").len()
    };
    assert_eq!((told(&log).await, expected.len()), (26, 5));
    for round in 0..6 {
        compact(&broker).await;
        assert_eq!(committed(&log).await, expected, "round {round}");
        // Makes the log dirty again.
        append(&log, batch(None, &[(50, Some(round))]))
            .await
            .expect("appends");
        expected.insert(50, round);
    }
    // The last data of each producer stays, as an empty batch.
    let left = told(&log).await;
    assert!(left <= 2, "{left} are left");
    drop((log, broker));
    world.disk.crash(Crash::Killed);
    let broker = open_with(&world, defaults()).await;
    let log = partition(&broker, "t");
    assert_eq!(committed(&log).await, expected);
    assert!(told(&log).await <= left);
    broker.close().await;
}

#[tokio::test]
async fn a_topic_that_deletes_is_not_compacted() {
    let world = world().await;
    let broker = open(&world).await;
    let configs = [("segment.ms", "1"), ("min.cleanable.dirty.ratio", "0.01")];
    let log = create(&broker, "t", &configs).await;
    for n in 0..10 {
        append(&log, batch(None, &[(1, Some(n))]))
            .await
            .expect("appends");
    }
    compact(&broker).await;
    assert_eq!(read_from(&log, 0).await.len(), 10);
}

#[tokio::test]
async fn a_partition_that_cannot_be_compacted_holds_up_no_other() {
    let world = world().await;
    let broker = open(&world).await;
    let (lost, sound) = (
        create(&broker, "lost", EAGER).await,
        create(&broker, "sound", EAGER).await,
    );
    let records: Vec<_> = (0..20).map(|key| (key, Some(key))).collect();
    for log in [&lost, &sound] {
        append(log, batch(None, &records)).await.expect("appends");
    }
    compact(&broker).await;
    let object = objects(&world, "lost").await[0].object;
    let key = ObjectKey::of("c", object);
    world.bucket.delete(&[key]).await.expect("deletes");
    // The dirtiest log comes first.
    for _ in 0..20 {
        append(&lost, batch(None, &records)).await.expect("appends");
    }
    append(&sound, batch(None, &records))
        .await
        .expect("appends");
    compact(&broker).await;
    assert_eq!(read_from(&sound, 0).await.len(), 20);
    let failures = broker.logs.compaction().failures;
    let failed = |one: &CompactionFailure| (one.partition.clone(), one.class);
    let failed: Vec<_> = failures.iter().map(failed).collect();
    assert_eq!(failed, [(lost.id().clone(), FailureClass::Corrupt)]);
    assert!(
        objects(&world, "lost")
            .await
            .iter()
            .any(|one| one.object == object)
    );
}

/// Polls the compaction of all logs so often; whether it ended.
async fn compact_for(polls: u32, broker: &Broker) -> bool {
    let mut left = polls;
    let mut compacting = pin!(broker.logs.compact_logs());
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        compacting.as_mut().poll(context).map(|()| true)
    })
    .await
}

#[tokio::test]
async fn a_crash_at_any_step_loses_no_last_record() {
    let world = world().await;
    let mut broker = open(&world).await;
    let mut log = create(&broker, "t", EAGER).await;
    let mut expected = BTreeMap::new();
    let mut value = 0;
    for (round, polls) in (1..).step_by(9).enumerate() {
        // Tombstones delete what is in the objects before theirs.
        if round < 6 {
            let mut records = Vec::new();
            for n in 0..12 {
                value += 1;
                let (key, is_tombstone) = ((value * 7) % 11, n % 5 == 4);
                records.push((key, (!is_tombstone).then_some(value)));
                match is_tombstone {
                    true => expected.remove(&key),
                    false => expected.insert(key, value),
                };
            }
            append(&log, batch(None, &records)).await.expect("appends");
        }
        broker.store.flush().await.expect("uploads");
        let ended = compact_for(polls, &broker).await;
        drop((log, broker));
        world.disk.crash(Crash::Killed);
        broker = open(&world).await;
        log = partition(&broker, "t");
        let found = read_from(&log, 0).await;
        assert_eq!(latest(&found), expected, "after {polls} polls");
        if ended {
            assert!(
                found.len() <= 11 + 11,
                "one record of each key, and tombstones"
            );
            return;
        }
    }
}
