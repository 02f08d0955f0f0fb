//! Compaction against a model: what was appended is read back, whatever is merged, trimmed, deleted and
//! crashed meanwhile; and what is in the bucket in the end is what the metadata knows.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::world::{World, append, read_all, small};
use millrace_meta::{
    MetaStore, ObjectKind,
    sqlite::{ObjectState, read_object_records},
};
use millrace_model::{ObjectId, Offset, StreamId};
use millrace_objects::ObjectKey;
use millrace_stream::{CompactError, Entry, FetchError, Stream, StreamConfig, StreamStore};
use millrace_testkit::{BucketFaults, Crash, property_cases, two_threads};
use proptest::prelude::*;

const WAL_BYTES: u64 = 4 * 1024 * 1024;

/// Longer than anything that is under way when a store is dropped: what a dead process had sent may
/// still arrive.
const RETENTION: Duration = Duration::from_millis(100);

/// Blocks are uploaded by flushes only, so that a test knows its objects.
fn flushed_only() -> StreamConfig {
    StreamConfig {
        upload_threshold_bytes: 1024 * 1024,
        upload_interval: Duration::from_secs(3_600),
        cache_bytes: 4 * 1024 * 1024,
        upload_pace_percent: None,
        ..small()
    }
}

struct Run {
    world: World,
    ids: Vec<StreamId>,
    store: StreamStore,
    streams: Vec<Stream>,
    /// Of each stream what was appended and not trimmed.
    entries: Vec<Vec<Entry>>,
    life: u64,
}

impl Run {
    async fn new(world: World, partitions: u32) -> Self {
        let (_, ids) = world.create_streams(partitions).await;
        let store = world.open().await;
        let streams = store.open_streams(&ids).await.expect("opens");
        Self {
            world,
            entries: vec![Vec::new(); ids.len()],
            ids,
            store,
            streams,
            life: 1,
        }
    }

    /// Appends and waits until it is durable.
    async fn append(&mut self, stream: usize, count: u32, length: usize) {
        let (entry, ticket) = append(&self.streams[stream], count, self.life, length).await;
        ticket.await.expect("durable");
        self.entries[stream].push(entry);
    }

    async fn flush(&self) {
        self.store.flush().await.expect("uploads");
    }

    async fn trim(&mut self, stream: usize, to: Offset) {
        let trimmed = self.streams[stream].trim(to).await.expect("trims");
        self.entries[stream].retain(|entry| entry.end_offset() > trimmed);
    }

    async fn reopen(&mut self, crash: Crash) {
        self.world.disk.crash(crash);
        self.streams.clear();
        self.store = self.world.open().await;
        self.life += 1;
        self.streams = self.store.open_streams(&self.ids).await.expect("opens");
    }

    async fn check(&self) {
        for (stream, entries) in self.streams.iter().zip(&self.entries) {
            assert_eq!(&read_all(stream, 9_000).await, entries, "{}", stream.id());
        }
    }

    /// The kinds of the objects that hold a stream, in its order.
    async fn kinds(&self, stream: usize) -> Vec<ObjectKind> {
        let ranges = self.world.meta.objects_of(self.ids[stream], 0, 1_000).await;
        ranges
            .expect("found")
            .iter()
            .map(|range| range.kind)
            .collect()
    }

