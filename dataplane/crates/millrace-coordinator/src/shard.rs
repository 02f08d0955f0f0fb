//! The entries of one partition of an internal topic.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::Counter;
use millrace_budget::{Budget, Charge};
use millrace_log::TransactionMarker;
use millrace_model::TopicName;
use millrace_purgatory::{TimerHandle, Timers};
use millrace_time::SharedClock;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use crate::kept::{Kept, Now, Unserved, Written};

/// Writes that may wait for the writer of one shard. Further writes are refused, and clients retry.
pub(crate) const WRITES_MAX: usize = 16 * 1024;

/// One entry with its lock and its timer; empty once the shard has resigned.
pub(crate) struct Cell<K: Kept> {
    slot: Mutex<Option<Slot<K>>>,
}

struct Slot<K> {
    kept: K,
    /// The memory of the entry.
    charge: Charge,
    /// When the timer is due, and how to cancel it.
    alarm: Option<(Duration, TimerHandle)>,
}

/// A write to the log.
pub(crate) enum Write<K: Kept> {
    /// Of one entry.
    Of(CellWrite<K>),
    /// The end of a producer's transaction, and who waits until it takes effect.
    Marker(TransactionMarker, oneshot::Sender<Result<(), K::Error>>),
}

/// A write of one entry, and what follows once it is durable or has failed.
pub(crate) struct CellWrite<K: Kept> {
    pub(crate) cell: Arc<Cell<K>>,
    pub(crate) written: Written,
    pub(crate) outcome: K::Outcome,
    /// The memory of the write until it is durable.
    pub(crate) charge: Charge,
}

/// Shows that a producer's transaction had not ended when the token was issued.
#[derive(Debug, Clone, Copy)]
pub struct TransactionalToken {
    /// The leader epoch of the log. A later shard of the partition does not know which transactions ended before it.
    epoch: i32,
    markers: u64,
}

/// The newest ends of transactions, in the order of the log.
#[derive(Debug, Default)]
struct Markers {
    /// How many there were.
    count: u64,
    /// The producers of the last [`MARKERS_KEPT`] of them.
    producers: VecDeque<i64>,
}

/// Ends of transactions that a shard remembers. If more transactions end while a commit is verified, the commit is retried.
const MARKERS_KEPT: usize = 1_024;

impl Markers {
    fn push(&mut self, producer_id: i64) {
        self.count += 1;
        if self.producers.len() == MARKERS_KEPT {
            self.producers.pop_front();
        }
        self.producers.push_back(producer_id);
    }

    /// Whether the producer's transaction may have ended since the count was `count`.
    fn ended_since(&self, count: u64, producer_id: i64) -> bool {
        let since = usize::try_from(self.count.saturating_sub(count)).unwrap_or(usize::MAX);
        let Some(known) = self.producers.len().checked_sub(since) else {
            return true;
        };
        self.producers.range(known..).any(|id| *id == producer_id)
    }
}

/// An entry whose lock the caller holds.
pub(crate) struct Turn<'a, K: Kept> {
    pub(crate) kept: &'a mut K,
    pub(crate) now: Now,
    writes: Vec<(Written, K::Outcome)>,
}

impl<K: Kept> Turn<'_, K> {
    /// Adds a write, behind the writes of the entry itself.
    pub(crate) fn write(&mut self, written: Written, outcome: K::Outcome) {
        self.writes.push((written, outcome));
    }
}

/// What shards share.
pub(crate) struct Ground<K: Kept> {
    pub(crate) config: Arc<K::Config>,
    pub(crate) clock: SharedClock,
    pub(crate) timers: Timers,
    /// Entries of all shards.
    pub(crate) count: Arc<AtomicUsize>,
    /// The bound on their number.
    pub(crate) count_max: usize,
    /// The minimum number of records between two rewrites of the live state.
    pub(crate) rewrite_after_records: u64,
    /// The memory of all entries.
    pub(crate) memory: Budget,
    /// The memory of all writes that are not durable yet.
    pub(crate) writes: Budget,
    pub(crate) refusals: Refusals,
}

