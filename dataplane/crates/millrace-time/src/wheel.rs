//! The hierarchical timing wheel.
//!
//! Level 0 has a slot for every tick, every level above has slots 32 times as long, and exists only
//! once a timer needed it. A level covers one slot of the level above. A timer lies in the lowest
//! level that covers both its deadline and the present: that is the highest group of five bits in
//! which the two differ. When the wheel comes to the start of a slot of a higher level, the slot's
//! timers move down, nearer to their deadlines, or expire. So insertion costs one step, cancellation
//! one list operation, and [`TimingWheel::next_expiry`] names the next moment at which anything must
//! happen at all: whoever drives the wheel sleeps until then. (Varghese and Lauck, "Hashed and
//! Hierarchical Timing Wheels", 1987.)
//!
//! The wheel is pure: it has no clock and no thread, time is a number that its driver passes in.

/// Bits of a tick that name a slot of one level.
const SLOT_BITS: u32 = 5;
const SLOTS: usize = 1 << SLOT_BITS;
/// Values in one chunk: one allocation for many timers, and little memory for few.
const CHUNK: usize = 64;
/// Values of a chunk that are aligned together: of whatever size they are, they fill cache lines.
const ROW: usize = 8;
/// Free places that are looked at together.
const AHEAD: usize = 16;
/// Indices from here on are no entries but lists: those of the slots, level by level, and the last
/// one, [`DUE`]. An entry at the end of a list has the list's index as its neighbour, so that it
/// need not remember the list itself.
const LISTS: u32 = u32::MAX - 1_023;
const DUE: u32 = u32::MAX;

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
    /// The entries, each part in a row of its own, because what a timer costs is mostly the memory
    /// that it touches: moving timers touches links only, and a timer's neighbours in a list are
    /// often its neighbours there; asking whether timers are there touches generations only.
    links: Vec<Link>,
    generations: Vec<u32>,
    /// In chunks, because values may be large: they never move.
    values: Vec<Box<[Row<T>]>>,
    /// Places that are free, by the ids that their next timers get.
    free: Vec<TimerId>,
}

/// Begins with a cache line, so that a value whose size is that of some lines touches no more.
#[derive(Debug)]
#[repr(align(64))]
struct Row<T>([Option<T>; ROW]);

/// The slots of one length.
#[derive(Debug)]
struct Level {
    slots: [List; SLOTS],
    /// Bit n is set while slot n has timers.
    occupied: u32,
}

/// A doubly linked list of entries, in order of insertion. Both ends of an empty one are its own
/// index.
#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// Where a timer is.
#[derive(Debug, Clone, Copy)]
struct Link {
    deadline: u64,
    prev: u32,
    next: u32,
}

impl TimerId {
    /// The timer's place in its wheel, which is dense, and the number of its use of that place.
    /// For who packs ids.
    #[must_use]
    pub fn to_parts(self) -> (u32, u32) {
        (self.index, self.generation)
    }

    /// The id with these parts.
    #[must_use]
    pub fn from_parts((index, generation): (u32, u32)) -> Self {
        Self { index, generation }
    }
}

impl List {
    fn empty(own_index: u32) -> Self {
        Self {
            head: own_index,
            tail: own_index,
        }
    }
}

impl Level {
    fn new(level: usize) -> Self {
        Self {
            slots: std::array::from_fn(|slot| List::empty(list_of(level, slot))),
            occupied: 0,
        }
    }
}

/// The index of a slot's list. There are 13 levels, so it fits.
fn list_of(level: usize, slot: usize) -> u32 {
    LISTS + (level * SLOTS + slot) as u32
}

/// The level and the slot of a list; nothing for [`DUE`] and for entries.
fn slot_of(list: u32) -> Option<(usize, usize)> {
    let slot = list.checked_sub(LISTS).filter(|_| list != DUE)? as usize;
    Some((slot / SLOTS, slot % SLOTS))
}

