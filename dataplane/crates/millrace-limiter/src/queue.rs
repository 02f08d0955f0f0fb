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
    /// To one flow, in one turn, but for the rest of a request.
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
    /// Every one of `flows` once; the first has its turn.
    turns: VecDeque<u64>,
    /// A flow that everybody has left stays until its turn comes.
    flows: HashMap<u64, Flow>,
    /// What is left of the turn; 0 before it begins, at least 1 inside a request.
    turn_left: u64,
    waiting: usize,
}

/// The waiters of one flow.
#[derive(Debug, Default)]
struct Flow {
    waiters: VecDeque<Waiter>,
    /// Bytes that it was granted beyond its turns, and that its next turns are shorter by.
    owed: u64,
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
        loop {
            let number = *self.turns.front()?;
            let flow = self.flows.entry(number).or_default();
            if self.turn_left == 0 {
                let turn = portions.turn.max(1);
                if flow.owed >= turn && self.turns.len() > 1 {
                    flow.owed -= turn;
                    self.turns.rotate_left(1);
                    continue;
                }
                self.turn_left = turn.saturating_sub(std::mem::take(&mut flow.owed)).max(1);
            }
            let Some(waiter) = flow.waiters.pop_front() else {
                self.end(number);
                continue;
            };
            let bytes = waiter.left.min(portions.slice.max(1));
            // A turn ends with a request. Nothing of a request moves before all of it is granted: if turns cut requests
            // in two, the rests of many would be granted, and all of these would move, at once.
            let is_complete = waiter.left == bytes;
            let turn_left_min = u64::from(!is_complete);
            flow.owed += bytes.saturating_sub(self.turn_left);
            self.turn_left = self.turn_left.saturating_sub(bytes).max(turn_left_min);
            let waiter = Waiter {
                left: waiter.left - bytes,
                granted: waiter.granted + bytes,
                ..waiter
            };
            let complete = if is_complete {
                self.waiting -= 1;
                Some(waiter)
            } else {
                flow.waiters.push_front(waiter);
                None
            };
            if flow.waiters.is_empty() {
                self.end(number);
            } else if self.turn_left == 0 {
                self.turns.rotate_left(1);
            }
            return Some(Slice { bytes, complete });
        }
    }

    /// The first flow has nobody left.
    fn end(&mut self, flow: u64) {
        self.turns.pop_front();
        self.flows.remove(&flow);
        self.turn_left = 0;
    }

    fn remove(&mut self, ticket: Ticket) -> Option<u64> {
        let waiters = &mut self.flows.get_mut(&ticket.flow)?.waiters;
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
