//! The task that grants bandwidth. It runs only while there are waiters.

use std::{sync::Arc, time::Duration};

use crate::{
    bandwidth::{BURST, Bandwidth},
    bucket::Bucket,
    limiter::Core,
    queue::{Portions, Queue, Slice, Waiter},
    tier::Tier,
    window::Window,
};

/// One in so many bytes goes to each tier that has a share, however urgent the others are.
const GUARANTEED_SHARE: u64 = 20;

/// How often the granting task checks whether a closed window has to grow.
const WINDOW_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Bytes, and who waits for them.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) bandwidth: Bandwidth,
    shares: [Share; 2],
    pub(crate) queue: Queue,
    /// For the tiers that leave headroom.
    pub(crate) window: Window,
    /// Whether somebody was waiting for the window after the last grant.
    window_was_closed: bool,
    /// A task grants what they wait for.
    pub(crate) is_driven: bool,
    /// What tests ask about.
    #[cfg(test)]
    pub(crate) seen: Seen,
}

/// What a tier may take though the bucket is empty.
#[derive(Debug)]
struct Share {
    tier: Tier,
    bucket: Bucket,
}

#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How often that task has looked.
    pub(crate) looks: u64,
    /// When so many bytes were taken by those who may have to wait.
    pub(crate) taken: Vec<(Duration, u64)>,
}

impl State {
    pub(crate) fn new(rate: Option<u64>, now: Duration) -> Self {
        Self {
            bandwidth: Bandwidth::new(rate, now),
            shares: Tier::WITH_SHARE.map(|tier| Share {
                tier,
                bucket: Bucket::new(rate.map(share), BURST, now),
            }),
            queue: Queue::default(),
            window: Window::new(rate),
            window_was_closed: false,
            is_driven: false,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.bandwidth.set_rate(rate, now);
        self.window.set_rate(rate);
        for of_tier in &mut self.shares {
            of_tier.bucket.set_rate(rate.map(share), now);
        }
    }

    /// Adds what has gathered since, and adjusts the window.
    pub(crate) fn fill(&mut self, now: Duration) {
        let lost = self.bandwidth.fill(now);
        if self.waits_for_window() {
            self.window.grow(lost);
        }
        for of_tier in &mut self.shares {
            let _lost = of_tier.bucket.fill(now);
        }
    }

    /// Takes as many of `bytes` as may move at once, if nobody waits who is as urgent; returns those that may not.
    pub(crate) fn take_now(&mut self, tier: Tier, bytes: u64, now: Duration) -> u64 {
        self.fill(now);
        let mut left = bytes;
        // Whoever waits for the window has it first.
        let may_begin =
            !tier.leaves_headroom() || (self.window.is_open() && !self.window_was_closed);
        let is_next = may_begin && !self.queue.waits_ahead_of(tier);
        while left > 0 && is_next && self.bandwidth.of(tier).is_open() {
            let slice = if self.bandwidth.rate().is_none() {
                left
            } else {
                left.min(self.bandwidth.of(tier).slice())
            };
            self.bandwidth.take(tier, slice);
            left -= slice;
            #[cfg(test)]
            self.seen.taken.push((now, slice));
        }
        left
    }

    /// Grants what may move now; returns those who have all of their bytes.
    fn grant(&mut self, now: Duration) -> Vec<Waiter> {
        self.fill(now);
        let mut complete = Vec::new();
        while let Some(slice) = self.grant_slice() {
            #[cfg(test)]
            self.seen.taken.push((now, slice.bytes));
            complete.extend(slice.complete);
        }
        self.window_was_closed = self.waits_for_window();
        complete
    }

    /// Grants a slice to the most urgent, else to one whose tier has some of its share left. Shares do
    /// not wait for the window where bandwidth is short: it cannot grow then.
    fn grant_slice(&mut self) -> Option<Slice> {
        let first = self.queue.first()?;
        let bucket = self.bandwidth.of(first);
        if !bucket.is_open() {
            return self.grant_share(|_| true);
        }
        if first.leaves_headroom() {
            if !self.window.is_open() {
                return None;
            }
            // Otherwise the most urgent would fill the window each time it opens.
            if self.window_was_closed
                && let Some(granted) = self.grant_share(|tier| tier > first)
            {
                return Some(granted);
            }
        }
        let bucket = self.bandwidth.of(first);
        let portions = Portions {
            slice: bucket.slice(),
            turn: self.bandwidth.turn(),
        };
        let granted = self.queue.grant(first, portions)?;
        self.bandwidth.take(first, granted.bytes);
        self.window.begin(granted.in_flight());
        Some(granted)
    }

    /// Grants a slice to one whose tier is among these and has some of its share left.
    fn grant_share(&mut self, of: impl Fn(Tier) -> bool) -> Option<Slice> {
        let queue = &mut self.queue;
        let owed = |share: &&mut Share| {
            of(share.tier) && share.bucket.is_open() && queue.waits(share.tier)
        };
        let share = self.shares.iter_mut().find(owed)?;
        // Turns are equally long whatever they are granted from, so that flows are equal.
        let portions = Portions {
            slice: share.bucket.slice(),
            turn: self.bandwidth.turn(),
        };
        let granted = queue.grant(share.tier, portions)?;
        share.bucket.take(granted.bytes);
        self.bandwidth.charge(granted.bytes);
        self.window.begin(granted.in_flight());
        Some(granted)
    }

    /// Whether the window holds back those who wait.
    fn waits_for_window(&self) -> bool {
        let first = self.queue.first();
        !self.window.is_open() && first.is_some_and(Tier::leaves_headroom)
    }

    /// How long until something may be granted to those who wait; nothing where nobody does.
    fn wait(&self) -> Option<Duration> {
        let first = self.queue.first()?;
        if self.waits_for_window() && self.bandwidth.of(first).is_open() {
            return Some(WINDOW_CHECK_INTERVAL);
        }
        let owed = self.shares.iter();
        let owed = owed.filter(|share| self.queue.waits(share.tier));
        let waits = owed.map(|share| share.bucket.wait());
        Some(waits.fold(self.bandwidth.of(first).wait(), Duration::min))
    }
}

fn share(rate: u64) -> u64 {
    rate / GUARANTEED_SHARE
}

/// Grants until nobody waits.
pub(crate) async fn drive(core: Arc<Core>) {
    let mut driving = Driving { core, done: false };
    while let Some(wait) = grant_due(&driving.core) {
        tokio::select! {
            biased;
            () = driving.core.changed.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    driving.done = true;
}

/// Grants what may move now and returns when to look again; nothing when nobody waits, and then
/// somebody else drives the next who do.
fn grant_due(core: &Core) -> Option<Duration> {
    let now = core.now();
    let mut state = core.state.lock();
    let complete = state.grant(now);
    #[cfg(test)]
    {
        state.seen.looks += 1;
    }
    let wait = state.wait();
    state.is_driven = wait.is_some();
    drop(state);
    let in_vain: Vec<_> = complete
        .into_iter()
        .filter_map(|waiter| waiter.wake().err())
        .collect();
    for granted in in_vain {
        core.give_back(granted);
    }
    wait
}

/// The task that grants. Where it is dropped before its work is done, as a runtime does that shuts
/// down, those who wait are sent back to enter again, and the first of them starts another.
struct Driving {
    core: Arc<Core>,
    done: bool,
}

impl Drop for Driving {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.core.state.lock();
        state.is_driven = false;
        let granted = state.queue.clear();
        state.bandwidth.give_back(granted);
    }
}
