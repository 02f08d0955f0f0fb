//! Whatever the bucket does while a broker runs, all that was appended ends in committed objects: in
//! order, once, and with its own bytes.
//!
//! `MILLRACE_SIM_SEEDS=10000` runs a tenth as many seeds, for each takes a quarter of a second of real
//! time; `MILLRACE_SIM_SEED=17` makes the choices of one again.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use crate::world::{World, append, small};
use millrace_meta::MetaStore;
use millrace_model::{Offset, StreamId};
use millrace_objects::{ObjectReader, StreamEntry, bucket::TimeoutPolicy};
use millrace_stream::Entry;
use millrace_testkit::BucketFaults;

/// Seeds of an ordinary run.
const SEEDS: u64 = 24;

const STREAMS: usize = 4;

fn seeds() -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("MILLRACE_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MILLRACE_SIM_SEEDS").map_or(SEEDS, |seeds| seeds / 10),
    }
}

/// A bucket that shows each fault now and then, and some that it shows often.
fn faults(world: &World) -> BucketFaults {
    let up_to = |permille: u64| world.random.below(permille + 1);
    BucketFaults {
        fail_permille: up_to(500),
        lose_reply_permille: up_to(300),
        conflict_permille: up_to(100),
        repeat_permille: up_to(300),
        stall_permille: up_to(60),
        // Longer than the bucket may take, or shorter.
        stall: Duration::from_millis(up_to(60)),
        delay: Duration::from_micros(up_to(2_000)),
        ..BucketFaults::default()
    }
}

/// Appends to all streams while the faults change; what was appended.
async fn produce(world: &World, ids: &[StreamId]) -> BTreeMap<StreamId, Vec<Entry>> {
    let store = world.open().await;
    let streams = store.open_streams(ids).await.expect("open");
    let mut appended: BTreeMap<StreamId, Vec<Entry>> = BTreeMap::new();
    for _ in 0..3 {
        world.bucket.set(faults(world));
        for _ in 0..20 {
            let below = |bound: usize| world.random.below(bound as u64) as usize;
            let stream = &streams[below(STREAMS)];
            let length = if below(8) == 0 { 20_000 } else { 3_000 };
            let count = 1 + below(4) as u32;
            let (entry, ticket) = append(stream, count, 1, 24 + below(length)).await;
            ticket.await.expect("the bucket is not in the way");
            appended.entry(stream.id()).or_default().push(entry);
        }
    }
    // While it still fails.
    let flushed = tokio::time::timeout(Duration::from_secs(60), store.flush()).await;
    flushed.expect("uploads end").expect("they are committed");
    for stream in &streams {
        assert_eq!(committed(world, stream.id()).await, stream.next_offset());
    }
    appended
}

/// Up to where a stream is committed, without a gap.
async fn committed(world: &World, stream: StreamId) -> Offset {
    let objects = world.meta.objects_of(stream, 0, 10_000).await;
    let mut end = 0;
    for object in objects.expect("answers") {
        assert_eq!(object.range.start, end, "{object:?}");
        end = object.range.end;
    }
    end
}

/// Everything in the bucket, by stream and offset.
async fn stored(world: &World) -> BTreeMap<StreamId, Vec<StreamEntry>> {
    world.bucket.set(BucketFaults::default());
    let storage = world.storage();
    let mut stored: BTreeMap<StreamId, Vec<StreamEntry>> = BTreeMap::new();
    for listed in storage.list("", None, 10_000).await.expect("lists") {
        let reader = ObjectReader::open(&storage, listed.key, listed.size).await;
        let reader = reader.expect("a sound object");
        for block in reader.blocks() {
            let entries = reader.read_block(&storage, block).await;
            for entry in entries.expect("a sound block") {
                stored.entry(entry.stream).or_default().push(entry);
            }
        }
    }
    for entries in stored.values_mut() {
        entries.sort_by_key(|entry| entry.base_offset);
    }
    stored
}

async fn all_appended_is_stored_once(seed: u64) -> u64 {
    let mut world = World::new(seed, small(), 4 * 1024 * 1024).await;
    world.timeout = TimeoutPolicy {
        fixed: Duration::from_millis(30),
        ..TimeoutPolicy::default()
    };
    let (_, ids) = world.create_streams(STREAMS as u32 / 2).await;
    let appended = produce(&world, &ids).await;
    // The check itself is no matter of time.
    world.timeout = TimeoutPolicy::default();
    let stored = stored(&world).await;
    assert_eq!(
        stored.keys().collect::<Vec<_>>(),
        appended.keys().collect::<Vec<_>>(),
        "seed {seed}"
    );
    for (stream, appended) in appended {
        let found: Vec<Entry> = stored[&stream]
            .iter()
            .map(|entry| Entry {
                base_offset: entry.base_offset,
                count: entry.count,
                payload: entry.payload.clone(),
            })
            .collect();
        assert!(
            found == appended,
            "seed {seed}: {stream:?} has something else"
        );
    }
    world.bucket.counts().faults
}

#[test]
fn what_is_appended_ends_in_objects_once_and_in_order_whatever_the_bucket_does() {
    let mut shown = 0;
    for seed in seeds() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        shown += runtime.block_on(all_appended_is_stored_once(seed));
    }
    assert!(shown > 0, "no fault was shown");
}
