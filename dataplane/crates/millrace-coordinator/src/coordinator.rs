//! The coordinator as the rest of the broker sees it.

mod share;

use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak, atomic::AtomicUsize},
    task::{Context, Poll},
};

use futures_util::future::join_all;
use millrace_budget::Budget;
use millrace_log::TransactionMarker;
use millrace_model::{TopicName, TopicPartition};
use millrace_purgatory::Timers;
use millrace_tasks::{Supervisor, Task};
use millrace_time::{SharedClock, SharedRandom};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    GroupConfig, GroupError, LoadError, ShareStates, Topics,
    config::{GROUP_WRITES_BYTES_MAX, GROUPS_MAX},
    group::{Group, GroupGround, Outcome, encoded, offset_bytes},
    kept::Written,
    log::StateTopic,
    messages::{
        Caller, CommittedOffset, ConsumerGroupDescription, ConsumerHeartbeat,
        ConsumerHeartbeatAnswer, GroupDescription, GroupListing, GroupMetrics, GroupState,
        JOIN_EPOCH, JoinRequest, Joined, Leaving, PartitionOffsets, StableOffset, SyncRequest,
        Synced, TransactionalCommit,
    },
    partitions::Partitions,
    records::{GroupRecord, Key},
    shard,
    shard::{Ground, Refusals, TransactionalToken},
};

/// What the coordinator is built on.
pub struct CoordinatorParts {
    /// The topic that keeps the groups.
    pub topic: Arc<dyn StateTopic>,
    /// The topics that consumer groups and share groups subscribe to.
    pub topics: Arc<dyn Topics>,
    /// The share coordinator of each share partition.
    pub share_states: Arc<dyn ShareStates>,
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

type Cell = shard::Cell<Group>;
type Shard = shard::Shard<Group>;
type Turn<'a> = shard::Turn<'a, Group>;

/// All consumer groups of the broker. Cheap to clone.
#[derive(Clone)]
pub struct GroupCoordinator(Arc<Inner>);

struct Inner {
    partitions: Arc<Partitions<Group>>,
    ground: Ground<Group>,
    random: SharedRandom,
    tasks: Supervisor,
    share_states: Arc<dyn ShareStates>,
    sweeper: Mutex<Option<AbortOnDropHandle<()>>>,
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

impl fmt::Debug for GroupCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupCoordinator")
            .field("shards", &self.0.partitions.serving())
            .finish_non_exhaustive()
    }
}

