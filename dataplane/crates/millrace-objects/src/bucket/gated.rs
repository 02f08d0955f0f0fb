//! Writes that wait until it is known whose bucket it is.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Body, Bucket, BucketError, BucketLayer, PartSlot, PartTag, UploadId};
use crate::ObjectKey;

/// Holds writes and deletes back until it is opened, for good. A clone is the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    is_open: Arc<watch::Sender<bool>>,
}

impl Gate {
    /// A gate that lets nothing through yet.
    #[must_use]
    pub fn closed() -> Self {
        Self {
            is_open: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Lets everything through from now on.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// Waits until it is open.
    async fn passed(&self) {
        let mut is_open = self.is_open.subscribe();
        // The sender lives in `self`, so the channel cannot be closed meanwhile.
        let _ = is_open.wait_for(|&is_open| is_open).await;
    }
}

/// A bucket that is read at once, and written and deleted from once its gate is open. Where there is no
/// gate it passes everything on.
#[derive(Debug)]
pub(crate) struct Gated<B> {
    inner: B,
    gate: Option<Gate>,
}

impl<B: Bucket> Gated<B> {
    pub(crate) fn new(inner: B, gate: Option<Gate>) -> Self {
        Self { inner, gate }
    }

    async fn passed(&self) -> &B {
        if let Some(gate) = &self.gate {
            gate.passed().await;
        }
        &self.inner
    }
}

#[async_trait]
impl<B: Bucket> BucketLayer for Gated<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        self.passed().await.put(key, body).await
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        self.passed().await.begin_parts(key).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        let inner = self.passed().await;
        inner.put_part(key, upload, slot, body).await
    }

    async fn copy_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        let inner = self.passed().await;
        inner.copy_part(key, upload, slot, source, range).await
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        let inner = self.passed().await;
        inner.complete_parts(key, upload, parts, whole).await
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        self.passed().await.abort_parts(key, upload).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        self.passed().await.delete(keys).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use millrace_model::ObjectId;

    use super::*;
    use crate::bucket::StoreBucket;

    #[tokio::test]
    async fn reads_pass_a_closed_gate_and_writes_wait_for_it() {
        let gate = Gate::closed();
        let key = |id| ObjectKey::of("c", ObjectId(id));
        let body = Body::from(vec![bytes::Bytes::from_static(b"x")]);
        let store = StoreBucket::memory();
        store.put(&key(1), &body).await.expect("written");
        let gated = Gated::new(store, Some(gate.clone()));
        assert_eq!(
            Bucket::get(&gated, &key(1), 0..1)
                .await
                .expect("read")
                .len(),
            1
        );
        let second = key(2);
        let mut put = Bucket::put(&gated, &second, &body);
        let keys = [key(1)];
        let mut delete = Bucket::delete(&gated, &keys);
        assert!((&mut put).now_or_never().is_none());
        assert!((&mut delete).now_or_never().is_none());
        assert_eq!(
            Bucket::list(&gated, "", None, 9)
                .await
                .expect("listed")
                .len(),
            1
        );
        gate.open();
        put.await.expect("written");
        delete.await.expect("deleted");
        let left = Bucket::list(&gated, "", None, 9).await.expect("listed");
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].key, second);
    }
}
