//! The purgatory.

use std::{
    fmt,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use millrace_tasks::Supervisor;
use millrace_time::SharedClock;

use crate::{
    operation::DelayedOperation,
    registry::{OperationId, Registry},
    timers::{Fired, Source, Timers},
    watchers::Watchers,
};

/// How a purgatory keeps its lists short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgatoryConfig {
    /// Places of completed operations that may stay in watch lists before all lists are purged;
    /// while more places than that belong to operations that wait, as many as those. So a purge is
    /// rare where there is little to purge, costs a constant per operation where there is much,
    /// and what it finds is little memory: a place is 8 bytes.
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
/// once and is dropped; its id leaves the watch lists when its key is checked next or when enough
/// of them have gathered. The wheels keep the memory of the most operations that ever waited at
/// one time.
pub struct Purgatory<K: Hash + Eq + Clone, O: DelayedOperation> {
    shared: Arc<Shared<K, O>>,
}

struct Shared<K: Hash + Eq + Clone, O: DelayedOperation> {
    watchers: Watchers<K>,
    registry: Registry<O>,
    timers: Timers,
    config: PurgatoryConfig,
    /// Some thread purges; the others go on.
    purging: AtomicBool,
}

/// Names an operation in the purgatory that it was handed to; means nothing to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// None where the operation ended before it had to wait.
    id: Option<OperationId>,
}

impl<K, O> Purgatory<K, O>
where
    K: Hash + Eq + Clone + Send + 'static,
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
            watchers: Watchers::new(),
            registry: Registry::new(timers.now()),
            timers,
            config,
            purging: AtomicBool::new(false),
        });
        let source = Arc::downgrade(&shared);
        shared.timers.add_source(source);
        Self { shared }
    }
}

impl<K: Hash + Eq + Clone, O: DelayedOperation> Purgatory<K, O> {
    /// Tries the operation; where it cannot be completed now, keeps it until [`Self::check`] of
    /// one of its keys completes it or `timeout` has passed.
    ///
    /// What happens to a key before this call is seen by the operation itself, what happens
    /// during it or later is checked: the operation is tried again where a check came before it
    /// was in all lists.
    pub fn watch(&self, operation: O, keys: &[K], timeout: Duration) -> Watched {
        let Shared {
            watchers,
            registry,
            timers,
            ..
        } = &*self.shared;
        let intent = watchers.intend(keys);
        if operation.try_complete() {
            return Watched { id: None };
        }
        let places = u32::try_from(keys.len()).expect("fewer than 2^32 keys fit into memory");
        let inserted = match registry.insert(timers.deadline(timeout), operation, places) {
            Ok(inserted) => inserted,
            Err(closed) => {
                closed.on_expire();
                return Watched { id: None };
            }
        };
        let id = inserted.id;
        let added = watchers.add(&intent, id);
        if added.overtaken {
            registry.attempt(id);
            if !registry.has(id) {
                // Perhaps ended before it was in all lists, where nobody would look for it.
                keys.iter().for_each(|key| watchers.sweep(key, registry));
            }
        }
        timers.wake_by(inserted.next_expiry);
        if self.too_many_stale(added.watched, inserted.places) {
            self.purge_if_due();
        }
        Watched { id: Some(id) }
    }

    /// Something happened to a key: tries everything that watches it; returns how many operations
    /// this call completed.
    pub fn check(&self, key: &K) -> usize {
        let Shared {
            watchers, registry, ..
        } = &*self.shared;
        let ids = watchers.checked(key);
        let completed = ids.iter().filter(|&&id| registry.attempt(id)).count();
        if ids.iter().any(|&id| !registry.has(id)) {
            watchers.sweep(key, registry);
            self.purge_if_due();
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
        self.shared.watchers.watched()
    }

    /// The timers that this purgatory uses.
    #[must_use]
    pub fn timers(&self) -> &Timers {
        &self.shared.timers
    }

    /// Expires everything that waits; from now on, what cannot be completed at once expires.
    pub fn close(&self) {
        self.shared.registry.close();
        self.shared.watchers.purge(&self.shared.registry);
    }

    fn purge_if_due(&self) {
        let Shared {
            watchers,
            registry,
            purging,
            ..
        } = &*self.shared;
        let due = self.too_many_stale(watchers.watched(), registry.places());
        if due && !purging.swap(true, SeqCst) {
            watchers.purge(registry);
            purging.store(false, SeqCst);
        }
    }

    /// The counts need not be exact, nor of one moment.
    fn too_many_stale(&self, watched: usize, of_waiting: usize) -> bool {
        let stale = watched.saturating_sub(of_waiting);
        stale > self.shared.config.purge_interval.max(of_waiting)
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shared.watchers.keys()
    }
}

impl<K, O> Source for Shared<K, O>
where
    K: Hash + Eq + Clone + Send,
    O: DelayedOperation,
{
    fn fire_due(&self, now: u64) -> Fired {
        self.registry.fire_due(now)
    }

    fn pending(&self) -> usize {
        self.registry.len()
    }
}

impl<K: Hash + Eq + Clone, O: DelayedOperation> Drop for Shared<K, O> {
    fn drop(&mut self) {
        self.registry.close();
    }
}

impl<K: Hash + Eq + Clone, O: DelayedOperation> Clone for Purgatory<K, O> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Hash + Eq + Clone, O: DelayedOperation> fmt::Debug for Purgatory<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purgatory")
            .field("delayed", &self.delayed())
            .field("watched", &self.watched())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
