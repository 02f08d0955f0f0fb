//! Partitions as the API layer uses them, over real streams, with restarts and crashes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    broker::{Broker, MIB, append, batch, create, name, open, partition, read_all},
    world::{World, small},
};
use bytes::Bytes;
use futures_util::future::join_all;
use millrace_log::{
    AppendOrigin, Appended, Isolation, TimestampOffset,
    error::{AppendError, ReadError, TrimError},
};
use millrace_meta::MetaStore;
use millrace_model::{Classified, FailureClass, StreamId};
use millrace_objects::ObjectKey;
use millrace_record::{Batch, BatchBuilder, Compression, TimestampType, header_of, records, split};
use millrace_testkit::{BucketFaults, Crash, SimDisk};

#[tokio::test]
async fn batches_get_offsets_and_come_back_whole() {
    let world = World::new(1, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    for n in 0..100_u64 {
        let appended = append(&log, batch(None, &[5, 6, 7]))
            .await
            .expect("appended");
        let expected = Appended {
            base_offset: n * 3,
            last_offset: n * 3 + 2,
            log_append_time: None,
            log_start_offset: 0,
        };
        assert_eq!(appended, expected);
        assert_eq!(log.high_watermark(), n * 3 + 3);
    }
    broker.store.flush().await.expect("uploads");
    for offset in [0, 1, 2, 150, 299] {
        let read = log.read(offset, 1, true).await.expect("readable");
        let [batch] = &read.batches[..] else {
            panic!("one batch for offset {offset}")
        };
        let header = header_of(batch).expect("a batch");
        assert_eq!(header.base_offset, offset as i64 / 3 * 3);
        assert_eq!(header.leader_epoch, log.leader_epoch());
        let offsets: Vec<i64> = records(batch)
            .expect("sound")
            .map(|r| r.expect("r").offset)
            .collect();
        let base = header.base_offset;
        assert_eq!(offsets, [base, base + 1, base + 2]);
        assert_eq!(
            log.read(offset, 1, false).await.expect("readable").batches,
            Vec::<Bytes>::new()
        );
    }
    assert_eq!(
        log.read(300, 1, true).await.expect("the end").batches,
        Vec::<Bytes>::new()
    );
    let out = ReadError::OutOfRange {
        offset: 301,
        log_start: 0,
        log_end: 300,
    };
    assert_eq!(log.read(301, 1, true).await, Err(out.clone()));
    assert_eq!(
        log.try_read_cached(Isolation::ReadUncommitted, 301, 1, true),
        Err(out)
    );
    assert_eq!(
        log.try_read_cached(Isolation::ReadUncommitted, 300, 1, true)
            .expect("in range")
            .expect("cached")
            .batches
            .len(),
        0
    );
    assert_eq!(read_all(&log).await.len(), 100);
}

#[tokio::test]
async fn a_duplicate_is_answered_only_once_the_first_is_durable() {
    let world = World::new(2, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    append(&log, batch(Some((7, 0, 0)), &[1]))
        .await
        .expect("appended");
    let duplicate = append(&log, batch(Some((7, 0, 0)), &[1]))
        .await
        .expect("a duplicate");
    assert_eq!((duplicate.base_offset, log.end_offset()), (0, 1));

    world.disk.crash(Crash::Killed);
    let first = log
        .append(vec![batch(Some((7, 0, 1)), &[1, 2])], AppendOrigin::Client)
        .await;
    let second = log
        .append(vec![batch(Some((7, 0, 1)), &[1, 2])], AppendOrigin::Client)
        .await;
    assert_eq!(log.end_offset(), 3, "it was written once");
    let both = join_all([first.expect("accepted"), second.expect("accepted")]);
    tokio::time::timeout(Duration::from_millis(50), both)
        .await
        .expect_err("neither is durable");
    assert_eq!(log.high_watermark(), 1);
}

#[tokio::test]
async fn producers_are_remembered_across_crashes_and_restarts() {
    let world = World::new(3, small(), 16 * MIB).await;
    let broker = open(&world).await;
    create(&broker, "t", &[]).await;
    broker.close().await;
    let mut next_sequence = 0;
    for life in 0..8 {
        let broker = open(&world).await;
        // Sometimes everything is only in the log, sometimes it is in objects.
        world.bucket.set(BucketFaults {
            down: life % 3 == 1,
            ..BucketFaults::default()
        });
        let log = partition(&broker, "t");
        if next_sequence > 0 {
            let last = batch(Some((7, 0, next_sequence - 1)), &[1]);
            let duplicate = append(&log, last).await.expect("known");
            assert_eq!(
                duplicate.base_offset,
                next_sequence as u64 - 1,
                "life {life}"
            );
            let gap = append(&log, batch(Some((7, 0, next_sequence + 1)), &[1])).await;
            assert!(
                matches!(gap, Err(AppendError::OutOfOrderSequence { .. })),
                "{gap:?}"
            );
        }
        for _ in 0..10 {
            append(&log, batch(Some((7, 0, next_sequence)), &[1]))
                .await
                .expect("appended");
            next_sequence += 1;
        }
        if life % 2 == 0 {
            world.bucket.set(BucketFaults::default());
            drop(log);
            broker.close().await;
        } else {
            world.disk.crash(Crash::PowerLoss);
            world.bucket.set(BucketFaults::default());
        }
    }
    let broker = open(&world).await;
    assert_eq!(
        read_all(&partition(&broker, "t")).await.len() as i32,
        next_sequence
    );
}

/// A bucket that was down at startup kept all partitions from opening, and clients from being served, for
/// as long as one of them had to read an object.
#[tokio::test]
async fn a_partition_that_waits_for_the_bucket_is_offline_until_it_answers_and_all_others_are_served()
 {
    let world = World::new(12, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    create(&broker, "empty", &[]).await;
    append(&log, batch(Some((7, 0, 0)), &[1]))
        .await
        .expect("appended");
    drop(log);
    broker.close().await;
    world.bucket.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    let broker = open_soon(&world).await;
    let offline = broker.logs.offline_partitions();
    let [(id, cause)] = &offline[..] else {
        panic!("one partition is offline: {offline:?}")
    };
    assert_eq!(
        (id.topic.as_str(), cause.class()),
        ("t", FailureClass::Transient)
    );
    let log = partition(&broker, "t");
    let refused = append(&log, batch(Some((7, 0, 0)), &[1])).await;
    assert_eq!(refused, Err(AppendError::Offline(cause.clone())));
    let served = append(&partition(&broker, "empty"), batch(None, &[1])).await;
    assert_eq!(served.expect("served").base_offset, 0);
    world.bucket.set(BucketFaults::default());
    let reopened = async {
        while log.offline().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reopened = tokio::time::timeout(Duration::from_secs(30), reopened).await;
    reopened.expect("it opens once the bucket answers");
    let duplicate = append(&log, batch(Some((7, 0, 0)), &[1])).await;
    assert_eq!(duplicate.expect("known").base_offset, 0);
    broker.close().await;
}

/// Flips a bit in the first object that holds `stream`; the same again restores it.
async fn flip_first(world: &World, stream: StreamId) {
    let ranges = world.meta.objects_of(stream, 0, 9).await.expect("found");
    let key = ObjectKey::of("c", ranges[0].object);
    world.bucket.flip_block(&key, stream).await;
}

/// Opens within a time: what is corrupt is not waited for, and a bucket that is down for 15 s.
async fn open_soon(world: &World) -> Broker {
    let opening = tokio::time::timeout(Duration::from_secs(30), open(world));
    opening.await.expect("opens")
}

#[tokio::test]
async fn a_partition_whose_checkpoint_is_corrupt_is_offline_and_all_others_are_served() {
    let world = World::new(14, small(), 16 * MIB).await;
    let broker = open(&world).await;
    for topic in ["a", "b"] {
        let log = create(&broker, topic, &[]).await;
        let appended = append(&log, batch(Some((7, 0, 0)), &[1])).await;
        appended.expect("appended");
    }
    broker.close().await;
    let topics = world.meta.topics().await.expect("listed");
    let streams = topics[0].partitions[0];
    flip_first(&world, streams.meta).await;
    let broker = open_soon(&world).await;
    let offline = broker.logs.offline_partitions();
    let [(id, cause)] = &offline[..] else {
        panic!("one partition is offline: {offline:?}")
    };
    assert_eq!(
        (id.topic.as_str(), cause.class()),
        ("a", FailureClass::Corrupt)
    );
    assert!(cause.to_string().contains("checkpoint"), "{cause}");
    let log = partition(&broker, "a");
    let refused = append(&log, batch(None, &[1])).await;
    assert_eq!(refused, Err(AppendError::Offline(cause.clone())));
    let refused = log.read(0, 1, true).await;
    assert_eq!(refused.err(), Some(ReadError::Offline(cause.clone())));
    assert_eq!(log.trim(1).await, Err(TrimError::Offline(cause.clone())));
    let served = append(&partition(&broker, "b"), batch(Some((7, 0, 0)), &[1])).await;
    assert_eq!(served.expect("a duplicate").base_offset, 0);
    broker.logs.checkpoint().await;
    drop(log);
    broker.close().await;

    // Nothing was written over the checkpoint, so the restored object is all that it takes.
    flip_first(&world, streams.meta).await;
    let broker = open_soon(&world).await;
    assert!(broker.logs.offline_partitions().is_empty());
    let duplicate = append(&partition(&broker, "a"), batch(Some((7, 0, 0)), &[1])).await;
    assert_eq!(duplicate.expect("known").base_offset, 0);
}

#[tokio::test]
async fn a_partition_whose_unreplayed_data_is_corrupt_is_offline() {
    let world = World::new(15, small(), 16 * MIB).await;
    let broker = open(&world).await;
    for topic in ["a", "b"] {
        let log = create(&broker, topic, &[]).await;
        append(&log, batch(None, &[1])).await.expect("appended");
    }
    broker.store.flush().await.expect("uploads");
    // No checkpoint: the next start reads the data.
    world.disk.crash(Crash::Killed);
    drop(broker);
    let topics = world.meta.topics().await.expect("listed");
    flip_first(&world, topics[1].partitions[0].data).await;
    let broker = open_soon(&world).await;
    let offline = broker.logs.offline_partitions();
    let offline: Vec<_> = offline.iter().map(|(id, _)| id.topic.as_str()).collect();
    assert_eq!(offline, ["b"]);
    assert_eq!(read_all(&partition(&broker, "a")).await.len(), 1);
}

/// Two topics, two batches each, none uploaded, when a byte of the second batch of the first topic rots in
/// the log. What the checkpoints cover is not read at the start, so the upload finds it.
async fn with_rotten_record(seed: u64) -> World {
    let world = World::new(seed, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let logs = [
        create(&broker, "a", &[]).await,
        create(&broker, "b", &[]).await,
    ];
    world.bucket.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    for sequence in 0..2 {
        for log in &logs {
            let appended = append(log, batch(Some((7, 0, sequence)), &[1])).await;
            appended.expect("appended");
        }
    }
    broker.logs.checkpoint().await;
    world.disk.crash(Crash::PowerLoss);
    flip_third_record(&world);
    world
}

/// Every batch is in a block of its own, behind the log's header. The second time restores it.
fn flip_third_record(world: &World) {
    world.disk.flip(128 * 1024 + 2 * 4_096 + 130, 1);
}

/// Opens a broker whose upload meets the rotten record; the first topic is offline, and the second is not.
async fn open_rotten(world: &World) -> Broker {
    let broker = open(world).await;
    assert!(broker.logs.offline_partitions().is_empty());
    world.bucket.set(BucketFaults::default());
    broker.store.flush().await.expect("all others are uploaded");
    let offline = broker.logs.offline_partitions();
    let [(id, cause)] = &offline[..] else {
        panic!("one partition is offline: {offline:?}")
    };
    assert_eq!(
        (id.topic.as_str(), cause.class()),
        ("a", FailureClass::Corrupt)
    );
    let a = partition(&broker, "a");
    let refused = append(&a, batch(Some((7, 0, 2)), &[1])).await;
    assert_eq!(refused, Err(AppendError::Offline(cause.clone())));
    let refused = a.read(0, 1, true).await;
    assert_eq!(refused.err(), Some(ReadError::Offline(cause.clone())));
    assert_eq!(a.trim(1).await, Err(TrimError::Offline(cause.clone())));
    let b = append(&partition(&broker, "b"), batch(Some((7, 0, 2)), &[1])).await;
    assert_eq!(b.expect("served").base_offset, 2);
    broker
}

/// A damaged record ended the broker, at every start.
#[tokio::test]
async fn a_partition_whose_record_rots_in_the_log_is_offline_and_all_others_are_served() {
    let world = with_rotten_record(16).await;
    let broker = open_rotten(&world).await;
    broker.close().await;

    flip_third_record(&world);
    let broker = open(&world).await;
    assert!(broker.logs.offline_partitions().is_empty());
    let appended = append(&partition(&broker, "a"), batch(Some((7, 0, 2)), &[1])).await;
    assert_eq!(appended.expect("what was refused is new").base_offset, 2);
    for topic in ["a", "b"] {
        assert_eq!(
            read_all(&partition(&broker, topic)).await.len(),
            3,
            "{topic}"
        );
    }
    broker.close().await;
}

/// The newest checkpoint of the first topic is in objects, and what it covers is lost with the log.
#[tokio::test]
async fn without_the_damaged_log_a_partition_goes_on_where_its_objects_end() {
    let mut world = with_rotten_record(17).await;
    let broker = open_rotten(&world).await;
    broker.close().await;
    let random = world.random.clone();
    world.disk = SimDisk::new(16 * MIB, Duration::from_micros(300), random);
    let broker = open(&world).await;
    assert!(broker.logs.offline_partitions().is_empty());
    let (a, b) = (partition(&broker, "a"), partition(&broker, "b"));
    assert_eq!((a.high_watermark(), b.high_watermark()), (0, 3));
    assert_eq!(read_all(&b).await.len(), 3);
    let again = append(&a, batch(Some((7, 0, 0)), &[1])).await;
    assert_eq!(again.expect("not known any more").base_offset, 0);
    drop((a, b));
    broker.close().await;
    let broker = open(&world).await;
    let again = append(&partition(&broker, "a"), batch(Some((7, 0, 0)), &[1])).await;
    assert_eq!(again.expect("known").base_offset, 0);
    assert_eq!(partition(&broker, "a").end_offset(), 1);
    broker.close().await;
}

/// A batch of nearly `bytes`, of no producer.
fn large_batch(bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1, None, Some(&vec![7; bytes]), &[]);
    split(builder.build()).expect("sound").remove(0)
}

#[tokio::test]
async fn a_broker_that_dies_soon_after_each_start_does_not_replay_more_each_time() {
    /// More than a checkpoint's worth.
    const BATCHES: usize = 70 * 20;
    let world = World::new(31, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    for _ in 0..BATCHES {
        append(&log, large_batch(50 * 1024))
            .await
            .expect("appended");
    }
    broker.store.flush().await.expect("uploaded");
    drop((log, broker));
    world.disk.crash(Crash::Killed);
    // Each life is shorter than the time between two looks at what is due by age.
    let mut replayed = Vec::new();
    for _ in 0..2 {
        let before = world.bucket.counts().gets;
        let broker = open(&world).await;
        replayed.push(world.bucket.counts().gets - before);
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(broker);
        world.disk.crash(Crash::Killed);
    }
    let broker = open(&world).await;
    let before = world.bucket.counts().gets;
    assert_eq!(read_all(&partition(&broker, "t")).await.len(), BATCHES);
    let whole = world.bucket.counts().gets - before;
    assert!(
        replayed.iter().all(|&gets| gets * 4 < whole),
        "objects read at each start: {replayed:?}, all there are: {whole}"
    );
}

#[tokio::test]
async fn a_request_with_several_batches_is_appended_whole_or_not_at_all() {
    let world = World::new(4, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    let good = vec![
        batch(Some((1, 0, 0)), &[1, 1]),
        batch(Some((1, 0, 2)), &[1]),
    ];
    let appended = log
        .append(good, AppendOrigin::Client)
        .await
        .expect("ok")
        .await
        .expect("durable");
    assert_eq!((appended.base_offset, appended.last_offset), (0, 2));
    let bad = vec![batch(Some((1, 0, 3)), &[1]), batch(Some((1, 0, 5)), &[1])];
    let refused = log
        .append(bad, AppendOrigin::Client)
        .await
        .expect_err("a gap");
    assert!(matches!(
        refused,
        AppendError::OutOfOrderSequence {
            expected: 4,
            got: 5,
            ..
        }
    ));
    assert_eq!(log.end_offset(), 3);
    append(&log, batch(Some((1, 0, 3)), &[1]))
        .await
        .expect("nothing of it was noted");
    let empty = log
        .append(Vec::new(), AppendOrigin::Client)
        .await
        .expect_err("empty");
    assert_eq!(empty, AppendError::Empty);
}

#[tokio::test]
async fn what_a_topic_does_not_allow_is_refused() {
    let world = World::new(5, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[("max.message.bytes", "100")]).await;
    let large = append(&log, batch(None, &[1, 2, 3])).await;
    assert!(matches!(
        large,
        Err(AppendError::BatchTooLarge { limit: 100, .. })
    ));
    let special = |builder: BatchBuilder| {
        let mut builder = builder;
        builder.push(1, None, None, &[]);
        split(builder.build()).expect("sound").remove(0)
    };
    let control = special(BatchBuilder::new(Compression::None).control());
    assert_eq!(append(&log, control).await, Err(AppendError::ControlBatch));
    let transactional = BatchBuilder::new(Compression::None)
        .transactional()
        .producer(1, 0, 0);
    assert_eq!(
        append(&log, special(transactional)).await,
        Err(AppendError::NotVerified { producer_id: 1 })
    );
    let own = vec![batch(None, &[1, 2, 3])];
    log.append(own, AppendOrigin::Coordinator)
        .await
        .expect("its own")
        .await
        .expect("durable");
}

#[tokio::test]
async fn the_broker_stamps_where_the_topic_wants_it() {
    let world = World::new(6, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[("message.timestamp.type", "LogAppendTime")]).await;
    let before = world.clock.wall_ms();
    let appended = append(&log, batch(Some((1, 0, 0)), &[1, 2]))
        .await
        .expect("appended");
    let time = appended.log_append_time.expect("stamped");
    assert!(time >= before);
    let again = append(&log, batch(Some((1, 0, 0)), &[1, 2]))
        .await
        .expect("a duplicate");
    assert_eq!(again.log_append_time, Some(time));
    let stored = read_all(&log).await.remove(0);
    let header = header_of(&stored).expect("a batch");
    assert_eq!(
        (header.timestamp_type(), header.max_timestamp),
        (TimestampType::LogAppendTime, time)
    );
    split(stored.as_ref().into()).expect("sound")[0]
        .validate(&Default::default())
        .expect("its CRC");
    let found = log.offset_for_timestamp(time).await.expect("readable");
    assert_eq!(
        found,
        Some(TimestampOffset {
            offset: 0,
            timestamp: time
        })
    );
}

#[tokio::test]
async fn timestamps_are_found_as_a_walk_would_find_them() {
    let world = World::new(7, small(), 16 * MIB).await;
    let mut broker = open(&world).await;
    create(&broker, "t", &[]).await;
    let mut timestamps: Vec<i64> = Vec::new();
    let mut state = 5_u64;
    for life in 0..4 {
        let log = partition(&broker, "t");
        for _ in 0..60 {
            let size = timestamps.len() % 4 + 1;
            let next: Vec<i64> = (0..size)
                .map(|_| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    timestamps.len() as i64 + (state >> 58) as i64
                })
                .collect();
            append(&log, batch(None, &next)).await.expect("appended");
            timestamps.extend(next);
        }
        let start = life * 37;
        assert_eq!(log.trim(start as u64).await, Ok(start as u64));
        let kept = || timestamps.iter().enumerate().skip(start);
        for wanted in (0..timestamps.len() as i64 + 80).step_by(7) {
            let expected = kept().find(|&(_, &timestamp)| timestamp >= wanted);
            let expected = expected.map(|(o, &timestamp)| TimestampOffset {
                offset: o as u64,
                timestamp,
            });
            let found = log.offset_for_timestamp(wanted).await.expect("readable");
            assert_eq!(found, expected, "{wanted} in life {life}");
        }
        let max = kept().map(|(_, &timestamp)| timestamp).max().expect("some");
        let (offset, &timestamp) = kept().find(|&(_, &t)| t == max).expect("it is there");
        let expected = TimestampOffset {
            offset: offset as u64,
            timestamp,
        };
        assert_eq!(log.max_timestamp().await, Ok(Some(expected)));
        drop(log);
        if life % 2 == 0 {
            broker.close().await;
        } else {
            world.disk.crash(Crash::Killed);
            drop(broker);
        }
        broker = open(&world).await;
    }
    // Everything is trimmed: nothing is found, although the index remembers.
    let log = partition(&broker, "t");
    log.trim(log.high_watermark()).await.expect("trimmed");
    assert_eq!(log.offset_for_timestamp(0).await, Ok(None));
    assert_eq!(log.max_timestamp().await, Ok(None));
}

#[tokio::test]
async fn trimmed_records_stay_away() {
    let world = World::new(8, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    for _ in 0..10 {
        append(&log, batch(None, &[1, 2, 3]))
            .await
            .expect("appended");
    }
    let above = TrimError::OutOfRange {
        offset: 31,
        high_watermark: 30,
    };
    assert_eq!(log.trim(31).await, Err(above));
    assert_eq!(log.trim(10).await, Ok(10));
    let out = ReadError::OutOfRange {
        offset: 9,
        log_start: 10,
        log_end: 30,
    };
    assert_eq!(log.read(9, 1, true).await, Err(out));
    let read = log.read(10, 1, true).await.expect("readable");
    assert_eq!(
        header_of(&read.batches[0]).expect("a batch").base_offset,
        9,
        "whole batches"
    );
    world.disk.crash(Crash::PowerLoss);
    drop((broker, log));
    let broker = open(&world).await;
    let log = partition(&broker, "t");
    assert_eq!((log.start_offset(), log.high_watermark()), (10, 30));
    let appended = append(&log, batch(None, &[1])).await.expect("appended");
    assert_eq!((appended.base_offset, appended.log_start_offset), (30, 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_partitions_open_at_once_after_a_crash() {
    let world = World::new(10, small(), 16 * MIB).await;
    let broker = open(&world).await;
    broker
        .logs
        .create_topic(&name("t"), Some(300), BTreeMap::new())
        .await
        .expect("created");
    let topic = broker.logs.topic(&name("t")).expect("there");
    let appends = topic
        .logs()
        .map(|log| append(log, batch(Some((9, 0, 0)), &[1])));
    for appended in join_all(appends).await {
        appended.expect("appended");
    }
    world.disk.crash(Crash::PowerLoss);
    drop((broker, topic));
    let broker = open(&world).await;
    let topic = broker.logs.topic(&name("t")).expect("there");
    assert_eq!(topic.logs().count(), 300);
    for log in topic.logs() {
        assert_eq!(log.high_watermark(), 1);
        let duplicate = append(log, batch(Some((9, 0, 0)), &[1]))
            .await
            .expect("known");
        assert_eq!(duplicate.base_offset, 0);
    }
}

#[tokio::test]
async fn listeners_hear_of_the_high_watermark() {
    let world = World::new(11, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    log.on_advance(Arc::new(move |offset| sender.send(offset).expect("heard")));
    append(&log, batch(None, &[1, 2])).await.expect("appended");
    let waited = tokio::time::timeout(Duration::from_millis(500), heard.recv()).await;
    assert_eq!(waited, Ok(Some(2)));
}