    /// What is in the bucket is what the metadata knows, with the right sizes, once what is retired has
    /// been deleted.
    async fn audit(&self) {
        for _ in 0..500 {
            if self.is_clean().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("retired objects are still in the bucket, or are not forgotten");
    }

    /// Whether nothing waits for its deletion; everything else must be right at any time.
    async fn is_clean(&self) -> bool {
        let records = read_object_records(&self.world.path("meta.db")).await;
        let records = records.expect("reads").objects;
        let stored = self.stored().await;
        let mut clean = true;
        for record in &records {
            match record.state {
                ObjectState::Committed => {
                    assert_eq!(stored.get(&record.object), record.size.as_ref());
                }
                ObjectState::Prepared => assert!(!stored.contains_key(&record.object)),
                ObjectState::Retired => clean = false,
            }
        }
        let known: BTreeSet<ObjectId> = records.iter().map(|record| record.object).collect();
        let orphans: Vec<_> = stored.keys().filter(|id| !known.contains(id)).collect();
        assert!(orphans.is_empty(), "nobody knows {orphans:?}");
        clean
    }

    /// What is in the bucket once it has come down to `count` objects, or does not come down.
    async fn left_of(&self, count: usize) -> BTreeSet<ObjectId> {
        for _ in 0..500 {
            if self.stored().await.len() <= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.stored().await.into_keys().collect()
    }

    async fn stored(&self) -> BTreeMap<ObjectId, u64> {
        let listed = self.world.storage().list("", None, 100_000).await;
        let id = |key: &ObjectKey| key.object_id().expect("an object's key");
        let listed = listed.expect("lists").into_iter();
        listed
            .map(|listed| (id(&listed.key), listed.size))
            .collect()
    }
}

async fn in_memory(config: StreamConfig) -> Run {
    Run::new(World::in_memory(1, config, WAL_BYTES, RETENTION).await, 2).await
}

#[tokio::test]
async fn sets_are_merged_and_large_streams_get_objects_of_their_own() {
    let mut run = in_memory(flushed_only()).await;
    for _ in 0..4 {
        for stream in 0..4 {
            let length = if stream == 3 { 3_000 } else { 500 };
            run.append(stream, 3, length).await;
        }
        run.flush().await;
    }
    assert_eq!(run.kinds(0).await, [ObjectKind::StreamSet; 4]);
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.groups, report.failed), (1, 0));
    assert_eq!((report.inputs, report.outputs), (4, 2), "{report:?}");
    assert!(report.output_bytes < report.input_bytes);
    assert_eq!(run.kinds(0).await, [ObjectKind::StreamSet]);
    assert_eq!(run.kinds(3).await, [ObjectKind::Stream]);
    run.reopen(Crash::Killed).await;
    run.check().await;
    run.audit().await;
    let again = run.store.compact_now().await.expect("compacts");
    assert_eq!(again.groups, 0, "there is nothing left to gain");
    for stream in 0..4 {
        run.append(stream, 1, 10).await;
    }
    run.flush().await;
    run.check().await;
}

#[tokio::test]
async fn neighbouring_objects_of_a_stream_are_merged_by_the_store_itself() {
    let mut run = in_memory(flushed_only()).await;
    for _ in 0..3 {
        for _ in 0..5 {
            run.append(0, 2, 4_000).await;
        }
        run.flush().await;
    }
    assert_eq!(run.kinds(0).await, [ObjectKind::Stream; 3]);
    let before = run.world.bucket.counts();
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.inputs, report.outputs), (3, 1));
    assert!(
        report.copied_bytes > report.output_bytes * 9 / 10,
        "{report:?}"
    );
    let after = run.world.bucket.counts();
    assert_eq!(after.copies - before.copies, 3);
    assert_eq!(run.kinds(0).await, [ObjectKind::Stream]);
    run.reopen(Crash::Killed).await;
    run.check().await;
    run.audit().await;
}

/// A corrupt block is neither copied nor dropped: the group is left as it is, later passes leave the
/// object alone, and once it is restored and was read it is merged like any other.
#[tokio::test]
async fn a_corrupt_object_is_left_alone_until_it_is_restored() {
    let mut run = in_memory(flushed_only()).await;
    for _ in 0..4 {
        for stream in 0..4 {
            run.append(stream, 1, 500).await;
        }
        run.flush().await;
    }
    let ranges = run.world.meta.objects_of(run.ids[2], 0, 9).await;
    let corrupt = ranges.expect("found")[1].object;
    let key = ObjectKey::of("c", corrupt);
    run.world.bucket.flip_block(&key, run.ids[2]).await;
    let report = run.store.compact_now().await.expect("compacts the others");
    assert_eq!((report.groups, report.failed, report.corrupt), (0, 1, 1));
    assert_eq!(run.kinds(2).await, [ObjectKind::StreamSet; 4]);
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.inputs, report.failed, report.corrupt), (3, 0, 0));
    let ranges = run.world.meta.objects_of(run.ids[2], 0, 9).await;
    let held = ranges.expect("found");
    assert!(held.iter().any(|range| range.object == corrupt), "{held:?}");
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!(
        (report.groups, report.failed),
        (0, 0),
        "it is not read again"
    );

    run.world.bucket.flip_block(&key, run.ids[2]).await;
    run.reopen(Crash::Killed).await;
    run.check().await;
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.inputs, report.failed), (2, 0));
    run.check().await;
}

