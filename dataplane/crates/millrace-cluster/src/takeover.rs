//! The log of a fenced broker: what it has and the bucket does not is uploaded, then the broker has left and the new leaders
//! open its partitions.
//!
//! The log's fence is raised before the log is read. From that moment its former owner acknowledges nothing, also where it
//! still runs.

use std::{error::Error, fmt::Debug, sync::Arc};

use async_trait::async_trait;
use millrace_blockcache::BlockCache;
use millrace_meta::{Adoption, Broker, ClusterError, ClusterStore, OpenStreamError, StoreFailure};
use millrace_model::{NodeEpoch, NodeId, StreamId};
use millrace_objects::ObjectStorage;
use millrace_stream::{
    Closed, CompactionConfig, RecoveredLog, StreamConfig, StreamParts, StreamStore,
};
use millrace_tasks::Supervisor;
use millrace_time::{SharedClock, SharedRandom};
use millrace_wal::{LogFence, UnopenedWal, Wal, WalConfig, WalOwner, device::BlockDevice};

/// Memory for what is uploaded of a log that was taken over, bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// So much of it is uploaded at once, bytes.
const UPLOAD_BYTES: u64 = 16 << 20;

/// Why a log, or its fence, cannot be opened here.
#[derive(Debug, thiserror::Error)]
#[error("{action}")]
pub struct LogUnavailable {
    /// What was tried.
    pub action: &'static str,
    /// What came of it.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Gives the fence of the log with this id.
pub type FenceOf = Box<dyn Fn(u64) -> Result<Arc<dyn LogFence>, LogUnavailable> + Send + Sync>;

/// A log of another broker.
pub struct FencedLog {
    /// Its device, which its former owner's process may still have open. Not to be read before the fence is acquired.
    pub device: Arc<dyn BlockDevice>,
    /// Its settings.
    pub config: WalConfig,
    /// Its fence.
    pub fence: FenceOf,
}

/// Opens logs of other brokers by the addresses that they joined with.
#[async_trait]
pub trait FencedLogs: Debug + Send + Sync + 'static {
    /// Opens a log whose owner is fenced. May be repeated, by this broker or another one.
    ///
    /// # Errors
    /// See [`LogUnavailable`].
    async fn open(&self, address: &str) -> Result<FencedLog, LogUnavailable>;

    /// Whether only brokers of its own broker's zone can open the log.
    fn is_zonal(&self, address: &str) -> bool;

    /// The log was taken over: its own broker can have it back.
    async fn give_back(&self, address: &str);
}

