//! The log of a fenced broker: what it has and the bucket does not is uploaded, then the broker has left and the new leaders
//! open its partitions.
//!
//! The log's fence is raised before the log is read. From that moment its former owner acknowledges nothing, also where it
//! still runs.

use std::sync::Arc;

use millrace_blockcache::BlockCache;
use millrace_meta::{Adoption, Broker, ClusterError, ClusterStore, StoreFailure};
use millrace_model::NodeId;
use millrace_objects::ObjectStorage;
use millrace_stream::{
    Closed, CompactionConfig, RecoveredLog, StreamConfig, StreamParts, StreamStore,
};
use millrace_wal::{UnopenedWal, Wal, WalOwner};

use crate::{
    config::{InvalidWalUri, WalUri},
    identity::Mismatch,
    log_device::{AdoptedDevice, give_back, open_adopted, wal_config},
    storage::{Seams, StorageError},
};

/// Memory for what is uploaded of a log that was taken over, bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// So much of it is uploaded at once, bytes.
const UPLOAD_BYTES: u64 = 16 << 20;

/// Why a log was not taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeoverError {
    /// Where the log is, in the words of its broker.
    #[error("its address cannot be read: {0}")]
    Address(#[from] InvalidWalUri),
    /// Another log is where the broker said that its own is.
    #[error(
        "the log at {path} has the id {found:016x}, but the broker had the log {expected:016x}"
    )]
    OtherLog {
        /// Where.
        path: String,
        /// The id that the broker joined with.
        expected: u64,
        /// The id that is there.
        found: u64,
    },
    /// The device.
    #[error("its device cannot be opened")]
    Device(#[source] Box<StorageError>),
    /// The log.
    #[error("it cannot be opened")]
    Wal(#[from] millrace_wal::OpenError),
    /// Its fence.
    #[error(transparent)]
    Fence(#[from] millrace_wal::FenceError),
    /// It has records of streams that never existed.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Its streams.
    #[error("its streams cannot be opened")]
    Streams(#[from] millrace_stream::OpenError),
    /// Not everything could be uploaded.
    #[error("not all of it could be uploaded: {0:?}")]
    NotUploaded(Closed),
    /// The metadata.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The metadata.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Takes over logs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Takeover {
    pub(crate) store: Arc<dyn ClusterStore>,
    pub(crate) cluster_id: String,
    pub(crate) storage: ObjectStorage,
    pub(crate) block_cache: BlockCache,
    pub(crate) seams: Seams,
}

impl Takeover {
    /// Takes over the log of `broker`. May be tried again after it has failed, by this broker or another one.
    pub(crate) async fn run(
        &self,
        broker: &Broker,
        adoption: Adoption,
    ) -> Result<(), TakeoverError> {
        let (node, started) = (broker.joined.node, self.seams.clock.now());
        tracing::info!(%node, log = adoption.log, "taking over the log of a fenced broker");
        let uri: WalUri = adoption.log.parse()?;
        let log = AdoptedLog {
            uri: &uri,
            log_id: broker.joined.log_id,
            owner: WalOwner {
                cluster_id: self.cluster_id.clone(),
                node_id: node,
                generation: adoption.epoch,
            },
        };
        let (wal, recovered) = log.open(&self.seams).await?;
        let records = recovered.records_by_stream();
        let streams: Vec<_> = records.keys().copied().collect();
        let unknown = self.store.never_created(&streams).await?;
        if let Some(&first) = unknown.first() {
            let records = unknown
                .iter()
                .filter_map(|stream| records.get(stream))
                .sum();
            let streams = unknown.len();
            return Err(Mismatch::UnknownStreams {
                streams,
                records,
                first,
            }
            .into());
        }
        let parts = self.stream_parts((wal, recovered), (node, &adoption));
        let store = StreamStore::open(parts).await?;
        let recovery = store.metrics().recovery;
        match store.close().await {
            Closed::Uploaded => {}
            closed => return Err(TakeoverError::NotUploaded(closed)),
        }
        // The device is closed before its volume is detached.
        drop(store);
        self.store.leave(adoption.epoch).await?;
        let took = self.seams.clock.now().saturating_sub(started);
        tracing::info!(%node, ?recovery, ?took, "the log of a fenced broker was taken over");
        metrics::counter!("millrace_logs_taken_over_total").increment(1);
        give_back(&uri, &self.seams).await;
        Ok(())
    }

    fn stream_parts(
        &self,
        (wal, recovered): (Wal, RecoveredLog),
        (node, adoption): (NodeId, &Adoption),
    ) -> StreamParts {
        StreamParts {
            wal,
            recovered,
            storage: self.storage.clone(),
            background: self.storage.clone(),
            meta: Arc::clone(&self.store) as Arc<_>,
            block_cache: self.block_cache.clone(),
            clock: self.seams.clock.clone(),
            random: self.seams.random.clone(),
            cluster_id: self.cluster_id.clone(),
            node: (node, adoption.epoch),
            tasks: self.seams.tasks.clone(),
            config: StreamConfig {
                cache_bytes: CACHE_BYTES,
                upload_threshold_bytes: UPLOAD_BYTES,
                upload_pace_percent: None,
                compaction: CompactionConfig {
                    interval: std::time::Duration::ZERO,
                    ..CompactionConfig::default()
                },
                ..StreamConfig::default()
            },
        }
    }
}

/// A log that is to be taken over.
pub(crate) struct AdoptedLog<'a> {
    /// Where it is, in the words of its former owner.
    pub(crate) uri: &'a WalUri,
    /// The id that its former owner joined with.
    pub(crate) log_id: u64,
    /// On whose behalf it is opened, and under which epoch.
    pub(crate) owner: WalOwner,
}

impl AdoptedLog<'_> {
    /// Fences the former owner, then reads the log and opens it.
    pub(crate) async fn open(self, seams: &Seams) -> Result<(Wal, RecoveredLog), TakeoverError> {
        let in_device = |error| TakeoverError::Device(Box::new(error));
        let adopted = open_adopted(self.uri, seams).await.map_err(in_device)?;
        let config = || wal_config(self.uri, seams);
        let AdoptedDevice { device, path, .. } = &adopted;
        let unopened = UnopenedWal::read(Arc::clone(device), config()).await?;
        let (found, expected) = (unopened.wal_id(), self.log_id);
        if found != expected {
            let path = path.display().to_string();
            return Err(TakeoverError::OtherLog {
                path,
                expected,
                found,
            });
        }
        let fence = adopted.fence(found, seams).map_err(in_device)?;
        fence.acquire(self.owner.generation)?;
        // Only now: what the former owner acknowledged is in the log from here on.
        let log = UnopenedWal::read(Arc::clone(device), config()).await?;
        let mut recovered = RecoveredLog::default();
        let scanned = log.scan(&mut |record| recovered.push(&record)).await?;
        let clock = seams.clock.clone();
        let wal = scanned
            .fenced_by(fence)
            .open(Some(self.owner), clock)
            .await?;
        Ok((wal, recovered))
    }
}
