//! Whether memory grows while the same is done for a long time.

use std::time::Duration;

use millrace_bench::spread::Spread;
use serde_json::{Value, json};

/// The first part of the samples, in which caches and pools fill.
const WARM_UP_SHARE: f64 = 0.25;
/// What the last third may have more than the first third, as a share of the first,
const GROWTH_SHARE_MAX: f64 = 0.05;
/// and beyond that, bytes: what malloc keeps or gives back at one time or another.
const GROWTH_BYTES_MAX: f64 = 16.0 * 1_048_576.0;
/// With fewer there is no trend.
const SAMPLES_MIN: usize = 30;

/// A process's resident memory over time.
#[derive(Debug, Default)]
pub(crate) struct Trend {
    /// Seconds, and bytes.
    samples: Vec<(f64, f64)>,
}

impl Trend {
    pub(crate) fn add(&mut self, at: Duration, bytes: u64) {
        self.samples.push((at.as_secs_f64(), bytes as f64));
    }

    /// What is judged: the samples behind the warm-up.
    fn settled(&self) -> &[(f64, f64)] {
        let skipped = (self.samples.len() as f64 * WARM_UP_SHARE) as usize;
        &self.samples[skipped..]
    }

    /// The slope of the least squares, bytes per minute.
    fn slope_per_minute(&self) -> f64 {
        let samples = self.settled();
        let count = samples.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / count;
        let (time, bytes) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (at, found) in samples {
            covariance += (at - time) * (found - bytes);
            variance += (at - time) * (at - time);
        }
        covariance / variance * 60.0
    }

    /// Medians of the first third and of the last one.
    fn thirds(&self) -> Option<(f64, f64)> {
        let samples = self.settled();
        let third = samples.len() / 3;
        let median = |of: &[(f64, f64)]| Spread::of(of.iter().map(|(_, bytes)| *bytes));
        let first = median(samples.get(..third)?)?;
        let last = median(samples.get(samples.len() - third..)?)?;
        Some((first.median, last.median))
    }

    /// What was seen, and why it is not flat, if it is not.
    pub(crate) fn report(&self) -> (Value, Option<String>) {
        let thirds = self.thirds().filter(|_| self.samples.len() >= SAMPLES_MIN);
        let Some((first, last)) = thirds else {
            let reason = format!("{} samples of memory show no trend", self.samples.len());
            return (Value::Null, Some(reason));
        };
        let bound = first * GROWTH_SHARE_MAX + GROWTH_BYTES_MAX;
        let grown = last - first;
        let slope = self.slope_per_minute();
        let mib = |bytes: f64| bytes / 1_048_576.0;
        let report = json!({
            "samples": self.samples.len(),
            "first_third_mib": mib(first),
            "last_third_mib": mib(last),
            "slope_mib_per_minute": mib(slope),
            "growth_mib_max": mib(bound),
        });
        let failure = (grown > bound).then(|| {
            format!(
                "memory grew from {:.0} to {:.0} MiB in the calm phase, {:.2} MiB per minute",
                mib(first),
                mib(last),
                mib(slope)
            )
        });
        (report, failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(bytes: impl Fn(u64) -> u64) -> Trend {
        let mut trend = Trend::default();
        for second in 0..120 {
            trend.add(Duration::from_secs(second), bytes(second));
        }
        trend
    }

    #[test]
    fn what_fills_at_the_beginning_and_stays_is_flat() {
        let filled = trend(|second| (100 + second.min(25) * 10) << 20);
        let (report, failure) = filled.report();
        assert_eq!(failure, None, "{report}");
        let noisy = trend(|second| (200 + second % 7 * 2) << 20);
        assert_eq!(noisy.report().1, None);
    }

    #[test]
    fn a_leak_is_seen_and_its_slope_told() {
        let leaking = trend(|second| (100 << 20) + second * (1 << 20));
        let (report, failure) = leaking.report();
        assert!(failure.expect("a leak").contains("memory grew"));
        let slope = report["slope_mib_per_minute"].as_f64().expect("a number");
        assert!((slope - 60.0).abs() < 1e-6, "{slope}");
    }

    #[test]
    fn too_few_samples_are_no_proof() {
        let mut trend = Trend::default();
        trend.add(Duration::ZERO, 1);
        assert!(trend.report().1.is_some());
    }
}
