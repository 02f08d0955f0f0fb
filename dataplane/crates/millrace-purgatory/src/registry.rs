//! Pending operations, on timing wheels.
//!
//! An operation is stored in its wheel by value. At the rates that this is built for, its cost is
//! the memory that it touches: a separate allocation, or a counter shared between threads, would
//! cost more than the wheel itself. A thread that tries an operation takes it out, leaves its place
//! empty, and puts it back. So two threads never try the same operation, none waits for another, and
//! no lock here is held while the caller's code runs.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use millrace_time::{TimerId, TimingWheel};
use parking_lot::{Mutex, MutexGuard};

use crate::{operation::DelayedOperation, timers::Fired};

/// Number of independently locked wheels: enough that a thread that adds rarely meets one that
/// completes.
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 4;
/// Operations that a thread adds to one wheel before it turns to the next: neighbours in a watch
/// list are found under one lock.
const RUN: usize = 16;
/// Ids that are looked up, or timers that are moved, before other waiters get the lock:
/// some microseconds.
const STEPS_LOCKED: usize = 32;

/// Names an operation in its registry. Stays harmless after the operation is gone.
///
/// From the lowest bit: the shard, the place in the shard's wheel, the generation of the place. One
/// number, because watch lists are full of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationId(u64);

impl OperationId {
    fn new(shard: usize, timer: TimerId) -> Self {
        let (place, generation) = timer.to_parts();
        assert!(
            place >> (u32::BITS - SHARD_BITS) == 0,
            "memory for 2^28 operations in a shard"
        );
        let place = u64::from(place) << SHARD_BITS | shard as u64;
        Self(u64::from(generation) << u32::BITS | place)
    }

    fn shard(self) -> usize {
        (self.0 % SHARDS as u64) as usize
    }

    fn timer(self) -> TimerId {
        let place = (self.0 as u32) >> SHARD_BITS;
        TimerId::from_parts((place, (self.0 >> u32::BITS) as u32))
    }
}

/// The operations that are not completed, by their ids and by their deadlines. An operation is
/// here exactly as long as it waits: completed, it is gone, and all that may stay behind is its id
/// in watch lists.
pub(crate) struct Registry<O> {
    shards: Box<[Apart<Mutex<Shard<O>>>]>,
}

/// Something that lies apart from its neighbours, which other threads use: two cache lines,
/// because processors fetch them in pairs.
#[repr(align(128))]
struct Apart<T>(T);

struct Shard<O> {
    wheel: TimingWheel<Kept<O>>,
    /// Places in watch lists that belong to the operations on the wheel.
    places: usize,
    closed: bool,
}

/// In cache lines of its own, because the thread that adds it and the one that takes it are seldom
/// the same.
#[repr(align(64))]
struct Kept<O> {
    /// Nothing while somebody tries the operation.
    operation: Option<O>,
    places: u32,
    /// Others wanted to try it meanwhile, so it has to be tried again.
    wanted: bool,
    cancelled: bool,
}

/// What came of an insertion.
pub(crate) struct Inserted {
    pub(crate) id: OperationId,
    /// When the wheels must be advanced next.
    pub(crate) next_expiry: u64,
    /// About how many places all operations have that wait.
    pub(crate) places: usize,
}

/// What came of putting an operation back.
enum PutBack<O> {
    Waits,
    Wanted(O),
    Cancelled(O),
    /// It was due meanwhile.
    Expired(O),
}

