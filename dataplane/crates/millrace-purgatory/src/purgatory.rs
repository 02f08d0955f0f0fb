//! The purgatory.

use std::{fmt, hash::Hash, marker::PhantomData, sync::Arc, time::Duration};

use millrace_tasks::Supervisor;
use millrace_time::SharedClock;

use crate::{
    operation::DelayedOperation,
    registry::{Attempt, OperationId, Registry},
    timers::{Fired, Source, Timers},
};

/// How a purgatory keeps its lists short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgatoryConfig {
    /// Places of completed operations that may stay in watch lists before lists are purged; while
    /// more places than that belong to operations that wait, as many as those. So a purge is rare
    /// where there is little to purge, costs a constant per operation where there is much, and what
    /// it finds is little memory: a place is 4 bytes. Every shard has its share of them.
    pub purge_interval: usize,
}

impl Default for PurgatoryConfig {
    /// Kafka's interval.
    fn default() -> Self {
        Self {
            purge_interval: 1_000,
        }
    }
}

/// Operations that wait for something to happen to a key, or for their time to be up. Cheap to
/// clone; clones share everything. Dropping the last clone closes the purgatory.
///
/// Every operation is completed exactly once. A completed operation leaves its timing wheel at
/// once and is dropped; its name leaves the watch lists when its key is checked next or when enough
/// of them have gathered. The wheels keep the memory of the most operations that ever waited at
/// one time.
pub struct Purgatory<K: Hash, O: DelayedOperation> {
    shared: Arc<Shared<K, O>>,
}

struct Shared<K, O: DelayedOperation> {
    registry: Registry<O>,
    timers: Timers,
    /// Keys are borrowed for a call; the purgatory owns none.
    keys: PhantomData<fn(&K)>,
}

/// Names an operation in the purgatory that it was handed to; means nothing to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// None where the operation ended before it had to wait.
    id: Option<OperationId>,
}

impl<K, O> Purgatory<K, O>
where
    K: Hash + 'static,
    O: DelayedOperation,
{
    /// An empty purgatory with timers of its own.
    #[must_use]
    pub fn new(clock: SharedClock, config: PurgatoryConfig) -> Self {
        Self::with_timers(Timers::new(clock, Supervisor::new()), config)
    }

    /// An empty purgatory on timers that others use as well.
    #[must_use]
    pub fn with_timers(timers: Timers, config: PurgatoryConfig) -> Self {
        let shared = Arc::new(Shared {
            registry: Registry::new(timers.now(), config.purge_interval),
            timers,
            keys: PhantomData,
        });
        let source = Arc::downgrade(&shared);
        shared.timers.add_source(source);
        Self { shared }
    }
}

impl<K: Hash, O: DelayedOperation> Purgatory<K, O> {
    /// Tries the operation; where it cannot be completed now, keeps it until [`Self::check`] of
    /// one of its keys completes it or `timeout` has passed.
    ///
    /// What happens to a key before this call is seen by the operation itself, what happens
    /// during it or later is checked: the operation is tried again where a check came before it
    /// was in all lists.
    pub fn watch(&self, operation: O, keys: &[K], timeout: Duration) -> Watched {
        let Shared {
            registry, timers, ..
        } = &*self.shared;
        let intent = registry.keys().intend(keys);
        if operation.try_complete() {
            return Watched { id: None };
        }
        let deadline = timers.deadline(timeout);
        let id = match registry.insert(deadline, operation, &intent) {
            Ok(id) => id,
            Err(closed) => {
                closed.on_expire();
                return Watched { id: None };
            }
        };
        if registry.keys().overtook(&intent) && registry.attempt(id) != Attempt::Waits {
            registry.sweep(id.shard(), intent.hashes(registry.keys()));
        }
        timers.wake_by(deadline);
        Watched { id: Some(id) }
    }

    /// Something happened to a key: tries everything that watches it; returns how many operations
    /// this call completed.
    pub fn check(&self, key: &K) -> usize {
        let registry = &self.shared.registry;
        let hash = registry.keys().hash(key);
        let mut shards = registry.keys().check(hash);
        let mut completed = 0;
        let mut ids = Vec::new();
        while shards != 0 {
            let shard = shards.trailing_zeros() as usize;
            shards &= shards - 1;
            registry.watching(shard, hash, &mut ids);
            let mut some_ended = false;
            for id in ids.drain(..) {
                let came_to = registry.attempt(id);
                completed += usize::from(came_to == Attempt::Completed);
                some_ended |= came_to != Attempt::Waits;
            }
            if some_ended {
                registry.sweep(shard, [hash]);
            }
        }
        completed
    }

    /// Something happened that concerns one operation alone: takes it out, for the caller to
    /// complete. Nothing where it has ended; where it is being tried at this moment, it is tried
    /// once more instead.
    pub fn take(&self, watched: Watched) -> Option<O> {
        self.shared.registry.take(watched.id?, false)
    }

    /// Forgets an operation without completing it; false where it has ended, or is being tried at
    /// this moment: then it is forgotten unless it completes.
    pub fn cancel(&self, watched: Watched) -> bool {
        let id = watched.id;
        id.is_some_and(|id| self.shared.registry.take(id, true).is_some())
    }

    /// Whether an operation has neither been completed nor expired nor been cancelled.
    #[must_use]
    pub fn waits(&self, watched: Watched) -> bool {
        watched.id.is_some_and(|id| self.shared.registry.has(id))
    }

    /// Number of operations that are not completed.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.shared.registry.len()
    }

    /// Number of places in watch lists, those of completed operations included.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.shared.registry.watched()
    }

    /// The timers that this purgatory uses.
    #[must_use]
    pub fn timers(&self) -> &Timers {
        &self.shared.timers
    }

    /// Expires everything that waits; from now on, what cannot be completed at once expires.
    pub fn close(&self) {
        self.shared.registry.close();
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shared.registry.lists()
    }
}

impl<K, O: DelayedOperation> Source for Shared<K, O> {
    fn fire_due(&self, now: u64) -> Fired {
        self.registry.fire_due(now)
    }

    fn pending(&self) -> usize {
        self.registry.len()
    }
}

impl<K, O: DelayedOperation> Drop for Shared<K, O> {
    fn drop(&mut self) {
        self.registry.close();
    }
}

impl<K: Hash, O: DelayedOperation> Clone for Purgatory<K, O> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Hash, O: DelayedOperation> fmt::Debug for Purgatory<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purgatory")
            .field("delayed", &self.delayed())
            .field("watched", &self.watched())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
