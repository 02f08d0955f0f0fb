//! A clock for tests that follows the paused clock of their runtime.

use std::{sync::Arc, time::Duration};

use millrace_time::{Clock, SharedClock};

/// Follows tokio's paused clock.
#[derive(Debug)]
pub(crate) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the paused clock of the test's runtime"
    )]
    pub(crate) fn shared() -> SharedClock {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}
