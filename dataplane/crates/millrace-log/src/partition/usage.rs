//! What clients write to a partition and read from it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What clients have written to a partition and read from it since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of batches, written and read.
    pub bytes: u64,
    /// Batches written, and answers that had some.
    pub requests: u64,
}

#[derive(Debug, Default)]
pub(super) struct UsageCounters {
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl UsageCounters {
    pub(super) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Usage {
        Usage {
            bytes: self.bytes.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}
