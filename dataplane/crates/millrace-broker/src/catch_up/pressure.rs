//! What readers have waited for lately: each tier of the network, and the bucket.

use std::time::Duration;

use millrace_limiter::{Limiter, Network, Tier};
use millrace_objects::{ObjectStorage, bucket::BucketReads};

use crate::catch_up::rate::Rate;

/// The window of "lately".
const WINDOW: Duration = Duration::from_secs(30);
const MICROS_PER_SECOND: f64 = 1e6;

/// Looks at limiters and bucket, time after time.
#[derive(Debug, Clone)]
pub(crate) struct Pressure {
    network: Network,
    bucket: ObjectStorage,
    sampled_at: Option<Duration>,
    pub(crate) ingress: TierPressure,
    pub(crate) egress: TierPressure,
    pub(crate) reads: BucketPressure,
}

impl Pressure {
    pub(crate) fn new(network: Network, bucket: ObjectStorage) -> Self {
        Self {
            network,
            bucket,
            sampled_at: None,
            ingress: TierPressure::new(),
            egress: TierPressure::new(),
            reads: BucketPressure::new(),
        }
    }

    /// The next look, at this time.
    pub(crate) fn sample(&mut self, at: Duration) {
        let before = self.sampled_at.replace(at);
        let within = before.map_or(Duration::ZERO, |before| at.saturating_sub(before));
        self.ingress.sample(&self.network.ingress, within);
        self.egress.sample(&self.network.egress, within);
        self.reads.sample(self.bucket.reads(), within);
    }
}

/// How many wait for one direction of the network, by tier.
#[derive(Debug, Clone)]
pub(crate) struct TierPressure([Counter; Tier::ALL.len()]);

impl TierPressure {
    fn new() -> Self {
        Self([Counter::new(); Tier::ALL.len()])
    }

    fn sample(&mut self, limiter: &Limiter, within: Duration) {
        for (counter, tier) in self.0.iter_mut().zip(limiter.metrics().tiers) {
            counter.sample(micros(tier.waited), within);
        }
    }

    /// Seconds waited per second: how many have waited at a time.
    pub(crate) fn waiting_mean(&self, tier: Tier) -> f64 {
        let of = Tier::ALL.into_iter().zip(&self.0);
        let mut found = of.filter(|(each, _)| *each == tier);
        found.next().map_or(0.0, |(_, counter)| {
            counter.rate.per_second() / MICROS_PER_SECOND
        })
    }
}

/// Reads of the bucket.
#[derive(Debug, Clone)]
pub(crate) struct BucketPressure {
    all: Counter,
    failed: Counter,
    busy_us: Counter,
}

impl BucketPressure {
    fn new() -> Self {
        Self {
            all: Counter::new(),
            failed: Counter::new(),
            busy_us: Counter::new(),
        }
    }

    fn sample(&mut self, reads: BucketReads, within: Duration) {
        self.all.sample(reads.calls, within);
        self.failed.sample(reads.failed, within);
        self.busy_us.sample(micros(reads.busy), within);
    }

    pub(crate) fn reads_per_second(&self) -> f64 {
        self.all.rate.per_second()
    }

    pub(crate) fn failed_per_second(&self) -> f64 {
        self.failed.rate.per_second()
    }

    /// How long a read takes, from request to its last byte.
    pub(crate) fn seconds_mean(&self) -> Option<f64> {
        let reads = self.reads_per_second();
        (reads > 0.0).then(|| self.busy_us.rate.per_second() / MICROS_PER_SECOND / reads)
    }
}

/// A count that only grows, and how fast it has grown lately.
#[derive(Debug, Clone, Copy)]
struct Counter {
    last: u64,
    rate: Rate,
}

impl Counter {
    fn new() -> Self {
        Self {
            last: 0,
            rate: Rate::over(WINDOW),
        }
    }

    /// The first sample, whose `within` is zero, only sets where counting starts.
    fn sample(&mut self, now: u64, within: Duration) {
        let grown = now.saturating_sub(std::mem::replace(&mut self.last, now));
        self.rate.add(grown, within);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn reads_are_told_with_their_failures_and_their_time() {
        let mut pressure = BucketPressure::new();
        let mut reads = BucketReads {
            calls: 1_000,
            failed: 1_000,
            busy: 1_000 * SECOND,
        };
        pressure.sample(reads, Duration::ZERO);
        assert_eq!(
            pressure.seconds_mean(),
            None,
            "what was before is not lately"
        );
        for _ in 0..5 {
            reads.calls += 10;
            reads.failed += 1;
            reads.busy += 2 * SECOND;
            pressure.sample(reads, SECOND);
        }
        assert!((pressure.reads_per_second() - 10.0).abs() < 1e-6);
        assert!((pressure.failed_per_second() - 1.0).abs() < 1e-6);
        let mean = pressure.seconds_mean().expect("reads");
        assert!((mean - 0.2).abs() < 1e-6, "{mean}");
    }
}
