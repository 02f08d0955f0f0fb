//! Reads over real objects and real metadata, against the entries that were written.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_blockcache::{BlockCache, BlockCacheConfig, ReadError};
use millrace_meta::{
    MetaStore, NewTopic, StreamObject, StreamSetObject, Upload,
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeEpoch, NodeId, Offset, StreamEpoch, StreamId, TopicId, TopicName};
use millrace_objects::{Built, ObjectBuilder, ObjectKey, ObjectStorage, StreamEntry};
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::ManualClock;
use proptest::prelude::*;
use tempfile::TempDir;

const CLUSTER: &str = "test";

/// A store of three streams, with the entries that are committed to its objects.
struct Fixture {
    _folder: TempDir,
    meta: Arc<dyn MetaStore>,
    bucket: FaultyBucket,
    storage: ObjectStorage,
    node_epoch: NodeEpoch,
    streams: Vec<StreamId>,
    written: BTreeMap<StreamId, Vec<StreamEntry>>,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("meta.db");
        let meta = SqliteMeta::open(&path, SqliteOptions::default(), ManualClock::shared()).await;
        let meta: Arc<dyn MetaStore> = Arc::new(meta.expect("opens"));
        let node_epoch = meta.register_node(NodeId(1)).await.expect("registers");
        let topic = NewTopic {
            name: TopicName::new("t").expect("legal"),
            id: TopicId::default(),
            partitions: 3,
            configs: BTreeMap::new(),
        };
        let topic = meta.create_topic(topic).await.expect("creates");
        let streams: Vec<_> = topic
            .partitions
            .iter()
            .map(|partition| partition.data)
            .collect();
        meta.open_streams(&streams, node_epoch)
            .await
            .expect("opens");
        let (bucket, storage) = crate::storage::storage(&ManualClock::shared());
        let written = streams.iter().map(|&stream| (stream, Vec::new())).collect();
        Self {
            _folder: folder,
            meta,
            bucket,
            storage,
            node_epoch,
            streams,
            written,
        }
    }

    fn cache(&self, bytes: u64) -> BlockCache {
        let config = BlockCacheConfig::new(CLUSTER, bytes);
        let (sources, meta) = (self.storage.clone().into(), Arc::clone(&self.meta));
        BlockCache::new(config, sources, meta, ManualClock::shared())
    }

    /// Uploads one object with, per stream, entries of these counts and payload lengths.
    async fn upload(&mut self, per_stream: &[Vec<(u32, usize)>], block_bytes: usize) {
        let mut builder = ObjectBuilder::new(block_bytes);
        for (&stream, blocks) in self.streams.iter().zip(per_stream) {
            let written = self.written.entry(stream).or_default();
            for &(count, len) in blocks {
                let base_offset = written
                    .last()
                    .and_then(StreamEntry::end_offset)
                    .unwrap_or(0);
                let payload = Bytes::from(vec![base_offset as u8; len]);
                let epoch = StreamEpoch(1);
                let entry = StreamEntry {
                    stream,
                    epoch,
                    base_offset,
                    count,
                    payload,
                };
                builder.add(entry.clone()).expect("in order");
                written.push(entry);
            }
        }
        if !builder.is_empty() {
            self.commit(builder.finish()).await;
        }
    }

    async fn commit(
        &self,
        Built {
            chunks,
            size,
            ranges,
        }: Built,
    ) {
        let id = self
            .meta
            .reserve_objects(self.node_epoch, 1)
            .await
            .expect("an id");
        self.storage
            .put(&ObjectKey::of(CLUSTER, id), chunks)
            .await
            .expect("puts");
        let mut upload = Upload {
            node_epoch: self.node_epoch,
            stream_set: None,
            stream_objects: Vec::new(),
        };
        match ranges[..] {
            [range] => upload.stream_objects.push(StreamObject { id, size, range }),
            _ => upload.stream_set = Some(StreamSetObject { id, size, ranges }),
        }
        self.meta.commit_upload(upload).await.expect("commits");
    }

    /// What a read ought to give.
    fn expected(
        &self,
        stream: StreamId,
        start: Offset,
        end: Offset,
        max: usize,
    ) -> Vec<StreamEntry> {
        let mut bytes = 0;
        let wanted = self.written[&stream]
            .iter()
            .filter(|entry| entry.end_offset().expect("small") > start && entry.base_offset < end);
        let mut expected: Vec<StreamEntry> = Vec::new();
        for entry in wanted {
            bytes += entry.payload.len();
            if !expected.is_empty() && bytes > max {
                break;
            }
            expected.push(entry.clone());
            if bytes >= max {
                break;
            }
        }
        expected
    }
}

