//! When and why a run ends.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

/// More failed records than this end the run: something is wrong that time does not heal.
pub(crate) const FAILED_RECORDS_MAX: u64 = 100_000;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// All records that were asked for, or that were there, are done.
    Records,
    Duration,
    MaxBytes,
    /// A catch-up is complete.
    CaughtUp,
    Signal,
    /// A client cannot go on, or too much has failed.
    Failure,
}

/// Tells all parts of a run to end.
#[derive(Debug)]
pub(crate) struct Ending {
    token: CancellationToken,
    reason: OnceLock<Reason>,
    failure: OnceLock<String>,
    bytes_max: Option<u64>,
    bytes: AtomicU64,
    failed: AtomicU64,
}

impl Ending {
    pub(crate) fn new(bytes_max: Option<u64>) -> Self {
        Self {
            token: CancellationToken::new(),
            reason: OnceLock::new(),
            failure: OnceLock::new(),
            bytes_max,
            bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// The first reason counts.
    pub(crate) fn end(&self, reason: Reason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Ends the run because of something that is worth an error.
    pub(crate) fn fail(&self, failure: impl ToString) {
        let _ = self.failure.set(failure.to_string());
        self.end(Reason::Failure);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(crate) async fn ended(&self) {
        self.token.cancelled().await;
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        self.reason.get().copied()
    }

    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Whether so many more bytes are within `--max-bytes`; if not, the run ends.
    pub(crate) fn allows(&self, bytes: u64) -> bool {
        let Some(max) = self.bytes_max else {
            return true;
        };
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= max {
            return true;
        }
        self.end(Reason::MaxBytes);
        false
    }

    /// Counts a failed record.
    pub(crate) fn record_failed(&self) {
        if self.failed.fetch_add(1, Ordering::Relaxed) == FAILED_RECORDS_MAX {
            self.fail(format!("more than {FAILED_RECORDS_MAX} records failed"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let ending = Ending::new(Some(100));
        assert!(ending.allows(60) && ending.allows(40) && !ending.has_ended());
        assert!(!ending.allows(1));
        ending.fail("late");
        assert_eq!(ending.reason(), Some(Reason::MaxBytes));
        assert_eq!(ending.failure(), Some("late"));
    }

    #[test]
    fn too_many_failures_end_a_run() {
        let ending = Ending::new(None);
        for _ in 0..FAILED_RECORDS_MAX {
            ending.record_failed();
        }
        assert!(!ending.has_ended());
        ending.record_failed();
        assert_eq!(ending.reason(), Some(Reason::Failure));
    }
}
