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
/// The span of every level's slots, in ticks: as many as cover all of `u64`.
const SPANS: [u64; 15] = spans();
/// Values in one chunk: one allocation for many timers, and little memory for few.
const CHUNK: usize = 64;
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
    /// The entries, each part in a row of its own, because what a timer costs is mostly the memory
    /// that it touches: moving timers touches links only, and a timer's neighbours in a list are
    /// often its neighbours there; asking whether timers are there touches generations only.
    links: Vec<Link>,
    generations: Vec<u32>,
    /// In chunks, because values may be large: they never move.
    values: Vec<Box<[Option<T>]>>,
    /// Places that are free, by the ids that their next timers get.
    free: Vec<TimerId>,
}

/// One ring.
#[derive(Debug)]
struct Level {
    /// Ticks of one slot.
    span: u64,
    /// The slot in which the wheel stands, counted from tick 0.
    current: u64,
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

/// Where a timer is.
#[derive(Debug, Clone, Copy)]
struct Link {
    deadline: u64,
    prev: u32,
    next: u32,
    place: Place,
}

/// Which list an entry is in.
#[derive(Debug, Clone, Copy)]
enum Place {
    Due,
    Slot { level: u8, slot: u8 },
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

const fn spans() -> [u64; 15] {
    let mut spans = [1; 15];
    let mut level = 1;
    while level < spans.len() {
        spans[level] = spans[level - 1] * SLOTS;
        level += 1;
    }
    spans
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
    fn new(span: u64, now: u64) -> Self {
        Self {
            span,
            current: now / span,
            slots: [List::EMPTY; SLOTS as usize],
            occupied: 0,
        }
    }

    /// The start of the next slot, the current one included, that has timers.
    fn next_start(&self) -> Option<u64> {
        if self.occupied == 0 {
            return None;
        }
        let turn = self.current % SLOTS;
        // Turned so that bit 0 is the current slot, which is empty unless an advance is unfinished.
        let ahead = (self.occupied >> turn) | (self.occupied << (SLOTS - turn));
        let ahead = ahead & ((1 << SLOTS) - 1);
        // No overflow: the slot has a timer whose deadline is not before the slot's start.
        Some((self.current + u64::from(ahead.trailing_zeros())) * self.span)
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
    /// At 2^32 - 1 timers; whoever creates timers bounds them far below.
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
                Some(tick) => self.stand_at(tick),
                None => break,
            }
        }
        if now > self.now {
            self.stand_at(now);
        }
        true
    }

    /// Removes all timers and appends their values, in no particular order.
    pub fn drain(&mut self, drained: &mut Vec<T>) {
        self.due = List::EMPTY;
        for level in &mut self.levels {
            level.slots = [List::EMPTY; SLOTS as usize];
            level.occupied = 0;
        }
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
        if self.due.is_empty() {
            self.next_start()
        } else {
            Some(self.now)
        }
    }

    fn next_start(&self) -> Option<u64> {
        self.levels.iter().filter_map(Level::next_start).min()
    }

    fn stand_at(&mut self, now: u64) {
        self.now = now;
        for level in &mut self.levels {
            level.current = now / level.span;
        }
    }

    /// A timer that was overdue when it was inserted, or whose slot has come, the highest level's
    /// first.
    fn first_to_handle(&self) -> Option<u32> {
        if !self.due.is_empty() {
            return Some(self.due.head);
        }
        let come = |level: &&Level| level.occupied >> (level.current % SLOTS) & 1 == 1;
        let level = self.levels.iter().rev().find(come)?;
        Some(level.slots[(level.current % SLOTS) as usize].head)
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
            self.links[tail as usize].next = index;
        }
        self.links[index as usize] = Link {
            deadline,
            prev: tail,
            next: NIL,
            place,
        };
        if let Place::Slot { level, slot } = place {
            self.levels[usize::from(level)].occupied |= 1 << slot;
        }
    }

    /// The slot for a deadline that is still ahead, in the lowest level that reaches it.
    fn slot_for(&mut self, deadline: u64) -> Place {
        for (level, &span) in SPANS.iter().enumerate() {
            if level == self.levels.len() {
                self.levels.push(Level::new(span, self.now));
            }
            let slot = deadline / span;
            if slot - self.levels[level].current < SLOTS {
                return Place::Slot {
                    level: level as u8,
                    slot: (slot % SLOTS) as u8,
                };
            }
        }
        unreachable!("the ring of the last level reaches past `u64::MAX`")
    }

    fn unlink(&mut self, index: u32) {
        let Link {
            prev, next, place, ..
        } = self.links[index as usize];
        match prev {
            NIL => self.list_mut(place).head = next,
            prev => self.links[prev as usize].next = next,
        }
        match next {
            NIL => self.list_mut(place).tail = prev,
            next => self.links[next as usize].prev = prev,
        }
        if let Place::Slot { level, slot } = place
            && self.list_mut(place).is_empty()
        {
            self.levels[usize::from(level)].occupied &= !(1 << slot);
        }
    }

    fn list_mut(&mut self, place: Place) -> &mut List {
        match place {
            Place::Due => &mut self.due,
            Place::Slot { level, slot } => {
                &mut self.levels[usize::from(level)].slots[usize::from(slot)]
            }
        }
    }

    fn value_mut(&mut self, index: u32) -> &mut Option<T> {
        &mut self.values[index as usize / CHUNK][index as usize % CHUNK]
    }

    /// An entry that is in no list yet.
    fn allocate(&mut self, value: T) -> TimerId {
        if let Some(id) = self.free.pop() {
            // A free place holds nothing. To forget that instead of dropping it spares a look at
            // memory that was last touched long ago.
            std::mem::forget(self.value_mut(id.index).replace(value));
            return id;
        }
        let index = u32::try_from(self.links.len()).unwrap_or(NIL);
        assert!(index != NIL, "a wheel has at most 2^32 - 1 timers");
        self.links.push(Link {
            deadline: 0,
            prev: NIL,
            next: NIL,
            place: Place::Due,
        });
        self.generations.push(0);
        if (index as usize).is_multiple_of(CHUNK) {
            self.values.push((0..CHUNK).map(|_| None).collect());
        }
        *self.value_mut(index) = Some(value);
        TimerId {
            index,
            generation: 0,
        }
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
