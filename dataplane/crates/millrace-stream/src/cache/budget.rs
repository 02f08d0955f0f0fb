//! A byte budget that is handed out first come, first served.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Counts bytes against a capacity. Whoever does not fit waits in line; nobody overtakes.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Written under the state's lock.
    capacity: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: u64,
    admit: oneshot::Sender<Charge>,
}

/// Bytes that are charged to the budget until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    bytes: u64,
    budget: Weak<Inner>,
}

/// The answer to asking for bytes.
#[derive(Debug)]
pub(crate) enum Admission {
    /// They are charged.
    Now(Charge),
    /// They are not there yet.
    Later(PlaceInLine),
}

/// A place in the line: a future of the charge. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct PlaceInLine {
    // Declared before `_on_leave`, so that it is closed when the line is looked at again.
    admitted: oneshot::Receiver<Charge>,
    _on_leave: Recheck,
}

/// Looks at the line when dropped: the one who leaves may have been all that held the others up.
#[derive(Debug)]
struct Recheck(Weak<Inner>);

impl Drop for Recheck {
    fn drop(&mut self) {
        if let Some(budget) = self.0.upgrade() {
            budget.admit_waiters();
        }
    }
}

impl Future for PlaceInLine {
    type Output = Charge;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Charge> {
        match ready!(Pin::new(&mut self.admitted).poll(context)) {
            Ok(charge) => Poll::Ready(charge),
            // The budget is gone, and with it whatever was to be bounded.
            Err(_) => Poll::Ready(Charge::nothing()),
        }
    }
}

impl Budget {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                capacity: AtomicU64::new(capacity),
                state: Mutex::default(),
            }),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    /// Changes the capacity. Where less is left than is used, nobody is admitted until enough has
    /// been given back; where there is more, whoever fits now is.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        let state = self.inner.state.lock();
        self.inner.capacity.store(capacity, Ordering::Release);
        drop(state);
        self.inner.admit_waiters();
    }

    pub(crate) fn used(&self) -> u64 {
        self.inner.state.lock().used
    }

    /// Bytes that must be freed so that the first in line fits; 0 when nobody waits.
    pub(crate) fn wanted(&self) -> u64 {
        let mut state = self.inner.state.lock();
        let first = state.first_in_line();
        first.map_or(0, |bytes| {
            (state.used + bytes).saturating_sub(self.inner.capacity())
        })
    }

    /// Bytes that the first in line waits for; 0 when nobody waits.
    pub(crate) fn first_in_line(&self) -> u64 {
        self.inner.state.lock().first_in_line().unwrap_or(0)
    }

    /// Asks for `bytes`. The caller has checked them against the capacity.
    pub(crate) fn admit(&self, bytes: u64) -> Admission {
        let mut state = self.inner.state.lock();
        if state.waiters.is_empty() && self.inner.fits(&state, bytes) {
            state.used += bytes;
            return Admission::Now(self.inner.charge(bytes));
        }
        let (admit, admitted) = oneshot::channel();
        state.waiters.push_back(Waiter { bytes, admit });
        Admission::Later(PlaceInLine {
            admitted,
            _on_leave: Recheck(Arc::downgrade(&self.inner)),
        })
    }

    /// Charges `bytes` whether they fit or not: they are in memory already.
    pub(crate) fn charge_anyway(&self, bytes: u64) -> Charge {
        self.inner.state.lock().used += bytes;
        self.inner.charge(bytes)
    }
}

impl State {
    /// Bytes that the first one waits for who has not given up.
    fn first_in_line(&mut self) -> Option<u64> {
        // Those who gave up would otherwise keep others evicting for them.
        while self
            .waiters
            .front()
            .is_some_and(|waiter| waiter.admit.is_closed())
        {
            self.waiters.pop_front();
        }
        self.waiters.front().map(|first| first.bytes)
    }
}

impl Inner {
    fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Acquire)
    }

    /// Whether the first in line gets its bytes. More than the capacity is asked for only where that
    /// has shrunk since; such a wait would never end, so it does not begin.
    fn fits(&self, state: &State, bytes: u64) -> bool {
        let capacity = self.capacity();
        bytes > capacity || state.used + bytes <= capacity
    }

    fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        Charge {
            bytes,
            budget: Arc::downgrade(self),
        }
    }

    fn admit_waiters(self: &Arc<Self>) {
        loop {
            // A charge that its waiter no longer wants releases itself when dropped, which takes
            // the lock again: so it is sent, and dropped, outside the lock.
            let (waiter, charge) = {
                let mut state = self.state.lock();
                let Some(first) = state.waiters.front() else {
                    return;
                };
                if !first.admit.is_closed() && !self.fits(&state, first.bytes) {
                    return;
                }
                let Some(waiter) = state.waiters.pop_front() else {
                    return;
                };
                if waiter.admit.is_closed() {
                    continue;
                }
                state.used += waiter.bytes;
                let bytes = waiter.bytes;
                (waiter, self.charge(bytes))
            };
            drop(waiter.admit.send(charge));
        }
    }
}

