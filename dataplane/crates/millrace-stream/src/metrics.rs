//! The metrics of the store, under their Prometheus names.

mod compaction;

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram};

pub(crate) use self::compaction::{CompactionMetrics, DeletionMetrics};

/// Handles of the store's metrics, looked up once.
#[derive(Debug)]
pub(crate) struct StoreMetrics {
    /// Entries and bytes appended.
    appended_entries: Counter,
    appended_bytes: Counter,
    /// Appends that had to wait for memory, and for the log.
    pub(crate) cache_waits: Counter,
    pub(crate) log_waits: Counter,
    /// Bytes of payload that were left to the log, and that were read back for an upload.
    pub(crate) offloaded_bytes: Counter,
    pub(crate) read_back_bytes: Counter,
    /// Reads that met a corrupt record of the log; objects are counted under the same name.
    pub(crate) corrupt_wal_reads: Counter,
    cache_bytes: Gauge,
    pending: AtomicU64,
    pending_gauge: Gauge,
    uploaded_objects: Counter,
    uploaded_bytes: Counter,
    pub(crate) upload_seconds: Histogram,
    pub(crate) upload_retries: Counter,
    pub(crate) commit_retries: Counter,
    pub(crate) compaction: CompactionMetrics,
    pub(crate) deletions: DeletionMetrics,
}

impl StoreMetrics {
    pub(crate) fn new() -> Self {
        Self {
            appended_entries: metrics::counter!("millrace_stream_appended_entries_total"),
            appended_bytes: metrics::counter!("millrace_stream_appended_bytes_total"),
            cache_waits: metrics::counter!("millrace_log_cache_waits_total"),
            log_waits: metrics::counter!("millrace_stream_wal_waits_total"),
            offloaded_bytes: metrics::counter!("millrace_log_cache_offloaded_bytes_total"),
            read_back_bytes: metrics::counter!("millrace_log_cache_read_back_bytes_total"),
            corrupt_wal_reads: metrics::counter!("millrace_corrupt_reads_total", "kind" => "wal"),
            cache_bytes: metrics::gauge!("millrace_log_cache_bytes"),
            pending: AtomicU64::new(0),
            pending_gauge: metrics::gauge!("millrace_upload_pending_bytes"),
            uploaded_objects: metrics::counter!("millrace_upload_objects_total"),
            uploaded_bytes: metrics::counter!("millrace_upload_bytes_total"),
            upload_seconds: metrics::histogram!("millrace_upload_seconds"),
            upload_retries: metrics::counter!("millrace_upload_retries_total"),
            commit_retries: metrics::counter!("millrace_upload_commit_retries_total"),
            compaction: CompactionMetrics::new(),
            deletions: DeletionMetrics::new(),
        }
    }

    pub(crate) fn appended(&self, bytes: usize) {
        self.appended_entries.increment(1);
        self.appended_bytes.increment(bytes as u64);
        self.pending.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Entries that were found in the log.
    pub(crate) fn recovered(&self, bytes: u64) {
        self.pending.fetch_add(bytes, Ordering::Relaxed);
        // At once: whoever watches a restart should not see nothing until the first sample.
        self.publish_pending();
    }

    pub(crate) fn committed(&self, bytes: u64) {
        self.pending.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn uploaded(&self, bytes: u64) {
        self.uploaded_objects.increment(1);
        self.uploaded_bytes.increment(bytes);
    }

    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(crate) fn sample(&self, cache_bytes: u64) {
        self.cache_bytes.set(cache_bytes as f64);
        self.publish_pending();
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn publish_pending(&self) {
        self.pending_gauge.set(self.pending_bytes() as f64);
    }
}
