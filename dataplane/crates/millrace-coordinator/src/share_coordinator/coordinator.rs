//! The share coordinator as the rest of the broker sees it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Weak, atomic::AtomicUsize},
    time::Duration,
};

use millrace_budget::Budget;
use millrace_model::{Offset, TopicName};
use millrace_purgatory::Timers;
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{
    KeptPartition, Step,
    kept::{Settings, batches_bytes},
    messages::{
        SHARE_PARTITIONS_MAX, SHARE_STATE_WRITES_BYTES_MAX, ShareError, ShareStateConfig,
        ShareStateMetrics,
    },
};
use crate::{
    LoadError, Topics,
    kept::Now,
    log::StateTopic,
    partitions::Partitions,
    shard::{self, Ground, Refusals},
    share_state::{SharePartition, ShareState},
};

type Shard = shard::Shard<KeptPartition>;

/// How often share partitions of topics are looked for that were deleted while nobody kept them.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// What the coordinator is built on.
pub struct ShareCoordinatorParts {
    /// The topic that keeps the share partitions.
    pub topic: Arc<dyn StateTopic>,
    /// The topics of the cluster.
    pub topics: Arc<dyn Topics>,
    /// Time.
    pub clock: SharedClock,
    /// The timers of shards.
    pub timers: Timers,
    /// Supervises the coordinator's tasks.
    pub tasks: Supervisor,
    /// Settings.
    pub config: ShareStateConfig,
}

/// All share partitions that the broker keeps. Cheap to clone.
#[derive(Clone)]
pub struct ShareCoordinator(Arc<Inner>);

struct Inner {
    partitions: Arc<Partitions<KeptPartition>>,
    ground: Ground<KeptPartition>,
    sweep: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl fmt::Debug for ShareCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareCoordinator").finish_non_exhaustive()
    }
}

