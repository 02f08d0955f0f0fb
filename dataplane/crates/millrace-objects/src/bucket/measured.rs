//! Counts and times every request, by operation and cause.

use std::{
    future::Future,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use metrics::{Counter, Histogram};
use millrace_time::SharedClock;

use super::{Body, Bucket, BucketError, Listed, PartSlot, PartTag, UploadId, span};
use crate::ObjectKey;

/// The labels of `outcome`.
const OUTCOMES: [&str; 7] = [
    "ok",
    "not_found",
    "already_exists",
    "denied",
    "unsupported",
    "failed",
    "given_up",
];

/// How often an operation had an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketCalls {
    /// `get`, `put`, `delete` and so on, as in the metric `millrace_object_requests_total`.
    pub operation: &'static str,
    /// `ok`, or why it failed.
    pub outcome: &'static str,
    /// Requests since the start, each try counted.
    pub calls: u64,
}

/// Reads of objects since the start, each try counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketReads {
    /// All that were answered or given up.
    pub calls: u64,
    /// Those that failed for a cause in the store or on the way: denied, failed, given up.
    pub failed: u64,
    /// How long all of them took, together. Given-up ones are not in it.
    pub busy: Duration,
}

/// The counts of all operations; a clone counts with the original.
#[derive(Debug, Clone)]
pub(crate) struct Calls(Arc<[(&'static str, Arc<Counts>)]>);

#[derive(Debug, Default)]
struct Counts {
    outcomes: [AtomicU64; OUTCOMES.len()],
    busy_us: AtomicU64,
}

/// The name of reads of an object.
const GET: &str = "get";
/// Outcomes of reads that are the fault of the store or the way to it.
const FAULTS: [&str; 3] = ["denied", "failed", "given_up"];

impl Calls {
    /// All that are not 0, by operation.
    pub(crate) fn now(&self) -> Vec<BucketCalls> {
        let of = |(operation, counts): &(&'static str, Arc<Counts>)| {
            let operation = *operation;
            let call = |(outcome, count): (&'static str, &AtomicU64)| BucketCalls {
                operation,
                outcome,
                calls: count.load(Ordering::Relaxed),
            };
            let all: Vec<_> = OUTCOMES
                .into_iter()
                .zip(&counts.outcomes)
                .map(call)
                .collect();
            all
        };
        let all = self.0.iter().flat_map(of);
        all.filter(|calls| calls.calls > 0).collect()
    }

    /// The reads among them.
    pub(crate) fn reads(&self) -> BucketReads {
        let mut reads = BucketReads::default();
        for (_, counts) in self.0.iter().filter(|(operation, _)| *operation == GET) {
            for (outcome, count) in OUTCOMES.into_iter().zip(&counts.outcomes) {
                let count = count.load(Ordering::Relaxed);
                reads.calls += count;
                reads.failed += if FAULTS.contains(&outcome) { count } else { 0 };
            }
            reads.busy += Duration::from_micros(counts.busy_us.load(Ordering::Relaxed));
        }
        reads
    }
}

/// A bucket that tells how often, how long and with which outcome it is used:
/// `millrace_object_requests_total{operation,outcome}`, `millrace_object_request_seconds{operation}`
/// and `millrace_object_bytes_total{operation}`.
#[derive(Debug)]
pub(crate) struct Measured<B> {
    inner: B,
    clock: SharedClock,
    put: Metrics,
    begin: Metrics,
    part: Metrics,
    copy: Metrics,
    complete: Metrics,
    abort: Metrics,
    get: Metrics,
    size: Metrics,
    delete: Metrics,
    list: Metrics,
}

/// The handles of one operation, looked up once.
#[derive(Debug)]
struct Metrics {
    operation: &'static str,
    counts: Arc<Counts>,
    outcomes: [(&'static str, Counter); OUTCOMES.len()],
    seconds: Histogram,
    bytes: Counter,
}

impl Metrics {
    fn new(operation: &'static str) -> Self {
        let outcome = |outcome: &'static str| {
            let counter = metrics::counter!(
                "millrace_object_requests_total", "operation" => operation, "outcome" => outcome
            );
            (outcome, counter)
        };
        Self {
            operation,
            counts: Arc::default(),
            outcomes: OUTCOMES.map(outcome),
            seconds: metrics::histogram!("millrace_object_request_seconds", "operation" => operation),
            bytes: metrics::counter!("millrace_object_bytes_total", "operation" => operation),
        }
    }

    fn count(&self, outcome: &str) {
        let outcomes = self.outcomes.iter().zip(&self.counts.outcomes);
        let mut found = outcomes.filter(|((label, _), _)| *label == outcome);
        if let Some(((_, counter), count)) = found.next() {
            counter.increment(1);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<B: Bucket> Measured<B> {
    pub(crate) fn new(inner: B, clock: SharedClock) -> Self {
        Self {
            inner,
            clock,
            put: Metrics::new("put"),
            begin: Metrics::new("begin"),
            part: Metrics::new("part"),
            copy: Metrics::new("copy"),
            complete: Metrics::new("complete"),
            abort: Metrics::new("abort"),
            get: Metrics::new(GET),
            size: Metrics::new("size"),
            delete: Metrics::new("delete"),
            list: Metrics::new("list"),
        }
    }

    /// What is counted, to be read beside the metrics.
    pub(crate) fn calls(&self) -> Calls {
        let all = [
            &self.put,
            &self.begin,
            &self.part,
            &self.copy,
            &self.complete,
            &self.abort,
            &self.get,
            &self.size,
            &self.delete,
            &self.list,
        ];
        let of = |metrics: &Metrics| (metrics.operation, Arc::clone(&metrics.counts));
        Calls(all.map(of).into())
    }

    async fn measure<T>(
        &self,
        metrics: &Metrics,
        bytes: impl FnOnce(&T) -> u64,
        run: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        let mut open = Unanswered {
            metrics,
            settled: false,
        };
        let started = self.clock.now();
        let result = run.await;
        open.settled = true;
        let took = self.clock.now() - started;
        metrics.seconds.record(took.as_secs_f64());
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        metrics.counts.busy_us.fetch_add(took_us, Ordering::Relaxed);
        match &result {
            Ok(value) => {
                metrics.count("ok");
                metrics.bytes.increment(bytes(value));
            }
            Err(error) => metrics.count(error.cause()),
        }
        result
    }
}

/// Counts a request that was given up before its answer came: deadlines and hedges stand outside of
/// the metrics, and what they cut off is dropped here.
struct Unanswered<'a> {
    metrics: &'a Metrics,
    settled: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.metrics.count("given_up");
        }
    }
}

#[async_trait]
impl<B: Bucket> Bucket for Measured<B> {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.measure(&self.put, |()| body.size(), self.inner.put(key, body))
            .await
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        self.measure(&self.begin, |_| 0, self.inner.begin_parts(key))
            .await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        self.measure(
            &self.part,
            |_| body.size(),
            self.inner.put_part(key, upload, slot, body),
        )
        .await
    }

    async fn copy_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        let bytes = range.end.saturating_sub(range.start);
        self.measure(
            &self.copy,
            |_| bytes,
            self.inner.copy_part(key, upload, slot, source, range),
        )
        .await
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        self.measure(
            &self.complete,
            |()| 0,
            self.inner.complete_parts(key, upload, parts, whole),
        )
        .await
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        self.measure(&self.abort, |()| 0, self.inner.abort_parts(key, upload))
            .await
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        self.measure(
            &self.get,
            |bytes| bytes.len() as u64,
            self.inner.get(key, range),
        )
        .await
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        // What lies between the pieces crosses the network too.
        let asked = span(pieces);
        self.measure(
            &self.get,
            |_| asked.end - asked.start,
            self.inner.get_pieces(key, pieces),
        )
        .await
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        self.measure(&self.size, |_| 0, self.inner.size(key)).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        self.measure(&self.delete, |()| 0, self.inner.delete(keys))
            .await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        self.measure(&self.list, |_| 0, self.inner.list(prefix, after, limit))
            .await
    }
}