#[tokio::test]
async fn large_outputs_are_cut_at_the_bound() {
    let mut run = in_memory(flushed_only()).await;
    // Sets, so that a stretch of one stream grows beyond the bound of an object.
    for _ in 0..14 {
        run.append(0, 1, 7_000).await;
        run.append(1, 1, 100).await;
        run.flush().await;
    }
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!(report.failed, 0);
    assert_eq!(run.kinds(0).await, [ObjectKind::Stream; 2]);
    let ranges = run.world.meta.objects_of(run.ids[0], 0, 9).await;
    for range in ranges.expect("found") {
        assert!(range.size <= 64 * 1024, "{range:?}");
    }
    run.reopen(Crash::Killed).await;
    run.check().await;
}

#[tokio::test]
async fn what_is_mostly_dead_is_rewritten() {
    let config = StreamConfig {
        stream_object_split_bytes: 1024 * 1024 * 1024,
        object_block_bytes: 64 * 1024,
        upload_threshold_bytes: 64 * 1024 * 1024,
        cache_bytes: 32 * 1024 * 1024,
        ..flushed_only()
    };
    // A log in whose quarter everything fits, so that it becomes one object.
    let world = World::in_memory(1, config, 8 * WAL_BYTES, RETENTION).await;
    let mut run = Run::new(world, 2).await;
    for _ in 0..60 {
        run.append(0, 1, 30_000).await;
        run.append(1, 1, 30_000).await;
    }
    for stream in 0..4 {
        run.append(stream, 1, 100).await;
    }
    run.flush().await;
    let ends: Vec<Offset> = run.streams.iter().map(Stream::next_offset).collect();
    run.trim(0, ends[0]).await;
    run.trim(2, ends[2]).await;
    run.trim(3, ends[3]).await;
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.inputs, report.outputs), (1, 1), "{report:?}");
    assert!(report.output_bytes < report.input_bytes * 6 / 10);
    run.reopen(Crash::Killed).await;
    run.check().await;
    run.audit().await;
}

#[tokio::test]
async fn trims_and_deletions_under_a_compaction_are_respected() {
    let mut run = in_memory(flushed_only()).await;
    let (retired_topic, retired) = run.world.create_streams(1).await;
    let retired_streams = run.store.open_streams(&retired).await.expect("opens");
    for _ in 0..4 {
        run.append(0, 5, 600).await;
        run.append(1, 5, 600).await;
        let (_, ticket) = append(&retired_streams[0], 1, 1, 600).await;
        ticket.await.expect("durable");
        run.flush().await;
    }
    run.world.bucket.set(BucketFaults {
        delay: Duration::from_millis(10),
        ..BucketFaults::default()
    });
    let store = run.store.clone();
    let compaction = tokio::spawn(async move { store.compact_now().await });
    tokio::time::sleep(Duration::from_millis(15)).await;
    run.trim(0, 7).await;
    run.trim(1, 20).await;
    let deleted = run.world.meta.delete_topic(&retired_topic).await;
    deleted.expect("deletes");
    run.store.discard_streams(&retired);
    let report = compaction.await.expect("runs").expect("compacts");
    assert_eq!((report.groups, report.failed), (1, 0));
    run.world.bucket.set(BucketFaults::default());
    run.reopen(Crash::Killed).await;
    run.check().await;
    run.audit().await;
}

/// Sets of all streams but one, which has objects of its own: a group of each kind.
async fn flush_both_kinds(run: &mut Run) {
    for _ in 0..4 {
        run.append(0, 1, 12_000).await;
        run.append(1, 1, 100).await;
        run.append(2, 1, 100).await;
        run.flush().await;
    }
}

fn one_group_per_pass() -> StreamConfig {
    let mut config = flushed_only();
    config.compaction.groups_per_pass_max = 1;
    config
}

#[tokio::test]
async fn streams_do_not_wait_until_the_sets_are_done() {
    let mut run = in_memory(one_group_per_pass()).await;
    flush_both_kinds(&mut run).await;
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.groups, report.inputs), (2, 8), "{report:?}");
    assert_eq!(run.kinds(0).await, [ObjectKind::Stream]);
    assert_eq!(run.kinds(1).await, [ObjectKind::StreamSet]);
    run.check().await;
}

