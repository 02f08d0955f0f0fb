//! Objects that are put together from the blocks of others hold the same entries, wherever the bytes
//! went.

use bytes::Bytes;
use millrace_model::{ObjectId, StreamEpoch, StreamId};
use millrace_objects::{
    ASSEMBLY_BYTES_MAX, Assembled, AssemblyError, BlockRef, Built, ObjectAssembly, ObjectBuilder,
    ObjectKey, ObjectReader, ObjectStorage, PutError, ReadError, StreamEntry,
    bucket::{BucketUri, RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::{SeededRandom, SystemClock};
use proptest::prelude::*;

const BLOCK_BYTES: usize = 256;

fn key(id: u64) -> ObjectKey {
    ObjectKey::of("assembly", ObjectId(id))
}

struct World {
    bucket: FaultyBucket,
    storage: ObjectStorage,
}

impl World {
    /// A bucket in memory copies ranges by itself.
    fn memory() -> Self {
        Self::over(StoreBucket::memory())
    }

    fn over(bucket: StoreBucket) -> Self {
        let (clock, random) = (SystemClock::shared(), SeededRandom::shared(1));
        let bucket = FaultyBucket::new(bucket, random.clone());
        let retry = RetryPolicy {
            delay_base: std::time::Duration::from_millis(1),
            ..RetryPolicy::default()
        };
        let timeout = TimeoutPolicy::default();
        let storage = ObjectStorage::over(bucket.clone(), retry, timeout, clock, random);
        Self { bucket, storage }
    }

    async fn put(&self, id: u64, entries: &[StreamEntry]) -> ObjectReader {
        let built = build(entries);
        let size = built.size;
        self.storage
            .put(&key(id), built.chunks)
            .await
            .expect("puts");
        self.open(id, size).await
    }

    async fn open(&self, id: u64, size: u64) -> ObjectReader {
        let opened = ObjectReader::open(&self.storage, key(id), size).await;
        opened.expect("opens")
    }

    async fn entries(&self, id: u64, size: u64) -> Vec<StreamEntry> {
        let reader = self.open(id, size).await;
        let mut entries = Vec::new();
        for block in reader.blocks() {
            entries.extend(
                reader
                    .read_block(&self.storage, block)
                    .await
                    .expect("sound"),
            );
        }
        entries
    }

    /// Puts objects together one after the other, each as far as it goes.
    async fn join(&self, id: u64, sources: &[ObjectReader], copy_from: u64) -> Assembled {
        let mut assembly = ObjectAssembly::new(self.storage.clone(), key(id), copy_from);
        for source in sources {
            let blocks = source.blocks();
            assembly
                .take_over(source, blocks)
                .await
                .expect("takes over");
        }
        let planned = assembly.size();
        let assembled = assembly.finish().await.expect("finishes");
        assert_eq!(assembled.size, planned);
        assembled
    }
}

fn build(entries: &[StreamEntry]) -> Built {
    let mut builder = ObjectBuilder::new(BLOCK_BYTES);
    for entry in entries {
        builder.add(entry.clone()).expect("in order");
    }
    builder.finish()
}

fn entry(stream: u64, base_offset: u64, length: usize) -> StreamEntry {
    let payload: Vec<u8> = (0..length)
        .map(|at| (at as u64 ^ base_offset ^ stream) as u8)
        .collect();
    StreamEntry {
        stream: StreamId(stream),
        epoch: StreamEpoch(3),
        base_offset,
        count: 2,
        payload: payload.into(),
    }
}

/// Entries with gaps of any size, cut into objects.
fn any_objects() -> impl Strategy<Value = Vec<Vec<StreamEntry>>> {
    let gap = prop_oneof![4 => Just(0_u64), 1 => 0..100_u64, 1 => (1_u64 << 31)..(1 << 40)];
    let entry_of = (gap, 0..600_usize);
    let object = prop::collection::vec(entry_of, 1..30);
    prop::collection::vec(object, 1..6).prop_map(|objects| {
        let mut next = 0;
        let mut cut = |object: Vec<(u64, usize)>| {
            let entries = object.into_iter().map(|(gap, length)| {
                let entry = entry(1, next + gap, length);
                next = entry.base_offset + 2;
                entry
            });
            entries.collect::<Vec<_>>()
        };
        objects.into_iter().map(&mut cut).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out(objects in any_objects(), copy_from in 1..4_000_u64, seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let world = World::memory();
            let mut sources = Vec::new();
            for (id, object) in (1..).zip(&objects) {
                sources.push(world.put(id, object).await);
            }
            world.bucket.set(BucketFaults {
                fail_permille: seed % 100,
                lose_reply_permille: seed % 70,
                flip_permille: seed % 30,
                ..BucketFaults::default()
            });
            let joined = world.join(100, &sources, copy_from).await;
            world.bucket.set(BucketFaults::default());
            let expected: Vec<StreamEntry> = objects.concat();
            assert_eq!(world.entries(100, joined.size).await, expected);
            let data: u64 = sources.iter().flat_map(ObjectReader::blocks)
                .map(|block| u64::from(block.size)).sum();
            assert!(joined.copied_bytes <= data);
            let largest = sources.iter().map(|source| source.blocks().iter()
                .map(|block| u64::from(block.size)).sum::<u64>()).max();
            assert!(largest < Some(2 * copy_from) || joined.copied_bytes > 0);
        });
    }
}

#[tokio::test]
async fn the_store_copies_what_is_large_and_only_the_rest_passes_through_here() {
    let world = World::memory();
    let large: Vec<StreamEntry> = (0..40).map(|n| entry(1, n * 2, 200)).collect();
    let small = [entry(1, 100, 200)];
    let last: Vec<StreamEntry> = (60..100).map(|n| entry(1, n * 2, 200)).collect();
    let sources = [
        world.put(1, &large).await,
        world.put(2, &small).await,
        world.put(3, &last).await,
    ];
    let before = world.bucket.counts();
    let joined = world.join(9, &sources, 2_000).await;
    let after = world.bucket.counts();
    assert_eq!(after.copies - before.copies, 2);
    // The small object, and what is read of the last one so that their part is large enough.
    assert!(joined.copied_bytes > joined.size * 3 / 4);
    assert_eq!(after.completions - before.completions, 1);
    let expected = [&large[..], &small, &last].concat();
    assert_eq!(world.entries(9, joined.size).await, expected);
}

#[tokio::test]
async fn a_store_that_does_not_copy_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = BucketUri::File(folder.path().join("bucket"));
    let world = World::over(StoreBucket::open(&uri).expect("opens"));
    let random = SeededRandom::shared(5);
    // More than an assembly holds, so that it is written in parts that suit the folder.
    let mut sources = Vec::new();
    let (mut expected, mut bytes) = (Vec::new(), 0);
    for id in 1..=5_u64 {
        let entries: Vec<StreamEntry> = (0..10)
            .map(|n| entry(1, id * 100 + n * 2, 900_000 + random.below(7_777) as usize))
            .collect();
        bytes += entries
            .iter()
            .map(|entry| entry.payload.len() as u64)
            .sum::<u64>();
        sources.push(world.put(id, &entries).await);
        expected.extend(entries);
    }
    assert!(bytes > ASSEMBLY_BYTES_MAX + ASSEMBLY_BYTES_MAX / 4);
    let joined = world.join(9, &sources, 5 << 20).await;
    assert_eq!(joined.copied_bytes, 0);
    assert!(world.bucket.counts().parts >= 2);
    assert_eq!(world.entries(9, joined.size).await, expected);
}

/// A small object for which a copy was tried is written at once, and what the try had started goes.
#[tokio::test]
async fn a_copy_that_the_store_refuses_leaves_no_upload() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("bucket");
    let world = World::over(StoreBucket::open(&BucketUri::File(root.clone())).expect("opens"));
    let entries: Vec<StreamEntry> = (0..40).map(|n| entry(1, n * 2, 200)).collect();
    let source = world.put(1, &entries).await;
    let joined = world.join(9, &[source], 1_000).await;
    assert_eq!(world.entries(9, joined.size).await, entries);
    assert_eq!(files(&root), 2, "the two objects");
    assert_eq!(world.bucket.counts().parts, 0);
}

