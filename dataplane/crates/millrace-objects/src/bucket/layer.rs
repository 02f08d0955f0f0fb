//! A decorator that changes some operations and forwards the others.

use std::{fmt::Debug, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Body, Bucket, BucketError, Listed, PartSlot, PartTag, UploadId};
use crate::ObjectKey;

/// A bucket over another one. What an implementation does not say itself, the inner bucket does; the
/// operations, their units and their errors are those of [`Bucket`].
#[async_trait]
pub trait BucketLayer: Debug + Send + Sync + 'static {
    /// The bucket below.
    type Inner: Bucket + ?Sized;

    /// The bucket below.
    fn inner(&self) -> &Self::Inner;

    /// See [`Bucket::put`].
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.inner().put(key, body).await
    }

    /// See [`Bucket::begin_parts`].
    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        self.inner().begin_parts(key).await
    }

    /// See [`Bucket::put_part`].
    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        self.inner().put_part(key, upload, slot, body).await
    }

    /// See [`Bucket::copy_part`].
    async fn copy_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        self.inner()
            .copy_part(key, upload, slot, source, range)
            .await
    }

    /// See [`Bucket::complete_parts`].
    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        self.inner().complete_parts(key, upload, parts, whole).await
    }

    /// See [`Bucket::abort_parts`].
    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        self.inner().abort_parts(key, upload).await
    }

    /// See [`Bucket::get`].
    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        self.inner().get(key, range).await
    }

    /// See [`Bucket::get_pieces`]. A layer that changes [`BucketLayer::get`] changes this too.
    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        self.inner().get_pieces(key, pieces).await
    }

    /// See [`Bucket::size`].
    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        self.inner().size(key).await
    }

    /// See [`Bucket::delete`].
    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        self.inner().delete(keys).await
    }

    /// See [`Bucket::list`].
    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        self.inner().list(prefix, after, limit).await
    }
}

#[async_trait]
impl<L: BucketLayer> Bucket for L {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        BucketLayer::put(self, key, body).await
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        BucketLayer::begin_parts(self, key).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        BucketLayer::put_part(self, key, upload, slot, body).await
    }

    async fn copy_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        BucketLayer::copy_part(self, key, upload, slot, source, range).await
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        BucketLayer::complete_parts(self, key, upload, parts, whole).await
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        BucketLayer::abort_parts(self, key, upload).await
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        BucketLayer::get(self, key, range).await
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        BucketLayer::get_pieces(self, key, pieces).await
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        BucketLayer::size(self, key).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        BucketLayer::delete(self, keys).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        BucketLayer::list(self, prefix, after, limit).await
    }
}

/// A shared bucket is a bucket.
impl BucketLayer for Arc<dyn Bucket> {
    type Inner = dyn Bucket;

    fn inner(&self) -> &dyn Bucket {
        self.as_ref()
    }
}
