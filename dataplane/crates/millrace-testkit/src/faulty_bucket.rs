//! An object store that fails on purpose.

use std::{collections::HashSet, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use millrace_model::StreamId;
use millrace_objects::{
    Listed, ObjectKey, ObjectReader, ObjectStorage,
    bucket::{Body, Bucket, BucketError, PartSlot, PartTag, RetryPolicy, TimeoutPolicy, UploadId},
};
use millrace_time::{SharedRandom, SystemClock};
use parking_lot::Mutex;

/// Which faults a [`FaultyBucket`] shows, each as a chance in thousandths per request. The default
/// shows none.
#[derive(Debug, Clone, Copy, Default)]
pub struct BucketFaults {
    /// The request fails and nothing has happened (a 503).
    pub fail_permille: u64,
    /// The request is carried out, and then fails (a lost reply).
    pub lose_reply_permille: u64,
    /// A PUT is answered with a conflict, and nothing has happened (S3 says so while another
    /// conditional PUT of the key is under way).
    pub conflict_permille: u64,
    /// A write or a completion is carried out twice, the second time after its answer is known (a
    /// transport that sent it again).
    pub repeat_permille: u64,
    /// The request takes `stall` before anything happens, or before its answer (a slow body).
    pub stall_permille: u64,
    /// How long a stalled request takes.
    pub stall: Duration,
    /// One bit of what a GET answers is flipped.
    pub flip_permille: u64,
    /// Every request takes this long.
    pub delay: Duration,
    /// Every request fails, as if the store were unreachable.
    pub down: bool,
    /// Every write and every deletion is denied; reads are served.
    pub read_only: bool,
}

/// How often each operation reached the store behind the faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// Objects written by one request.
    pub puts: u64,
    /// Parts written.
    pub parts: u64,
    /// Parts copied from other objects.
    pub copies: u64,
    /// Objects completed from parts.
    pub completions: u64,
    /// Ranges read.
    pub gets: u64,
    /// Requests to delete.
    pub deletes: u64,
    /// Faults shown.
    pub faults: u64,
}

/// A bucket that passes requests on to another, or fails as it was told. Seeded randomness replays
/// the faults. A clone is the same bucket, so a test can keep one to steer it.
#[derive(Debug, Clone)]
pub struct FaultyBucket {
    inner: Arc<dyn Bucket>,
    random: SharedRandom,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: BucketFaults,
    counts: BucketCounts,
    undeletable: HashSet<ObjectKey>,
}

impl FaultyBucket {
    /// A bucket over `inner` that shows no faults yet.
    #[must_use]
    pub fn new(inner: impl Bucket, random: SharedRandom) -> Self {
        Self {
            inner: Arc::new(inner),
            random,
            state: Arc::default(),
        }
    }

    /// From now on, show these faults.
    pub fn set(&self, faults: BucketFaults) {
        self.state.lock().faults = faults;
    }

    /// From now on, a request to delete any of these keys fails as a whole and deletes nothing.
    pub fn refuse_to_delete(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.state.lock().undeletable = keys.into_iter().collect();
    }

    /// Flips one bit of a stored object, as rot would; the same again restores it. No fault strikes,
    /// and nothing is counted.
    ///
    /// # Panics
    /// There is no such object, or it is shorter.
    pub async fn flip(&self, key: &ObjectKey, position: u64) {
        let size = self.inner.size(key).await.expect("a stored object");
        let bytes = self.inner.get(key, 0..size).await.expect("a stored object");
        let mut bytes = bytes.to_vec();
        let at = usize::try_from(position).expect("a position in memory");
        bytes[at] ^= 0x40;
        let keys = std::slice::from_ref(key);
        self.inner.delete(keys).await.expect("deletes");
        let body = Body::from(vec![Bytes::from(bytes)]);
        self.inner.put(key, &body).await.expect("writes");
    }

    /// Flips one bit in the first block of an object that holds `stream`; the same again restores it.
    ///
    /// # Panics
    /// There is no such object, or it holds nothing of the stream.
    pub async fn flip_block(&self, key: &ObjectKey, stream: StreamId) {
        let size = self.inner.size(key).await.expect("a stored object");
        let clock = SystemClock::shared();
        let storage = ObjectStorage::over(
            self.clone(),
            RetryPolicy::default(),
            TimeoutPolicy::default(),
            clock,
            self.random.clone(),
        );
        let reader = ObjectReader::open(&storage, key.clone(), size).await;
        let reader = reader.expect("a sound index");
        let block = reader.find(stream, 0, u64::MAX).first();
        let position = block.expect("a block of the stream").position;
        // Behind the headers of the block and of its first entry.
        self.flip(key, position + 60).await;
    }

    /// What has happened so far.
    #[must_use]
    pub fn counts(&self) -> BucketCounts {
        self.state.lock().counts
    }

