//! What of a partition is processed, and may therefore be committed.

use std::collections::VecDeque;

/// The deliveries of one partition.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Everything before this was processed when the reader last asked for more.
    asked: Option<i64>,
    /// What is committed, as far as is known.
    committed: Option<i64>,
    /// Deliveries that are not reported as processed, and processed ones behind them, in order.
    unprocessed: VecDeque<Delivered>,
}

/// One record or batch that was delivered.
#[derive(Debug)]
struct Delivered {
    first: i64,
    next: i64,
    is_processed: bool,
}

impl Progress {
    /// The partition goes on at another offset: what was delivered before does not count any more.
    pub(super) fn restart(&mut self, offset: i64) {
        self.unprocessed.clear();
        self.asked = Some(offset);
        // A position that was not read from a commit is itself worth a commit: the next member then
        // starts there, even if nothing was delivered.
        self.committed = None;
    }

    pub(super) fn ask(&mut self, position: i64) {
        self.asked = Some(position);
    }

    pub(super) fn delivered(&mut self, first: i64, next: i64) {
        self.unprocessed.push_back(Delivered {
            first,
            next,
            is_processed: false,
        });
    }

    /// The record at this offset, or the batch that it is the last one of, is processed.
    pub(super) fn processed(&mut self, next: i64) {
        let found = self.unprocessed.binary_search_by_key(&next, |one| one.next);
        if let Ok(at) = found {
            self.unprocessed[at].is_processed = true;
        }
        while self
            .unprocessed
            .front()
            .is_some_and(|first| first.is_processed)
        {
            self.unprocessed.pop_front();
        }
    }

    pub(super) fn unprocessed(&self) -> usize {
        self.unprocessed.len()
    }

    /// The offset up to which everything is processed, for a reader that reports it.
    pub(super) fn processed_to(&self, position: i64) -> i64 {
        self.unprocessed
            .front()
            .map_or(position, |first| first.first)
    }

    /// The offset up to which everything is processed, for a reader that asks for one after the
    /// other.
    pub(super) fn asked_to(&self) -> Option<i64> {
        self.asked
    }

    pub(super) fn is_news(&self, offset: i64) -> bool {
        self.committed != Some(offset)
    }

    /// An offset is committed, which says that everything before it is processed.
    pub(super) fn committed(&mut self, offset: i64) {
        self.committed = Some(offset);
        self.asked = self.asked.max(Some(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_follow_the_first_record_that_is_not_processed() {
        let mut progress = Progress::default();
        progress.restart(10);
        assert!(progress.is_news(progress.processed_to(10)));
        progress.committed(10);
        assert!(!progress.is_news(progress.processed_to(10)));
        for offset in [10, 11, 15] {
            progress.delivered(offset, offset + 1);
        }
        progress.processed(12);
        assert_eq!(progress.processed_to(16), 10);
        progress.processed(11);
        assert_eq!(progress.processed_to(16), 15, "12 to 14 do not exist");
        progress.processed(16);
        assert_eq!((progress.processed_to(16), progress.unprocessed()), (16, 0));
        progress.processed(16);
        assert!(progress.is_news(16));
        progress.committed(16);
        assert!(!progress.is_news(16));
    }

    #[test]
    fn a_commit_that_was_asked_for_is_not_taken_back_by_the_next_regular_one() {
        let mut progress = Progress::default();
        progress.restart(0);
        progress.ask(24);
        progress.committed(25);
        assert_eq!(progress.asked_to(), Some(25));
        assert!(!progress.is_news(25));
    }
}
