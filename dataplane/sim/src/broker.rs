//! One broker: the log layer and the cluster layer of the real one, started in the order of `millrace-broker`'s
//! `identity/join`, over the simulated machine.

use std::{sync::Arc, time::Duration};

use millrace_blockcache::{BlockCache, BlockCacheConfig};
use millrace_cluster::{Cluster, ClusterParts, Lease, Membership, Takeover};
use millrace_coordinator::{
    CoordinatorParts, GroupConfig, GroupCoordinator, LoadError, NoShareStates,
};
use millrace_log::{LogDefaults, LogManager, LogParts, Shared};
use millrace_meta::{ClusterStore, JoinError, Joining};
use millrace_model::NodeEpoch;
use millrace_objects::{
    ObjectStorage,
    bucket::{RetryPolicy, TimeoutPolicy},
};
use millrace_purgatory::Timers;
use millrace_stream::{CompactionConfig, RecoveredLog, StreamConfig, StreamParts, StreamStore};
use millrace_tasks::{Failure, Supervisor};
use millrace_wal::{UnopenedWal, WalOwner};
use tokio::{select, time::sleep};

use crate::{
    database::{Connection, Database, LEASE_TTL},
    machine::{LogsOfOthers, Machine, Machines, Process},
    seams::Seams,
};

/// The cluster's id.
const CLUSTER: &str = "c";

/// A few commits, so that logs of groups are rewritten and trimmed within a simulation.
const REWRITE_AFTER_RECORDS: u64 = 30;

/// The pause before joining is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// What a broker serves with.
#[derive(Debug, Clone)]
pub(crate) struct Serving {
    pub(crate) epoch: NodeEpoch,
    pub(crate) logs: LogManager,
    pub(crate) groups: GroupCoordinator,
    store: StreamStore,
    cluster: Arc<Cluster>,
}

