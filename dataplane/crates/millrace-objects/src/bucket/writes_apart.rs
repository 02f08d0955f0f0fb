//! Writes on a runtime of their own.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::runtime::Handle;

use super::{
    Body, Bucket, BucketError, BucketLayer, PartSlot, PartTag, UploadId, reads_apart::run_on,
};
use crate::ObjectKey;

/// A bucket whose objects and parts are written on another runtime when the runtime that made this asks. Everything else
/// is done where it is asked for.
///
/// S3 wants the SHA-256 of a body before its first byte: ten milliseconds of processor time for 16 MiB, in one turn, for
/// each of dozens of parts. On the runtime that acknowledges appends, producers would wait for all of them.
#[derive(Debug)]
pub struct WritesApart<B, W> {
    inner: B,
    writes: Arc<W>,
    foreground: Handle,
    runtime: Handle,
}

impl<B: Bucket, W: Bucket> WritesApart<B, W> {
    /// Two clients of one bucket: `writes` is for writes of the current runtime, which run on `runtime`. Once that is gone,
    /// they fail.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(inner: B, writes: W, runtime: Handle) -> Self {
        Self {
            inner,
            writes: Arc::new(writes),
            foreground: Handle::current(),
            runtime,
        }
    }

    fn is_foreground(&self) -> bool {
        let current = Handle::try_current();
        current.is_ok_and(|current| current.id() == self.foreground.id())
    }
}

#[async_trait]
impl<B: Bucket, W: Bucket> BucketLayer for WritesApart<B, W> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        if !self.is_foreground() {
            return self.inner.put(key, body).await;
        }
        let (writes, key, body) = (Arc::clone(&self.writes), key.clone(), body.clone());
        run_on(&self.runtime, async move { writes.put(&key, &body).await }).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        if !self.is_foreground() {
            return self.inner.put_part(key, upload, slot, body).await;
        }
        let (writes, upload) = (Arc::clone(&self.writes), upload.clone());
        let (key, body) = (key.clone(), body.clone());
        let part = async move { writes.put_part(&key, &upload, slot, &body).await };
        run_on(&self.runtime, part).await
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_model::ObjectId;

    use super::*;
    use crate::bucket::StoreBucket;

    #[tokio::test]
    async fn what_this_runtime_writes_goes_through_the_other_client() {
        let builder = || tokio::runtime::Builder::new_multi_thread();
        let apart = builder().worker_threads(1).enable_all().build();
        let apart = apart.expect("a runtime");
        let writes: Arc<dyn Bucket> = Arc::new(StoreBucket::memory());
        let handle = apart.handle().clone();
        let bucket = WritesApart::new(StoreBucket::memory(), Arc::clone(&writes), handle);
        let bucket = Arc::new(bucket);
        let (here, there) = (
            ObjectKey::of("c", ObjectId(1)),
            ObjectKey::of("c", ObjectId(2)),
        );
        let body = Body::from(vec![Bytes::from_static(b"0123456789")]);
        Bucket::put(&*bucket, &here, &body).await.expect("put");
        let (of_others, key) = (Arc::clone(&bucket), there.clone());
        let put = apart.spawn(async move { Bucket::put(&*of_others, &key, &body).await });
        put.await.expect("no panic").expect("put");
        let written = Bucket::size(&*writes, &here).await;
        assert_eq!(written.expect("written there"), 10);
        let passed = Bucket::size(&*bucket, &there).await;
        assert_eq!(passed.expect("written by the inner one"), 10);
        apart.shutdown_background();
    }
}
