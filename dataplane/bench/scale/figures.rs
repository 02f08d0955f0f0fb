//! What is measured of a step.

use millrace_bench::spread::Spread;

/// What one round has shown of one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) mib_per_s: f64,
    pub(crate) p99_ms: f64,
    pub(crate) cpu_s_per_gib: f64,
    pub(crate) idle_cpu_ms_per_s: f64,
    pub(crate) resident_mib: f64,
    pub(crate) resident_loaded_mib: f64,
    pub(crate) restart_accepts_s: f64,
    pub(crate) restart_s: f64,
    pub(crate) restart_cpu_s: f64,
}

/// One of the figures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figure {
    /// Its key in the JSON.
    pub(crate) key: &'static str,
    /// Its heading in a table.
    pub(crate) heading: &'static str,
    pub(crate) digits: usize,
    pub(crate) of: fn(&Figures) -> f64,
    /// A cost is less than this by chance.
    pub(crate) noise: f64,
    /// Less is worse: the cost is the figure's inverse.
    pub(crate) is_rate: bool,
}

impl Figure {
    const fn cost(
        key: &'static str,
        heading: &'static str,
        digits: usize,
        of: fn(&Figures) -> f64,
        noise: f64,
    ) -> Self {
        Self {
            key,
            heading,
            digits,
            of,
            noise,
            is_rate: false,
        }
    }

    /// What a value of the figure costs.
    pub(crate) fn cost_of(&self, value: f64) -> f64 {
        if self.is_rate { 1.0 / value } else { value }
    }

    /// What the values of the figure cost.
    pub(crate) fn costs_of(&self, values: Spread) -> Spread {
        let [one, other] = [values.min, values.max].map(|value| self.cost_of(value));
        Spread {
            median: self.cost_of(values.median),
            min: one.min(other),
            max: one.max(other),
        }
    }
}

/// Resident memory of equal brokers differs by so much.
pub(crate) const RESIDENT_NOISE_MIB: f64 = 4.0;

/// All of them, in the order of the tables.
pub(crate) const FIGURES: [Figure; 9] = [
    Figure {
        is_rate: true,
        ..Figure::cost("mib_per_s", "MiB/s", 0, |of| of.mib_per_s, 0.0)
    },
    Figure::cost("p99_ms", "p99 ms", 1, |of| of.p99_ms, 1.0),
    Figure::cost("cpu_s_per_gib", "CPU s/GiB", 2, |of| of.cpu_s_per_gib, 0.1),
    Figure::cost(
        "idle_cpu_ms_per_s",
        "idle CPU ms/s",
        1,
        |of| of.idle_cpu_ms_per_s,
        4.0,
    ),
    Figure::cost(
        "resident_mib",
        "resident MiB",
        0,
        |of| of.resident_mib,
        RESIDENT_NOISE_MIB,
    ),
    Figure::cost(
        "resident_loaded_mib",
        "under load MiB",
        0,
        |of| of.resident_loaded_mib,
        40.0,
    ),
    Figure::cost(
        "restart_accepts_s",
        "accepts s",
        2,
        |of| of.restart_accepts_s,
        0.1,
    ),
    Figure::cost("restart_s", "serves s", 2, |of| of.restart_s, 0.1),
    Figure::cost(
        "restart_cpu_s",
        "restart CPU s",
        2,
        |of| of.restart_cpu_s,
        0.2,
    ),
];