#[tokio::test]
async fn every_stream_gets_its_turn() {
    let mut run = in_memory(one_group_per_pass()).await;
    let mut objects = Vec::new();
    for _ in 0..3 {
        for _ in 0..2 {
            run.append(0, 1, 8_500).await;
            run.append(3, 1, 8_500).await;
            run.flush().await;
        }
        let report = run.store.compact_now().await.expect("compacts");
        assert_eq!(report.groups, 1);
        assert!(report.more);
        objects.push((run.kinds(0).await.len(), run.kinds(3).await.len()));
    }
    // The first, the other one, and again the first.
    assert_eq!(objects, [(1, 2), (3, 1), (1, 3)]);
    run.check().await;
}

#[tokio::test]
async fn a_group_of_very_many_ranges_is_made_smaller() {
    let mut config = flushed_only();
    config.compaction.ranges_max = 6;
    let mut run = in_memory(config).await;
    for _ in 0..4 {
        for stream in 0..3 {
            run.append(stream, 1, 100).await;
        }
        run.flush().await;
    }
    let report = run.store.compact_now().await.expect("compacts");
    assert_eq!((report.groups, report.inputs, report.outputs), (1, 2, 1));
    assert_eq!(run.kinds(0).await.len(), 3);
    run.check().await;
    run.audit().await;
}

#[tokio::test]
async fn closing_waits_for_a_compaction_to_end() {
    let mut run = in_memory(flushed_only()).await;
    flush_both_kinds(&mut run).await;
    run.world.bucket.set(BucketFaults {
        delay: Duration::from_millis(50),
        ..BucketFaults::default()
    });
    let store = run.store.clone();
    let compaction = tokio::spawn(async move { store.compact_now().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    run.store.close().await;
    // What held it up has let go of it, so that it is at its end.
    let ended = tokio::time::timeout(Duration::from_millis(5), compaction).await;
    let report = ended.expect("has ended").expect("runs");
    assert!(matches!(report, Err(CompactError::Closing)), "{report:?}");
    run.world.bucket.set(BucketFaults::default());
    run.reopen(Crash::Killed).await;
    run.check().await;
    run.audit().await;
}

#[tokio::test]
async fn a_replaced_start_compacts_nothing_and_stops() {
    let mut run = in_memory(flushed_only()).await;
    for _ in 0..3 {
        run.append(0, 1, 100).await;
        run.append(1, 1, 100).await;
        run.flush().await;
    }
    let node = millrace_model::NodeId(1);
    run.world.meta.register_node(node).await.expect("registers");
    let refused = run.store.compact_now().await;
    refused.expect_err("another start owns the objects");
    assert_eq!(run.kinds(0).await, [ObjectKind::StreamSet; 3]);
    run.reopen(Crash::Killed).await;
    run.check().await;
    run.audit().await;
}

/// More of them than what is learnt of one batch, and all of them older than those that can be deleted.
#[tokio::test]
async fn objects_that_cannot_be_deleted_keep_no_other() {
    let mut run = in_memory(flushed_only()).await;
    for _ in 0..70 {
        run.append(0, 1, 100).await;
        run.append(1, 1, 100).await;
        run.flush().await;
    }
    let key = |&object: &ObjectId| ObjectKey::of("c", object);
    let kept: BTreeSet<ObjectId> = run.stored().await.into_keys().take(40).collect();
    run.world.bucket.refuse_to_delete(kept.iter().map(key));
    run.trim(0, 70).await;
    run.trim(1, 70).await;
    let left = run.left_of(kept.len()).await;
    assert_eq!(left, kept);
    // They are not given up.
    run.world.bucket.refuse_to_delete([]);
    run.audit().await;
    assert_eq!(run.stored().await.len(), 0);
}

#[tokio::test]
async fn deletions_that_fail_for_a_while_are_done_in_the_end() {
    let mut run = in_memory(flushed_only()).await;
    for _ in 0..20 {
        run.append(0, 1, 100).await;
        run.append(1, 1, 100).await;
        run.flush().await;
    }
    run.world.bucket.set(BucketFaults {
        fail_permille: 900,
        ..BucketFaults::default()
    });
    run.trim(0, 20).await;
    run.trim(1, 20).await;
    tokio::time::sleep(RETENTION * 4).await;
    run.world.bucket.set(BucketFaults::default());
    run.audit().await;
    assert_eq!(run.stored().await.len(), 0);
}

/// Polls `future` until it has had to wait `waits` times, then drops it, as a crash would.
async fn until_wait<F: Future>(future: F, waits: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut waited = 0;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if waited == waits => Poll::Ready(None),
        Poll::Pending => {
            waited += 1;
            Poll::Pending
        }
    })
    .await
}

