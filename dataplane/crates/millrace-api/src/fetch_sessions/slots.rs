//! The places for sessions. Where all are taken, a new session takes that of one which was not used for long, or of a
//! smaller one that is not new.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// Kafka's `max.incremental.fetch.session.cache.slots`.
const SLOTS_MAX: usize = 1_000;

/// A session that was not used for longer than this makes room for any other, and one that is older than this for a
/// larger one. Kafka's `min.incremental.fetch.session.eviction.ms`.
const EVICTABLE_AFTER: Duration = Duration::from_secs(120);

/// What a session holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) partitions: usize,
    pub(super) bytes: usize,
}

/// All sessions, by id.
#[derive(Debug)]
pub(super) struct Slots<T> {
    taken: HashMap<i32, Slot<T>>,
    /// By the time of their last use.
    by_use: BTreeSet<(Duration, i32)>,
    /// Those that are old enough to make room for larger ones, by their partitions.
    by_size: BTreeSet<(usize, i32)>,
    total: Size,
    bytes_max: usize,
}

#[derive(Debug)]
struct Slot<T> {
    session: T,
    created: Duration,
    used: Duration,
    size: Size,
}

impl<T> Slots<T> {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            taken: HashMap::new(),
            by_use: BTreeSet::new(),
            by_size: BTreeSet::new(),
            total: Size::default(),
            bytes_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    /// The partitions of all sessions together.
    pub(super) const fn partitions(&self) -> usize {
        self.total.partitions
    }

    pub(super) fn get(&self, id: i32) -> Option<&T> {
        self.taken.get(&id).map(|slot| &slot.session)
    }

    /// Sees to it that a session of this size fits. Says whether it does, and how many others had to go.
    pub(super) fn make_room(&mut self, size: Size, now: Duration) -> (bool, u64) {
        let mut evicted = 0;
        while self.taken.len() >= SLOTS_MAX || self.total.bytes + size.bytes > self.bytes_max {
            let Some(id) = self.evictable_by(size, now) else {
                return (false, evicted);
            };
            self.remove(id);
            evicted += 1;
        }
        (true, evicted)
    }

    /// Takes a slot, for which there is room.
    pub(super) fn insert(&mut self, id: i32, session: T, size: Size, now: Duration) {
        let slot = Slot {
            session,
            created: now,
            used: now,
            size,
        };
        self.total.partitions += size.partitions;
        self.total.bytes += size.bytes;
        self.by_use.insert((now, id));
        self.taken.insert(id, slot);
    }

    /// A session was used, and has this size now. Says whether it fits, and how many others had to go; one that is
    /// not there fits.
    pub(super) fn touch(&mut self, id: i32, size: Size, now: Duration) -> (bool, u64) {
        let Some(slot) = self.taken.get_mut(&id) else {
            return (true, 0);
        };
        self.by_use.remove(&(slot.used, id));
        self.by_size.remove(&(slot.size.partitions, id));
        self.total.partitions = self.total.partitions + size.partitions - slot.size.partitions;
        self.total.bytes = self.total.bytes + size.bytes - slot.size.bytes;
        (slot.used, slot.size) = (now, size);
        self.by_use.insert((now, id));
        if now.saturating_sub(slot.created) > EVICTABLE_AFTER {
            self.by_size.insert((size.partitions, id));
        }
        let mut evicted = 0;
        while self.total.bytes > self.bytes_max {
            match self.evictable_by(size, now) {
                Some(other) if other != id => self.remove(other),
                _ => return (false, evicted),
            }
            evicted += 1;
        }
        (true, evicted)
    }

    pub(super) fn remove(&mut self, id: i32) {
        if let Some(slot) = self.taken.remove(&id) {
            self.by_use.remove(&(slot.used, id));
            self.by_size.remove(&(slot.size.partitions, id));
            self.total.partitions -= slot.size.partitions;
            self.total.bytes -= slot.size.bytes;
        }
    }

    /// The session that makes room for one of this size.
    fn evictable_by(&self, size: Size, now: Duration) -> Option<i32> {
        let (used, oldest) = self.by_use.first()?;
        if now.saturating_sub(*used) > EVICTABLE_AFTER {
            return Some(*oldest);
        }
        let (partitions, smallest) = self.by_size.first()?;
        (*partitions < size.partitions).then_some(*smallest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 1 << 20;

    fn size(partitions: usize) -> Size {
        Size {
            partitions,
            bytes: partitions,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn full(bytes_max: usize) -> Slots<()> {
        let mut slots = Slots::new(bytes_max);
        for id in 1..=i32::try_from(SLOTS_MAX).expect("few") {
            assert_eq!(slots.make_room(size(10), at(0)), (true, 0));
            slots.insert(id, (), size(10), at(0));
        }
        slots
    }

    #[test]
    fn new_sessions_are_not_evicted() {
        let mut slots = full(ROOM);
        assert_eq!(slots.make_room(size(100), at(120)), (false, 0));
        assert_eq!((slots.len(), slots.partitions()), (1_000, 10_000));
    }

    #[test]
    fn what_was_not_used_for_long_goes_first() {
        let mut slots = full(ROOM);
        for id in 2..=1_000 {
            slots.touch(id, size(10), at(60));
        }
        assert_eq!(slots.make_room(size(1), at(121)), (true, 1));
        assert!(slots.get(1).is_none() && slots.len() == 999);
        assert_eq!(slots.make_room(size(1), at(121)), (true, 0));
    }

    #[test]
    fn a_larger_one_takes_the_place_of_the_smallest() {
        let mut slots = full(ROOM);
        for id in 1..=1_000 {
            let partitions = if id == 7 { 9 } else { 10 };
            slots.touch(id, size(partitions), at(121));
        }
        assert_eq!(slots.make_room(size(9), at(122)), (false, 0));
        assert_eq!(slots.make_room(size(10), at(122)), (true, 1));
        assert!(slots.get(7).is_none());
        slots.insert(2_000, (), size(10), at(122));
        assert_eq!(slots.make_room(size(10), at(123)), (false, 0));
        assert_eq!(slots.make_room(size(11), at(123)), (true, 1));
    }

    #[test]
    fn bytes_are_bounded_as_well() {
        let mut slots = Slots::new(100);
        for id in [1, 2] {
            assert_eq!(slots.make_room(size(50), at(0)), (true, 0));
            slots.insert(id, (), size(50), at(0));
        }
        assert_eq!(slots.make_room(size(1), at(1)), (false, 0));
        // One that grows takes the place of another, or has none itself.
        assert_eq!(slots.touch(1, size(60), at(100)), (false, 0));
        assert_eq!(slots.touch(1, size(60), at(121)), (true, 1));
        assert!(slots.get(2).is_none());
        assert_eq!(slots.touch(1, size(101), at(122)), (false, 0));
        slots.remove(1);
        slots.remove(1);
        assert_eq!((slots.len(), slots.total), (0, Size::default()));
        assert_eq!(slots.touch(1, size(1), at(1)), (true, 0));
    }
}
