//! How large blocks are. It follows from settings that change while the store runs.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{config::StreamConfig, store::StoreInner};

/// The most of the cache that one block takes: with four, one is filled while two are uploaded.
const BLOCKS_IN_CACHE_MIN: u64 = 4;

/// The most bytes of one block, whatever the cache: an object is written with one PUT, whose bound
/// is 5 GiB, and a restart begins again what one upload did not finish.
const BLOCK_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// What the size of blocks follows from.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Sizing {
    pub(in crate::store) cache_bytes: u64,
    pub(in crate::store) upload_threshold_bytes: u64,
    uploads_in_flight: usize,
    /// Once the blocks below this sequence are committed, the cache is as small as it is to be.
    shrinks_at: Option<u64>,
}

impl Sizing {
    pub(in crate::store) fn of(config: &StreamConfig) -> Self {
        Self {
            cache_bytes: config.cache_bytes,
            upload_threshold_bytes: config.upload_threshold_bytes,
            uploads_in_flight: config.uploads_in_flight,
            shrinks_at: None,
        }
    }

    /// What blocks that are being uploaded cost together: at most half of the cache, so that the
    /// other half takes appends whatever the bucket does.
    pub(in crate::store) fn upload_room(&self) -> u64 {
        self.cache_bytes / 2
    }

    pub(in crate::store) fn sizes(&self) -> BlockSizes {
        let upload_threshold = self
            .upload_threshold_bytes
            .min(self.cache_bytes / BLOCKS_IN_CACHE_MIN)
            .min(BLOCK_BYTES_MAX);
        let at_once = self.upload_room() / upload_threshold.max(1);
        let at_once = at_once.min(self.uploads_in_flight as u64).max(1);
        BlockSizes {
            upload_threshold,
            cost_max: self.upload_room() / at_once,
        }
    }
}

/// How large blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct BlockSizes {
    /// Bytes of payload at which a block is sealed.
    pub(in crate::store) upload_threshold: u64,
    /// The most that a block of more than one entry costs the cache, bytes; a single entry that
    /// costs more is a block of its own.
    pub(in crate::store) cost_max: u64,
}

/// The sizes now. Two appends may see different ones while they change; nothing depends on that.
#[derive(Debug)]
pub(super) struct LiveSizes {
    cache_bytes: AtomicU64,
    upload_threshold: AtomicU64,
    cost_max: AtomicU64,
}

impl LiveSizes {
    pub(super) fn new(sizing: &Sizing) -> Self {
        let sizes = sizing.sizes();
        Self {
            cache_bytes: AtomicU64::new(sizing.cache_bytes),
            upload_threshold: AtomicU64::new(sizes.upload_threshold),
            cost_max: AtomicU64::new(sizes.cost_max),
        }
    }

    /// What the cache is to have; for a while after it was made smaller it has more.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.cache_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn upload_threshold(&self) -> u64 {
        self.upload_threshold.load(Ordering::Relaxed)
    }

    pub(super) fn cost_max(&self) -> u64 {
        self.cost_max.load(Ordering::Relaxed)
    }

    fn set(&self, cache_bytes: u64, sizes: BlockSizes) {
        self.cache_bytes.store(cache_bytes, Ordering::Relaxed);
        self.upload_threshold
            .store(sizes.upload_threshold, Ordering::Relaxed);
        self.cost_max.store(sizes.cost_max, Ordering::Relaxed);
    }
}

impl StoreInner {
    /// Changes the memory for entries or the size of blocks.
    ///
    /// A smaller cache counts once the blocks that were cut for the larger one are committed: half
    /// of the smaller one need not hold those that are on their way, and an append would wait for
    /// the bucket. What is committed is evicted at once.
    pub(in crate::store) fn resize(&self, change: impl FnOnce(&mut Sizing)) {
        let mut sizing = self.append.sizing.lock();
        change(&mut sizing);
        let sizes = sizing.sizes();
        self.append.sizes.set(sizing.cache_bytes, sizes);
        self.upload
            .resize(sizes.upload_threshold, sizing.upload_room());
        if sizing.cache_bytes < self.budget.capacity() {
            sizing.shrinks_at = Some(self.seal_for_flush());
            self.shrink(&mut sizing);
        } else {
            sizing.shrinks_at = None;
            self.budget.set_capacity(sizing.cache_bytes);
        }
        drop(sizing);
        self.seal_if_full();
        self.evict_to_high_mark();
        self.make_room();
    }

    /// Lets a smaller cache count if it is time.
    pub(in crate::store) fn shrink_if_due(&self) {
        // Most commits find nothing to do, and resizing waits for none of them.
        if self.append.cache_bytes() < self.budget.capacity() {
            self.shrink(&mut self.append.sizing.lock());
        }
    }

    fn shrink(&self, sizing: &mut Sizing) {
        let next = self.upload.next_to_commit();
        if sizing.shrinks_at.is_some_and(|sequence| next >= sequence) {
            sizing.shrinks_at = None;
            self.budget.set_capacity(sizing.cache_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn sizes(cache_mib: u64, threshold_mib: u64) -> BlockSizes {
        let config = StreamConfig {
            cache_bytes: cache_mib * MIB,
            upload_threshold_bytes: threshold_mib * MIB,
            uploads_in_flight: 4,
            ..StreamConfig::default()
        };
        Sizing::of(&config).sizes()
    }

    #[test]
    fn blocks_take_a_quarter_of_the_cache_at_most_and_uploads_half() {
        let of = |upload_threshold, cost_max| BlockSizes {
            upload_threshold: upload_threshold * MIB,
            cost_max: cost_max * MIB,
        };
        assert_eq!(sizes(256, 64), of(64, 64));
        assert_eq!(sizes(256, 200), of(64, 64), "a quarter is the most");
        assert_eq!(sizes(256, 8), of(8, 32), "four uploads share the half");
        assert_eq!(sizes(1 << 20, 1 << 19), of(1_024, 1 << 17));
    }
}