impl<O> Registry<O> {
    /// An empty registry whose wheels stand at tick `now`.
    pub(crate) fn new(now: u64) -> Self {
        let shard = |_| {
            Apart(Mutex::new(Shard {
                wheel: TimingWheel::new(now),
                places: 0,
                closed: false,
            }))
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    /// Adds an operation; gives it back after [`Self::close`].
    pub(crate) fn insert(&self, deadline: u64, operation: O, places: u32) -> Result<Inserted, O> {
        let index = next_shard();
        let mut shard = self.shards[index].0.lock();
        if shard.closed {
            return Err(operation);
        }
        let kept = Kept {
            operation: Some(operation),
            places,
            wanted: false,
            cancelled: false,
        };
        let timer = shard.wheel.insert(deadline, kept);
        shard.places += places as usize;
        Ok(Inserted {
            id: OperationId::new(index, timer),
            next_expiry: shard.wheel.next_expiry().unwrap_or(u64::MAX),
            // Every thread spreads what it adds evenly.
            places: shard.places << SHARD_BITS,
        })
    }

    /// Takes an operation off, for the caller to end it. Nothing where it does not wait, or is
    /// being tried: then it is tried once more, or forgotten where `cancel` is set.
    pub(crate) fn take(&self, id: OperationId, cancel: bool) -> Option<O> {
        let mut shard = self.shard(id);
        let kept = shard.wheel.get_mut(id.timer())?;
        if kept.operation.is_none() {
            kept.wanted = true;
            kept.cancelled |= cancel;
            return None;
        }
        shard.remove(id.timer())?.operation
    }

    /// Whether an operation waits, or is being tried.
    pub(crate) fn has(&self, id: OperationId) -> bool {
        self.shard(id).wheel.has(id.timer())
    }

    /// Forgets the ids of operations that do not wait.
    pub(crate) fn retain_waiting(&self, ids: &mut Vec<OperationId>) {
        let mut locked: Option<(usize, MutexGuard<'_, Shard<O>>)> = None;
        let mut looked_up = 0;
        ids.retain(|id| {
            looked_up += 1;
            if looked_up % STEPS_LOCKED == 0 {
                locked = None;
            }
            match &locked {
                Some((shard, guard)) if *shard == id.shard() => guard,
                _ => {
                    // The old one first: nobody holds two.
                    locked = None;
                    &locked.insert((id.shard(), self.shard(*id))).1
                }
            }
            .wheel
            .has(id.timer())
        });
    }

    /// Number of operations that wait.
    pub(crate) fn len(&self) -> usize {
        self.shards().map(|shard| shard.lock().wheel.len()).sum()
    }

    /// Number of their places in watch lists.
    pub(crate) fn places(&self) -> usize {
        self.shards().map(|shard| shard.lock().places).sum()
    }

    fn take_turn(&self, id: OperationId) -> Option<O> {
        let mut shard = self.shard(id);
        let kept = shard.wheel.get_mut(id.timer())?;
        let operation = kept.operation.take();
        // The holder tries it for us; a thread that gets the lock now tries it anyway.
        kept.wanted = operation.is_none();
        operation
    }

    fn put_back(&self, id: OperationId, operation: O) -> PutBack<O> {
        let mut shard = self.shard(id);
        let Some(kept) = shard.wheel.get_mut(id.timer()) else {
            return PutBack::Expired(operation);
        };
        if kept.cancelled {
            shard.remove(id.timer());
            PutBack::Cancelled(operation)
        } else if kept.wanted {
            kept.wanted = false;
            PutBack::Wanted(operation)
        } else {
            kept.operation = Some(operation);
            PutBack::Waits
        }
    }

    fn shards(&self) -> impl Iterator<Item = &Mutex<Shard<O>>> {
        self.shards.iter().map(|shard| &shard.0)
    }

    fn shard(&self, id: OperationId) -> MutexGuard<'_, Shard<O>> {
        self.shards[id.shard()].0.lock()
    }
}

impl<O: DelayedOperation> Registry<O> {
    /// Tries an operation; true where this call completed it. Where another thread has it, that
    /// thread tries it again: what the caller knew is checked afterwards, by somebody.
    pub(crate) fn attempt(&self, id: OperationId) -> bool {
        let Some(mut operation) = self.take_turn(id) else {
            return false;
        };
        // Also where the operation panics: it is gone then.
        let leaves = RemoveOnDrop { registry: self, id };
        loop {
            if operation.try_complete() {
                return true;
            }
            match self.put_back(id, operation) {
                PutBack::Wanted(again) => operation = again,
                PutBack::Waits => {
                    std::mem::forget(leaves);
                    return false;
                }
                PutBack::Cancelled(_) => return false,
                PutBack::Expired(operation) => {
                    operation.on_expire();
                    return false;
                }
            }
        }
    }

    /// Expires what is due at tick `now`.
    pub(crate) fn fire_due(&self, now: u64) -> Fired {
        let mut fired = Fired::default();
        let mut due = Vec::new();
        for shard in self.shards() {
            loop {
                let (finished, next_expiry) = {
                    let mut shard = shard.lock();
                    let finished = shard.wheel.advance_some(now, STEPS_LOCKED, &mut due);
                    shard.forget_places(&due);
                    (finished, shard.wheel.next_expiry())
                };
                fired.count += due.len();
                due.drain(..).for_each(expire);
                if finished {
                    fired.expects(next_expiry);
                    break;
                }
            }
        }
        fired
    }

    /// Expires everything; from now on nothing is added.
    pub(crate) fn close(&self) {
        for shard in self.shards() {
            let mut all = Vec::new();
            let mut shard = shard.lock();
            shard.closed = true;
            shard.wheel.drain(&mut all);
            shard.places = 0;
            drop(shard);
            all.into_iter().for_each(expire);
        }
    }
}

/// Ends an operation that is off its wheel. A panic inside stops this one, not those behind it.
fn expire<O: DelayedOperation>(kept: Kept<O>) {
    // Who is trying the operation finds that it was due, and ends it.
    if let Some(operation) = kept.operation {
        let expired = catch_unwind(AssertUnwindSafe(move || operation.on_expire()));
        if expired.is_err() {
            tracing::error!("an expired operation panicked");
        }
    }
}

impl<O> Shard<O> {
    fn remove(&mut self, timer: TimerId) -> Option<Kept<O>> {
        let removed = self.wheel.cancel(timer)?;
        self.places -= removed.places as usize;
        Some(removed)
    }

    fn forget_places(&mut self, expired: &[Kept<O>]) {
        let places = |kept: &Kept<O>| kept.places as usize;
        self.places -= expired.iter().map(places).sum::<usize>();
    }
}

/// Takes an operation off whose turn somebody has.
struct RemoveOnDrop<'a, O> {
    registry: &'a Registry<O>,
    id: OperationId,
}

impl<O> Drop for RemoveOnDrop<'_, O> {
    fn drop(&mut self) {
        self.registry.shard(self.id).remove(self.id.timer());
    }
}

/// The wheels take turns, by runs, for each thread on its own.
fn next_shard() -> usize {
    thread_local! {
        static NEXT: Cell<usize> = const { Cell::new(0) };
    }
    NEXT.with(|next| {
        next.set(next.get().wrapping_add(1));
        next.get() / RUN % SHARDS
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_keeps_its_parts(
            shard in 0..SHARDS,
            place in 0..1u32 << (u32::BITS - SHARD_BITS),
            generation in any::<u32>(),
        ) {
            let timer = TimerId::from_parts((place, generation));
            let id = OperationId::new(shard, timer);
            prop_assert_eq!((id.shard(), id.timer()), (shard, timer));
        }
    }
}
