//! The hierarchical timing wheel.
//!
//! Level 0 is a ring of 20 slots of one tick each; every level above has slots 20 times as long,
//! and exists only once a timer needed it. A timer lies in the lowest level whose ring reaches its
//! deadline. When the wheel comes to the start of a slot of a higher level, the slot's timers move
//! down, nearer to their deadlines, or expire. So insertion costs one step per level (15 levels
//! cover all of `u64`), cancellation one list operation, and [`TimingWheel::next_expiry`] names
//! the next moment at which anything must happen at all: whoever drives the wheel sleeps until
//! then. (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987.)
//!
//! The wheel is pure: it has no clock and no thread, time is a number that its driver passes in.

/// Slots in the ring of every level.
const SLOTS: u64 = 20;
/// No entry.
const NIL: u32 = u32::MAX;

/// Names a timer in its wheel. Stays harmless after the timer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    generation: u32,
}

/// Timers of values, by deadline in ticks. What a tick means, the driver decides.
#[derive(Debug)]
pub struct TimingWheel<T> {
    now: u64,
    len: usize,
    levels: Vec<Level>,
    /// Timers whose deadline had passed when they were inserted.
    due: List,
    entries: Vec<Entry<T>>,
    free: u32,
}

/// One ring.
#[derive(Debug)]
struct Level {
    /// Ticks of one slot.
    span: u64,
    slots: [List; SLOTS as usize],
    /// Bit n is set while slot n has timers.
    occupied: u32,
}

/// A doubly linked list of entries, in order of insertion.
#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// A timer, or a free place that `next` links to the next free place.
#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    prev: u32,
    next: u32,
    deadline: u64,
    place: Place,
    value: Option<T>,
}

/// Which list an entry is in.
#[derive(Debug, Clone, Copy)]
enum Place {
    Due,
    Slot { level: usize, slot: usize },
}

impl List {
    const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
    };

    fn is_empty(self) -> bool {
        self.head == NIL
    }
}

impl Level {
    fn new(span: u64) -> Self {
        Self {
            span,
            slots: [List::EMPTY; SLOTS as usize],
            occupied: 0,
        }
    }

    /// The start of the next slot after `now`'s that has timers.
    fn next_start(&self, now: u64) -> Option<u64> {
        let current = now / self.span;
        let turn = current % SLOTS;
        // Turned so that bit 0 is the current slot, which is always empty.
        let ahead = (self.occupied >> turn) | (self.occupied << (SLOTS - turn));
        let ahead = ahead & ((1 << SLOTS) - 1);
        // No overflow: the slot has a timer whose deadline is not before the slot's start.
        (ahead != 0).then(|| (current + u64::from(ahead.trailing_zeros())) * self.span)
    }
}

