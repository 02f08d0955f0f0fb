//! The metrics recorder: Prometheus text, rendered on request.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;

/// Upper bounds of every histogram of seconds. The same everywhere and in every version, so that histograms
/// of many brokers and times can be added up; about √2 apart from 0.5 ms to 1 s, then 2 apart.
const SECONDS_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.016, 0.024, 0.032, 0.048,
    0.064, 0.096, 0.128, 0.192, 0.256, 0.384, 0.512, 0.768, 1.024, 2.048, 4.096, 8.192, 16.384,
    32.768,
];

/// The recorder could not be made the process's own.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be recorded: {0}")]
pub struct TelemetryError(String);

/// Renders the process's metrics. Brokers in one process (tests) share one recorder.
#[derive(Clone)]
pub(crate) struct Telemetry(PrometheusHandle);

impl Telemetry {
    /// Installs the recorder, once per process. Must happen before any part makes its handles.
    ///
    /// # Errors
    /// Another recorder is in place.
    pub(crate) fn install() -> Result<Self, TelemetryError> {
        static INSTALLED: OnceLock<PrometheusHandle> = OnceLock::new();
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = INSTALLING.lock();
        if let Some(handle) = INSTALLED.get() {
            return Ok(Self(handle.clone()));
        }
        let told = |error: &dyn std::fmt::Display| TelemetryError(error.to_string());
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)
            .map_err(|error| told(&error))?
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|error| told(&error))?;
        Ok(Self(INSTALLED.get_or_init(|| handle).clone()))
    }

    /// The metrics in Prometheus' text format.
    #[must_use]
    pub(crate) fn render(&self) -> String {
        self.0.render()
    }

    /// Folds recorded samples into their buckets; has to be called now and then, or memory grows
    /// with every sample between two renderings.
    pub(crate) fn fold(&self) {
        self.0.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_histograms_with_the_fixed_buckets() {
        let telemetry = Telemetry::install().expect("free");
        metrics::histogram!("millrace_test_seconds").record(0.0035);
        Telemetry::install().expect("the same again").fold();
        let text = telemetry.render();
        assert!(
            text.contains("millrace_test_seconds_bucket{le=\"0.003\"} 0"),
            "{text}"
        );
        assert!(
            text.contains("millrace_test_seconds_bucket{le=\"0.004\"} 1"),
            "{text}"
        );
        assert_eq!(
            text.matches("millrace_test_seconds_bucket").count(),
            SECONDS_BUCKETS.len() + 1
        );
    }
}
