//! The task that grants bandwidth. It runs only while there are waiters.

use std::{sync::Arc, time::Duration};

use crate::{
    bandwidth::{BURST, Bandwidth},
    bucket::Bucket,
    limiter::Core,
    queue::{Portions, Queue, Slice, Waiter},
    tier::Tier,
};

/// One in so many bytes goes to each tier that has a share, however urgent the others are.
const GUARANTEED_SHARE: u64 = 20;

/// Bytes, and who waits for them.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) bandwidth: Bandwidth,
    shares: [Share; 2],
    pub(crate) queue: Queue,
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
            is_driven: false,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.bandwidth.set_rate(rate, now);
        for of_tier in &mut self.shares {
            of_tier.bucket.set_rate(rate.map(share), now);
        }
    }

    pub(crate) fn fill(&mut self, now: Duration) {
        self.bandwidth.fill(now);
        for of_tier in &mut self.shares {
            of_tier.bucket.fill(now);
        }
    }

    /// Takes as many of `bytes` as may move at once, if nobody waits who is as urgent; returns those that may not.
    pub(crate) fn take_now(&mut self, tier: Tier, bytes: u64, now: Duration) -> u64 {
        self.fill(now);
        let mut left = bytes;
        let is_next = !self.queue.waits_ahead_of(tier);
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
        complete
    }

    /// Grants a slice to the most urgent, else to one whose tier has some of its share left.
    fn grant_slice(&mut self) -> Option<Slice> {
        let Self {
            bandwidth,
            shares,
            queue,
            ..
        } = self;
        // Turns are equally long whatever they are granted from, so that flows are equal.
        let turn = bandwidth.turn();
        let first = queue.first()?;
        let bucket = bandwidth.of(first);
        if bucket.is_open() {
            let slice = bucket.slice();
            let granted = queue.grant(first, Portions { slice, turn })?;
            bandwidth.take(first, granted.bytes);
            return Some(granted);
        }
        let owed = |share: &&mut Share| share.bucket.is_open() && queue.waits(share.tier);
        let share = shares.iter_mut().find(owed)?;
        let slice = share.bucket.slice();
        let granted = queue.grant(share.tier, Portions { slice, turn })?;
        share.bucket.take(granted.bytes);
        bandwidth.charge(granted.bytes);
        Some(granted)
    }

    /// How long until something may be granted to those who wait; nothing where nobody does.
    fn wait(&self) -> Option<Duration> {
        let first = self.queue.first()?;
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
    let in_vain: u64 = complete
        .into_iter()
        .filter_map(|waiter| waiter.wake().err())
        .sum();
    if in_vain > 0 {
        core.give_back(in_vain);
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
