//! The storage engine, put together: metadata, bucket, write-ahead log, caches, streams.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use millrace_blockcache::{BlockCache, BlockCacheConfig, Sources};
use millrace_cluster::Membership;
use millrace_ec2::{InstanceError, MoveError, VolumeId};
use millrace_limiter::{Network, NetworkConfig, Tier};
use millrace_meta::{BrokerEndpoint, MetaStore, StoreFailure, sqlite::BackupSource};
use millrace_model::{Classified, NodeEpoch, NodeId};
use millrace_objects::{
    ObjectStorage, PutError,
    bucket::{
        Bucket, BucketError, BucketUri, Gate, NetworkShare, ReadsApart, RetryPolicy, StoreBucket,
        TimeoutPolicy, WritesApart,
    },
    chain::{ChainWriter, ClaimError},
};
use millrace_stream::{RecoveredLog, StreamConfig, StreamParts, StreamStore};
use millrace_tasks::{Supervisor, Task};
use millrace_time::{SharedClock, SharedRandom, SystemClock, SystemRandom};
use millrace_wal::{
    Wal,
    device::{BlockDevice, DeviceError},
};
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    background_threads::BackgroundThreads,
    backup::{Backup, BackupParts},
    config::{BrokerConfig, StorageConfig},
    folder::DataFolder,
    identity::{self, BucketCheck, BucketSilent, HeldBack, Mismatch},
    log_device::{LogDevices, ThisHost},
    machine::{Machine, ThisMachine},
    settings::{LiveSettings, Parts},
};

