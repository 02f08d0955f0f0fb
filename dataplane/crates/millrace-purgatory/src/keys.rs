//! What all shards know of keys: how often a key was checked, and which shards have operations
//! that watch it.

use std::{
    hash::{BuildHasher, Hash},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use foldhash::fast::RandomState;

/// Keys share a bucket where their hashes do. Enough that keys in use at the same time seldom do.
const BUCKETS: usize = 256;
/// Keys of one operation that are hashed only once.
const FEW_KEYS: usize = 4;

/// The buckets of all keys.
pub(crate) struct Keys {
    buckets: Box<[Bucket]>,
    /// Seeded at random. Not the standard one, which takes a fifth of the time of adding an
    /// operation: keys name what exists in this broker, not what a stranger sent.
    hasher: RandomState,
}

/// In a cache line of its own: threads check different keys at the same time.
#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    /// How often a key of this bucket was checked.
    checks: AtomicU64,
    /// Bit n is set while shard n has a list for a key of this bucket. Changes under that shard's
    /// lock.
    shards: AtomicU64,
}

/// The keys of an operation that is about to be added, and how often they had been checked.
pub(crate) struct Intent<'a, K> {
    keys: &'a [K],
    /// Of the first keys.
    hashes: [u64; FEW_KEYS],
    checks: u64,
}

/// One shard's side of the buckets, for who holds its lock.
#[derive(Clone, Copy)]
pub(crate) struct Presence<'a> {
    keys: &'a Keys,
    shard: usize,
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    pub(crate) fn hash<K: Hash>(&self, key: &K) -> u64 {
        self.hasher.hash_one(key)
    }

    /// To be called before an operation is tried, and before it is added.
    pub(crate) fn intend<'a, K: Hash>(&self, keys: &'a [K]) -> Intent<'a, K> {
        let mut intent = Intent {
            keys,
            hashes: [0; FEW_KEYS],
            checks: 0,
        };
        for (kept, key) in intent.hashes.iter_mut().zip(keys) {
            *kept = self.hash(key);
        }
        intent.checks = self.checks(&intent);
        intent
    }

    /// Whether an operation has to be tried again, because a key was checked after the intent and
    /// perhaps before the operation was in its lists.
    ///
    /// A check counts itself before it looks at lists. So either the check was counted when the
    /// intent was, and the operation was tried after what the check is about; or it is counted
    /// here; or it looks at the lists later, and finds the operation. Counts only grow, so their
    /// sum tells whether any did.
    pub(crate) fn overtook<K: Hash>(&self, intent: &Intent<'_, K>) -> bool {
        self.checks(intent) != intent.checks
    }

    /// Counts a check; returns the shards to look at, a bit for each.
    pub(crate) fn check(&self, hash: u64) -> u64 {
        let bucket = &self.buckets[bucket_of(hash)];
        bucket.checks.fetch_add(1, SeqCst);
        bucket.shards.load(SeqCst)
    }

    pub(crate) fn presence(&self, shard: usize) -> Presence<'_> {
        Presence { keys: self, shard }
    }

    fn checks<K: Hash>(&self, intent: &Intent<'_, K>) -> u64 {
        let checks = |hash| self.buckets[bucket_of(hash)].checks.load(SeqCst);
        intent.hashes(self).map(checks).fold(0, u64::wrapping_add)
    }
}

impl<K: Hash> Intent<'_, K> {
    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn hashes(&self, keys: &Keys) -> impl Iterator<Item = u64> {
        let few = self.hashes.iter().copied().take(self.keys.len());
        let further = self.keys.iter().skip(FEW_KEYS);
        few.chain(further.map(|key| keys.hash(key)))
    }
}

impl Presence<'_> {
    /// The shard got its first list in a key's bucket.
    pub(crate) fn enter(self, hash: u64) {
        let shards = &self.keys.buckets[bucket_of(hash)].shards;
        shards.fetch_or(1 << self.shard, SeqCst);
    }

    /// The shard lost its last list there.
    pub(crate) fn leave(self, hash: u64) {
        let shards = &self.keys.buckets[bucket_of(hash)].shards;
        shards.fetch_and(!(1 << self.shard), SeqCst);
    }

    /// A number for every bucket.
    pub(crate) fn per_bucket() -> Box<[u32]> {
        vec![0; BUCKETS].into_boxed_slice()
    }
}

pub(crate) fn bucket_of(hash: u64) -> usize {
    // Tables use the lowest and the highest bits.
    (hash >> 32) as usize % BUCKETS
}
