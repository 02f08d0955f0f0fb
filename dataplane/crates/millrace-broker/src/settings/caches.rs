//! Moves memory from one cache to the other while the broker runs.
//!
//! A smaller log cache takes effect once blocks sized for the larger one are uploaded, which may take
//! as long as an outage of the bucket. Until then the block cache has only what the log cache leaves,
//! so that both together never exceed the larger of the old and the new total.

use std::{sync::Arc, time::Duration};

use millrace_blockcache::BlockCache;
use millrace_stream::StreamStore;
use millrace_tasks::{Supervisor, Task};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

/// How often is looked whether the log cache has become smaller.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// What both caches are to have, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheBytes {
    pub(super) block: u64,
    pub(super) wal: u64,
}

/// Both caches, and the only one who changes their sizes.
#[derive(Debug)]
pub(super) struct Caches {
    shared: Arc<Shared>,
    tasks: Supervisor,
    /// The block cache grows as the log cache shrinks.
    growing: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    block_cache: BlockCache,
    store: StreamStore,
    sizes: Mutex<Sizes>,
}

#[derive(Debug)]
struct Sizes {
    wanted: CacheBytes,
    /// What the block cache has now, bytes.
    block: u64,
}

impl Caches {
    pub(super) fn new(block_cache: BlockCache, store: StreamStore, tasks: Supervisor) -> Self {
        let block = block_cache.metrics().size_bytes;
        let wal = store.metrics().cache_capacity_bytes;
        let wanted = CacheBytes { block, wal };
        Self {
            shared: Arc::new(Shared {
                block_cache,
                store,
                sizes: Mutex::new(Sizes { wanted, block }),
            }),
            tasks,
            growing: Mutex::default(),
        }
    }

    /// Gives both caches what they are to have, the block cache as soon as it is there. Must be
    /// called on a tokio runtime.
    pub(super) fn set(&self, wanted: CacheBytes) {
        let mut growing = self.growing.lock();
        if self.shared.set(wanted) {
            *growing = None;
            return;
        }
        let shared = Arc::clone(&self.shared);
        let grow = async move {
            while !shared.grow(&mut shared.sizes.lock()) {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        };
        let task = self.tasks.spawn(Task::CacheResize, grow);
        *growing = Some(AbortOnDropHandle::new(task));
    }
}

impl Shared {
    /// Whether both have now what they are to have.
    fn set(&self, wanted: CacheBytes) -> bool {
        let mut sizes = self.sizes.lock();
        let before = std::mem::replace(&mut sizes.wanted, wanted);
        // What shrinks does so before the other grows.
        if wanted.block < sizes.block {
            self.set_block(&mut sizes, wanted.block);
        }
        if wanted.wal != before.wal {
            self.store.set_cache_bytes(wanted.wal);
        }
        self.grow(&mut sizes)
    }

    /// Gives the block cache what there is for it; whether that is all it is to have.
    fn grow(&self, sizes: &mut Sizes) -> bool {
        let bytes = sizes.block_bytes(self.store.metrics().cache_capacity_bytes);
        if bytes != sizes.block {
            self.set_block(sizes, bytes);
        }
        sizes.block == sizes.wanted.block
    }

    fn set_block(&self, sizes: &mut Sizes, bytes: u64) {
        self.block_cache.set_bytes(bytes);
        sizes.block = bytes;
    }
}

impl Sizes {
    /// What the block cache may have while the log cache has so much, bytes: never less than it has,
    /// unless it is to have less.
    fn block_bytes(&self, wal_now: u64) -> u64 {
        let CacheBytes { block, wal } = self.wanted;
        let above = wal_now.saturating_sub(wal);
        block.min(self.block.max(block.saturating_sub(above)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_never_have_more_than_they_had_or_are_to_have() {
        let of = |block_now, wal_now, (block, wal)| {
            let wanted = CacheBytes { block, wal };
            let block = block_now;
            Sizes { wanted, block }.block_bytes(wal_now)
        };
        assert_eq!(of(100, 500, (500, 100)), 100, "nothing is free yet");
        assert_eq!(of(100, 300, (500, 100)), 300, "as far as it goes");
        assert_eq!(of(100, 100, (500, 100)), 500);
        assert_eq!(of(100, 50, (500, 100)), 500, "the log cache grows");
        assert_eq!(of(100, 500, (100, 100)), 100, "nobody loses what it has");
        assert_eq!(of(100, 500, (60, 100)), 60, "unless it is to");
    }
}
