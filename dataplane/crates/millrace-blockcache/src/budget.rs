//! The memory of the data blocks, in bytes.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What may be used, what is, and who waits for more. First come, first served.
#[derive(Debug)]
pub(crate) struct Budget {
    ledger: Mutex<Ledger>,
}

#[derive(Debug)]
struct Ledger {
    size: u64,
    used: u64,
    /// The most that was ever used, with what was beside the budget.
    peak: u64,
    /// Bytes that were read beside the budget.
    outside: u64,
    waiters: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    bytes: u64,
    granted: oneshot::Sender<Charge>,
}

/// Bytes that are taken from the budget, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
    is_outside: bool,
}

impl Budget {
    pub(crate) fn new(size: u64) -> Arc<Self> {
        let ledger = Ledger {
            size,
            used: 0,
            peak: 0,
            outside: 0,
            waiters: VecDeque::new(),
        };
        Arc::new(Self {
            ledger: Mutex::new(ledger),
        })
    }

    pub(crate) fn size(&self) -> u64 {
        self.ledger.lock().size
    }

    pub(crate) fn used(&self) -> u64 {
        self.ledger.lock().used
    }

    pub(crate) fn peak(&self) -> u64 {
        self.ledger.lock().peak
    }

    pub(crate) fn outside(&self) -> u64 {
        self.ledger.lock().outside
    }

    /// What nobody has and nobody waits for.
    pub(crate) fn free(&self) -> u64 {
        let mut ledger = self.ledger.lock();
        ledger.forget_the_gone();
        if ledger.waiters.is_empty() {
            ledger.size.saturating_sub(ledger.used)
        } else {
            0
        }
    }

    /// What has to come free so that the first who waits gets its room, or `bytes` where nobody
    /// waits.
    pub(crate) fn missing(&self, bytes: u64) -> u64 {
        let mut ledger = self.ledger.lock();
        ledger.forget_the_gone();
        let bytes = ledger.waiters.front().map_or(bytes, |first| first.bytes);
        (ledger.used + bytes).saturating_sub(ledger.size)
    }

    pub(crate) fn has_waiters(&self) -> bool {
        let mut ledger = self.ledger.lock();
        ledger.forget_the_gone();
        !ledger.waiters.is_empty()
    }

    /// Changes the size; those who wait and fit now get their room.
    pub(crate) fn set_size(self: &Arc<Self>, size: u64) {
        let mut ledger = self.ledger.lock();
        ledger.size = size;
        self.grant(&mut ledger);
    }

    /// Takes `bytes` if they are free and nobody waits.
    pub(crate) fn try_charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let mut ledger = self.ledger.lock();
        ledger.forget_the_gone();
        let fits = ledger.waiters.is_empty() && ledger.used + bytes <= ledger.size;
        fits.then(|| self.charge(&mut ledger, bytes))
    }

    /// Waits in line for `bytes`; dropping the receiver gives the place up.
    pub(crate) fn enqueue(self: &Arc<Self>, bytes: u64) -> oneshot::Receiver<Charge> {
        let (granted, receiver) = oneshot::channel();
        let mut ledger = self.ledger.lock();
        ledger.waiters.push_back(Waiter { bytes, granted });
        self.grant(&mut ledger);
        receiver
    }

    /// A charge that is not part of the budget.
    pub(crate) fn charge_outside(self: &Arc<Self>, bytes: u64) -> Charge {
        let mut ledger = self.ledger.lock();
        ledger.outside += bytes;
        ledger.peak = ledger.peak.max(ledger.used + ledger.outside);
        Charge {
            budget: Arc::clone(self),
            bytes,
            is_outside: true,
        }
    }

    fn charge(self: &Arc<Self>, ledger: &mut Ledger, bytes: u64) -> Charge {
        ledger.used += bytes;
        ledger.peak = ledger.peak.max(ledger.used + ledger.outside);
        Charge {
            budget: Arc::clone(self),
            bytes,
            is_outside: false,
        }
    }

    /// Gives those who wait their room, in order, as far as it goes.
    fn grant(self: &Arc<Self>, ledger: &mut Ledger) {
        loop {
            ledger.forget_the_gone();
            let room = ledger.size.saturating_sub(ledger.used);
            let fits = |first: &mut Waiter| first.bytes <= room;
            let Some(Waiter { bytes, granted }) = ledger.waiters.pop_front_if(fits) else {
                return;
            };
            let charge = self.charge(ledger, bytes);
            if let Err(mut refused) = granted.send(charge) {
                // Given back by hand: its drop would lock the ledger again.
                ledger.used -= std::mem::take(&mut refused.bytes);
            }
        }
    }
}

impl Ledger {
    /// Those at the front who no longer wait hold nobody up, and nobody gives up anything for them.
    fn forget_the_gone(&mut self) {
        while self
            .waiters
            .pop_front_if(|first| first.granted.is_closed())
            .is_some()
        {}
    }
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut ledger = self.budget.ledger.lock();
        if self.is_outside {
            ledger.outside -= self.bytes;
        } else {
            ledger.used -= self.bytes;
        }
        self.budget.grant(&mut ledger);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_are_served_in_order_and_nobody_overtakes() {
        let budget = Budget::new(100);
        let first = budget.try_charge(80).expect("free");
        let mut large = budget.enqueue(60);
        let mut small = budget.enqueue(10);
        assert!(large.try_recv().is_err() && small.try_recv().is_err());
        assert!(budget.try_charge(1).is_none(), "others wait");
        assert_eq!((budget.free(), budget.missing(1)), (0, 40));
        drop(first);
        let large = large.try_recv().expect("its turn");
        let small = small.try_recv().expect("fits beside it");
        assert_eq!((large.bytes(), small.bytes(), budget.used()), (60, 10, 70));
        drop((large, small));
        assert_eq!((budget.used(), budget.peak()), (0, 80));
    }

    #[test]
    fn who_no_longer_waits_holds_nobody_up() {
        let budget = Budget::new(100);
        let all = budget.try_charge(100).expect("free");
        let gone = budget.enqueue(100);
        let mut stays = budget.enqueue(50);
        drop(gone);
        drop(all);
        assert_eq!(stays.try_recv().expect("its turn").bytes(), 50);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_grant_that_nobody_takes_comes_back() {
        let budget = Budget::new(100);
        let all = budget.try_charge(100).expect("free");
        let granted = budget.enqueue(100);
        drop(all);
        assert_eq!(budget.used(), 100);
        drop(granted);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn growth_serves_those_who_wait() {
        let budget = Budget::new(10);
        let mut waits = budget.enqueue(50);
        budget.set_size(60);
        let charge = waits.try_recv().expect("there is room now");
        budget.set_size(20);
        assert_eq!((budget.used(), budget.free()), (50, 0));
        drop(charge);
        let beside = budget.charge_outside(1_000);
        assert_eq!((budget.used(), budget.outside()), (0, 1_000));
        drop(beside);
        assert_eq!(budget.outside(), 0);
    }
}
