//! A least-recently-used map whose values weigh bytes, within a budget.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// A map that forgets the least recently used values once their weights exceed the budget. All
/// operations cost O(log n).
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    budget_bytes: u64,
    used_bytes: u64,
    /// Grows with every use; orders the values by their last one.
    uses: u64,
    values: HashMap<K, Weighed<V>>,
    by_last_use: BTreeMap<u64, K>,
}

#[derive(Debug)]
struct Weighed<V> {
    value: V,
    bytes: u64,
    last_use: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Lru<K, V> {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            used_bytes: 0,
            uses: 0,
            values: HashMap::new(),
            by_last_use: BTreeMap::new(),
        }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// The value of `key`, which counts as used now.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let found = self.values.get_mut(key)?;
        self.uses += 1;
        self.by_last_use.remove(&found.last_use);
        self.by_last_use.insert(self.uses, key.clone());
        found.last_use = self.uses;
        Some(found.value.clone())
    }

    /// Keeps `value`, which weighs `bytes`, and gives the number of values forgotten for it. A value
    /// above the whole budget is not kept at all.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: u64) -> usize {
        self.remove(&key);
        if bytes > self.budget_bytes {
            return 0;
        }
        let forgotten = self.make_room(bytes);
        self.uses += 1;
        self.used_bytes += bytes;
        self.by_last_use.insert(self.uses, key.clone());
        self.values.insert(
            key,
            Weighed {
                value,
                bytes,
                last_use: self.uses,
            },
        );
        forgotten
    }

    /// Changes the budget and gives the number of values forgotten for it.
    pub(crate) fn set_budget(&mut self, budget_bytes: u64) -> usize {
        self.budget_bytes = budget_bytes;
        self.make_room(0)
    }

    fn make_room(&mut self, bytes: u64) -> usize {
        let mut forgotten = 0;
        while self.used_bytes + bytes > self.budget_bytes {
            let Some((_, oldest)) = self.by_last_use.first_key_value() else {
                break;
            };
            let oldest = oldest.clone();
            self.remove(&oldest);
            forgotten += 1;
        }
        forgotten
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(removed) = self.values.remove(key) {
            self.by_last_use.remove(&removed.last_use);
            self.used_bytes -= removed.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut lru = Lru::new(30);
        for key in 0..3 {
            assert_eq!(lru.insert(key, key * 10, 10), 0);
        }
        assert_eq!(lru.get(&0), Some(0));
        assert_eq!(lru.insert(3, 30, 10), 1);
        assert_eq!(
            [0, 1, 2, 3].map(|key| lru.get(&key)),
            [Some(0), None, Some(20), Some(30)]
        );
        assert_eq!(lru.insert(4, 40, 25), 3);
        assert_eq!(lru.used_bytes(), 25);
    }

    #[test]
    fn weights_follow_replacement_and_removal() {
        let mut lru = Lru::new(30);
        lru.insert("a", 1, 10);
        lru.insert("a", 2, 20);
        assert_eq!((lru.get(&"a"), lru.used_bytes()), (Some(2), 20));
        lru.insert("a", 3, 31);
        assert_eq!((lru.get(&"a"), lru.used_bytes()), (None, 0));
        lru.remove(&"a");
        assert_eq!(lru.used_bytes(), 0);
    }
}
