//! The broker's memory for requests and responses in flight.
//!
//! Requests wait for room, first come first served. Two rules keep that free of deadlock: a frame
//! that has begun goes before frames that have not, and when frames that have begun hold all of the
//! memory, **one** of them may go over the bound and so reach its end. Responses are charged without
//! waiting, because they exist already; new requests wait until they have been sent.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Counts bytes in flight over all connections against one bound.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Whether one frame may go over the bound already.
    overdrawn: bool,
    /// Frames that have begun and need more.
    growing: VecDeque<Waiter>,
    /// Frames that have not begun.
    starting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    grant: oneshot::Sender<Charge>,
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
    overdraft: bool,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            state: Mutex::default(),
        })
    }

    /// Bytes in flight now.
    pub(crate) fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Bytes that are not in flight and might be.
    pub(crate) fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// Whether somebody waits for room.
    pub(crate) fn is_short(&self) -> bool {
        let state = self.state.lock();
        !state.growing.is_empty() || !state.starting.is_empty()
    }

    /// Takes room for a new frame if there is some and nobody waits for it.
    pub(crate) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let mut state = self.state.lock();
        let free = state.growing.is_empty() && state.starting.is_empty();
        (free && state.fits(self.limit, bytes)).then(|| {
            state.used += bytes;
            self.charge(bytes, false)
        })
    }

    /// Waits for room for a new frame.
    pub(crate) async fn take(self: &Arc<Self>, bytes: usize) -> Charge {
        let granted = {
            let mut state = self.state.lock();
            let (grant, granted) = oneshot::channel();
            state.starting.push_back(Waiter { bytes, grant });
            granted
        };
        self.settle();
        granted
            .await
            .expect("a queued waiter is granted before it is removed")
    }

    fn charge(self: &Arc<Self>, bytes: usize, overdraft: bool) -> Charge {
        Charge {
            budget: Arc::clone(self),
            bytes,
            overdraft,
        }
    }

    /// Grants what can be granted. Grants are sent outside of the lock, since one whose waiter has
    /// gone comes back and is dropped.
    fn settle(self: &Arc<Self>) {
        loop {
            let (waiter, overdraft) = {
                let mut state = self.state.lock();
                match state.next(self.limit) {
                    Some(next) => next,
                    None => return,
                }
            };
            let charge = self.charge(waiter.bytes, overdraft);
            if let Err(mut orphan) = waiter.grant.send(charge) {
                orphan.give_back();
            }
        }
    }
}

impl State {
    /// Whether `bytes` more fit. Into an empty budget everything fits, however small its bound.
    fn fits(&self, limit: usize, bytes: usize) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= limit
    }

    /// The next waiter to be granted, already counted, and whether it overdraws.
    fn next(&mut self, limit: usize) -> Option<(Waiter, bool)> {
        let queue_is_growing = !self.growing.is_empty();
        let bytes = self.growing.front().or(self.starting.front())?.bytes;
        let fits = self.fits(limit, bytes);
        let overdraft = !fits && queue_is_growing && !self.overdrawn;
        if !fits && !overdraft {
            return None;
        }
        self.overdrawn |= overdraft;
        self.used += bytes;
        let queue = if queue_is_growing {
            &mut self.growing
        } else {
            &mut self.starting
        };
        queue.pop_front().map(|waiter| (waiter, overdraft))
    }
}

impl Charge {
    /// Bytes that are counted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more for the same frame if that is possible at once.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let mut state = self.budget.state.lock();
        let free =
            self.overdraft || (state.growing.is_empty() && state.fits(self.budget.limit, bytes));
        if free {
            state.used += bytes;
            self.bytes += bytes;
        }
        free
    }

    /// Waits until the same frame may have more.
    pub(crate) async fn grow(&mut self, bytes: usize) {
        let granted = {
            let mut state = self.budget.state.lock();
            let (grant, granted) = oneshot::channel();
            state.growing.push_back(Waiter { bytes, grant });
            granted
        };
        self.budget.settle();
        let mut more = granted
            .await
            .expect("a queued waiter is granted before it is removed");
        self.bytes += std::mem::take(&mut more.bytes);
        self.overdraft |= std::mem::take(&mut more.overdraft);
    }

    /// The request has become a response of `bytes`: counts that instead, without waiting.
    pub(crate) fn become_response(&mut self, bytes: usize) {
        {
            let mut state = self.budget.state.lock();
            state.used = state.used.saturating_sub(self.bytes).saturating_add(bytes);
            state.overdrawn &= !self.overdraft;
            self.bytes = bytes;
            self.overdraft = false;
        }
        self.budget.settle();
    }

    /// Stops counting, and leaves it to the caller to settle.
    fn give_back(&mut self) {
        let mut state = self.budget.state.lock();
        state.used = state.used.saturating_sub(self.bytes);
        state.overdrawn &= !self.overdraft;
        self.bytes = 0;
        self.overdraft = false;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 || self.overdraft {
            self.give_back();
            self.budget.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, poll};

    use super::*;

    #[tokio::test]
    async fn room_is_given_first_come_first_served() {
        let budget = Budget::new(100);
        let first = budget.try_take(80).expect("room");
        let mut large = Box::pin(budget.take(90));
        assert!(poll!(&mut large).is_pending());
        assert!(budget.try_take(1).is_none(), "nobody overtakes a waiter");
        drop(first);
        assert_eq!(large.await.bytes(), 90);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn one_frame_may_overdraw_so_that_begun_frames_cannot_block_each_other() {
        let budget = Budget::new(100);
        let mut a = budget.try_take(50).expect("room");
        let mut b = budget.try_take(50).expect("room");
        assert!(!a.try_grow(10));
        a.grow(10).await;
        assert!(a.try_grow(1_000), "the one that overdraws reaches its end");
        let mut waits = Box::pin(b.grow(10));
        assert!(poll!(&mut waits).is_pending());
        drop(a);
        waits.await;
        drop(b);
        assert_eq!(budget.used(), 0);
        assert!(!budget.state.lock().overdrawn);
    }

    #[tokio::test]
    async fn a_waiter_that_leaves_takes_nothing_along() {
        let budget = Budget::new(10);
        let held = budget.try_take(10).expect("room");
        let mut leaves = Box::pin(budget.take(5));
        assert!(poll!(&mut leaves).is_pending());
        let mut stays = Box::pin(budget.take(10));
        assert!(poll!(&mut stays).is_pending());
        drop(leaves);
        drop(held);
        assert_eq!(stays.now_or_never().expect("granted").bytes(), 10);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_grant_that_nobody_collects_is_given_back() {
        let budget = Budget::new(10);
        let held = budget.try_take(10).expect("room");
        let mut leaves = Box::pin(budget.take(5));
        assert!(poll!(&mut leaves).is_pending());
        drop(held);
        assert_eq!(budget.used(), 5);
        drop(leaves);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_response_replaces_its_request_without_waiting() {
        let budget = Budget::new(10);
        let mut charge = budget.try_take(10).expect("room");
        charge.become_response(500);
        assert_eq!(budget.used(), 500);
        assert!(budget.try_take(1).is_none());
        drop(charge);
        assert!(budget.try_take(1).is_some());
    }
}
