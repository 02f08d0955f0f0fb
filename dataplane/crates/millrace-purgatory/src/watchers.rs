//! Which operations watch which key.

use std::{
    hash::{BuildHasher, Hash},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::registry::{OperationId, Registry};

/// Number of independently locked parts: Kafka's, enough that threads rarely meet.
const SHARDS: usize = 512;
/// A list gives memory back once it uses less than this share of it.
const SPARSE: usize = 4;
/// Keys of one operation that are hashed only once.
const FEW_KEYS: usize = 4;

/// Lists of operations by key, in shards.
///
/// A list holds ids, not operations: a completed operation is dropped at once, though its id stays
/// until the list is swept. A shard is locked before the registry, never after.
pub(crate) struct Watchers<K> {
    shards: Box<[Shard<K>]>,
    /// Seeded at random. Not the standard one, which takes a fifth of the time of adding an
    /// operation: keys name what exists in this broker, not what a stranger sent.
    hasher: RandomState,
    /// Ids in all lists.
    watched: AtomicUsize,
}

struct Shard<K> {
    lists: Mutex<HashTable<List<K>>>,
    /// How often a key of this shard was checked.
    checks: AtomicU64,
}

struct List<K> {
    key: K,
    ids: Vec<OperationId>,
}

/// The keys of an operation that is about to be added, and how often they had been checked.
pub(crate) struct Intent<'a, K> {
    keys: &'a [K],
    /// Of the first keys.
    hashes: [u64; FEW_KEYS],
    checks: u64,
}

/// What came of adding an operation to its lists.
pub(crate) struct Added {
    /// A key may have been checked since the intent, before the operation was in its list.
    pub(crate) overtaken: bool,
    /// Ids in all lists.
    pub(crate) watched: usize,
}

impl<K: Hash + Eq + Clone> Watchers<K> {
    pub(crate) fn new() -> Self {
        let shard = |_| Shard {
            lists: Mutex::default(),
            checks: AtomicU64::new(0),
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            hasher: RandomState::default(),
            watched: AtomicUsize::new(0),
        }
    }

    /// To be called before the operation is tried, and before [`Self::add`].
    pub(crate) fn intend<'a>(&self, keys: &'a [K]) -> Intent<'a, K> {
        let mut hashes = [0; FEW_KEYS];
        let mut checks: u64 = 0;
        for (n, key) in keys.iter().enumerate() {
            let hash = self.hasher.hash_one(key);
            if let Some(kept) = hashes.get_mut(n) {
                *kept = hash;
            }
            checks = checks.wrapping_add(self.shard(hash).checks.load(SeqCst));
        }
        Intent {
            keys,
            hashes,
            checks,
        }
    }

    /// Puts an operation into its lists, and tells whether it has to be tried again.
    ///
    /// A check counts itself before it looks at the list. So either the check was counted when the
    /// intent was, and the operation was tried after what the check is about; or it is counted
    /// here; or it looks at the list later, and finds the operation. Counts only grow, so their
    /// sum tells whether any did.
    pub(crate) fn add(&self, intent: &Intent<'_, K>, id: OperationId) -> Added {
        // Counted first: who sweeps an id subtracts it.
        let before = self.watched.fetch_add(intent.keys.len(), SeqCst);
        let mut checks: u64 = 0;
        for (n, key) in intent.keys.iter().enumerate() {
            let known = intent.hashes.get(n).copied();
            let hash = known.unwrap_or_else(|| self.hasher.hash_one(key));
            let shard = self.shard(hash);
            let mut lists = shard.lists.lock();
            match lists.find_mut(hash, |list| list.key == *key) {
                Some(list) => list.ids.push(id),
                None => {
                    let list = List {
                        key: key.clone(),
                        ids: vec![id],
                    };
                    lists.insert_unique(hash, list, |list| self.hasher.hash_one(&list.key));
                }
            }
            checks = checks.wrapping_add(shard.checks.load(SeqCst));
        }
        Added {
            overtaken: checks != intent.checks,
            watched: before + intent.keys.len(),
        }
    }

    /// The operations that watch a key, copied so that they can be tried without the lock: they
    /// may come back here.
    pub(crate) fn checked(&self, key: &K) -> Vec<OperationId> {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash);
        shard.checks.fetch_add(1, SeqCst);
        let lists = shard.lists.lock();
        let list = lists.find(hash, |list| list.key == *key);
        list.map(|list| list.ids.clone()).unwrap_or_default()
    }

    /// Drops the ids of a key's operations that wait no longer, and the key with the last of them.
    pub(crate) fn sweep<O>(&self, key: &K, registry: &Registry<O>) {
        let hash = self.hasher.hash_one(key);
        let mut lists = self.shard(hash).lists.lock();
        if let Ok(mut list) = lists.find_entry(hash, |list| list.key == *key)
            && !self.keeps_any(&mut list.get_mut().ids, registry)
        {
            list.remove();
        }
    }

    /// Drops the ids of all operations that wait no longer.
    pub(crate) fn purge<O>(&self, registry: &Registry<O>) {
        for shard in &self.shards {
            let mut lists = shard.lists.lock();
            if !lists.is_empty() {
                lists.retain(|list| self.keeps_any(&mut list.ids, registry));
                lists.shrink_to_fit(|list| self.hasher.hash_one(&list.key));
            }
        }
    }

    /// Number of ids in lists, those of completed operations included.
    pub(crate) fn watched(&self) -> usize {
        self.watched.load(SeqCst)
    }

    /// Number of keys that are watched.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        let keys = |shard: &Shard<K>| shard.lists.lock().len();
        self.shards.iter().map(keys).sum()
    }

    /// Sweeps one list; false where it is empty now.
    fn keeps_any<O>(&self, ids: &mut Vec<OperationId>, registry: &Registry<O>) -> bool {
        let before = ids.len();
        registry.retain_waiting(ids);
        self.watched.fetch_sub(before - ids.len(), SeqCst);
        if ids.len() < ids.capacity() / SPARSE {
            ids.shrink_to(2 * ids.len());
        }
        !ids.is_empty()
    }

    fn shard(&self, hash: u64) -> &Shard<K> {
        // The table uses the lowest and the highest bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}