/// Whatever step of a compaction is the last one, the next start finds everything, compacts again and
/// leaves nothing behind.
#[tokio::test]
async fn a_crash_at_any_step_loses_nothing_and_leaves_nothing() {
    let mut steps = 0;
    loop {
        let mut run = in_memory(flushed_only()).await;
        for _ in 0..3 {
            for stream in 0..3 {
                run.append(stream, 2, 1_500 * (stream + 1)).await;
            }
            run.flush().await;
        }
        // So slow that each request is a step.
        run.world.bucket.set(BucketFaults {
            delay: Duration::from_micros(200),
            ..BucketFaults::default()
        });
        let whole = until_wait(run.store.compact_now(), steps).await;
        run.world.bucket.set(BucketFaults::default());
        run.reopen(Crash::Killed).await;
        run.check().await;
        let report = run.store.compact_now().await.expect("compacts");
        assert_eq!(report.failed, 0);
        run.check().await;
        run.audit().await;
        assert_ne!(run.kinds(0).await.len(), 3, "compacted in the end");
        if let Some(whole) = whole {
            assert!(whole.expect("compacts").groups > 0);
            break;
        }
        steps += 1;
    }
    assert!(steps > 10, "only {steps} steps");
}

/// Readers, an appender, trims and deletions of topics beside passes of compaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_notice() {
    let config = StreamConfig {
        upload_interval: Duration::from_millis(5),
        cache_bytes: 128 * 1024,
        upload_pace_percent: None,
        ..small()
    };
    // Longer than the longest read here, one that waits for room in the cache.
    let retention = Duration::from_secs(3);
    let world = World::in_memory(9, config, WAL_BYTES, retention).await;
    world.bucket.set(BucketFaults {
        delay: Duration::from_micros(300),
        ..BucketFaults::default()
    });
    let mut run = Run::new(world, 2).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..8)
        .map(|nth| tokio::spawn(follow(run.streams[nth % 4].clone(), Arc::clone(&done))))
        .collect();
    let (store, stop) = (run.store.clone(), Arc::clone(&done));
    let compactions = tokio::spawn(async move {
        let mut groups = 0;
        while !stop.load(Ordering::Acquire) {
            let report = store.compact_now().await.expect("compacts");
            groups += report.groups;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        groups
    });
    for round in 0..400_u64 {
        let stream = (round % 4) as usize;
        let length = if stream == 1 { 6_000 } else { 700 };
        run.append(stream, 1 + (round % 3) as u32, length).await;
        if round % 40 == 39 {
            let to = run.streams[stream].next_offset() / 3;
            run.trim(stream, to).await;
        }
        if round % 50 == 49 {
            let (name, ids) = run.world.create_streams(1).await;
            let streams = run.store.open_streams(&ids).await.expect("opens");
            let (_, ticket) = append(&streams[0], 1, 1, 500).await;
            ticket.await.expect("durable");
            run.flush().await;
            run.world.meta.delete_topic(&name).await.expect("deletes");
            run.store.discard_streams(&ids);
        }
    }
    done.store(true, Ordering::Release);
    let mut read = 0;
    for reader in readers {
        read += reader.await.expect("reads without an error");
    }
    let groups = compactions.await.expect("runs");
    assert!(groups > 10 && read > 1_000, "{groups} groups, {read} reads");
    run.flush().await;
    run.check().await;
    run.reopen(Crash::PowerLoss).await;
    run.check().await;
    run.audit().await;
}

