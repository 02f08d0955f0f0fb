//! Many readers at once, in little memory: what it costs and what it never costs.

mod model;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{
    fake_meta::{FakeMeta, Objects},
    storage::{share, storage},
};
use bytes::Bytes;
use millrace_blockcache::{
    BlockCache, BlockCacheConfig, BlockCacheMetrics, Eviction, ReadError, Sources,
};
use millrace_limiter::{Limiter, Tier};
use millrace_meta::{ObjectKind, ObjectRange};
use millrace_model::{ObjectId, Offset, StreamEpoch, StreamId};
use millrace_objects::{ObjectBuilder, ObjectKey, ObjectStorage, StreamEntry};
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::ManualClock;
use parking_lot::Mutex;

const KIB: u64 = 1024;

/// Reads at one time that tests make, at most: each may have one block beside the budget.
const READS_AT_ONCE: u64 = 48;

/// Where the ranges of all streams are, by where they begin.
#[derive(Debug, Clone, Default)]
struct Shelf(Arc<Mutex<HashMap<StreamId, BTreeMap<Offset, ObjectRange>>>>);

impl Objects for Shelf {
    fn objects_of(&self, stream: StreamId, from: Offset, limit: usize) -> Vec<ObjectRange> {
        let shelf = self.0.lock();
        let ranges = shelf.get(&stream).into_iter().flat_map(BTreeMap::values);
        let behind = ranges.filter(|range| range.range.end > from);
        behind.take(limit).copied().collect()
    }
}

/// A bucket with objects, and what is in them.
struct World {
    shelf: Shelf,
    bucket: FaultyBucket,
    storage: ObjectStorage,
    clock: Arc<ManualClock>,
    written: BTreeMap<StreamId, Vec<StreamEntry>>,
    next_object: u64,
    /// More than any block costs in memory, in bytes.
    block_cost_max: u64,
}

