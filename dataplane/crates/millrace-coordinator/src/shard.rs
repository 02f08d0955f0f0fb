//! The groups of one partition of `__consumer_offsets`.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::Counter;
use millrace_budget::{Budget, Charge};
use millrace_model::{TopicName, TopicPartition};
use millrace_purgatory::{TimerHandle, Timers};
use millrace_time::SharedClock;
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{
    GroupConfig, GroupError,
    config::{GROUP_BYTES, GROUPS_MAX, OFFSET_BYTES},
    consumer,
    group::{
        ConsumerWrite, Effect, Group, Now, Reply, Then, empty_bytes, generation_bytes, offset_bytes,
    },
    messages::{CommittedOffset, GroupState},
    records::{GroupMetadata, GroupRecord, Key},
    topics::SharedTopics,
};

/// Writes that may wait for one shard's writer. Past it the coordinator is overloaded and says so;
/// clients retry.
pub(crate) const WRITES_MAX: usize = 16 * 1024;

/// One group, its lock, and its alarm; nothing once the shard has resigned.
pub(crate) struct Cell {
    slot: Mutex<Option<Slot>>,
}

struct Slot {
    group: Group,
    /// What the group costs.
    charge: Charge,
    /// When the alarm rings, and how to take it back.
    alarm: Option<(Duration, TimerHandle)>,
}

/// Something for the log, and what the group learns once it is durable or could not be written.
pub(crate) struct Write {
    pub(crate) cell: Arc<Cell>,
    pub(crate) records: Vec<GroupRecord>,
    pub(crate) outcome: Outcome,
    /// What it costs until it is durable.
    pub(crate) charge: Charge,
}

/// What a write is about.
pub(crate) enum Outcome {
    /// A generation.
    Generation(Box<(GroupMetadata, Then)>),
    /// Records of a consumer group, and who waits for them.
    Consumer(ConsumerWrite),
    /// A commit of offsets, and who waits for it.
    Commit(Vec<(TopicPartition, CommittedOffset)>, Reply<()>),
    /// The deletion of the group, and who waits for it.
    Delete(Option<Reply<()>>),
    /// The deletion of some of its offsets, and who waits for it.
    Forget(Vec<TopicPartition>, Option<Reply<()>>),
}

impl Outcome {
    /// What it costs in memory with its records until it is durable, in bytes, and whether it gives
    /// memory back then.
    fn memory_bytes(&self) -> (u64, bool) {
        match self {
            // Held here, encoded, and copied into a batch that grows by doubling.
            Self::Generation(generation) => (4 * generation_bytes(&generation.0), false),
            // The same, and its tables.
            Self::Consumer(write) => {
                let bytes = |record: &GroupRecord| match record {
                    GroupRecord::Consumer(Key::Consumer { part, .. }, Some(value)) => {
                        consumer::bytes_of(part, value)
                    }
                    _ => OFFSET_BYTES,
                };
                (4 * write.records.iter().map(bytes).sum::<u64>(), false)
            }
            Self::Commit(offsets, _) => {
                let bytes = offsets.iter().map(|(_, committed)| offset_bytes(committed));
                (2 * bytes.sum::<u64>(), false)
            }
            Self::Delete(_) => (GROUP_BYTES, true),
            Self::Forget(partitions, _) => (partitions.len() as u64 * OFFSET_BYTES, true),
        }
    }

    fn apply(self, group: &mut Group, result: Result<(), GroupError>, now: Now) {
        match self {
            Self::Generation(generation) => {
                let (metadata, then) = *generation;
                group.stored(metadata, then, result, now);
            }
            Self::Consumer(write) => group.consumer_written(write, result),
            Self::Commit(offsets, reply) => {
                group.commit_finished(offsets, result.is_ok());
                drop(reply.send(result));
            }
            Self::Delete(reply) => {
                if result.is_err() {
                    group.undo_delete(now);
                }
                if let Some(reply) = reply {
                    drop(reply.send(result));
                }
            }
            Self::Forget(partitions, reply) => {
                if result.is_ok() {
                    group.forget(&partitions);
                }
                if let Some(reply) = reply {
                    drop(reply.send(result));
                }
            }
        }
    }

