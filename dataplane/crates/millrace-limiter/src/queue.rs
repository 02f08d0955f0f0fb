//! Who waits, and who is next.

use std::collections::VecDeque;

/// How urgent bytes are, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// What producers send and what makes room in the write-ahead log.
    WalUpload,
    /// Reads at the end of a stream, from memory.
    TailRead,
    /// Reads of old data that somebody waits for.
    CatchUpMiss,
    /// Reads of old data that somebody will want.
    Prefetch,
    /// Rewriting objects. Has a guaranteed share, because without it every other read gets dearer.
    Compaction,
}

impl Tier {
    /// All tiers, the most urgent first.
    pub const ALL: [Self; 5] = [
        Self::WalUpload,
        Self::TailRead,
        Self::CatchUpMiss,
        Self::Prefetch,
        Self::Compaction,
    ];
}

/// One in so many bytes goes to waiting compaction however urgent the others are.
const COMPACTION_SHARE: u64 = 20;

/// Somebody who waits; numbers are given in order of arrival.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    number: u64,
    bytes: u64,
}

/// Waiters by tier, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    tiers: [VecDeque<Waiter>; Tier::ALL.len()],
    next_number: u64,
    /// Bytes that went to others while compaction waited.
    compaction_passed_over: u64,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.tiers.iter().map(VecDeque::len).sum()
    }

    /// Appends a waiter and returns its number.
    pub(crate) fn push(&mut self, tier: Tier, bytes: u64) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.tiers[tier as usize].push_back(Waiter { number, bytes });
        number
    }

    /// The number of the waiter whose turn it is.
    pub(crate) fn first(&self) -> Option<u64> {
        let compaction = self.tiers[Tier::Compaction as usize].front();
        let owed = self.compaction_passed_over / COMPACTION_SHARE;
        if let Some(waiter) = compaction.filter(|waiter| owed >= waiter.bytes) {
            return Some(waiter.number);
        }
        self.tiers
            .iter()
            .find_map(VecDeque::front)
            .map(|waiter| waiter.number)
    }

    /// Removes a waiter whose bytes were granted.
    pub(crate) fn grant(&mut self, tier: Tier, number: u64) {
        let granted = self.remove(tier, number);
        if tier == Tier::Compaction {
            self.compaction_passed_over = 0;
        } else if !self.tiers[Tier::Compaction as usize].is_empty() {
            self.compaction_passed_over = self.compaction_passed_over.saturating_add(granted);
        }
    }

    /// Removes a waiter, wherever it stands; returns the bytes that it wanted.
    pub(crate) fn remove(&mut self, tier: Tier, number: u64) -> u64 {
        let waiters = &mut self.tiers[tier as usize];
        let place = waiters.binary_search_by_key(&number, |waiter| waiter.number);
        place
            .ok()
            .and_then(|place| waiters.remove(place))
            .map_or(0, |waiter| waiter.bytes)
    }
}