/// How objects are made.
#[derive(Debug, Clone, Copy)]
struct Shape {
    streams: u64,
    objects: u64,
    /// Entries of each stream in each object, and their bytes.
    entries: u64,
    entry_bytes: usize,
    block_bytes: usize,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::shared();
        let (bucket, storage) = storage(&clock);
        Self {
            shelf: Shelf::default(),
            bucket,
            storage,
            clock,
            written: BTreeMap::new(),
            next_object: 1,
            block_cost_max: 0,
        }
    }

    async fn of(shape: Shape) -> Self {
        let mut world = Self::new();
        for _ in 0..shape.objects {
            let entries = vec![shape.entry_bytes; shape.entries as usize];
            let streams = (0..shape.streams).map(|stream| (StreamId(stream), entries.clone()));
            world.upload(streams.collect(), shape.block_bytes).await;
        }
        world
    }

    /// Uploads one object with entries of these sizes.
    async fn upload(&mut self, streams: BTreeMap<StreamId, Vec<usize>>, block_bytes: usize) {
        let mut builder = ObjectBuilder::new(block_bytes);
        // A block ends with the entry that fills it.
        let largest = streams.values().flatten().max().copied().unwrap_or(0);
        let cost = (block_bytes + largest) as u64 + 4 * KIB;
        self.block_cost_max = self.block_cost_max.max(cost);
        for (stream, sizes) in streams {
            let written = self.written.entry(stream).or_default();
            for size in sizes {
                let base_offset = written.last().and_then(StreamEntry::end_offset);
                let base_offset = base_offset.unwrap_or(0);
                let entry = StreamEntry {
                    stream,
                    epoch: StreamEpoch(1),
                    base_offset,
                    count: 1 + (base_offset % 3) as u32,
                    payload: Bytes::from(vec![(stream.get() * 31 + base_offset) as u8; size]),
                };
                builder.add(entry.clone()).expect("in order");
                written.push(entry);
            }
        }
        self.put(builder).await;
    }

    /// Puts an object in the place of whatever had its ranges before.
    async fn put(&mut self, builder: ObjectBuilder) {
        if builder.is_empty() {
            return;
        }
        let object = ObjectId(self.next_object);
        self.next_object += 1;
        let built = builder.finish();
        let key = ObjectKey::of("c", object);
        self.storage.put(&key, built.chunks).await.expect("puts");
        let mut shelf = self.shelf.0.lock();
        for range in built.ranges {
            let ranges = shelf.entry(range.stream).or_default();
            ranges.retain(|&start, _| start < range.start || start >= range.end);
            let kind = ObjectKind::StreamSet;
            let size = built.size;
            let range = ObjectRange {
                object,
                size,
                range,
                kind,
            };
            ranges.insert(range.range.start, range);
        }
    }

    /// Rewrites all that is left of a stream as one object, and deletes objects that nothing
    /// refers to any more.
    async fn compact(&mut self, stream: StreamId, block_bytes: usize) {
        let start = self.start(stream);
        let mut builder = ObjectBuilder::new(block_bytes);
        for entry in self.written.get(&stream).into_iter().flatten() {
            if entry.base_offset >= start {
                builder.add(entry.clone()).expect("in order");
            }
        }
        self.put(builder).await;
        self.sweep().await;
    }

    /// Forgets the first range of a stream.
    async fn trim(&mut self, stream: StreamId) {
        if let Some(ranges) = self.shelf.0.lock().get_mut(&stream) {
            ranges.pop_first();
        }
        self.sweep().await;
    }

    async fn sweep(&self) {
        let live: Vec<ObjectId> = {
            let shelf = self.shelf.0.lock();
            let ranges = shelf.values().flat_map(BTreeMap::values);
            ranges.map(|range| range.object).collect()
        };
        let ids = (1..self.next_object).map(ObjectId);
        let dead: Vec<_> = ids
            .filter(|id| !live.contains(id))
            .map(|id| ObjectKey::of("c", id))
            .collect();
        // A bucket that fails keeps them a little longer.
        let _ = self.storage.delete(&dead).await;
    }

    fn start(&self, stream: StreamId) -> Offset {
        let shelf = self.shelf.0.lock();
        let first = shelf.get(&stream).and_then(BTreeMap::first_key_value);
        first.map_or(Offset::MAX, |(&start, _)| start)
    }

    fn end(&self, stream: StreamId) -> Offset {
        let last = self.written.get(&stream).and_then(|written| written.last());
        last.and_then(StreamEntry::end_offset).unwrap_or(0)
    }

    fn cache(&self, bytes: u64, prefetch_max_bytes: u64, eviction: Eviction) -> BlockCache {
        self.cache_over(
            self.storage.clone().into(),
            bytes,
            prefetch_max_bytes,
            eviction,
        )
    }

    fn cache_over(
        &self,
        sources: Sources,
        bytes: u64,
        prefetch_max_bytes: u64,
        eviction: Eviction,
    ) -> BlockCache {
        let config = BlockCacheConfig {
            prefetch_max_bytes,
            eviction,
            ..BlockCacheConfig::new("c", bytes)
        };
        let meta = Arc::new(FakeMeta(self.shelf.clone()));
        BlockCache::new(config, sources, meta, self.clock.clone())
    }

    /// Sources of whose network misses get all that they want and prefetches so many bytes per second.
    fn with_prefetch_rate(&self, bytes_per_s: u64) -> Sources {
        let limited = |rate, tier| {
            let ingress = Limiter::new(self.clock.clone(), rate);
            self.storage.limited(share(&self.clock, ingress, tier))
        };
        Sources {
            miss: limited(None, Tier::CatchUpMiss),
            prefetch: limited(Some(bytes_per_s), Tier::Prefetch),
        }
    }

    /// Checks that `read` is what stands at `start`.
    #[track_caller]
    fn check(&self, stream: StreamId, start: Offset, read: &[StreamEntry]) {
        let written = &self.written[&stream];
        let first = written.partition_point(|entry| entry.end_offset() <= Some(start));
        let expected = &written[first..];
        assert!(!read.is_empty() && read.len() <= expected.len());
        assert!(
            read == &expected[..read.len()],
            "other entries than were written"
        );
    }
}

/// A consumer: reads on from where it is.
struct Consumer {
    stream: StreamId,
    at: Offset,
}

impl Consumer {
    fn of(stream: u64) -> Self {
        Self {
            stream: StreamId(stream),
            at: 0,
        }
    }