    /// Tells who waits for it, where the group is no longer here.
    fn answer(self, result: Result<(), GroupError>) {
        match self {
            Self::Generation(generation) => {
                if let Then::Welcome(reply, joined) = generation.1 {
                    drop(reply.send(result.map(|()| joined)));
                }
            }
            Self::Consumer(write) => write.answer(result),
            Self::Commit(_, reply) | Self::Delete(Some(reply)) | Self::Forget(_, Some(reply)) => {
                drop(reply.send(result));
            }
            Self::Delete(None) | Self::Forget(_, None) => {}
        }
    }
}

/// What a caller works with while it holds a group's lock.
pub(crate) struct Turn<'a> {
    pub(crate) group: &'a mut Group,
    pub(crate) now: Now,
    writes: Vec<(Vec<GroupRecord>, Outcome)>,
}

impl Turn<'_> {
    /// Hands something to the log, after what the group itself has written.
    pub(crate) fn write(&mut self, records: Vec<GroupRecord>, outcome: Outcome) {
        self.writes.push((records, outcome));
    }
}

/// What shards share.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) config: Arc<GroupConfig>,
    pub(crate) clock: SharedClock,
    pub(crate) topics: SharedTopics,
    pub(crate) timers: Timers,
    /// Groups of all shards.
    pub(crate) groups: Arc<AtomicUsize>,
    /// What they may cost.
    pub(crate) memory: Budget,
    /// What may be on its way to the log.
    pub(crate) writes: Budget,
    pub(crate) refusals: Refusals,
}

impl Ground {
    pub(crate) fn now(&self) -> Now {
        Now {
            at: self.clock.now(),
            ms: self.clock.wall_ms(),
        }
    }

    /// Room for `bytes` more of groups.
    pub(crate) fn room(&self, bytes: u64) -> Result<Charge, GroupError> {
        // Nothing more is never too much, even where more was loaded than there may be.
        let room = match bytes {
            0 => Some(self.memory.take_anyway(0)),
            _ => self.memory.try_take(bytes),
        };
        room.ok_or_else(|| self.refusals.count(GroupError::MemoryFull))
    }

    /// Room for a write; `None` where too much is on its way already. What gives memory back is never
    /// refused.
    fn room_to_write(&self, outcome: &Outcome) -> Option<Charge> {
        let (bytes, frees) = outcome.memory_bytes();
        // A larger one than fits goes alone.
        let bytes = bytes.min(self.writes.capacity());
        match self.writes.try_take(bytes) {
            None if frees => Some(self.writes.take_anyway(bytes)),
            room => room,
        }
    }
}

/// Counts what was refused because a bound was reached.
#[derive(Clone)]
pub(crate) struct Refusals {
    memory: Counter,
    groups: Counter,
    told: Arc<AtomicUsize>,
}

impl Refusals {
    pub(crate) fn new() -> Self {
        let of = |bound| metrics::counter!("millrace_bound_refusals_total", "bound" => bound);
        Self {
            memory: of("group_memory"),
            groups: of("groups"),
            told: Arc::default(),
        }
    }

    /// Counts a refusal, and gives the reason back.
    fn count(&self, error: GroupError) -> GroupError {
        match error {
            GroupError::MemoryFull => self.memory.increment(1),
            GroupError::TooManyGroups => self.groups.increment(1),
            _ => {}
        }
        let refused = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        // The first one, and ever fewer of those that follow.
        if refused.is_power_of_two() {
            tracing::warn!(refused, "consumer groups are refused: {error}");
        }
        error
    }
}

/// See the module.
pub(crate) struct Shard {
    ground: Ground,
    /// `None` once the shard has resigned.
    groups: RwLock<Option<HashMap<String, Arc<Cell>>>>,
    /// Gone once the coordinator closes or the shard resigns, so that the writer ends.
    writes: RwLock<Option<mpsc::Sender<Write>>>,
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("groups", &self.groups.read().as_ref().map(HashMap::len))
            .finish_non_exhaustive()
    }
}

