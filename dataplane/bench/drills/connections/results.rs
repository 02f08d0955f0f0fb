//! What was measured, and whether it is good enough.

use std::{ops::RangeInclusive, time::Duration};

use millrace_bench::spread::Spread;
use serde_json::{Value, json};

use crate::{broker::BROKER_BYTES_MAX, busy::Progress};

/// An idle connection costs the broker less than this, bytes of resident memory.
const IDLE_BYTES_MAX: f64 = 20.0 * 1_024.0;
/// A producer that gets less than this share of the median starves.
const STARVING_SHARE: f64 = 0.2;
/// A client beside others that do not read or stop half-way is answered within this.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// What malloc and the log add to the bound on requests and responses.
const CROWD_BYTES_MAX: f64 = 1.25 * BROKER_BYTES_MAX as f64;
/// What such clients have in flight by the broker's own account: with less they would not press, and
/// more is not bounded. Resident memory alone does not show that, since answers with the same records
/// share their memory.
const CROWD_IN_FLIGHT: RangeInclusive<f64> = 0.5 * BROKER_BYTES_MAX as f64..=CROWD_BYTES_MAX;
/// Where nobody produced.
const NO_RATES: Spread = Spread {
    median: 0.0,
    min: 0.0,
    max: 0.0,
};

/// Memory is in bytes, resident.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) idle: usize,
    pub(crate) before: u64,
    pub(crate) with_idle: u64,
    pub(crate) before_crowd: u64,
    pub(crate) crowd: usize,
    pub(crate) crowd_peak: u64,
    pub(crate) crowd_in_flight_peak: f64,
    pub(crate) cut_halves: f64,
    pub(crate) cut_slow_readers: f64,
    /// The longest that a client waited for an answer while the crowd was there.
    pub(crate) probe_max: Duration,
    pub(crate) before_busy: u64,
    pub(crate) busy_peak: u64,
    pub(crate) seconds: f64,
    pub(crate) producers: Vec<Progress>,
    pub(crate) greedy_bytes: u64,
}

impl Measured {
    /// The results, and what is not good enough.
    pub(crate) fn report(&self) -> (Value, Vec<String>) {
        let grown = |from: u64, to: u64| to.saturating_sub(from) as f64;
        let idle_bytes = grown(self.before, self.with_idle) / self.idle as f64;
        let crowd_bytes = grown(self.before_crowd, self.crowd_peak);
        let busy_bytes =
            grown(self.before_busy, self.busy_peak) / (self.producers.len() + 1) as f64;
        let rates: Vec<f64> = self
            .producers
            .iter()
            .map(|producer| producer.acknowledged as f64 / self.seconds)
            .collect();
        let jain = jain_index(&rates);
        let rate = Spread::of(rates).unwrap_or(NO_RATES);
        let (p50, p99, max) = percentiles(&self.producers);
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        let report = json!({
            "idle_connections": self.idle,
            "idle_bytes_each": idle_bytes,
            "crowd_connections": self.crowd,
            "crowd_bytes": crowd_bytes,
            "crowd_in_flight_bytes_peak": self.crowd_in_flight_peak,
            "crowd_cut_half_frames": self.cut_halves,
            "crowd_cut_slow_readers": self.cut_slow_readers,
            "crowd_probe_ms_max": ms(self.probe_max),
            "busy_connections": self.producers.len(),
            "busy_bytes_each": busy_bytes,
            "busy_requests_per_s": rate.json(),
            "busy_jain_index": jain,
            "busy_ms": { "p50": ms(p50), "p99": ms(p99), "max": ms(max) },
            "greedy_mb_per_s": self.greedy_bytes as f64 / self.seconds / f64::from(1 << 20),
        });
        let mut failures = Vec::new();
        let mut require = |holds: bool, failure: String| {
            if !holds {
                failures.push(failure);
            }
        };
        require(
            idle_bytes < IDLE_BYTES_MAX,
            format!("an idle connection costs {idle_bytes:.0} bytes"),
        );
        require(
            crowd_bytes < CROWD_BYTES_MAX,
            format!("clients that do not read or stop half-way cost {crowd_bytes:.0} bytes"),
        );
        let in_flight = self.crowd_in_flight_peak;
        require(
            CROWD_IN_FLIGHT.contains(&in_flight),
            format!("such clients have {in_flight:.0} bytes in flight"),
        );
        require(
            self.probe_max < PROBE_MAX,
            format!(
                "beside such clients another waited for {:?}",
                self.probe_max
            ),
        );
        require(
            rate.median > 0.0 && rate.min >= STARVING_SHARE * rate.median,
            format!(
                "a producer starves: {} requests/s, the median is {}",
                rate.min, rate.median
            ),
        );
        require(self.greedy_bytes > 0, "the greedy producer starves".into());
        (report, failures)
    }
}

