//! The metrics of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge};

use crate::stats::BlockCacheStats;

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
pub(crate) struct Meters {
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

impl Meters {
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
    pub(crate) fn show(&self, stats: &BlockCacheStats) {
        let gauges = &self.gauges;
        gauges.size.set(stats.size_bytes as f64);
        gauges.used.set(stats.used_bytes as f64);
        gauges.peak.set(stats.peak_bytes as f64);
        gauges.outside.set(stats.bypass_bytes as f64);
        gauges.readers.set(stats.readers as f64);
        gauges
            .window_max
            .set(stats.prefetch_window_max_bytes as f64);
        gauges
            .window_median
            .set(stats.prefetch_window_median_bytes as f64);
        gauges.loads.set(stats.loads_in_flight as f64);
    }
}
