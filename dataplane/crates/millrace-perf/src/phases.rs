//! The parts of a run, by its clock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use millrace_time::SharedClock;
use serde::Serialize;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Not measured.
    Warmup,
    /// A backlog is produced, and nobody consumes.
    Backlog,
    /// Measured.
    Test,
    /// The backlog is consumed, and producing continues.
    CatchUp,
}

impl Phase {
    pub(crate) const ALL: [Self; 4] = [Self::Warmup, Self::Backlog, Self::Test, Self::CatchUp];
}

/// When the parts of a run begin. Times are microseconds since the start of the run.
#[derive(Debug)]
pub(crate) struct Phases {
    clock: SharedClock,
    origin: Duration,
    warmup_ends_us: u64,
    /// What follows the warm-up.
    second: Phase,
    /// `u64::MAX` until it is known.
    catch_up_begins_us: AtomicU64,
}

impl Phases {
    /// A run that begins now.
    pub(crate) fn begin(clock: SharedClock, warmup: Duration, second: Phase) -> Self {
        Self {
            origin: clock.now(),
            clock,
            warmup_ends_us: micros(warmup),
            second,
            catch_up_begins_us: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn now_us(&self) -> u64 {
        micros(self.clock.now().saturating_sub(self.origin))
    }

    pub(crate) fn warmup_ends_us(&self) -> u64 {
        self.warmup_ends_us
    }

    /// The catch-up begins now.
    pub(crate) fn begin_catch_up(&self) {
        self.catch_up_begins_us
            .store(self.now_us(), Ordering::Relaxed);
    }

    pub(crate) fn at(&self, us: u64) -> Phase {
        if us < self.warmup_ends_us {
            Phase::Warmup
        } else if us >= self.catch_up_begins_us.load(Ordering::Relaxed) {
            Phase::CatchUp
        } else {
            self.second
        }
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use millrace_time::ManualClock;

    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let clock = ManualClock::shared();
        clock.advance(Duration::from_secs(5));
        let warmup = Duration::from_secs(1);
        let phases = Phases::begin(clock.clone(), warmup, Phase::Backlog);
        assert_eq!(phases.now_us(), 0);
        assert_eq!(phases.at(999_999), Phase::Warmup);
        assert_eq!(phases.at(1_000_000), Phase::Backlog);
        clock.advance(Duration::from_secs(3));
        phases.begin_catch_up();
        assert_eq!(phases.at(2_999_999), Phase::Backlog);
        assert_eq!(phases.at(3_000_000), Phase::CatchUp);
    }
}