    /// Reads once; gives whether there was anything left.
    async fn read(&mut self, world: &World, cache: &BlockCache, max_bytes: u64) -> bool {
        let end = world.end(self.stream);
        if self.at >= end {
            return false;
        }
        let read = cache
            .read(self.stream, self.at, end, max_bytes as usize)
            .await;
        let read = read.expect("reads");
        world.check(self.stream, self.at, &read);
        self.at = read
            .last()
            .and_then(StreamEntry::end_offset)
            .expect("an end");
        let metrics = cache.metrics();
        let all = metrics.used_bytes + metrics.bypass_bytes;
        let beside_max = READS_AT_ONCE * world.block_cost_max;
        assert!(all <= metrics.size_bytes + beside_max, "{metrics:?}");
        true
    }
}

fn ratio(metrics: &BlockCacheMetrics) -> f64 {
    metrics.fetched_bytes as f64 / metrics.delivered_bytes as f64
}

/// Until the sweeper has seen that a minute has passed.
async fn everybody_leaves(world: &World) {
    world.clock.advance(Duration::from_secs(61));
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// 200 partitions, read in turns to their ends, with a cache of `part` of what their reads need.
async fn crowd(part: u64, eviction: Eviction) -> BlockCacheMetrics {
    let shape = Shape {
        streams: 200,
        objects: 4,
        entries: 32,
        entry_bytes: 1_024,
        block_bytes: 8 * 1_024,
    };
    let world = World::of(shape).await;
    // What a read of 15 KiB from the middle of a block needs, for every reader.
    let wish = shape.streams * 3 * 9 * KIB;
    let cache = world.cache(wish / part, 0, eviction);
    let mut consumers: Vec<_> = (0..shape.streams).map(Consumer::of).collect();
    let mut more = true;
    while more {
        more = false;
        for few in consumers.chunks_mut(8) {
            let reads = few.iter_mut().map(|one| one.read(&world, &cache, 15 * KIB));
            more |= futures_util::future::join_all(reads).await.contains(&true);
        }
    }
    let metrics = cache.metrics();
    assert!(metrics.peak_bytes <= wish / part, "{metrics:?}");
    assert_eq!(metrics.bypasses, 0);
    everybody_leaves(&world).await;
    let left = cache.metrics();
    assert_eq!((left.readers, left.loads_in_flight), (0, 0));
    // Indexes stay; they have a sixteenth.
    assert!(left.used_bytes <= wish / part / 16, "{left:?}");
    metrics
}

#[tokio::test(start_paused = true)]
async fn a_crowd_reads_everything_once() {
    let metrics = crowd(1, Eviction::Watch).await;
    assert!(ratio(&metrics) <= 1.05, "{} {metrics:?}", ratio(&metrics));
    // At most three blocks for each, although more would fit.
    assert!(metrics.peak_bytes <= 200 * 3 * 9 * KIB);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_with_a_quarter_of_the_cache_reads_almost_everything_once() {
    let metrics = crowd(4, Eviction::Watch).await;
    assert!(ratio(&metrics) <= 1.2, "{} {metrics:?}", ratio(&metrics));
    let lru = crowd(4, Eviction::Lru).await;
    assert!(ratio(&lru) > 1.3, "{} {lru:?}", ratio(&lru));
}

/// A reader that reads ten times as fast as another, and both in a cache that has room for both.
async fn fast_beside_slow(eviction: Eviction) -> BlockCacheMetrics {
    let shape = Shape {
        streams: 2,
        objects: 1,
        entries: 1_280,
        entry_bytes: 1_024,
        block_bytes: 32 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(200 * KIB, 0, eviction);
    let (mut fast, mut slow) = (Consumer::of(0), Consumer::of(1));
    while fast.read(&world, &cache, 40 * KIB).await {
        for _ in 0..9 {
            fast.read(&world, &cache, 40 * KIB).await;
        }
        slow.read(&world, &cache, 4 * KIB).await;
    }
    cache.metrics()
}

#[tokio::test(start_paused = true)]
async fn a_fast_reader_takes_nothing_from_a_slow_one() {
    let watch = fast_beside_slow(Eviction::Watch).await;
    assert!(ratio(&watch) <= 1.07, "{} {watch:?}", ratio(&watch));
    assert_eq!(watch.evicted_unread_blocks, 0);
    let lru = fast_beside_slow(Eviction::Lru).await;
    assert!(
        ratio(&lru) > ratio(&watch) + 0.02,
        "{} {}",
        ratio(&lru),
        ratio(&watch)
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_reads_on_is_prefetched_for() {
    let shape = Shape {
        streams: 1,
        objects: 2,
        entries: 256,
        entry_bytes: 64 * 1_024,
        block_bytes: 512 * 1_024,
    };
    let world = World::of(shape).await;
    let slow = BucketFaults {
        delay: Duration::from_millis(100),
        ..BucketFaults::default()
    };
    world.bucket.set(slow);
    let cache = world.cache(64 << 20, 16 << 20, Eviction::Watch);
    let mut consumer = Consumer::of(0);
    let reads = async { while consumer.read(&world, &cache, 1 << 20).await {} };
    // One after the other, 32 MiB in reads of almost 1 MiB would take 3.4 s.
    let all = tokio::time::timeout(Duration::from_millis(1_500), reads).await;
    let metrics = cache.metrics();
    assert!(all.is_ok(), "{metrics:?}");
    assert!(ratio(&metrics) <= 1.05, "{} {metrics:?}", ratio(&metrics));
    assert!(metrics.prefetch_window_max_bytes >= 4 << 20, "{metrics:?}");
    assert!(metrics.requests < 32, "{metrics:?}");
    assert_eq!(metrics.evicted_unread_blocks, 0);
}

/// A world of one stream of 4 MiB per object, and a bucket of whose network prefetches get nothing.
async fn without_bandwidth_to_spare(streams: u64) -> (World, Sources) {
    let shape = Shape {
        streams,
        objects: 1,
        entries: 64,
        entry_bytes: 64 * 1_024,
        block_bytes: 512 * 1_024,
    };
    let world = World::of(shape).await;
    let clock = world.clock.clone();
    let none = Limiter::new(clock.clone(), Some(1));
    let free = Limiter::new(clock.clone(), None);
    let sources = Sources {
        miss: world
            .storage
            .limited(share(&clock, free, Tier::CatchUpMiss)),
        prefetch: world
            .storage
            .limited(share(&clock, none.clone(), Tier::Prefetch)),
    };
    // What was saved up before is used.
    none.acquire(Tier::Prefetch, 1).await;
    (world, sources)
}

#[tokio::test(start_paused = true)]
async fn a_prefetch_without_bandwidth_holds_no_reader_up() {
    let (world, sources) = without_bandwidth_to_spare(1).await;
    let cache = world.cache_over(sources, 64 << 20, 16 << 20, Eviction::Watch);
    let mut consumer = Consumer::of(0);
    let reads = async { while consumer.read(&world, &cache, 1 << 20).await {} };
    let all = tokio::time::timeout(Duration::from_secs(5), reads).await;
    assert!(all.is_ok(), "{:?}", cache.metrics());
    let metrics = cache.metrics();
    assert!(
        ratio(&metrics) <= 1.05,
        "nothing was read twice: {metrics:?}"
    );
}

/// A reader that is gone takes along what was to be prefetched for it.
#[tokio::test(start_paused = true)]
async fn a_prefetch_that_nobody_wants_any_more_is_given_up() {
    let (world, sources) = without_bandwidth_to_spare(1).await;
    let cache = world.cache_over(sources, 64 << 20, 16 << 20, Eviction::Watch);
    let mut consumer = Consumer::of(0);
    for _ in 0..2 {
        // Half a block each.
        consumer.read(&world, &cache, 256 * KIB).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let metrics = cache.metrics();
    assert_eq!(metrics.loads_in_flight, 1, "a prefetch waits: {metrics:?}");
    everybody_leaves(&world).await;
    let left = cache.metrics();
    assert_eq!((left.readers, left.loads_in_flight), (0, 0));
    assert!(left.used_bytes < 64 * KIB, "only indexes stay: {left:?}");
}

/// One read that needs room takes what it needs, and not what is on its way to all others.
#[tokio::test(start_paused = true)]
async fn a_read_makes_no_more_give_up_than_it_needs() {
    let streams = 12;
    let (world, sources) = without_bandwidth_to_spare(streams + 1).await;
    // Beside the headroom there is room for a block and a prefetch of each.
    let cache = world.cache_over(sources, 30 << 20, 512 * KIB, Eviction::Watch);
    let mut readers: Vec<_> = (0..streams).map(Consumer::of).collect();
    for _ in 0..2 {
        for reader in &mut readers {
            reader.read(&world, &cache, 256 * KIB).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let before = cache.metrics();
    assert_eq!(
        before.loads_in_flight, streams,
        "prefetches wait: {before:?}"
    );
    // What the readers have read goes, what is on its way to them stays.
    let prefetched = before.used_bytes / 2 + 200 * KIB;
    cache.set_bytes(prefetched * 16 / 15);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(cache.metrics().loads_in_flight, streams);
    Consumer::of(streams).read(&world, &cache, 256 * KIB).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let after = cache.metrics();
    assert_eq!(after.bypasses, 0, "{after:?}");
    assert_eq!(after.loads_in_flight, streams - 1, "{after:?}");
}

#[tokio::test]
async fn neighbours_share_a_request() {
    let shape = Shape {
        streams: 20,
        objects: 1,
        entries: 4,
        entry_bytes: 1_024,
        block_bytes: 8 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(4 << 20, 0, Eviction::Watch);
    // The index is read by whoever comes first.
    Consumer::of(0).read(&world, &cache, 1).await;
    let before = world.bucket.counts().gets;
    let mut consumers: Vec<_> = (1..20).map(Consumer::of).collect();
    let reads = consumers
        .iter_mut()
        .map(|one| one.read(&world, &cache, 64 * KIB));
    futures_util::future::join_all(reads).await;
    assert_eq!(world.bucket.counts().gets - before, 1);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_read_and_a_second_consumer_cost_nothing() {
    let shape = Shape {
        streams: 1,
        objects: 1,
        entries: 256,
        entry_bytes: 1_024,
        block_bytes: 8 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(4 << 20, 0, Eviction::Watch);
    let (mut one, mut other) = (Consumer::of(0), Consumer::of(0));
    while one.read(&world, &cache, 20 * KIB).await {
        assert!(other.read(&world, &cache, 20 * KIB).await);
        assert_eq!(one.at, other.at);
    }
    let metrics = cache.metrics();
    assert_eq!(metrics.readers, 1, "they are one position");
    assert!(ratio(&metrics) <= 0.55, "{} {metrics:?}", ratio(&metrics));
    // What was read through is gone, but for the last read.
    assert!(metrics.used_bytes <= 64 * KIB, "{metrics:?}");
    // A rewind is a new reader, and reads again.
    let mut again = Consumer::of(0);
    while again.read(&world, &cache, 20 * KIB).await {}
    assert!(cache.metrics().fetched_bytes > metrics.fetched_bytes + 120 * KIB);
}

/// Repetitions that come to other ends make a reader each, however often they come.
#[tokio::test(start_paused = true)]
async fn repetitions_of_other_lengths_do_not_gather_readers() {
    let shape = Shape {
        streams: 1,
        objects: 1,
        entries: 64,
        entry_bytes: 1_024,
        block_bytes: 8 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(4 << 20, 0, Eviction::Watch);
    let (stream, end) = (StreamId(0), world.end(StreamId(0)));
    for round in 0..30_usize {
        let max_bytes = [2_048, 9_000, 20_000][round % 3];
        let read = cache.read(stream, 0, end, max_bytes).await.expect("reads");
        world.check(stream, 0, &read);
    }
    let metrics = cache.metrics();
    // The index, and each block once.
    assert_eq!((metrics.readers, metrics.misses), (3, 3), "{metrics:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_given_up_leaves_its_load_to_others() {
    let shape = Shape {
        streams: 1,
        objects: 1,
        entries: 8,
        entry_bytes: 1_024,
        block_bytes: 4 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(1 << 20, 0, Eviction::Watch);
    let slow = BucketFaults {
        delay: Duration::from_millis(50),
        ..BucketFaults::default()
    };
    world.bucket.set(slow);
    let end = world.end(StreamId(0));
    let read = || cache.read(StreamId(0), 0, end, 4 * KIB as usize);
    let given_up = tokio::time::timeout(Duration::from_millis(80), read()).await;
    assert!(given_up.is_err(), "the index has come, the block has not");
    read().await.expect("reads");
    assert_eq!(world.bucket.counts().gets, 2);
}

#[tokio::test(start_paused = true)]
async fn clients_that_keep_their_answers_stop_nobody_for_good() {
    let shape = Shape {
        streams: 8,
        objects: 1,
        entries: 8,
        entry_bytes: 4_096,
        block_bytes: 8 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(40 * KIB, 0, Eviction::Watch);
    let mut answers = Vec::new();
    let reads = async {
        for stream in (0..8).map(StreamId) {
            for entry in 0..8 {
                let start = world.written[&stream][entry].base_offset;
                let read = cache.read(stream, start, world.end(stream), 1).await;
                answers.push(read.expect("goes on"));
                assert!(cache.used_bytes() <= 40 * KIB);
            }
        }
    };
    let all = tokio::time::timeout(Duration::from_secs(3), reads).await;
    assert!(all.is_ok(), "waits get shorter while nothing comes free");
    let metrics = cache.metrics();
    assert!(metrics.bypasses > 0, "{metrics:?}");
    // What was read beside the budget was copied, and is the answers' own.
    assert_eq!(metrics.bypass_bytes, 0);
    drop(answers);
    assert!(cache.used_bytes() < 40 * KIB);
}

#[tokio::test(start_paused = true)]
async fn a_smaller_budget_holds_at_once() {
    let shape = Shape {
        streams: 40,
        objects: 1,
        entries: 32,
        entry_bytes: 1_024,
        block_bytes: 8 * 1_024,
    };
    let world = World::of(shape).await;
    let cache = world.cache(4 << 20, 0, Eviction::Watch);
    let mut consumers: Vec<_> = (0..40).map(Consumer::of).collect();
    for consumer in &mut consumers {
        consumer.read(&world, &cache, 12 * KIB).await;
    }
    assert!(cache.used_bytes() > 500 * KIB);
    cache.set_bytes(100 * KIB);
    assert!(cache.used_bytes() <= 100 * KIB, "{:?}", cache.metrics());
    for consumer in &mut consumers {
        while consumer.read(&world, &cache, 12 * KIB).await {}
    }
}

/// Threads that read, give up, rewind and change how far is prefetched at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_agree() {
    let shape = Shape {
        streams: 24,
        objects: 3,
        entries: 64,
        entry_bytes: 1_024,
        block_bytes: 8 * 1_024,
    };
    let world = Arc::new(World::of(shape).await);
    let cache = world.cache(600 * KIB, 1 << 20, Eviction::Watch);
    let tasks = (0..48_u64).map(|nth| {
        let (world, cache) = (Arc::clone(&world), cache.clone());
        tokio::spawn(async move {
            let mut consumer = Consumer::of(nth % 24);
            for round in 0..60_u64 {
                if !consumer
                    .read(&world, &cache, (1 + (nth + round) % 20) * KIB)
                    .await
                {
                    consumer.at = 0;
                }
                if (nth + round) % 7 == 0 {
                    let end = world.end(consumer.stream);
                    let read = cache.read(consumer.stream, consumer.at, end, 20_000);
                    let _given_up = tokio::time::timeout(Duration::from_micros(50), read).await;
                }
                if nth == 0 {
                    cache.set_prefetch_max_bytes(round % 3 * 512 * KIB);
                }
            }
        })
    });
    let all = futures_util::future::join_all(tasks.collect::<Vec<_>>());
    let all = tokio::time::timeout(Duration::from_secs(60), all).await;
    for task in all.expect("nobody waits for good") {
        task.expect("reads what was written");
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let metrics = cache.metrics();
    assert_eq!(
        (metrics.loads_in_flight, metrics.bypasses),
        (0, 0),
        "{metrics:?}"
    );
    world.clock.advance(Duration::from_secs(61));
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let left = cache.metrics();
    assert_eq!(left.readers, 0);
    assert!(left.used_bytes <= left.size_bytes / 16, "{left:?}");
}
