//! One step of a read: what it needs next, and how much of that is available.

use std::{sync::Arc, time::Duration};

use millrace_budget::Charge;
use millrace_model::Offset;

use super::{ASKED_BYTES_MAX, Arrival, Phase, Slot, State, cost_of, evict::Pressure};
use crate::{
    block::{Block, BlockId},
    config::Eviction,
    queue::Urgency,
    reader::{Place, READER_BLOCKS_MAX, ReaderId},
};

/// Blocks that one step takes; a read of many small ones takes more steps.
const STEP_BLOCKS_MAX: usize = 64;

/// What a read wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The offset that comes next.
    pub(crate) from: Offset,
    /// Entries from here on are not wanted.
    pub(crate) end: Offset,
    /// What it may give, in bytes of payload.
    pub(crate) max_bytes: u64,
    /// Of that, what it has already.
    pub(crate) bytes: u64,
    /// Whether it has an entry, so that it may end here.
    pub(crate) has_entries: bool,
    /// The metadata knows no more than the located blocks.
    pub(crate) is_located: bool,
}

/// What to do next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask the metadata what is there from this offset on.
    Locate(Offset),
    /// Nothing is there up to this offset.
    Nothing(Offset),
    /// Take entries out of these, in this order.
    Take(Vec<Pinned>),
    /// Wait for so many bytes, to load this block.
    Room(Place, u64),
    /// There is no room for more; the read has something.
    End,
}

/// A block that stays for this read.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) id: BlockId,
    pub(crate) generation: u64,
    /// Behind its last entry.
    pub(crate) to: Offset,
    pub(crate) content: Content,
}

/// A block, or what one waits for to have it.
#[derive(Debug)]
pub(crate) enum Content {
    Here(Arc<Block>),
    Coming(Arrival),
}

impl State {
    /// What comes next for a read of `reader`. `room` is what it waited for, if it did.
    pub(crate) fn step(
        &mut self,
        reader: ReaderId,
        ask: &Ask,
        room: &mut Option<Charge>,
        now: Duration,
    ) -> Step {
        let Some(known) = self.readers.get(&reader) else {
            return Step::Locate(ask.from);
        };
        if !known.can_reach(ask.from) {
            return Step::Locate(ask.from);
        }
        let first = known.index_of(ask.from);
        let Some(watched) = known.blocks.get(first) else {
            return Step::Locate(ask.from);
        };
        if watched.located.place.is_none() {
            return Step::Nothing(watched.located.to);
        }
        let (chosen, reaches) = self.choose(reader, first, ask);
        if chosen == 0 {
            return Step::End;
        }
        let known = self.readers.get(&reader);
        let can_locate =
            !ask.is_located && known.is_some_and(|known| known.blocks.len() < READER_BLOCKS_MAX);
        if !reaches && can_locate {
            let end = known.and_then(|known| known.blocks_end());
            return Step::Locate(end.unwrap_or(ask.from));
        }
        self.take(reader, first..first + chosen, ask, room, now)
    }

    /// How many located blocks, from the one at `first` on, the read should take now, and
    /// whether enough blocks were located to tell.
    fn choose(&self, reader: ReaderId, first: usize, ask: &Ask) -> (usize, bool) {
        let Some(known) = self.readers.get(&reader) else {
            return (0, true);
        };
        let wanted = ask.max_bytes.saturating_sub(ask.bytes);
        let (mut chosen, mut sum) = (0, 0_u64);
        for watched in known.blocks.range(first..) {
            let located = &watched.located;
            let Some(place) = located.place.as_ref().filter(|_| located.from < ask.end) else {
                return (chosen, true);
            };
            let resident = self.resident(place.id);
            let bytes = resident.map_or(located.size(), |block| block.bytes_from(ask.from));
            let is_first = chosen == 0 && !ask.has_entries;
            if chosen > 0 && (sum >= wanted || chosen >= STEP_BLOCKS_MAX) {
                return (chosen, true);
            }
            // What is started must be kept until the next read, or be loaded twice.
            let is_partial = sum.saturating_add(bytes) > wanted;
            if !is_first && is_partial && resident.is_none() && self.is_short(ask, located.size()) {
                return (chosen, true);
            }
            chosen += 1;
            sum = sum.saturating_add(bytes);
        }
        let is_all = known.blocks_end().is_some_and(|end| end >= ask.end);
        (chosen, sum >= wanted || is_all)
    }

    /// Whether readers cannot all keep a block that they are in the middle of beside their answers.
    fn is_short(&self, ask: &Ask, block_size: u64) -> bool {
        let readers = self.readers.len().max(1) as u64;
        let asked_bytes = ask.max_bytes.min(ASKED_BYTES_MAX) + block_size;
        self.eviction == Eviction::Watch
            && (self.budget.has_waiters() || self.budget.capacity() / readers < asked_bytes)
    }

