//! A read that was told of an object that is gone asks the metadata again.

use std::{collections::VecDeque, sync::Arc};

use crate::fake_meta::{FakeMeta, Objects};
use bytes::Bytes;
use millrace_blockcache::{BlockCache, BlockCacheConfig, ReadError};
use millrace_meta::{ObjectKind, ObjectRange};
use millrace_model::{ObjectId, Offset, StreamEpoch, StreamId, StreamRange};
use millrace_objects::{ObjectBuilder, ObjectKey, ObjectStorage, StreamEntry};
use millrace_time::{ManualClock, SeededRandom};
use parking_lot::Mutex;

const STREAM: StreamId = StreamId(1);

/// Metadata that answers `objects_of` from a script and is asked nothing else.
#[derive(Debug)]
struct Scripted(Mutex<VecDeque<Vec<ObjectRange>>>);

impl Objects for Scripted {
    fn objects_of(&self, _: StreamId, _: Offset, _: usize) -> Vec<ObjectRange> {
        self.0.lock().pop_front().expect("the script goes on")
    }
}

fn key(id: u64) -> ObjectKey {
    ObjectKey::of("test", ObjectId(id))
}

/// Puts an object with one entry, and gives what the metadata says of it.
async fn put(storage: &ObjectStorage, id: u64, base_offset: Offset) -> ObjectRange {
    let payload = Bytes::from_static(&[7; 4_096]);
    let epoch = StreamEpoch(1);
    let entry = StreamEntry {
        stream: STREAM,
        epoch,
        base_offset,
        count: 10,
        payload,
    };
    let mut builder = ObjectBuilder::new(1_024);
    builder.add(entry).expect("the first");
    let built = builder.finish();
    storage.put(&key(id), built.chunks).await.expect("puts");
    let range = StreamRange {
        stream: STREAM,
        start: base_offset,
        end: base_offset + 10,
    };
    ObjectRange {
        object: ObjectId(id),
        size: built.size,
        range,
        kind: ObjectKind::Stream,
    }
}

fn cache(
    storage: &ObjectStorage,
    script: &[&[ObjectRange]],
) -> (BlockCache, Arc<FakeMeta<Scripted>>) {
    let script = script.iter().map(|answer| answer.to_vec()).collect();
    let meta = Arc::new(FakeMeta(Scripted(Mutex::new(script))));
    let config = BlockCacheConfig::new("test", 1 << 20);
    let sources = storage.clone().into();
    let cache = BlockCache::new(config, sources, meta.clone(), ManualClock::shared());
    (cache, meta)
}

#[tokio::test]
async fn a_read_begins_again_on_fresh_metadata() {
    let storage = ObjectStorage::memory(ManualClock::shared(), SeededRandom::shared(1));
    let old = put(&storage, 1, 0).await;
    let new = put(&storage, 2, 0).await;
    storage.delete(&[key(1)]).await.expect("deletes");
    let (cache, _) = cache(&storage, &[&[old], &[new]]);
    let read = cache
        .read(STREAM, 0, 10, 100)
        .await
        .expect("reads the new object");
    assert_eq!(read.len(), 1);
}

#[tokio::test]
async fn an_index_in_memory_does_not_hide_that_its_object_is_gone() {
    let storage = ObjectStorage::memory(ManualClock::shared(), SeededRandom::shared(1));
    let old = put(&storage, 1, 0).await;
    let new = put(&storage, 2, 0).await;
    let script = vec![vec![old], vec![old], vec![new]].into();
    let meta = Arc::new(FakeMeta(Scripted(Mutex::new(script))));
    // A sixteenth is for indexes: there is room for them, and for no block.
    let config = BlockCacheConfig::new("test", 4_096);
    let sources = storage.clone().into();
    let cache = BlockCache::new(config, sources, meta.clone(), ManualClock::shared());
    cache
        .read(STREAM, 0, 10, 1)
        .await
        .expect("the old object is still there");
    assert!(
        (1..256).contains(&cache.used_bytes()),
        "{}",
        cache.used_bytes()
    );
    storage.delete(&[key(1)]).await.expect("deletes");
    cache
        .read(STREAM, 0, 10, 1)
        .await
        .expect("reads the new object");
    assert!(meta.0.0.lock().is_empty());
}

#[tokio::test]
async fn a_read_does_not_ask_for_ever() {
    let storage = ObjectStorage::memory(ManualClock::shared(), SeededRandom::shared(1));
    let gone = put(&storage, 1, 0).await;
    storage.delete(&[key(1)]).await.expect("deletes");
    let (cache, meta) = cache(&storage, &[[gone].as_slice(); 10]);
    let error = cache
        .read(STREAM, 0, 10, 100)
        .await
        .expect_err("gone for good");
    assert!(matches!(error, ReadError::Object(error) if error.is_not_found()));
    assert_eq!(meta.0.0.lock().len(), 5);
}

#[tokio::test]
async fn a_gap_in_the_metadata_ends_a_read_and_is_never_read_over() {
    let storage = ObjectStorage::memory(ManualClock::shared(), SeededRandom::shared(1));
    let (first, third) = (put(&storage, 1, 0).await, put(&storage, 3, 20).await);
    let (cache, _) = cache(&storage, &[&[first, third], &[third], &[third], &[third]]);
    let read = cache
        .read(STREAM, 0, 30, usize::MAX)
        .await
        .expect("reads up to the gap");
    assert_eq!(
        read.iter()
            .map(|entry| entry.base_offset)
            .collect::<Vec<_>>(),
        [0]
    );
    let error = cache
        .read(STREAM, 10, 30, usize::MAX)
        .await
        .expect_err("nothing at 10");
    assert!(matches!(error, ReadError::Missing { offset: 10, .. }));
}
