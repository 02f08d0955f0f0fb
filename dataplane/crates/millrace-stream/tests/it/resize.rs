//! The cache and the size of blocks change while the store runs.

use std::time::Duration;

use crate::world::{World, append, read_all, small};
use bytes::Bytes;
use millrace_stream::{Entry, StreamConfig, StreamStore};
use millrace_testkit::BucketFaults;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Waits for what must come soon.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

fn used(store: &StreamStore) -> u64 {
    store.metrics().cache_used_bytes
}

#[tokio::test]
async fn a_smaller_cache_evicts_what_is_committed_and_a_larger_one_keeps_more() {
    let world = World::new(1, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    let mut written = Vec::new();
    for _ in 0..100 {
        let (entry, ticket) = append(&stream, 1, 1, 2_000).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    store.flush().await.expect("uploads");
    let before = used(&store);
    assert!(before > 150 * KIB, "{before} bytes are kept");
    store.set_cache_bytes(64 * KIB);
    assert!(used(&store) <= 64 * KIB, "{} at once", used(&store));
    assert_eq!(store.metrics().cache_capacity_bytes, 64 * KIB);
    assert_eq!(read_all(&stream, 10_000).await, written);
    store.set_cache_bytes(MIB);
    for _ in 0..300 {
        let (entry, ticket) = append(&stream, 1, 1, 2_000).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    store.flush().await.expect("uploads");
    assert!(used(&store) > 400 * KIB, "{} are kept", used(&store));
    assert_eq!(read_all(&stream, 10_000).await, written);
    store.close().await;
}

/// A bucket that does not answer: the cache shrinks below what waits for its upload.
#[tokio::test]
async fn a_smaller_cache_loses_nothing_that_is_not_uploaded() {
    let config = StreamConfig {
        cache_bytes: MIB,
        upload_threshold_bytes: 64 * KIB,
        ..small()
    };
    let world = World::new(2, config, 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    world.bucket.set(BucketFaults {
        down: true,
        ..BucketFaults::default()
    });
    let mut written: Vec<Entry> = Vec::new();
    for n in 0..300 {
        if n == 200 {
            store.set_cache_bytes(128 * KIB);
        }
        let (entry, ticket) = append(&stream, 1, 1, 2_000).await;
        ticket.await.expect("durable");
        written.push(entry);
    }
    assert!(store.metrics().pending_bytes >= 300 * 2_000);
    assert_eq!(read_all(&stream, 10_000).await, written, "from the log");
    world.bucket.set(BucketFaults::default());
    store.flush().await.expect("uploads");
    eventually("the cache is within its bound", || {
        used(&store) <= 128 * KIB
    })
    .await;
    assert_eq!(read_all(&stream, 10_000).await, written, "from objects");
    store.close().await;
}

#[tokio::test]
async fn a_lower_threshold_sends_the_open_block_at_once() {
    let config = StreamConfig {
        upload_threshold_bytes: 64 * KIB,
        upload_interval: Duration::from_secs(3_600),
        ..small()
    };
    let world = World::new(3, config, 16 * MIB).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let stream = store.open_stream(ids[0]).await.expect("opens");
    for _ in 0..20 {
        let (_, ticket) = append(&stream, 1, 1, 2_000).await;
        ticket.await.expect("durable");
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.bucket.counts().puts, 0, "not due yet");
    store.set_upload_threshold_bytes(16 * KIB);
    eventually("the open block is uploaded", || {
        store.metrics().pending_bytes == 0
    })
    .await;
    store.set_upload_threshold_bytes(64 * KIB);
    let puts = world.bucket.counts().puts;
    for _ in 0..20 {
        let (_, ticket) = append(&stream, 1, 1, 2_000).await;
        ticket.await.expect("durable");
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.bucket.counts().puts, puts, "blocks are large again");
    store.close().await;
}

/// The sizes jump about while four streams are written; every entry is read back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sizes_that_change_all_the_time_disturb_nobody() {
    let world = World::new(4, small(), 16 * MIB).await;
    let (_, ids) = world.create_streams(2).await;
    let store = world.open().await;
    let streams = store.open_streams(&ids).await.expect("open");
    let writers = streams.iter().cloned().map(|stream| {
        tokio::spawn(async move {
            let mut written = Vec::new();
            for n in 0..200_usize {
                let (entry, ticket) = append(&stream, 1, 1, 200 + 37 * n).await;
                ticket.await.expect("durable");
                written.push(entry);
            }
            written
        })
    });
    let writers: Vec<_> = writers.collect();
    let resizing = tokio::spawn({
        let (store, random) = (store.clone(), world.random.clone());
        async move {
            loop {
                // Always more than the largest entry.
                store.set_cache_bytes(32 * KIB + random.next_u64() % (512 * KIB));
                store.set_upload_threshold_bytes(KIB + random.next_u64() % (64 * KIB));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let mut written = Vec::new();
    for writer in writers {
        let joined = tokio::time::timeout(Duration::from_secs(60), writer).await;
        written.push(joined.expect("nobody hangs").expect("no panic"));
    }
    resizing.abort();
    store.flush().await.expect("uploads");
    for (stream, written) in streams.iter().zip(&written) {
        assert_eq!(&read_all(stream, 50_000).await, written);
    }
    let large = Bytes::from(vec![0; 100 * 1024]);
    store.set_cache_bytes(64 * KIB);
    assert!(
        streams[0].reserve(large.len()).await.is_err(),
        "what the cache can never hold is refused"
    );
    store.close().await;
}