    fn resident(&self, id: BlockId) -> Option<&Arc<Block>> {
        match &self.slots.get(&id)?.phase {
            Phase::Resident(block) => Some(block),
            Phase::Coming { .. } => None,
        }
    }

    /// Pins what is there or on its way, and begins to load the rest as far as there is room.
    fn take(
        &mut self,
        reader: ReaderId,
        chosen: std::ops::Range<usize>,
        ask: &Ask,
        room: &mut Option<Charge>,
        now: Duration,
    ) -> Step {
        let mut taken: Vec<Pinned> = Vec::with_capacity(chosen.len());
        let mut waits = false;
        for index in chosen {
            let known = self
                .readers
                .get(&reader)
                .and_then(|known| known.blocks.get(index));
            let Some(located) = known.map(|watched| watched.located.clone()) else {
                break;
            };
            let Some(place) = &located.place else {
                break;
            };
            if !self.slots.contains_key(&place.id) {
                let is_first = taken.is_empty() && !ask.has_entries;
                let Some(charge) = self.room_for(cost_of(&located), is_first, room, now) else {
                    if is_first {
                        return Step::Room(place.clone(), cost_of(&located));
                    }
                    break;
                };
                self.begin(place, Urgency::Miss, charge);
            }
            let Some(content) = self.pin(place.id, &mut waits, reader, now) else {
                break;
            };
            let generation = self.watch(reader, index, place.id);
            taken.push(Pinned {
                id: place.id,
                generation,
                to: located.to,
                content,
            });
        }
        if taken.is_empty() {
            return Step::End;
        }
        if waits && !ask.has_entries {
            self.missed(reader, now);
        }
        Step::Take(taken)
    }

    /// Room for a block that is missing: what the read waited for, or what is free, or what others
    /// give up.
    fn room_for(
        &mut self,
        bytes: u64,
        is_first: bool,
        room: &mut Option<Charge>,
        now: Duration,
    ) -> Option<Charge> {
        if let Some(charge) = room.take_if(|charge| charge.bytes() == bytes) {
            return Some(charge);
        }
        if let Some(charge) = self.budget.try_take(bytes) {
            return Some(charge);
        }
        let pressure = if is_first || self.eviction == Eviction::Lru {
            Pressure::Full
        } else {
            Pressure::Gentle
        };
        if !self.budget.has_waiters() && bytes <= self.budget.capacity() {
            self.make_room(bytes, pressure, now);
        }
        self.budget.try_take(bytes)
    }

    fn pin(
        &mut self,
        id: BlockId,
        waits: &mut bool,
        reader: ReaderId,
        now: Duration,
    ) -> Option<Content> {
        self.raise(id);
        self.rescue(id);
        let slot = self.slots.get_mut(&id)?;
        slot.pins += 1;
        if let Some(used_at) = slot.unwatched_at.take() {
            self.unwatched.remove(&used_at);
        }
        let was_unread = std::mem::take(&mut slot.is_unread);
        match &slot.phase {
            Phase::Resident(block) => {
                self.metrics.hits.add(1);
                if was_unread
                    && slot.was_prefetched
                    && let Some(reader) = self.readers.get_mut(&reader)
                {
                    reader.window.waited(now.saturating_sub(slot.arrived_at));
                }
                Some(Content::Here(Arc::clone(block)))
            }
            Phase::Coming { arrival, .. } => {
                self.metrics.misses.add(1);
                *waits = true;
                Some(Content::Coming(arrival.clone()))
            }
        }
    }

    /// The reader watches a located block. Returns the block's generation.
    pub(super) fn watch(&mut self, reader: ReaderId, index: usize, id: BlockId) -> u64 {
        let eviction = self.eviction;
        if eviction == Eviction::Watch {
            self.rescue(id);
        }
        let (Some(slot), Some(known)) = (self.slots.get_mut(&id), self.readers.get_mut(&reader))
        else {
            return 0;
        };
        let Some(watched) = known.blocks.get_mut(index) else {
            return 0;
        };
        let Slot {
            generation,
            watchers,
            ..
        } = slot;
        let is_watched = index < known.held && watched.generation == *generation;
        if !is_watched && eviction == Eviction::Watch {
            *watchers += 1;
        }
        watched.generation = *generation;
        known.held = known.held.max(index + 1);
        *generation
    }

    /// A reader that reads on had to wait inside its window.
    fn missed(&mut self, reader: ReaderId, now: Duration) {
        let max = self.prefetch_max_bytes;
        if let Some(known) = self.readers.get_mut(&reader)
            && known.went_on > 0
            && !known.window.is_paused(now)
        {
            known.window.missed(max);
        }
    }
}
