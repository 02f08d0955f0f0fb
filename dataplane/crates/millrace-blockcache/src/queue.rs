//! Blocks to be loaded, and which of them share a request.
//!
//! A request costs the store, and the broker, about as much as a mebibyte of data. So nearby blocks
//! of one object that wait for a slot share a request, whichever reads need them; no block is
//! delayed to form one. The oldest block that a reader waits for gets the next slot. Prefetches have
//! their own number of slots, so that prefetches waiting for bandwidth never keep a reader from one.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use millrace_model::ObjectId;

use crate::{block::BlockId, slots::Slots};

/// Of the slots, prefetches have one in so many at most, so that a reader always finds one.
const PREFETCH_PART: usize = 2;

/// The most that one request reads, bytes: above, two requests at a time are faster.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// What a request costs, in bytes that could be read instead. One that a reader waits for takes
/// prefetches along that lie side by side with it, up to this much in all.
const REQUEST_COST_BYTES: u64 = 1 << 20;

/// Of what a request reads, the part that may be of no use, because it lies between what is.
const GAPS_PART: u64 = 32;

/// Whether somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A reader waits for it.
    Miss,
    /// A reader will want it.
    Prefetch,
}

/// Blocks of one object, ascending, that are read by one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) urgency: Urgency,
    pub(crate) blocks: Vec<(BlockId, u32)>,
}

/// What waits and what is under way.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Grows with every block that comes.
    tickets: u64,
    misses: BTreeMap<u64, BlockId>,
    prefetches: BTreeMap<u64, BlockId>,
    /// The same blocks by their place.
    objects: HashMap<ObjectId, BTreeMap<u64, Waiting>>,
    misses_in_flight: usize,
    prefetches_in_flight: usize,
    slots: Slots,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    ticket: u64,
    size: u32,
    urgency: Urgency,
}

impl Queue {
    pub(crate) fn in_flight(&self) -> usize {
        self.misses_in_flight + self.prefetches_in_flight
    }

    /// Adds a block that is not in the queue.
    pub(crate) fn push(&mut self, id: BlockId, size: u32, urgency: Urgency) {
        self.tickets += 1;
        let waiting = Waiting {
            ticket: self.tickets,
            size,
            urgency,
        };
        self.line(urgency).insert(waiting.ticket, id);
        let object = self.objects.entry(id.object).or_default();
        object.insert(id.position, waiting);
    }

    /// Takes a block out; whether it was there.
    pub(crate) fn remove(&mut self, id: BlockId) -> bool {
        self.take(id).is_some()
    }

    /// Somebody waits for this block now.
    pub(crate) fn raise(&mut self, id: BlockId) {
        let object = self.objects.get_mut(&id.object);
        let Some(waiting) = object.and_then(|object| object.get_mut(&id.position)) else {
            return;
        };
        waiting.urgency = Urgency::Miss;
        let ticket = waiting.ticket;
        if self.prefetches.remove(&ticket).is_some() {
            self.misses.insert(ticket, id);
        }
    }

    /// Whether nothing waits for a slot.
    pub(crate) fn is_empty(&self) -> bool {
        self.misses.is_empty() && self.prefetches.is_empty()
    }

    /// Somebody waits for a prefetch that is under way: it counts as a miss from now on.
    pub(crate) fn raised_in_flight(&mut self) {
        self.prefetches_in_flight -= 1;
        self.misses_in_flight += 1;
    }

    /// A request of so many bytes was answered after so long.
    pub(crate) fn answered(&mut self, bytes: u64, took: Duration) {
        self.slots.learn(bytes, took);
    }

    /// A request has ended.
    pub(crate) fn ended(&mut self, urgency: Urgency) {
        match urgency {
            Urgency::Miss => self.misses_in_flight -= 1,
            Urgency::Prefetch => self.prefetches_in_flight -= 1,
        }
    }

    /// The next request, if there is a slot for one.
    pub(crate) fn next_run(&mut self) -> Option<Run> {
        let slots = self.slots.number();
        if self.in_flight() >= slots {
            return None;
        }
        let (first, urgency) = match self.misses.first_key_value() {
            Some((_, &first)) => (first, Urgency::Miss),
            None if self.prefetches_in_flight >= slots / PREFETCH_PART => return None,
            None => (*self.prefetches.first_key_value()?.1, Urgency::Prefetch),
        };
        let blocks = self.neighbours(first, urgency);
        for (id, _) in &blocks {
            self.take(*id);
        }
        match urgency {
            Urgency::Miss => self.misses_in_flight += 1,
            Urgency::Prefetch => self.prefetches_in_flight += 1,
        }
        Some(Run { urgency, blocks })
    }

    /// `first` and what waits around it, as much as one request should read.
    fn neighbours(&self, first: BlockId, urgency: Urgency) -> Vec<(BlockId, u32)> {
        let Some(object) = self.objects.get(&first.object) else {
            return Vec::new();
        };
        let Some(waiting) = object.get(&first.position) else {
            return Vec::new();
        };
        let mut growing = Growing {
            urgency,
            start: first.position,
            end: first.position + u64::from(waiting.size),
            wanted: u64::from(waiting.size),
        };
        let mut blocks = vec![(first, waiting.size)];
        for (&position, next) in object.range(first.position + 1..) {
            if !growing.take(position, next) {
                break;
            }
            let id = BlockId {
                object: first.object,
                position,
            };
            blocks.push((id, next.size));
        }
        let mut before = Vec::new();
        for (&position, next) in object.range(..first.position).rev() {
            if !growing.take(position, next) {
                break;
            }
            let id = BlockId {
                object: first.object,
                position,
            };
            before.push((id, next.size));
        }
        before.reverse();
        before.append(&mut blocks);
        before
    }

    fn take(&mut self, id: BlockId) -> Option<Waiting> {
        let object = self.objects.get_mut(&id.object)?;
        let waiting = object.remove(&id.position)?;
        if object.is_empty() {
            self.objects.remove(&id.object);
        }
        self.line(waiting.urgency).remove(&waiting.ticket);
        Some(waiting)
    }

    fn line(&mut self, urgency: Urgency) -> &mut BTreeMap<u64, BlockId> {
        match urgency {
            Urgency::Miss => &mut self.misses,
            Urgency::Prefetch => &mut self.prefetches,
        }
    }
}

/// A request that takes in neighbours.
struct Growing {
    urgency: Urgency,
    start: u64,
    end: u64,
    wanted: u64,
}

impl Growing {
    /// Takes the next block on either side, unless the request had better end there.
    fn take(&mut self, position: u64, next: &Waiting) -> bool {
        let start = self.start.min(position);
        let end = self.end.max(position + u64::from(next.size));
        let wanted = self.wanted + u64::from(next.size);
        let bound = match (self.urgency, next.urgency) {
            (Urgency::Miss, Urgency::Prefetch) => REQUEST_COST_BYTES,
            _ => REQUEST_BYTES_MAX,
        };
        let gaps = (end - start) - wanted;
        let good = end - start <= bound && gaps <= wanted / GAPS_PART;
        if good {
            (self.start, self.end, self.wanted) = (start, end, wanted);
        }
        good
    }
}

#[cfg(test)]
mod tests;
