//! The metrics of compaction and of the deletion of objects.

use metrics::{Counter, Gauge, Histogram};

use crate::store::Kind;

/// `millrace_compaction_*`.
#[derive(Debug)]
pub(crate) struct CompactionMetrics {
    running: Gauge,
    sets: KindMetrics,
    streams: KindMetrics,
}

/// The same for one kind of group.
#[derive(Debug)]
pub(crate) struct KindMetrics {
    pub(crate) done: Counter,
    pub(crate) failed: Counter,
    pub(crate) superseded: Counter,
    pub(crate) corrupt: Counter,
    pub(crate) input_objects: Counter,
    pub(crate) output_objects: Counter,
    pub(crate) input_bytes: Counter,
    pub(crate) output_bytes: Counter,
    /// Bytes that the store copied by itself.
    pub(crate) copied_bytes: Counter,
    pub(crate) seconds: Histogram,
}

impl CompactionMetrics {
    pub(crate) fn new() -> Self {
        Self {
            running: metrics::gauge!("millrace_compaction_running"),
            sets: KindMetrics::new("stream_set"),
            streams: KindMetrics::new("stream"),
        }
    }

    pub(crate) fn of(&self, kind: Kind) -> &KindMetrics {
        match kind {
            Kind::StreamSet => &self.sets,
            Kind::Stream => &self.streams,
        }
    }

    /// A group is under way until the answer is dropped.
    pub(crate) fn begin(&self) -> Running<'_> {
        self.running.increment(1);
        Running(&self.running)
    }
}

/// A group that is under way.
pub(crate) struct Running<'a>(&'a Gauge);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

impl KindMetrics {
    fn new(kind: &'static str) -> Self {
        let groups = |outcome: &'static str| metrics::counter!("millrace_compaction_groups_total", "kind" => kind, "outcome" => outcome);
        Self {
            done: groups("done"),
            failed: groups("failed"),
            superseded: groups("superseded"),
            corrupt: groups("corrupt"),
            input_objects: metrics::counter!("millrace_compaction_input_objects_total", "kind" => kind),
            output_objects: metrics::counter!("millrace_compaction_output_objects_total", "kind" => kind),
            input_bytes: metrics::counter!("millrace_compaction_input_bytes_total", "kind" => kind),
            output_bytes: metrics::counter!("millrace_compaction_output_bytes_total", "kind" => kind),
            copied_bytes: metrics::counter!("millrace_compaction_copied_bytes_total", "kind" => kind),
            seconds: metrics::histogram!("millrace_compaction_seconds", "kind" => kind),
        }
    }
}

/// `millrace_object_deletions_*`: objects that nothing refers to and that are deleted.
#[derive(Debug)]
pub(crate) struct DeletionMetrics {
    deleted: Counter,
    failures: Counter,
    stuck: Gauge,
}

impl DeletionMetrics {
    pub(crate) fn new() -> Self {
        Self {
            deleted: metrics::counter!("millrace_object_deletions_total"),
            failures: metrics::counter!("millrace_object_deletion_failures_total"),
            stuck: metrics::gauge!("millrace_object_deletions_stuck"),
        }
    }

    pub(crate) fn done(&self, objects: usize) {
        self.deleted.increment(objects as u64);
    }

    pub(crate) fn failed(&self) {
        self.failures.increment(1);
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    pub(crate) fn stuck(&self, objects: usize) {
        self.stuck.set(objects as f64);
    }
}
