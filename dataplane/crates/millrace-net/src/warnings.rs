//! The bound on warnings about connections: clients cause them, and must not fill the log.

use std::time::Duration;

use millrace_time::SharedClock;
use parking_lot::Mutex;

/// The most warnings in a second. `millrace_connections_closed_total` counts all closed connections.
const WARNINGS_MAX: u32 = 20;

const SECOND: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Warnings {
    clock: SharedClock,
    written: Mutex<Written>,
}

/// How many warnings there were in the present second.
#[derive(Debug, Default)]
struct Written {
    began: Option<Duration>,
    lines: u32,
}

impl Warnings {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            written: Mutex::default(),
        }
    }

    /// Whether there is room for one more; takes it.
    pub(crate) fn admit(&self) -> bool {
        let now = self.clock.now();
        let mut written = self.written.lock();
        let began = written.began;
        if began.is_none_or(|began| now.saturating_sub(began) >= SECOND) {
            *written = Written {
                began: Some(now),
                lines: 0,
            };
        }
        let has_room = written.lines < WARNINGS_MAX;
        written.lines += u32::from(has_room);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::ManualClock;

    use super::*;

    #[test]
    fn each_second_has_room_for_so_many() {
        let clock = ManualClock::shared();
        let warnings = Warnings::new(clock.clone());
        let admitted = || (0..100).filter(|_| warnings.admit()).count();
        assert_eq!(admitted(), 20);
        clock.advance(Duration::from_millis(999));
        assert_eq!(admitted(), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(admitted(), 20);
    }
}
