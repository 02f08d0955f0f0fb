//! What clients report, until the sampler collects it each second.

use std::{collections::BTreeMap, mem, time::Duration};

use parking_lot::Mutex;

use crate::{latencies::Latencies, phases::Phase};

/// Different errors that are kept for the report; there are few kinds.
const ERROR_KINDS_MAX: usize = 16;

/// What some records came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    /// Of keys and values.
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) latencies: Latencies,
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: u64, latency_us: Option<u64>) {
        self.records += 1;
        self.bytes += bytes;
        if let Some(us) = latency_us {
            self.latencies.add(Duration::from_micros(us), 1);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latencies.merge(&other.latencies);
    }

    pub(crate) fn clear(&mut self) {
        (self.records, self.bytes, self.errors) = (0, 0, 0);
        self.latencies.clear();
    }
}

/// By the phase that the records belong to: that in which they were due.
pub(crate) type ByPhase = [Tally; Phase::ALL.len()];

/// Shared by all clients of one kind.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    tallies: Mutex<ByPhase>,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Recorder {
    /// Adds many records under one lock.
    pub(crate) fn with(&self, add: impl FnOnce(&mut ByPhase)) {
        add(&mut self.tallies.lock());
    }

    /// Counts a record, or an attempt to read, that failed.
    pub(crate) fn failed(&self, phase: Phase, error: &impl ToString) {
        self.tallies.lock()[phase as usize].errors += 1;
        let mut errors = self.errors.lock();
        let text = error.to_string();
        if errors.len() < ERROR_KINDS_MAX || errors.contains_key(&text) {
            *errors.entry(text).or_default() += 1;
        }
    }

    /// Moves what was reported since the last time to `to`, which is overwritten.
    pub(crate) fn collect(&self, to: &mut ByPhase) {
        to.iter_mut().for_each(Tally::clear);
        mem::swap(&mut *self.tallies.lock(), to);
    }

    /// The first kinds of errors, and how often each occurred.
    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_collected_is_counted_once() {
        let recorder = Recorder::default();
        recorder.with(|tallies| tallies[Phase::Test as usize].add(100, Some(2_000)));
        recorder.failed(Phase::Test, &"no leader");
        let mut collected = ByPhase::default();
        recorder.collect(&mut collected);
        let test = &collected[Phase::Test as usize];
        assert_eq!((test.records, test.bytes, test.errors), (1, 100, 1));
        assert_eq!(test.latencies.count(), 1);
        assert_eq!(collected[Phase::Warmup as usize].records, 0);
        recorder.collect(&mut collected);
        assert_eq!(collected[Phase::Test as usize].records, 0);
        assert_eq!(recorder.errors()["no leader"], 1);
    }

    #[test]
    fn kinds_of_errors_are_bounded() {
        let recorder = Recorder::default();
        for number in 0..1_000 {
            recorder.failed(Phase::Test, &number);
        }
        assert_eq!(recorder.errors().len(), ERROR_KINDS_MAX);
    }
}