impl GroupCoordinator {
    /// Loads what the topic holds of the partitions that this broker leads, and follows which ones it
    /// gains and loses. Where there is no topic yet, [`GroupCoordinator::ready`] creates it, or another
    /// broker does. The groups of a partition whose log cannot be read are not available; all others
    /// are.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn open(parts: CoordinatorParts) -> Result<Self, LoadError> {
        let ground = Ground {
            memory: Budget::new(parts.config.memory_bytes),
            writes: Budget::new(GROUP_WRITES_BYTES_MAX),
            refusals: Refusals::new::<Group>(),
            rewrite_after_records: parts.config.rewrite_after_records,
            count_max: GROUPS_MAX,
            config: Arc::new(GroupGround {
                config: Arc::new(parts.config),
                topics: parts.topics,
            }),
            clock: parts.clock,
            timers: parts.timers,
            count: Arc::new(AtomicUsize::new(0)),
        };
        let partitions = Partitions::new(parts.topic, ground.clone(), parts.tasks.clone());
        let inner = Arc::new(Inner {
            partitions,
            ground,
            random: parts.random,
            tasks: parts.tasks.clone(),
            share_states: parts.share_states,
            sweeper: Mutex::default(),
        });
        let sweeping = parts
            .tasks
            .spawn(Task::GroupSweep, sweep_for_ever(Arc::downgrade(&inner)));
        *inner.sweeper.lock() = Some(AbortOnDropHandle::new(sweeping));
        let coordinator = Self(inner);
        coordinator.0.partitions.open().await;
        Ok(coordinator)
    }

    /// Makes sure that the topic exists; the groups of the partitions that this broker leads are served
    /// once this has returned.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn ready(&self) -> Result<(), LoadError> {
        self.0.partitions.ready().await
    }

    /// Whether groups of a partition that this broker leads may still appear. Until all are there, no
    /// topic may be deleted: commits of a group that is not loaded would outlive it, and tell the
    /// consumers of a new topic with the same name to begin in the middle.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.0.partitions.is_loading()
    }

    /// Tells everybody who waits for other members that the coordinator is going away, so that a
    /// broker that drains does not have to wait for a rebalance. Later requests wait as before.
    pub fn stop_waiting(&self) {
        let error = GroupError::CoordinatorNotAvailable;
        self.each_group(|turn| turn.kept.refuse_waiting(&error, turn.now));
    }

    /// Stops taking writes and waits until those taken are durable and answered.
    pub async fn close(&self) {
        self.0.sweeper.lock().take();
        self.0.partitions.close().await;
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
        for cell in self.cells() {
            let Ok((members, offsets)) = cell.read(Group::counts) else {
                continue;
            };
            metrics.groups += 1;
            metrics.members += members;
            metrics.offsets += offsets;
        }
        metrics
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &GroupConfig {
        &self.0.ground.config.config
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
            let cell = shard.cell(&request.group_id)?;
            cell.ok_or(GroupError::UnknownMemberId)?
        };
        let unique = uuid::Builder::from_random_bytes(self.0.random.next_bytes16()).into_uuid();
        let ground = &self.0.ground;
        let joining = shard.with(&cell, |turn| {
            let room = ground.room(turn.kept.join_growth(&request))?;
            let unique = unique.hyphenated().to_string();
            let joining = turn.kept.join(request, &unique, turn.now);
            // Until the member is counted, which is when the turn ends.
            Ok((Waiting(joining), room))
        })?;
        // A group that was made for a member that is refused must not stay.
        let joining = joining.inspect_err(|_| shard.forget_if_nothing(&cell));
        joining.map(|(joining, _)| joining)
    }

    /// Hears from a member with the consumer protocol (KIP-848), which joins, goes on or leaves; the
    /// answer comes when what it tells is durable. `may_describe` tells which topics the member's
    /// patterns may match.
    #[must_use]
    pub fn consumer_heartbeat(
        &self,
        request: ConsumerHeartbeat,
        may_describe: &dyn Fn(&str) -> bool,
    ) -> Waiting<ConsumerHeartbeatAnswer> {
        match self.try_consumer_heartbeat(request, may_describe) {
            Ok(waiting) => waiting,
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    fn try_consumer_heartbeat(
        &self,
        mut request: ConsumerHeartbeat,
        may_describe: &dyn Fn(&str) -> bool,
    ) -> Result<Waiting<ConsumerHeartbeatAnswer>, GroupError> {
        let shard = self.shard_of_member(&request.group_id)?;
        self.check_assignor(request.assignor.as_deref())?;
        let cell = if request.member_epoch == JOIN_EPOCH {
            shard.cell_or_new(&request.group_id)?
        } else {
            let cell = shard.cell(&request.group_id)?;
            cell.ok_or(GroupError::GroupIdNotFound)?
        };
        if request.member_id.is_empty() {
            let unique = uuid::Builder::from_random_bytes(self.0.random.next_bytes16());
            request.member_id = unique.into_uuid().hyphenated().to_string();
        }
        let ground = &self.0.ground;
        let heard = shard.with(&cell, |turn| {
            let room = ground.room(turn.kept.heartbeat_growth(&request))?;
            let heard = &mut turn.kept;
            let heard =
                heard.consumer_heartbeat(&request, &ground.config.topics, may_describe, turn.now);
            // Until the member is counted, which is when the turn ends.
            Ok((Waiting(heard), room))
        })?;
        // A group that was made for a member that is refused must not stay.
        shard.forget_if_nothing(&cell);
        heard.map(|(heard, _)| heard)
    }

    fn check_assignor(&self, name: Option<&str>) -> Result<(), GroupError> {
        let supported = &self.config().consumer.assignors;
        let mut names = supported.iter().map(|assignor| assignor.name());
        match name {
            Some(name) if !names.any(|supported| supported == name) => {
                let names: Vec<&str> = supported.iter().map(|assignor| assignor.name()).collect();
                Err(GroupError::UnsupportedAssignor(names.join(", ")))
            }
            _ => Ok(()),
        }
    }

    /// All that is shown of a consumer group (KIP-848).
    ///
    /// # Errors
    /// The groups are not loaded, or not here, or there is no such consumer group.
    pub fn describe_consumer(
        &self,
        group_id: &str,
    ) -> Result<ConsumerGroupDescription, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        let cell = cell.ok_or(GroupError::GroupIdNotFound)?;
        cell.read(Group::describe_consumer)?
    }

    /// Checks that a member of a consumer group may read its offsets: that it has this epoch.
    ///
    /// # Errors
    /// It has not, or the groups are not loaded, or not here.
    pub fn check_fetch(
        &self,
        group_id: &str,
        member_id: &str,
        member_epoch: i32,
    ) -> Result<(), GroupError> {
        match self.shard(group_id)?.cell(group_id)? {
            Some(cell) => cell.read(|group| group.check_fetch(member_id, member_epoch))?,
            None => Ok(()),
        }
    }

    /// Asks for the member's assignment, or, from the leader, brings everybody's; the answer comes
    /// when the assignment is durable.
    #[must_use]
    pub fn sync(&self, request: SyncRequest) -> Waiting<Synced> {
        let synced = || {
            let (shard, cell) = self.member_cell(&request.group_id)?;
            shard.with(&cell, |turn| {
                match self.0.ground.room(turn.kept.sync_growth(&request)) {
                    Ok(_room) => turn.kept.sync(request, turn.now),
                    Err(error) => turn.kept.refuse_assignment(&error, turn.now),
                }
            })
        };
        match synced() {
            Ok(answer) => Waiting(answer),
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    /// Hears from a member.
    ///
    /// # Errors
    /// What the member is to do instead of going on.
    pub fn heartbeat(&self, group_id: &str, caller: &Caller) -> Result<(), GroupError> {
        let (shard, cell) = self.member_cell(group_id)?;
        shard.with(&cell, |turn| turn.kept.heartbeat(caller, turn.now))?
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
            Ok((shard, cell)) => shard.with(&cell, |turn| turn.kept.leave(leaving, turn.now))?,
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
        let cell = match shard.cell(group_id)? {
            Some(cell) => cell,
            None if caller.generation < 0 => shard.cell_or_new(group_id)?,
            None => return Err(GroupError::GroupIdNotFound),
        };
        let (reply, answer) = oneshot::channel();
        let started = shard.with(&cell, |turn| {
            turn.kept.check_commit(caller, turn.now)?;
            self.0.ground.room(turn.kept.commit_growth(&offsets))?;
            turn.kept.commit_started();
            let record = |(partition, committed): &(TopicPartition, CommittedOffset)| {
                let (group, partition) = (group_id.to_owned(), partition.clone());
                GroupRecord::Offset(Key::Offset { group, partition }, Some(committed.clone()))
            };
            let records: Vec<_> = offsets.iter().map(record).collect();
            turn.write(encoded(&records), Outcome::Commit(offsets, reply));
            Ok::<_, GroupError>(())
        })?;
        // Nor a group for offsets that are refused.
        started.inspect_err(|_| shard.forget_if_nothing(&cell))?;
        Ok(Waiting(answer))
    }

    /// A token for a commit in a producer's transaction. It is taken before the coordinator of the transaction is asked
    /// whether the group's offsets are part of it.
    ///
    /// # Errors
    /// The groups are not loaded, or not here.
    pub fn transactional_token(&self, group_id: &str) -> Result<TransactionalToken, GroupError> {
        Ok(self.shard_of_member(group_id)?.transactional_token())
    }

    /// Commits offsets in a producer's transaction: they take effect with it. The answer comes when they are durable.
    #[must_use]
    pub fn commit_transactional(
        &self,
        group_id: &str,
        token: TransactionalToken,
        commit: TransactionalCommit,
    ) -> Waiting<()> {
        match self.try_commit_transactional(group_id, token, commit) {
            Ok(waiting) => waiting,
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    fn try_commit_transactional(
        &self,
        group_id: &str,
        token: TransactionalToken,
        commit: TransactionalCommit,
    ) -> Result<Waiting<()>, GroupError> {
        let TransactionalCommit {
            producer,
            caller,
            offsets,
        } = commit;
        let shard = self.shard_of_member(group_id)?;
        let cell = match shard.cell(group_id)? {
            Some(cell) => cell,
            None if caller.generation < 0 => shard.cell_or_new(group_id)?,
            None => return Err(GroupError::IllegalGeneration),
        };
        let (reply, answer) = oneshot::channel();
        let started = shard.with_token(&cell, (token, producer.0), |turn| {
            turn.kept.check_transactional_commit(&caller, turn.now)?;
            let bytes = offsets.iter().map(|(_, committed)| offset_bytes(committed));
            self.0.ground.room(bytes.sum())?;
            turn.kept.commit_started();
            let record = |(partition, committed): &(TopicPartition, CommittedOffset)| {
                let (group, partition) = (group_id.to_owned(), partition.clone());
                let key = Key::Offset { group, partition };
                GroupRecord::Offset(key, Some(committed.clone())).encode()
            };
            let written = Written::Transactional(producer, offsets.iter().map(record).collect());
            turn.write(written, Outcome::Transactional(producer, offsets, reply));
            Ok::<_, GroupError>(())
        });
        let started =
            started.and_then(|started| started.unwrap_or(Err(GroupError::InvalidTransaction)));
        started.inspect_err(|_| shard.forget_if_nothing(&cell))?;
        Ok(Waiting(answer))
    }

    /// Writes the end of a producer's transaction to a partition of the topic; the answer comes when it is durable and
    /// the offsets that groups of the partition have committed in the transaction have taken effect, or are dropped.
    #[must_use]
    pub fn write_marker(&self, partition: u32, marker: TransactionMarker) -> Waiting<()> {
        let index = usize::try_from(partition).unwrap_or(usize::MAX);
        match self.0.partitions.shard_at(index) {
            Ok(shard) => Waiting(shard.write_marker(marker)),
            Err(error) => Waiting::ready(Err(error)),
        }
    }

    /// Waits until what the group is committing now is durable, or is not; none where nothing is
    /// under way. A client that commits and asks for its offsets behind it, without waiting in
    /// between, is to see what it committed.
    #[must_use]
    pub fn settling(&self, group_id: &str) -> Option<Waiting<()>> {
        let shard = self.shard(group_id).ok()?;
        let cell = shard.cell(group_id).ok()??;
        shard.with(&cell, settle).ok()?
    }

    /// The group's durable offsets in these partitions; none where there is none.
    ///
    /// # Errors
    /// The groups are not loaded, or not here.
    pub fn offsets(
        &self,
        group_id: &str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<CommittedOffset>>, GroupError> {
        let Some(cell) = self.shard(group_id)?.cell(group_id)? else {
            return Ok(vec![None; partitions.len()]);
        };
        cell.read(|group| {
            partitions
                .iter()
                .map(|p| group.offset(p).cloned())
                .collect()
        })
    }

    /// The group's durable offset in a partition, as [`Self::stable_offsets`] gives it.
    ///
    /// # Errors
    /// The groups are not loaded, or not here.
    pub fn stable_offset(
        &self,
        group_id: &str,
        partition: &TopicPartition,
    ) -> Result<StableOffset, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        cell.map_or(Ok(StableOffset::Stable(None)), |cell| {
            cell.read(|group| group.stable_offset(partition))
        })
    }

    /// The partitions in which the group has durable offsets, each with its offset, unless an open transaction has
    /// another one there (KIP-447). All are read at one moment: no transaction ends in between.
    ///
    /// # Errors
    /// The groups are not loaded, or not here.
    pub fn stable_offsets(
        &self,
        group_id: &str,
    ) -> Result<Vec<(TopicPartition, StableOffset)>, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        cell.map_or_else(|| Ok(Vec::new()), |cell| cell.read(Group::stable_offsets))
    }

    /// All durable offsets of the group.
    ///
    /// # Errors
    /// The groups are not loaded, or not here.
    pub fn all_offsets(&self, group_id: &str) -> Result<PartitionOffsets, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        cell.map_or_else(|| Ok(Vec::new()), |cell| cell.read(Group::offsets))
    }

    /// The partitions that the group's members are assigned, `max` at most. Two with the same number
    /// have the same member; another call may number the members otherwise.
    ///
    /// # Errors
    /// The groups are not loaded, or not here.
    pub fn assigned(
        &self,
        group_id: &str,
        max: usize,
    ) -> Result<Vec<(TopicPartition, usize)>, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        cell.map_or_else(
            || Ok(Vec::new()),
            |cell| cell.read(|group| group.assigned(max)),
        )
    }

    /// All groups that are served here, by id.
    #[must_use]
    pub fn list(&self) -> Vec<GroupListing> {
        let mut groups: Vec<GroupListing> = self
            .cells()
            .filter_map(|cell| cell.read(Group::listing).ok())
            .filter(|listing| listing.state != GroupState::Dead)
            .collect();
        groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        groups
    }

    /// All that is shown of a group.
    ///
    /// # Errors
    /// The groups are not loaded, or not here, or there is no such group.
    pub fn describe(&self, group_id: &str) -> Result<GroupDescription, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        let cell = cell.ok_or(GroupError::GroupIdNotFound)?;
        cell.read(Group::describe)
    }

    /// Deletes a group without members and its offsets, or what it knows of its place in share partitions; the answer comes when
    /// that is durable.
    #[must_use]
    pub fn delete(&self, group_id: &str) -> Waiting<()> {
        let deleted = || {
            if let Some(deleting) = self.delete_share(group_id)? {
                return Ok(deleting);
            }
            let shard = self.shard(group_id)?;
            let cell = shard.cell(group_id)?.ok_or(GroupError::GroupIdNotFound)?;
            let (reply, answer) = oneshot::channel();
            shard.with(&cell, |turn| {
                let tombstones = turn.kept.begin_delete(turn.now)?;
                turn.write(encoded(&tombstones), Outcome::Delete(Some(reply)));
                Ok::<_, GroupError>(())
            })??;
            Ok(Waiting(answer))
        };
        deleted().unwrap_or_else(|error| Waiting::ready(Err(error)))
    }

    /// Deletes the group's offsets in these partitions, but for those of topics that its members subscribe to, which this gives. The
    /// answer comes when the deletion is durable.
    ///
    /// # Errors
    /// There is no such group, or it has members that are not consumers.
    pub fn delete_offsets(
        &self,
        group_id: &str,
        partitions: &[TopicPartition],
    ) -> Result<(BTreeSet<TopicName>, Waiting<()>), GroupError> {
        let shard = self.shard(group_id)?;
        let cell = shard.cell(group_id)?.ok_or(GroupError::GroupIdNotFound)?;
        shard.with(&cell, |turn| {
            let topics = partitions.iter().map(|partition| &partition.topic);
            let subscribed = turn.kept.subscribed_of(topics)?;
            let is_deletable = |partition: &&TopicPartition| {
                let has_one = turn.kept.offset(partition).is_some();
                let has_one = has_one || turn.kept.has_pending(partition);
                has_one && !subscribed.contains(&partition.topic)
            };
            let deleted: Vec<_> = partitions.iter().filter(is_deletable).cloned().collect();
            if deleted.is_empty() {
                return Ok((subscribed, Waiting::ready(Ok(()))));
            }
            let (reply, answer) = oneshot::channel();
            let tombstones = turn.kept.offset_tombstones(&deleted);
            turn.write(encoded(&tombstones), Outcome::Forget(deleted, Some(reply)));
            Ok((subscribed, Waiting(answer)))
        })?
    }

    /// Drops all offsets in topics that are gone; done where it can be when it returns. Commits in
    /// these topics must not be let in any more. Those that are on their way are waited for first:
    /// one that landed behind the deletion would tell the consumers of a new topic with the same
    /// name to begin in the middle. Groups that are being loaded drop theirs once they are.
    pub async fn topics_deleted(&self, topics: &BTreeSet<TopicName>) {
        self.0.partitions.topics_deleted_in_loads(topics).await;
        let settling = self.each_group(settle).into_iter().flatten();
        join_all(settling).await;
        let forgotten = self.each_group(|turn| {
            turn.kept.share_topics_deleted();
            let gone = turn.kept.offsets_in(topics);
            if gone.is_empty() {
                return None;
            }
            let tombstones = turn.kept.offset_tombstones(&gone);
            turn.write(encoded(&tombstones), Outcome::Forget(gone, None));
            Some(behind_all(turn))
        });
        join_all(forgotten.into_iter().flatten()).await;
    }

    /// All groups that are served here.
    fn cells(&self) -> impl Iterator<Item = Arc<Cell>> {
        let shards = self.0.partitions.serving().into_iter();
        shards.flat_map(|shard| shard.cells())
    }

    /// Works on every group that is served here.
    fn each_group<R>(&self, mut work: impl FnMut(&mut Turn<'_>) -> R) -> Vec<R> {
        let mut results = Vec::new();
        for shard in self.0.partitions.serving() {
            let cells = shard.cells();
            // What has resigned meanwhile is another broker's.
            results.extend(cells.iter().flat_map(|cell| shard.with(cell, &mut work)));
        }
        results
    }

    fn shard(&self, group_id: &str) -> Result<Arc<Shard>, GroupError> {
        self.0.partitions.shard(group_id)
    }

    fn shard_of_member(&self, group_id: &str) -> Result<Arc<Shard>, GroupError> {
        if group_id.is_empty() {
            Err(GroupError::InvalidGroupId)
        } else {
            self.shard(group_id)
        }
    }

    fn member_cell(&self, group_id: &str) -> Result<(Arc<Shard>, Arc<Cell>), GroupError> {
        let shard = self.shard_of_member(group_id)?;
        let cell = shard.cell(group_id)?.ok_or(GroupError::UnknownMemberId)?;
        Ok((shard, cell))
    }
}

/// Resolves when what the group is committing now is settled; none where nothing is under way.
fn settle(turn: &mut Turn<'_>) -> Option<Waiting<()>> {
    turn.kept.has_commits_in_flight().then(|| behind_all(turn))
}

/// Resolves behind everything that the group has handed to the log: nothing to write, but finished
/// in order.
fn behind_all(turn: &mut Turn<'_>) -> Waiting<()> {
    let (reply, answer) = oneshot::channel();
    turn.kept.commit_started();
    turn.write(encoded(&[]), Outcome::Commit(Vec::new(), reply));
    Waiting(answer)
}

/// Deletes expired offsets, and the group when nothing is left of it.
fn sweep(shard: &Arc<Shard>, cell: &Arc<Cell>) {
    let swept = shard.with(cell, |turn| {
        if turn.kept.has_commits_in_flight() {
            return;
        }
        if turn.kept.is_unused() {
            if let Ok(tombstones) = turn.kept.begin_delete(turn.now) {
                turn.write(encoded(&tombstones), Outcome::Delete(None));
            }
            return;
        }
        let expired = turn.kept.expired(turn.now);
        if !expired.is_empty() {
            let tombstones = turn.kept.offset_tombstones(&expired);
            turn.write(encoded(&tombstones), Outcome::Forget(expired, None));
        }
    });
    // Expired or not is for the next coordinator to say.
    drop(swept);
}

/// Drops expired offsets and unused groups at the set interval, for as long as the coordinator is.
async fn sweep_for_ever(coordinator: Weak<Inner>) {
    loop {
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        let interval = inner.ground.config.config.retention_check_interval;
        drop(inner);
        tokio::time::sleep(interval).await;
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        for shard in inner.partitions.serving() {
            for cell in shard.cells() {
                sweep(&shard, &cell);
            }
            tokio::task::yield_now().await;
        }
    }
}

pub use share::ShareStateResults;

#[cfg(test)]
pub(crate) mod tests;
