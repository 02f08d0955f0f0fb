//! The order of eviction when room is needed.
//!
//! 1. Unwatched blocks, least recently used first.
//! 2. Blocks that were read completely and are kept for a repeated read, of the least recently used
//!    reader first.
//! 3. All blocks of a reader that has not advanced for [`STALLED`].
//! 4. Of the reader with the most unread data, the block that is farthest ahead. So the largest
//!    windows shrink until all are equal. If every reader has only its current block left, the one
//!    that has read least of it loses: the others will free theirs soon. Among equals it is the most
//!    recently used one, because readers that take turns will need its block last.
//!
//! Reads in flight keep their blocks.

use std::time::Duration;

use super::{Dropped, Phase, State};
use crate::reader::{Listed, ReaderId};

/// A reader that has not gone on for so long loses its blocks before others lose theirs.
const STALLED: Duration = Duration::from_secs(5);

/// How much others may be made to give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// What no read was in the middle of: for what would merely be good to have.
    Gentle,
    /// Everything: for what a read cannot go on without.
    Full,
}

impl State {
    /// Evicts until `bytes` are free, or what the first needs who waits for room. Gives whether they
    /// are; what answers still hold, and what is on its way for nobody, comes free later.
    pub(crate) fn make_room(&mut self, bytes: u64, pressure: Pressure, now: Duration) -> bool {
        let mut promised = 0;
        loop {
            let missing = self.budget.missing(bytes);
            if missing <= promised + self.abandoned_bytes {
                return missing == 0;
            }
            let Some(more) = self.evict_one(pressure, now) else {
                return false;
            };
            promised += more;
        }
    }

    /// Evicts for those who wait for room, and what is above a budget that became smaller.
    pub(crate) fn serve_those_who_wait(&mut self, now: Duration) {
        if self.budget.missing(0) > 0 {
            self.make_room(0, Pressure::Full, now);
        }
    }

    /// Makes one reader give up one block, or what nobody watches go. Gives the bytes that come free
    /// later; `None` where nobody can give up anything.
    fn evict_one(&mut self, pressure: Pressure, now: Duration) -> Option<u64> {
        if let Some(promised) = self.evict_unwatched() {
            return Some(promised);
        }
        if let Some(&(_, id)) = self.behind.first() {
            return Some(self.give_up_first(id));
        }
        if let Some(&(_, id)) = self.holders.first()
            && self.is_stalled(id, now)
        {
            return Some(self.give_up_last(id, now));
        }
        let &(_, _, id) = self.ahead.last()?;
        let reader = self.readers.get(&id)?;
        let is_in_its_middle = reader.held <= reader.behind() + 1;
        if pressure == Pressure::Gentle && is_in_its_middle {
            return None;
        }
        Some(self.give_up_last(id, now))
    }

    fn is_stalled(&self, id: ReaderId, now: Duration) -> bool {
        let reader = self.readers.get(&id);
        reader.is_some_and(|reader| now.saturating_sub(reader.last_use) >= STALLED)
    }

    pub(super) fn evict_unwatched(&mut self) -> Option<u64> {
        let (_, id) = self.unwatched.pop_first()?;
        let slot = self.slots.remove(&id)?;
        debug_assert!(slot.pins == 0);
        match &slot.phase {
            Phase::Resident(_) => {}
            Phase::Coming { request: None, .. } => {
                self.queue.remove(id);
            }
            Phase::Coming {
                request: Some(request),
                ..
            } => request.lose_one(),
        }
        let dropped = Dropped::of(slot);
        if let Some(size) = dropped.wasted {
            self.metrics.evicted_unread(size);
        }
        Some(dropped.promised)
    }

    /// A reader gives up what it has read through first.
    fn give_up_first(&mut self, id: ReaderId) -> u64 {
        let first = self.readers.get_mut(&id).and_then(|reader| {
            reader.held = reader.held.checked_sub(1)?;
            reader.blocks.pop_front()
        });
        let dropped = first.and_then(|first| self.unwatch(&first));
        self.list(id);
        dropped.map_or(0, |dropped| dropped.promised)
    }

    /// A reader gives up what it would read last.
    fn give_up_last(&mut self, id: ReaderId, now: Duration) -> u64 {
        let Some(reader) = self.readers.get_mut(&id) else {
            return 0;
        };
        reader.held = reader.held.saturating_sub(1);
        let Some(last) = reader.blocks.get_mut(reader.held) else {
            return 0;
        };
        let given_up = crate::reader::Watched {
            located: last.located.clone(),
            generation: std::mem::take(&mut last.generation),
        };
        reader.window.evicted(now);
        let dropped = self.unwatch(&given_up);
        self.list(id);
        dropped.map_or(0, |dropped| {
            if let Some(size) = dropped.wasted {
                self.metrics.evicted_unread(size);
            }
            dropped.promised
        })
    }

    /// Brings a reader's places in the orders of eviction up to date.
    pub(super) fn list(&mut self, id: ReaderId) {
        let Some(reader) = self.readers.get_mut(&id) else {
            return;
        };
        let (is_idle, behind) = (reader.busy == reader.waiting, reader.behind());
        let listed = Listed {
            used_at: reader.used_at,
            holds: is_idle && reader.held > 0,
            holds_behind: is_idle && behind > 0,
            ahead: (is_idle && reader.held > behind).then(|| reader.ahead_bytes()),
        };
        let before = std::mem::replace(&mut reader.listed, listed);
        if before == listed {
            return;
        }
        self.unlist(id, before);
        self.by_use.insert((listed.used_at, id));
        if listed.holds {
            self.holders.insert((listed.used_at, id));
        }
        if listed.holds_behind {
            self.behind.insert((listed.used_at, id));
        }
        if let Some(bytes) = listed.ahead {
            self.ahead.insert((bytes, listed.used_at, id));
        }
    }

    pub(super) fn unlist(&mut self, id: ReaderId, listed: Listed) {
        let by_use = (listed.used_at, id);
        self.by_use.remove(&by_use);
        self.holders.remove(&by_use);
        self.behind.remove(&by_use);
        if let Some(bytes) = listed.ahead {
            self.ahead.remove(&(bytes, listed.used_at, id));
        }
    }
}
