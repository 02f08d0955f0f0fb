//! What all clients of a run share.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use millrace_client::{Consumer, TopicPartition};
use millrace_time::{SharedClock, SharedRandom};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    ending::{Ending, Reason},
    mark,
    options::{Plan, Workload},
    phases::{Phase, Phases, micros},
    recorder::Recorder,
    verifier::Verifier,
};

/// A run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) plan: Plan,
    pub(crate) phases: Phases,
    pub(crate) ending: Ending,
    /// Records that are due then or later are not part of the run.
    pub(crate) deadline_us: Option<u64>,
    pub(crate) random: SharedRandom,
    pub(crate) produced: Recorder,
    pub(crate) consumed: Recorder,
    /// What `mixed` consumes from the beginning.
    pub(crate) replayed: Recorder,
    pub(crate) verifier: Option<Mutex<Verifier>>,
    /// Ends the readers; some go on after producers have ended.
    pub(crate) readers_end: CancellationToken,
    /// Those whose lag is shown, with their partitions.
    pub(crate) consumers: Mutex<Vec<(Consumer, Vec<TopicPartition>)>>,
    pub(crate) progress: Progress,
}

/// How far the readers are.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Records that were read, warm-up included, and their bytes.
    records: AtomicU64,
    bytes: AtomicU64,
    /// When the last ones came.
    last_us: AtomicU64,
    /// Readers that have not caught up.
    behind: AtomicU64,
    caught_up: OnceLock<CaughtUp>,
}

/// What had been read when the last reader had caught up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaughtUp {
    pub(crate) at_us: u64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

impl Run {
    /// A run that begins now.
    pub(crate) fn begin(plan: Plan, clock: SharedClock, random: SharedRandom) -> Arc<Self> {
        let second = match plan.workload {
            Workload::CatchUp => Phase::Backlog,
            _ => Phase::Test,
        };
        let lasts = plan.run.duration.map(|time| time + plan.run.warmup);
        Arc::new(Self {
            deadline_us: lasts.map(micros),
            id: mark::run_id(random.next_u64()),
            phases: Phases::begin(clock, plan.run.warmup, second),
            ending: Ending::new(plan.run.max_bytes),
            random,
            produced: Recorder::default(),
            consumed: Recorder::default(),
            replayed: Recorder::default(),
            verifier: plan.run.verify.then(Mutex::default),
            readers_end: CancellationToken::new(),
            consumers: Mutex::default(),
            progress: Progress::default(),
            plan,
        })
    }

    pub(crate) fn produce_failed(&self, due_us: u64, error: &impl ToString) {
        self.produced.failed(self.phases.at(due_us), error);
        self.ending.record_failed();
    }

    pub(crate) fn consume_failed(&self, error: &impl ToString) {
        self.consumed
            .failed(self.phases.at(self.phases.now_us()), error);
        self.ending.record_failed();
    }
}

impl Progress {
    /// These were read; how many records there are now.
    pub(crate) fn add(&self, records: u64, bytes: u64, now_us: u64) -> u64 {
        self.last_us.fetch_max(now_us, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.records.fetch_add(records, Ordering::Relaxed) + records
    }

    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    pub(crate) fn last_us(&self) -> u64 {
        self.last_us.load(Ordering::Relaxed)
    }

    /// So many readers begin to catch up.
    pub(crate) fn catch_up(&self, readers: usize) {
        self.behind.store(readers as u64, Ordering::Relaxed);
    }

    /// One of them has; the last one ends the run. Once the run has ended, producers are silent: whoever
    /// reaches the end then has not caught up with them.
    pub(crate) fn caught_up(&self, run: &Run) {
        if self.behind.fetch_sub(1, Ordering::Relaxed) == 1 && !run.ending.has_ended() {
            let _ = self.caught_up.set(CaughtUp {
                at_us: run.phases.now_us(),
                records: self.records(),
                bytes: self.bytes.load(Ordering::Relaxed),
            });
            run.ending.end(Reason::CaughtUp);
        }
    }

    /// Nothing unless all readers have caught up.
    pub(crate) fn has_caught_up(&self) -> Option<CaughtUp> {
        self.caught_up.get().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millrace_time::{ManualClock, SeededRandom};

    use super::*;
    use crate::options::tests::plan;

    #[test]
    fn readers_that_reach_the_end_after_the_run_have_not_caught_up() {
        for ends_first in [false, true] {
            let clock = ManualClock::shared();
            let plan = plan("catch-up --duration 10").expect("a plan");
            let run = Run::begin(plan, clock.clone(), SeededRandom::shared(1));
            run.progress.catch_up(1);
            clock.advance(Duration::from_secs(5));
            run.progress.add(10, 1_000, run.phases.now_us());
            if ends_first {
                run.ending.end(Reason::Duration);
            }
            run.progress.caught_up(&run);
            // What is read after that is not part of the catch-up.
            clock.advance(Duration::from_secs(1));
            run.progress.add(90, 9_000, run.phases.now_us());
            let expected = CaughtUp {
                at_us: 5_000_000,
                records: 10,
                bytes: 1_000,
            };
            let caught_up = run.progress.has_caught_up();
            assert_eq!(caught_up, (!ends_first).then_some(expected));
        }
    }
}
