//! Caps on write operations and bytes per second.

use std::time::Duration;

/// A cloud volume counts one operation per this many bytes of a larger one (EBS gp3 and io2).
const OPERATION_BYTES: u64 = 256 * 1024;

/// Unused allowance that may be spent at once: as in a bucket of a tenth of the rate.
const BURST: Duration = Duration::from_millis(100);

/// A leaky bucket over time: each write moves the moment of the next one.
#[derive(Debug)]
pub(crate) struct Pacer {
    operation: Duration,
    byte_ns: f64,
    /// Unused allowance that may be spent at once, as time.
    burst: Duration,
    /// When all allowance that was spent so far has been earned.
    earned_at: Duration,
}

impl Pacer {
    /// Caps at `iops` operations and `bytes_per_s` bytes per second; `None` does not cap.
    pub(crate) fn new(iops: Option<u32>, bytes_per_s: Option<u64>) -> Self {
        let operation = iops.map_or(Duration::ZERO, |n| Duration::from_secs(1) / n.max(1));
        let byte_ns = bytes_per_s.map_or(0.0, |n| 1e9 / n.max(1) as f64);
        Self {
            operation,
            byte_ns,
            burst: BURST,
            earned_at: Duration::ZERO,
        }
    }

    /// The same without any burst: allowance that is not used is gone.
    pub(crate) fn strict(iops: Option<u32>, bytes_per_s: Option<u64>) -> Self {
        Self {
            burst: Duration::ZERO,
            ..Self::new(iops, bytes_per_s)
        }
    }

    /// How long a write has to wait for its turn; zero where it may go now.
    pub(crate) fn wait(&self, now: Duration) -> Duration {
        self.earned_at.saturating_sub(now + self.burst)
    }

    /// Charges a write of `bytes` and says when its turn is: never before `now`.
    pub(crate) fn charge(&mut self, now: Duration, bytes: u64) -> Duration {
        let turn = now + self.wait(now);
        let operations = u32::try_from(bytes.div_ceil(OPERATION_BYTES)).unwrap_or(u32::MAX);
        let by_bytes = Duration::from_nanos((self.byte_ns * bytes as f64) as u64);
        let cost = self.operation.saturating_mul(operations).max(by_bytes);
        self.earned_at = self.earned_at.max(now) + cost;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes as fast as allowed for ten seconds of virtual time; returns how many.
    fn writes_in_10_s(mut pacer: Pacer, bytes: u64) -> u32 {
        let (mut now, mut count) = (Duration::ZERO, 0);
        while now < Duration::from_secs(10) {
            now = now.max(pacer.charge(now, bytes));
            count += 1;
            if pacer.wait(now).is_zero() && pacer.operation.is_zero() && pacer.byte_ns == 0.0 {
                return u32::MAX;
            }
        }
        count
    }

    #[test]
    fn operations_are_capped() {
        let count = writes_in_10_s(Pacer::new(Some(1000), None), 4096);
        assert!((10_000..=10_102).contains(&count), "{count}");
        let count = writes_in_10_s(Pacer::new(Some(1000), None), 1 << 20);
        assert!((2_500..=2_530).contains(&count), "{count}");
    }

    #[test]
    fn bytes_are_capped() {
        let count = writes_in_10_s(Pacer::new(None, Some(100 << 20)), 1 << 20);
        assert!((1_000..=1_012).contains(&count), "{count}");
    }

    #[test]
    fn a_strict_pacer_spaces_every_write() {
        let mut pacer = Pacer::strict(Some(1_000), None);
        let start = Duration::from_secs(7);
        let turns: Vec<Duration> = (0..3).map(|_| pacer.charge(start, 4096)).collect();
        let ms = Duration::from_millis(1);
        assert_eq!(turns, [start, start + ms, start + 2 * ms]);
    }

    #[test]
    fn without_caps_nothing_waits() {
        assert_eq!(writes_in_10_s(Pacer::new(None, None), 1 << 20), u32::MAX);
    }
}