/// Reads a stream from its start to its end, again and again; every read has what it asked for.
async fn follow(stream: Stream, done: Arc<AtomicBool>) -> u64 {
    let mut reads = 0;
    while !done.load(Ordering::Acquire) {
        let mut at = stream.start_offset();
        while at < stream.confirm_offset() {
            let found = stream.fetch(at, Offset::MAX, 20_000).await;
            let found = match found {
                // Trimmed meanwhile: the reader starts again.
                Err(FetchError::BelowStart { start, .. }) => {
                    at = start;
                    continue;
                }
                Err(FetchError::Missing { offset, .. }) if offset < stream.start_offset() => {
                    at = stream.start_offset();
                    continue;
                }
                found => found.expect("what was acknowledged can be read"),
            };
            for entry in &found {
                assert!(entry.base_offset <= at && at < entry.end_offset());
                let expected =
                    crate::world::payload(stream.id(), entry.base_offset, 1, entry.payload.len());
                assert_eq!(entry.payload, expected);
                at = entry.end_offset();
            }
            reads += 1;
        }
        tokio::task::yield_now().await;
    }
    reads
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        stream: usize,
        count: u32,
        length: usize,
    },
    Flush,
    Trim {
        stream: usize,
        permille: u64,
    },
    Compact,
    /// A crash after so many waits of a compaction.
    CrashCompacting {
        waits: u32,
        power: bool,
    },
    /// A compaction while the bucket fails.
    CompactUnderFaults {
        fail: u64,
        lose: u64,
        flip: u64,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let count = prop_oneof![4 => 1_u32..5, 1 => (1_u32 << 31)..u32::MAX];
    let length = prop_oneof![6 => 24_usize..2_000, 2 => 4_000_usize..20_000];
    let step = prop_oneof![
        16 => (0_usize..4, count, length)
            .prop_map(|(stream, count, length)| Step::Append { stream, count, length }),
        5 => Just(Step::Flush),
        2 => (0_usize..4, 0_u64..=1_000)
            .prop_map(|(stream, permille)| Step::Trim { stream, permille }),
        3 => Just(Step::Compact),
        1 => (0_u32..80, any::<bool>())
            .prop_map(|(waits, power)| Step::CrashCompacting { waits, power }),
        1 => (0_u64..400, 0_u64..200, 0_u64..100)
            .prop_map(|(fail, lose, flip)| Step::CompactUnderFaults { fail, lose, flip }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..70)
}

impl Run {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Append {
                stream,
                count,
                length,
            } => self.append(stream, count, length).await,
            Step::Flush => self.flush().await,
            Step::Trim { stream, permille } => {
                let handle = &self.streams[stream];
                let (start, end) = (handle.start_offset(), handle.confirm_offset());
                let share = u128::from(end - start) * u128::from(permille) / 1_000;
                let to = start + u64::try_from(share).expect("below the end");
                self.trim(stream, to).await;
            }
            Step::Compact => {
                let report = self.store.compact_now().await.expect("compacts");
                assert_eq!(report.failed, 0);
                self.check().await;
            }
            Step::CrashCompacting { waits, power } => {
                until_wait(self.store.compact_now(), waits).await;
                let crash = if power {
                    Crash::PowerLoss
                } else {
                    Crash::Killed
                };
                self.reopen(crash).await;
                self.check().await;
            }
            Step::CompactUnderFaults { fail, lose, flip } => {
                self.world.bucket.set(BucketFaults {
                    fail_permille: fail,
                    lose_reply_permille: lose,
                    flip_permille: flip,
                    ..BucketFaults::default()
                });
                self.store.compact_now().await.expect("goes on");
                self.world.bucket.set(BucketFaults::default());
                self.check().await;
            }
            Step::Restart => {
                self.store.close().await;
                self.reopen(Crash::Killed).await;
                self.check().await;
            }
        }
    }
}

/// Cases of an ordinary run.
const CASES: u32 = 32;

proptest! {
    #![proptest_config(property_cases(CASES))]

    #[test]
    fn what_goes_in_comes_out(steps in steps(), seed: u64) {
        let runtime = two_threads();
        runtime.block_on(async {
            let config = if seed.is_multiple_of(2) {
                flushed_only()
            } else {
                small()
            };
            let world = if seed.is_multiple_of(3) {
                World::new(seed, config, WAL_BYTES).await
            } else {
                World::in_memory(seed, config, WAL_BYTES, RETENTION).await
            };
            let mut run = Run::new(world, 2).await;
            for step in steps {
                run.step(step).await;
            }
            run.flush().await;
            run.step(Step::Compact).await;
            run.step(Step::Restart).await;
            run.audit().await;
        });
    }
}
