//! The coordinator as the rest of the broker sees it.

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock, Weak, atomic::AtomicUsize},
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::join_all;
use millrace_budget::Budget;
use millrace_model::{TopicName, TopicPartition};
use millrace_purgatory::Timers;
use millrace_tasks::{Supervisor, Task};
use millrace_time::{SharedClock, SharedRandom};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    GroupConfig, GroupError, LoadError,
    config::{GROUP_ID_BYTES_MAX, GROUP_WRITES_BYTES_MAX},
    load::{Loaded, load},
    log::{StateLog, StateTopic},
    messages::{
        Caller, CommittedOffset, GroupDescription, GroupListing, GroupMetrics, GroupState,
        JoinRequest, Joined, Leaving, PartitionOffsets, SyncRequest, Synced,
    },
    records::{GroupRecord, Key},
    shard::{Cell, Ground, Outcome, Refusals, Shard, Turn, WRITES_MAX},
    writer::Writer,
};

/// Reads of logs at one time while they are loaded: enough to hide a cold read's round trip.
const LOADS_MAX: usize = 8;

/// How long a start waits for the logs of groups. Those that take longer, because the bucket does not
/// answer or they are long, are loaded while others are served.
const LOAD_WAIT: Duration = Duration::from_secs(10);

/// What the coordinator is built on.
pub struct CoordinatorParts {
    /// The topic that keeps the groups.
    pub topic: Arc<dyn StateTopic>,
    /// Time.
    pub clock: SharedClock,
    /// Randomness, for member ids.
    pub random: SharedRandom,
    /// Alarms.
    pub timers: Timers,
    /// Supervises the coordinator's tasks.
    pub tasks: Supervisor,
    /// Settings.
    pub config: GroupConfig,
}

/// All consumer groups of the broker. Cheap to clone.
#[derive(Clone)]
pub struct GroupCoordinator(Arc<Inner>);

struct Inner {
    topic: Arc<dyn StateTopic>,
    ground: Ground,
    random: SharedRandom,
    supervisor: Supervisor,
    /// By partition; empty as long as its log has not been read: its groups are not available.
    shards: OnceLock<Vec<OnceLock<Arc<Shard>>>>,
    /// Set once all logs have been read, as far as they can be.
    loaded: OnceLock<()>,
    /// Set once the groups of a start are served, as far as their logs could be read in time.
    started: OnceLock<()>,
    /// Held while the topic is created and loaded, so that it happens once.
    starting: tokio::sync::Mutex<()>,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    writers: Vec<JoinHandle<()>>,
    sweeper: Option<JoinHandle<()>>,
    loader: Option<AbortOnDropHandle<()>>,
    closed: bool,
}

/// An answer that may have to wait for other members or for the log. Dropping it takes nothing
/// back.
#[derive(Debug)]
pub struct Waiting<T>(oneshot::Receiver<Result<T, GroupError>>);

impl<T> Waiting<T> {
    fn ready(result: Result<T, GroupError>) -> Self {
        let (reply, answer) = oneshot::channel();
        drop(reply.send(result));
        Self(answer)
    }
}

impl<T> Future for Waiting<T> {
    type Output = Result<T, GroupError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Whoever would have answered is gone: the broker stops.
        let gone = |_| Err(GroupError::CoordinatorNotAvailable);
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(gone))
    }
}

impl Inner {
    /// The shards whose logs have been read.
    fn shards(&self) -> impl Iterator<Item = &Arc<Shard>> {
        let slots = self.shards.get().into_iter().flatten();
        slots.filter_map(OnceLock::get)
    }

    /// Serves the groups of a partition whose log has been read.
    fn serve(&self, index: usize, log: Arc<dyn StateLog>, loaded: Loaded) {
        let Some(slot) = self.shards.get().and_then(|slots| slots.get(index)) else {
            return;
        };
        let mut tasks = self.tasks.lock();
        if tasks.closed {
            return;
        }
        let Loaded { groups, records } = loaded;
        let (writes, queue) = mpsc::channel(WRITES_MAX);
        let ground = self.ground.clone();
        let shard = Shard::new(ground.clone(), groups, writes);
        let writer = Writer::new(shard.clone(), ground, log, queue, records);
        let writing = self.supervisor.spawn(Task::GroupWriter, writer.run());
        tasks.writers.push(writing);
        // Each partition is loaded once.
        drop(slot.set(shard));
    }
}