impl<K: Kept> Clone for Ground<K> {
    fn clone(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            clock: self.clock.clone(),
            timers: self.timers.clone(),
            count: Arc::clone(&self.count),
            count_max: self.count_max,
            rewrite_after_records: self.rewrite_after_records,
            memory: self.memory.clone(),
            writes: self.writes.clone(),
            refusals: self.refusals.clone(),
        }
    }
}

impl<K: Kept> Ground<K> {
    pub(crate) fn now(&self) -> Now {
        Now {
            at: self.clock.now(),
            ms: self.clock.wall_ms(),
        }
    }

    /// Reserves `bytes` of memory.
    pub(crate) fn room(&self, bytes: u64) -> Result<Charge, K::Error> {
        // Zero bytes are always granted, even if loading has exceeded the bound.
        let room = match bytes {
            0 => Some(self.memory.take_anyway(0)),
            _ => self.memory.try_take(bytes),
        };
        room.ok_or_else(|| self.refusals.count::<K>(Unserved::MemoryFull))
    }

    /// Reserves memory for a write; `None` if too many are not durable yet. A write that frees memory is never
    /// refused.
    fn room_to_write(&self, outcome: &K::Outcome) -> Option<Charge> {
        let (bytes, frees) = K::write_bytes(outcome);
        // A write larger than the bound is the only one at its time.
        let bytes = bytes.min(self.writes.capacity());
        match self.writes.try_take(bytes) {
            None if frees => Some(self.writes.take_anyway(bytes)),
            room => room,
        }
    }
}

/// Counts the requests that were refused at a bound.
#[derive(Clone)]
pub(crate) struct Refusals {
    count: Counter,
    memory: Counter,
    told: Arc<AtomicUsize>,
}

impl Refusals {
    pub(crate) fn new<K: Kept>() -> Self {
        let of = |bound| metrics::counter!("millrace_bound_refusals_total", "bound" => bound);
        let [count, memory] = K::NAMES.bounds;
        Self {
            count: of(count),
            memory: of(memory),
            told: Arc::default(),
        }
    }

    /// Counts a refusal and returns its error.
    fn count<K: Kept>(&self, reason: Unserved) -> K::Error {
        match reason {
            Unserved::MemoryFull => self.memory.increment(1),
            Unserved::TooMany => self.count.increment(1),
            _ => {}
        }
        let error = K::Error::from(reason);
        let refused = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        // Logs the 1st, 2nd, 4th, 8th, … refusal.
        if refused.is_power_of_two() {
            tracing::warn!(refused, "{} are refused: {error}", K::NAMES.what);
        }
        error
    }
}

/// See the module.
pub(crate) struct Shard<K: Kept> {
    ground: Ground<K>,
    /// The leader epoch of its log.
    epoch: i32,
    /// By id; `None` once the shard has resigned.
    cells: RwLock<Option<HashMap<String, Arc<Cell<K>>>>>,
    /// `None` once the coordinator closes or the shard resigns, which ends the writer.
    writes: RwLock<Option<mpsc::Sender<Write<K>>>>,
    /// Locked before any cell.
    markers: Mutex<Markers>,
    /// The entries that open transactions have changed, by producer.
    open: Mutex<HashMap<i64, Vec<Arc<Cell<K>>>>>,
}

impl<K: Kept> fmt::Debug for Shard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("cells", &self.cells.read().as_ref().map(HashMap::len))
            .finish_non_exhaustive()
    }
}

impl<K: Kept> Shard<K> {
    /// Creates a shard with the entries that were loaded, and starts their timers.
    pub(crate) fn new(
        ground: Ground<K>,
        epoch: i32,
        loaded: Vec<K>,
        writes: mpsc::Sender<Write<K>>,
    ) -> Arc<Self> {
        ground.count.fetch_add(loaded.len(), Ordering::Relaxed);
        // Loaded entries are kept even beyond the bound; only new ones are refused.
        let cell = |kept: K| {
            let charge = ground.memory.take_anyway(kept.memory_bytes());
            (kept.id().to_owned(), Cell::new(kept, charge))
        };
        let cells: HashMap<String, Arc<Cell<K>>> = loaded.into_iter().map(cell).collect();
        let shard = Arc::new(Self {
            ground,
            epoch,
            cells: RwLock::new(Some(cells)),
            writes: RwLock::new(Some(writes)),
            markers: Mutex::default(),
            open: Mutex::default(),
        });
        for cell in shard.cells() {
            // Starts its timer.
            let open = shard.with(&cell, |turn| turn.kept.open_transactions());
            for producer_id in open.into_iter().flatten() {
                shard.opened(producer_id, &cell);
            }
        }
        shard
    }

