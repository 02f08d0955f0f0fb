//! Rates of bursty quantities.

use std::time::Duration;

/// An exponentially weighted mean of a rate over irregular samples. What was before the first sample
/// counts as nothing known, not as nothing moved: the mean is right from the first sample on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// How long a sample counts: after this long it has a weight of 1/e.
    window: Duration,
    /// Weighted bytes and weighted seconds.
    bytes: f64,
    seconds: f64,
}

impl Rate {
    pub(crate) fn over(window: Duration) -> Self {
        Self {
            window,
            bytes: 0.0,
            seconds: 0.0,
        }
    }

    /// So many bytes have moved in so long, evenly. However long that was, its weight is that of one
    /// window at most.
    pub(crate) fn add(&mut self, bytes: u64, within: Duration) {
        let (window, within) = (self.window.as_secs_f64(), within.as_secs_f64());
        if within <= 0.0 {
            return;
        }
        let keep = (-within / window).exp();
        let seconds = window * (1.0 - keep);
        #[expect(clippy::cast_precision_loss, reason = "a mean is no exact number")]
        let bytes = bytes as f64;
        self.bytes = self.bytes * keep + bytes / within * seconds;
        self.seconds = self.seconds * keep + seconds;
    }

    /// Bytes per second; 0 before the first sample.
    pub(crate) fn per_second(&self) -> f64 {
        if self.seconds > 0.0 {
            self.bytes / self.seconds
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_steady_rate_is_known_at_once_and_a_new_one_after_a_few_windows() {
        let mut rate = Rate::over(10 * SECOND);
        assert!(rate.per_second().abs() < f64::EPSILON);
        rate.add(500, SECOND);
        assert!((rate.per_second() - 500.0).abs() < 1e-9);
        for _ in 0..50 {
            rate.add(100, SECOND);
        }
        assert!((100.0..105.0).contains(&rate.per_second()), "{rate:?}");
        for _ in 0..200 {
            rate.add(0, SECOND);
        }
        assert!(rate.per_second() < 1e-3, "{rate:?}");
    }

    #[test]
    fn lumps_are_spread_over_the_window() {
        let mut rate = Rate::over(60 * SECOND);
        for n in 0..120 {
            rate.add(if n % 5 == 4 { 5_000 } else { 0 }, SECOND);
        }
        assert!((950.0..1_050.0).contains(&rate.per_second()), "{rate:?}");
    }

    #[test]
    fn one_long_sample_says_what_many_short_ones_would() {
        let (mut long, mut short) = (Rate::over(60 * SECOND), Rate::over(60 * SECOND));
        long.add(600_000, 600 * SECOND);
        (0..600).for_each(|_| short.add(1_000, SECOND));
        for rate in [&mut long, &mut short] {
            assert!((rate.per_second() - 1_000.0).abs() < 1e-6, "{rate:?}");
            (0..60).for_each(|_| rate.add(0, SECOND));
        }
        assert!(
            (long.per_second() - short.per_second()).abs() < 1e-6,
            "{long:?} {short:?}"
        );
    }
}