impl Shard {
    /// A shard with the groups that were loaded; their sessions run from now on.
    pub(crate) fn new(
        ground: Ground,
        groups: Vec<Group>,
        writes: mpsc::Sender<Write>,
    ) -> Arc<Self> {
        ground.groups.fetch_add(groups.len(), Ordering::Relaxed);
        // What was loaded is there, whatever it may cost; only more is refused.
        let cell = |group: Group| {
            let charge = ground.memory.take_anyway(group.memory_bytes());
            (group.id().to_owned(), Cell::new(group, charge))
        };
        let groups: HashMap<String, Arc<Cell>> = groups.into_iter().map(cell).collect();
        let shard = Arc::new(Self {
            ground,
            groups: RwLock::new(Some(groups)),
            writes: RwLock::new(Some(writes)),
        });
        for cell in shard.cells() {
            // Sets its alarm.
            drop(shard.with(&cell, |_| ()));
        }
        shard
    }

    /// Gives the groups up: another broker serves them from now on. Who waits for other members is told;
    /// writes under way are answered once their log has settled them. Returns how many groups there were.
    pub(crate) fn resign(&self) -> usize {
        let now = self.ground.now();
        let groups = self.groups.write().take().unwrap_or_default();
        self.ground
            .groups
            .fetch_sub(groups.len(), Ordering::Relaxed);
        for cell in groups.values() {
            let slot = cell.slot.lock().take();
            let Some(Slot {
                mut group, alarm, ..
            }) = slot
            else {
                continue;
            };
            group.refuse_waiting(&GroupError::NotCoordinator, now);
            if let Some((_, alarm)) = alarm {
                alarm.cancel();
            }
        }
        self.close();
        groups.len()
    }

    pub(crate) fn has_resigned(&self) -> bool {
        self.groups.read().is_none()
    }

    /// # Errors
    /// The shard has resigned.
    pub(crate) fn cell(&self, group_id: &str) -> Result<Option<Arc<Cell>>, GroupError> {
        let groups = self.groups.read();
        let groups = groups.as_ref().ok_or(GroupError::NotCoordinator)?;
        Ok(groups.get(group_id).cloned())
    }

    pub(crate) fn cell_or_new(&self, group_id: &str) -> Result<Arc<Cell>, GroupError> {
        if let Some(cell) = self.cell(group_id)? {
            return Ok(cell);
        }
        let mut groups = self.groups.write();
        let groups = groups.as_mut().ok_or(GroupError::NotCoordinator)?;
        if let Some(cell) = groups.get(group_id) {
            return Ok(cell.clone());
        }
        if self.ground.groups.fetch_add(1, Ordering::Relaxed) >= GROUPS_MAX {
            self.ground.groups.fetch_sub(1, Ordering::Relaxed);
            return Err(self.ground.refusals.count(GroupError::TooManyGroups));
        }
        let charge = self.ground.room(empty_bytes(group_id));
        let charge = charge.inspect_err(|_| {
            self.ground.groups.fetch_sub(1, Ordering::Relaxed);
        })?;
        let (config, now) = (self.ground.config.clone(), self.ground.now());
        let cell = Cell::new(Group::new(group_id.to_owned(), config, now), charge);
        groups.insert(group_id.to_owned(), cell.clone());
        Ok(cell)
    }

    pub(crate) fn cells(&self) -> Vec<Arc<Cell>> {
        let groups = self.groups.read();
        groups.iter().flat_map(HashMap::values).cloned().collect()
    }