/// Why a broker has ended. All are reasons to start again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("join: {0}")]
    Join(#[from] JoinError),
    #[error("log: {0}")]
    Wal(#[from] millrace_wal::OpenError),
    #[error("fence: {0}")]
    Fence(#[from] millrace_wal::FenceError),
    #[error("fence: {0}")]
    FenceFile(#[from] std::io::Error),
    #[error("streams: {0}")]
    Streams(#[from] millrace_stream::OpenError),
    #[error("logs: {0}")]
    Logs(#[from] millrace_log::error::OpenError),
    #[error("groups: {0}")]
    Groups(#[from] LoadError),
    #[error("storage: {0}")]
    Storage(millrace_model::Cause),
    #[error("{0}")]
    Task(Failure),
    #[error("stopped: {0:?}")]
    Stopped(millrace_stream::Closed),
}

/// What a broker runs on.
#[derive(Debug)]
pub(crate) struct BrokerParts {
    pub(crate) machine: Arc<Machine>,
    pub(crate) machines: Arc<Machines>,
    pub(crate) process: Arc<Process>,
    pub(crate) database: Arc<Database>,
    pub(crate) balance_interval: Duration,
}

impl BrokerParts {
    fn seams(&self) -> &Seams {
        &self.machines.seams
    }

    fn tasks(&self) -> &Supervisor {
        &self.process.tasks
    }

    /// Runs until it is stopped, replaced, or fails.
    pub(crate) async fn run(self) -> Ended {
        match self.start().await {
            Ok(serving) => self.serve(serving).await,
            Err(ended) => ended,
        }
    }

    async fn serve(&self, serving: Serving) -> Ended {
        let node = self.machine.node;
        *self.process.serving.lock() = Some(serving.clone());
        self.machine.set_serves(true, self.seams().clock.now());
        let epoch = serving.epoch;
        self.seams()
            .trace
            .note(|| format!("node {node} serves under epoch {epoch}"));
        select! {
            biased;
            failure = self.tasks().failed() => return Ended::Task(failure),
            cause = serving.store.failed() => return Ended::Storage(cause),
            () = self.process.stop.notified() => {}
        }
        serving.cluster.drain().await;
        serving.groups.close().await;
        serving.logs.close().await;
        let closed = serving.store.close().await;
        serving.cluster.leave(&closed).await;
        Ended::Stopped(closed)
    }

    async fn start(&self) -> Result<Serving, Ended> {
        let (machine, seams) = (&self.machine, self.seams());
        let meta: Arc<dyn ClusterStore> = Arc::new(Connection::new(
            Arc::clone(&self.database),
            machine.node,
            machine.database.clone(),
        ));
        let (device, config) = self.machines.open_log(machine, &self.process);
        let found = UnopenedWal::read(Arc::clone(&device), config.clone()).await?;
        let log_id = found.wal_id();
        drop(found);
        let epoch = self.join(&*meta, log_id).await?;
        let ends = (seams.clock.clone(), self.tasks());
        let lease = Lease::keep(Arc::clone(&meta), epoch, LEASE_TTL, ends);
        let fence = self.machines.fence_of(machine, log_id)?;
        fence.acquire(epoch)?;
        let log = UnopenedWal::read(device, config).await?;
        let mut recovered = RecoveredLog::default();
        let scanned = log.scan(&mut |record| recovered.push(&record)).await?;
        let owner = WalOwner {
            cluster_id: CLUSTER.to_owned(),
            node_id: machine.node,
            generation: epoch,
        };
        let log = scanned.fenced_by(fence);
        let wal = log.open(Some(owner), seams.clock.clone()).await?;
        let storage = self.storage();
        let block_cache = self.block_cache(&meta, &storage);
        let store = StreamStore::open(StreamParts {
            wal,
            recovered,
            storage: storage.clone(),
            background: storage.clone(),
            meta: Arc::clone(&meta) as Arc<_>,
            block_cache: block_cache.clone(),
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            cluster_id: CLUSTER.to_owned(),
            node: (machine.node, epoch),
            tasks: self.tasks().clone(),
            config: stream_config(),
        })
        .await?;
        let membership = Membership {
            store: Arc::clone(&meta),
            node: machine.node,
            epoch,
            secret: "".into(),
            session_timeout: LEASE_TTL,
            lease,
        };
        self.take_part(membership, store, (storage, block_cache))
            .await
    }

    /// Joins as soon as no other broker is taking over the log.
    async fn join(&self, meta: &dyn ClusterStore, log_id: u64) -> Result<NodeEpoch, JoinError> {
        let node = self.machine.node;
        let joining = Joining {
            node,
            endpoints: Vec::new(),
            rack: None,
            version: String::new(),
            log: node.to_string(),
            log_id,
        };
        loop {
            match meta.join(&joining).await {
                Ok(epoch) => return Ok(epoch),
                Err(error @ JoinError::OtherLog { .. }) => return Err(error),
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    fn storage(&self) -> ObjectStorage {
        let retry = RetryPolicy {
            tries: 2,
            delay_base: Duration::from_millis(20),
            delay_max: Duration::from_millis(100),
        };
        let seams = self.seams();
        ObjectStorage::over(
            self.machine.bucket.clone(),
            retry,
            TimeoutPolicy::default(),
            seams.clock.clone(),
            seams.random.clone(),
        )
    }

    fn block_cache(&self, meta: &Arc<dyn ClusterStore>, storage: &ObjectStorage) -> BlockCache {
        let config = BlockCacheConfig {
            tasks: self.tasks().clone(),
            ..BlockCacheConfig::new(CLUSTER, 256 * 1024)
        };
        let meta = Arc::clone(meta) as Arc<_>;
        let clock = self.seams().clock.clone();
        BlockCache::new(config, storage.clone().into(), meta, clock)
    }

    async fn take_part(
        &self,
        membership: Membership,
        store: StreamStore,
        (storage, block_cache): (ObjectStorage, BlockCache),
    ) -> Result<Serving, Ended> {
        let (seams, tasks) = (self.seams(), self.tasks());
        let Membership {
            store: meta,
            node,
            epoch,
            ..
        } = membership.clone();
        let logs = LogManager::open(LogParts {
            meta: Arc::clone(&meta) as Arc<_>,
            store: store.clone(),
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            tasks: tasks.clone(),
            defaults: LogDefaults {
                // What is deleted on purpose is not simulated.
                retention_ms: -1,
                ..LogDefaults::default()
            },
            shared: Some(Shared {
                store: Arc::clone(&meta),
                node,
                epoch,
            }),
        })
        .await?;
        let takeover = Takeover {
            store: meta,
            cluster_id: CLUSTER.to_owned(),
            storage,
            block_cache,
            logs: Arc::new(LogsOfOthers {
                machines: Arc::clone(&self.machines),
                process: Arc::clone(&self.process),
            }),
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            tasks: tasks.clone(),
        };
        let cluster = Cluster::start(ClusterParts {
            membership,
            logs: logs.clone(),
            store: store.clone(),
            takeover,
            balance_interval: self.balance_interval,
            tasks: tasks.clone(),
        });
        let cluster = Arc::new(cluster.await);
        let groups = GroupCoordinator::open(CoordinatorParts {
            topic: millrace_coordinator::consumer_offsets(&logs),
            topics: Arc::new(logs.clone()),
            share_states: Arc::new(NoShareStates),
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            timers: Timers::new(seams.clock.clone(), tasks.clone()),
            tasks: tasks.clone(),
            config: GroupConfig {
                rewrite_after_records: REWRITE_AFTER_RECORDS,
                ..GroupConfig::default()
            },
        });
        Ok(Serving {
            epoch,
            logs,
            groups: groups.await?,
            store,
            cluster,
        })
    }
}

/// Small enough that a few kilobytes seal blocks, split objects and evict.
fn stream_config() -> StreamConfig {
    StreamConfig {
        cache_bytes: 256 * 1024,
        upload_threshold_bytes: 8 * 1024,
        upload_interval: Duration::from_millis(800),
        object_block_bytes: 4 * 1024,
        stream_object_split_bytes: 4 * 1024,
        reserve_wait: Duration::from_secs(5),
        close_wait: Duration::from_secs(5),
        reclaim_interval: Duration::from_secs(2),
        compaction: CompactionConfig {
            interval: Duration::from_secs(2),
            cool_down: Duration::from_secs(1),
            object_bytes_max: 64 * 1024,
            set_bytes_max: 64 * 1024,
            inputs_max: 8,
            inputs_min: 2,
            copy_from_bytes: 4 * 1024,
            ..CompactionConfig::default()
        },
        ..StreamConfig::default()
    }
}