/// The storage engine did not open. Nothing was changed that a later start could not use.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The metadata file.
    #[error("the metadata in data.dir cannot be opened: {0}")]
    Meta(#[from] millrace_meta::sqlite::OpenError),
    /// The metadata is open and cannot be used.
    #[error("the metadata in data.dir cannot be used: {0}")]
    MetaUse(#[from] StoreFailure),
    /// The metadata database.
    #[error("metadata.database.url: {0}")]
    Database(millrace_meta::postgres::OpenError),
    /// The metadata database does not answer.
    #[error(
        "metadata.database.url: the database did not answer within {0:?}; is it running, and may this machine reach it?"
    )]
    DatabaseSilent(Duration),
    /// The broker may not join its cluster.
    #[error(transparent)]
    Join(millrace_meta::JoinError),
    /// Another broker has taken over the log since this start has joined.
    #[error("s3.wal.path: {0}")]
    Fenced(millrace_wal::FenceError),
    /// Metadata, log and bucket do not belong together. A restart cannot help.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The bucket does not say whose it is, and this start needs to know.
    #[error(
        "the bucket {uri} does not answer, and a broker without metadata or log cannot start before it \
         does: {source}"
    )]
    BucketSilent {
        /// The bucket, without secrets.
        uri: String,
        /// Why.
        source: BucketSilent,
    },
    /// The metadata backup in the bucket cannot be taken over.
    #[error("the metadata backup in the bucket cannot be claimed: {0}")]
    Backup(#[from] ClaimError),
    /// The cluster's mark cannot be put into the bucket.
    #[error("s3.data.buckets {uri}: the cluster's mark cannot be written: {source}")]
    Mark {
        /// The bucket, without secrets.
        uri: String,
        /// Why.
        source: PutError,
    },
    /// The bucket.
    #[error("s3.data.buckets {uri}: {source}")]
    Bucket {
        /// The bucket, without secrets.
        uri: String,
        /// What is wrong.
        source: BucketError,
    },
    /// The folder that should hold the write-ahead log.
    #[error("s3.wal.path: the folder {path} cannot be created: {source}")]
    WalFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file that says who owns the write-ahead log.
    #[error("s3.wal.path: the file {path} cannot be opened: {source}")]
    WalFence {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The device of the write-ahead log.
    #[error("s3.wal.path: {0}")]
    Device(#[from] DeviceError),
    /// The device does not take the reservations that are the log's fence.
    #[error("s3.wal.path: {path} does not work with fence=reservation: {source}")]
    Reservations {
        /// The device.
        path: PathBuf,
        /// What it or the system said.
        source: io::Error,
    },
    /// The log's fence needs a device of its own.
    #[error(
        "s3.wal.path: {0} is no block device, which fence=reservation and fence=detach are for: put the log onto the volume \
         itself, without a file system"
    )]
    NoBlockDevice(PathBuf),
    /// Another broker could not take the log over.
    #[error(
        "s3.wal.path: {0} is a block device, and other brokers of the cluster have to know how they may take its log over: add \
         &fence=reservation for an io2 volume with Multi-Attach, &fence=detach&volume=vol-… for another EBS volume, or \
         &fence=page where all brokers are on this machine"
    )]
    NoFence(PathBuf),
    /// The volume's device is not here.
    #[error(
        "s3.wal.path: no device of the volume {volume} is attached to this machine{}",
        if *.is_shared { ": with fence=reservation, it must be attached to every broker of its zone" } else { "" }
    )]
    NoDevice {
        /// The volume.
        volume: VolumeId,
        /// Its fence is a reservation.
        is_shared: bool,
    },
    /// The devices of this machine.
    #[error("s3.wal.path: the devices of this machine cannot be listed: {0}")]
    Devices(io::Error),
    /// The volume of the log cannot be brought to this instance.
    #[error("s3.wal.path: {0}")]
    Volume(#[from] MoveError),
    /// Volumes are moved to instances of EC2.
    #[error("s3.wal.path: fence=detach needs an EC2 instance: {0}")]
    Instance(#[from] InstanceError),
    /// Others would plan with the wrong zone.
    #[error(
        "broker.rack is {rack}, but this instance is in the availability zone {zone}: set it to that"
    )]
    Zone {
        /// As configured.
        rack: String,
        /// As the instance says.
        zone: String,
    },
    /// The threads that read from the bucket and compact.
    #[error(
        "the background threads, which read from the bucket and compact, cannot be started: {0}"
    )]
    Threads(io::Error),
    /// The thread that slows the device down, where that is asked for.
    #[error("s3.wal.path: the shape_* parameters need a thread, which the system refuses: {0}")]
    Shape(io::Error),
    /// The write-ahead log itself.
    #[error("s3.wal.path: {0}")]
    Wal(#[from] millrace_wal::OpenError),
    /// The streams.
    #[error("the streams cannot be opened: {0}")]
    Streams(#[from] millrace_stream::OpenError),
}

impl StorageError {
    /// Whether the bucket failed in a way that may pass, so that a start can go on without it.
    pub(crate) fn is_bucket_failure(&self) -> bool {
        match self {
            Self::BucketSilent { .. } => true,
            Self::Mark { source, .. } => source.class().is_transient(),
            Self::Backup(error) => error.class().is_transient(),
            Self::Bucket { source, .. } => source.class().is_transient(),
            _ => false,
        }
    }

    /// Whether the parts of the storage do not belong together: a restart finds the same.
    #[must_use]
    pub fn is_mismatch(&self) -> bool {
        matches!(
            self,
            Self::Mismatch(_)
                | Self::Join(_)
                | Self::Streams(millrace_stream::OpenError::Straddles(_))
        )
    }
}

/// Seams that a test may replace.
#[derive(Debug, Clone)]
pub struct Seams {
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub random: SharedRandom,
    /// The write-ahead log's device; `None` opens the one that is configured.
    pub device: Option<Arc<dyn BlockDevice>>,
    /// The devices of logs on this machine, and of logs that are taken over.
    pub devices: Arc<dyn LogDevices>,
    /// The bucket; `None` opens the one that is configured.
    pub bucket: Option<Arc<dyn Bucket>>,
    /// The machine's memory bounds what settings may ask for.
    pub machine: Arc<dyn Machine>,
    /// Supervises every task that nobody awaits. A test makes one of them fail.
    pub tasks: Supervisor,
}

impl Seams {
    /// The same, whose background tasks run on these threads.
    fn with_background(&self, threads: &BackgroundThreads) -> Self {
        Self {
            tasks: self.tasks.with_background(threads.handle()),
            ..self.clone()
        }
    }

    /// The machine's own.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: SystemClock::shared(),
            random: SystemRandom::shared(),
            device: None,
            devices: Arc::new(ThisHost::default()),
            bucket: None,
            machine: Arc::new(ThisMachine::default()),
            tasks: Supervisor::new(),
        }
    }
}

/// The opened storage engine.
pub(crate) struct Storage {
    pub(crate) meta: Arc<dyn MetaStore>,
    /// `None` where the broker is alone.
    pub(crate) membership: Option<Membership>,
    pub(crate) store: StreamStore,
    pub(crate) block_cache: BlockCache,
    pub(crate) bucket: ObjectStorage,
    /// What the bucket and the clients share.
    pub(crate) network: Network,
    pub(crate) wal: Wal,
    pub(crate) cluster_id: String,
    pub(crate) node_epoch: NodeEpoch,
    /// Why nothing is uploaded or deleted, where the bucket has not been checked yet.
    pub(crate) held_back: HeldBack,
    /// Its background tasks run on threads of lower priority.
    pub(crate) tasks: Supervisor,
    _backup: Option<AbortOnDropHandle<()>>,
    _bucket_check: Option<AbortOnDropHandle<()>>,
    /// Last: what the others still read ends with it.
    _background: BackgroundThreads,
}

