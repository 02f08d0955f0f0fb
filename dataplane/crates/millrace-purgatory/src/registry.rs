//! Pending operations, on timing wheels and in watch lists, in shards.
//!
//! An operation belongs to the shard that its thread adds to at that moment: there, under one lock,
//! it is put on the wheel and into the lists of all its keys. A check looks at the shards that have
//! lists for the key, and there are none for most keys at most times.
//!
//! An operation is stored in its wheel by value. At the rates that this is built for, its cost is
//! the memory that it touches: a separate allocation, or a counter shared between threads, would
//! cost more than the wheel itself. A thread that tries an operation takes it out, leaves its place
//! empty, and puts it back. So two threads never try the same operation, none waits for another, and
//! no lock here is held while an operation runs. Only keys are hashed and compared under a lock.

use std::{
    cell::Cell,
    hash::Hash,
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use millrace_time::{TimerId, TimingWheel};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    keys::{Intent, Keys, Presence},
    operation::DelayedOperation,
    timers::Fired,
    watchers::{Watcher, Watchers},
};

/// Number of independently locked parts: enough that a thread that adds rarely meets one that
/// completes. One for each bit of [`Keys::check`].
const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 6;
/// Operations that a thread adds to one shard before it turns to the next: the shard's lists and
/// counts stay in that thread's cache meanwhile.
const RUN: usize = 128;
/// Shards between those of two threads that begin to add: they do not follow each other.
const STRIDE: usize = 23;
/// Timers that are moved before other waiters get the lock: some microseconds.
const STEPS_LOCKED: usize = 32;

/// Names an operation in its registry. Stays harmless after the operation is gone.
///
/// From the lowest bit: the shard, the place in the shard's wheel, the generation of the place; all
/// bits turned over, so that the number is never 0 and an optional id is no larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationId(NonZeroU64);

impl OperationId {
    fn new(shard: usize, timer: TimerId) -> Self {
        let (place, generation) = timer.to_parts();
        let of_place = u64::from(place) << SHARD_BITS | shard as u64;
        let turned = !(u64::from(generation) << u32::BITS | of_place);
        let id = NonZeroU64::new(turned).filter(|_| place >> Watcher::PLACE_BITS == 0);
        Self(id.expect("memory for fewer than 2^22 operations in a shard"))
    }

    pub(crate) fn shard(self) -> usize {
        (!self.0.get() % SHARDS as u64) as usize
    }

    fn timer(self) -> TimerId {
        let bits = !self.0.get();
        TimerId::from_parts(((bits as u32) >> SHARD_BITS, (bits >> u32::BITS) as u32))
    }
}

/// The operations that are not completed, by their ids, their deadlines and their keys. An operation
/// is here exactly as long as it waits: completed, it is gone, and all that may stay behind is its
/// name in watch lists.
pub(crate) struct Registry<O> {
    shards: Box<[Apart<Mutex<Shard<O>>>]>,
    keys: Keys,
    /// Names of completed operations that may stay in a shard's lists, where there are not as many
    /// of waiting ones.
    stale_max: usize,
}

/// Something that lies apart from its neighbours, which other threads use: two cache lines,
/// because processors fetch them in pairs.
#[repr(align(128))]
struct Apart<T>(T);

struct Shard<O> {
    wheel: TimingWheel<Kept<O>>,
    watchers: Watchers,
    /// Places in watch lists that belong to operations on the wheel.
    places: usize,
    /// About how many places in watch lists belong to operations that are gone.
    stale: usize,
    closed: bool,
}

struct Kept<O> {
    /// Nothing while somebody tries the operation.
    operation: Option<O>,
    places: u32,
    /// Others wanted to try it meanwhile, so it has to be tried again.
    wanted: bool,
    cancelled: bool,
}

/// What came of putting an operation back.
enum PutBack<O> {
    Waits,
    Wanted(O),
    Cancelled(O),
    /// It was due meanwhile.
    Expired(O),
}

/// What came of an attempt to complete an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// This call completed it.
    Completed,
    /// It ended otherwise, now or earlier.
    Ended,
    /// It waits, or another thread has it and tries it again.
    Waits,
}