    /// Works on a group under its lock, then hands what must last to the log, in order, and sets
    /// the group's alarm.
    ///
    /// # Errors
    /// The shard has resigned; nothing was done.
    pub(crate) fn with<R>(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        work: impl FnOnce(&mut Turn<'_>) -> R,
    ) -> Result<R, GroupError> {
        let now = self.ground.now();
        let mut slot = cell.slot.lock();
        let slot = slot.as_mut().ok_or(GroupError::NotCoordinator)?;
        let mut turn = Turn {
            group: &mut slot.group,
            now,
            writes: Vec::new(),
        };
        let result = work(&mut turn);
        let writes = turn.writes;
        self.hand_over_effects(cell, &mut slot.group, now);
        for (records, outcome) in writes {
            self.hand_over(cell, &mut slot.group, records, outcome, now);
        }
        let bytes = slot.group.memory_bytes();
        slot.charge.set(bytes);
        self.arm(cell, slot, now);
        Ok(result)
    }

    fn hand_over_effects(&self, cell: &Arc<Cell>, group: &mut Group, now: Now) {
        loop {
            let effects = group.take_effects();
            let writes = group.take_consumer_writes();
            if effects.is_empty() && writes.is_empty() {
                return;
            }
            for write in writes {
                let records = write.records.clone();
                self.hand_over(cell, group, records, Outcome::Consumer(write), now);
            }
            for Effect { metadata, then } in effects {
                let key = Key::Group {
                    group: group.id().to_owned(),
                };
                let record = GroupRecord::Group(key, Some(metadata.clone()));
                let outcome = Outcome::Generation(Box::new((metadata, then)));
                self.hand_over(cell, group, vec![record], outcome, now);
            }
        }
    }

    fn hand_over(
        &self,
        cell: &Arc<Cell>,
        group: &mut Group,
        records: Vec<GroupRecord>,
        outcome: Outcome,
        now: Now,
    ) {
        let refused = match self.ground.room_to_write(&outcome) {
            None => Some(outcome),
            Some(charge) => {
                let write = Write {
                    cell: cell.clone(),
                    records,
                    outcome,
                    charge,
                };
                self.send(write).map(|write| write.outcome)
            }
        };
        if let Some(outcome) = refused {
            outcome.apply(group, Err(GroupError::CoordinatorNotAvailable), now);
        }
    }

    /// Gives the write back where the writer is overloaded or gone.
    fn send(&self, write: Write) -> Option<Write> {
        let writes = self.writes.read();
        let Some(writer) = writes.as_ref() else {
            return Some(write);
        };
        match writer.try_send(write) {
            Ok(()) => None,
            Err(TrySendError::Full(write) | TrySendError::Closed(write)) => Some(write),
        }
    }

    /// Takes no more writes; the writer ends after those it has.
    pub(crate) fn close(&self) {
        self.writes.write().take();
    }

    fn arm(self: &Arc<Self>, cell: &Arc<Cell>, slot: &mut Slot, now: Now) {
        let Some(at) = slot.group.wake_at() else {
            return;
        };
        if slot.alarm.as_ref().is_some_and(|(rings, _)| *rings <= at) {
            return;
        }
        if let Some((_, later)) = slot.alarm.take() {
            later.cancel();
        }
        let (shard, cell) = (Arc::downgrade(self), Arc::downgrade(cell));
        let ring = move || ring(&shard, &cell);
        let handle = self.ground.timers.after(at.saturating_sub(now.at), ring);
        slot.alarm = Some((at, handle));
    }

    /// The writer's word that a write is durable, or is not.
    pub(crate) fn finish(
        self: &Arc<Self>,
        write: (Arc<Cell>, Outcome),
        result: Result<(), GroupError>,
    ) {
        let (cell, outcome) = write;
        let deleted = result.is_ok() && matches!(outcome, Outcome::Delete(_));
        let mut outcome = Some(outcome);
        let applied = self.with(&cell, |turn| {
            if let Some(outcome) = outcome.take() {
                outcome.apply(turn.group, result.clone(), turn.now);
            }
        });
        if let (Err(resigned), Some(outcome)) = (applied, outcome) {
            // What is durable counts wherever the group is now.
            return outcome.answer(result.map_err(|_| resigned));
        }
        if deleted {
            self.remove(&cell);
        }
    }

    fn remove(&self, cell: &Arc<Cell>) {
        let Ok(id) = cell.read(|group| group.id().to_owned()) else {
            return;
        };
        let mut groups = self.groups.write();
        let Some(groups) = groups.as_mut() else {
            return;
        };
        if groups
            .get(&id)
            .is_some_and(|present| Arc::ptr_eq(present, cell))
        {
            groups.remove(&id);
            self.ground.groups.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Drops a group that has come to nothing, and of which the log knows nothing.
    pub(crate) fn forget_if_nothing(self: &Arc<Self>, cell: &Arc<Cell>) {
        let is_nothing = self.with(cell, |turn| {
            let nothing = turn.group.is_unused() && turn.group.durable_count() == 0;
            nothing && turn.group.begin_delete(turn.now).is_ok()
        });
        if is_nothing == Ok(true) {
            debug_assert!(
                cell.read(Group::state)
                    .is_ok_and(|state| state == GroupState::Dead)
            );
            self.remove(cell);
        }
    }

    /// Deletes expired offsets, and the group when nothing is left of it.
    pub(crate) fn sweep(self: &Arc<Self>, cell: &Arc<Cell>) {
        let swept = self.with(cell, |turn| {
            if turn.group.has_commits_in_flight() {
                return;
            }
            if turn.group.is_unused() {
                if let Ok(tombstones) = turn.group.begin_delete(turn.now) {
                    turn.write(tombstones, Outcome::Delete(None));
                }
                return;
            }
            let expired = turn.group.expired(turn.now);
            if !expired.is_empty() {
                let tombstones = turn.group.offset_tombstones(&expired);
                turn.write(tombstones, Outcome::Forget(expired, None));
            }
        });
        // Expired or not is for the next coordinator to say.
        drop(swept);
    }

    /// Drops the offsets in topics that were deleted while the shard was loaded.
    pub(crate) fn forget_topics(self: &Arc<Self>, topics: &BTreeSet<TopicName>) {
        for cell in self.cells() {
            let forgotten = self.with(&cell, |turn| {
                let gone = turn.group.offsets_in(topics);
                if !gone.is_empty() {
                    let tombstones = turn.group.offset_tombstones(&gone);
                    turn.group.forget(&gone);
                    turn.write(tombstones, Outcome::Forget(gone, None));
                }
            });
            // The next coordinator learns of deleted topics by itself.
            drop(forgotten);
        }
    }

    /// The live records of a group; none once the shard has resigned.
    pub(crate) fn durable_records(cell: &Cell) -> Vec<GroupRecord> {
        cell.read(Group::durable_records).unwrap_or_default()
    }

    /// How many live records there are.
    pub(crate) fn durable_count(&self) -> usize {
        let cells = self.cells();
        let counts = cells.iter().map(|cell| cell.read(Group::durable_count));
        counts.flatten().sum()
    }
}

impl Cell {
    fn new(group: Group, charge: Charge) -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::new(Some(Slot {
                group,
                charge,
                alarm: None,
            })),
        })
    }

    /// Looks at the group without changing it.
    ///
    /// # Errors
    /// The shard has resigned.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Group) -> R) -> Result<R, GroupError> {
        let slot = self.slot.lock();
        let slot = slot.as_ref().ok_or(GroupError::NotCoordinator)?;
        Ok(read(&slot.group))
    }
}

/// A group's alarm: does what is due. A group that came to nothing, such as one whose only member
/// never came back with the id it was given, goes at once.
fn ring(shard: &Weak<Shard>, cell: &Weak<Cell>) {
    let (Some(shard), Some(cell)) = (shard.upgrade(), cell.upgrade()) else {
        return;
    };
    match cell.slot.lock().as_mut() {
        Some(slot) => slot.alarm = None,
        None => return,
    }
    if shard
        .with(&cell, |turn| turn.group.expire(turn.now))
        .is_ok()
    {
        shard.forget_if_nothing(&cell);
    }
}
