//! The stack of decorators that the broker uses.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use millrace_limiter::{InFlight, Pacer};
use millrace_time::{SharedClock, SharedRandom};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    Listed, ObjectKey, ObjectWrite,
    bucket::{
        Bucket, BucketCalls, BucketError, BucketReads, BucketUri, Calls, DELETE_KEYS_MAX, Gate,
        Gated, Hedged, Hedges, Idempotent, InvalidUri, Limited, Measured, NetworkShare,
        RetryPolicy, Retrying, StoreBucket, TimedOut, TimeoutPolicy, span,
    },
    corrupt::CorruptObjects,
};

/// The largest object, in bytes: S3's bound for one PUT.
pub(crate) const OBJECT_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Objects that are listed in one request: S3's bound.
const PAGE: usize = 1_000;

/// Objects and parts that are being written at a time, however many are asked for: each may hold a
/// connection, and memory on both ends.
const WRITES_IN_FLIGHT_MAX: usize = 32;

/// A bucket that retries, gives up in time, and measures. A clone is the same bucket.
#[derive(Debug, Clone)]
pub struct ObjectStorage {
    /// The whole stack, built when it is needed: uses of one read often go without.
    stack: OnceLock<Arc<dyn Bucket>>,
    /// What this use may take of the network.
    share: Option<NetworkShare>,
    /// What its writes wait for, if anything.
    gate: Option<Gate>,
    /// What the stack is built from, for each share of the network.
    parts: Arc<Parts>,
    /// What spreads writes over time, if anything does.
    pace: Option<Pacer>,
}

#[derive(Debug)]
struct Parts {
    measured: Arc<dyn Bucket>,
    calls: Calls,
    clock: SharedClock,
    hedges: Arc<Hedges>,
    writes: Arc<Semaphore>,
    retry: RetryPolicy,
    timeout: TimeoutPolicy,
    random: SharedRandom,
    corrupt: CorruptObjects,
}

impl Parts {
    fn stack(&self, share: Option<NetworkShare>, gate: Option<Gate>) -> Arc<dyn Bucket> {
        let timed_out = TimedOut::new(Arc::clone(&self.measured), self.timeout);
        let hedges = Arc::clone(&self.hedges);
        let hedged = Hedged::new(timed_out, hedges, share.clone(), self.clock.clone());
        let each_try: Arc<dyn Bucket> = Arc::new(Limited::new(hedged, share));
        let random = || Arc::clone(&self.random);
        let reads = Retrying::new(Arc::clone(&each_try), self.retry, random());
        let writes = Retrying::new(Idempotent::new(each_try, reads), self.retry, random());
        Arc::new(Gated::new(writes, gate))
    }
}

/// Why a bucket could not be opened: fix the configuration.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is not one.
    #[error(transparent)]
    Uri(#[from] InvalidUri),
    /// The address cannot be used.
    #[error("cannot open the bucket {uri}")]
    Bucket {
        /// The address, without secrets.
        uri: String,
        /// Why.
        source: BucketError,
    },
}

/// Why an object was not written.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The key is taken by other bytes: write under a new id, and report it, for ids are unique.
    #[error("another object exists at {key}")]
    Conflict {
        /// The key.
        key: ObjectKey,
    },
    /// Above S3's bound of 5 GiB for one PUT.
    #[error("object {key} has {size} bytes, more than one PUT can write")]
    TooLarge {
        /// The key.
        key: ObjectKey,
        /// The object's size in bytes.
        size: u64,
    },
    /// The store failed, for all the retries. It may be written or not; putting it again is right.
    #[error("cannot write object {key}")]
    Store {
        /// The key.
        key: ObjectKey,
        /// The last try's error.
        source: BucketError,
    },
}

