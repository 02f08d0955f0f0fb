//! What has passed, and how long it waited.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram};

use crate::tier::Tier;

/// A limiter at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimiterMetrics {
    /// The rate; none is without bound.
    pub bytes_per_second: Option<u64>,
    /// What has passed since the start, in the order of [`Tier::ALL`].
    pub tiers: [TierMetrics; Tier::ALL.len()],
}

/// What has passed of one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierMetrics {
    /// The tier.
    pub tier: Tier,
    /// Bytes that passed.
    pub bytes: u64,
    /// How long all who passed have waited, together.
    pub waited: Duration,
    /// Number of those who wait now.
    pub waiting: u64,
}

/// Counts of all tiers, and their metrics: `millrace_network_bytes_total`,
/// `millrace_network_wait_seconds` (of those who had to wait) and `millrace_network_waiting`, each
/// with `direction` and `tier`, `millrace_network_in_flight_bytes{direction}` (of
/// reads that were granted and have not arrived), and
/// `millrace_network_baseline_bytes_per_second{direction}`, where 0 is without bound.
#[derive(Debug)]
pub(crate) struct Metrics {
    tiers: [TierCounters; Tier::ALL.len()],
    in_flight: Gauge,
    baseline: Gauge,
}

#[derive(Debug)]
struct TierCounters {
    bytes: AtomicU64,
    waited_ns: AtomicU64,
    waiting: AtomicU64,
    bytes_total: Counter,
    wait_seconds: Histogram,
    waiting_now: Gauge,
}

impl Metrics {
    /// Counts that only [`Metrics::snapshot`] shows.
    pub(crate) fn private() -> Self {
        let tier = |_| TierCounters::new(Counter::noop(), Histogram::noop(), Gauge::noop());
        Self {
            tiers: Tier::ALL.map(tier),
            in_flight: Gauge::noop(),
            baseline: Gauge::noop(),
        }
    }

    /// Counts that are metrics as well.
    pub(crate) fn public(direction: &'static str) -> Self {
        let tier = |tier: Tier| {
            let labels = [("direction", direction), ("tier", tier.as_str())];
            TierCounters::new(
                metrics::counter!("millrace_network_bytes_total", &labels),
                metrics::histogram!("millrace_network_wait_seconds", &labels),
                metrics::gauge!("millrace_network_waiting", &labels),
            )
        };
        let labels = [("direction", direction)];
        Self {
            tiers: Tier::ALL.map(tier),
            in_flight: metrics::gauge!("millrace_network_in_flight_bytes", &labels),
            baseline: metrics::gauge!("millrace_network_baseline_bytes_per_second", &labels),
        }
    }

    pub(crate) fn moved(&self, tier: Tier, bytes: u64) {
        let tier = &self.tiers[tier as usize];
        tier.bytes.fetch_add(bytes, Ordering::Relaxed);
        tier.bytes_total.increment(bytes);
    }

    pub(crate) fn waited(&self, tier: Tier, waited: Duration) {
        let tier = &self.tiers[tier as usize];
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        tier.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        tier.wait_seconds.record(waited.as_secs_f64());
    }

    pub(crate) fn begins_to_wait(&self, tier: Tier) {
        let tier = &self.tiers[tier as usize];
        tier.waiting.fetch_add(1, Ordering::Relaxed);
        tier.waiting_now.increment(1.0);
    }

    pub(crate) fn waits_no_more(&self, tier: Tier) {
        let tier = &self.tiers[tier as usize];
        tier.waiting.fetch_sub(1, Ordering::Relaxed);
        tier.waiting_now.decrement(1.0);
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(crate) fn sent(&self, bytes: u64) {
        self.in_flight.increment(bytes as f64);
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(crate) fn arrived(&self, bytes: u64) {
        self.in_flight.decrement(bytes as f64);
    }

    pub(crate) fn set_baseline(&self, bytes_per_second: Option<u64>) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        self.baseline.set(bytes_per_second.unwrap_or(0) as f64);
    }

    pub(crate) fn snapshot(&self, bytes_per_second: Option<u64>) -> LimiterMetrics {
        let of_tier = |tier: Tier| {
            let tier_counters = &self.tiers[tier as usize];
            TierMetrics {
                tier,
                bytes: tier_counters.bytes.load(Ordering::Relaxed),
                waited: Duration::from_nanos(tier_counters.waited_ns.load(Ordering::Relaxed)),
                waiting: tier_counters.waiting.load(Ordering::Relaxed),
            }
        };
        LimiterMetrics {
            bytes_per_second,
            tiers: Tier::ALL.map(of_tier),
        }
    }
}

impl TierCounters {
    fn new(bytes_total: Counter, wait_seconds: Histogram, waiting_now: Gauge) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            bytes_total,
            wait_seconds,
            waiting_now,
        }
    }
}