/// The slot of a level in which a tick lies.
fn slot_at(level: usize, tick: u64) -> usize {
    (tick >> (level as u32 * SLOT_BITS)) as usize % SLOTS
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
            due: List::empty(DUE),
            links: Vec::new(),
            generations: Vec::new(),
            values: Vec::new(),
            free: Vec::new(),
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
    /// At 2^32 - 1024 timers; whoever creates timers bounds them far below.
    pub fn insert(&mut self, deadline: u64, value: T) -> TimerId {
        let id = self.allocate(value);
        self.len += 1;
        self.place(id.index, deadline);
        id
    }

    /// Whether a timer has neither expired nor been cancelled.
    #[must_use]
    pub fn has(&self, id: TimerId) -> bool {
        // A place that is freed gets a new generation at once.
        self.generations.get(id.index as usize) == Some(&id.generation)
    }

    /// The id of the timer at a place, or that the next timer there will get. The place is one of
    /// [`TimerId::to_parts`] of this wheel.
    #[must_use]
    pub fn id_at(&self, place: u32) -> TimerId {
        TimerId {
            index: place,
            generation: self.generations[place as usize],
        }
    }

    /// A timer's value, to change it; nothing where the timer has expired or was cancelled.
    pub fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        if !self.has(id) {
            return None;
        }
        self.value_mut(id.index).as_mut()
    }

    /// Removes a timer and returns its value; nothing where it has expired or was cancelled.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        if !self.has(id) {
            return None;
        }
        self.unlink(id.index);
        self.release(id.index)
    }

    /// Moves the wheel to tick `now`, which is not before where it stands, and appends what
    /// expired, earlier ticks first.
    pub fn advance(&mut self, now: u64, expired: &mut Vec<T>) {
        let finished = self.advance_some(now, usize::MAX, expired);
        debug_assert!(finished, "no wheel has that many timers");
    }

    /// Like [`Self::advance`], but handles at most `timers_max` timers, for a driver that must let
    /// others use the wheel meanwhile. True where the wheel stands at `now`; otherwise there is
    /// more to do, and time must not pass over it: the next call continues.
    pub fn advance_some(&mut self, now: u64, timers_max: usize, expired: &mut Vec<T>) -> bool {
        let mut handled = 0;
        loop {
            while let Some(index) = self.first_to_handle() {
                if handled == timers_max {
                    return false;
                }
                handled += 1;
                self.handle(index, expired);
            }
            match self.next_start().filter(|&tick| tick <= now) {
                Some(tick) => self.now = tick,
                None => break,
            }
        }
        self.now = self.now.max(now);
        true
    }

    /// Removes all timers and appends their values, in no particular order.
    pub fn drain(&mut self, drained: &mut Vec<T>) {
        self.due = List::empty(DUE);
        self.levels.clear();
        // No entry has an index that does not fit.
        for index in 0..self.links.len() as u32 {
            if self.value_mut(index).is_some() {
                drained.extend(self.release(index));
            }
        }
    }

    /// The tick at which the wheel must be advanced next: not after the earliest deadline, and
    /// before it only where timers must move down a level. Nothing without timers.
    #[must_use]
    pub fn next_expiry(&self) -> Option<u64> {
        if self.due.head == DUE {
            self.next_start()
        } else {
            Some(self.now)
        }
    }

    /// The start of the next slot, the current ones included, that has timers.
    fn next_start(&self) -> Option<u64> {
        let starts = self.levels.iter().enumerate().filter_map(|(level, ring)| {
            // No slot that has passed has timers.
            let slot = (ring.occupied != 0).then(|| u64::from(ring.occupied.trailing_zeros()))?;
            let below = level as u32 * SLOT_BITS;
            let covered = u64::MAX.checked_shl(below + SLOT_BITS).unwrap_or(0);
            Some(self.now & covered | slot << below)
        });
        starts.min()
    }

    /// A timer that was overdue when it was inserted, or whose slot has come, the highest level's
    /// first.
    fn first_to_handle(&self) -> Option<u32> {
        if self.due.head != DUE {
            return Some(self.due.head);
        }
        self.levels
            .iter()
            .enumerate()
            .rev()
            .find_map(|(level, ring)| {
                let slot = slot_at(level, self.now);
                (ring.occupied >> slot & 1 == 1).then(|| ring.slots[slot].head)
            })
    }

    /// Expires an entry or places it again, nearer to its deadline.
    fn handle(&mut self, index: u32, expired: &mut Vec<T>) {
        self.unlink(index);
        let deadline = self.links[index as usize].deadline;
        if deadline <= self.now {
            expired.extend(self.release(index));
        } else {
            self.place(index, deadline);
        }
    }

    /// Links an entry into the list where its deadline belongs.
    fn place(&mut self, index: u32, deadline: u64) {
        let own_list = if deadline <= self.now {
            DUE
        } else {
            self.occupy(deadline)
        };
        let list = self.list_mut(own_list);
        let tail = std::mem::replace(&mut list.tail, index);
        if tail == own_list {
            list.head = index;
        } else {
            self.links[tail as usize].next = index;
        }
        self.links[index as usize] = Link {
            deadline,
            prev: tail,
            next: own_list,
        };
    }

    /// The list for a deadline that is still ahead, which is about to get a timer.
    fn occupy(&mut self, deadline: u64) -> u32 {
        let level = ((deadline ^ self.now).ilog2() / SLOT_BITS) as usize;
        while self.levels.len() <= level {
            self.levels.push(Level::new(self.levels.len()));
        }
        let slot = slot_at(level, deadline);
        self.levels[level].occupied |= 1 << slot;
        list_of(level, slot)
    }

    fn unlink(&mut self, index: u32) {
        let Link { prev, next, .. } = self.links[index as usize];
        if prev < LISTS {
            self.links[prev as usize].next = next;
        } else {
            self.list_mut(prev).head = next;
        }
        if next < LISTS {
            self.links[next as usize].prev = prev;
        } else {
            self.list_mut(next).tail = prev;
        }
        if prev == next
            && let Some((level, slot)) = slot_of(prev)
        {
            self.levels[level].occupied &= !(1 << slot);
        }
    }

    fn list_mut(&mut self, list: u32) -> &mut List {
        match slot_of(list) {
            Some((level, slot)) => &mut self.levels[level].slots[slot],
            None => &mut self.due,
        }
    }

    fn value_mut(&mut self, index: u32) -> &mut Option<T> {
        let index = index as usize;
        &mut self.values[index / CHUNK][index % CHUNK / ROW].0[index % ROW]
    }

    /// An entry that is in no list yet.
    fn allocate(&mut self, value: T) -> TimerId {
        if let Some(id) = self.free.pop() {
            if self.free.len().is_multiple_of(AHEAD) {
                self.prefetch_places();
            }
            // A free place holds nothing. To forget that instead of dropping it spares a look at
            // memory that was last touched long ago.
            std::mem::forget(self.value_mut(id.index).replace(value));
            return id;
        }
        let index = u32::try_from(self.links.len()).unwrap_or(LISTS);
        assert!(index < LISTS, "a wheel has at most 2^32 - 1024 timers");
        self.links.push(Link {
            deadline: 0,
            prev: DUE,
            next: DUE,
        });
        self.generations.push(0);
        if (index as usize).is_multiple_of(CHUNK) {
            let rows = (0..CHUNK / ROW).map(|_| Row(std::array::from_fn(|_| None)));
            self.values.push(rows.collect());
        }
        *self.value_mut(index) = Some(value);
        TimerId {
            index,
            generation: 0,
        }
    }

    /// Reads the places that are used next: their memory, last used by other threads, comes into
    /// this one's cache for all of them at the same time, instead of one after the other.
    fn prefetch_places(&self) {
        let read = |id: &TimerId| {
            let index = id.index as usize;
            let value = &self.values[index / CHUNK][index % CHUNK / ROW].0[index % ROW];
            self.links[index]
                .deadline
                .wrapping_add(u64::from(value.is_some()))
        };
        let next = self.free.iter().rev().take(AHEAD);
        std::hint::black_box(next.map(read).fold(0, u64::wrapping_add));
    }

    /// Frees an entry that is in no list.
    fn release(&mut self, index: u32) -> Option<T> {
        let generation = self.generations[index as usize].wrapping_add(1);
        self.generations[index as usize] = generation;
        self.free.push(TimerId { index, generation });
        self.len -= 1;
        self.value_mut(index).take()
    }
}

#[cfg(test)]
mod tests;