/// Files in a folder and in those within it.
fn files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let count = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("is there").path();
        if path.is_dir() { files(&path) } else { 1 }
    };
    entries.map(count).sum()
}

#[tokio::test]
async fn a_corrupt_block_is_never_taken_over() {
    let world = World::memory();
    let source = world.put(1, &[entry(1, 0, 100)]).await;
    let block = source.blocks()[0];
    let bytes = source
        .read_blocks(&world.storage, &[block])
        .await
        .expect("sound");
    let mut flipped = bytes[0].to_vec();
    flipped[50] ^= 1;
    let mut assembly = ObjectAssembly::new(world.storage.clone(), key(9), 1 << 30);
    let refused = assembly.append(&block, Bytes::from(flipped)).await;
    assert!(matches!(refused, Err(AssemblyError::Block { .. })));

    world.bucket.set(BucketFaults {
        flip_permille: 1_000,
        ..BucketFaults::default()
    });
    let mut assembly = ObjectAssembly::new(world.storage.clone(), key(9), 1 << 30);
    let refused = assembly.take_over(&source, source.blocks()).await;
    let corrupt = |error: &ReadError| matches!(error, ReadError::Corrupt { .. });
    assert!(matches!(refused, Err(AssemblyError::Read(error)) if corrupt(&error)));
}