/// Reads all logs, and serves the groups of each as soon as it has been read. Ends with the coordinator.
async fn load_all(inner: Weak<Inner>, logs: Vec<Arc<dyn StateLog>>, ground: Ground) {
    let reads = Semaphore::new(LOADS_MAX);
    let loads = logs.into_iter().enumerate().map(async |(index, log)| {
        let loaded = load(index, &*log, &reads, &ground).await;
        match (loaded, inner.upgrade()) {
            (_, None) => {}
            (Ok(loaded), Some(inner)) => inner.serve(index, log, loaded),
            // Nothing may be served from a part of a group's state.
            (Err(error), Some(_)) => {
                tracing::error!(%error, "the groups of this partition are not available");
            }
        }
    });
    join_all(loads).await;
}

impl fmt::Debug for GroupCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCoordinator")
            .field("shards", &self.0.shards.get())
            .finish()
    }
}

impl GroupCoordinator {
    /// Loads what the topic holds. Where there is no topic yet, [`GroupCoordinator::ready`]
    /// creates it. The groups of a partition whose log cannot be read are not available; all others
    /// are.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn open(parts: CoordinatorParts) -> Result<Self, LoadError> {
        let ground = Ground {
            memory: Budget::new(parts.config.memory_bytes),
            writes: Budget::new(GROUP_WRITES_BYTES_MAX),
            refusals: Refusals::new(),
            config: Arc::new(parts.config),
            clock: parts.clock,
            timers: parts.timers,
            groups: Arc::new(AtomicUsize::new(0)),
        };
        let coordinator = Self(Arc::new(Inner {
            topic: parts.topic,
            ground,
            random: parts.random,
            supervisor: parts.tasks,
            shards: OnceLock::new(),
            loaded: OnceLock::new(),
            started: OnceLock::new(),
            starting: tokio::sync::Mutex::new(()),
            tasks: Mutex::default(),
        }));
        if let Some(logs) = coordinator.0.topic.partitions() {
            coordinator.start(logs).await;
        }
        Ok(coordinator)
    }

    /// Makes sure that the topic exists; groups are served once this has returned.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn ready(&self) -> Result<(), LoadError> {
        if self.0.started.get().is_some() {
            return Ok(());
        }
        let _starting = self.0.starting.lock().await;
        if self.0.started.get().is_some() {
            return Ok(());
        }
        let logs = self.0.topic.create().await.map_err(LoadError::Create)?;
        self.start(logs).await;
        Ok(())
    }

    async fn start(&self, logs: Vec<Arc<dyn StateLog>>) {
        let inner = &self.0;
        let partitions = logs.len();
        // `ready` holds `starting`, and `open` is alone.
        drop(
            inner
                .shards
                .set(logs.iter().map(|_| OnceLock::new()).collect()),
        );
        let (end, ended) = oneshot::channel();
        let weak = Arc::downgrade(inner);
        let load = load_all(weak.clone(), logs, inner.ground.clone());
        let loading = inner.supervisor.spawn(Task::GroupLoad, async move {
            load.await;
            if let Some(inner) = weak.upgrade() {
                inner.loaded.get_or_init(|| ());
            }
            // Whoever waited may have stopped.
            let _ = end.send(());
        });
        let loading = AbortOnDropHandle::new(loading);
        if timeout(LOAD_WAIT, ended).await.is_err() {
            tracing::warn!(
                "not all consumer groups could be loaded in time; the others are served"
            );
        }
        let mut tasks = inner.tasks.lock();
        if tasks.closed {
            return;
        }
        let groups: usize = inner.shards().map(|shard| shard.cells().len()).sum();
        tracing::info!(groups, partitions, "consumer groups loaded");
        inner.started.get_or_init(|| ());
        let sweeping = sweep_for_ever(Arc::downgrade(inner));
        tasks.loader = Some(loading);
        tasks.sweeper = Some(inner.supervisor.spawn(Task::GroupSweep, sweeping));
    }

    /// Whether groups of a partition may still appear. Until all are there, no topic may be deleted:
    /// commits of a group that is not loaded would outlive it, and tell the consumers of a new topic
    /// with the same name to begin in the middle.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.0.shards.get().is_some() && self.0.loaded.get().is_none()
    }

    /// Tells everybody who waits for other members that the coordinator is going away, so that a
    /// broker that drains does not have to wait for a rebalance. Later requests wait as before.
    pub fn stop_waiting(&self) {
        for shard in self.0.shards() {
            for cell in shard.cells() {
                shard.with(&cell, |turn| turn.group.refuse_waiting(turn.now));
            }
        }
    }

    /// Stops taking writes and waits until those taken are durable and answered.
    pub async fn close(&self) {
        let tasks = {
            let mut tasks = self.0.tasks.lock();
            tasks.closed = true;
            std::mem::take(&mut *tasks)
        };
        drop(tasks.loader);
        if let Some(sweeper) = tasks.sweeper {
            sweeper.abort();
        }
        for shard in self.0.shards() {
            shard.close();
        }
        for writer in tasks.writers {
            // A writer that panicked has answered nobody; there is nothing left to wait for.
            drop(writer.await);
        }
    }

    /// What the groups cost now, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.0.ground.memory.used()
    }

    /// What the groups hold now. Looks at every group.
    #[must_use]
    pub fn metrics(&self) -> GroupMetrics {
        let Ground { memory, writes, .. } = &self.0.ground;
        let mut metrics = GroupMetrics {
            memory_bytes: memory.used(),
            memory_bytes_max: memory.capacity(),
            writes_bytes: writes.used(),
            ..GroupMetrics::default()
        };
        for cell in self.0.shards().flat_map(|shard| shard.cells()) {
            let (members, offsets) = cell.read(crate::group::Group::counts);
            metrics.groups += 1;
            metrics.members += members;
            metrics.offsets += offsets;
        }
        metrics
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &GroupConfig {
        &self.0.ground.config
    }

    /// Joins a group; the answer comes with the end of the rebalance.
    #[must_use]
    pub fn join(&self, request: JoinRequest) -> Waiting<Joined> {
        match self.try_join(request) {
            Ok(waiting) => waiting,
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    fn try_join(&self, request: JoinRequest) -> Result<Waiting<Joined>, GroupError> {
        let shard = self.shard_of_member(&request.group_id)?;
        let config = self.config();
        let allowed = config.session_timeout_min..=config.session_timeout_max;
        if !allowed.contains(&request.session_timeout) {
            return Err(GroupError::InvalidSessionTimeout);
        }
        let cell = if request.member_id.is_empty() {
            shard.cell_or_new(&request.group_id)?
        } else {
            shard
                .cell(&request.group_id)
                .ok_or(GroupError::UnknownMemberId)?
        };
        let unique = uuid::Builder::from_random_bytes(self.0.random.next_bytes16()).into_uuid();
        let ground = &self.0.ground;
        let joining = shard.with(&cell, |turn| {
            let room = ground.room(turn.group.join_growth(&request))?;
            let unique = unique.hyphenated().to_string();
            let joining = turn.group.join(request, &unique, turn.now);
            // Until the member is counted, which is when the turn ends.
            Ok((Waiting(joining), room))
        });
        // A group that was made for a member that is refused must not stay.
        let joining = joining.inspect_err(|_| shard.forget_if_nothing(&cell));
        joining.map(|(joining, _)| joining)
    }

    /// Asks for the member's assignment, or, from the leader, brings everybody's; the answer comes
    /// when the assignment is durable.
    #[must_use]
    pub fn sync(&self, request: SyncRequest) -> Waiting<Synced> {
        match self.member_cell(&request.group_id) {
            Ok((shard, cell)) => Waiting(shard.with(&cell, |turn| {
                match self.0.ground.room(turn.group.sync_growth(&request)) {
                    Ok(_room) => turn.group.sync(request, turn.now),
                    Err(error) => turn.group.refuse_assignment(&error, turn.now),
                }
            })),
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    /// Hears from a member.
    ///
    /// # Errors
    /// What the member is to do instead of going on.
    pub fn heartbeat(&self, group_id: &str, caller: &Caller) -> Result<(), GroupError> {
        let (shard, cell) = self.member_cell(group_id)?;
        shard.with(&cell, |turn| turn.group.heartbeat(caller, turn.now))
    }

    /// Takes members out of a group: one result per member.
    ///
    /// # Errors
    /// None of the members could be looked at.
    pub fn leave(
        &self,
        group_id: &str,
        leaving: &[Leaving],
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        match self.member_cell(group_id) {
            Ok((shard, cell)) => shard.with(&cell, |turn| turn.group.leave(leaving, turn.now)),
            Err(GroupError::UnknownMemberId) => Ok(leaving
                .iter()
                .map(|_| Err(GroupError::UnknownMemberId))
                .collect()),
            Err(error) => Err(error),
        }
    }

    /// Commits offsets; the answer comes when they are durable. Their order is decided now.
    #[must_use]
    pub fn commit(
        &self,
        group_id: &str,
        caller: &Caller,
        offsets: PartitionOffsets,
    ) -> Waiting<()> {
        match self.try_commit(group_id, caller, offsets) {
            Ok(waiting) => waiting,
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    fn try_commit(
        &self,
        group_id: &str,
        caller: &Caller,
        offsets: PartitionOffsets,
    ) -> Result<Waiting<()>, GroupError> {
        let shard = self.shard(group_id)?;
        let cell = match shard.cell(group_id) {
            Some(cell) => cell,
            None if caller.generation < 0 => shard.cell_or_new(group_id)?,
            None => return Err(GroupError::IllegalGeneration),
        };
        let (reply, answer) = oneshot::channel();
        let started = shard.with(&cell, |turn| {
            turn.group.check_commit(caller, turn.now)?;
            self.0.ground.room(turn.group.commit_growth(&offsets))?;
            turn.group.commit_started();
            let record = |(partition, committed): &(TopicPartition, CommittedOffset)| {
                let (group, partition) = (group_id.to_owned(), partition.clone());
                GroupRecord::Offset(Key::Offset { group, partition }, Some(committed.clone()))
            };
            let records = offsets.iter().map(record).collect();
            turn.write(records, Outcome::Commit(offsets, reply));
            Ok(())
        });
        // Nor a group for offsets that are refused.
        started.inspect_err(|_| shard.forget_if_nothing(&cell))?;
        Ok(Waiting(answer))
    }

    /// Waits until what the group is committing now is durable, or is not; none where nothing is
    /// under way. A client that commits and asks for its offsets behind it, without waiting in
    /// between, is to see what it committed.
    #[must_use]
    pub fn settling(&self, group_id: &str) -> Option<Waiting<()>> {
        let shard = self.shard(group_id).ok()?;
        let cell = shard.cell(group_id)?;
        shard.with(&cell, settle)
    }

    /// The group's durable offsets in these partitions; none where there is none.
    ///
    /// # Errors
    /// The groups are not loaded.
    pub fn offsets(
        &self,
        group_id: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<CommittedOffset>>, GroupError> {
        let Some(cell) = self.shard(group_id)?.cell(group_id) else {
            return Ok(vec![None; partitions.len()]);
        };
        Ok(cell.read(|group| {
            partitions
                .iter()
                .map(|p| group.offset(p).cloned())
                .collect()
        }))
    }

    /// All durable offsets of the group.
    ///
    /// # Errors
    /// The groups are not loaded.
    pub fn all_offsets(&self, group_id: &str) -> Result<PartitionOffsets, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id);
        Ok(cell
            .map(|cell| cell.read(crate::group::Group::offsets))
            .unwrap_or_default())
    }

    /// The partitions that the group's members are assigned, `max` at most. Two with the same number
    /// have the same member; another call may number the members otherwise.
    ///
    /// # Errors
    /// The groups are not loaded.
    pub fn assigned(
        &self,
        group_id: &str,
        max: usize,
    ) -> Result<Vec<(TopicPartition, usize)>, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id);
        Ok(cell
            .map(|cell| cell.read(|group| group.assigned(max)))
            .unwrap_or_default())
    }

    /// All groups, by id.
    #[must_use]
    pub fn list(&self) -> Vec<GroupListing> {
        let shards = self.0.shards();
        let cells = shards.flat_map(|shard| shard.cells());
        let mut groups: Vec<GroupListing> = cells
            .map(|cell| cell.read(crate::group::Group::listing))
            .filter(|listing| listing.state != GroupState::Dead)
            .collect();
        groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        groups
    }

    /// All that is shown of a group.
    ///
    /// # Errors
    /// The groups are not loaded, or there is no such group.
    pub fn describe(&self, group_id: &str) -> Result<GroupDescription, GroupError> {
        let cell = self
            .shard(group_id)?
            .cell(group_id)
            .ok_or(GroupError::GroupIdNotFound)?;
        Ok(cell.read(crate::group::Group::describe))
    }

    /// Deletes a group without members and its offsets; the answer comes when that is durable.
    #[must_use]
    pub fn delete(&self, group_id: &str) -> Waiting<()> {
        let deleted = || {
            let shard = self.shard(group_id)?;
            let cell = shard.cell(group_id).ok_or(GroupError::GroupIdNotFound)?;
            let (reply, answer) = oneshot::channel();
            shard.with(&cell, |turn| {
                let tombstones = turn.group.begin_delete(turn.now)?;
                turn.write(tombstones, Outcome::Delete(Some(reply)));
                Ok(())
            })?;
            Ok(Waiting(answer))
        };
        deleted().unwrap_or_else(|error| Waiting::ready(Err(error)))
    }

    /// Drops all offsets in topics that are gone; done where it can be when it returns. Commits in
    /// these topics must not be let in any more. Those that are on their way are waited for first:
    /// one that landed behind the deletion would tell the consumers of a new topic with the same
    /// name to begin in the middle.
    pub async fn topics_deleted(&self, topics: &BTreeSet<TopicName>) {
        join_all(self.each_group(settle)).await;
        let forgotten = self.each_group(|turn| {
            let gone = turn.group.offsets_in(topics);
            if gone.is_empty() {
                return None;
            }
            let tombstones = turn.group.offset_tombstones(&gone);
            turn.write(tombstones, Outcome::Forget(gone));
            Some(behind_all(turn))
        });
        join_all(forgotten).await;
    }

    /// Works on every group; gives what there is to wait for.
    fn each_group(
        &self,
        mut work: impl FnMut(&mut Turn<'_>) -> Option<Waiting<()>>,
    ) -> Vec<Waiting<()>> {
        let mut waiting = Vec::new();
        for shard in self.0.shards() {
            for cell in shard.cells() {
                waiting.extend(shard.with(&cell, &mut work));
            }
        }
        waiting
    }

    /// The shard that keeps a group, by Kafka's rule. An empty id is legal for offsets alone.
    fn shard(&self, group_id: &str) -> Result<&Arc<Shard>, GroupError> {
        if group_id.len() > GROUP_ID_BYTES_MAX {
            return Err(GroupError::InvalidGroupId);
        }
        let shards = self
            .0
            .shards
            .get()
            .ok_or(GroupError::CoordinatorNotAvailable)?;
        let shard = shards.get(partition_of(group_id, shards.len()));
        let shard = shard.and_then(OnceLock::get);
        shard.ok_or(GroupError::CoordinatorNotAvailable)
    }

    fn shard_of_member(&self, group_id: &str) -> Result<&Arc<Shard>, GroupError> {
        if group_id.is_empty() {
            Err(GroupError::InvalidGroupId)
        } else {
            self.shard(group_id)
        }
    }

    fn member_cell(&self, group_id: &str) -> Result<(&Arc<Shard>, Arc<Cell>), GroupError> {
        let shard = self.shard_of_member(group_id)?;
        let cell = shard.cell(group_id).ok_or(GroupError::UnknownMemberId)?;
        Ok((shard, cell))
    }
}

/// Resolves when what the group is committing now is settled; none where nothing is under way.
fn settle(turn: &mut Turn<'_>) -> Option<Waiting<()>> {
    turn.group.has_commits_in_flight().then(|| behind_all(turn))
}

/// Resolves behind everything that the group has handed to the log: nothing to write, but finished
/// in order.
fn behind_all(turn: &mut Turn<'_>) -> Waiting<()> {
    let (reply, answer) = oneshot::channel();
    turn.group.commit_started();
    turn.write(Vec::new(), Outcome::Commit(Vec::new(), reply));
    Waiting(answer)
}

/// Which partition keeps a group: Java's `String.hashCode` without its sign bit, as in Kafka, so
/// that tools that look into the topic find a group where they expect it.
fn partition_of(group_id: &str, partitions: usize) -> usize {
    let hash = group_id.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    let positive = usize::try_from(hash & i32::MAX).unwrap_or(0);
    positive % partitions.max(1)
}

/// Drops expired offsets and unused groups at the set interval, for as long as the coordinator is.
async fn sweep_for_ever(coordinator: Weak<Inner>) {
    loop {
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        let interval = inner.ground.config.retention_check_interval;
        drop(inner);
        tokio::time::sleep(interval).await;
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        for shard in inner.shards() {
            for cell in shard.cells() {
                shard.sweep(&cell);
            }
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests;
