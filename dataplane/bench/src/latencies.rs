//! Latencies, kept one by one: a run has few enough of them that nothing needs to be estimated.

use std::time::Duration;

use serde_json::{Map, Value};

/// Latencies of one run, each of some number of records.
#[derive(Debug, Default)]
pub struct Latencies {
    /// Microseconds, and of how many records.
    samples: Vec<(u64, u64)>,
}

impl Latencies {
    /// Takes note of a latency that some records had.
    pub fn add(&mut self, latency: Duration, records: u64) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        match self.samples.last_mut() {
            // Records of one request that came due at once.
            Some((last, count)) if *last == micros => *count += records,
            _ => self.samples.push((micros, records)),
        }
    }

    /// Writes `avg_ms`, `p50_ms`, `p99_ms`, `p999_ms` and `max_ms` to `out`; nothing where there
    /// are no latencies. The n-th percentile is the smallest latency that is not passed by n
    /// percent of the records.
    pub fn describe(mut self, out: &mut Map<String, Value>) {
        self.samples.sort_unstable();
        let records: u64 = self.samples.iter().map(|&(_, count)| count).sum();
        let Some(&(max, _)) = self.samples.last() else {
            return;
        };
        let total: f64 = self
            .samples
            .iter()
            .map(|&(us, n)| us as f64 * n as f64)
            .sum();
        let mut put = |key: &str, micros: f64| out.insert(key.to_owned(), (micros / 1e3).into());
        put("avg_ms", total / records as f64);
        put("p50_ms", self.percentile(records, 0.5));
        put("p99_ms", self.percentile(records, 0.99));
        put("p999_ms", self.percentile(records, 0.999));
        put("max_ms", max as f64);
    }

    fn percentile(&self, records: u64, share: f64) -> f64 {
        let rank = (share * records as f64).ceil() as u64;
        let mut passed = 0;
        let reached = self.samples.iter().find(|&&(_, count)| {
            passed += count;
            passed >= rank
        });
        reached.map_or(f64::NAN, |&(micros, _)| micros as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_records_not_requests() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::from_millis(100), 1);
        latencies.add(Duration::from_millis(2), 90);
        latencies.add(Duration::from_millis(2), 8);
        latencies.add(Duration::from_millis(50), 1);
        let mut shown = Map::new();
        latencies.describe(&mut shown);
        let ms = |key: &str| shown[key].as_f64().expect("a number");
        assert_eq!(ms("p50_ms"), 2.0);
        assert_eq!(ms("p99_ms"), 50.0);
        assert_eq!(ms("p999_ms"), 100.0);
        assert_eq!(ms("max_ms"), 100.0);
        assert!((ms("avg_ms") - (196.0 + 150.0) / 100.0).abs() < 1e-9);
    }

    #[test]
    fn without_latencies_nothing_is_shown() {
        let mut shown = Map::new();
        Latencies::default().describe(&mut shown);
        assert!(shown.is_empty());
    }
}