    /// Drops all entries, because another broker serves them from now on. Requests that do not wait for a write are refused;
    /// those that do are answered once the log has settled the write. Returns the number of entries.
    pub(crate) fn resign(&self) -> usize {
        let now = self.ground.now();
        let cells = self.cells.write().take().unwrap_or_default();
        self.ground.count.fetch_sub(cells.len(), Ordering::Relaxed);
        for cell in cells.values() {
            let slot = cell.slot.lock().take();
            let Some(Slot {
                mut kept, alarm, ..
            }) = slot
            else {
                continue;
            };
            kept.refuse_waiting(&Unserved::NotCoordinator.into(), now);
            if let Some((_, alarm)) = alarm {
                alarm.cancel();
            }
        }
        self.open.lock().clear();
        self.close();
        cells.len()
    }

    /// The leader epoch of its log.
    pub(crate) const fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn has_resigned(&self) -> bool {
        self.cells.read().is_none()
    }

    /// # Errors
    /// The shard has resigned.
    pub(crate) fn cell(&self, id: &str) -> Result<Option<Arc<Cell<K>>>, K::Error> {
        let cells = self.cells.read();
        let cells = cells.as_ref().ok_or(Unserved::NotCoordinator)?;
        Ok(cells.get(id).cloned())
    }

    pub(crate) fn cell_or_new(&self, id: &str) -> Result<Arc<Cell<K>>, K::Error> {
        if let Some(cell) = self.cell(id)? {
            return Ok(cell);
        }
        let mut cells = self.cells.write();
        let cells = cells.as_mut().ok_or(Unserved::NotCoordinator)?;
        if let Some(cell) = cells.get(id) {
            return Ok(cell.clone());
        }
        let ground = &self.ground;
        if ground.count.fetch_add(1, Ordering::Relaxed) >= ground.count_max {
            ground.count.fetch_sub(1, Ordering::Relaxed);
            return Err(ground.refusals.count::<K>(Unserved::TooMany));
        }
        let charge = ground.room(K::empty_bytes(id));
        let charge = charge.inspect_err(|_| {
            ground.count.fetch_sub(1, Ordering::Relaxed);
        })?;
        let (config, now) = (ground.config.clone(), ground.now());
        let cell = Cell::new(K::new(id.to_owned(), config, now), charge);
        cells.insert(id.to_owned(), cell.clone());
        Ok(cell)
    }

    pub(crate) fn cells(&self) -> Vec<Arc<Cell<K>>> {
        let cells = self.cells.read();
        cells.iter().flat_map(HashMap::values).cloned().collect()
    }

