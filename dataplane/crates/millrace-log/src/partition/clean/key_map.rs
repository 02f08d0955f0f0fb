//! The last offset of every key of the dirty part, in bounded memory.
//!
//! A table with open addressing. A slot has 24 bytes: 128 bits of a hash of the key, and the offset. Two keys with the same hash would be
//! taken for one; the hash is salted, so nobody can choose keys that collide, and with 10⁹ keys the chance is below 10⁻²⁰.

use std::hash::{DefaultHasher, Hasher};

use millrace_model::Offset;

/// Bytes of a slot.
const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

/// The share of the slots that may be taken, percent: beyond, searches become long. Kafka's own load factor.
const LOAD_PERCENT: u64 = 90;

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    hash: [u64; 2],
    /// One more than the offset; 0 where the slot is free.
    offset_after: u64,
}

/// Keys and their last offsets.
#[derive(Debug)]
pub(super) struct KeyMap {
    slots: Vec<Slot>,
    taken: u64,
    taken_max: u64,
    salt: [u8; 16],
    /// One past the last offset that it knows of.
    end: Offset,
    full: bool,
}

impl KeyMap {
    /// A map of at most `bytes_max`, and no more than `records` need.
    pub(super) fn new(bytes_max: u64, records: u64, salt: [u8; 16]) -> Self {
        let needed = records.saturating_mul(100) / LOAD_PERCENT + 2;
        let slots = (bytes_max / SLOT_BYTES).min(needed).max(2);
        let count = usize::try_from(slots).unwrap_or(usize::MAX);
        Self {
            slots: vec![Slot::default(); count],
            taken: 0,
            taken_max: (slots * LOAD_PERCENT / 100).clamp(1, slots - 1),
            salt,
            end: 0,
            full: false,
        }
    }

    /// Takes note of a record; `false` where there is no room for its key.
    pub(super) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let hash = self.hash(key);
        let at = self.find(hash);
        let Some(slot) = self.slots.get_mut(at) else {
            return false;
        };
        if slot.offset_after == 0 {
            if self.taken >= self.taken_max {
                self.full = true;
                return false;
            }
            self.taken += 1;
            slot.hash = hash;
        }
        slot.offset_after = slot.offset_after.max(offset + 1);
        self.reach(offset + 1);
        true
    }

    /// The last offset of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<Offset> {
        let at = self.find(self.hash(key));
        self.slots.get(at)?.offset_after.checked_sub(1)
    }

    /// It knows of all records below `end`.
    pub(super) fn reach(&mut self, end: Offset) {
        self.end = self.end.max(end);
    }

    /// Below it, it knows of all records.
    pub(super) fn end(&self) -> Offset {
        self.end
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// How many keys have their last record between each of `ends`, which ascend, and the one before it.
    pub(super) fn last_records_below(&self, ends: &[Offset]) -> Vec<u64> {
        let mut counts = vec![0; ends.len()];
        for slot in &self.slots {
            if let Some(offset) = slot.offset_after.checked_sub(1) {
                let group = ends.partition_point(|&end| end <= offset);
                if let Some(count) = counts.get_mut(group) {
                    *count += 1;
                }
            }
        }
        counts
    }

    /// The slot of a hash, or the free one where it would be.
    fn find(&self, hash: [u64; 2]) -> usize {
        let count = self.slots.len();
        let mut at = usize::try_from(hash[0] % (count as u64)).unwrap_or(0);
        // One slot is always free.
        while self
            .slots
            .get(at)
            .is_some_and(|slot| slot.offset_after != 0 && slot.hash != hash)
        {
            at = (at + 1) % count;
        }
        at
    }

    fn hash(&self, key: &[u8]) -> [u64; 2] {
        [1, 2].map(|half| {
            let mut hasher = DefaultHasher::new();
            hasher.write(&self.salt);
            hasher.write_u8(half);
            hasher.write(key);
            hasher.finish()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_until_it_is_full(
            keys in prop::collection::vec(0u16..300, 1..600), slots in 2u64..400,
        ) {
            let mut map = KeyMap::new(slots * SLOT_BYTES, keys.len() as u64, [7; 16]);
            let mut model = HashMap::new();
            let mut end = 0;
            for (offset, key) in (10_u64..).zip(&keys) {
                if !map.put(&key.to_be_bytes(), offset) {
                    prop_assert!(map.is_full() && !model.contains_key(key));
                    break;
                }
                model.insert(*key, offset);
                end = offset + 1;
            }
            prop_assert_eq!(map.end(), end);
            prop_assert!(model.len() as u64 <= slots);
            for key in 0u16..300 {
                prop_assert_eq!(map.get(&key.to_be_bytes()), model.get(&key).copied());
            }
            let ends = [100, 200, 10_000];
            let expected: Vec<u64> = [0, 100, 200].iter().zip(ends)
                .map(|(&from, to)| model.values().filter(|&&at| (from..to).contains(&at)).count() as u64)
                .collect();
            prop_assert_eq!(map.last_records_below(&ends), expected);
        }
    }
}
