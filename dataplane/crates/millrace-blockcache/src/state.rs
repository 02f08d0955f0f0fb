//! Everything that one lock guards: readers, blocks, and the queue of loads.
//!
//! A block is *watched* by the readers whose window contains it, and *pinned* by the reads that wait
//! for it or copy entries from it. It is freed when neither is the case. Nothing here waits.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, future::Shared};
use millrace_budget::{Budget, Charge};
use millrace_model::{Offset, StreamId};
use millrace_objects::ReadError;
use tokio::sync::oneshot;

use crate::{
    block::{Block, BlockId, Decoded, cost},
    config::Eviction,
    in_flight::InFlight,
    metrics::Metrics,
    queue::{Queue, Urgency},
    reader::{Located, Place, READER_BLOCKS_MAX, Reader, ReaderId, Watched},
};

mod evict;
mod prefetch;
mod step;

pub(crate) use step::{Ask, Content, Pinned, Step};

/// Readers at one time; beyond, the one that was used longest ago goes.
const READERS_MAX: usize = 10_000;

/// Blocks that a reader knows of beyond those that it holds when a read is over, at most: the rest of
/// its blocks are soon found again in indexes that are in memory.
const PLAN_AHEAD_MAX: usize = 32;

/// And at least: the next read should not have to ask.
const READER_BLOCKS_AHEAD_MIN: usize = 4;

/// Where there are many readers, they share so many. Readers that came when there were fewer keep
/// theirs until they read on, so all readers together may have three times as many: some 20 MiB, which are in
/// no budget.
const PLANS_AHEAD: usize = 64 << 10;

/// A reader that is not used for so long goes, with what it holds.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The largest answer that a reader is thought to come back for, in bytes.
const ASKED_BYTES_MAX: u64 = 8 << 20;

/// What a load came to.
pub(crate) type Outcome = Result<Arc<Block>, Arc<Failure>>;

/// What one waits for who wants a block that is being loaded.
pub(crate) type Arrival = Shared<oneshot::Receiver<Outcome>>;

/// Why a block did not come.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Arc<ReadError>,
    /// It was a prefetch, which is tried once only.
    pub(crate) was_prefetch: bool,
}

/// A block in memory, or on its way there.
#[derive(Debug)]
struct Slot {
    /// Tells it from others that were in its place before.
    generation: u64,
    size: u32,
    watchers: u32,
    pins: u32,
    /// Nobody has read of it yet.
    is_unread: bool,
    was_prefetched: bool,
    arrived_at: Duration,
    /// Its place in the order of use, where nobody watches it.
    unwatched_at: Option<u64>,
    /// It is on its way, and nobody wants it any more.
    is_abandoned: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Coming {
        charge: Charge,
        place: Place,
        /// The request, once there is one.
        request: Option<Arc<InFlight>>,
        arrival: Arrival,
        arrives: oneshot::Sender<Outcome>,
    },
    Resident(Arc<Block>),
}

/// What went with a block.
struct Dropped {
    /// Its size, if it had been loaded and nobody had read of it.
    wasted: Option<u32>,
    /// What comes free only when the answers that hold slices of it have left, in bytes.
    promised: u64,
}

impl Dropped {
    fn of(slot: Slot) -> Self {
        let (is_resident, promised) = match &slot.phase {
            Phase::Resident(block) if Arc::strong_count(block) > 1 => (true, block.cost()),
            Phase::Resident(_) => (true, 0),
            Phase::Coming { .. } => (false, 0),
        };
        Self {
            wasted: (is_resident && slot.is_unread).then_some(slot.size),
            promised,
        }
    }
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    eviction: Eviction,
    budget: Budget,
    metrics: Arc<Metrics>,
    pub(crate) prefetch_max_bytes: u64,
    readers: HashMap<ReaderId, Reader>,
    /// Readers by where their last read ended, and by where it began.
    positions: HashMap<(StreamId, Offset), Vec<ReaderId>>,
    /// Readers by their last use.
    by_use: BTreeSet<(u64, ReaderId)>,
    /// Readers that hold anything, by their last use.
    holders: BTreeSet<(u64, ReaderId)>,
    /// Readers that hold blocks for a repetition only, by their last use.
    behind: BTreeSet<(u64, ReaderId)>,
    /// Readers that hold blocks that they have not read, by their bytes and their last use.
    ahead: BTreeSet<(u64, u64, ReaderId)>,
    slots: HashMap<BlockId, Slot>,
    /// Blocks that nobody watches, by their last use: resident ones, and those on their way that may
    /// still be taken out of the queue or of their request.
    unwatched: BTreeMap<u64, BlockId>,
    /// What comes free when the blocks have come that nobody wants any more, in bytes.
    abandoned_bytes: u64,
    pub(crate) queue: Queue,
    /// Grows with everything that is numbered here.
    count: u64,
    /// The task that looks for idle readers runs.
    pub(crate) is_swept: bool,
    /// Somebody is about to start what waits in the queue.
    pub(crate) is_dispatching: bool,
}

