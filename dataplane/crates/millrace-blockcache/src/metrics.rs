//! The metrics of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge};

/// What the cache has done since it was created, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCacheMetrics {
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

/// A number that grows: for us, and as a metric of the process.
#[derive(Debug)]
pub(crate) struct Count {
    total: AtomicU64,
    metric: Counter,
}

impl Count {
    fn new(metric: Counter) -> Self {
        Self {
            total: AtomicU64::new(0),
            metric,
        }
    }

    pub(crate) fn add(&self, more: u64) {
        self.total.fetch_add(more, Ordering::Relaxed);
        self.metric.increment(more);
    }

    pub(crate) fn get(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// All that is counted: `millrace_block_cache_*`. Bytes are bytes.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) hits: Count,
    pub(crate) misses: Count,
    pub(crate) fetched_bytes: Count,
    pub(crate) delivered_bytes: Count,
    pub(crate) evicted_unread_bytes: Count,
    pub(crate) evicted_unread_blocks: Count,
    pub(crate) waits_for_room: Count,
    pub(crate) bypasses: Count,
    pub(crate) requests: Count,
    gauges: Gauges,
}

#[derive(Debug)]
struct Gauges {
    size: Gauge,
    used: Gauge,
    peak: Gauge,
    outside: Gauge,
    readers: Gauge,
    window_max: Gauge,
    window_median: Gauge,
    loads: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let window = |of: &'static str| metrics::gauge!("millrace_block_cache_prefetch_window_bytes", "of" => of);
        let count = |name: &'static str| Count::new(metrics::counter!(name));
        Self {
            hits: count("millrace_block_cache_hits_total"),
            misses: count("millrace_block_cache_misses_total"),
            fetched_bytes: count("millrace_block_cache_fetched_bytes_total"),
            delivered_bytes: count("millrace_block_cache_delivered_bytes_total"),
            evicted_unread_bytes: count("millrace_block_cache_evicted_unread_bytes_total"),
            evicted_unread_blocks: count("millrace_block_cache_evicted_unread_blocks_total"),
            waits_for_room: count("millrace_block_cache_room_waits_total"),
            bypasses: count("millrace_block_cache_bypasses_total"),
            requests: count("millrace_block_cache_requests_total"),
            gauges: Gauges {
                size: metrics::gauge!("millrace_block_cache_size_bytes"),
                used: metrics::gauge!("millrace_block_cache_bytes"),
                peak: metrics::gauge!("millrace_block_cache_peak_bytes"),
                outside: metrics::gauge!("millrace_block_cache_bypass_bytes"),
                readers: metrics::gauge!("millrace_block_cache_readers"),
                window_max: window("max"),
                window_median: window("median"),
                loads: metrics::gauge!("millrace_block_cache_loads_in_flight"),
            },
        }
    }

    /// A block of so many bytes went before anybody had read of it.
    pub(crate) fn evicted_unread(&self, size: u32) {
        self.evicted_unread_blocks.add(1);
        self.evicted_unread_bytes.add(u64::from(size));
    }

    /// Shows what the cache holds.
    pub(crate) fn show(&self, now: &BlockCacheMetrics) {
        let gauges = &self.gauges;
        gauges.size.set(now.size_bytes as f64);
        gauges.used.set(now.used_bytes as f64);
        gauges.peak.set(now.peak_bytes as f64);
        gauges.outside.set(now.bypass_bytes as f64);
        gauges.readers.set(now.readers as f64);
        gauges.window_max.set(now.prefetch_window_max_bytes as f64);
        gauges
            .window_median
            .set(now.prefetch_window_median_bytes as f64);
        gauges.loads.set(now.loads_in_flight as f64);
    }
}
