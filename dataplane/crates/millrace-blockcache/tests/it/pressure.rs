//! Little memory or little bandwidth: who gives up what, and that no more goes than is needed.

use std::{sync::Arc, time::Duration};

use crate::{
    fake_meta::{FakeMeta, Objects},
    storage::{share, storage},
};
use bytes::Bytes;
use futures_util::future::join_all;
use millrace_blockcache::{BlockCache, BlockCacheConfig, BlockCacheMetrics, Sources};
use millrace_limiter::{Limiter, Tier};
use millrace_meta::{ObjectKind, ObjectRange};
use millrace_model::{ObjectId, Offset, StreamEpoch, StreamId};
use millrace_objects::{ObjectBuilder, ObjectKey, ObjectStorage, StreamEntry};
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::ManualClock;

const KIB: u64 = 1024;

/// Entries of one block, each of one offset, and the payload of each in bytes.
const BLOCK_ENTRIES: u64 = 8;
const ENTRY_BYTES: usize = 8 * KIB as usize;

/// The payload of a block, and more than it costs in memory, in bytes.
const BLOCK_BYTES: u64 = 64 * KIB;
const COST_BYTES: u64 = 66 * KIB;

/// One object for each stream, so that requests are never shared between streams.
#[derive(Debug, Clone, Default)]
struct Shelf(Vec<ObjectRange>);

impl Objects for Shelf {
    fn objects_of(&self, stream: StreamId, from: Offset, limit: usize) -> Vec<ObjectRange> {
        let of_stream = self.0.iter().filter(|range| range.range.stream == stream);
        let behind = of_stream.filter(|range| range.range.end > from);
        behind.take(limit).copied().collect()
    }
}

struct World {
    shelf: Shelf,
    bucket: FaultyBucket,
    storage: ObjectStorage,
    clock: Arc<ManualClock>,
    /// The end of every stream.
    end: Offset,
}

impl World {
    /// So many streams of so many blocks.
    async fn of(streams: u64, blocks: u64) -> Self {
        let clock = ManualClock::shared();
        let (bucket, storage) = storage(&clock);
        let (mut shelf, end) = (Shelf::default(), blocks * BLOCK_ENTRIES);
        for stream in (0..streams).map(StreamId) {
            let mut builder = ObjectBuilder::new(BLOCK_BYTES as usize);
            for base_offset in 0..end {
                let entry = StreamEntry {
                    stream,
                    epoch: StreamEpoch(1),
                    base_offset,
                    count: 1,
                    payload: payload(stream, base_offset),
                };
                builder.add(entry).expect("in order");
            }
            let (object, built) = (ObjectId(stream.get() + 1), builder.finish());
            let key = ObjectKey::of("c", object);
            storage.put(&key, built.chunks).await.expect("puts");
            shelf
                .0
                .extend(built.ranges.into_iter().map(|range| ObjectRange {
                    object,
                    size: built.size,
                    range,
                    kind: ObjectKind::StreamSet,
                }));
        }
        Self {
            shelf,
            bucket,
            storage,
            clock,
            end,
        }
    }

    fn cache(&self, sources: Sources, bytes: u64) -> BlockCache {
        let config = BlockCacheConfig {
            prefetch_max_bytes: 1 << 20,
            ..BlockCacheConfig::new("c", bytes)
        };
        let meta = Arc::new(FakeMeta(self.shelf.clone()));
        BlockCache::new(config, sources, meta, self.clock.clone())
    }

    /// Prefetches have no share of the network, misses all that they want.
    async fn without_prefetch_bandwidth(&self) -> Sources {
        let none = Limiter::new(self.clock.clone(), Some(1));
        // The saved-up byte would let one large request pass.
        none.acquire(Tier::Prefetch, 1).await;
        let free = Limiter::new(self.clock.clone(), None);
        Sources {
            miss: self
                .storage
                .limited(share(&self.clock, free, Tier::CatchUpMiss)),
            prefetch: self
                .storage
                .limited(share(&self.clock, none, Tier::Prefetch)),
        }
    }

