//! Gives every operation a deadline.

use std::{future::Future, ops::Range, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Body, Bucket, BucketError, Listed, PartSlot, PartTag, UploadId, span};
use crate::ObjectKey;

/// How long one try may take: a fixed part, and a part in proportion to the bytes it moves.
#[derive(Debug, Clone, Copy)]
pub struct TimeoutPolicy {
    /// For the request and its answer.
    pub fixed: Duration,
    /// For the bytes: a try that moves fewer per second is given up.
    pub bytes_per_second_min: u64,
}

impl Default for TimeoutPolicy {
    /// Ten seconds are far above the slowest tenth of a percent of small requests; 1 MiB/s is far
    /// below what a store gives one connection, so only a stuck transfer is cut.
    fn default() -> Self {
        Self {
            fixed: Duration::from_secs(10),
            bytes_per_second_min: 1024 * 1024,
        }
    }
}

impl TimeoutPolicy {
    fn for_bytes(&self, bytes: u64) -> Duration {
        let ms = bytes.saturating_mul(1_000) / self.bytes_per_second_min.max(1);
        self.fixed + Duration::from_millis(ms)
    }
}

/// A bucket whose operations give up after a while.
#[derive(Debug)]
pub(crate) struct TimedOut<B> {
    inner: B,
    policy: TimeoutPolicy,
}

impl<B: Bucket> TimedOut<B> {
    pub(crate) fn new(inner: B, policy: TimeoutPolicy) -> Self {
        Self { inner, policy }
    }

    async fn within<T>(
        &self,
        bytes: u64,
        run: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        let limit = self.policy.for_bytes(bytes);
        tokio::time::timeout(limit, run)
            .await
            .unwrap_or(Err(BucketError::TimedOut(limit)))
    }
}

#[async_trait]
impl<B: Bucket> Bucket for TimedOut<B> {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.within(body.size(), self.inner.put(key, body)).await
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        self.within(0, self.inner.begin_parts(key)).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        self.within(body.size(), self.inner.put_part(key, upload, slot, body))
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
        // The store moves the bytes before it answers.
        let bytes = range.end.saturating_sub(range.start);
        let copy = self.inner.copy_part(key, upload, slot, source, range);
        self.within(bytes, copy).await
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        // The store joins the parts before it answers.
        self.within(
            whole.size(),
            self.inner.complete_parts(key, upload, parts, whole),
        )
        .await
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        self.within(0, self.inner.abort_parts(key, upload)).await
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        let bytes = range.end.saturating_sub(range.start);
        self.within(bytes, self.inner.get(key, range)).await
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        let asked = span(pieces);
        let read = self.inner.get_pieces(key, pieces);
        self.within(asked.end - asked.start, read).await
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        self.within(0, self.inner.size(key)).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        self.within(0, self.inner.delete(keys)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        self.within(0, self.inner.list(prefix, after, limit)).await
    }
}
