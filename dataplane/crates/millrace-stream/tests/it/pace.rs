//! Uploads go at their pace, and as fast as they can where somebody needs the room or waits.

use std::time::Duration;

use crate::world::{World, append, read_all};
use millrace_stream::{Stream, StreamConfig};

const BLOCK_BYTES: usize = 64 * 1024;
/// Entries of a block.
const ENTRIES: usize = 16;

/// A pace at which a block takes ten seconds, so that what is not held back is told apart from what
/// is on the slowest machine.
fn slow() -> StreamConfig {
    StreamConfig {
        cache_bytes: 4 * 1024 * 1024,
        upload_threshold_bytes: BLOCK_BYTES as u64,
        upload_interval: Duration::from_secs(10),
        upload_pace_percent: Some(1),
        upload_forced_percent: 60,
        reserve_wait: Duration::from_secs(20),
        close_wait: Duration::from_secs(20),
        retry_pause_min: Duration::from_millis(1),
        retry_pause_max: Duration::from_millis(10),
        ..StreamConfig::default()
    }
}

async fn append_blocks(stream: &Stream, blocks: usize) {
    for _ in 0..blocks * ENTRIES {
        let (_, ticket) = append(stream, 1, 1, BLOCK_BYTES / ENTRIES).await;
        ticket.await.expect("durable");
    }
}

async fn opened(config: StreamConfig) -> (World, millrace_stream::StreamStore, Stream) {
    let world = World::new(1, config, 16 * 1024 * 1024).await;
    let (_, ids) = world.create_streams(1).await;
    let store = world.open().await;
    let mut streams = store.open_streams(&ids[..1]).await.expect("opens");
    let stream = streams.pop().expect("one");
    (world, store, stream)
}

/// Waits until so many objects are written.
async fn until_written(world: &World, objects: u64) {
    let written = async {
        while world.bucket.counts().puts < objects {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), written).await;
    waited.unwrap_or_else(|_| panic!("{:?}", world.bucket.counts()));
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_wait_for_their_turn_and_a_flush_does_not() {
    let (world, store, stream) = opened(slow()).await;
    append_blocks(&stream, 12).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let early = world.bucket.counts().puts;
    assert!(early < 6, "{early} blocks were not held back");
    store.flush().await.expect("uploads");
    assert_eq!(world.bucket.counts().puts, 12);
    assert_eq!(store.metrics().pending_bytes, 0);
    assert_eq!(read_all(&stream, 100_000).await.len(), 12 * ENTRIES);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_not_held_back_while_the_cache_fills() {
    let (world, _store, stream) = opened(slow()).await;
    // 2.5 of 4 MiB, which is more than 60 %: then all but what brings it down again may go.
    append_blocks(&stream, 44).await;
    until_written(&world, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_back_without_a_pace() {
    let config = StreamConfig {
        upload_pace_percent: None,
        ..slow()
    };
    let (world, _store, stream) = opened(config).await;
    append_blocks(&stream, 12).await;
    until_written(&world, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_and_what_a_restart_found_are_not_held_back() {
    let (world, store, stream) = opened(slow()).await;
    append_blocks(&stream, 12).await;
    drop((store, stream));
    world.disk.crash(millrace_testkit::Crash::Killed);
    let before = world.bucket.counts().puts;
    let store = world.open().await;
    until_written(&world, before + 6).await;
    store.close().await;
    assert_eq!(store.metrics().pending_bytes, 0);
}
