//! Which operations of one shard watch which key.
//!
//! Lists belong to the hashes of keys, not to the keys: hashes of 64 bits are hardly ever equal,
//! and where they are, an operation is only tried in vain. For the same reason a list names an
//! operation in four bytes. A completed operation is dropped at once, though its name stays until
//! its list is swept.

use hashbrown::HashTable;
use millrace_time::TimerId;

use crate::keys::{Presence, bucket_of};

/// A list or table gives memory back once it uses less than one part in so many.
const SPARSE: usize = 4;
/// A list or table with room for so many or fewer keeps its memory.
const SMALL: usize = 16;
/// Room in a new list, and the least that a list grows by: what fits into the smallest piece of
/// memory that there is.
const ROOM_MIN: usize = 6;

/// Names an operation of the shard: its place there and a part of the place's generation. After
/// every 1,024th use of a place, an old name names the new operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watcher(u32);

impl Watcher {
    /// A shard holds less than 2^22 operations; they would take half a gigabyte.
    pub(crate) const PLACE_BITS: u32 = 22;

    pub(crate) fn new(timer: TimerId) -> Self {
        let (place, generation) = timer.to_parts();
        Self(generation << Self::PLACE_BITS | place)
    }

    pub(crate) fn place(self) -> u32 {
        self.0 % (1 << Self::PLACE_BITS)
    }
}

/// The lists of a shard.
pub(crate) struct Watchers {
    lists: HashTable<List>,
    /// Number of lists in every bucket of keys.
    in_bucket: Box<[u32]>,
    /// Watchers in all lists.
    len: usize,
}

struct List {
    hash: u64,
    watchers: Vec<Watcher>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self {
            lists: HashTable::new(),
            in_bucket: Presence::per_bucket(),
            len: 0,
        }
    }

    /// Number of watchers in all lists, those of completed operations included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of keys that are watched.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.lists.len()
    }

    pub(crate) fn add(&mut self, hash: u64, watcher: Watcher, presence: Presence<'_>) {
        self.len += 1;
        if let Some(list) = self.lists.find_mut(hash, |list| list.hash == hash) {
            list.push(watcher);
            return;
        }
        let mut list = List {
            hash,
            watchers: Vec::new(),
        };
        list.push(watcher);
        self.lists.insert_unique(hash, list, |list| list.hash);
        let lists = &mut self.in_bucket[bucket_of(hash)];
        *lists += 1;
        if *lists == 1 {
            presence.enter(hash);
        }
    }

    /// Drops the watchers of a key that `keep` does not want, and the key with the last of them.
    /// Returns how many it dropped.
    pub(crate) fn sweep(
        &mut self,
        hash: u64,
        presence: Presence<'_>,
        keep: impl FnMut(Watcher) -> bool,
    ) -> usize {
        let Ok(mut entry) = self.lists.find_entry(hash, |list| list.hash == hash) else {
            return 0;
        };
        let dropped = entry.get_mut().sweep(keep);
        self.len -= dropped;
        if entry.get().watchers.is_empty() {
            entry.remove();
            leave(&mut self.in_bucket, hash, presence);
        }
        dropped
    }

    /// Drops the watchers of all keys that `keep` does not want.
    pub(crate) fn purge(&mut self, presence: Presence<'_>, mut keep: impl FnMut(Watcher) -> bool) {
        self.lists.retain(|list| {
            self.len -= list.sweep(&mut keep);
            let stays = !list.watchers.is_empty();
            if !stays {
                leave(&mut self.in_bucket, list.hash, presence);
            }
            stays
        });
        if is_sparse(self.lists.len(), self.lists.capacity()) {
            let len = self.lists.len();
            self.lists.shrink_to(2 * len, |list| list.hash);
        }
    }
}

/// A list is gone.
fn leave(in_bucket: &mut [u32], hash: u64, presence: Presence<'_>) {
    let lists = &mut in_bucket[bucket_of(hash)];
    *lists -= 1;
    if *lists == 0 {
        presence.leave(hash);
    }
}

fn is_sparse(len: usize, capacity: usize) -> bool {
    capacity > SMALL && len < capacity / SPARSE
}

impl List {
    /// Grows by half, not by as much again: there are lists of all sizes.
    fn push(&mut self, watcher: Watcher) {
        let len = self.watchers.len();
        if len == self.watchers.capacity() {
            self.watchers.reserve_exact((len / 2).max(ROOM_MIN));
        }
        self.watchers.push(watcher);
    }

    fn sweep(&mut self, mut keep: impl FnMut(Watcher) -> bool) -> usize {
        let before = self.watchers.len();
        self.watchers.retain(|&watcher| keep(watcher));
        let len = self.watchers.len();
        if is_sparse(len, self.watchers.capacity()) {
            self.watchers.shrink_to(2 * len);
        }
        before - len
    }
}