#[tokio::test]
async fn blocks_out_of_order_are_refused() {
    let world = World::memory();
    let first = world.put(1, &[entry(1, 0, 100)]).await;
    let second = world.put(2, &[entry(1, 2, 100)]).await;
    let mut assembly = ObjectAssembly::new(world.storage.clone(), key(9), 1 << 30);
    assembly
        .take_over(&second, second.blocks())
        .await
        .expect("takes over");
    for source in [&first, &second] {
        let refused = assembly.take_over(source, source.blocks()).await;
        assert!(matches!(refused, Err(AssemblyError::Block { .. })));
    }
}

#[tokio::test]
async fn what_is_given_up_leaves_nothing() {
    let world = World::memory();
    let entries: Vec<StreamEntry> = (0..40).map(|n| entry(1, n * 2, 200)).collect();
    let (source, source_size) = (world.put(1, &entries).await, build(&entries).size);
    let blocks: Vec<BlockRef> = source.blocks().to_vec();
    let mut assembly = ObjectAssembly::new(world.storage.clone(), key(9), 1_000);
    assembly.take_over(&source, &blocks).await.expect("copies");
    assembly.abort().await;
    let listed = world.storage.list("", None, 10).await.expect("lists");
    assert_eq!(listed.len(), 1);

    let mut assembly = ObjectAssembly::new(world.storage.clone(), key(1), 1_000);
    assembly
        .take_over(&source, &blocks[1..])
        .await
        .expect("copies");
    let taken = assembly.finish().await;
    assert!(matches!(
        taken,
        Err(AssemblyError::Put(PutError::Conflict { .. }))
    ));
    assert_eq!(world.entries(1, source_size).await, entries);
}

/// The bounds of S3: parts of 5 MiB or more, and what is smaller is read.
#[tokio::test]
#[ignore = "needs MILLRACE_TEST_S3_URI, the address of a bucket for tests"]
async fn an_s3_server_copies_what_is_large() {
    let uri = std::env::var("MILLRACE_TEST_S3_URI").expect("MILLRACE_TEST_S3_URI names a bucket");
    let uri: BucketUri = uri.parse().expect("a bucket's address");
    let world = World::over(StoreBucket::open(&uri).expect("opens"));
    let keys: Vec<ObjectKey> = (1..=9).map(key).collect();
    world.storage.delete(&keys).await.expect("deletes");
    let (mut sources, mut expected) = (Vec::new(), Vec::new());
    for (id, entries) in (1..).zip([6_u64, 1, 7, 12]) {
        let entry = |n| entry(1, id * 1_000 + n * 2, 1 << 20);
        let entries: Vec<StreamEntry> = (0..entries).map(entry).collect();
        sources.push(world.put(id, &entries).await);
        expected.extend(entries);
    }
    let joined = world.join(9, &sources, 5 << 20).await;
    assert_eq!(world.bucket.counts().copies, 2);
    assert!(joined.copied_bytes >= 18 << 20, "{joined:?}");
    assert_eq!(world.entries(9, joined.size).await, expected);
    world.storage.delete(&keys).await.expect("deletes");
}
