//! The one who grants: a task that lives while anybody waits.

use std::{sync::Arc, time::Duration};

use crate::{
    bucket::Bucket,
    limiter::Core,
    queue::{Portions, Queue, Waiter},
    tier::Tier,
};

/// One in so many bytes goes to waiting compaction however urgent the others are.
const COMPACTION_SHARE: u64 = 20;

/// Bytes, and who waits for them.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) bucket: Bucket,
    /// What compaction may take though the bucket is empty.
    guaranteed: Bucket,
    pub(crate) queue: Queue,
    /// A task grants what they wait for.
    pub(crate) is_driven: bool,
    /// What tests ask about.
    #[cfg(test)]
    pub(crate) seen: Seen,
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
            bucket: Bucket::new(rate, now),
            guaranteed: Bucket::new(rate.map(share), now),
            queue: Queue::default(),
            is_driven: false,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }

    pub(crate) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        self.bucket.set_rate(rate, now);
        self.guaranteed.set_rate(rate.map(share), now);
    }

    pub(crate) fn fill(&mut self, now: Duration) {
        self.bucket.fill(now);
        self.guaranteed.fill(now);
    }

    /// Takes as many of `bytes` as may move at once, if nobody waits; returns those that may not.
    pub(crate) fn take_now(&mut self, bytes: u64, now: Duration) -> u64 {
        self.fill(now);
        let mut left = bytes;
        while left > 0 && self.queue.is_empty() && self.bucket.is_open() {
            let slice = if self.bucket.rate().is_none() {
                left
            } else {
                left.min(self.bucket.slice())
            };
            self.bucket.take(slice);
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
        while let Some(first) = self.queue.first() {
            let open = self.bucket.is_open();
            let owed = !open && self.guaranteed.is_open() && self.queue.waits(Tier::Compaction);
            let (tier, portions) = if open {
                (first, portions(&self.bucket))
            } else if owed {
                (Tier::Compaction, portions(&self.guaranteed))
            } else {
                break;
            };
            let Some(slice) = self.queue.grant(tier, portions) else {
                break;
            };
            if owed {
                self.guaranteed.take(slice.bytes);
                self.bucket.charge(slice.bytes);
            } else {
                self.bucket.take(slice.bytes);
            }
            #[cfg(test)]
            self.seen.taken.push((now, slice.bytes));
            complete.extend(slice.complete);
        }
        complete
    }

    /// How long until something may be granted to those who wait.
    fn wait(&self) -> Duration {
        let wait = self.bucket.wait();
        if self.queue.waits(Tier::Compaction) {
            wait.min(self.guaranteed.wait())
        } else {
            wait
        }
    }
}

fn share(rate: u64) -> u64 {
    rate / COMPACTION_SHARE
}

fn portions(bucket: &Bucket) -> Portions {
    Portions {
        slice: bucket.slice(),
        turn: bucket.turn(),
    }
}

/// Grants until nobody waits.
pub(crate) async fn drive(core: Arc<Core>) {
    let mut driving = Driving { core, done: false };
    while let Some(wait) = look(&driving.core) {
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
fn look(core: &Core) -> Option<Duration> {
    let now = core.now();
    let mut state = core.state.lock();
    let complete = state.grant(now);
    #[cfg(test)]
    {
        state.seen.looks += 1;
    }
    let wait = (!state.queue.is_empty()).then(|| state.wait());
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
/// down, those who wait are sent back to enter anew, and the first of them starts another.
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
        state.bucket.give_back(granted);
    }
}