    fn strikes(&self, permille: u64) -> bool {
        let strikes = permille > 0 && self.random.below(1_000) < permille;
        if strikes {
            self.state.lock().counts.faults += 1;
        }
        strikes
    }

    /// Waits, then fails or gives the faults that may still strike.
    async fn arrive(&self) -> Result<BucketFaults, BucketError> {
        let faults = self.state.lock().faults;
        if !faults.delay.is_zero() {
            tokio::time::sleep(faults.delay).await;
        }
        if faults.down || self.strikes(faults.fail_permille) {
            return Err(BucketError::Failed("the test made the store fail".into()));
        }
        self.stall(faults).await;
        Ok(faults)
    }

    /// The same for a request that changes something.
    async fn arrive_to_write(&self) -> Result<BucketFaults, BucketError> {
        let faults = self.arrive().await?;
        if faults.read_only {
            return Err(BucketError::Denied("the test denies writes".into()));
        }
        Ok(faults)
    }

    async fn stall(&self, faults: BucketFaults) {
        if self.strikes(faults.stall_permille) {
            tokio::time::sleep(faults.stall).await;
        }
    }

    /// The reply, unless it gets lost.
    async fn reply<T>(&self, faults: BucketFaults, reply: T) -> Result<T, BucketError> {
        self.stall(faults).await;
        if self.strikes(faults.lose_reply_permille) {
            return Err(BucketError::Failed("the test lost the reply".into()));
        }
        Ok(reply)
    }
}

#[async_trait]
impl Bucket for FaultyBucket {
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        let faults = self.arrive_to_write().await?;
        if self.strikes(faults.conflict_permille) {
            return Err(BucketError::AlreadyExists);
        }
        self.inner.put(key, body).await?;
        self.state.lock().counts.puts += 1;
        if self.strikes(faults.repeat_permille) {
            // What the second one is answered reaches nobody.
            let _ = self.inner.put(key, body).await;
        }
        self.reply(faults, ()).await
    }

    async fn begin_parts(&self, key: &ObjectKey) -> Result<UploadId, BucketError> {
        let faults = self.arrive_to_write().await?;
        let upload = self.inner.begin_parts(key).await?;
        self.reply(faults, upload).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        let faults = self.arrive_to_write().await?;
        let tag = self.inner.put_part(key, upload, slot, body).await?;
        self.state.lock().counts.parts += 1;
        if self.strikes(faults.repeat_permille) {
            let _ = self.inner.put_part(key, upload, slot, body).await;
        }
        self.reply(faults, tag).await
    }

    async fn copy_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        source: &ObjectKey,
        range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        let faults = self.arrive_to_write().await?;
        let tag = self
            .inner
            .copy_part(key, upload, slot, source, range)
            .await?;
        self.state.lock().counts.copies += 1;
        self.reply(faults, tag).await
    }

    async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        parts: &[PartTag],
        whole: &Body,
    ) -> Result<(), BucketError> {
        let faults = self.arrive_to_write().await?;
        if self.strikes(faults.conflict_permille) {
            return Err(BucketError::AlreadyExists);
        }
        self.inner.complete_parts(key, upload, parts, whole).await?;
        self.state.lock().counts.completions += 1;
        if self.strikes(faults.repeat_permille) {
            let _ = self.inner.complete_parts(key, upload, parts, whole).await;
        }
        self.reply(faults, ()).await
    }

    async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> Result<(), BucketError> {
        let faults = self.arrive_to_write().await?;
        self.inner.abort_parts(key, upload).await?;
        self.reply(faults, ()).await
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        let faults = self.arrive().await?;
        let found = self.inner.get(key, range).await?;
        self.state.lock().counts.gets += 1;
        if found.is_empty() || !self.strikes(faults.flip_permille) {
            return self.reply(faults, found).await;
        }
        let mut flipped = BytesMut::from(found.as_ref());
        let at = usize::try_from(self.random.below(flipped.len() as u64)).unwrap_or(0);
        flipped[at] ^= 1 << self.random.below(8);
        self.reply(faults, flipped.freeze()).await
    }

    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError> {
        let faults = self.arrive().await?;
        let size = self.inner.size(key).await?;
        self.reply(faults, size).await
    }

    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError> {
        let faults = self.arrive_to_write().await?;
        let refused = {
            let undeletable = &self.state.lock().undeletable;
            keys.iter().any(|key| undeletable.contains(key))
        };
        if refused {
            return Err(BucketError::Failed("the test keeps this object".into()));
        }
        self.inner.delete(keys).await?;
        self.state.lock().counts.deletes += 1;
        self.reply(faults, ()).await
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError> {
        let faults = self.arrive().await?;
        let listed = self.inner.list(prefix, after, limit).await?;
        self.reply(faults, listed).await
    }
}
