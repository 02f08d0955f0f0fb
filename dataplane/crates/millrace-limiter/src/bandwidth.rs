//! The bandwidth, and the part of it that less urgent tiers leave free.
//!
//! A network that is asked for all that it carries has a queue, and what is urgent waits in it behind
//! whatever was granted before. So the less urgent tiers never take all: the rest empties the queues
//! that form when requests meet, and pays for what is not counted, such as the headers of packets.

use std::time::Duration;

use crate::{bucket::Bucket, tier::Tier};

/// How much of a second's bandwidth may be saved up: short enough that a burst does not hurt
/// what is more urgent, long enough that timers' granularity costs no bandwidth.
pub(crate) const BURST: Duration = Duration::from_millis(100);

/// The same for tiers that leave headroom. A burst is a queue in the network, which only the headroom
/// empties; timers and busy processors are late by a few milliseconds.
const BURST_BESIDE_HEADROOM: Duration = Duration::from_millis(10);

/// One in so many bytes is left free.
const HEADROOM_PART: u64 = 20;

/// Bytes that may move now, whoever moves them.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    all: Bucket,
    /// What tiers that leave headroom draw on; all others are charged to it.
    beside_headroom: Bucket,
}

impl Bandwidth {
    pub(crate) fn new(rate: Option<u64>, now: Duration) -> Self {
        let reduced = rate.map(without_headroom);
        Self {
            all: Bucket::new(rate, BURST, now),
            beside_headroom: Bucket::new(reduced, BURST_BESIDE_HEADROOM, now),
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.all.set_rate(rate, now);
        let reduced = rate.map(without_headroom);
        self.beside_headroom.set_rate(reduced, now);
    }

    pub(crate) const fn rate(&self) -> Option<u64> {
        self.all.rate()
    }

    /// Adds what has gathered since; returns the bytes that tiers that leave headroom could have
    /// taken, and that could not be saved up.
    pub(crate) fn fill(&mut self, now: Duration) -> u64 {
        let _lost = self.all.fill(now);
        self.beside_headroom.fill(now)
    }

    /// What a tier may take from.
    pub(crate) const fn of(&self, tier: Tier) -> &Bucket {
        if tier.leaves_headroom() {
            &self.beside_headroom
        } else {
            &self.all
        }
    }

    /// The most that is granted to one flow before it is the next one's turn.
    pub(crate) fn turn(&self) -> u64 {
        self.all.turn()
    }

    /// Takes bytes for a tier that found what it [may take from](Self::of) open.
    pub(crate) fn take(&mut self, tier: Tier, bytes: u64) {
        self.all.take(bytes);
        if tier.leaves_headroom() {
            self.beside_headroom.take(bytes);
        } else {
            // Others may use the headroom for as long as they like. The debt must stay bounded, or less urgent tiers
            // would wait for minutes after hours of it.
            self.beside_headroom.charge(bytes);
        }
    }

    /// Takes bytes that move in any case, into bounded debt.
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.all.charge(bytes);
        self.beside_headroom.charge(bytes);
    }

    /// Puts bytes back that were taken and did not move.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.all.give_back(bytes);
        self.beside_headroom.give_back(bytes);
    }
}

const fn without_headroom(rate: u64) -> u64 {
    rate - rate / HEADROOM_PART
}
