//! The same on a real file, with the back-end that the kernel allows: each life ends in the middle
//! of its writes, as a killed process would.

use std::{sync::Arc, time::Duration};

use crate::world::{World, append, read_all, small};
use futures_util::FutureExt;
use millrace_stream::Entry;
use millrace_wal::device::{DeviceConfig, open_device};

const LIVES: u64 = 12;

/// What one life left: every entry it appended, and how many of them were acknowledged.
struct Left {
    appended: Vec<Entry>,
    acknowledged: usize,
}

async fn live(
    world: Arc<World>,
    life: u64,
    stream: millrace_model::StreamId,
    so_far: Vec<Entry>,
) -> Left {
    let device = open_device(&world.path("wal"), &DeviceConfig::new(8 * 1024 * 1024));
    let store = world.open_on(device.expect("opens")).await;
    let stream = store.open_stream(stream).await.expect("opens");
    let found = read_all(&stream, 9_000).await;
    assert_eq!(
        found,
        so_far[..found.len()],
        "what is there is what was appended"
    );
    let mut left = Left {
        acknowledged: found.len(),
        appended: found,
    };
    let mut tickets = Vec::new();
    for n in 0..60 {
        let (entry, ticket) = append(&stream, 1 + n % 3, life, 700 * (1 + n as usize % 5)).await;
        left.appended.push(entry);
        tickets.push(ticket);
        if n == 40 {
            tokio::time::sleep(Duration::from_millis(life)).await;
        }
    }
    for ticket in tickets {
        match ticket.now_or_never() {
            Some(result) => result.expect("durable"),
            None => break,
        }
        left.acknowledged += 1;
    }
    left
}

#[test]
fn killed_processes_lose_nothing_that_they_acknowledged() {
    let outside = runtime();
    let world = outside.block_on(World::new(21, small(), 1024 * 1024));
    let world = Arc::new(world);
    let (_, ids) = outside.block_on(world.create_streams(1));
    let mut so_far: Vec<Entry> = Vec::new();
    let mut acknowledged = 0;
    for life in 0..LIVES {
        // A runtime of its own: when it is gone, so is everything that the life had running.
        let process = runtime();
        let left = process.block_on(live(Arc::clone(&world), life, ids[0], so_far));
        process.shutdown_timeout(Duration::from_secs(5));
        let recovered = left.appended.len() - 60;
        assert!(
            recovered >= acknowledged,
            "{recovered} of {acknowledged} in life {life}"
        );
        (so_far, acknowledged) = (left.appended, left.acknowledged);
    }
    assert!(acknowledged > 300, "most were acknowledged: {acknowledged}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}
