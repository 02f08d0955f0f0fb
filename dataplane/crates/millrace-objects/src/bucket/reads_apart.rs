//! Reads on a runtime of their own.

use std::{future::Future, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{runtime::Handle, task::JoinHandle};

use super::{Bucket, BucketError, BucketLayer};
use crate::ObjectKey;

/// A bucket whose objects are read on a background runtime, whoever asks. Everything else is done where it is asked for. Each
/// runtime has a client of its own, since a client's connections run where they were made.
///
/// Receiving hundreds of megabytes per second takes processor time in long turns. On the runtime that
/// acknowledges appends, each of these turns would be a wait of a producer; the other one's threads can
/// have a lower priority.
#[derive(Debug)]
pub struct ReadsApart<B> {
    foreground: B,
    background: Arc<B>,
    runtime: Handle,
}

impl<B: Bucket> ReadsApart<B> {
    /// Two clients of one bucket: `background` is for reads, which run on `runtime`, and for what is asked for there. Once the
    /// runtime is gone, reads fail.
    #[must_use]
    pub fn new(foreground: B, background: B, runtime: Handle) -> Self {
        Self {
            foreground,
            background: Arc::new(background),
            runtime,
        }
    }

    /// Whether the current runtime is the background's.
    fn is_apart(&self) -> bool {
        let current = Handle::try_current();
        current.is_ok_and(|current| current.id() == self.runtime.id())
    }

    /// Runs a read on the background runtime. It ends when nobody waits for it any more.
    async fn run<T: Send + 'static, F>(
        &self,
        read: impl FnOnce(Arc<B>) -> F,
    ) -> Result<T, BucketError>
    where
        F: Future<Output = Result<T, BucketError>> + Send + 'static,
    {
        if self.is_apart() {
            return read(Arc::clone(&self.background)).await;
        }
        run_on(&self.runtime, read(Arc::clone(&self.background))).await
    }
}

/// Does something on another runtime, and ends it when nobody waits for it any more.
pub(super) async fn run_on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = Result<T, BucketError>> + Send + 'static,
) -> Result<T, BucketError> {
    // Not supervised: awaited.
    let mut task = Aborting(runtime.spawn(work));
    match (&mut task.0).await {
        Ok(done) => done,
        Err(lost) => Err(BucketError::Failed(Box::new(lost))),
    }
}

/// A task that is aborted when its waiter is dropped.
struct Aborting<T>(JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait]
impl<B: Bucket> BucketLayer for ReadsApart<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        match self.is_apart() {
            true => &self.background,
            false => &self.foreground,
        }
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        let key = key.clone();
        self.run(|bucket| async move { bucket.get(&key, range).await })
            .await
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        let (key, pieces) = (key.clone(), pieces.to_vec());
        self.run(|bucket| async move { bucket.get_pieces(&key, &pieces).await })
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millrace_model::ObjectId;

    use super::*;
    use crate::bucket::{Body, StoreBucket};

    /// Answers from memory, and tells on which thread it did; the key of object 2 never returns. A PUT tells the client.
    #[derive(Debug)]
    struct Telling {
        client: &'static str,
        memory: Arc<StoreBucket>,
        threads: Arc<parking_lot::Mutex<Vec<String>>>,
        left: Arc<parking_lot::Mutex<bool>>,
    }

    struct Left(Arc<parking_lot::Mutex<bool>>);

    impl Drop for Left {
        fn drop(&mut self) {
            *self.0.lock() = true;
        }
    }

    #[async_trait]
    impl BucketLayer for Telling {
        type Inner = StoreBucket;

        fn inner(&self) -> &StoreBucket {
            &self.memory
        }

        async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
            self.threads.lock().push(self.client.to_owned());
            self.memory.put(key, body).await
        }

        async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.threads.lock().push(name);
            if *key == ObjectKey::of("c", ObjectId(2)) {
                let _left = Left(Arc::clone(&self.left));
                std::future::pending::<()>().await;
            }
            self.memory.get(key, range).await
        }
    }

    fn background() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("apart")
            .enable_all()
            .build()
            .expect("a runtime")
    }

    #[tokio::test]
    async fn what_is_written_goes_through_the_client_of_the_runtime_that_asks() {
        let apart = background();
        let clients: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
        let telling = |client| Telling {
            client,
            memory: Arc::new(StoreBucket::memory()),
            threads: Arc::clone(&clients),
            left: Arc::default(),
        };
        let handle = apart.handle().clone();
        let bucket = ReadsApart::new(telling("foreground"), telling("background"), handle);
        let bucket = Arc::new(bucket);
        let put = |id| {
            let bucket = Arc::clone(&bucket);
            let key = ObjectKey::of("c", ObjectId(id));
            let body = Body::from(vec![Bytes::from_static(b"0123456789")]);
            async move { Bucket::put(&*bucket, &key, &body).await }
        };
        put(1).await.expect("put");
        let there = apart.spawn(put(2)).await.expect("no panic");
        there.expect("put");
        put(3).await.expect("put");
        assert_eq!(*clients.lock(), ["foreground", "background", "foreground"]);
        apart.shutdown_background();
    }

    #[tokio::test]
    async fn reads_run_over_there_and_end_with_whoever_waits() {
        let apart = background();
        let memory = Arc::new(StoreBucket::memory());
        let (threads, left) = (Arc::default(), Arc::default());
        let telling = || Telling {
            client: "apart",
            memory: Arc::clone(&memory),
            threads: Arc::clone(&threads),
            left: Arc::clone(&left),
        };
        let bucket = ReadsApart::new(telling(), telling(), apart.handle().clone());
        let key = ObjectKey::of("c", ObjectId(1));
        let body = Body::from(vec![Bytes::from_static(b"0123456789")]);
        Bucket::put(&bucket, &key, &body).await.expect("put");
        let found = Bucket::get(&bucket, &key, 2..5).await.expect("found");
        assert_eq!(&found[..], b"234");
        let pieces = Bucket::get_pieces(&bucket, &key, &[0..2, 8..10]).await;
        assert_eq!(pieces.expect("found"), ["01", "89"]);
        assert!(threads.lock().iter().all(|name| name == "apart"));
        let stuck = ObjectKey::of("c", ObjectId(2));
        let wait = tokio::time::timeout(
            Duration::from_millis(20),
            Bucket::get(&bucket, &stuck, 0..1),
        );
        assert!(wait.await.is_err());
        while !*left.lock() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        apart.shutdown_background();
        let gone = Bucket::get(&bucket, &key, 0..1).await;
        assert!(matches!(gone, Err(BucketError::Failed(_))));
    }
}
