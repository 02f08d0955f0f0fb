//! Statistics of the cache.

/// What the cache has done since it was made, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCacheStats {
    /// The budget, in bytes.
    pub size_bytes: u64,
    /// What is resident or being loaded, indexes included, in bytes.
    pub used_bytes: u64,
    /// The most that data blocks have used, and the most that was read beside the budget, in bytes. The
    /// two need not have been at one time.
    pub peak_bytes: u64,
    /// Blocks that are being read beside the budget, in bytes. What answers take out of them is copied,
    /// and belongs to the answers.
    pub bypass_bytes: u64,
    /// Blocks that a read found in memory.
    pub hits: u64,
    /// Blocks that a read had to wait for.
    pub misses: u64,
    /// Requests for data and indexes.
    pub requests: u64,
    /// Bytes that came from objects, indexes included.
    pub fetched_bytes: u64,
    /// Bytes of payload that reads were given.
    pub delivered_bytes: u64,
    /// Bytes of blocks that were evicted before a reader had read them.
    pub evicted_unread_bytes: u64,
    /// Such blocks.
    pub evicted_unread_blocks: u64,
    /// Positions that are being read sequentially.
    pub readers: u64,
    /// The largest prefetch window of a reader, in bytes.
    pub prefetch_window_max_bytes: u64,
    /// The median of the readers' prefetch windows, in bytes.
    pub prefetch_window_median_bytes: u64,
    /// Requests to the bucket under way.
    pub loads_in_flight: u64,
    /// Reads that had to wait for room.
    pub waits_for_room: u64,
    /// Blocks that were read beyond the budget, because no room came free in time.
    pub bypasses: u64,
}
