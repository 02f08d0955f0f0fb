//! Latencies in a high dynamic range histogram: a bounded size, three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer latencies count as an hour: no request lives so long.
const LATENCY_MAX_US: u64 = 3_600_000_000;
/// Significant decimal digits that are kept. The histogram then takes less than 200 KiB.
const DIGITS: u8 = 3;

/// Latencies, in microseconds.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// In microseconds. The histogram's own mean is that of its buckets.
    sum: u128,
    /// Exact as well, in microseconds.
    max: u64,
}

/// Percentiles and extremes in milliseconds. The n-th percentile is the smallest latency that n percent
/// of the records did not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LatencySummary {
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, DIGITS);
        Self {
            histogram: histogram.expect("constant bounds that fit each other"),
            sum: 0,
            max: 0,
        }
    }
}

impl Latencies {
    /// Counts a latency that so many records had.
    pub fn add(&mut self, latency: Duration, records: u64) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US);
        let us = us.min(LATENCY_MAX_US);
        self.sum += u128::from(us) * u128::from(records);
        self.max = self.max.max(us);
        self.histogram.saturating_record_n(us, records);
    }

    /// Counts all of another's.
    pub fn merge(&mut self, other: &Self) {
        if other.count() == 0 {
            return;
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.histogram
            .add(&other.histogram)
            .expect("all histograms have the same bounds");
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        if self.count() > 0 {
            self.histogram.reset();
            (self.sum, self.max) = (0, 0);
        }
    }

    /// How many records were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Nothing where nothing was counted.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let ms = |us: u64| us as f64 / 1e3;
        // The upper end of the bucket, but no more than what really occurred.
        let at = |share| ms(self.histogram.value_at_quantile(share).min(self.max));
        Some(LatencySummary {
            min: ms(self.histogram.min()),
            mean: self.sum as f64 / count as f64 / 1e3,
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: ms(self.max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_records() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::from_millis(100), 1);
        latencies.add(Duration::from_millis(2), 98);
        latencies.add(Duration::from_millis(50), 1);
        let summary = latencies.summary().expect("not empty");
        assert_eq!(summary.p50, 2.0);
        assert!((summary.p99 - 50.0).abs() <= 0.05, "{summary:?}");
        assert!((summary.p999 - 100.0).abs() <= 0.1, "{summary:?}");
        assert!((summary.mean - (196.0 + 150.0) / 100.0).abs() < 1e-9);
        assert_eq!(latencies.count(), 100);
    }

    #[test]
    fn what_is_off_the_scale_counts_as_its_end() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::from_secs(100_000), 1);
        latencies.add(Duration::ZERO, 1);
        let summary = latencies.summary().expect("not empty");
        assert_eq!(summary.max, 3.6e6);
        assert_eq!(summary.min, 0.0);
        latencies.clear();
        assert_eq!(latencies.summary(), None);
    }

    #[test]
    fn merged_histograms_hold_both() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.add(Duration::from_millis(1), 1);
        other.add(Duration::from_millis(3), 1);
        one.merge(&other);
        assert_eq!(one.count(), 2);
        assert_eq!(one.summary().expect("two").mean, 2.0);
    }
}
