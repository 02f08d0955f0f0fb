//! The task that compacts logs: one partition at a time, the dirtiest first.

mod report;

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram};
use millrace_model::{Classified, FailureClass, TopicPartition};
use parking_lot::Mutex;

pub use self::report::{
    CompactionFailure, CompactionReport, CompactionRun, CompactionTotals, WaitingPartition,
};
use self::report::{History, outcome_of};
use super::Inner;
use crate::partition::{CleanError, Cleaned, CleanerTools, Dirty, PartitionLog};

/// A partition with a batch that cannot be read, or whose cleaning would have lost a record, is left alone for so
/// long: somebody should see it before it is tried again.
const CORRUPT_WAIT: Duration = Duration::from_secs(3_600);

/// What cleaning knows besides the partitions' own state.
pub(super) struct Cleaner {
    /// Until when partitions are left alone. At most as many as there are partitions.
    waiting: Mutex<HashMap<TopicPartition, Duration>>,
    /// Held by the cleaning that is under way.
    turn: tokio::sync::Mutex<()>,
    history: Mutex<History>,
    metrics: CleanerMetrics,
}

/// `millrace_log_cleaner_*`.
struct CleanerMetrics {
    done: Counter,
    superseded: Counter,
    failed: Counter,
    corrupt: Counter,
    read_bytes: Counter,
    written_bytes: Counter,
    removed_bytes: Counter,
    seconds: Histogram,
    running: Gauge,
    max_dirty_percent: Gauge,
    uncleanable: Gauge,
    last_end_seconds: Gauge,
}

impl Cleaner {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            history: Mutex::default(),
            metrics: CleanerMetrics::new(),
        }
    }
}

/// Cleans what is due, then looks again after the pause.
pub(super) async fn clean_for_ever(inner: Arc<Inner>) -> Infallible {
    loop {
        tokio::time::sleep(inner.defaults.cleaner_backoff).await;
        if inner.defaults.cleaner_enabled {
            inner.clean_due().await;
        }
    }
}

impl Inner {
    /// Cleans the partitions that are due, the dirtiest first. One that fails has its next turn in a later call, so
    /// that it holds up no other.
    pub(super) async fn clean_due(&self) {
        let mut failed = HashSet::new();
        loop {
            let _turn = self.cleaner.turn.lock().await;
            let Some((log, dirty)) = self.dirtiest(&failed) else {
                return;
            };
            if let Err(error) = self.clean(&log, &dirty).await {
                self.not_cleaned(&log, &error);
                failed.insert(log.id().clone());
            }
        }
    }

    /// What log compaction does and has done.
    pub(super) fn compaction_report(&self) -> CompactionReport {
        let is_served = |id: &TopicPartition| {
            let topic = self.registry.by_name(&id.topic);
            topic.is_some_and(|topic| topic.log(id.partition as usize).is_some())
        };
        let now = self.clock.now();
        let history = self.cleaner.history.lock();
        history.report((self.defaults.cleaner_enabled, now), is_served)
    }

    async fn clean(&self, log: &PartitionLog, dirty: &Dirty) -> Result<(), CleanError> {
        let tools = CleanerTools {
            map_bytes: self.defaults.cleaner_dedupe_bytes,
            salt: self.random.next_bytes16(),
            compacted: Arc::new(self.registry.compacted_streams()),
        };
        let metrics = &self.cleaner.metrics;
        metrics.running.set(1.0);
        let started = self.clock.now();
        self.cleaner.history.lock().started(log.id(), started);
        let mut cleaned = Cleaned::default();
        let result = log.clean(dirty, &tools, &mut cleaned).await;
        let took = self.clock.now().saturating_sub(started);
        metrics.running.set(0.0);
        metrics.count(&cleaned, &result, took);
        let ended_ms = self.clock.wall_ms();
        metrics.last_end_seconds.set(ended_ms as f64 / 1e3);
        { self.cleaner.history.lock() }.ended(log.id(), (&cleaned, &result), (ended_ms, took));
        result?;
        tracing::debug!(partition = %log.id(), ?dirty, ?cleaned, "the log was compacted");
        if let Err(error) = log.checkpoint().await {
            tracing::warn!(partition = %log.id(), %error, "the clean point is not durable yet");
        }
        Ok(())
    }