/// Why an object was not read.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// There is no such object (any more): ask the metadata again.
    #[error("there is no object {key}")]
    NotFound {
        /// The key.
        key: ObjectKey,
    },
    /// The object is shorter than the metadata says: report it.
    #[error("object {key} ends at {size}, before {end}")]
    Truncated {
        /// The key.
        key: ObjectKey,
        /// The object's size in the store, in bytes.
        size: u64,
        /// The end of the range that was asked for.
        end: u64,
    },
    /// The store failed, for all the retries: try later.
    #[error("cannot read object {key}")]
    Store {
        /// The key.
        key: ObjectKey,
        /// The last try's error.
        source: BucketError,
    },
}

/// One try of a read that has its share of the network: others wait until it is used or dropped.
#[derive(Debug)]
#[must_use = "others wait for it"]
pub struct AdmittedRead<'a> {
    storage: &'a ObjectStorage,
    /// The bytes are in flight until this is dropped.
    _in_flight: Option<InFlight>,
}

impl AdmittedRead<'_> {
    /// Reads like [`ObjectStorage::get_pieces`], but gives up when one try has failed.
    ///
    /// # Errors
    /// As [`ObjectStorage::get_range`].
    pub async fn get_pieces(
        self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, GetError> {
        let Parts {
            measured, timeout, ..
        } = &*self.storage.parts;
        let once = TimedOut::new(Arc::clone(measured), *timeout);
        match once.get_pieces(key, pieces).await {
            Ok(found) => whole(key, pieces, found),
            Err(BucketError::NotFound) => Err(GetError::NotFound { key: key.clone() }),
            Err(source) => Err(GetError::Store {
                key: key.clone(),
                source,
            }),
        }
    }
}

/// The pieces, unless the object ends before one of them does.
fn whole(
    key: &ObjectKey,
    pieces: &[Range<u64>],
    found: Vec<Bytes>,
) -> Result<Vec<Bytes>, GetError> {
    for (piece, bytes) in pieces.iter().zip(&found) {
        let size = piece.start + bytes.len() as u64;
        if size < piece.end {
            let (key, end) = (key.clone(), piece.end);
            return Err(GetError::Truncated { key, size, end });
        }
    }
    Ok(found)
}

