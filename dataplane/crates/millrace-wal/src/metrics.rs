//! The metrics of the log, under their Prometheus names.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

/// Over how long the rate behind "seconds of WAL left" is taken: long enough to smooth bursts,
/// short enough to warn.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// What "seconds of WAL left" says at most, and where nothing is written: a day.
const SECONDS_LEFT_MAX: f64 = 86_400.0;

/// Handles to the log's metrics, looked up once.
pub(crate) struct Metrics {
    pub(crate) capacity_bytes: Gauge,
    pub(crate) used_bytes: Gauge,
    pub(crate) trim_position: Gauge,
    pub(crate) next_position: Gauge,
    pub(crate) seconds_left: Gauge,
    pub(crate) records: Counter,
    pub(crate) payload_bytes: Counter,
    pub(crate) writes: Counter,
    pub(crate) written_bytes: Counter,
    pub(crate) write_seconds: Histogram,
    pub(crate) push_backs: Counter,
    pub(crate) header_writes: Counter,
    pub(crate) failures: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            capacity_bytes: metrics::gauge!("millrace_wal_capacity_bytes"),
            used_bytes: metrics::gauge!("millrace_wal_used_bytes"),
            trim_position: metrics::gauge!("millrace_wal_trim_position"),
            next_position: metrics::gauge!("millrace_wal_next_position"),
            seconds_left: metrics::gauge!("millrace_wal_seconds_left"),
            records: metrics::counter!("millrace_wal_records_total"),
            payload_bytes: metrics::counter!("millrace_wal_payload_bytes_total"),
            writes: metrics::counter!("millrace_wal_writes_total"),
            written_bytes: metrics::counter!("millrace_wal_written_bytes_total"),
            write_seconds: metrics::histogram!("millrace_wal_write_seconds"),
            push_backs: metrics::counter!("millrace_wal_push_back_total"),
            header_writes: metrics::counter!("millrace_wal_header_writes_total"),
            failures: metrics::counter!("millrace_wal_failures_total"),
        }
    }
}

/// How fast the log fills: an average that forgets with [`RATE_WINDOW`].
#[derive(Debug, Default)]
pub(crate) struct FillRate {
    bytes_per_s: f64,
    at: Duration,
    pending_bytes: u64,
}

impl FillRate {
    /// Counts bytes written up to `now`.
    pub(crate) fn add(&mut self, now: Duration, bytes: u64) {
        self.pending_bytes += bytes;
        let elapsed = now.saturating_sub(self.at).as_secs_f64();
        // Shorter steps would be all noise; their bytes wait for the next one.
        if elapsed < 0.1 {
            return;
        }
        let keep = (-elapsed / RATE_WINDOW.as_secs_f64()).exp();
        let rate = self.pending_bytes as f64 / elapsed;
        self.bytes_per_s = self.bytes_per_s * keep + rate * (1.0 - keep);
        self.pending_bytes = 0;
        self.at = now;
    }

    /// Seconds until `free` bytes are written at this rate; at most a day.
    pub(crate) fn seconds_left(&self, now: Duration, free: u64) -> f64 {
        let idle = now.saturating_sub(self.at).as_secs_f64();
        let rate = self.bytes_per_s * (-idle / RATE_WINDOW.as_secs_f64()).exp();
        if rate * SECONDS_LEFT_MAX <= free as f64 {
            return SECONDS_LEFT_MAX;
        }
        free as f64 / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_left_follow_the_rate() {
        let mut rate = FillRate::default();
        assert_eq!(rate.seconds_left(Duration::ZERO, 1 << 30), SECONDS_LEFT_MAX);
        for second in 1..=60 {
            rate.add(Duration::from_secs(second), 100);
        }
        let left = rate.seconds_left(Duration::from_secs(60), 10_000);
        assert!((95.0..110.0).contains(&left), "{left}");
        // An hour of silence later the log lasts for ever.
        assert_eq!(
            rate.seconds_left(Duration::from_secs(3660), 10_000),
            SECONDS_LEFT_MAX
        );
    }
}
