//! Settles lost replies of PUT.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Body, Bucket, BucketError, Listed};
use crate::ObjectKey;

/// An object is compared in reads of at most this size: bounds the memory of a comparison.
const COMPARE_BYTES: u64 = 8 * 1024 * 1024;

/// A bucket in which a PUT that finds its own object has succeeded.
///
/// A PUT only ever creates. When its reply is lost, the next try meets the object that the first
/// one wrote; the bytes then decide whether it is ours. A conflict over an object that is not
/// there (S3 says so while another conditional PUT of the key is under way) may pass.
#[derive(Debug)]
pub(crate) struct Idempotent<B> {
    inner: B,
}

impl<B: Bucket> Idempotent<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self { inner }
    }

    /// Whether the object at `key` has exactly the bytes of `body`.
    async fn holds(&self, key: &ObjectKey, body: &Body) -> Result<bool, BucketError> {
        if self.inner.size(key).await? != body.size() {
            return Ok(false);
        }
        let mut position = 0;
        let mut expected = Expected {
            current: &[],
            chunks: body.chunks(),
        };
        while position < body.size() {
            let end = body.size().min(position + COMPARE_BYTES);
            let found = self.inner.get(key, position..end).await?;
            if found.len() as u64 != end - position || !expected.continues_with(&found) {
                return Ok(false);
            }
            position = end;
        }
        Ok(true)
    }
}

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
impl<B: Bucket> Bucket for Idempotent<B> {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        match self.inner.put(key, body).await {
            Err(BucketError::AlreadyExists) => {}
            settled => return settled,
        }
        match self.holds(key, body).await {
            Ok(true) => {
                tracing::info!(%key, "a PUT found its own object: an earlier reply was lost");
                Ok(())
            }
            Ok(false) => Err(BucketError::AlreadyExists),
            Err(BucketError::NotFound) => Err(BucketError::Failed(
                "a conflict over an object that is not there".into(),
            )),
            Err(error) => Err(error),
        }
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        self.inner.get(key, range).await
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        self.inner.size(key).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        self.inner.delete(keys).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        self.inner.list(prefix, after, limit).await
    }
}