/// Jain's index of fairness: 1 where all have the same, 1/n where one has everything.
fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares > 0.0 {
        sum * sum / (shares.len() as f64 * squares)
    } else {
        0.0
    }
}

fn percentiles(producers: &[Progress]) -> (Duration, Duration, Duration) {
    let mut all: Vec<Duration> = producers
        .iter()
        .flat_map(|producer| producer.latencies.iter().copied())
        .collect();
    all.sort_unstable();
    let at = |share: usize| {
        let index = (all.len() * share / 1_000).min(all.len().saturating_sub(1));
        all.get(index).copied().unwrap_or_default()
    };
    (at(500), at(990), at(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(rates: &[u64]) -> Measured {
        let producer = |&acknowledged| Progress {
            acknowledged,
            latencies: vec![Duration::from_millis(acknowledged)],
        };
        Measured {
            idle: 100,
            before: 0,
            with_idle: 100 * 10_240,
            before_crowd: 100 * 10_240,
            crowd: 2,
            crowd_peak: 200 * 10_240,
            crowd_in_flight_peak: 0.9 * BROKER_BYTES_MAX as f64,
            cut_halves: 0.0,
            cut_slow_readers: 0.0,
            probe_max: Duration::ZERO,
            before_busy: 0,
            busy_peak: 1 << 20,
            seconds: 1.0,
            producers: rates.iter().map(producer).collect(),
            greedy_bytes: 1,
        }
    }

    #[test]
    fn who_gets_less_than_a_fifth_of_the_median_starves() {
        let (report, failures) = measured(&[100, 100, 20]).report();
        assert!(failures.is_empty(), "{failures:?}");
        assert_eq!(report["busy_requests_per_s"]["min"], 20.0);
        assert_eq!(report["idle_bytes_each"], 10_240.0);
        assert_eq!(measured(&[100, 100, 19]).report().1.len(), 1);
        assert_eq!(measured(&[0, 0, 0]).report().1.len(), 1);
    }

    #[test]
    fn memory_has_bounds() {
        let mut dear = measured(&[100]);
        dear.with_idle = 100 * 20 * 1_024;
        assert_eq!(dear.report().1.len(), 1);
        dear.crowd_peak = 1 << 30;
        assert_eq!(dear.report().1.len(), 2);
        dear.probe_max = Duration::from_secs(3);
        assert_eq!(dear.report().1.len(), 3);
        for in_flight in [0.1, 1.5] {
            let mut wrong = measured(&[100]);
            wrong.crowd_in_flight_peak = in_flight * BROKER_BYTES_MAX as f64;
            assert_eq!(wrong.report().1.len(), 1, "{in_flight}");
        }
    }

    #[test]
    fn jains_index_tells_even_shares_from_uneven_ones() {
        assert!((jain_index(&[3.0, 3.0, 3.0]) - 1.0).abs() < 1e-9);
        assert!((jain_index(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-9);
        assert!(jain_index(&[]).abs() < 1e-9);
    }
}