impl<T> Default for TimingWheel<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T> TimingWheel<T> {
    /// An empty wheel that stands at tick `now`.
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self {
            now,
            len: 0,
            levels: Vec::new(),
            due: List::EMPTY,
            entries: Vec::new(),
            free: NIL,
        }
    }

    /// The tick at which the wheel stands.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Number of timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no timer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a timer that expires once the wheel stands at `deadline` or later. A deadline that
    /// has passed already expires at the next [`Self::advance`].
    ///
    /// # Panics
    /// At 2^32 - 1 timers; whoever creates timers bounds them far below.
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerId {
        let index = self.allocate();
        let entry = &mut self.entries[index as usize];
        entry.deadline = deadline;
        entry.value = Some(value);
        let generation = entry.generation;
        self.len += 1;
        self.place(index, deadline);
        TimerId { index, generation }
    }

    /// Removes a timer and returns its value; nothing where it has expired or was cancelled.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.generation != id.generation || entry.value.is_none() {
            return None;
        }
        self.unlink(id.index);
        self.release(id.index)
    }

    /// Moves the wheel to tick `now`, which is not before where it stands, and appends what
    /// expired, earlier ticks first.
    pub fn advance(&mut self, now: u64, expired: &mut Vec<T>) {
        let due = std::mem::replace(&mut self.due, List::EMPTY);
        self.empty(due, expired);
        while let Some(tick) = self.next_start().filter(|&tick| tick <= now) {
            self.now = tick;
            for level in (0..self.levels.len()).rev() {
                self.turn(level, expired);
            }
        }
        self.now = self.now.max(now);
    }

    /// The tick at which the wheel must be advanced next: not after the earliest deadline, and
    /// before it only where timers must move down a level. Nothing without timers.
    #[must_use]
    pub fn next_expiry(&self) -> Option<u64> {
        if self.due.is_empty() {
            self.next_start()
        } else {
            Some(self.now)
        }
    }

    fn next_start(&self) -> Option<u64> {
        self.levels
            .iter()
            .filter_map(|level| level.next_start(self.now))
            .min()
    }

    /// Empties the slot of `level` that starts now, if one does.
    fn turn(&mut self, level: usize, expired: &mut Vec<T>) {
        let now = self.now;
        let ring = &mut self.levels[level];
        if now.is_multiple_of(ring.span) {
            let slot = (now / ring.span % SLOTS) as usize;
            ring.occupied &= !(1 << slot);
            let list = std::mem::replace(&mut ring.slots[slot], List::EMPTY);
            self.empty(list, expired);
        }
    }

    /// Expires or places anew every entry of a list that is no longer in the wheel.
    fn empty(&mut self, list: List, expired: &mut Vec<T>) {
        let mut next = list.head;
        while next != NIL {
            let index = next;
            let entry = &self.entries[index as usize];
            next = entry.next;
            if entry.deadline <= self.now {
                expired.extend(self.release(index));
            } else {
                self.place(index, entry.deadline);
            }
        }
    }

    /// Links an entry into the list where its deadline belongs.
    fn place(&mut self, index: u32, deadline: u64) {
        let place = if deadline <= self.now {
            Place::Due
        } else {
            self.slot_for(deadline)
        };
        let list = self.list_mut(place);
        let tail = std::mem::replace(&mut list.tail, index);
        if tail == NIL {
            list.head = index;
        } else {
            self.entries[tail as usize].next = index;
        }
        let entry = &mut self.entries[index as usize];
        entry.place = place;
        entry.prev = tail;
        entry.next = NIL;
        if let Place::Slot { level, slot } = place {
            self.levels[level].occupied |= 1 << slot;
        }
    }

    /// The slot for a deadline that is still ahead, in the lowest level that reaches it.
    fn slot_for(&mut self, deadline: u64) -> Place {
        let mut level = 0;
        loop {
            if level == self.levels.len() {
                let span = self.levels.last().map_or(1, |top| top.span * SLOTS);
                self.levels.push(Level::new(span));
            }
            let span = self.levels[level].span;
            // Never endless: the ring of level 14 reaches past `u64::MAX`.
            if deadline / span - self.now / span < SLOTS {
                return Place::Slot {
                    level,
                    slot: (deadline / span % SLOTS) as usize,
                };
            }
            level += 1;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry {
            prev, next, place, ..
        } = self.entries[index as usize];
        match prev {
            NIL => self.list_mut(place).head = next,
            prev => self.entries[prev as usize].next = next,
        }
        match next {
            NIL => self.list_mut(place).tail = prev,
            next => self.entries[next as usize].prev = prev,
        }
        if let Place::Slot { level, slot } = place
            && self.levels[level].slots[slot].is_empty()
        {
            self.levels[level].occupied &= !(1 << slot);
        }
    }

    fn list_mut(&mut self, place: Place) -> &mut List {
        match place {
            Place::Due => &mut self.due,
            Place::Slot { level, slot } => &mut self.levels[level].slots[slot],
        }
    }

    fn allocate(&mut self) -> u32 {
        if self.free != NIL {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            return index;
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(NIL);
        assert!(index != NIL, "a wheel has at most 2^32 - 1 timers");
        self.entries.push(Entry {
            generation: 0,
            prev: NIL,
            next: NIL,
            deadline: 0,
            place: Place::Due,
            value: None,
        });
        index
    }

    /// Frees an entry that is in no list.
    fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        entry.value.take()
    }
}

#[cfg(test)]
mod tests;