/// Ten entries of 10 offsets and 100 bytes, two to a block, in each of two objects.
async fn two_objects() -> Fixture {
    let mut fixture = Fixture::new().await;
    for _ in 0..2 {
        fixture
            .upload(&[vec![(10, 100); 10], vec![(1, 10)]], 200)
            .await;
    }
    fixture
}

#[tokio::test]
async fn a_read_crosses_blocks_and_objects() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    let all = cache.read(stream, 0, 200, usize::MAX).await.expect("reads");
    assert_eq!(all, fixture.written[&stream]);
    let middle = cache
        .read(stream, 95, 115, usize::MAX)
        .await
        .expect("reads");
    assert_eq!(middle, fixture.written[&stream][9..12]);
}

#[tokio::test]
async fn the_first_entry_comes_however_large() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    for max_bytes in [0, 1, 99, 100, 199] {
        let one = cache.read(stream, 17, 200, max_bytes).await.expect("reads");
        assert_eq!(one, fixture.written[&stream][1..2], "{max_bytes}");
    }
    let two = cache.read(stream, 17, 200, 200).await.expect("reads");
    assert_eq!(two, fixture.written[&stream][1..3]);
}

#[tokio::test]
async fn what_no_object_holds_is_missing() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    let behind = cache.read(stream, 200, 300, 1).await;
    assert!(
        matches!(behind, Err(ReadError::Missing { offset: 200, .. })),
        "{behind:?}"
    );
    let partly = cache
        .read(stream, 195, 300, usize::MAX)
        .await
        .expect("what there is");
    assert_eq!(partly, fixture.written[&stream][19..]);
    fixture
        .meta
        .trim_stream(stream, fixture.node_epoch, 100)
        .await
        .expect("trims");
    let before = cache.read(stream, 50, 200, 1).await;
    assert!(
        matches!(before, Err(ReadError::Missing { offset: 50, .. })),
        "{before:?}"
    );
    assert!(
        cache
            .read(stream, 100, 100, 1)
            .await
            .expect("nothing asked")
            .is_empty()
    );
}

#[tokio::test]
async fn a_second_read_asks_nothing_of_the_store() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    let first = cache.read(stream, 0, 200, usize::MAX).await.expect("reads");
    let gets = fixture.bucket.counts().gets;
    // Two indexes, and five blocks side by side in each object.
    assert_eq!(gets, 4);
    assert_eq!(
        cache.read(stream, 0, 200, usize::MAX).await.expect("reads"),
        first
    );
    assert_eq!(fixture.bucket.counts().gets, gets);
}

#[tokio::test]
async fn readers_of_the_same_block_share_one_load() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    let slow = BucketFaults {
        delay: Duration::from_millis(20),
        ..BucketFaults::default()
    };
    fixture.bucket.set(slow);
    let reads = (0..50).map(|_| cache.read(stream, 0, 10, 1));
    for read in futures_util::future::join_all(reads).await {
        assert_eq!(read.expect("reads"), fixture.written[&stream][..1]);
    }
    assert_eq!(fixture.bucket.counts().gets, 2);
}

#[tokio::test]
async fn a_reader_who_leaves_does_not_take_the_load_along() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    let slow = BucketFaults {
        delay: Duration::from_millis(30),
        ..BucketFaults::default()
    };
    fixture.bucket.set(slow);
    let impatient = tokio::time::timeout(Duration::from_millis(10), cache.read(stream, 0, 10, 1));
    let (left, stayed) = tokio::join!(impatient, cache.read(stream, 0, 10, 1));
    assert!(left.is_err());
    assert_eq!(stayed.expect("reads"), fixture.written[&stream][..1]);
    assert_eq!(fixture.bucket.counts().gets, 2);
    // When the only reader leaves, the next one starts from zero.
    let other = tokio::time::timeout(Duration::from_millis(10), cache.read(stream, 100, 110, 1));
    assert!(other.await.is_err());
    let again = cache.read(stream, 100, 110, 1).await.expect("reads");
    assert_eq!(again, fixture.written[&stream][10..11]);
}

#[tokio::test]
async fn all_who_wait_learn_of_a_failure_and_the_next_reads_again() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    fixture.bucket.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    let reads = (0..10).map(|_| cache.read(stream, 0, 10, 1));
    for read in futures_util::future::join_all(reads).await {
        assert!(matches!(read, Err(ReadError::Object(_))));
    }
    fixture.bucket.set(BucketFaults::default());
    cache
        .read(stream, 0, 10, 1)
        .await
        .expect("the failure is not kept");
}