impl State {
    pub(crate) fn new(
        eviction: Eviction,
        prefetch_max_bytes: u64,
        budget: Budget,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            eviction,
            budget,
            metrics,
            prefetch_max_bytes,
            readers: HashMap::new(),
            positions: HashMap::new(),
            by_use: BTreeSet::new(),
            holders: BTreeSet::new(),
            behind: BTreeSet::new(),
            ahead: BTreeSet::new(),
            slots: HashMap::new(),
            unwatched: BTreeMap::new(),
            abandoned_bytes: 0,
            queue: Queue::default(),
            count: 0,
            is_swept: false,
            is_dispatching: false,
        }
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(crate) fn readers(&self) -> usize {
        self.readers.len()
    }

    /// The prefetch windows of all readers that have read on, in bytes, ascending.
    pub(crate) fn windows(&self) -> Vec<u64> {
        let read_on = self.readers.values().filter(|reader| reader.went_on > 0);
        let mut windows: Vec<_> = read_on.map(|reader| reader.window.bytes()).collect();
        windows.sort_unstable();
        windows
    }

    /// The reader of `stream` at `start`: one that goes on there, else one that began there last,
    /// else a new one. One that goes on lets go of what it has read.
    pub(crate) fn enter(
        &mut self,
        (stream, start): (StreamId, Offset),
        end: Offset,
        max_bytes: u64,
        now: Duration,
    ) -> ReaderId {
        let there = self
            .positions
            .get(&(stream, start))
            .map_or(&[][..], Vec::as_slice);
        let goes_on = |id: &&ReaderId| {
            self.readers
                .get(id)
                .is_some_and(|reader| reader.next == start)
        };
        let found = there
            .iter()
            .find(goes_on)
            .or_else(|| there.first())
            .copied();
        let id = found.unwrap_or_else(|| self.insert(Reader::new(stream, start, now)));
        let Some(reader) = self.readers.get_mut(&id) else {
            return id;
        };
        reader.busy += 1;
        reader.last_use = now;
        reader.end = reader.end.max(end);
        reader.asked_bytes = max_bytes.min(ASKED_BYTES_MAX);
        let moves_on = reader.next == start && reader.start < start;
        if moves_on {
            reader.went_on = reader.went_on.saturating_add(1);
            let old = std::mem::replace(&mut reader.start, start);
            let is_alone = reader.busy == 1;
            self.forget_position(stream, old, id);
            if is_alone {
                self.let_go_before(id, start);
            }
        }
        self.used(id);
        id
    }

    /// A read that began at `start` has come to `next`.
    pub(crate) fn came_to(&mut self, id: ReaderId, start: Offset, next: Offset, now: Duration) {
        let Some(reader) = self.readers.get_mut(&id) else {
            return;
        };
        let (stream, end) = (reader.stream, reader.end);
        if next <= start || next == reader.next {
            return;
        }
        if reader.start == start && reader.next == start {
            reader.next = next;
            self.positions.entry((stream, next)).or_default().push(id);
            return;
        }
        // Another read of the same reader came elsewhere: from now on they are two, unless somebody
        // goes on there already.
        let mut there = self.positions.get(&(stream, next)).into_iter().flatten();
        let goes_on = |id: &ReaderId| self.readers.get(id).is_some_and(|other| other.next == next);
        if there.any(goes_on) {
            return;
        }
        let mut other = Reader::new(stream, start, now);
        (other.next, other.end) = (next, end);
        self.insert(other);
    }