    fn delay(&self, delay: Duration) {
        self.bucket.set(BucketFaults {
            delay,
            ..BucketFaults::default()
        });
    }

    /// Reads one block's worth from the `nth` block on.
    async fn read(&self, cache: &BlockCache, stream: u64, nth: u64) -> Vec<StreamEntry> {
        let (stream, start) = (StreamId(stream), nth * BLOCK_ENTRIES);
        let read = cache.read(stream, start, self.end, BLOCK_BYTES as usize);
        let read = read.await.expect("reads");
        assert!(!read.is_empty());
        for (entry, offset) in read.iter().zip(start..) {
            assert_eq!(entry.base_offset, offset);
            assert_eq!(entry.payload, payload(stream, offset));
        }
        read
    }
}

fn payload(stream: StreamId, offset: Offset) -> Bytes {
    Bytes::from(vec![(stream.get() * 31 + offset) as u8; ENTRY_BYTES])
}

/// Asks for the numbers all the time, until `of` is done; gives the most memory that there was.
async fn most_memory(cache: &BlockCache, of: impl Future<Output = ()>) -> u64 {
    let mut most = 0;
    let watch = async {
        loop {
            let BlockCacheMetrics {
                used_bytes,
                bypass_bytes,
                ..
            } = cache.metrics();
            most = most.max(used_bytes + bypass_bytes);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = watch => {}
        () = of => {}
    }
    most
}

/// Blocks beside the budget at one time, as the crate says.
const BYPASSES_MAX: u64 = 64;

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_takes_hold_no_blocks_beside_the_budget() {
    let streams = 3 * BYPASSES_MAX;
    let world = World::of(streams, 1).await;
    let size = 512 * KIB;
    let cache = world.cache(world.storage.clone().into(), size);
    world.delay(Duration::from_millis(20));
    let mut answers = Vec::new();
    let reads = async {
        // One entry each: an answer is an eighth of its block.
        let reads = (0..streams)
            .map(StreamId)
            .map(|stream| cache.read(stream, 0, world.end, 1));
        answers = join_all(reads).await;
    };
    let most = most_memory(&cache, reads).await;
    assert!(
        answers
            .iter()
            .all(|read| read.as_ref().is_ok_and(|read| read.len() == 1))
    );
    let metrics = cache.metrics();
    assert!(metrics.bypasses > BYPASSES_MAX, "{metrics:?}");
    assert!(
        most <= size + BYPASSES_MAX * COST_BYTES,
        "{most} of {size}: {metrics:?}"
    );
    assert_eq!(metrics.bypass_bytes, 0, "the answers are still there");
}

#[tokio::test(start_paused = true)]
async fn what_a_read_needs_is_taken_of_prefetches_under_way_and_no_more() {
    let (old, new) = (4, 12);
    let world = World::of(old + new, 16).await;
    // Four windows of half a mebibyte and what was read before them, and an eighth is kept free.
    let size = (old * (8 + 1) * COST_BYTES) * 8 / 7 * 16 / 15;
    let cache = world.cache(world.storage.clone().into(), size);
    for stream in 0..old + new {
        // Their indexes.
        world.read(&cache, stream, 15).await;
    }
    world.clock.advance(Duration::from_secs(61));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = cache.metrics();
    assert_eq!(before.readers, 0);
    for stream in 0..old {
        world.read(&cache, stream, 0).await;
    }
    world.delay(Duration::from_millis(200));
    join_all((0..old).map(|stream| world.read(&cache, stream, 1))).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let metrics = cache.metrics();
    assert!(
        metrics.used_bytes > size * 3 / 4,
        "windows fill it: {metrics:?}"
    );
    assert!(metrics.loads_in_flight >= old, "{metrics:?}");
    // More than is free, and than was read through.
    join_all((old..old + new).map(|stream| world.read(&cache, stream, 0))).await;
    let metrics = cache.metrics();
    assert_eq!(metrics.bypasses, 0, "{metrics:?}");
    assert!(
        (1..=new).contains(&metrics.evicted_unread_blocks),
        "what came for nobody counts: {metrics:?}"
    );
    for nth in 2..10 {
        join_all((0..old).map(|stream| world.read(&cache, stream, nth))).await;
    }
    let metrics = cache.metrics();
    let delivered = metrics.delivered_bytes - before.delivered_bytes;
    let windows_ahead = old * 8 * BLOCK_BYTES;
    let again = (metrics.fetched_bytes - before.fetched_bytes).saturating_sub(delivered);
    assert!(
        again <= windows_ahead + (new + 2) * BLOCK_BYTES,
        "{again} {metrics:?}"
    );
    assert!(metrics.evicted_unread_blocks <= new, "{metrics:?}");
}

#[tokio::test(start_paused = true)]
async fn a_prefetch_without_bandwidth_goes_with_its_reader() {
    let world = World::of(1, 32).await;
    let sources = world.without_prefetch_bandwidth().await;
    let cache = world.cache(sources, 8 << 20);
    world.read(&cache, 0, 0).await;
    world.read(&cache, 0, 1).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let metrics = cache.metrics();
    assert!(metrics.loads_in_flight > 0, "{metrics:?}");
    assert!(metrics.used_bytes >= 8 * BLOCK_BYTES, "{metrics:?}");
    let gets = world.bucket.counts().gets;
    world.clock.advance(Duration::from_secs(61));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = cache.metrics();
    assert_eq!((left.readers, left.loads_in_flight), (0, 0), "{left:?}");
    assert!(left.used_bytes <= left.size_bytes / 16, "indexes: {left:?}");
    assert_eq!(world.bucket.counts().gets, gets, "it was never sent");
    assert_eq!(left.evicted_unread_blocks, 0, "nothing was fetched");
}

/// A prefetch that waits for bandwidth may wait for long: of what it is to bring, the part that others
/// need more goes at once, not when it has come.
#[tokio::test(start_paused = true)]
async fn a_prefetch_without_bandwidth_makes_room_at_once() {
    let new = 12;
    let world = World::of(1 + new, 16).await;
    let sources = world.without_prefetch_bandwidth().await;
    let size = 12 * COST_BYTES * 8 / 7 * 16 / 15;
    let cache = world.cache(sources, size);
    world.read(&cache, 0, 0).await;
    world.read(&cache, 0, 1).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let metrics = cache.metrics();
    assert!(metrics.used_bytes >= 8 * BLOCK_BYTES, "{metrics:?}");
    world.delay(Duration::from_millis(50));
    // Of these, some have to be made room for; the prefetch keeps a part.
    let some = 7;
    join_all((1..=some).map(|stream| world.read(&cache, stream, 0))).await;
    let metrics = cache.metrics();
    assert_eq!(
        (metrics.bypasses, metrics.waits_for_room),
        (0, 0),
        "{metrics:?}"
    );
    assert_eq!(metrics.evicted_unread_blocks, 0, "nothing was fetched");
    // The reader goes on all the same, over what was taken and what was not.
    for nth in 2..16 {
        world.read(&cache, 0, nth).await;
    }
    assert_eq!(cache.metrics().bypasses, 0, "{:?}", cache.metrics());
}

#[tokio::test(start_paused = true)]
async fn a_long_read_keeps_no_idle_readers() {
    let world = World::of(3, 4).await;
    let cache = world.cache(world.storage.clone().into(), 8 << 20);
    for stream in 0..3 {
        // Their indexes.
        world.read(&cache, stream, 3).await;
    }
    world.clock.advance(Duration::from_secs(61));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cache.metrics().readers, 0);
    world.delay(Duration::from_secs(5));
    let long = world.read(&cache, 0, 0);
    let others = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        world.delay(Duration::ZERO);
        world.read(&cache, 1, 0).await;
        world.read(&cache, 2, 0).await;
        assert_eq!(cache.metrics().readers, 3);
        world.clock.advance(Duration::from_secs(61));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(cache.metrics().readers, 1, "the one that reads");
    };
    tokio::join!(long, others);
    // Its minute begins when the read has ended.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(cache.metrics().readers, 1);
}
