//! Time, randomness and the trace, which every part of the simulation shares.

use std::time::Duration;

use millrace_time::{Clock, SeededRandom, SharedClock, SharedRandom};
use tokio::time::Instant;

use crate::{planted::Planted, trace::Trace};

/// What the seed decides.
#[derive(Debug, Clone)]
pub(crate) struct Seams {
    pub(crate) clock: SharedClock,
    pub(crate) random: SharedRandom,
    pub(crate) trace: Trace,
    /// What is wrong with the simulated parts.
    pub(crate) planted: Option<Planted>,
}

impl Seams {
    /// Must be called in the simulation's runtime, whose time stands still until everybody waits.
    #[expect(clippy::disallowed_methods, reason = "the clock of the simulation")]
    pub(crate) fn new(seed: u64, planted: Option<Planted>) -> Self {
        let clock = std::sync::Arc::new(VirtualClock {
            origin: Instant::now(),
        });
        Self {
            trace: Trace::new(clock.clone()),
            clock,
            random: SeededRandom::shared(seed),
            planted,
        }
    }

    pub(crate) fn has(&self, fault: Planted) -> bool {
        self.planted == Some(fault)
    }

    /// A time between two, in milliseconds.
    pub(crate) fn between_ms(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.random.below(most - least + 1))
    }
}

/// What the wall clock shows when a simulation begins.
const WALL_ORIGIN_MS: i64 = 1_700_000_000_000;

/// The paused time of the runtime.
#[derive(Debug)]
struct VirtualClock {
    origin: Instant,
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        WALL_ORIGIN_MS + i64::try_from(self.now().as_millis()).unwrap_or(i64::MAX)
    }
}