impl Storage {
    pub(crate) async fn open(
        config: &BrokerConfig,
        settings: &LiveSettings,
        folder: &DataFolder,
        endpoints: Vec<BrokerEndpoint>,
        seams: &Seams,
    ) -> Result<Self, StorageError> {
        let Seams { clock, random, .. } = seams.clone();
        let background = BackgroundThreads::start().map_err(StorageError::Threads)?;
        let seams = &seams.with_background(&background);
        let bucket = open_bucket(&config.storage.bucket, &background, seams)?;
        let Owned {
            meta,
            membership,
            cluster_id,
            node_epoch,
            wal,
            recovered,
            backup,
            bucket_check,
        } = own((config, endpoints), folder, &bucket, seams).await?;
        settings.load(Arc::clone(&meta), node_epoch).await?;
        let effective = settings.lay_over(&config.storage);
        let gate = Gate::closed();
        let (storage, held_back) = hold_back(bucket, bucket_check.as_ref(), &gate);
        let network = open_network(&effective, seams);
        let share = |tier| NetworkShare::of(&network, tier);
        let cache = block_cache_config(&effective, &cluster_id, seams);
        let sources = read_sources(&storage, &network);
        let block_cache = BlockCache::new(cache, sources, Arc::clone(&meta), clock.clone());
        let store = StreamStore::open(StreamParts {
            wal: wal.clone(),
            recovered,
            storage: storage.limited(share(Tier::WalUpload)),
            background: storage.limited(share(Tier::Compaction)),
            meta: Arc::clone(&meta),
            block_cache: block_cache.clone(),
            clock,
            random,
            cluster_id: cluster_id.clone(),
            node: (config.node_id, node_epoch),
            tasks: seams.tasks.clone(),
            config: stream_config(&effective),
        })
        .await?;
        settings.attach(Parts {
            tasks: seams.tasks.clone(),
            block_cache: block_cache.clone(),
            store: store.clone(),
            network: network.clone(),
        });
        report(&cluster_id, config.node_id, node_epoch, &store);
        let backup = backup.map(|(source, claimed)| {
            AbortOnDropHandle::new(back_up(source, claimed, &store, config, seams))
        });
        let bucket_check = bucket_check
            .map(|check| AbortOnDropHandle::new(check_later(check, gate, &store, &seams.tasks)));
        Ok(Self {
            meta,
            membership,
            store,
            block_cache,
            bucket: storage,
            network,
            wal,
            cluster_id,
            node_epoch,
            held_back,
            tasks: seams.tasks.clone(),
            _backup: backup,
            _bucket_check: bucket_check,
            _background: background,
        })
    }
}

/// Nothing is written where the bucket has not been checked yet, until the gate opens.
fn hold_back(
    bucket: ObjectStorage,
    check: Option<&BucketCheck>,
    gate: &Gate,
) -> (ObjectStorage, HeldBack) {
    match check {
        Some(check) => (bucket.gated(gate.clone()), check.held_back()),
        None => (bucket, HeldBack::nothing()),
    }
}

/// What belongs to this start, whether it shares its metadata with others or not.
struct Owned {
    meta: Arc<dyn MetaStore>,
    membership: Option<Membership>,
    cluster_id: String,
    node_epoch: NodeEpoch,
    wal: Wal,
    recovered: RecoveredLog,
    /// The database of several brokers has backups of its own.
    backup: Option<(BackupSource, oneshot::Receiver<ChainWriter>)>,
    bucket_check: Option<BucketCheck>,
}

async fn own(
    (config, endpoints): (&BrokerConfig, Vec<BrokerEndpoint>),
    folder: &DataFolder,
    bucket: &ObjectStorage,
    seams: &Seams,
) -> Result<Owned, StorageError> {
    if let Some(cluster) = &config.cluster {
        let joined = identity::join((config, cluster), endpoints, bucket, seams).await?;
        return Ok(Owned {
            meta: joined.meta,
            node_epoch: joined.membership.epoch,
            membership: Some(joined.membership),
            cluster_id: joined.cluster_id,
            wal: joined.wal,
            recovered: joined.recovered,
            backup: None,
            bucket_check: None,
        });
    }
    let claimed = identity::claim(config, folder, bucket, seams).await?;
    let source = claimed.meta.begin_backup();
    Ok(Owned {
        meta: Arc::new(claimed.meta),
        membership: None,
        cluster_id: claimed.cluster_id,
        node_epoch: claimed.node_epoch,
        wal: claimed.wal,
        recovered: claimed.recovered,
        backup: Some((source, claimed.backup)),
        bucket_check: claimed.bucket_check,
    })
}

