//! The queue of waiters, and which of them is next.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use crate::tier::Tier;

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Given in order of arrival.
    number: u64,
    /// Bytes that are not granted yet.
    left: u64,
    /// Bytes that are.
    granted: u64,
    /// Tells that all are.
    all_granted: oneshot::Sender<()>,
}

/// Where somebody waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) tier: Tier,
    pub(crate) flow: u64,
    number: u64,
}

/// How much is granted at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portions {
    /// To one waiter.
    pub(crate) slice: u64,
    /// To one flow, in one turn.
    pub(crate) turn: u64,
}

/// Bytes that were granted.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) bytes: u64,
    /// The waiters that have all of their bytes now.
    pub(crate) complete: Option<Waiter>,
}

/// Waiters by tier.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    tiers: [Flows; Tier::ALL.len()],
    next_number: u64,
}

/// The waiters of one tier, by flow.
#[derive(Debug, Default)]
struct Flows {
    /// Every flow of `waiters` once; the first has its turn.
    turns: VecDeque<u64>,
    /// A flow that everybody has left stays until its turn comes.
    waiters: HashMap<u64, VecDeque<Waiter>>,
    /// What is left of the turn; 0 before it begins.
    turn_left: u64,
    waiting: usize,
}

impl Waiter {
    /// Wakes it.
    ///
    /// # Errors
    /// It has gone; so many bytes were granted in vain.
    pub(crate) fn wake(self) -> Result<(), u64> {
        self.all_granted.send(()).map_err(|()| self.granted)
    }
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.tiers.iter().all(|flows| flows.waiting == 0)
    }

    pub(crate) fn waiting(&self) -> usize {
        self.tiers.iter().map(|flows| flows.waiting).sum()
    }

    pub(crate) fn waits(&self, tier: Tier) -> bool {
        self.tiers[tier as usize].waiting > 0
    }

    /// Whether somebody waits who is as urgent as `tier`, or more.
    pub(crate) fn waits_ahead_of(&self, tier: Tier) -> bool {
        self.first().is_some_and(|first| first <= tier)
    }

    /// The most urgent tier in which somebody waits.
    pub(crate) fn first(&self) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| self.waits(*tier))
    }

    /// Appends a waiter of which `granted` bytes are granted already and `left` are not.
    pub(crate) fn push(
        &mut self,
        tier: Tier,
        flow: u64,
        (granted, left): (u64, u64),
    ) -> (Ticket, oneshot::Receiver<()>) {
        let number = self.next_number;
        self.next_number += 1;
        let (all_granted, wait) = oneshot::channel();
        let waiter = Waiter {
            number,
            left,
            granted,
            all_granted,
        };
        self.tiers[tier as usize].push(flow, waiter);
        (Ticket { tier, flow, number }, wait)
    }

    /// Grants a slice to whose turn it is in a tier; none where nobody waits in it.
    pub(crate) fn grant(&mut self, tier: Tier, portions: Portions) -> Option<Slice> {
        self.tiers[tier as usize].grant(portions)
    }

    /// Removes a waiter, wherever it stands; returns the bytes that were granted to it, none where
    /// it has left already.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<u64> {
        self.tiers[ticket.tier as usize].remove(ticket)
    }

    /// Removes everybody; returns the bytes that were granted to those who did not get all.
    pub(crate) fn clear(&mut self) -> u64 {
        let tiers = std::mem::take(&mut self.tiers);
        let waiters = tiers.iter().flat_map(|flows| flows.waiters.values());
        waiters.flatten().map(|waiter| waiter.granted).sum()
    }
}

impl Flows {
    fn push(&mut self, flow: u64, waiter: Waiter) {
        self.waiting += 1;
        let turns = &mut self.turns;
        let waiters = self.waiters.entry(flow).or_insert_with(|| {
            turns.push_back(flow);
            VecDeque::new()
        });
        waiters.push_back(waiter);
    }

    fn grant(&mut self, portions: Portions) -> Option<Slice> {
        loop {
            let flow = *self.turns.front()?;
            let waiters = self.waiters.get_mut(&flow);
            let Some((waiters, waiter)) = waiters.and_then(|all| {
                let first = all.pop_front()?;
                Some((all, first))
            }) else {
                self.end(flow);
                continue;
            };
            if self.turn_left == 0 {
                self.turn_left = portions.turn.max(1);
            }
            let bytes = waiter.left.min(portions.slice.max(1)).min(self.turn_left);
            self.turn_left -= bytes;
            let waiter = Waiter {
                left: waiter.left - bytes,
                granted: waiter.granted + bytes,
                ..waiter
            };
            let complete = if waiter.left == 0 {
                self.waiting -= 1;
                Some(waiter)
            } else {
                waiters.push_front(waiter);
                None
            };
            if waiters.is_empty() {
                self.end(flow);
            } else if self.turn_left == 0 {
                self.turns.rotate_left(1);
            }
            return Some(Slice { bytes, complete });
        }
    }

    /// The first flow has nobody left.
    fn end(&mut self, flow: u64) {
        self.turns.pop_front();
        self.waiters.remove(&flow);
        self.turn_left = 0;
    }

    fn remove(&mut self, ticket: Ticket) -> Option<u64> {
        let waiters = self.waiters.get_mut(&ticket.flow)?;
        let place = waiters
            .binary_search_by_key(&ticket.number, |waiter| waiter.number)
            .ok()?;
        let removed = waiters.remove(place)?;
        self.waiting -= 1;
        if self.waiting == 0 {
            *self = Self::default();
        }
        Some(removed.granted)
    }
}
