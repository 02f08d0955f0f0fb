//! The limiter.

use std::{fmt, sync::Arc};

use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    bucket::Bucket,
    queue::{Queue, Tier},
};

/// Lets bytes pass at a rate, the most urgent first. Cheap to clone; clones share the bandwidth.
#[derive(Clone)]
pub struct Limiter {
    shared: Arc<Shared>,
}

struct Shared {
    clock: SharedClock,
    state: Mutex<State>,
    /// Wakes everyone who waits, to see whose turn it is.
    turn: Notify,
}

struct State {
    bucket: Bucket,
    queue: Queue,
}

impl Limiter {
    /// A limiter of so many bytes per second; none lets everything pass at once.
    #[must_use]
    pub fn new(clock: SharedClock, bytes_per_second: Option<u64>) -> Self {
        let bucket = Bucket::new(bytes_per_second, clock.now());
        let state = Mutex::new(State {
            bucket,
            queue: Queue::default(),
        });
        Self {
            shared: Arc::new(Shared {
                clock,
                state,
                turn: Notify::new(),
            }),
        }
    }

    /// Changes the rate at once, for those too who wait already.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        let now = self.shared.clock.now();
        self.shared
            .state
            .lock()
            .bucket
            .set_rate(bytes_per_second, now);
        self.shared.turn.notify_waiters();
    }

    /// Waits until `bytes` may move. More than the bucket can hold pass at once and are paid for
    /// by those behind. Dropping the future gives the place up.
    ///
    /// Waiters are the callers' own tasks: whoever calls bounds how many there are.
    pub async fn acquire(&self, tier: Tier, bytes: u64) {
        let Some(mut place) = self.shared.enter(tier, bytes) else {
            return;
        };
        loop {
            let mut turn = std::pin::pin!(self.shared.turn.notified());
            // Enabled before looking, so that a turn that comes in between is not missed.
            turn.as_mut().enable();
            match place.advance() {
                Progress::Granted => return,
                Progress::NotFirst => turn.await,
                Progress::First(wait) => {
                    let _refilled_or_overtaken = tokio::time::timeout(wait, turn).await;
                }
            }
        }
    }

    /// Number of those who wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.state.lock().queue.len()
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        let mut out = f.debug_struct("Limiter");
        out.field("bucket", &state.bucket)
            .field("waiting", &state.queue.len());
        out.finish_non_exhaustive()
    }
}

impl Shared {
    /// Takes the bytes if nobody waits; else a place in the queue.
    fn enter(&self, tier: Tier, bytes: u64) -> Option<Place<'_>> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let free = state.bucket.is_unbounded() || state.queue.len() == 0;
        if free && state.bucket.take(bytes, now) {
            return None;
        }
        let number = state.queue.push(tier, bytes);
        Some(Place {
            shared: self,
            tier,
            bytes,
            number,
            left: false,
        })
    }
}

/// A place in the queue.
struct Place<'a> {
    shared: &'a Shared,
    tier: Tier,
    bytes: u64,
    number: u64,
    left: bool,
}

enum Progress {
    Granted,
    /// Somebody else is first, and wakes us when it goes.
    NotFirst,
    /// Nobody is before us; the bucket is empty for so long.
    First(std::time::Duration),
}

impl Place<'_> {
    fn advance(&mut self) -> Progress {
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        let unbounded = state.bucket.is_unbounded();
        if !unbounded && state.queue.first() != Some(self.number) {
            return Progress::NotFirst;
        }
        if !state.bucket.take(self.bytes, now) {
            return Progress::First(state.bucket.wait());
        }
        state.queue.grant(self.tier, self.number);
        self.left = true;
        drop(state);
        self.shared.turn.notify_waiters();
        Progress::Granted
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.left {
            self.shared
                .state
                .lock()
                .queue
                .remove(self.tier, self.number);
            self.shared.turn.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