/// Why objects were not deleted. Some may have been; deleting all of them again is right.
#[derive(Debug, thiserror::Error)]
#[error("cannot delete objects")]
pub struct DeleteError(#[source] pub BucketError);

/// Why the bucket could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list the bucket")]
pub struct ListError(#[source] pub BucketError);

impl ObjectStorage {
    /// Opens the bucket that [`BucketUri`] describes, as in `0@file:///folder` or `0@s3://bucket`.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the address. Nothing is asked of S3 yet.
    pub fn open(uri: &str, clock: SharedClock, random: SharedRandom) -> Result<Self, OpenError> {
        let uri: BucketUri = uri.parse()?;
        let bucket = StoreBucket::open(&uri).map_err(|source| OpenError::Bucket {
            uri: uri.to_string(),
            source,
        })?;
        Ok(Self::over(
            bucket,
            RetryPolicy::default(),
            TimeoutPolicy::default(),
            clock,
            random,
        ))
    }

    /// How often each operation had each outcome since the start, over all shares of the network;
    /// those that never happened are left out.
    #[must_use]
    pub fn calls(&self) -> Vec<BucketCalls> {
        self.parts.calls.now()
    }

    /// Reads of objects since the start, over all shares of the network.
    #[must_use]
    pub fn reads(&self) -> BucketReads {
        self.parts.calls.reads()
    }

    /// The corrupt objects that reads have met, over all uses of the bucket.
    #[must_use]
    pub fn corrupt(&self) -> &CorruptObjects {
        &self.parts.corrupt
    }

    /// An empty bucket in memory, for tests and trials.
    #[must_use]
    pub fn memory(clock: SharedClock, random: SharedRandom) -> Self {
        let (retry, timeout) = (RetryPolicy::default(), TimeoutPolicy::default());
        Self::over(StoreBucket::memory(), retry, timeout, clock, random)
    }

    /// The stack over any bucket.
    #[must_use]
    pub fn over(
        bucket: impl Bucket,
        retry: RetryPolicy,
        timeout: TimeoutPolicy,
        clock: SharedClock,
        random: SharedRandom,
    ) -> Self {
        let measured = Measured::new(bucket, clock.clone());
        let parts = Parts {
            calls: measured.calls(),
            measured: Arc::new(measured),
            clock,
            hedges: Arc::new(Hedges::new()),
            writes: Arc::new(Semaphore::new(WRITES_IN_FLIGHT_MAX)),
            retry,
            timeout,
            random,
            corrupt: CorruptObjects::new(),
        };
        Self {
            stack: OnceLock::new(),
            share: None,
            gate: None,
            parts: Arc::new(parts),
            pace: None,
        }
    }

    /// The same bucket for a use that draws on `share` of the network.
    #[must_use]
    pub fn limited(&self, share: NetworkShare) -> Self {
        Self {
            stack: OnceLock::new(),
            share: Some(share),
            gate: self.gate.clone(),
            parts: Arc::clone(&self.parts),
            pace: self.pace.clone(),
        }
    }

    /// The same bucket for a use whose writes and deletes wait until `gate` is open. While they wait,
    /// no deadline runs.
    #[must_use]
    pub fn gated(&self, gate: Gate) -> Self {
        Self {
            stack: OnceLock::new(),
            gate: Some(gate),
            ..self.clone()
        }
    }

    /// The same bucket for reads that are fair to those of other flows, such as streams, where the
    /// network is short. Reads without a flow are all of one. Costs a few counters, so that each read
    /// may have one of its own.
    #[must_use]
    pub fn for_flow(&self, flow: u64) -> Self {
        let share = self.share.clone();
        match share {
            Some(share) => self.limited(NetworkShare { flow, ..share }),
            None => self.clone(),
        }
    }

    /// The same bucket for a use whose writes pass `pace` first, once for each object or part.
    #[must_use]
    pub fn paced(&self, pace: Pacer) -> Self {
        Self {
            pace: Some(pace),
            ..self.clone()
        }
    }

    pub(crate) fn bucket(&self) -> &dyn Bucket {
        let stack = || self.parts.stack(self.share.clone(), self.gate.clone());
        &**self.stack.get_or_init(stack)
    }

    pub(crate) fn pace(&self) -> Option<&Pacer> {
        self.pace.as_ref()
    }

    /// Waits until one more object or part may be written; for as long as the answer lives.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it.
        self.parts.writes.acquire().await.ok()
    }

    /// Writes an object that does not exist yet, as [`ObjectWrite`] does; gives up after the usual
    /// retries, and then leaves no part of it.
    ///
    /// # Errors
    /// [`PutError`] says whether to put it again.
    pub async fn put(&self, key: &ObjectKey, chunks: Vec<Bytes>) -> Result<(), PutError> {
        let mut write = self.write(key, chunks);
        let written = write.run().await;
        if written.is_err() {
            write.abort().await;
        }
        written
    }

    /// An object that is to be written, however long it takes.
    #[must_use]
    pub fn write(&self, key: &ObjectKey, chunks: Vec<Bytes>) -> ObjectWrite {
        ObjectWrite::new(self.clone(), key.clone(), chunks)
    }

    /// Reads exactly `range` of an object.
    ///
    /// # Errors
    /// [`GetError`] says whether to ask the metadata, to try later, or to report it.
    pub async fn get_range(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, GetError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let read = self.bucket().get(key, range.clone()).await;
        let found = match read {
            Ok(bytes) => vec![bytes],
            Err(error) => return Err(self.get_failed(key, range.end, error).await),
        };
        let mut found = whole(key, std::slice::from_ref(&range), found)?;
        Ok(found.pop().unwrap_or_default())
    }

    /// Reads the first `bytes` of an object, or all of it where it is smaller.
    ///
    /// # Errors
    /// As [`ObjectStorage::get_range`]; never [`GetError::Truncated`].
    pub async fn get_start(&self, key: &ObjectKey, bytes: u64) -> Result<Bytes, GetError> {
        self.bucket()
            .get(key, 0..bytes)
            .await
            .map_err(|error| match error {
                BucketError::NotFound => GetError::NotFound { key: key.clone() },
                source => GetError::Store {
                    key: key.clone(),
                    source,
                },
            })
    }

    /// Reads exactly `pieces` of an object by one request, each into memory of its own. They must
    /// be ascending, apart and not empty; what lies between them crosses the network too.
    ///
    /// # Errors
    /// As [`ObjectStorage::get_range`].
    pub async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, GetError> {
        match self.bucket().get_pieces(key, pieces).await {
            Ok(found) => whole(key, pieces, found),
            Err(error) => Err(self.get_failed(key, span(pieces).end, error).await),
        }
    }

    /// Waits for this use's share of the network for one try of a read of `bytes`. While it waits,
    /// nothing has been asked of the store, and it can be dropped at no cost. Then read, or drop, at once.
    pub async fn admit_read(&self, bytes: u64) -> AdmittedRead<'_> {
        let in_flight = match &self.share {
            Some(share) => Some(share.admit_in(bytes).await),
            None => None,
        };
        AdmittedRead {
            storage: self,
            _in_flight: in_flight,
        }
    }

    /// What a read that failed has come to.
    async fn get_failed(&self, key: &ObjectKey, end: u64, error: BucketError) -> GetError {
        if matches!(error, BucketError::NotFound) {
            return GetError::NotFound { key: key.clone() };
        }
        // Stores answer a range behind the end with an error like any other.
        match self.bucket().size(key).await {
            Ok(size) if size < end => GetError::Truncated {
                key: key.clone(),
                size,
                end,
            },
            _ => GetError::Store {
                key: key.clone(),
                source: error,
            },
        }
    }

    /// Deletes objects. One that is not there counts as deleted.
    ///
    /// # Errors
    /// [`DeleteError`]: delete all of them again.
    pub async fn delete(&self, keys: &[ObjectKey]) -> Result<(), DeleteError> {
        for keys in keys.chunks(DELETE_KEYS_MAX) {
            self.bucket().delete(keys).await.map_err(DeleteError)?;
            self.corrupt().deleted(keys);
        }
        Ok(())
    }

    /// What `pick` returns for the objects in the folder `prefix` (empty: all), in the order of their
    /// keys.
    ///
    /// # Errors
    /// [`ListError`]: list again.
    pub async fn list_all<T>(
        &self,
        prefix: &str,
        mut pick: impl FnMut(Listed) -> Option<T>,
    ) -> Result<Vec<T>, ListError> {
        let (mut picked, mut after) = (Vec::new(), None);
        loop {
            let page = self.list(prefix, after.as_ref(), PAGE).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|last| last.key.clone());
            picked.extend(page.into_iter().filter_map(&mut pick));
            if is_last {
                return Ok(picked);
            }
        }
    }

    /// All data objects of a cluster.
    ///
    /// # Errors
    /// [`ListError`]: list again.
    pub async fn list_cluster(&self, cluster: &str) -> Result<Vec<Listed>, ListError> {
        let is_ours = |listed: &Listed| {
            let id = listed.key.object_id();
            id.is_some_and(|id| ObjectKey::of(cluster, id) == listed.key)
        };
        self.list_all("", |listed| is_ours(&listed).then_some(listed))
            .await
    }

    /// Up to `limit` objects in the folder `prefix` (empty: all), in the order of their keys,
    /// beginning after the key `after`.
    ///
    /// # Errors
    /// [`ListError`]: list again.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, ListError> {
        self.bucket()
            .list(prefix, after, limit)
            .await
            .map_err(ListError)
    }
}
