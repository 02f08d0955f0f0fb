//! The token bucket: bytes that may move now.

use std::time::Duration;

/// How much of a second's bandwidth may be saved up: short enough that a burst does not hurt
/// what is more urgent, long enough that timers' granularity costs no bandwidth.
const BURST: Duration = Duration::from_millis(100);

/// Bytes that gather with time. May go into debt: whoever asks for more than the bucket can ever
/// hold is let through once the bucket is not empty, and those behind wait the longer.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Bytes per second; none is without bound.
    rate: Option<u64>,
    /// Bytes times nanoseconds per second, so that no fraction is lost.
    level: i128,
    filled_at: Duration,
}

const SECOND_NS: i128 = 1_000_000_000;

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: Option<u64>, now: Duration) -> Self {
        let mut bucket = Self {
            rate,
            level: 0,
            filled_at: now,
        };
        bucket.level = bucket.capacity();
        bucket
    }

    /// Changes the rate. What was saved is kept within the new bounds, debt is forgiven where
    /// the bound falls.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.fill(now);
        self.rate = rate;
        self.level = if rate.is_none() {
            0
        } else {
            self.level.min(self.capacity())
        };
    }

    pub(crate) fn is_unbounded(&self) -> bool {
        self.rate.is_none()
    }

    /// Takes bytes if the bucket is not empty.
    pub(crate) fn take(&mut self, bytes: u64, now: Duration) -> bool {
        self.fill(now);
        let allowed = self.is_unbounded() || self.level > 0;
        if allowed && !self.is_unbounded() {
            self.level -= i128::from(bytes) * SECOND_NS;
        }
        allowed
    }

    /// How long until the bucket is not empty, if nobody takes.
    pub(crate) fn wait(&self) -> Duration {
        let rate = i128::from(self.rate.unwrap_or(u64::MAX).max(1));
        let missing = 1 - self.level;
        let wait_ns = if missing <= 0 {
            0
        } else {
            (missing + rate - 1) / rate
        };
        Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        if let Some(rate) = self.rate {
            let passed_ns = i128::try_from(passed.as_nanos()).unwrap_or(i128::MAX);
            let filled = i128::from(rate).saturating_mul(passed_ns);
            self.level = self.level.saturating_add(filled).min(self.capacity());
        }
    }

    fn capacity(&self) -> i128 {
        let burst_ns = i128::try_from(BURST.as_nanos()).unwrap_or(0);
        self.rate.map_or(0, |rate| i128::from(rate) * burst_ns)
    }
}
