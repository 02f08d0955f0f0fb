//! The clock seam.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Tells the time. Monotonic time measures; wall time is only stamped on records and shown.
pub trait Clock: Debug + Send + Sync {
    /// Time since an origin that this clock chose; never goes back.
    fn now(&self) -> Duration;

    /// Milliseconds since 1970-01-01 UTC; may jump either way.
    fn wall_ms(&self) -> i64;
}

/// A clock that parts of a broker share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic origin is now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    pub fn shared() -> SharedClock {
        Arc::new(Self {
            origin: Instant::now(),
        })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A clock that stands still until a test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_us: AtomicU64,
}

impl ManualClock {
    /// A clock at 0, which is also 1970-01-01.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by_us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.now_us.fetch_add(by_us, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.now_us.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> i64 {
        i64::try_from(self.now_us.load(Ordering::SeqCst) / 1_000).unwrap_or(i64::MAX)
    }
}
