//! Resolves lost replies to PUT.

use async_trait::async_trait;
use bytes::Bytes;

use super::{Body, Bucket, BucketError, BucketLayer, PartTag, UploadId};
use crate::ObjectKey;

/// An object is compared in reads of at most this size: bounds the memory of a comparison.
const COMPARE_BYTES: u64 = 8 * 1024 * 1024;

/// A bucket in which a PUT that finds its own object has succeeded.
///
/// A PUT only ever creates. When its reply is lost, the object that it wrote is looked for, by the
/// next try at the latest; the bytes then decide whether it is ours. A conflict over an object that is not
/// there (S3 says so while another conditional PUT of the key is under way) may pass.
#[derive(Debug)]
pub(crate) struct Idempotent<B, R> {
    inner: B,
    /// Reads the object at a key that is taken, for a comparison. Tries again by itself: a
    /// comparison takes many requests, and if one that fails ended it, then while a store fails
    /// often, none would come to its end.
    reads: R,
}

impl<B: Bucket, R: Bucket> Idempotent<B, R> {
    pub(crate) fn new(inner: B, reads: R) -> Self {
        Self { inner, reads }
    }

    /// Whether the object at `key` has exactly the bytes of `body`, as far as they are known.
    async fn holds(&self, key: &ObjectKey, body: &Body) -> Result<bool, BucketError> {
        if self.reads.size(key).await? != body.size() {
            return Ok(false);
        }
        let mut position = body.unknown_bytes();
        let mut expected = Expected {
            current: &[],
            chunks: body.chunks(),
        };
        while position < body.size() {
            let end = body.size().min(position + COMPARE_BYTES);
            let found = self.reads.get(key, position..end).await?;
            if found.len() as u64 != end - position || !expected.continues_with(&found) {
                return Ok(false);
            }
            position = end;
        }
        Ok(true)
    }

    /// What a write that found the key taken has come to.
    async fn settle_conflict(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        match self.holds(key, body).await {
            Ok(true) => {
                tracing::info!(%key, "a write found its own object: an earlier reply was lost");
                Ok(())
            }
            Ok(false) => Err(BucketError::AlreadyExists),
            Err(BucketError::NotFound) => Err(BucketError::Failed(Box::new(NothingThere))),
            Err(error) => Err(error),
        }
    }
}

impl<B: Bucket, R: Bucket> Idempotent<B, R> {
    /// What a write that failed has come to. A store that refuses a large body, because the key is
    /// taken, may hang up before the body is through: then the refusal is never read, however often
    /// one tries.
    async fn settle_failure(
        &self,
        key: &ObjectKey,
        body: &Body,
        error: BucketError,
    ) -> Result<(), BucketError> {
        match self.inner.size(key).await {
            Ok(_) => self.settle_conflict(key, body).await,
            Err(_) => Err(error),
        }
    }
}

/// A conflict over an object that is not there.
#[derive(Debug, thiserror::Error)]
#[error("a conflict over an object that is not there")]
struct NothingThere;

/// The bytes that have not been compared yet.
struct Expected<'a> {
    current: &'a [u8],
    chunks: &'a [Bytes],
}

impl Expected<'_> {
    /// Whether `found` is what comes next; then it is passed over.
    fn continues_with(&mut self, mut found: &[u8]) -> bool {
        while !found.is_empty() {
            if self.current.is_empty() {
                let Some((next, rest)) = self.chunks.split_first() else {
                    return false;
                };
                (self.current, self.chunks) = (next, rest);
            }
            let common = self.current.len().min(found.len());
            let (expected_now, expected_later) = self.current.split_at(common);
            let (found_now, found_later) = found.split_at(common);
            if expected_now != found_now {
                return false;
            }
            (self.current, found) = (expected_later, found_later);
        }
        true
    }
}

#[async_trait]
impl<B: Bucket, R: Bucket> BucketLayer for Idempotent<B, R> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        match self.inner.put(key, body).await {
            Err(BucketError::AlreadyExists) => self.settle_conflict(key, body).await,
            Err(error) if error.may_pass() => self.settle_failure(key, body, error).await,
            settled => settled,
        }
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        match self.inner.complete_parts(key, upload, parts, whole).await {
            Err(BucketError::AlreadyExists) => self.settle_conflict(key, whole).await,
            // The upload is gone: completed, if the object is there, and its reply lost.
            Err(BucketError::NotFound) => match self.settle_conflict(key, whole).await {
                Err(BucketError::Failed(source)) if source.is::<NothingThere>() => {
                    Err(BucketError::NotFound)
                }
                settled => settled,
            },
            settled => settled,
        }
    }
}