impl ShareCoordinator {
    /// Loads what the topic holds of the partitions that this broker leads, and follows which ones it gains and loses.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn open(parts: ShareCoordinatorParts) -> Result<Self, LoadError> {
        let ground = Ground {
            memory: Budget::new(parts.config.memory_bytes),
            writes: Budget::new(SHARE_STATE_WRITES_BYTES_MAX),
            refusals: Refusals::new::<KeptPartition>(),
            rewrite_after_records: parts.config.rewrite_after_records,
            count: Arc::new(AtomicUsize::new(0)),
            count_max: SHARE_PARTITIONS_MAX,
            config: Arc::new(Settings {
                config: parts.config,
                topics: parts.topics,
            }),
            clock: parts.clock,
            timers: parts.timers,
        };
        let inner = Arc::new(Inner {
            partitions: Partitions::new(parts.topic, ground.clone(), parts.tasks.clone()),
            ground,
            sweep: Mutex::default(),
        });
        let sweeping = sweep_for_ever(Arc::downgrade(&inner));
        let sweeping = parts.tasks.spawn(Task::ShareStateSweep, sweeping);
        *inner.sweep.lock() = Some(AbortOnDropHandle::new(sweeping));
        let coordinator = Self(inner);
        coordinator.0.partitions.open().await;
        Ok(coordinator)
    }

    /// Makes sure that share partitions are served: creates their topic where there is none.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn ready(&self) -> Result<(), LoadError> {
        self.0.partitions.ready().await
    }

    /// Stops taking writes and waits until those taken are durable and answered.
    pub async fn close(&self) {
        self.0.sweep.lock().take();
        self.0.partitions.close().await;
    }

    /// What the share partitions hold now.
    #[must_use]
    pub fn metrics(&self) -> ShareStateMetrics {
        let Ground { memory, writes, .. } = &self.0.ground;
        let serving = self.0.partitions.serving().into_iter();
        ShareStateMetrics {
            partitions: serving.map(|shard| shard.cells().len()).sum(),
            memory_bytes: memory.used(),
            memory_bytes_max: memory.capacity(),
            writes_bytes: writes.used(),
        }
    }

    /// Creates the state of a share partition, or starts it again at another offset. Initializing with the state epoch that is
    /// kept already changes nothing.
    ///
    /// # Errors
    /// See [`ShareError`].
    pub async fn initialize(
        &self,
        partition: &SharePartition,
        state_epoch: i32,
        start_offset: Option<Offset>,
    ) -> Result<(), ShareError> {
        self.check(partition)?;
        let id = partition.coordinator_key();
        let shard = self.0.partitions.shard(&id)?;
        let cell = shard.cell_or_new(&id)?;
        let step = shard.with(&cell, |turn| {
            turn.kept.initialize(state_epoch, start_offset, turn.now)
        })?;
        let initialized = match step {
            Ok(step) => self.settle(step).await,
            Err(error) => Err(error),
        };
        // What was made for a request that failed must not stay.
        initialized.inspect_err(|_| shard.forget_if_nothing(&cell))
    }

    /// Reads the state as the leader of the partition, whose epoch fences all older ones.
    ///
    /// # Errors
    /// See [`ShareError`].
    pub async fn read(
        &self,
        partition: &SharePartition,
        leader_epoch: i32,
    ) -> Result<ShareState, ShareError> {
        self.step(partition, 0, |kept, now| kept.read(leader_epoch, now))
            .await
    }

    /// Adds to the state.
    ///
    /// # Errors
    /// See [`ShareError`].
    pub async fn write(
        &self,
        partition: &SharePartition,
        change: ShareState,
    ) -> Result<(), ShareError> {
        // A batch that is inside another one splits it.
        let bytes = batches_bytes(2 * change.batches.len());
        self.step(partition, bytes, |kept, now| kept.write(change, now))
            .await
    }

    /// Reads the state without its batches, and fences nobody. A share partition that is not initialized has the state of one
    /// without a start offset, as in Kafka.
    ///
    /// # Errors
    /// See [`ShareError`].
    pub fn read_summary(&self, partition: &SharePartition) -> Result<ShareState, ShareError> {
        self.check(partition)?;
        let id = partition.coordinator_key();
        let Some(cell) = self.0.partitions.shard(&id)?.cell(&id)? else {
            return Ok(ShareState::default());
        };
        Ok(cell.read(KeptPartition::summary)?.unwrap_or_default())
    }

    /// Deletes the state. Deleting what is not there changes nothing.
    ///
    /// # Errors
    /// See [`ShareError`].
    pub async fn delete(&self, partition: &SharePartition) -> Result<(), ShareError> {
        check_form(partition)?;
        let id = partition.coordinator_key();
        let shard = self.0.partitions.shard(&id)?;
        let Some(cell) = shard.cell(&id)? else {
            // Its topic may be gone with it.
            return self.check(partition);
        };
        let step = shard.with(&cell, |turn| turn.kept.delete())?;
        self.settle(step).await
    }

    /// Deletes the state of all share partitions whose topics are gone, now or, where their log is being read, afterwards.
    pub async fn topics_deleted(&self, topics: &BTreeSet<TopicName>) {
        self.0.partitions.topics_deleted_in_loads(topics).await;
        self.0.delete_orphans().await;
    }

    async fn step<T>(
        &self,
        partition: &SharePartition,
        bytes: u64,
        take: impl FnOnce(&mut KeptPartition, Now) -> Result<Step<T>, ShareError>,
    ) -> Result<T, ShareError> {
        self.check(partition)?;
        let id = partition.coordinator_key();
        let shard = self.0.partitions.shard(&id)?;
        let cell = shard.cell(&id)?.ok_or(ShareError::Uninitialized)?;
        let step = shard.with(&cell, |turn| {
            let room = self.0.ground.room(bytes)?;
            // Until the batches are counted, which is when the turn ends.
            Ok::<_, ShareError>((take(turn.kept, turn.now)?, room))
        })?;
        let (step, room) = step?;
        drop(room);
        self.settle(step).await
    }

    async fn settle<T>(&self, step: Step<T>) -> Result<T, ShareError> {
        let waiting = match step {
            Step::Done(answer) => return Ok(answer),
            Step::Written(waiting) => waiting,
        };
        match timeout(self.0.ground.config.config.write_timeout, waiting).await {
            Ok(Ok(answer)) => answer,
            // Too slow, or whoever would have answered is gone: the broker stops.
            Ok(Err(_)) | Err(_) => Err(ShareError::CoordinatorNotAvailable),
        }
    }

    /// Checks that there is such a partition of a topic.
    fn check(&self, partition: &SharePartition) -> Result<(), ShareError> {
        check_form(partition)?;
        let topics = &self.0.ground.config.topics;
        let name = topics.name_of(partition.topic_id);
        let found = name.and_then(|name| topics.find(name.as_str()));
        let is_there = found.is_some_and(|(_, partitions)| {
            u32::try_from(partition.partition).is_ok_and(|index| index < partitions)
        });
        match is_there {
            true => Ok(()),
            false => Err(ShareError::UnknownPartition),
        }
    }
}

fn check_form(partition: &SharePartition) -> Result<(), ShareError> {
    let is_named = !partition.group_id.is_empty() && !partition.topic_id.0.is_nil();
    match is_named && partition.partition >= 0 {
        true => Ok(()),
        false => Err(ShareError::InvalidRequest),
    }
}

impl Inner {
    async fn delete_orphans(&self) {
        for shard in self.partitions.serving() {
            for cell in shard.cells() {
                // The next coordinator finds out by itself.
                let _resigned = shard.with(&cell, |turn| turn.kept.delete_if_orphaned());
                // Made for a request that failed.
                Shard::forget_if_nothing(&shard, &cell);
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Deletes what belongs to deleted topics, for as long as the coordinator is.
async fn sweep_for_ever(coordinator: Weak<Inner>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        inner.delete_orphans().await;
    }
}
