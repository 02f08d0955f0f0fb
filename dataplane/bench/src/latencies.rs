//! Latencies as the benchmarks show them.

pub use millrace_perf::Latencies;
use serde_json::{Map, Value};

/// Writes `avg_ms`, `p50_ms`, `p99_ms`, `p999_ms` and `max_ms` to `out`; nothing where there are no
/// latencies.
pub fn describe(latencies: &Latencies, out: &mut Map<String, Value>) {
    let Some(summary) = latencies.summary() else {
        return;
    };
    for (key, ms) in [
        ("avg_ms", summary.mean),
        ("p50_ms", summary.p50),
        ("p99_ms", summary.p99),
        ("p999_ms", summary.p999),
        ("max_ms", summary.max),
    ] {
        out.insert(key.to_owned(), ms.into());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn percentiles_count_records_not_requests() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::from_millis(100), 1);
        latencies.add(Duration::from_millis(2), 98);
        latencies.add(Duration::from_millis(50), 1);
        let mut shown = Map::new();
        describe(&latencies, &mut shown);
        let ms = |key: &str| shown[key].as_f64().expect("a number");
        assert_eq!((ms("p50_ms"), ms("max_ms")), (2.0, 100.0));
        assert!((ms("p99_ms") - 50.0).abs() < 0.1);
        assert!((ms("avg_ms") - (196.0 + 150.0) / 100.0).abs() < 1e-9);
    }

    #[test]
    fn without_latencies_nothing_is_shown() {
        let mut shown = Map::new();
        describe(&Latencies::default(), &mut shown);
        assert!(shown.is_empty());
    }
}
