//! What the client counts: requests by API, bytes, latencies, connections, throttling.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_wire::ApiKey;
use parking_lot::RwLock;

/// Buckets of a latency histogram: bucket n holds less than 2^n microseconds, the last one the
/// rest, which is more than an hour.
const LATENCY_BUCKETS: usize = 32;

/// What a client has done so far. All numbers only grow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Connections that were opened.
    pub connections_opened: u64,
    /// Attempts to connect or authenticate that failed.
    pub connections_failed: u64,
    /// Connections that ended.
    pub connections_closed: u64,
    /// For how long brokers asked the client to pause, in sum.
    pub throttled: Duration,
    /// Requests by the name of their API.
    pub requests: BTreeMap<String, RequestMetrics>,
}

/// What requests of one API have done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestMetrics {
    /// Requests that were written.
    pub sent: u64,
    /// Requests that were answered, with whatever code.
    pub answered: u64,
    /// Requests that got no answer: cut connections, time-outs.
    pub failed: u64,
    /// Bytes of requests, frames included.
    pub sent_bytes: u64,
    /// Bytes of responses, frames included.
    pub received_bytes: u64,
    /// Time from the write of a request to its answer, in sum.
    pub latency_sum: Duration,
    /// How many answers took less than 2^n microseconds and at least half of that, by n.
    pub latency_buckets: Vec<u64>,
}

impl RequestMetrics {
    /// An upper bound of the latency that this part (0 to 1) of the answers did not exceed, exact to
    /// a factor of two; nothing without answers.
    #[must_use]
    pub fn latency_at(&self, part: f64) -> Option<Duration> {
        let total: u64 = self.latency_buckets.iter().sum();
        let rank = (part.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.latency_buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_micros(1 << bucket))
    }
}

/// The live counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) connections_opened: AtomicU64,
    pub(crate) connections_failed: AtomicU64,
    pub(crate) connections_closed: AtomicU64,
    pub(crate) throttled_us: AtomicU64,
    /// Bounded by the number of APIs.
    by_api: RwLock<BTreeMap<i16, Arc<ApiCounters>>>,
}

/// The live counters of one API.
#[derive(Debug)]
pub(crate) struct ApiCounters {
    api_key: ApiKey,
    sent: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    latency_us: AtomicU64,
    latencies: [AtomicU64; LATENCY_BUCKETS],
}

impl Metrics {
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, api_key: ApiKey) -> Arc<ApiCounters> {
        let key = api_key as i16;
        if let Some(counters) = self.by_api.read().get(&key) {
            return Arc::clone(counters);
        }
        let mut by_api = self.by_api.write();
        let new = || Arc::new(ApiCounters::new(api_key));
        Arc::clone(by_api.entry(key).or_insert_with(new))
    }

    pub(crate) fn throttled(&self, by: Duration) {
        self.throttled_us.fetch_add(micros(by), Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let by_api = self.by_api.read();
        MetricsSnapshot {
            connections_opened: read(&self.connections_opened),
            connections_failed: read(&self.connections_failed),
            connections_closed: read(&self.connections_closed),
            throttled: Duration::from_micros(read(&self.throttled_us)),
            requests: by_api
                .values()
                .map(|counters| (format!("{:?}", counters.api_key), counters.snapshot()))
                .collect(),
        }
    }
}

impl ApiCounters {
    fn new(api_key: ApiKey) -> Self {
        Self {
            api_key,
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            latency_us: AtomicU64::new(0),
            latencies: [const { AtomicU64::new(0) }; LATENCY_BUCKETS],
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn answered(&self, bytes: usize, latency: Duration) {
        let us = micros(latency);
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.received_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.latency_us.fetch_add(us, Ordering::Relaxed);
        self.latencies[bucket.min(LATENCY_BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn snapshot(&self) -> RequestMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestMetrics {
            sent: read(&self.sent),
            answered: read(&self.answered),
            failed: read(&self.failed),
            sent_bytes: read(&self.sent_bytes),
            received_bytes: read(&self.received_bytes),
            latency_sum: Duration::from_micros(read(&self.latency_us)),
            latency_buckets: self.latencies.iter().map(read).collect(),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_known_to_a_factor_of_two() {
        let metrics = Metrics::default();
        let counters = metrics.of(ApiKey::Produce);
        for ms in 1..=100 {
            counters.answered(10, Duration::from_millis(ms));
        }
        let produce = &metrics.snapshot().requests["Produce"];
        assert_eq!((produce.answered, produce.received_bytes), (100, 1_000));
        let p50 = produce.latency_at(0.5).expect("answers");
        assert!(p50 >= Duration::from_millis(50) && p50 <= Duration::from_millis(100));
        let p100 = produce.latency_at(1.0).expect("answers");
        assert!(p100 >= Duration::from_millis(100) && p100 <= Duration::from_millis(200));
        assert_eq!(RequestMetrics::default().latency_at(0.5), None);
    }
}
