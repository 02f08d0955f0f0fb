//! The queue of waiters, and which of them is next.

use std::collections::{HashMap, VecDeque};

use tokio::sync::oneshot;

use crate::tier::Tier;

/// The most turns that a flow may owe: after the rate was lowered, its debt is many of the shorter ones.
const OWED_TURNS_MAX: u64 = 100;

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Given in order of arrival.
    number: u64,
    /// Bytes that are not granted yet.
    left: u64,
    /// Bytes that are.
    granted: u64,
    /// Those of them that were granted beyond its flow's turn.
    beyond_turn: u64,
    /// They count as in flight once they are granted.
    is_read: bool,
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
    /// To one flow, in one turn. A started request is always finished, so a turn may exceed this.
    pub(crate) turn: u64,
}

/// What was granted to one who does not use it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unused {
    pub(crate) bytes: u64,
    /// Those of them that count as in flight.
    pub(crate) in_flight: u64,
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
    /// Each key of `flows` exactly once; the front has the turn.
    turns: VecDeque<u64>,
    /// A flow that everybody has left stays until its turn comes and it owes nothing.
    flows: HashMap<u64, Flow>,
    /// What is left of the turn, in bytes; `None` before it begins.
    turn_left: Option<u64>,
    waiting: usize,
}

/// The waiters of one flow.
#[derive(Debug, Default)]
struct Flow {
    waiters: VecDeque<Waiter>,
    /// Bytes granted beyond its turns; deducted from later turns.
    owed: u64,
}

impl Slice {
    /// The bytes that are in flight from now on.
    pub(crate) fn in_flight(&self) -> u64 {
        self.complete.as_ref().map_or(0, Waiter::in_flight)
    }
}

impl Waiter {
    /// The bytes that are in flight once all are granted.
    fn in_flight(&self) -> u64 {
        if self.is_read { self.granted } else { 0 }
    }

    /// Wakes it.
    ///
    /// # Errors
    /// It has gone, and uses nothing of what was granted.
    pub(crate) fn wake(self) -> Result<(), Unused> {
        let (bytes, in_flight) = (self.granted, self.in_flight());
        let woken = self.all_granted.send(());
        woken.map_err(|()| Unused { bytes, in_flight })
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
        is_read: bool,
    ) -> (Ticket, oneshot::Receiver<()>) {
        let number = self.next_number;
        self.next_number += 1;
        let (all_granted, wait) = oneshot::channel();
        let waiter = Waiter {
            number,
            left,
            granted,
            beyond_turn: 0,
            is_read,
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
        let flows = tiers.iter().flat_map(|tier| tier.flows.values());
        let waiters = flows.flat_map(|flow| &flow.waiters);
        waiters.map(|waiter| waiter.granted).sum()
    }
}

impl Flows {
    fn push(&mut self, flow: u64, waiter: Waiter) {
        self.waiting += 1;
        let turns = &mut self.turns;
        let flow = self.flows.entry(flow).or_insert_with(|| {
            turns.push_back(flow);
            Flow::default()
        });
        flow.waiters.push_back(waiter);
    }

    fn grant(&mut self, portions: Portions) -> Option<Slice> {
        let mut waiter = self.next(portions.turn.max(1))?;
        let number = *self.turns.front()?;
        let flow = self.flows.entry(number).or_default();
        let bytes = waiter.left.min(portions.slice.max(1));
        let turn_left = self.turn_left.unwrap_or(0);
        let beyond_turn = bytes.saturating_sub(turn_left);
        self.turn_left = Some(turn_left.saturating_sub(bytes));
        flow.owed += beyond_turn;
        waiter.left -= bytes;
        waiter.granted += bytes;
        waiter.beyond_turn += beyond_turn;
        // If a turn could end inside a request, many requests would complete, and transfer, at the same time.
        if waiter.left > 0 {
            flow.waiters.push_front(waiter);
            return Some(Slice {
                bytes,
                complete: None,
            });
        }
        if flow.waiters.is_empty() || turn_left <= bytes {
            self.end_turn();
        }
        self.leaves();
        Some(Slice {
            bytes,
            complete: Some(waiter),
        })
    }

    /// Takes out the waiter whose turn it is, and begins the turn where none has begun.
    fn next(&mut self, turn: u64) -> Option<Waiter> {
        loop {
            let number = *self.turns.front()?;
            let flow = self.flows.entry(number).or_default();
            if self.turn_left.is_none() {
                // The debt may be from turns at a higher rate.
                flow.owed = flow.owed.min(turn.saturating_mul(OWED_TURNS_MAX));
                if flow.owed >= turn {
                    flow.owed -= turn;
                    self.turns.rotate_left(1);
                    continue;
                }
                self.turn_left = Some(turn - std::mem::take(&mut flow.owed));
            }
            if let Some(waiter) = flow.waiters.pop_front() {
                return Some(waiter);
            }
            self.end_turn();
        }
    }

    /// The first flow's turn is over; it stays if it has waiters, or owes something.
    fn end_turn(&mut self) {
        self.turn_left = None;
        let Some(number) = self.turns.pop_front() else {
            return;
        };
        match self.flows.get(&number) {
            Some(flow) if flow.owed > 0 || !flow.waiters.is_empty() => self.turns.push_back(number),
            _ => _ = self.flows.remove(&number),
        }
    }

    /// One waiter less. Where nobody waits, nobody is owed anything.
    fn leaves(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0 {
            *self = Self::default();
        }
    }

    fn remove(&mut self, ticket: Ticket) -> Option<u64> {
        let flow = self.flows.get_mut(&ticket.flow)?;
        let place = flow
            .waiters
            .binary_search_by_key(&ticket.number, |waiter| waiter.number)
            .ok()?;
        let removed = flow.waiters.remove(place)?;
        flow.owed = flow.owed.saturating_sub(removed.beyond_turn);
        let has_turn = self.turns.front() == Some(&ticket.flow);
        // It alone kept the turn.
        if has_turn && place == 0 && self.turn_left == Some(0) {
            self.end_turn();
        }
        self.leaves();
        Some(removed.granted)
    }
}