impl<O> Registry<O> {
    /// An empty registry whose wheels stand at tick `now`.
    pub(crate) fn new(now: u64, purge_interval: usize) -> Self {
        let shard = |_| {
            Apart(Mutex::new(Shard {
                wheel: TimingWheel::new(now),
                watchers: Watchers::new(),
                places: 0,
                stale: 0,
                closed: false,
            }))
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            keys: Keys::new(),
            stale_max: purge_interval / SHARDS,
        }
    }

    /// The keys of operations.
    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Adds an operation; gives it back after [`Self::close`].
    pub(crate) fn insert<K: Hash>(
        &self,
        deadline: u64,
        operation: O,
        intent: &Intent<'_, K>,
    ) -> Result<OperationId, O> {
        let index = next_shard();
        let presence = self.keys.presence(index);
        let mut shard = self.shards[index].0.lock();
        if shard.closed {
            return Err(operation);
        }
        let places = intent.len();
        let kept = Kept {
            operation: Some(operation),
            places: u32::try_from(places).expect("fewer than 2^32 keys fit into memory"),
            wanted: false,
            cancelled: false,
        };
        shard.places += places;
        let timer = shard.wheel.insert(deadline, kept);
        let id = OperationId::new(index, timer);
        for hash in intent.hashes(&self.keys) {
            shard.watchers.add(hash, Watcher::new(timer), presence);
        }
        Ok(id)
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
        self.remove(&mut shard, id)?.operation
    }

    /// Whether an operation waits, or is being tried.
    pub(crate) fn has(&self, id: OperationId) -> bool {
        self.shard(id).wheel.has(id.timer())
    }

    /// The operations of a shard that watch a key, copied to `ids` so that they can be tried without
    /// the lock: they may come back here. Forgets those that do not wait.
    pub(crate) fn watching(&self, shard: usize, hash: u64, ids: &mut Vec<OperationId>) {
        let mut locked = self.shards[shard].0.lock();
        locked.sweep(hash, self.keys.presence(shard), |timer| {
            ids.push(OperationId::new(shard, timer));
        });
    }

    /// Forgets that an operation that does not wait watched keys, as others did that end with it.
    pub(crate) fn sweep(&self, shard: usize, hashes: impl IntoIterator<Item = u64>) {
        let mut locked = self.shards[shard].0.lock();
        for hash in hashes {
            locked.sweep(hash, self.keys.presence(shard), |_| ());
        }
    }

    /// Number of operations that wait.
    pub(crate) fn len(&self) -> usize {
        self.shards().map(|shard| shard.lock().wheel.len()).sum()
    }

    /// Number of places in watch lists, those of completed operations included.
    pub(crate) fn watched(&self) -> usize {
        self.shards().map(|shard| shard.lock().watchers.len()).sum()
    }

    /// Number of lists.
    #[cfg(test)]
    pub(crate) fn lists(&self) -> usize {
        self.shards()
            .map(|shard| shard.lock().watchers.keys())
            .sum()
    }

    fn take_turn(&self, id: OperationId) -> Result<O, Attempt> {
        let mut shard = self.shard(id);
        let kept = shard.wheel.get_mut(id.timer()).ok_or(Attempt::Ended)?;
        let operation = kept.operation.take();
        // The holder tries it for us; a thread that gets the lock now tries it anyway.
        kept.wanted = operation.is_none();
        operation.ok_or(Attempt::Waits)
    }

    fn put_back(&self, id: OperationId, operation: O) -> PutBack<O> {
        let mut shard = self.shard(id);
        let Some(kept) = shard.wheel.get_mut(id.timer()) else {
            return PutBack::Expired(operation);
        };
        if kept.cancelled {
            self.remove(&mut shard, id);
            PutBack::Cancelled(operation)
        } else if kept.wanted {
            kept.wanted = false;
            PutBack::Wanted(operation)
        } else {
            kept.operation = Some(operation);
            PutBack::Waits
        }
    }

