//! Loads blocks before a reader asks for them.

use std::time::Duration;

use millrace_model::Offset;

use super::{State, cost_of, evict::Pressure};
use crate::{
    config::Eviction,
    queue::Urgency,
    reader::{Located, READER_BLOCKS_MAX, ReaderId},
};

/// Prefetching leaves this much free for those who wait, at most.
const HEADROOM_BYTES_MAX: u64 = 32 << 20;

/// And this part of a small cache.
const HEADROOM_PART: u64 = 8;

impl State {
    /// Begins to load what lies in the reader's window. It is filled up when it is half empty, so
    /// that what is loaded lies side by side and goes by few requests. Only free space is used, and
    /// of that no reader takes more than its equal part, less what its reads themselves need. Gives
    /// the stretch for which the metadata has to be asked first, if it has.
    pub(crate) fn prefetch(&mut self, id: ReaderId, now: Duration) -> Option<(Offset, Offset)> {
        let window = self.window_of(id, now)?;
        let reader = self.readers.get(&id)?;
        let mut ahead = reader.ahead_bytes();
        if ahead > window / 2 {
            return None;
        }
        let mut index = reader.held.max(reader.behind());
        loop {
            let reader = self.readers.get(&id)?;
            let Some(watched) = reader.blocks.get(index) else {
                let end = reader.blocks_end().unwrap_or(reader.next);
                let can_locate = !reader.is_locating && reader.blocks.len() < READER_BLOCKS_MAX;
                return (can_locate && end < reader.end).then_some((end, reader.end));
            };
            let located = watched.located.clone();
            let fits = ahead == 0 || ahead + located.size() <= window;
            if located.from >= reader.end || !fits || !self.prefetch_block(id, index, &located, now)
            {
                return None;
            }
            ahead += located.size();
            index += 1;
        }
    }

    /// How far the reader may prefetch now, in bytes.
    fn window_of(&self, id: ReaderId, now: Duration) -> Option<u64> {
        let reader = self.readers.get(&id)?;
        let equal_part = match self.eviction {
            Eviction::Watch => {
                let part = self.budget.capacity() / self.readers.len().max(1) as u64;
                part.saturating_sub(reader.asked_bytes)
            }
            Eviction::Lru => u64::MAX,
        };
        let window = reader
            .window
            .bytes()
            .min(self.prefetch_max_bytes)
            .min(equal_part);
        let goes_on =
            reader.went_on > 0 && !reader.window.is_paused(now) && !self.budget.has_waiters();
        (goes_on && window > 0).then_some(window)
    }

    /// Begins to load one block, unless it is there already; whether it could be.
    fn prefetch_block(
        &mut self,
        id: ReaderId,
        index: usize,
        located: &Located,
        now: Duration,
    ) -> bool {
        let Some(place) = &located.place else {
            return true;
        };
        if !self.slots.contains_key(&place.id) {
            let size = self.budget.capacity();
            let headroom = (size / HEADROOM_PART).min(HEADROOM_BYTES_MAX);
            let bytes = cost_of(located);
            match self.eviction {
                Eviction::Watch if self.budget.free() < bytes + headroom => return false,
                Eviction::Watch => {}
                Eviction::Lru => {
                    self.make_room(bytes, Pressure::Full, now);
                }
            }
            let Some(charge) = self.budget.try_take(bytes) else {
                return false;
            };
            self.begin(place, Urgency::Prefetch, charge);
        }
        self.watch(id, index, place.id);
        true
    }

    /// Marks that somebody asks the metadata for the reader, or no longer does.
    pub(crate) fn set_locating(&mut self, id: ReaderId, is_locating: bool) {
        if let Some(reader) = self.readers.get_mut(&id) {
            reader.is_locating = is_locating;
            self.list(id);
        }
    }
}
