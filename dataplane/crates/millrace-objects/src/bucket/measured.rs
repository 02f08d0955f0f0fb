//! Counts and times every request, by operation and cause.

use std::{future::Future, ops::Range};

use async_trait::async_trait;
use bytes::Bytes;
use metrics::{Counter, Histogram};
use millrace_time::SharedClock;

use super::{Body, Bucket, BucketError, Listed};
use crate::ObjectKey;

/// The labels of `outcome`.
const OUTCOMES: [&str; 7] = [
    "ok",
    "not_found",
    "already_exists",
    "denied",
    "unsupported",
    "failed",
    "timed_out",
];

/// A bucket that tells how often, how long and with which outcome it is used:
/// `millrace_object_requests_total{operation,outcome}`, `millrace_object_request_seconds{operation}`
/// and `millrace_object_bytes_total{operation}`.
#[derive(Debug)]
pub(crate) struct Measured<B> {
    inner: B,
    clock: SharedClock,
    put: Meters,
    get: Meters,
    size: Meters,
    delete: Meters,
    list: Meters,
}

/// The handles of one operation, looked up once.
#[derive(Debug)]
struct Meters {
    outcomes: [(&'static str, Counter); OUTCOMES.len()],
    seconds: Histogram,
    bytes: Counter,
}

impl Meters {
    fn new(operation: &'static str) -> Self {
        let outcome = |outcome: &'static str| {
            let counter = metrics::counter!(
                "millrace_object_requests_total", "operation" => operation, "outcome" => outcome
            );
            (outcome, counter)
        };
        Self {
            outcomes: OUTCOMES.map(outcome),
            seconds: metrics::histogram!("millrace_object_request_seconds", "operation" => operation),
            bytes: metrics::counter!("millrace_object_bytes_total", "operation" => operation),
        }
    }

    fn count(&self, outcome: &str) {
        if let Some((_, counter)) = self.outcomes.iter().find(|(label, _)| *label == outcome) {
            counter.increment(1);
        }
    }
}

impl<B: Bucket> Measured<B> {
    pub(crate) fn new(inner: B, clock: SharedClock) -> Self {
        Self {
            inner,
            clock,
            put: Meters::new("put"),
            get: Meters::new("get"),
            size: Meters::new("size"),
            delete: Meters::new("delete"),
            list: Meters::new("list"),
        }
    }

    async fn measure<T>(
        &self,
        meters: &Meters,
        bytes: impl FnOnce(&T) -> u64,
        run: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        let mut open = Unanswered {
            meters,
            settled: false,
        };
        let started = self.clock.now();
        let result = run.await;
        open.settled = true;
        meters
            .seconds
            .record((self.clock.now() - started).as_secs_f64());
        match &result {
            Ok(value) => {
                meters.count("ok");
                meters.bytes.increment(bytes(value));
            }
            Err(error) => meters.count(error.cause()),
        }
        result
    }
}

/// Counts a request that was given up before its answer came: the deadline stands outside of the
/// meters, and what it cuts off is dropped here.
struct Unanswered<'a> {
    meters: &'a Meters,
    settled: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.meters.count("timed_out");
        }
    }
}

#[async_trait]
impl<B: Bucket> Bucket for Measured<B> {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.measure(&self.put, |()| body.size(), self.inner.put(key, body))
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