#[tokio::test]
async fn the_budget_holds_and_the_data_is_right_beyond_it() {
    let mut fixture = Fixture::new().await;
    for _ in 0..5 {
        fixture
            .upload(&[vec![(1, 1_000); 40], vec![(1, 1_000); 40]], 4_000)
            .await;
    }
    for budget in [0, 1_000, 20_000] {
        let cache = fixture.cache(budget);
        for _ in 0..3 {
            for &stream in &fixture.streams[..2] {
                for start in (0..200).step_by(7) {
                    let read = cache.read(stream, start, 200, 10_000).await.expect("reads");
                    assert_begins(&read, &fixture.expected(stream, start, 200, 10_000));
                    assert!(cache.used_bytes() <= budget);
                }
            }
        }
        let metrics = cache.metrics();
        assert_eq!(metrics.bypasses > 0, budget < 20_000, "{metrics:?}");
    }
}

/// A read may end early where memory is short, but not before it has something.
#[track_caller]
fn assert_begins(read: &[StreamEntry], expected: &[StreamEntry]) {
    assert!(!read.is_empty() || expected.is_empty(), "nothing was read");
    assert!(
        read.len() <= expected.len() && read == &expected[..read.len()],
        "{} entries were read that are not the first of {}",
        read.len(),
        expected.len()
    );
}

#[tokio::test]
async fn a_flipped_bit_never_reaches_a_reader() {
    let fixture = two_objects().await;
    let stream = fixture.streams[0];
    fixture.bucket.set(BucketFaults {
        flip_permille: 300,
        ..BucketFaults::default()
    });
    let (mut right, mut refused) = (0, 0);
    for _ in 0..100 {
        match fixture.cache(1 << 20).read(stream, 0, 200, 1_000).await {
            Ok(read) => {
                // It may end before a block that could not be read.
                assert_begins(&read, &fixture.expected(stream, 0, 200, 1_000));
                right += 1;
            }
            Err(ReadError::Object(error)) => {
                assert!(error.to_string().contains("corrupt"), "{error}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(right > 0 && refused > 0, "{right} right, {refused} refused");
}

#[tokio::test]
async fn a_vanished_object_is_not_found() {
    let fixture = two_objects().await;
    let (cache, stream) = (fixture.cache(1 << 20), fixture.streams[0]);
    let first = fixture.meta.objects_of(stream, 0, 1).await.expect("found")[0].object;
    fixture
        .storage
        .delete(&[ObjectKey::of(CLUSTER, first)])
        .await
        .expect("deletes");
    let error = cache.read(stream, 0, 10, 1).await.expect_err("gone");
    assert!(
        matches!(&error, ReadError::Object(error) if error.is_not_found()),
        "{error:?}"
    );
    cache
        .read(stream, 100, 110, 1)
        .await
        .expect("the other object is there");
}

/// A cache that is never short here, so that no read ends early, in bytes.
const AMPLE_BYTES: u64 = 2 << 20;

/// Entries of one upload: per stream, counts and payload lengths.
fn any_upload() -> impl Strategy<Value = (Vec<Vec<(u32, usize)>>, usize)> {
    let entry = (
        1..30_u32,
        prop_oneof![3 => 0..50_usize, 1 => 4_000..5_000_usize],
    );
    let stream = prop::collection::vec(entry, 0..8);
    (prop::collection::vec(stream, 0..=3), 1..3_000_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reads_give_what_was_written(
        uploads in prop::collection::vec(any_upload(), 1..6),
        reads in prop::collection::vec((0..3_usize, 0..600_u64, 1..200_u64, 0..9_000_usize), 1..40),
        budget in prop_oneof![0..50_000_u64, Just(AMPLE_BYTES)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut fixture = Fixture::new().await;
            for (per_stream, block_bytes) in &uploads {
                fixture.upload(per_stream, *block_bytes).await;
            }
            let cache = fixture.cache(budget);
            for (nth, start, len, max) in reads {
                let stream = fixture.streams[nth];
                let expected = fixture.expected(stream, start, start + len, max);
                let read = cache.read(stream, start, start + len, max).await;
                match read {
                    Ok(read) if budget == AMPLE_BYTES => prop_assert!(read == expected),
                    Ok(read) => assert_begins(&read, &expected),
                    Err(ReadError::Missing { .. }) => prop_assert!(expected.is_empty()),
                    Err(error) => panic!("{error:?}"),
                }
            }
            Ok(())
        })?;
    }
}