    /// Calls `work` with the entry locked, then passes its writes to the log in order and sets its timer.
    ///
    /// # Errors
    /// The shard has resigned; nothing was done.
    pub(crate) fn with<R>(
        self: &Arc<Self>,
        cell: &Arc<Cell<K>>,
        work: impl FnOnce(&mut Turn<'_, K>) -> R,
    ) -> Result<R, K::Error> {
        let now = self.ground.now();
        let mut slot = cell.slot.lock();
        let slot = slot.as_mut().ok_or(Unserved::NotCoordinator)?;
        let mut turn = Turn {
            kept: &mut slot.kept,
            now,
            writes: Vec::new(),
        };
        let result = work(&mut turn);
        let writes = turn.writes;
        loop {
            let own = slot.kept.take_writes();
            if own.is_empty() {
                break;
            }
            for (written, outcome) in own {
                self.hand_over(cell, &mut slot.kept, written, outcome, now);
            }
        }
        for (written, outcome) in writes {
            self.hand_over(cell, &mut slot.kept, written, outcome, now);
        }
        let bytes = slot.kept.memory_bytes();
        slot.charge.set(bytes);
        self.arm(cell, slot, now);
        Ok(result)
    }

    fn hand_over(
        &self,
        cell: &Arc<Cell<K>>,
        kept: &mut K,
        written: Written,
        outcome: K::Outcome,
        now: Now,
    ) {
        let refused = match self.ground.room_to_write(&outcome) {
            None => Some(outcome),
            Some(charge) => {
                let write = CellWrite {
                    cell: cell.clone(),
                    written,
                    outcome,
                    charge,
                };
                match self.send(Write::Of(write)) {
                    Some(Write::Of(refused)) => Some(refused.outcome),
                    Some(Write::Marker(..)) | None => None,
                }
            }
        };
        if let Some(outcome) = refused {
            kept.apply(outcome, Err(Unserved::NotAvailable.into()), now);
        }
    }

    /// Returns the write if the writer is overloaded or has ended.
    fn send(&self, write: Write<K>) -> Option<Write<K>> {
        let writes = self.writes.read();
        let Some(writer) = writes.as_ref() else {
            return Some(write);
        };
        match writer.try_send(write) {
            Ok(()) => None,
            Err(TrySendError::Full(write) | TrySendError::Closed(write)) => Some(write),
        }
    }

    /// A token for a commit in a producer's transaction, to be taken before the transaction coordinator is asked.
    pub(crate) fn transactional_token(&self) -> TransactionalToken {
        TransactionalToken {
            epoch: self.epoch,
            markers: self.markers.lock().count,
        }
    }

    /// Like [`Shard::with`], unless the producer's transaction may have ended since the token was issued. The writes
    /// precede the next end of a transaction in the log.
    ///
    /// # Errors
    /// The shard has resigned; nothing was done.
    pub(crate) fn with_token<R>(
        self: &Arc<Self>,
        cell: &Arc<Cell<K>>,
        (token, producer_id): (TransactionalToken, i64),
        work: impl FnOnce(&mut Turn<'_, K>) -> R,
    ) -> Result<Option<R>, K::Error> {
        let markers = self.markers.lock();
        let is_stale = token.epoch != self.epoch || markers.ended_since(token.markers, producer_id);
        match is_stale {
            true => Ok(None),
            false => self.with(cell, work).map(Some),
        }
    }

    /// Passes the end of a producer's transaction to the log; the receiver resolves once it is durable and in effect.
    pub(crate) fn write_marker(
        &self,
        marker: TransactionMarker,
    ) -> oneshot::Receiver<Result<(), K::Error>> {
        let (reply, answer) = oneshot::channel();
        let mut markers = self.markers.lock();
        markers.push(marker.producer_id);
        if let Some(Write::Marker(_, reply)) = self.send(Write::Marker(marker, reply)) {
            drop(reply.send(Err(Unserved::NotAvailable.into())));
        }
        answer
    }

    /// Called by the writer once the end of a producer's transaction is durable or has failed.
    pub(crate) fn marker_finished(
        self: &Arc<Self>,
        marker: TransactionMarker,
        reply: oneshot::Sender<Result<(), K::Error>>,
        result: Result<(), K::Error>,
    ) {
        if result.is_ok() {
            let producer = (marker.producer_id, marker.producer_epoch);
            let changed = self.open.lock().remove(&marker.producer_id);
            for cell in changed.unwrap_or_default() {
                let ended = self.with(&cell, |turn| {
                    turn.kept.transaction_ended(producer, marker.committed);
                });
                // If the shard has resigned, the next coordinator reads the end from the log.
                drop(ended);
            }
        }
        drop(reply.send(result));
    }

    /// Records that a producer's open transaction has changed an entry.
    fn opened(&self, producer_id: i64, cell: &Arc<Cell<K>>) {
        let mut open = self.open.lock();
        let cells = open.entry(producer_id).or_default();
        if !cells.iter().any(|known| Arc::ptr_eq(known, cell)) {
            cells.push(cell.clone());
        }
    }

    /// Accepts no more writes. The writer ends after those that are queued.
    pub(crate) fn close(&self) {
        self.writes.write().take();
    }

    fn arm(self: &Arc<Self>, cell: &Arc<Cell<K>>, slot: &mut Slot<K>, now: Now) {
        let Some(at) = slot.kept.wake_at() else {
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

    /// Called by the writer once a write is durable or has failed.
    pub(crate) fn finish(
        self: &Arc<Self>,
        (cell, outcome): (Arc<Cell<K>>, K::Outcome),
        result: Result<(), K::Error>,
    ) {
        let opened = K::transaction_of(&outcome).filter(|_| result.is_ok());
        let mut outcome = Some(outcome);
        let applied = self.with(&cell, |turn| {
            let outcome = outcome.take();
            outcome.is_some_and(|outcome| turn.kept.apply(outcome, result.clone(), turn.now))
        });
        match (applied, outcome) {
            (Ok(true), _) => self.remove(&cell),
            // A durable write succeeded, even if the shard has resigned meanwhile.
            (Err(resigned), Some(outcome)) => K::answer(outcome, result.map_err(|_| resigned)),
            _ => {
                if let Some(producer_id) = opened {
                    self.opened(producer_id, &cell);
                }
            }
        }
    }

    fn remove(&self, cell: &Arc<Cell<K>>) {
        let Ok(id) = cell.read(|kept| kept.id().to_owned()) else {
            return;
        };
        let mut cells = self.cells.write();
        let Some(cells) = cells.as_mut() else {
            return;
        };
        if cells
            .get(&id)
            .is_some_and(|present| Arc::ptr_eq(present, cell))
        {
            cells.remove(&id);
            self.ground.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes an entry that is empty and has no records in the log.
    pub(crate) fn forget_if_nothing(self: &Arc<Self>, cell: &Arc<Cell<K>>) {
        if self.with(cell, |turn| turn.kept.end_if_nothing(turn.now)) == Ok(true) {
            self.remove(cell);
        }
    }

    /// Tells all entries which topics were deleted while the shard was loaded.
    pub(crate) fn topics_deleted(self: &Arc<Self>, topics: &BTreeSet<TopicName>) {
        for cell in self.cells() {
            let told = self.with(&cell, |turn| {
                for (written, outcome) in turn.kept.topics_deleted(topics) {
                    turn.write(written, outcome);
                }
            });
            // If the shard has resigned, the next coordinator finds the deleted topics itself.
            drop(told);
        }
    }

    /// The live state of an entry; empty once the shard has resigned.
    pub(crate) fn durable(cell: &Cell<K>) -> Vec<Written> {
        cell.read(Kept::durable).unwrap_or_default()
    }

    /// The number of live records.
    pub(crate) fn durable_count(&self) -> usize {
        let cells = self.cells();
        let counts = cells.iter().map(|cell| cell.read(Kept::durable_count));
        counts.flatten().sum()
    }
}

impl<K: Kept> Cell<K> {
    fn new(kept: K, charge: Charge) -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::new(Some(Slot {
                kept,
                charge,
                alarm: None,
            })),
        })
    }

    /// Reads the entry.
    ///
    /// # Errors
    /// The shard has resigned.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&K) -> R) -> Result<R, K::Error> {
        let slot = self.slot.lock();
        let slot = slot.as_ref().ok_or(Unserved::NotCoordinator)?;
        Ok(read(&slot.kept))
    }
}

/// Runs a timer that is due. An entry that is empty afterwards is removed at once, such as a group whose only member never came back
/// with the id that it was given.
fn ring<K: Kept>(shard: &Weak<Shard<K>>, cell: &Weak<Cell<K>>) {
    let (Some(shard), Some(cell)) = (shard.upgrade(), cell.upgrade()) else {
        return;
    };
    match cell.slot.lock().as_mut() {
        Some(slot) => slot.alarm = None,
        None => return,
    }
    if shard.with(&cell, |turn| turn.kept.expire(turn.now)).is_ok() {
        shard.forget_if_nothing(&cell);
    }
}