    /// A read begins to wait for room, or no longer does.
    pub(crate) fn set_waiting(&mut self, id: ReaderId, is_waiting: bool) {
        if let Some(reader) = self.readers.get_mut(&id) {
            if is_waiting {
                reader.waiting += 1;
            } else {
                reader.waiting -= 1;
            }
            self.list(id);
        }
    }

    /// A read is over, however it ended.
    pub(crate) fn leave(&mut self, id: ReaderId, now: Duration) {
        let ahead = PLANS_AHEAD / self.readers.len().max(1);
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.busy -= 1;
            reader.last_use = now;
            reader.forget_beyond(ahead.clamp(READER_BLOCKS_AHEAD_MIN, PLAN_AHEAD_MAX));
            self.used(id);
        }
        self.serve_those_who_wait(now);
    }

    fn insert(&mut self, reader: Reader) -> ReaderId {
        if self.readers.len() >= READERS_MAX {
            let idle =
                |&&(_, id): &&(u64, ReaderId)| self.readers.get(&id).is_some_and(|r| r.busy == 0);
            if let Some((_, oldest)) = self.by_use.iter().find(idle).copied() {
                self.drop_reader(oldest);
            }
        }
        let id = self.number();
        let Reader {
            stream,
            start,
            next,
            ..
        } = reader;
        self.positions.entry((stream, start)).or_default().push(id);
        if next != start {
            self.positions.entry((stream, next)).or_default().push(id);
        }
        self.readers.insert(id, reader);
        self.used(id);
        id
    }

    fn forget_position(&mut self, stream: StreamId, offset: Offset, id: ReaderId) {
        if let Some(there) = self.positions.get_mut(&(stream, offset)) {
            there.retain(|&other| other != id);
            if there.is_empty() {
                self.positions.remove(&(stream, offset));
            }
        }
    }

    fn drop_reader(&mut self, id: ReaderId) {
        self.forget_blocks(id);
        if let Some(reader) = self.readers.remove(&id) {
            self.forget_position(reader.stream, reader.start, id);
            self.forget_position(reader.stream, reader.next, id);
            self.unlist(id, reader.listed);
        }
    }

    /// Drops the readers that nobody has used for long, and blocks that nobody has.
    pub(crate) fn expire(&mut self, now: Duration) {
        let reader = |&(_, id): &(u64, ReaderId)| Some((id, self.readers.get(&id)?));
        let by_use = self.by_use.iter().filter_map(reader);
        let is_idle = |(_, reader): &(_, &Reader)| now.saturating_sub(reader.last_use) >= IDLE;
        let idle = by_use
            .take_while(is_idle)
            .filter(|(_, reader)| reader.busy == 0);
        let idle: Vec<_> = idle.map(|(id, _)| id).collect();
        for id in idle {
            self.drop_reader(id);
        }
        if self.readers.is_empty() {
            while self.evict_unwatched().is_some() {}
        }
        self.serve_those_who_wait(now);
    }

    /// A request will not bring a block: it ended without settling it.
    pub(crate) fn abandon(&mut self, id: BlockId, request: &Arc<InFlight>) {
        if self.is_of(id, request) {
            self.rescue(id);
            self.keep(id);
            self.slots.remove(&id);
        }
    }

    /// A request is sent, with those of its blocks that somebody wanted until now. From now on it is
    /// too late to take one out of it.
    pub(crate) fn admit(&mut self, request: &Arc<InFlight>, places: &mut Vec<Place>) {
        request.admit();
        places.retain(|place| self.is_of(place.id, request));
        for place in places {
            self.keep(place.id);
        }
    }

    /// A block can no longer go merely because nobody watches it.
    fn keep(&mut self, id: BlockId) {
        if let Some(slot) = self.slots.get_mut(&id)
            && let Some(used_at) = slot.unwatched_at.take()
        {
            self.unwatched.remove(&used_at);
        }
    }

    /// Whether a block is to come by this request.
    fn is_of(&self, id: BlockId, request: &Arc<InFlight>) -> bool {
        let phase = self.slots.get(&id).map(|slot| &slot.phase);
        matches!(phase, Some(Phase::Coming { request: Some(by), .. }) if Arc::ptr_eq(by, request))
    }

    /// Whether there is nothing that could expire.
    pub(crate) fn is_idle(&self) -> bool {
        self.readers.is_empty() && self.slots.is_empty()
    }

    /// Notes a use of the reader.
    fn used(&mut self, id: ReaderId) {
        let used_at = self.number();
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.used_at = used_at;
        }
        self.list(id);
    }

    /// Whether what stands at `from` would continue the located blocks of a reader, or start them where it goes on.
    pub(crate) fn can_extend(&self, id: ReaderId, from: Offset) -> bool {
        let continues = |reader: &Reader| {
            reader
                .blocks_end()
                .map_or(reader.next == from, |end| end == from)
        };
        self.readers.get(&id).is_some_and(continues)
    }

    /// Appends the blocks that follow at `from`, as the metadata says. Replaces the reader's blocks if they
    /// does not continue it.
    pub(crate) fn extend_blocks(&mut self, id: ReaderId, from: Offset, found: Vec<Located>) {
        let Some(reader) = self.readers.get(&id) else {
            return;
        };
        if reader.blocks_end().is_some_and(|end| end != from) {
            if reader.can_reach(from) {
                return;
            }
            self.forget_blocks(id);
        }
        if self
            .readers
            .get(&id)
            .is_some_and(|reader| reader.blocks.len() >= READER_BLOCKS_MAX)
        {
            // A read that is longer than the list of blocks may be: what it has passed will not be repeated.
            self.forget_blocks(id);
        }
        if let Some(reader) = self.readers.get_mut(&id) {
            let room = READER_BLOCKS_MAX - reader.blocks.len();
            let watched = |located| Watched {
                located,
                generation: 0,
            };
            reader
                .blocks
                .extend(found.into_iter().take(room).map(watched));
        }
    }

    /// Forgets what a reader was going to read: the metadata is asked again.
    pub(crate) fn forget_blocks(&mut self, id: ReaderId) {
        let Some(reader) = self.readers.get_mut(&id) else {
            return;
        };
        let held = std::mem::take(&mut reader.held);
        let blocks = std::mem::take(&mut reader.blocks);
        for watched in blocks.into_iter().take(held) {
            self.unwatch(&watched);
        }
        self.list(id);
    }

    /// The same for all readers of a stream.
    pub(crate) fn forget_stream(&mut self, stream: StreamId) {
        let of_stream = self
            .readers
            .iter()
            .filter(|(_, reader)| reader.stream == stream);
        let ids: Vec<ReaderId> = of_stream.map(|(&id, _)| id).collect();
        for id in ids {
            self.forget_blocks(id);
        }
    }

    /// Lets go of what a reader has read through.
    fn let_go_before(&mut self, id: ReaderId, offset: Offset) {
        while let Some(reader) = self.readers.get_mut(&id) {
            let passed = reader
                .blocks
                .front()
                .is_some_and(|first| first.located.to <= offset);
            if !passed {
                break;
            }
            let Some(first) = reader.blocks.pop_front() else {
                break;
            };
            if reader.held > 0 {
                reader.held -= 1;
                self.unwatch(&first);
            }
        }
    }

    /// One reader less watches a block; it goes when he was the last.
    fn unwatch(&mut self, watched: &Watched) -> Option<Dropped> {
        let id = watched.located.place.as_ref()?.id;
        let slot = self.slots.get_mut(&id)?;
        if slot.generation != watched.generation || self.eviction == Eviction::Lru {
            return None;
        }
        slot.watchers -= 1;
        self.drop_if_unwanted(id)
    }

    /// Drops a block that nobody watches and nobody waits for. One whose request has been sent stays
    /// until it has come; one whose request still waits for bandwidth, maybe for long, is taken out.
    fn drop_if_unwanted(&mut self, id: BlockId) -> Option<Dropped> {
        let slot = self.slots.get_mut(&id)?;
        if slot.watchers > 0 || slot.pins > 0 {
            return None;
        }
        match &slot.phase {
            Phase::Coming {
                request: Some(request),
                charge,
                ..
            } if request.is_admitted() => {
                if !std::mem::replace(&mut slot.is_abandoned, true) {
                    self.abandoned_bytes += charge.bytes();
                }
                return None;
            }
            Phase::Coming {
                request: Some(request),
                ..
            } => request.lose_one(),
            Phase::Coming { request: None, .. } => {
                self.queue.remove(id);
            }
            Phase::Resident(_) if self.eviction == Eviction::Lru => {
                let used_at = self.number();
                self.unwatched.insert(used_at, id);
                if let Some(slot) = self.slots.get_mut(&id) {
                    slot.unwatched_at = Some(used_at);
                }
                return None;
            }
            Phase::Resident(_) => {}
        }
        self.slots.remove(&id).map(Dropped::of)
    }

    /// Somebody wants a block again.
    fn rescue(&mut self, id: BlockId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut slot.is_abandoned)
            && let Phase::Coming { charge, .. } = &slot.phase
        {
            self.abandoned_bytes -= charge.bytes();
        }
    }

    /// A read no longer needs a block.
    pub(crate) fn unpin(&mut self, id: BlockId, generation: u64) {
        if let Some(slot) = self.slots.get_mut(&id)
            && slot.generation == generation
        {
            slot.pins -= 1;
            self.drop_if_unwanted(id);
        }
    }

    /// Begins to load a block that is not there.
    fn begin(&mut self, place: &Place, urgency: Urgency, charge: Charge) -> &mut Slot {
        let generation = self.number();
        self.queue.push(place.id, place.block.size, urgency);
        let (arrives, arrival) = oneshot::channel();
        // Where nobody watches, what was not read yet goes by its age too.
        let is_unwatched = self.eviction == Eviction::Lru && urgency == Urgency::Prefetch;
        if is_unwatched {
            self.unwatched.insert(generation, place.id);
        }
        let slot = Slot {
            generation,
            size: place.block.size,
            watchers: 0,
            pins: 0,
            is_unread: true,
            was_prefetched: urgency == Urgency::Prefetch,
            arrived_at: Duration::ZERO,
            unwatched_at: is_unwatched.then_some(generation),
            is_abandoned: false,
            phase: Phase::Coming {
                charge,
                place: place.clone(),
                request: None,
                arrival: arrival.shared(),
                arrives,
            },
        };
        self.slots.entry(place.id).insert_entry(slot).into_mut()
    }

    /// The next request to be sent, with where its blocks stand.
    pub(crate) fn next_request(&mut self) -> Option<(Vec<Place>, Arc<InFlight>)> {
        let run = self.queue.next_run()?;
        let in_flight = InFlight::new(run.urgency, run.blocks.len());
        let mut places = Vec::with_capacity(run.blocks.len());
        for (id, _) in run.blocks {
            let slot = self.slots.get_mut(&id).map(|slot| &mut slot.phase);
            if let Some(Phase::Coming { place, request, .. }) = slot {
                *request = Some(Arc::clone(&in_flight));
                places.push(place.clone());
            }
        }
        if in_flight.is_admitted() {
            self.admit(&in_flight, &mut places);
        }
        Some((places, in_flight))
    }

    /// A block has come, or has not.
    pub(crate) fn settle(
        &mut self,
        id: BlockId,
        loaded: Result<Decoded, Arc<Failure>>,
        now: Duration,
    ) {
        // Those that nobody wanted are no longer on their way.
        self.rescue(id);
        let Some(mut slot) = self.slots.remove(&id) else {
            return;
        };
        let Phase::Coming {
            charge, arrives, ..
        } = slot.phase
        else {
            self.slots.insert(id, slot);
            return;
        };
        let block = match loaded {
            Ok(decoded) => decoded.charged(charge),
            Err(failure) => {
                // A reader that watches it notices that it is missing when it needs it.
                let _nobody_waits = arrives.send(Err(failure));
                return;
            }
        };
        let _nobody_waits = arrives.send(Ok(Arc::clone(&block)));
        slot.phase = Phase::Resident(block);
        slot.arrived_at = now;
        self.slots.insert(id, slot);
        if let Some(Dropped {
            wasted: Some(size), ..
        }) = self.drop_if_unwanted(id)
        {
            self.metrics.evicted_unread(size);
        }
    }

    /// Somebody waits for a block that is on its way.
    fn raise(&mut self, id: BlockId) {
        let phase = self.slots.get(&id).map(|slot| &slot.phase);
        match phase {
            Some(Phase::Coming { request: None, .. }) => self.queue.raise(id),
            Some(Phase::Coming {
                request: Some(request),
                ..
            }) if request.raise() => {
                self.queue.raised_in_flight();
            }
            _ => {}
        }
    }
}

/// What a block costs in memory, bytes; 0 where compaction has left nothing.
fn cost_of(located: &Located) -> u64 {
    located.place.as_ref().map_or(0, |place| cost(&place.block))
}

#[cfg(test)]
mod tests;