    fn remove(&self, shard: &mut Shard<O>, id: OperationId) -> Option<Kept<O>> {
        let removed = shard.wheel.cancel(id.timer())?;
        self.forget_places(shard, id.shard(), removed.places as usize);
        Some(removed)
    }

    /// Operations are off the wheel. Purges the lists where too many names have gathered in them:
    /// so a purge costs a constant per operation.
    fn forget_places(&self, shard: &mut Shard<O>, index: usize, places: usize) {
        shard.places -= places;
        shard.stale += places;
        if shard.stale > self.stale_max.max(shard.places) {
            shard.purge(self.keys.presence(index));
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
    /// Tries an operation. Where another thread has it, that thread tries it again: what the caller
    /// knew is checked afterwards, by somebody.
    pub(crate) fn attempt(&self, id: OperationId) -> Attempt {
        let mut operation = match self.take_turn(id) {
            Ok(operation) => operation,
            Err(came_to) => return came_to,
        };
        // Also where the operation panics: it is gone then.
        let leaves = RemoveOnDrop { registry: self, id };
        loop {
            if operation.try_complete() {
                return Attempt::Completed;
            }
            match self.put_back(id, operation) {
                PutBack::Wanted(again) => operation = again,
                PutBack::Waits => {
                    std::mem::forget(leaves);
                    return Attempt::Waits;
                }
                PutBack::Cancelled(_) => return Attempt::Ended,
                PutBack::Expired(operation) => {
                    operation.on_expire();
                    return Attempt::Ended;
                }
            }
        }
    }

    /// Expires what is due at tick `now`.
    pub(crate) fn fire_due(&self, now: u64) -> Fired {
        let mut fired = Fired::default();
        let mut due = Vec::new();
        for (index, shard) in self.shards().enumerate() {
            loop {
                let (finished, next_expiry) = {
                    let mut shard = shard.lock();
                    let finished = shard.wheel.advance_some(now, STEPS_LOCKED, &mut due);
                    let places = |kept: &Kept<O>| kept.places as usize;
                    let places = due.iter().map(places).sum();
                    self.forget_places(&mut shard, index, places);
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
        for (index, shard) in self.shards().enumerate() {
            let mut all = Vec::new();
            let mut shard = shard.lock();
            shard.closed = true;
            shard.wheel.drain(&mut all);
            shard.places = 0;
            shard.purge(self.keys.presence(index));
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
    /// Forgets who watched a key and does not wait; tells `waits` of the others.
    fn sweep(&mut self, hash: u64, presence: Presence<'_>, mut waits: impl FnMut(TimerId)) {
        let wheel = &self.wheel;
        let dropped = self.watchers.sweep(hash, presence, |watcher| {
            let timer = wheel.id_at(watcher.place());
            let keep = Watcher::new(timer) == watcher;
            if keep {
                waits(timer);
            }
            keep
        });
        self.stale = self.stale.saturating_sub(dropped);
    }

    /// Forgets all who do not wait.
    fn purge(&mut self, presence: Presence<'_>) {
        let wheel = &self.wheel;
        self.watchers.purge(presence, |watcher| {
            Watcher::new(wheel.id_at(watcher.place())) == watcher
        });
        self.stale = 0;
    }
}

/// Takes an operation off whose turn somebody has.
struct RemoveOnDrop<'a, O> {
    registry: &'a Registry<O>,
    id: OperationId,
}

impl<O> Drop for RemoveOnDrop<'_, O> {
    fn drop(&mut self) {
        let mut shard = self.registry.shard(self.id);
        self.registry.remove(&mut shard, self.id);
    }
}

/// The shards take turns, by runs, for each thread on its own.
fn next_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NEXT: Cell<usize> =
            Cell::new(THREADS.fetch_add(1, Relaxed).wrapping_mul(STRIDE * RUN));
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
            place in 0..1u32 << Watcher::PLACE_BITS,
            generation in any::<u32>(),
        ) {
            let timer = TimerId::from_parts((place, generation));
            let id = OperationId::new(shard, timer);
            prop_assert_eq!((id.shard(), id.timer()), (shard, timer));
            prop_assert_eq!(Watcher::new(timer).place(), place);
        }
    }
}
