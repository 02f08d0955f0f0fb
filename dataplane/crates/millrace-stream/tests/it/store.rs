//! The store as its users see it: what was appended is acknowledged, read, uploaded, trimmed,
//! deleted, and there again after a restart.

use std::{sync::Arc, time::Duration};

use crate::world::{World, append, read_all, small};
use bytes::Bytes;
use futures_util::future::join_all;
use millrace_meta::MetaStore;
use millrace_model::{Classified, FailureClass, StreamId, limits::ENTRY_BYTES_MAX};
use millrace_objects::ObjectKey;
use millrace_stream::{
    AppendError, Bottleneck, Closed, Entry, FetchError, PayloadFacts, Stream, StreamConfig,
    TrimError,
};
use millrace_testkit::{BucketFaults, Crash};

const MIB: u64 = 1024 * 1024;

#[tokio::test]
async fn what_is_acknowledged_is_read_from_memory_and_from_objects() {
    let world = World::new(1, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(2).await;
    let store = world.open().await;
    let streams = store.open_streams(&ids).await.expect("open");
    let mut written: Vec<Vec<Entry>> = vec![Vec::new(); streams.len()];
    for n in 0..400_u32 {
        let which = n as usize % streams.len();
        let (entry, ticket) = append(&streams[which], 1 + n % 3, 1, 2_000).await;
        assert_eq!(ticket.await, Ok(()));
        assert_eq!(streams[which].confirm_offset(), entry.end_offset());
        written[which].push(entry);
    }
    store.flush().await.expect("uploads");
    assert!(store.metrics().pending_bytes == 0);
    // 800 kB went through a cache of 256 KiB: the beginning is in objects only.
    assert_eq!(streams[0].fetch_cached(0, 10, 1), None);
    assert!(world.bucket.counts().puts > 10);
    for (stream, written) in streams.iter().zip(&written) {
        for step in [1, 5_000, 1_000_000] {
            assert_eq!(&read_all(stream, step).await, written);
        }
        // In the middle of an entry: the entry comes whole.
        for entry in written.iter().filter(|entry| entry.count == 3).take(5) {
            let found = stream
                .fetch(entry.base_offset + 1, u64::MAX, 1)
                .await
                .expect("there");
            assert_eq!(found, std::slice::from_ref(entry));
        }
    }
    store.close().await;
}

#[tokio::test]
async fn nothing_is_read_before_it_is_durable() {
    let world = World::new(2, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let (first, ticket) = append(&stream, 1, 1, 100).await;
    ticket.await.expect("durable");
    // The process is dead from the disk's view: nothing becomes durable any more.
    world.disk.crash(Crash::Killed);
    let (second, ticket) = append(&stream, 1, 1, 100).await;
    assert_eq!(stream.next_offset(), second.end_offset());
    tokio::time::timeout(Duration::from_millis(50), ticket)
        .await
        .expect_err("never durable");
    assert_eq!(stream.confirm_offset(), first.end_offset());
    assert_eq!(
        stream.fetch(0, u64::MAX, usize::MAX).await,
        Ok(vec![first.clone()])
    );
    assert_eq!(stream.fetch_cached(1, u64::MAX, usize::MAX), Some(vec![]));
    drop((store, stream));

    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let found = read_all(&stream, 1_000).await;
    assert!(found == [first.clone()] || found == [first, second]);
}

#[tokio::test]
async fn a_clean_restart_finds_everything_and_an_empty_log() {
    let world = World::new(3, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(3).await;
    let mut written = Vec::new();
    for life in 1..4 {
        let store = world.open().await;
        assert_eq!(store.metrics().recovery.kept, 0);
        let stream = store.open_stream(ids[2]).await.expect("opens");
        assert_eq!(read_all(&stream, 3_000).await, written);
        for _ in 0..20 {
            let (entry, ticket) = append(&stream, 2, life, 1_500).await;
            ticket.await.expect("durable");
            written.push(entry);
        }
        store.close().await;
        let refused = stream.reserve(1).await.expect_err("closed");
        assert_eq!(refused, AppendError::Closed);
    }
}

#[tokio::test]
async fn a_crash_before_any_upload_loses_nothing_that_was_acknowledged() {
    let world = World::new(4, small(), 16 * MIB).await;
    world.bucket.set(down());
    let (_, ids) = world.create_streams(2).await;
    let mut written = Vec::new();
    for life in 1..4 {
        let store = world.open().await;
        assert_eq!(store.metrics().recovery.kept as usize, written.len());
        let stream = store.open_stream(ids[0]).await.expect("opens");
        assert_eq!(read_all(&stream, 3_000).await, written);
        for _ in 0..10 {
            let (entry, ticket) = append(&stream, 1, life, 3_000).await;
            ticket.await.expect("durable");
            written.push(entry);
        }
        world.disk.crash(Crash::PowerLoss);
    }
    // The bucket comes back: what three lives left is uploaded, and the log is empty.
    world.bucket.set(BucketFaults::default());
    let store = world.open().await;
    store.flush().await.expect("uploads");
    store.close().await;
    let store = world.open().await;
    assert_eq!(store.metrics().recovery.kept, 0);
    let stream = store.open_stream(ids[0]).await.expect("opens");
    assert_eq!(read_all(&stream, 3_000).await, written);
}

fn down() -> BucketFaults {
    BucketFaults {
        down: true,
        ..BucketFaults::default()
    }
}

/// Appends until there is no room; returns what was appended, and what was full.
async fn append_until_refused(stream: &Stream, length: usize) -> (Vec<Entry>, AppendError) {
    append_in_turn_until_refused(stream, &[length]).await
}

/// The same with entries of these lengths in turn.
async fn append_in_turn_until_refused(
    stream: &Stream,
    lengths: &[usize],
) -> (Vec<Entry>, AppendError) {
    let mut written = Vec::new();
    loop {
        let base_offset = stream.next_offset();
        let length = lengths[written.len() % lengths.len()];
        let payload = crate::world::payload(stream.id(), base_offset, 1, length);
        match stream.reserve(payload.len()).await {
            Err(refused) => return (written, refused),
            Ok(permit) => {
                let entry = Entry {
                    base_offset,
                    count: 1,
                    payload,
                };
                stream.append(permit, entry.clone()).await.expect("durable");
                written.push(entry);
            }
        }
        assert!(written.len() < 20_000, "there is a bound");
    }
}

/// While the bucket is down the log takes appends until it is full itself, whatever the memory; all
/// of it can be read, survives a crash, and is uploaded when the bucket is back.
#[tokio::test]
async fn a_bucket_that_is_down_fills_the_log_and_not_the_memory() {
    let config = StreamConfig {
        reserve_wait: Duration::from_millis(300),
        ..small()
    };
    let cache_bytes = config.cache_bytes;
    let world = World::new(5, config, 4 * MIB).await;
    world.bucket.set(down());
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let (mut written, refused) = append_until_refused(&stream, 4_000).await;
    assert_eq!(refused, AppendError::Overloaded(Bottleneck::WriteAheadLog));
    let bytes = written.len() as u64 * 4_000;
    assert!(bytes > 6 * cache_bytes, "{bytes} bytes were taken");
    let metrics = store.metrics();
    assert!(metrics.pending_bytes == bytes && metrics.cache_used_bytes <= cache_bytes);
    for step in [1, 10_000, 1_000_000] {
        assert_eq!(read_all(&stream, step).await, written);
    }
    world.disk.crash(Crash::PowerLoss);
    drop((store, stream));

    let store = world.open().await;
    let metrics = store.metrics();
    assert_eq!(metrics.recovery.kept as usize, written.len());
    assert!(metrics.cache_used_bytes < cache_bytes / 2, "{metrics:?}");
    let stream = store.open_stream(ids[0]).await.expect("opens");
    assert_eq!(read_all(&stream, 50_000).await, written);
    // A reader that goes on while what it reads moves from the log to objects.
    let reader = tokio::spawn({
        let stream = stream.clone();
        async move {
            let mut all = Vec::new();
            for _ in 0..5 {
                all.push(read_all(&stream, 9_000).await);
            }
            all
        }
    });
    world.bucket.set(BucketFaults::default());
    store.flush().await.expect("uploads");
    for all in reader.await.expect("reads") {
        assert_eq!(all, written);
    }
    for _ in 0..100 {
        let (entry, ticket) = append(&stream, 1, 2, 4_000).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    assert_eq!(read_all(&stream, 50_000).await, written);
    assert_eq!(store.close().await, Closed::Uploaded);
    let store = world.open().await;
    assert_eq!(store.metrics().recovery.kept, 0);
}

/// While the bucket is down, entries that are large beside the cache fill the log too: uploads leave
/// them half of the memory, before a crash and after it, and small blocks give way to them.
#[tokio::test]
async fn large_entries_fill_the_log_while_the_bucket_is_down() {
    let config = StreamConfig {
        cache_bytes: 80 * 1024,
        upload_interval: Duration::from_secs(3_600),
        reserve_wait: Duration::from_secs(2),
        ..small()
    };
    for lengths in [&[15_900, 38_000][..], &[9_700, 30_000], &[35_000]] {
        let world = World::new(16, config.clone(), MIB).await;
        let (_, ids) = world.create_streams(1).await;
        world.bucket.set(down());
        let store = world.open().await;
        let stream = store.open_stream(ids[0]).await.expect("opens");
        let mut written = Vec::new();
        for &length in lengths.iter().cycle().take(8) {
            let (entry, ticket) = append(&stream, 1, 1, length).await;
            ticket.await.expect("durable");
            written.push(entry);
        }
        world.disk.crash(Crash::PowerLoss);
        drop((store, stream));

        let store = world.open().await;
        assert_eq!(store.metrics().recovery.kept, 8);
        let stream = store.open_stream(ids[0]).await.expect("opens");
        let (more, refused) = append_in_turn_until_refused(&stream, lengths).await;
        written.extend(more);
        let (full, entries) = (Bottleneck::WriteAheadLog, written.len());
        let full = AppendError::Overloaded(full);
        assert_eq!(refused, full, "{entries} entries of {lengths:?}");
        assert_eq!(read_all(&stream, 50_000).await, written);
    }
}

/// Closing does not wait for a bucket that is down, and says what it left to the next start; where
/// the device has failed, that is what it says.
#[tokio::test]
async fn closing_says_what_became_of_the_data() {
    let config = StreamConfig {
        close_wait: Duration::from_millis(200),
        ..small()
    };
    let world = World::new(15, config, 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let mut written = Vec::new();
    for life in 1..3 {
        world.bucket.set(down());
        let store = world.open().await;
        let stream = store.open_stream(ids[0]).await.expect("opens");
        assert_eq!(read_all(&stream, 9_000).await, written);
        for _ in 0..10 {
            let (entry, ticket) = append(&stream, 1, life, 3_000).await;
            ticket.await.expect("durable");
            written.push(entry);
        }
        let pending_bytes = life * 30_000;
        assert_eq!(store.close().await, Closed::InLog { pending_bytes });
    }
    world.bucket.set(BucketFaults::default());
    let store = world.open().await;
    assert_eq!(store.metrics().recovery.kept, 20);
    world.disk.fail_writes_after(0);
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let (_, ticket) = append(&stream, 1, 3, 3_000).await;
    ticket.await.expect_err("not durable");
    assert!(matches!(store.close().await, Closed::Failed(_)));
}

/// What is kept of an entry whose payload is in the log costs memory too, and is bounded.
#[tokio::test]
async fn many_tiny_entries_push_back_before_they_outgrow_the_memory() {
    let config = StreamConfig {
        cache_bytes: 64 * 1024,
        reserve_wait: Duration::from_millis(100),
        ..small()
    };
    let world = World::new(14, config, 64 * MIB).await;
    world.bucket.set(down());
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let (mut written, refused) = append_until_refused(&stream, 24).await;
    assert_eq!(refused, AppendError::Overloaded(Bottleneck::LogCache));
    assert!(written.len() > 100, "{} entries", written.len());
    let metrics = store.metrics();
    assert!(metrics.cache_used_bytes <= metrics.cache_capacity_bytes);
    world.bucket.set(BucketFaults::default());
    for _ in 0..100 {
        let (entry, ticket) = append(&stream, 1, 1, 24).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    assert_eq!(read_all(&stream, 50_000).await, written);
}

#[tokio::test]
async fn a_full_log_pushes_back_and_is_trimmed_by_uploads() {
    let config = StreamConfig {
        cache_bytes: 64 * MIB,
        upload_threshold_bytes: 16 * MIB,
        upload_interval: Duration::from_secs(3_600),
        reserve_wait: Duration::from_millis(200),
        ..small()
    };
    let world = World::new(6, config, MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    // Many times the log's size: only trims make this possible, long before the threshold.
    let mut written = Vec::new();
    for _ in 0..300 {
        let (entry, ticket) = append(&stream, 1, 1, 20_000).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    world.bucket.set(down());
    let (more, refused) = append_until_refused(&stream, 20_000).await;
    written.extend(more);
    assert_eq!(refused, AppendError::Overloaded(Bottleneck::WriteAheadLog));
    world.bucket.set(BucketFaults::default());
    assert_eq!(read_all(&stream, 100_000).await, written);
    let (_, ticket) = append(&stream, 1, 1, 20_000).await;
    ticket.await.expect("there is room again");
}

#[tokio::test]
async fn uploads_survive_a_bucket_that_fails_and_loses_replies() {
    let world = World::new(7, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(2).await;
    let store = world.open().await;
    let streams = store.open_streams(&ids).await.expect("open");
    world.bucket.set(BucketFaults {
        fail_permille: 300,
        lose_reply_permille: 200,
        conflict_permille: 100,
        ..BucketFaults::default()
    });
    let mut written: Vec<Vec<Entry>> = vec![Vec::new(); streams.len()];
    for n in 0..200_usize {
        let (entry, ticket) = append(&streams[n % 4], 1, 1, 3_000).await;
        ticket.await.expect("durable whatever the bucket does");
        written[n % 4].push(entry);
    }
    store.flush().await.expect("uploads at last");
    assert!(world.bucket.counts().faults > 20);
    world.bucket.set(BucketFaults::default());
    for (stream, written) in streams.iter().zip(&written) {
        assert_eq!(&read_all(stream, 10_000).await, written);
    }
}

/// A trim that is overtaken tells what is durable, not what the other one is still at.
#[tokio::test]
async fn of_two_trims_at_a_time_each_tells_what_the_metadata_has() {
    let world = World::new(8, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let (_, ticket) = append(&stream, 30, 1, 100).await;
    ticket.await.expect("durable");
    // Both have moved the readers on before the first one's metadata is there.
    let told = tokio::join!(stream.trim(10), stream.trim(20));
    assert_eq!(told, (Ok(10), Ok(20)));
    assert_eq!(stream.trim(15).await, Ok(20), "never back");
}

#[tokio::test]
async fn a_trim_is_durable_and_frees_objects() {
    let world = World::new(8, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let mut written = Vec::new();
    for _ in 0..40 {
        let (entry, ticket) = append(&stream, 10, 1, 3_000).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    store.flush().await.expect("uploads");
    let objects = world.bucket.counts().puts;
    let above = TrimError::AboveConfirmed {
        offset: 401,
        confirmed: 400,
    };
    assert_eq!(stream.trim(401).await, Err(above));
    assert_eq!(stream.trim(355).await, Ok(355));
    assert_eq!(stream.trim(100).await, Ok(355), "never back");
    let below = FetchError::BelowStart {
        offset: 354,
        start: 355,
    };
    assert_eq!(stream.fetch(354, 400, 1).await, Err(below));
    assert_eq!(read_all(&stream, 1).await, written[35..]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        world.bucket.counts().deletes > 0 && objects > 2,
        "unused objects were deleted"
    );

    // What is only in the log can be trimmed too, and stays trimmed.
    world.bucket.set(down());
    let (_, ticket) = append(&stream, 10, 1, 100).await;
    ticket.await.expect("durable");
    assert_eq!(stream.trim(410).await, Ok(410));
    world.disk.crash(Crash::PowerLoss);
    drop((store, stream));
    world.bucket.set(BucketFaults::default());
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    assert_eq!((stream.start_offset(), stream.confirm_offset()), (410, 410));
    let (entry, ticket) = append(&stream, 1, 2, 100).await;
    ticket.await.expect("durable");
    store.flush().await.expect("uploads");
    assert_eq!(read_all(&stream, 100).await, [entry]);
}

#[tokio::test]
async fn a_deleted_stream_takes_nothing_and_is_forgotten_by_recovery() {
    let world = World::new(9, small(), 16 * MIB).await;
    world.bucket.set(down());
    let (_, kept) = world.create_streams(1).await;
    let (name, retired) = world.create_streams(1).await;
    let store = world.open().await;
    let kept_stream = store.open_stream(kept[0]).await.expect("opens");
    let retired_stream = store.open_stream(retired[0]).await.expect("opens");
    let (entry, ticket) = append(&kept_stream, 1, 1, 100).await;
    ticket.await.expect("durable");
    let (_, ticket) = append(&retired_stream, 1, 1, 100).await;
    ticket.await.expect("durable");
    world.meta.delete_topic(&name).await.expect("deleted");
    store.discard_streams(&retired);
    let permit = retired_stream
        .reserve(1)
        .await
        .expect("room is not the stream's");
    let late = Entry {
        base_offset: 1,
        count: 1,
        payload: Bytes::from_static(b"x"),
    };
    assert_eq!(
        retired_stream.append(permit, late).await,
        Err(AppendError::Closed)
    );
    assert!(store.open_stream(retired[0]).await.is_err());
    world.disk.crash(Crash::Killed);
    drop((store, kept_stream, retired_stream));

    world.bucket.set(BucketFaults::default());
    let store = world.open().await;
    let recovery = store.metrics().recovery;
    assert_eq!((recovery.kept, recovery.forgotten), (1, 1));
    store.flush().await.expect("uploads");
    let stream = store.open_stream(kept[0]).await.expect("opens");
    assert_eq!(read_all(&stream, 100).await, [entry]);
}

#[tokio::test]
async fn what_can_never_fit_is_refused_at_once() {
    let world = World::new(10, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    for bytes in [ENTRY_BYTES_MAX + 1, 256 * 1024, 100 * 1024] {
        let refused = stream.reserve(bytes).await.expect_err("too large");
        assert!(matches!(refused, AppendError::TooLarge { .. }), "{refused}");
    }
    assert!(store.open_stream(StreamId(9_999)).await.is_err());
}

/// Whatever byte of an object is flipped: only the reads that need it fail, as corrupt and after two
/// tries. Once the object is restored they succeed.
#[tokio::test]
async fn a_corrupt_part_of_an_object_fails_the_reads_that_need_it_and_no_other() {
    let config = StreamConfig {
        upload_threshold_bytes: MIB,
        upload_interval: Duration::from_secs(3_600),
        ..small()
    };
    let world = World::in_memory(15, config, 16 * MIB, Duration::from_secs(600)).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let streams = store.open_streams(&ids).await.expect("open");
    for _ in 0..3 {
        for stream in &streams {
            let (_, ticket) = append(stream, 1, 1, 500).await;
            ticket.await.expect("durable");
        }
        store.flush().await.expect("uploads");
    }
    drop(streams);
    store.close().await;
    let ranges = world.meta.objects_of(ids[0], 0, 9).await.expect("found");
    let (middle, footer_bytes) = (ranges[1], 36);
    let key = ObjectKey::of("c", middle.object);
    let index_end = middle.size - footer_bytes;
    for (part, position) in [
        ("block", 60),
        ("index", index_end - 20),
        ("footer", index_end),
    ] {
        world.bucket.flip(&key, position).await;
        // A new store has nothing in memory.
        let store = world.open().await;
        let streams = store.open_streams(&ids).await.expect("open");
        let gets = world.bucket.counts().gets;
        let found = streams[0].fetch(1, 2, 1).await;
        let class = found.map_err(|error| error.class());
        assert_eq!(class, Err(FailureClass::Corrupt), "{part}");
        let tries = world.bucket.counts().gets - gets;
        assert!(tries <= 4, "{part}: {tries} requests");
        let all = streams[0].fetch(0, 3, 10_000).await.expect("the first");
        assert_eq!(all.len(), 1, "{part}: up to the fault");
        let last = streams[0].fetch(2, 3, 1).await;
        assert_eq!(last.expect("readable").len(), 1, "{part}: behind the fault");
        let other = streams[1].fetch(1, 2, 1).await;
        assert_eq!(
            other.is_ok(),
            part == "block",
            "{part}: the object's other stream"
        );
        world.bucket.flip(&key, position).await;
        assert_eq!(
            read_all(&streams[0], 10_000).await.len(),
            3,
            "{part}: restored"
        );
        drop(streams);
        store.close().await;
    }
}

#[tokio::test]
async fn a_failed_device_fails_the_store_and_acknowledges_nothing() {
    let world = World::new(11, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    world.disk.fail_writes_after(0);
    let (_, ticket) = append(&stream, 1, 1, 100).await;
    assert!(matches!(ticket.await, Err(AppendError::Failed(_))));
    store.failed().await;
    assert!(matches!(
        stream.reserve(1).await,
        Err(AppendError::Failed(_))
    ));
    assert!(store.flush().await.is_err());
    assert_eq!(
        (stream.confirm_offset(), stream.fetch(0, 1, 1).await),
        (0, Ok(vec![]))
    );
}

/// A reader that follows the log from its beginning crosses from objects to memory again and again,
/// while commits evict what it was about to read. It must never see a gap.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_across_the_boundary_have_no_gap_while_uploads_evict() {
    const ENTRIES: u64 = 3_000;
    let world = World::new(12, small(), 16 * MIB).await;
    world.bucket.set(BucketFaults {
        delay: Duration::from_micros(500),
        ..BucketFaults::default()
    });
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let reader = |step_bytes: usize| {
        let stream = stream.clone();
        tokio::spawn(async move {
            let mut at = 0;
            while at < ENTRIES {
                let confirmed = stream.confirm_offset();
                let found = stream
                    .fetch(at, u64::MAX, step_bytes)
                    .await
                    .expect("readable");
                assert!(
                    !found.is_empty() || at >= confirmed,
                    "there was something at {at}"
                );
                for entry in found {
                    assert_eq!(entry.base_offset, at, "no gap, no repetition");
                    let expected = crate::world::payload(stream.id(), at, 1, entry.payload.len());
                    assert_eq!(entry.payload, expected);
                    at = entry.end_offset();
                }
                tokio::task::yield_now().await;
            }
        })
    };
    let readers: Vec<_> = [1, 3_000, 20_000, 200_000]
        .into_iter()
        .map(reader)
        .collect();
    for n in 0..ENTRIES {
        let (_, ticket) = append(&stream, 1, 1, 500 + (n as usize * 7) % 3_000).await;
        if n % 16 == 0 {
            ticket.await.expect("durable");
        }
    }
    for reader in readers {
        reader.await.expect("saw everything in order");
    }
    store.flush().await.expect("uploads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_append_at_once() {
    let world = World::new(13, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(20).await;
    let store = world.open().await;
    let streams = store.open_streams(&ids).await.expect("open");
    let again = store.open_streams(&ids).await.expect("the same");
    assert!(
        streams
            .iter()
            .zip(&again)
            .all(|(a, b)| a.epoch() == b.epoch())
    );
    let confirmed = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let write = |stream: millrace_stream::Stream| {
        let confirmed = Arc::clone(&confirmed);
        async move {
            let count = Arc::clone(&confirmed);
            stream.on_confirm(Arc::new(move |offset| {
                count.fetch_max(offset, std::sync::atomic::Ordering::Relaxed);
            }));
            let mut tickets = Vec::new();
            for _ in 0..30 {
                tickets.push(append(&stream, 1, 1, 700).await.1);
            }
            for ticket in tickets {
                ticket.await.expect("durable");
            }
            assert_eq!(read_all(&stream, 2_000).await.len(), 30);
        }
    };
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| tokio::spawn(write(stream)))
        .collect();
    for task in join_all(tasks).await {
        task.expect("no panic");
    }
    assert_eq!(confirmed.load(std::sync::atomic::Ordering::Relaxed), 30);
}

/// Says when the buffer that it stands for is freed.
struct Frame {
    bytes: Vec<u8>,
    _alive: Arc<()>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A small part of a large buffer, such as one batch of a request of 100 MiB, must not keep it in memory
/// while only the part is charged; what is nearly all of its buffer is not copied.
#[tokio::test]
async fn what_the_cache_keeps_in_memory_is_what_it_is_charged_for() {
    let world = World::new(1, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    for (payload, buffer, is_kept) in [
        (10_000, 1 << 20, false),
        (10_000, 10_513, false),
        (10_000, 10_512, true),
        (10_000, 10_000, true),
        (100, 110, false),
    ] {
        let alive = Arc::new(());
        let frame = Bytes::from_owner(Frame {
            bytes: vec![7; buffer],
            _alive: Arc::clone(&alive),
        });
        let entry = Entry {
            base_offset: stream.next_offset(),
            count: 1,
            payload: frame.slice(0..payload),
        };
        drop(frame);
        let used = store.metrics().cache_used_bytes;
        let permit = stream.reserve(payload).await.expect("room");
        let known = PayloadFacts {
            buffer_bytes: buffer,
            sum: Some(millrace_model::crc32c(&entry.payload)),
        };
        let ticket = stream.append_known(permit, entry, known);
        ticket.await.expect("durable");
        let keeps = Arc::strong_count(&alive) > 1;
        assert_eq!(keeps, is_kept, "{payload} of {buffer}");
        let charged = store.metrics().cache_used_bytes - used;
        let kept = if keeps { buffer } else { payload };
        assert!(charged >= kept as u64, "{charged} for {kept}");
    }
    store.close().await;
}

/// Metadata that is restored from its backup must find in the log what it does not find in objects.
#[tokio::test]
async fn the_log_is_trimmed_and_objects_are_deleted_only_once_the_metadata_is_backed_up() {
    let world = World::new(14, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let source = world.meta.begin_backup();
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    for _ in 0..4 {
        append(&stream, 1, 1, 3_000).await.1.await.expect("durable");
    }
    store
        .flush()
        .await
        .expect("committed, whatever the backup does");
    stream.trim(4).await.expect("trimmed");
    tokio::time::sleep(world.config.reclaim_interval * 5).await;
    assert_eq!(
        world.bucket.counts().deletes,
        0,
        "the retirement is in no backup"
    );
    drop((stream, store));
    world.disk.crash(Crash::Killed);

    let store = world.open().await;
    assert_eq!(
        store.metrics().recovery.committed,
        4,
        "the log has all of it"
    );
    source.backed_up_to(world.meta.revision());
    while world.bucket.counts().deletes == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.close().await;
    let store = world.open().await;
    assert_eq!(store.metrics().recovery.committed, 0, "trimmed");
    store.close().await;
}