/// Why a log was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// Another log is where the broker said that its own is.
    #[error(
        "the log at {address} has the id {found:016x}, but the broker had the log {expected:016x}"
    )]
    OtherLog {
        /// Where.
        address: String,
        /// The id that the broker joined with.
        expected: u64,
        /// The id that is there.
        found: u64,
    },
    /// The device, or its fence.
    #[error(transparent)]
    Unavailable(#[from] LogUnavailable),
    /// The log.
    #[error("it cannot be opened")]
    Wal(#[from] millrace_wal::OpenError),
    /// Its fence.
    #[error(transparent)]
    Fence(#[from] millrace_wal::FenceError),
    /// It has records of streams that never existed.
    #[error(
        "it has {records} records of {streams} streams that the metadata has never had, such as stream {first}: the two do \
         not belong together"
    )]
    UnknownStreams {
        /// How many streams.
        streams: usize,
        /// How many records.
        records: usize,
        /// The lowest of the streams.
        first: StreamId,
    },
    /// Its streams.
    #[error("its streams cannot be opened")]
    Streams(#[from] millrace_stream::OpenError),
    /// Records in it are damaged. Its other streams are uploaded and released.
    #[error(
        "it has damaged records of {} stream(s), the first being stream {first}: their partitions stay offline until the \
         log's volume is restored or their topics are deleted; all other partitions are served",
        others + 1
    )]
    Halted {
        /// The lowest of the streams.
        first: StreamId,
        /// How many more there are.
        others: usize,
    },
    /// Its sound streams could not be released.
    #[error("its sound streams could not be released")]
    Release(#[from] OpenStreamError),
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
#[derive(Debug, Clone)]
pub struct Takeover {
    /// The metadata of all brokers.
    pub store: Arc<dyn ClusterStore>,
    /// The cluster.
    pub cluster_id: String,
    /// Where what the log has is uploaded to.
    pub storage: ObjectStorage,
    /// This broker's cache of what is there.
    pub block_cache: BlockCache,
    /// Opens logs.
    pub logs: Arc<dyn FencedLogs>,
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub random: SharedRandom,
    /// Supervises what works for the log.
    pub tasks: Supervisor,
}

impl Takeover {
    /// Takes over the log of `broker`. May be tried again after it has failed, by this broker or another one.
    pub(crate) async fn run(
        &self,
        broker: &Broker,
        adoption: Adoption,
    ) -> Result<(), TakeoverError> {
        let (node, started) = (broker.joined.node, self.clock.now());
        tracing::info!(%node, log = adoption.log, "taking over the log of a fenced broker");
        let log = AdoptedLog {
            logs: &*self.logs,
            address: &adoption.log,
            log_id: broker.joined.log_id,
            owner: WalOwner {
                cluster_id: self.cluster_id.clone(),
                node_id: node,
                generation: adoption.epoch,
            },
        };
        let (wal, recovered) = log.open(self.clock.clone()).await?;
        let records = recovered.records_by_stream();
        let streams: Vec<_> = records.keys().copied().collect();
        let unknown = self.store.never_created(&streams).await?;
        if let Some(&first) = unknown.first() {
            let records = unknown
                .iter()
                .filter_map(|stream| records.get(stream))
                .sum();
            let streams = unknown.len();
            return Err(TakeoverError::UnknownStreams {
                streams,
                records,
                first,
            });
        }
        let parts = self.stream_parts((wal, recovered), (node, &adoption));
        let store = StreamStore::open(parts).await?;
        let recovery = store.metrics().recovery;
        match store.close().await {
            Closed::Uploaded => {}
            Closed::Halted { streams } => {
                // The device is closed before its volume is detached, which an operator may restore now.
                drop(store);
                let error = self.release_others(&streams, adoption.epoch).await;
                self.logs.give_back(&adoption.log).await;
                return Err(error);
            }
            closed => return Err(TakeoverError::NotUploaded(closed)),
        }
        // The device is closed before its volume is detached.
        drop(store);
        self.store.leave(adoption.epoch).await?;
        let took = self.clock.now().saturating_sub(started);
        tracing::info!(%node, ?recovery, ?took, "the log of a fenced broker was taken over");
        metrics::counter!("millrace_logs_taken_over_total").increment(1);
        self.logs.give_back(&adoption.log).await;
        Ok(())
    }

    /// Everything but what the halted streams have is in the bucket, so all others may have new owners.
    async fn release_others(&self, halted: &[StreamId], epoch: NodeEpoch) -> TakeoverError {
        match (self.store.reopen_streams(halted, epoch).await, halted) {
            (Err(error), _) => TakeoverError::Release(error),
            (Ok(_), [first, others @ ..]) => TakeoverError::Halted {
                first: *first,
                others: others.len(),
            },
            (Ok(_), []) => TakeoverError::NotUploaded(Closed::Uploaded),
        }
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
            clock: self.clock.clone(),
            random: self.random.clone(),
            cluster_id: self.cluster_id.clone(),
            node: (node, adoption.epoch),
            tasks: self.tasks.clone(),
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
pub struct AdoptedLog<'a> {
    /// Opens it.
    pub logs: &'a dyn FencedLogs,
    /// Where it is, in the words of its former owner.
    pub address: &'a str,
    /// The id that its former owner joined with.
    pub log_id: u64,
    /// On whose behalf it is opened, and under which epoch.
    pub owner: WalOwner,
}

impl AdoptedLog<'_> {
    /// Fences the former owner, then reads the log and opens it.
    ///
    /// # Errors
    /// See [`TakeoverError`].
    pub async fn open(self, clock: SharedClock) -> Result<(Wal, RecoveredLog), TakeoverError> {
        let FencedLog {
            device,
            config,
            fence,
        } = self.logs.open(self.address).await?;
        let unopened = UnopenedWal::read(Arc::clone(&device), config.clone()).await?;
        let (found, expected) = (unopened.wal_id(), self.log_id);
        if found != expected {
            return Err(TakeoverError::OtherLog {
                address: self.address.to_owned(),
                expected,
                found,
            });
        }
        let fence = fence(found)?;
        fence.acquire(self.owner.generation)?;
        // Only now: what the former owner acknowledged is in the log from here on.
        let log = UnopenedWal::read(device, config).await?;
        let mut recovered = RecoveredLog::default();
        let scanned = log.scan(&mut |record| recovered.push(&record)).await?;
        let wal = scanned
            .fenced_by(fence)
            .open(Some(self.owner), clock)
            .await?;
        Ok((wal, recovered))
    }
}