impl Charge {
    /// No bytes of no budget.
    pub(crate) fn nothing() -> Self {
        Self {
            bytes: 0,
            budget: Weak::new(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes over another charge of the same budget.
    pub(crate) fn absorb(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        if let Some(budget) = self.budget.upgrade() {
            let mut state = budget.state.lock();
            state.used = state.used.saturating_sub(self.bytes);
            drop(state);
            budget.admit_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn now(admission: Admission) -> Charge {
        match admission {
            Admission::Now(charge) => charge,
            Admission::Later(_) => panic!("there was room"),
        }
    }

    fn later(admission: Admission) -> PlaceInLine {
        match admission {
            Admission::Now(_) => panic!("there was no room"),
            Admission::Later(place) => place,
        }
    }

    #[test]
    fn a_small_one_does_not_overtake_a_large_one() {
        let budget = Budget::new(100);
        let first = now(budget.admit(60));
        let mut large = later(budget.admit(50));
        let mut small = later(budget.admit(10));
        assert_eq!((budget.wanted(), budget.first_in_line()), (10, 50));
        assert!((&mut large).now_or_never().is_none() && (&mut small).now_or_never().is_none());
        drop(first);
        let large = large.now_or_never().expect("fits");
        let small = small.now_or_never().expect("fits");
        assert_eq!((large.bytes(), small.bytes(), budget.used()), (50, 10, 60));
    }

    #[test]
    fn who_gives_up_lets_the_next_one_in() {
        let budget = Budget::new(100);
        let _first = now(budget.admit(60));
        let large = later(budget.admit(50));
        let small = later(budget.admit(10));
        drop(large);
        let small = small.now_or_never().expect("admitted");
        assert_eq!((small.bytes(), budget.used(), budget.wanted()), (10, 70, 0));
        assert_eq!(budget.first_in_line(), 0);
    }

    #[test]
    fn an_admitted_charge_that_nobody_took_is_released() {
        let budget = Budget::new(100);
        let first = now(budget.admit(60));
        let second = later(budget.admit(50));
        drop(first);
        assert_eq!(budget.used(), 50);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn more_capacity_lets_in_whoever_fits_now() {
        let budget = Budget::new(100);
        let _first = now(budget.admit(90));
        let second = later(budget.admit(60));
        let mut third = later(budget.admit(60));
        budget.set_capacity(150);
        let second = second.now_or_never().expect("fits");
        assert_eq!(second.bytes(), 60);
        assert!((&mut third).now_or_never().is_none());
        assert_eq!((budget.wanted(), budget.capacity()), (60, 150));
    }

    #[test]
    fn less_capacity_takes_nothing_away_and_admits_nobody_until_it_is_kept() {
        let budget = Budget::new(100);
        let first = now(budget.admit(50));
        let second = now(budget.admit(40));
        budget.set_capacity(30);
        assert_eq!(budget.used(), 90);
        let mut third = later(budget.admit(10));
        assert_eq!(budget.wanted(), 70);
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        assert_eq!(third.now_or_never().expect("fits").bytes(), 10);
    }

    #[test]
    fn nobody_waits_for_more_than_there_will_ever_be() {
        let budget = Budget::new(100);
        let _first = now(budget.admit(60));
        let large = later(budget.admit(80));
        let small = later(budget.admit(20));
        budget.set_capacity(70);
        let large = large.now_or_never().expect("at once");
        assert_eq!(large.bytes(), 80);
        assert!(small.now_or_never().is_none());
        assert_eq!(budget.used(), 140);
    }

    #[test]
    fn absorbed_charges_are_released_once() {
        let budget = Budget::new(100);
        let mut block = now(budget.admit(0));
        block.absorb(now(budget.admit(10)));
        block.absorb(budget.charge_anyway(500));
        assert_eq!((block.bytes(), budget.used()), (510, 510));
        drop(block);
        assert_eq!(budget.used(), 0);
    }
}
