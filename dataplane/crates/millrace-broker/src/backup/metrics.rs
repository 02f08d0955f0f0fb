//! What the backup tells of itself.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};

/// `millrace_meta_backup_items_total{kind}`, `millrace_meta_backup_bytes_total{kind}` with the kinds
/// `changes`, `watermarks` and `snapshot`; `millrace_meta_backup_deleted_items_total`,
/// `millrace_meta_backup_failures_total`; and `millrace_meta_backup_behind_seconds`: how long the bucket
/// has not taken what is due.
#[derive(Debug)]
pub(super) struct Metrics {
    kinds: [(&'static str, Counter, Counter); 3],
    deleted: Counter,
    failures: Counter,
    behind: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let kind = |kind: &'static str| {
            let items = counter!("millrace_meta_backup_items_total", "kind" => kind);
            let bytes = counter!("millrace_meta_backup_bytes_total", "kind" => kind);
            (kind, items, bytes)
        };
        Self {
            kinds: ["changes", "watermarks", "snapshot"].map(kind),
            deleted: counter!("millrace_meta_backup_deleted_items_total"),
            failures: counter!("millrace_meta_backup_failures_total"),
            behind: gauge!("millrace_meta_backup_behind_seconds"),
        }
    }

    /// An item is in the chain.
    pub(super) fn put(&self, kind: &'static str, size: u64) {
        for (known, items, bytes) in &self.kinds {
            if *known == kind {
                items.increment(1);
                bytes.increment(size);
            }
        }
    }

    pub(super) fn failed(&self) {
        self.failures.increment(1);
    }

    /// The bucket has not taken what is due for so long.
    pub(super) fn behind(&self, behind: Duration) {
        self.behind.set(behind.as_secs_f64());
    }

    pub(super) fn deleted(&self, items: u64) {
        self.deleted.increment(items);
    }
}
