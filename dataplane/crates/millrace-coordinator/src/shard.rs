//! The groups of one partition of `__consumer_offsets`.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::Counter;
use millrace_budget::{Budget, Charge};
use millrace_model::TopicPartition;
use millrace_purgatory::{TimerHandle, Timers};
use millrace_time::SharedClock;
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::{
    GroupConfig, GroupError,
    config::{GROUP_BYTES, GROUPS_MAX, OFFSET_BYTES},
    group::{Effect, Group, Now, Reply, Then, empty_bytes, generation_bytes, offset_bytes},
    messages::{CommittedOffset, GroupState},
    records::{GroupMetadata, GroupRecord, Key},
};

/// Writes that may wait for one shard's writer. Past it the coordinator is overloaded and says so;
/// clients retry.
pub(crate) const WRITES_MAX: usize = 16 * 1024;

/// One group, its lock, and its alarm.
pub(crate) struct Cell {
    slot: Mutex<Slot>,
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
    /// A commit of offsets, and who waits for it.
    Commit(Vec<(TopicPartition, CommittedOffset)>, Reply<()>),
    /// The deletion of the group, and who waits for it.
    Delete(Option<Reply<()>>),
    /// The deletion of some of its offsets.
    Forget(Vec<TopicPartition>),
}

impl Outcome {
    /// What it costs in memory with its records until it is durable, in bytes, and whether it gives
    /// memory back then.
    fn memory_bytes(&self) -> (u64, bool) {
        match self {
            // Held here, encoded, and copied into a batch that grows by doubling.
            Self::Generation(generation) => (4 * generation_bytes(&generation.0), false),
            Self::Commit(offsets, _) => {
                let bytes = offsets.iter().map(|(_, committed)| offset_bytes(committed));
                (2 * bytes.sum::<u64>(), false)
            }
            Self::Delete(_) => (GROUP_BYTES, true),
            Self::Forget(partitions) => (partitions.len() as u64 * OFFSET_BYTES, true),
        }
    }

    fn apply(self, group: &mut Group, result: Result<(), GroupError>, now: Now) {
        match self {
            Self::Generation(generation) => {
                let (metadata, then) = *generation;
                group.stored(metadata, then, result, now);
            }
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
            Self::Forget(partitions) => {
                if result.is_ok() {
                    group.forget(&partitions);
                }
            }
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
    groups: RwLock<HashMap<String, Arc<Cell>>>,
    /// Gone once the coordinator closes, so that the writer ends.
    writes: RwLock<Option<mpsc::Sender<Write>>>,
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("groups", &self.groups.read().len())
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
            groups: RwLock::new(groups),
            writes: RwLock::new(Some(writes)),
        });
        for cell in shard.cells() {
            shard.with(&cell, |_| ());
        }
        shard
    }

    pub(crate) fn cell(&self, group_id: &str) -> Option<Arc<Cell>> {
        self.groups.read().get(group_id).cloned()
    }

    pub(crate) fn cell_or_new(&self, group_id: &str) -> Result<Arc<Cell>, GroupError> {
        if let Some(cell) = self.cell(group_id) {
            return Ok(cell);
        }
        let mut groups = self.groups.write();
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
        self.groups.read().values().cloned().collect()
    }

    /// Works on a group under its lock, then hands what must last to the log, in order, and sets
    /// the group's alarm.
    pub(crate) fn with<R>(
        self: &Arc<Self>,
        cell: &Arc<Cell>,
        work: impl FnOnce(&mut Turn<'_>) -> R,
    ) -> R {
        let now = self.ground.now();
        let mut slot = cell.slot.lock();
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
        self.arm(cell, &mut slot, now);
        result
    }

    fn hand_over_effects(&self, cell: &Arc<Cell>, group: &mut Group, now: Now) {
        loop {
            let effects = group.take_effects();
            if effects.is_empty() {
                return;
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
        self.with(&cell, |turn| outcome.apply(turn.group, result, turn.now));
        if deleted {
            self.remove(&cell);
        }
    }

    fn remove(&self, cell: &Arc<Cell>) {
        let id = cell.slot.lock().group.id().to_owned();
        let mut groups = self.groups.write();
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
        if is_nothing {
            debug_assert_eq!(cell.read(Group::state), GroupState::Dead);
            self.remove(cell);
        }
    }

    /// Deletes expired offsets, and the group when nothing is left of it.
    pub(crate) fn sweep(self: &Arc<Self>, cell: &Arc<Cell>) {
        self.with(cell, |turn| {
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
                turn.write(tombstones, Outcome::Forget(expired));
            }
        });
    }

    /// The live records of a group, and of how many there are.
    pub(crate) fn durable_records(cell: &Cell) -> Vec<GroupRecord> {
        cell.slot.lock().group.durable_records()
    }

    pub(crate) fn durable_count(&self) -> usize {
        self.cells()
            .iter()
            .map(|cell| cell.slot.lock().group.durable_count())
            .sum()
    }
}

impl Cell {
    fn new(group: Group, charge: Charge) -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::new(Slot {
                group,
                charge,
                alarm: None,
            }),
        })
    }

    /// Looks at the group without changing it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Group) -> R) -> R {
        read(&self.slot.lock().group)
    }
}

/// A group's alarm: does what is due. A group that came to nothing, such as one whose only member
/// never came back with the id it was given, goes at once.
fn ring(shard: &Weak<Shard>, cell: &Weak<Cell>) {
    let (Some(shard), Some(cell)) = (shard.upgrade(), cell.upgrade()) else {
        return;
    };
    cell.slot.lock().alarm = None;
    shard.with(&cell, |turn| turn.group.expire(turn.now));
    shard.forget_if_nothing(&cell);
}
