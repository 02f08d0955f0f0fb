//! What a restart would have to replay: bytes of batches that no checkpoint covers, over all
//! partitions. Both bounds hold under any load, so that a restart takes seconds at most, however
//! fast the batches came and however many partitions they went to.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A partition's checkpoint is due after this many bytes of batches.
const PARTITION_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Beyond this many bytes over all partitions, those are due that owe the most. A device reads it in
/// half a second, a bucket in a few.
const TOTAL_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes owed by all partitions of a broker.
#[derive(Debug, Default)]
pub(crate) struct ReplayDebt {
    total: AtomicU64,
    grown: Notify,
}

impl ReplayDebt {
    /// `bytes` more are owed by a partition that owes `own` with them.
    pub(crate) fn owe(&self, own: u64, bytes: u64) {
        let before = self.total.fetch_add(bytes, Ordering::AcqRel);
        let passes = |before: u64, bound: u64| before < bound && before + bytes >= bound;
        if passes(own - bytes, PARTITION_BYTES_MAX) || passes(before, TOTAL_BYTES_MAX) {
            self.grown.notify_one();
        }
    }

    /// `bytes` are not owed any more.
    pub(crate) fn settle(&self, bytes: u64) {
        self.total.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// `bytes` that were settled are owed after all. Wakes nobody: what failed just now would fail
    /// again, and the next look by age comes soon.
    pub(crate) fn owe_again(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Resolves once a bound has been passed since the last time.
    pub(crate) async fn grown(&self) {
        self.grown.notified().await;
    }

    /// From how many bytes on a partition is due, where there are so many. Beyond the total bound
    /// that is half of what each owes on average: so at least half of everything is settled.
    pub(crate) fn due_from(&self, partitions: usize) -> u64 {
        let total = self.total.load(Ordering::Acquire);
        if total < TOTAL_BYTES_MAX {
            return PARTITION_BYTES_MAX;
        }
        let share = total / 2 / u64::try_from(partitions).unwrap_or(u64::MAX).max(1);
        share.clamp(1, PARTITION_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn who_waits_is_woken_once_for_each_bound() {
        let debt = ReplayDebt::default();
        debt.owe(PARTITION_BYTES_MAX - 1, PARTITION_BYTES_MAX - 1);
        assert!(debt.grown().now_or_never().is_none());
        debt.owe(PARTITION_BYTES_MAX, 1);
        assert!(debt.grown().now_or_never().is_some());
        debt.owe(PARTITION_BYTES_MAX + 1, 1);
        assert!(debt.grown().now_or_never().is_none());
        debt.owe(5, TOTAL_BYTES_MAX.min(5));
        assert!(debt.grown().now_or_never().is_none());
        for _ in 0..TOTAL_BYTES_MAX / 1024 / 1024 {
            debt.owe(1024 * 1024, 1024 * 1024);
        }
        assert!(debt.grown().now_or_never().is_some(), "all together");
    }

    #[test]
    fn beyond_the_total_those_are_due_that_owe_most() {
        let debt = ReplayDebt::default();
        assert_eq!(debt.due_from(1_000), PARTITION_BYTES_MAX);
        debt.owe(TOTAL_BYTES_MAX, TOTAL_BYTES_MAX);
        assert_eq!(debt.due_from(1_024), 512 * 1024);
        assert_eq!(debt.due_from(1), PARTITION_BYTES_MAX);
        assert_eq!(debt.due_from(usize::MAX), 1);
        debt.settle(1);
        assert_eq!(debt.due_from(1_024), PARTITION_BYTES_MAX);
    }
}
