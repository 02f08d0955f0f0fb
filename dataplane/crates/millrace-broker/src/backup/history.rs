//! Which items of the chain a recovery may still need.

use std::{collections::VecDeque, time::Duration};

/// Items beyond which everything before the newest snapshot goes, whatever the window: a broker that
/// restarts over and over completes none that grows old.
const ITEMS_MAX: u64 = 20_000;

/// How long a deletion that failed is put off.
const PUT_OFF: Duration = Duration::from_secs(30);

/// The snapshots that this start has put, oldest first.
#[derive(Debug)]
pub(super) struct History {
    window: Duration,
    /// The first item of each, and when it was complete, on the clock that never jumps.
    snapshots: VecDeque<(u64, Duration)>,
    deleted_below: u64,
    not_before: Duration,
}

impl History {
    pub(super) fn new(window: Duration) -> Self {
        Self {
            window,
            snapshots: VecDeque::new(),
            deleted_below: 0,
            not_before: Duration::ZERO,
        }
    }

    /// A snapshot is complete that begins with item `seq`.
    pub(super) fn completed(&mut self, seq: u64, now: Duration) {
        self.snapshots.push_back((seq, now));
    }

    /// The item below which nothing is needed: the newest snapshot that is older than the window, so
    /// that every moment within it can be restored. `None` where nothing is to be deleted.
    pub(super) fn due(&mut self, now: Duration, items: u64) -> Option<u64> {
        if now < self.not_before {
            return None;
        }
        let is_old = |&(_, at): &(u64, Duration)| now.saturating_sub(at) >= self.window;
        while self.snapshots.get(1).is_some_and(is_old) {
            self.snapshots.pop_front();
        }
        let too_many = items > ITEMS_MAX;
        let kept = if too_many {
            self.snapshots.back()
        } else {
            self.snapshots.front().filter(|snapshot| is_old(snapshot))
        };
        kept.map(|&(seq, _)| seq)
            .filter(|&seq| seq > self.deleted_below)
    }

    pub(super) fn deleted_below(&mut self, seq: u64) {
        self.deleted_below = seq;
    }

    /// The deletion failed.
    pub(super) fn put_off(&mut self, now: Duration) {
        self.not_before = now + PUT_OFF;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_newest_snapshot_older_than_the_window_is_kept_and_everything_behind_it() {
        let mut history = History::new(second(600));
        assert_eq!(
            history.due(second(10_000), 5),
            None,
            "no snapshot of this start"
        );
        history.completed(10, second(0));
        history.completed(20, second(300));
        history.completed(30, second(500));
        assert_eq!(history.due(second(599), 50), None);
        assert_eq!(history.due(second(600), 50), Some(10));
        history.deleted_below(10);
        assert_eq!(history.due(second(601), 50), None);
        assert_eq!(history.due(second(900), 50), Some(20));
        history.put_off(second(900));
        assert_eq!(history.due(second(929), 50), None);
        assert_eq!(history.due(second(5_000), 50), Some(30));
    }

    #[test]
    fn too_many_items_are_deleted_whatever_the_window() {
        let mut history = History::new(second(1_000_000));
        history.completed(10, second(0));
        history.completed(20, second(1));
        assert_eq!(history.due(second(2), ITEMS_MAX), None);
        assert_eq!(history.due(second(2), ITEMS_MAX + 1), Some(20));
    }
}
