//! Loads each missing value once, however many wait for it, and keeps it within a byte budget.

use std::{collections::HashMap, fmt, hash::Hash, sync::Arc};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use metrics::{Counter, Gauge};
use parking_lot::Mutex;

use crate::lru::Lru;

type Load<V, E> = Shared<BoxFuture<'static, Result<Arc<V>, Arc<E>>>>;
type WeakLoad<V, E> = WeakShared<BoxFuture<'static, Result<Arc<V>, Arc<E>>>>;

/// A cache of loaded values. Those who ask for a value that is being loaded wait for that load and
/// share its outcome, its error too; the next to ask after an error loads again. A load that all
/// have stopped waiting for is dropped.
pub(crate) struct SingleFlight<K, V, E> {
    state: Mutex<State<K, V, E>>,
    metrics: Metrics,
}

struct State<K, V, E> {
    loaded: Lru<K, Arc<V>>,
    loading: HashMap<K, WeakLoad<V, E>>,
}

struct Metrics {
    hits: Counter,
    misses: Counter,
    evictions: Counter,
    bytes: Gauge,
}

impl Metrics {
    fn new() -> Self {
        Self {
            hits: metrics::counter!("millrace_block_index_hits_total"),
            misses: metrics::counter!("millrace_block_index_misses_total"),
            evictions: metrics::counter!("millrace_block_index_evictions_total"),
            bytes: metrics::gauge!("millrace_block_index_bytes"),
        }
    }
}

impl<K, V, E> SingleFlight<K, V, E>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// An empty cache of `budget_bytes`.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let state = State {
            loaded: Lru::new(budget_bytes),
            loading: HashMap::new(),
        };
        Self {
            state: Mutex::new(state),
            metrics: Metrics::new(),
        }
    }

    /// The value of `key`, loaded by `load` where it is missing. `load` gives the value and its
    /// weight in bytes.
    pub(crate) async fn get(
        self: &Arc<Self>,
        key: K,
        load: impl FnOnce() -> BoxFuture<'static, Result<(V, u64), E>>,
    ) -> Result<Arc<V>, Arc<E>> {
        let pending = {
            let mut state = self.state.lock();
            if let Some(value) = state.loaded.get(&key) {
                self.metrics.hits.increment(1);
                return Ok(value);
            }
            self.metrics.misses.increment(1);
            match state.loading.get(&key).and_then(WeakShared::upgrade) {
                Some(pending) => pending,
                None => self.begin(&mut state, key, load()),
            }
        };
        pending.await
    }

    /// Forgets the value of `key`.
    pub(crate) fn forget(&self, key: &K) {
        let mut state = self.state.lock();
        state.loaded.remove(key);
        self.metrics.bytes.set(state.loaded.used_bytes() as f64);
    }

    /// Changes the budget; what is above a smaller one is forgotten.
    pub(crate) fn set_budget(&self, bytes: u64) {
        let mut state = self.state.lock();
        let forgotten = state.loaded.set_budget(bytes);
        self.metrics.evictions.increment(forgotten as u64);
        self.metrics.bytes.set(state.loaded.used_bytes() as f64);
    }

    /// The budget, in bytes.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.state.lock().loaded.budget_bytes()
    }

    /// The weight of all values that are kept, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.state.lock().loaded.used_bytes()
    }

    fn begin(
        self: &Arc<Self>,
        state: &mut State<K, V, E>,
        key: K,
        load: BoxFuture<'static, Result<(V, u64), E>>,
    ) -> Load<V, E> {
        // Loads that nobody waits for any more leave a dead reference; this is where they go.
        state.loading.retain(|_, load| load.upgrade().is_some());
        let this = Arc::clone(self);
        let loaded_key = key.clone();
        let pending = async move { this.settle(loaded_key, load.await) }
            .boxed()
            .shared();
        if let Some(weak) = pending.downgrade() {
            state.loading.insert(key, weak);
        }
        pending
    }

    fn settle(&self, key: K, outcome: Result<(V, u64), E>) -> Result<Arc<V>, Arc<E>> {
        let mut state = self.state.lock();
        state.loading.remove(&key);
        let (value, bytes) = outcome.map_err(Arc::new)?;
        let value = Arc::new(value);
        let forgotten = state.loaded.insert(key, Arc::clone(&value), bytes);
        self.metrics.evictions.increment(forgotten as u64);
        self.metrics.bytes.set(state.loaded.used_bytes() as f64);
        Ok(value)
    }
}

impl<K, V, E> fmt::Debug for SingleFlight<K, V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").finish_non_exhaustive()
    }
}
