//! Retries transient errors.

use std::{ops::Range, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use millrace_time::SharedRandom;

use super::{Body, Bucket, BucketError, Listed, PartSlot, PartTag, UploadId};
use crate::ObjectKey;

/// How long and how often to retry.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries in all, the first included.
    pub tries: u32,
    /// The delay before the second try; it doubles with each further one.
    pub delay_base: Duration,
    /// No delay is longer.
    pub delay_max: Duration,
}

impl Default for RetryPolicy {
    /// Ten tries over about 30 seconds: longer than a store's usual burst of throttling, shorter
    /// than a caller's patience. Callers that must succeed (uploads) begin again afterwards.
    fn default() -> Self {
        Self {
            tries: 10,
            delay_base: Duration::from_millis(100),
            delay_max: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// The longest delay before try `n + 1`, after `n ≥ 1` failed ones.
    fn delay_bound(&self, failed: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failed.saturating_sub(1));
        self.delay_base.saturating_mul(doubled).min(self.delay_max)
    }
}

/// A bucket whose operations are tried again after exponential, jittered delays, as long as the
/// error may pass.
#[derive(Debug)]
pub(crate) struct Retrying<B> {
    inner: B,
    policy: RetryPolicy,
    random: SharedRandom,
}

impl<B: Bucket> Retrying<B> {
    pub(crate) fn new(inner: B, policy: RetryPolicy, random: SharedRandom) -> Self {
        Self {
            inner,
            policy,
            random,
        }
    }

    async fn retry<'a, T>(
        &self,
        operation: &'static str,
        what: &str,
        run: impl Fn() -> BoxFuture<'a, Result<T, BucketError>> + Send,
    ) -> Result<T, BucketError> {
        let mut failed = 0;
        loop {
            let error = match run().await {
                Err(error) if error.may_pass() => error,
                settled => return settled,
            };
            failed += 1;
            if failed >= self.policy.tries {
                return Err(error);
            }
            let delay = self.delay(failed);
            let cause = source_text(&error);
            tracing::warn!(
                operation,
                what,
                failed,
                ?delay,
                cause,
                "object store: trying again"
            );
            tokio::time::sleep(delay).await;
        }
    }

    /// Between half of the bound and all of it: apart enough not to march in step with the other
    /// brokers, long enough to relieve the store.
    fn delay(&self, failed: u32) -> Duration {
        let bound = self.policy.delay_bound(failed);
        let bound_us = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(bound_us / 2 + self.random.below(bound_us / 2 + 1))
    }
}

/// The error and all its sources in one line.
fn source_text(error: &BucketError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[async_trait]
impl<B: Bucket> Bucket for Retrying<B> {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.retry("put", key.as_str(), || self.inner.put(key, body))
            .await
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        self.retry("begin", key.as_str(), || self.inner.begin_parts(key))
            .await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        self.retry("put_part", key.as_str(), || {
            self.inner.put_part(key, upload, slot, body)
        })
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
        self.retry("copy_part", key.as_str(), || {
            self.inner
                .copy_part(key, upload, slot, source, range.clone())
        })
        .await
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        self.retry("complete", key.as_str(), || {
            self.inner.complete_parts(key, upload, parts, whole)
        })
        .await
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        self.retry("abort", key.as_str(), || {
            self.inner.abort_parts(key, upload)
        })
        .await
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        self.retry("get", key.as_str(), || self.inner.get(key, range.clone()))
            .await
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        self.retry("get", key.as_str(), || self.inner.get_pieces(key, pieces))
            .await
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        self.retry("size", key.as_str(), || self.inner.size(key))
            .await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        let what = keys.first().map_or("", ObjectKey::as_str);
        self.retry("delete", what, || self.inner.delete(keys)).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        self.retry("list", prefix, || self.inner.list(prefix, after, limit))
            .await
    }
}
