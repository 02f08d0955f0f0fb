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

use millrace_time::SharedClock;

use crate::{
    operation::{Books, DelayedOperation, Entry},
    timers::Timers,
    watchers::Watchers,
};

/// How a purgatory keeps its lists short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgatoryConfig {
    /// Places of completed operations that may stay in watch lists before all lists are purged.
    /// Large enough that a purge is rare, small enough that what it finds is little memory.
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
/// clone; clones share everything.
///
/// Every operation is completed exactly once. A completed operation leaves the timing wheel at
/// once, and the watch lists when its key is checked next or when enough of them have gathered.
pub struct Purgatory<K, O> {
    shared: Arc<Shared<K, O>>,
}

struct Shared<K, O> {
    watchers: Watchers<K, O>,
    timers: Timers,
    books: Arc<Books>,
    config: PurgatoryConfig,
    closed: AtomicBool,
}

/// An operation that was handed over. Dropping it changes nothing.
pub struct Watched<O> {
    /// None where the operation was complete before it had to wait.
    entry: Option<Arc<Entry<O>>>,
}

impl<K: Hash + Eq + Clone, O: DelayedOperation> Purgatory<K, O> {
    /// An empty purgatory with timers of its own.
    #[must_use]
    pub fn new(clock: SharedClock, config: PurgatoryConfig) -> Self {
        Self::with_timers(Timers::new(clock), config)
    }

    /// An empty purgatory on timers that others use as well.
    #[must_use]
    pub fn with_timers(timers: Timers, config: PurgatoryConfig) -> Self {
        let books = Arc::<Books>::default();
        let watchers = Watchers::new(Arc::clone(&books));
        let closed = AtomicBool::new(false);
        Self {
            shared: Arc::new(Shared {
                watchers,
                timers,
                books,
                config,
                closed,
            }),
        }
    }

    /// Tries the operation; where it cannot be completed now, keeps it until [`Self::check`] of
    /// one of its keys completes it or `timeout` has passed.
    ///
    /// What happens to a key before this call is seen by the operation itself, what happens
    /// during it or later is checked: the operation is tried again once it is in all lists.
    pub fn watch(&self, operation: Arc<O>, keys: &[K], timeout: Duration) -> Watched<O> {
        if operation.try_complete() {
            return Watched { entry: None };
        }
        let Shared {
            watchers,
            timers,
            books,
            closed,
            ..
        } = &*self.shared;
        let entry = Entry::new(operation, timers.clone(), Arc::clone(books));
        for key in keys {
            watchers.add(key, &entry);
        }
        entry.attempt();
        if !entry.is_done() {
            entry.set_timer(timeout);
        }
        if closed.load(SeqCst) {
            entry.expire_now();
        }
        if entry.is_done() {
            // Perhaps completed before it was in all lists, where nobody would look for it.
            keys.iter().for_each(|key| watchers.sweep(key));
        }
        self.purge_if_due();
        Watched { entry: Some(entry) }
    }

    /// Something happened to a key: tries everything that watches it; returns how many operations
    /// this call completed.
    pub fn check(&self, key: &K) -> usize {
        let entries = self.shared.watchers.of(key);
        if entries.is_empty() {
            return 0;
        }
        let completed = entries.iter().filter(|entry| entry.attempt()).count();
        if entries.iter().any(|entry| entry.is_done()) {
            self.shared.watchers.sweep(key);
        }
        self.purge_if_due();
        completed
    }

    /// Number of operations that are not completed.
    #[must_use]
    pub fn delayed(&self) -> usize {
        self.shared.books.delayed.load(SeqCst)
    }

    /// Number of places in watch lists, those of completed operations included.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.shared.books.watched.load(SeqCst)
    }

    /// The timers that this purgatory uses.
    #[must_use]
    pub fn timers(&self) -> &Timers {
        &self.shared.timers
    }

    /// Expires everything that waits; from now on, what cannot be completed at once expires.
    pub fn close(&self) {
        self.shared.closed.store(true, SeqCst);
        for entry in self.shared.watchers.all() {
            entry.expire_now();
        }
        self.shared.watchers.purge();
    }

    fn purge_if_due(&self) {
        let Shared {
            books,
            config,
            watchers,
            ..
        } = &*self.shared;
        let interval = i64::try_from(config.purge_interval).unwrap_or(i64::MAX);
        // Whoever resets the count purges; the others go on.
        let due = |stale: i64| (stale > interval).then_some(0);
        if books.stale.fetch_update(SeqCst, SeqCst, due).is_ok() {
            watchers.purge();
            // What the purge dropped was counted before the reset.
            books.stale.store(0, SeqCst);
        }
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shared.watchers.keys()
    }
}

impl<K, O> Clone for Purgatory<K, O> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K, O> fmt::Debug for Purgatory<K, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Purgatory")
            .field("books", &self.shared.books)
            .finish_non_exhaustive()
    }
}

impl<O: DelayedOperation> Watched<O> {
    /// Whether the operation is completed, expired or cancelled.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.entry.as_ref().is_none_or(|entry| entry.is_done())
    }

    /// Forgets the operation without completing it; false where it is done, or is being
    /// completed at this moment.
    pub fn cancel(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.cancel())
    }
}

impl<O> fmt::Debug for Watched<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("waited", &self.entry.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
