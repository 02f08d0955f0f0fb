//! Whether the machine is quiet.

use std::{thread, time::Duration};

use crate::usage::machine_ticks;

/// How much of the machine must idle.
const IDLE_PERCENT_MIN: f64 = 93.0;

/// How a quiet machine is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long it must be quiet.
    pub quiet: Duration,
    /// How often that is tried.
    pub tries_max: usize,
}

impl Patience {
    /// Two quiet seconds, within ten.
    pub const THOROUGH: Self = Self {
        quiet: Duration::from_secs(2),
        tries_max: 5,
    };
}

/// Lets this thread sleep.
#[expect(
    clippy::disallowed_methods,
    reason = "benchmarks and drills wait on real processes"
)]
pub fn pause(time: Duration) {
    thread::sleep(time);
}

/// Waits until the machine is quiet, but not for ever. Returns the last share of idle time seen,
/// in percent, for the report to show.
pub fn wait_until_quiet(patience: Patience) -> f64 {
    let mut idle_percent = 0.0;
    for _ in 0..patience.tries_max {
        let (busy_before, total_before) = machine_ticks();
        pause(patience.quiet);
        let (busy, total) = machine_ticks();
        let passed = total.saturating_sub(total_before).max(1);
        idle_percent = 100.0 - 100.0 * busy.saturating_sub(busy_before) as f64 / passed as f64;
        if idle_percent >= IDLE_PERCENT_MIN {
            break;
        }
    }
    idle_percent
}
