//! Who watches which key.

use std::{
    collections::{HashMap, hash_map},
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, atomic::Ordering::SeqCst},
};

use parking_lot::Mutex;

use crate::operation::{Books, DelayedOperation, Entry};

/// Number of independently locked parts: Kafka's, enough that threads rarely meet.
const SHARDS: usize = 512;

type Lists<K, O> = HashMap<K, Vec<Arc<Entry<O>>>>;

/// Lists of operations by key, in shards.
pub(crate) struct Watchers<K, O> {
    shards: Box<[Mutex<Lists<K, O>>]>,
    hasher: RandomState,
    books: Arc<Books>,
}

impl<K: Hash + Eq + Clone, O: DelayedOperation> Watchers<K, O> {
    pub(crate) fn new(books: Arc<Books>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            hasher: RandomState::new(),
            books,
        }
    }

    /// Puts an operation into a key's list.
    pub(crate) fn add(&self, key: &K, entry: &Arc<Entry<O>>) {
        let mut lists = self.shard(key).lock();
        entry.lists.fetch_add(1, SeqCst);
        self.books.watched.fetch_add(1, SeqCst);
        lists
            .entry(key.clone())
            .or_default()
            .push(Arc::clone(entry));
    }

    /// The operations that watch a key, copied so that they can be tried without the lock: they
    /// may come back here.
    pub(crate) fn of(&self, key: &K) -> Vec<Arc<Entry<O>>> {
        self.shard(key).lock().get(key).cloned().unwrap_or_default()
    }

    /// Drops a key's completed operations, and the key with the last of them.
    pub(crate) fn sweep(&self, key: &K) {
        let mut lists = self.shard(key).lock();
        if let hash_map::Entry::Occupied(mut list) = lists.entry(key.clone()) {
            self.drop_done(list.get_mut());
            if list.get().is_empty() {
                list.remove();
            }
        }
    }

    /// Drops all completed operations.
    pub(crate) fn purge(&self) {
        for shard in &self.shards {
            let mut lists = shard.lock();
            lists.retain(|_, list| {
                self.drop_done(list);
                !list.is_empty()
            });
            lists.shrink_to_fit();
        }
    }

    /// Every operation, once per key that it watches.
    pub(crate) fn all(&self) -> Vec<Arc<Entry<O>>> {
        let of_shard = |shard: &Mutex<Lists<K, O>>| {
            shard
                .lock()
                .values()
                .flatten()
                .map(Arc::clone)
                .collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// Number of keys that are watched.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn drop_done(&self, list: &mut Vec<Arc<Entry<O>>>) {
        let before = list.len();
        list.retain(|entry| !entry.is_done());
        let dropped = before - list.len();
        self.books.watched.fetch_sub(dropped, SeqCst);
        self.books
            .stale
            .fetch_sub(i64::try_from(dropped).unwrap_or(i64::MAX), SeqCst);
    }

    fn shard(&self, key: &K) -> &Mutex<Lists<K, O>> {
        let hash = self.hasher.hash_one(key) as usize;
        &self.shards[hash % SHARDS]
    }
}
