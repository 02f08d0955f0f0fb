//! What log compaction does and has done, for the operator.

use std::{collections::VecDeque, time::Duration};

use millrace_model::{Classified, FailureClass, TopicPartition};

use crate::partition::{CleanError, Cleaned};

/// Partitions of each list in a [`CompactionReport`].
pub(super) const LISTED_MAX: usize = 100;

/// What log compaction does and has done since the broker started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionReport {
    /// `log.cleaner.enable`
    pub is_enabled: bool,
    /// The partition that is being compacted, and for how long it has been.
    pub running: Option<(TopicPartition, Duration)>,
    /// Partitions that are due, the first ones of them in the order in which they come, as of the last check.
    pub waiting: Vec<WaitingPartition>,
    /// How many are due.
    pub waiting_total: usize,
    /// The last compaction that ended.
    pub last_run: Option<CompactionRun>,
    /// All that have ended.
    pub totals: CompactionTotals,
    /// Partitions whose last compaction failed, the newest failures first.
    pub failures: Vec<CompactionFailure>,
}

/// A partition that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingPartition {
    /// Which one.
    pub partition: TopicPartition,
    /// The share of its bytes that no compaction has seen, from 0 to 1.
    pub dirty_ratio: f64,
}

/// A compaction that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionRun {
    /// Of which partition.
    pub partition: TopicPartition,
    /// When it ended, milliseconds of the wall clock.
    pub ended_ms: i64,
    /// How long it took.
    pub took: Duration,
    /// `done`, `superseded`, `failed` or `corrupt`.
    pub outcome: &'static str,
    /// Bytes that it read from objects.
    pub read_bytes: u64,
    /// Bytes that it wrote to objects.
    pub written_bytes: u64,
    /// Bytes of batches that it removed.
    pub removed_bytes: u64,
}

/// Sums over all compactions that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactionTotals {
    /// How many.
    pub runs: u64,
    /// Those that failed. One whose objects were replaced meanwhile has not.
    pub failed: u64,
    /// Bytes that they read from objects.
    pub read_bytes: u64,
    /// Bytes that they wrote to objects.
    pub written_bytes: u64,
    /// Bytes of batches that they removed.
    pub removed_bytes: u64,
}

/// A partition whose last compaction failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionFailure {
    /// Which one.
    pub partition: TopicPartition,
    /// When, milliseconds of the wall clock.
    pub at_ms: i64,
    /// What kind of failure.
    pub class: FailureClass,
    /// Why, with all causes.
    pub reason: String,
}

/// The name of how a compaction ended, as in `millrace_log_cleaner_runs_total`.
pub(super) fn outcome_of(result: &Result<(), CleanError>) -> &'static str {
    match result {
        Ok(()) => "done",
        Err(error) => match error.class() {
            FailureClass::Gone => "superseded",
            FailureClass::Corrupt => "corrupt",
            _ => "failed",
        },
    }
}

/// Collects a report while logs are compacted.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The partition that is being compacted, and since when.
    running: Option<(TopicPartition, Duration)>,
    waiting: Vec<WaitingPartition>,
    waiting_total: usize,
    last_run: Option<CompactionRun>,
    totals: CompactionTotals,
    /// The newest last, one for each partition, [`LISTED_MAX`] at most.
    failures: VecDeque<CompactionFailure>,
}

impl History {
    /// The partitions that are due now, in the order in which they come.
    pub(super) fn checked(&mut self, mut due: Vec<WaitingPartition>) {
        self.waiting_total = due.len();
        due.truncate(LISTED_MAX);
        self.waiting = due;
    }

    pub(super) fn started(&mut self, partition: &TopicPartition, now: Duration) {
        self.running = Some((partition.clone(), now));
        self.waiting_total = self.waiting_total.saturating_sub(1);
        self.waiting.retain(|due| due.partition != *partition);
    }