/// The bucket for readers, each kind of read in its tier of the network.
fn read_sources(storage: &ObjectStorage, network: &Network) -> Sources {
    let limited = |tier| storage.limited(NetworkShare::of(network, tier));
    Sources {
        miss: limited(Tier::CatchUpMiss),
        prefetch: limited(Tier::Prefetch),
    }
}

fn report(cluster_id: &str, node_id: NodeId, node_epoch: NodeEpoch, store: &StreamStore) {
    let recovery = store.metrics().recovery;
    tracing::info!(cluster_id, %node_id, %node_epoch, ?recovery, "storage is open");
}

fn open_network(config: &StorageConfig, seams: &Seams) -> Network {
    let bandwidth = NetworkConfig {
        mode: config.limiter_mode,
        ingress_bytes_per_s: config.ingress_bytes_per_s,
        egress_bytes_per_s: config.egress_bytes_per_s,
    };
    Network::new(seams.clock.clone(), seams.tasks.clone(), bandwidth)
}

/// Backs the metadata up once the chain is claimed; the store fails where another start claims it.
fn back_up(
    source: BackupSource,
    claimed: oneshot::Receiver<ChainWriter>,
    store: &StreamStore,
    config: &BrokerConfig,
    seams: &Seams,
) -> JoinHandle<()> {
    let window = config.storage.background.delete_retention;
    let (store, clock) = (store.clone(), seams.clock.clone());
    seams.tasks.spawn(Task::MetadataBackup, async move {
        let backup = Backup::claimed(BackupParts {
            source,
            claimed,
            ends: Box::new({
                let store = store.clone();
                move || store.confirmed_ends()
            }),
            clock,
            window,
        });
        // Without a claim the check of the bucket has failed, and says why.
        let Some(backup) = backup.await else { return };
        let fenced = backup.run().await;
        store.fail(&fenced.to_string());
    })
}

/// Checks the bucket as soon as it answers; the store fails where it is not ours.
fn check_later(
    check: BucketCheck,
    gate: Gate,
    store: &StreamStore,
    tasks: &Supervisor,
) -> JoinHandle<()> {
    let store = store.clone();
    tasks.spawn(Task::BucketCheck, async move {
        if let Err(error) = check.run(&gate).await {
            store.fail(&error.to_string());
        }
    })
}

pub(crate) fn open_bucket(
    uri: &BucketUri,
    background: &BackgroundThreads,
    seams: &Seams,
) -> Result<ObjectStorage, StorageError> {
    let open = || -> Result<Arc<dyn Bucket>, StorageError> {
        if let Some(bucket) = &seams.bucket {
            return Ok(Arc::clone(bucket));
        }
        let opened = StoreBucket::open(uri).map_err(|source| StorageError::Bucket {
            uri: uri.to_string(),
            source,
        })?;
        Ok(Arc::new(opened))
    };
    let bucket = ReadsApart::new(open()?, open()?, background.handle());
    let bucket = WritesApart::new(bucket, open()?, background.uploads());
    let Seams { clock, random, .. } = seams.clone();
    let (retry, timeout) = (RetryPolicy::default(), TimeoutPolicy::default());
    Ok(ObjectStorage::over(bucket, retry, timeout, clock, random))
}

fn block_cache_config(config: &StorageConfig, cluster_id: &str, seams: &Seams) -> BlockCacheConfig {
    BlockCacheConfig {
        tasks: seams.tasks.clone(),
        prefetch_max_bytes: config.prefetch_max_bytes,
        eviction: config.eviction,
        ..BlockCacheConfig::new(cluster_id, bytes_of(config.block_cache_bytes))
    }
}

fn stream_config(config: &StorageConfig) -> StreamConfig {
    StreamConfig {
        cache_bytes: bytes_of(config.wal_cache_bytes),
        upload_threshold_bytes: bytes_of(config.upload_threshold_bytes),
        upload_interval: config.upload_interval,
        upload_pace_percent: config.upload_pace_percent,
        upload_forced_percent: config.upload_forced_percent,
        object_block_bytes: config.object_block_bytes,
        stream_object_split_bytes: bytes_of(config.stream_object_split_bytes),
        compaction: config.background.compaction.clone(),
        ..StreamConfig::default()
    }
}

fn bytes_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