    /// The partition that is to be cleaned next, other than those that failed.
    fn dirtiest(&self, failed: &HashSet<TopicPartition>) -> Option<(Arc<PartitionLog>, Dirty)> {
        let now = self.clock.now();
        let mut waiting = self.cleaner.waiting.lock();
        waiting.retain(|_, until| *until > now);
        let (mut due, mut ratio_max) = (Vec::<(Arc<PartitionLog>, Dirty)>::new(), 0.0_f64);
        for topic in self.registry.all() {
            // The coordinators compact what they keep there.
            if topic.is_internal() || !topic.config.compacts() {
                continue;
            }
            for log in topic.logs() {
                let Some(dirty) = log.dirty() else {
                    continue;
                };
                ratio_max = ratio_max.max(dirty.ratio);
                let is_left_alone = waiting.contains_key(log.id()) || failed.contains(log.id());
                if is_left_alone || !dirty.is_due(&log.config()) {
                    continue;
                }
                due.push((Arc::clone(log), dirty));
            }
        }
        due.sort_by(|(_, one), (_, other)| before(one, other));
        let waiting_now = due.iter().map(|(log, dirty)| WaitingPartition {
            partition: log.id().clone(),
            dirty_ratio: dirty.ratio,
        });
        self.cleaner.history.lock().checked(waiting_now.collect());
        self.cleaner
            .metrics
            .max_dirty_percent
            .set(ratio_max * 100.0);
        self.cleaner.metrics.uncleanable.set(waiting.len() as f64);
        due.into_iter().next()
    }

    fn not_cleaned(&self, log: &PartitionLog, error: &CleanError) {
        let cause = error as &dyn std::error::Error;
        let partition = log.id();
        match error.class() {
            FailureClass::Gone => {
                tracing::debug!(%partition, cause, "objects changed while a log was compacted");
            }
            FailureClass::Corrupt => {
                tracing::error!(%partition, error = cause, "the log is not compacted: something in it is corrupt");
                let until = self.clock.now() + CORRUPT_WAIT;
                self.cleaner.waiting.lock().insert(partition.clone(), until);
            }
            _ => {
                tracing::warn!(%partition, error = cause, "a log was not compacted; trying later");
            }
        }
    }
}

/// Which of two partitions is cleaned before the other.
fn before(one: &Dirty, other: &Dirty) -> Ordering {
    let overdue = other.is_overdue.cmp(&one.is_overdue);
    overdue.then(other.ratio.total_cmp(&one.ratio))
}

impl CleanerMetrics {
    fn new() -> Self {
        let runs = |outcome: &'static str| metrics::counter!("millrace_log_cleaner_runs_total", "outcome" => outcome);
        Self {
            done: runs("done"),
            superseded: runs("superseded"),
            failed: runs("failed"),
            corrupt: runs("corrupt"),
            read_bytes: metrics::counter!("millrace_log_cleaner_read_bytes_total"),
            written_bytes: metrics::counter!("millrace_log_cleaner_written_bytes_total"),
            removed_bytes: metrics::counter!("millrace_log_cleaner_removed_bytes_total"),
            seconds: metrics::histogram!("millrace_log_cleaner_seconds"),
            running: metrics::gauge!("millrace_log_cleaner_running"),
            max_dirty_percent: metrics::gauge!("millrace_log_cleaner_max_dirty_percent"),
            uncleanable: metrics::gauge!("millrace_log_cleaner_uncleanable_partitions"),
            last_end_seconds: metrics::gauge!("millrace_log_cleaner_last_end_seconds"),
        }
    }

    /// A run that failed has read and replaced objects as well.
    fn count(&self, cleaned: &Cleaned, result: &Result<(), CleanError>, took: Duration) {
        self.read_bytes.increment(cleaned.read_bytes);
        self.written_bytes.increment(cleaned.written_bytes);
        self.removed_bytes.increment(cleaned.removed_bytes);
        let runs = match outcome_of(result) {
            "done" => &self.done,
            "superseded" => &self.superseded,
            "corrupt" => &self.corrupt,
            _ => &self.failed,
        };
        runs.increment(1);
        if result.is_ok() {
            self.seconds.record(took.as_secs_f64());
        }
    }
}
