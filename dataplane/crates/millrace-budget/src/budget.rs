//! The capacity and the line in front of it.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::charge::Charge;

/// Bytes against a capacity. A clone is the same budget.
#[derive(Debug, Clone)]
pub struct Budget {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    capacity: u64,
    used: u64,
    peak: u64,
    /// Whether one charge has gone over the capacity already.
    overdrawn: bool,
    /// Charges that need more.
    growing: VecDeque<Waiter>,
    /// Those that have not started.
    starting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: u64,
    /// Whether the capacity was large enough when it began to wait.
    was_possible: bool,
    grant: oneshot::Sender<Charge>,
}

/// A place in line: a future of the charge. Dropping it leaves the line.
#[derive(Debug)]
pub struct Place {
    budget: Budget,
    granted: oneshot::Receiver<Charge>,
}

/// Which of the two lines to wait in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    Growing,
    Starting,
}

impl Budget {
    /// An empty budget of `capacity` bytes.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let state = State {
            capacity,
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The capacity in bytes.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.state.lock().capacity
    }

    /// Changes the capacity. If more is used than that, no charge is admitted until enough has been
    /// released; if it grows, waiting charges that fit now are admitted.
    pub fn set_capacity(&self, capacity: u64) {
        self.state.lock().capacity = capacity;
        self.settle();
    }

    /// Bytes that are charged now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state.lock().used
    }

    /// The most that was ever charged at one time, bytes.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.state.lock().peak
    }

    /// Bytes that are not charged.
    #[must_use]
    pub fn unused(&self) -> u64 {
        let state = self.state.lock();
        state.capacity.saturating_sub(state.used)
    }

    /// Bytes that nobody has and nobody waits for.
    #[must_use]
    pub fn free(&self) -> u64 {
        let mut state = self.state.lock();
        match state.first_in_line() {
            None => state.capacity.saturating_sub(state.used),
            Some(_) => 0,
        }
    }

    /// Whether somebody waits.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.state.lock().first_in_line().is_some()
    }

    /// Bytes that the first in line waits for; `None` where nobody waits.
    #[must_use]
    pub fn first_in_line(&self) -> Option<u64> {
        self.state.lock().first_in_line()
    }

    /// Bytes that must come free so that the first in line fits; 0 where nobody waits.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        let mut state = self.state.lock();
        let first = state.first_in_line();
        first.map_or(0, |bytes| state.missing(bytes))
    }

    /// Bytes that must come free so that the first in line fits, or `bytes` where nobody waits.
    #[must_use]
    pub fn missing(&self, bytes: u64) -> u64 {
        let mut state = self.state.lock();
        let bytes = state.first_in_line().unwrap_or(bytes);
        state.missing(bytes)
    }

    /// Charges `bytes` if they fit and nobody waits.
    #[must_use]
    pub fn try_take(&self, bytes: u64) -> Option<Charge> {
        let mut state = self.state.lock();
        let fits = state.first_in_line().is_none() && state.missing(bytes) == 0;
        fits.then(|| {
            state.add(bytes);
            self.charge(bytes, false)
        })
    }

    /// Gets in line for `bytes`, and is let in at once where they fit.
    pub fn take(&self, bytes: u64) -> Place {
        self.enqueue(bytes, Line::Starting)
    }

    /// Charges `bytes` whether they fit or not: they are in memory already. Those who wait do so until
    /// that is made up for.
    #[must_use]
    pub fn take_anyway(&self, bytes: u64) -> Charge {
        self.state.lock().add(bytes);
        self.charge(bytes, false)
    }

    /// Whether `other` is the same budget.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    pub(crate) fn enqueue(&self, bytes: u64, line: Line) -> Place {
        let (grant, granted) = oneshot::channel();
        {
            let mut state = self.state.lock();
            let waiter = Waiter {
                bytes,
                was_possible: bytes <= state.capacity,
                grant,
            };
            state.line(line).push_back(waiter);
        }
        self.settle();
        Place {
            budget: self.clone(),
            granted,
        }
    }

    /// More for a charge if that is possible at once; `overdraws` where it is the one over the
    /// capacity.
    pub(crate) fn try_add(&self, bytes: u64, overdraws: bool) -> bool {
        let mut state = self.state.lock();
        state.forget_the_gone();
        let fits = overdraws || (state.growing.is_empty() && state.missing(bytes) == 0);
        if fits {
            state.add(bytes);
        }
        fits
    }

    /// Counts `to` instead of `from`, and ends an overdraft.
    pub(crate) fn replace(&self, from: u64, to: u64, overdraws: bool) {
        {
            let mut state = self.state.lock();
            state.give_back(from, overdraws);
            state.add(to);
        }
        self.settle();
    }

    fn charge(&self, bytes: u64, overdraws: bool) -> Charge {
        Charge::new(self.clone(), bytes, overdraws)
    }

    /// Admits every waiting charge that fits. Grants are sent outside of the lock, since one whose waiter has gone
    /// comes back.
    fn settle(&self) {
        loop {
            let Some((waiter, overdraws)) = self.state.lock().admit() else {
                return;
            };
            let charge = self.charge(waiter.bytes, overdraws);
            if let Err(orphan) = waiter.grant.send(charge) {
                // Its own drop would settle again, from in here.
                self.state.lock().give_back(waiter.bytes, overdraws);
                orphan.forget();
            }
        }
    }
}

impl State {
    fn line(&mut self, line: Line) -> &mut VecDeque<Waiter> {
        match line {
            Line::Growing => &mut self.growing,
            Line::Starting => &mut self.starting,
        }
    }

    fn add(&mut self, bytes: u64) {
        self.used = self.used.saturating_add(bytes);
        self.peak = self.peak.max(self.used);
    }

    fn give_back(&mut self, bytes: u64, overdraws: bool) {
        self.used = self.used.saturating_sub(bytes);
        self.overdrawn &= !overdraws;
    }

    fn missing(&self, bytes: u64) -> u64 {
        self.used
            .saturating_add(bytes)
            .saturating_sub(self.capacity)
    }

    /// Those at the front who no longer wait hold nobody up, and nobody gives up anything for them.
    fn forget_the_gone(&mut self) {
        for line in [&mut self.growing, &mut self.starting] {
            while line.pop_front_if(|first| first.grant.is_closed()).is_some() {}
        }
    }

    fn first_in_line(&mut self) -> Option<u64> {
        self.forget_the_gone();
        let first = self.growing.front().or(self.starting.front());
        first.map(|first| first.bytes)
    }

    /// The next one who is let in, already counted, and whether that overdraws.
    fn admit(&mut self) -> Option<(Waiter, bool)> {
        self.forget_the_gone();
        let is_growing = !self.growing.is_empty();
        let first = self.growing.front().or(self.starting.front())?;
        let fits = self.missing(first.bytes) == 0
            || self.used == 0
            || (first.was_possible && first.bytes > self.capacity);
        let overdraws = !fits && is_growing && !self.overdrawn;
        if !fits && !overdraws {
            return None;
        }
        let waiter = match is_growing {
            true => self.growing.pop_front(),
            false => self.starting.pop_front(),
        }?;
        self.overdrawn |= overdraws;
        self.add(waiter.bytes);
        Some((waiter, overdraws))
    }
}

impl Future for Place {
    type Output = Charge;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Charge> {
        let granted = Pin::new(&mut self.granted).poll(context);
        granted.map(|charge| charge.expect("whoever stays in line is let in before the line ends"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.granted.close();
        // What came in the meantime goes back, and charges that waited behind this one may fit now.
        drop(self.granted.try_recv());
        self.budget.settle();
    }
}