    pub(super) fn ended(
        &mut self,
        partition: &TopicPartition,
        (cleaned, result): (&Cleaned, &Result<(), CleanError>),
        (ended_ms, took): (i64, Duration),
    ) {
        self.running = None;
        let run = CompactionRun {
            partition: partition.clone(),
            ended_ms,
            took,
            outcome: outcome_of(result),
            read_bytes: cleaned.read_bytes,
            written_bytes: cleaned.written_bytes,
            removed_bytes: cleaned.removed_bytes,
        };
        self.totals.runs += 1;
        self.totals.read_bytes += run.read_bytes;
        self.totals.written_bytes += run.written_bytes;
        self.totals.removed_bytes += run.removed_bytes;
        self.last_run = Some(run);
        self.failures
            .retain(|failure| failure.partition != *partition);
        let Err(error) = result else {
            return;
        };
        if error.class() == FailureClass::Gone {
            return;
        }
        self.totals.failed += 1;
        if self.failures.len() == LISTED_MAX {
            self.failures.pop_front();
        }
        self.failures.push_back(CompactionFailure {
            partition: partition.clone(),
            at_ms: ended_ms,
            class: error.class(),
            reason: with_causes(error),
        });
    }

    /// The report as of `now`; only of partitions that `is_served`.
    pub(super) fn report(
        &self,
        (is_enabled, now): (bool, Duration),
        is_served: impl Fn(&TopicPartition) -> bool,
    ) -> CompactionReport {
        let running = self.running.as_ref();
        let failures = self.failures.iter().rev();
        CompactionReport {
            is_enabled,
            running: running
                .map(|(partition, since)| (partition.clone(), now.saturating_sub(*since))),
            waiting: self.waiting.clone(),
            waiting_total: self.waiting_total,
            last_run: self.last_run.clone(),
            totals: self.totals,
            failures: failures
                .filter(|failure| is_served(&failure.partition))
                .cloned()
                .collect(),
        }
    }
}

fn with_causes(error: &CleanError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use millrace_model::{Cause, TopicName};

    use super::*;
    use crate::error::ReadError;

    fn partition(n: u32) -> TopicPartition {
        TopicPartition {
            topic: TopicName::new("t").expect("legal"),
            partition: n,
        }
    }

    fn failed(class: FailureClass) -> Result<(), CleanError> {
        Err(ReadError::Storage(Cause::of(class, "broken")).into())
    }

    fn end(history: &mut History, n: u32, result: &Result<(), CleanError>) {
        let cleaned = Cleaned {
            read_bytes: 10,
            written_bytes: 4,
            removed_bytes: 6,
            ..Cleaned::default()
        };
        history.started(&partition(n), Duration::from_secs(n.into()));
        let took = Duration::from_secs(2);
        history.ended(&partition(n), (&cleaned, result), (n.into(), took));
    }

    #[test]
    fn failures_are_kept_until_the_partition_is_compacted() {
        let mut history = History::default();
        end(&mut history, 1, &failed(FailureClass::Corrupt));
        end(&mut history, 2, &failed(FailureClass::Transient));
        end(&mut history, 3, &failed(FailureClass::Gone));
        let report = history.report((true, Duration::ZERO), |_| true);
        let of: Vec<_> = { report.failures.iter() }
            .map(|failure| (failure.partition.partition, failure.class))
            .collect();
        let expected = [(2, FailureClass::Transient), (1, FailureClass::Corrupt)];
        assert_eq!(of, expected, "the newest first");
        assert!(report.failures[0].reason.contains("broken"));
        let last = report.last_run.expect("some");
        assert_eq!((last.outcome, last.ended_ms), ("superseded", 3));
        end(&mut history, 2, &Ok(()));
        let report = history.report((true, Duration::ZERO), |id| id.partition != 1);
        assert_eq!(report.failures, [], "compacted, or not served any more");
        let totals = CompactionTotals {
            runs: 4,
            failed: 2,
            read_bytes: 40,
            written_bytes: 16,
            removed_bytes: 24,
        };
        assert_eq!(report.totals, totals);
    }

    #[test]
    fn the_lists_are_bounded() {
        let mut history = History::default();
        let due = |n| WaitingPartition {
            partition: partition(n),
            dirty_ratio: 0.5,
        };
        history.checked((0..300).map(due).collect());
        history.started(&partition(0), Duration::from_secs(1));
        let report = history.report((true, Duration::from_secs(5)), |_| true);
        assert_eq!(
            (report.waiting_total, report.waiting.len()),
            (299, LISTED_MAX - 1)
        );
        assert_eq!(report.running, Some((partition(0), Duration::from_secs(4))));
        for n in 0..300 {
            end(&mut history, n, &failed(FailureClass::Transient));
        }
        let report = history.report((true, Duration::ZERO), |_| true);
        assert_eq!(report.failures.len(), LISTED_MAX);
        assert_eq!(report.failures[0].partition, partition(299));
        assert_eq!(report.totals.failed, 300);
    }
}
