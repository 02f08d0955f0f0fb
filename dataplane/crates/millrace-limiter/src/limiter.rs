//! The public interface of the limiter.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::{
    driver::{State, drive},
    metrics::{LimiterMetrics, Metrics},
    queue::{Ticket, Unused},
    tier::Tier,
};

/// The flow of those who name none.
const NO_FLOW: u64 = 0;

/// Lets bytes pass at a rate, the most urgent first. Cheap to clone; clones share the bandwidth.
#[derive(Clone)]
pub struct Limiter {
    core: Arc<Core>,
    metrics: Arc<Metrics>,
}

/// What the limiters of one bandwidth share.
pub(crate) struct Core {
    clock: SharedClock,
    tasks: Supervisor,
    pub(crate) state: Mutex<State>,
    /// The rate, 0 where there is no bound, for those who need not look further.
    rate: AtomicU64,
    /// Tells the granting task that the next grant may be due earlier.
    pub(crate) changed: Notify,
}

impl Limiter {
    /// A limiter of so many bytes per second; none lets everything pass at once.
    #[must_use]
    pub fn new(clock: SharedClock, bytes_per_second: Option<u64>) -> Self {
        let core = Core::new(clock, Supervisor::new(), bytes_per_second);
        Self::over(core, Metrics::private())
    }

    pub(crate) fn over(core: Arc<Core>, metrics: Metrics) -> Self {
        metrics.set_baseline(core.rate());
        Self {
            core,
            metrics: Arc::new(metrics),
        }
    }

    /// Changes the rate at once, for those too who wait already.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        self.core.set_rate(bytes_per_second);
        self.metrics.set_baseline(bytes_per_second);
    }

    /// The rate, in bytes per second; none is without bound.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        self.core.rate()
    }

    /// What has passed, and how long it waited.
    #[must_use]
    pub fn metrics(&self) -> LimiterMetrics {
        self.metrics.snapshot(self.rate())
    }

    /// Waits until `bytes` may move, as [`Limiter::acquire_for`] does for those who name no flow.
    pub async fn acquire(&self, tier: Tier, bytes: u64) {
        self.acquire_for(tier, NO_FLOW, bytes).await;
    }

    /// Waits until `bytes` may move. Those who wait in a tier take turns by `flow`, whose own
    /// requests are granted in order. The tiers that leave headroom also wait while too many of the bytes
    /// of [`Limiter::acquire_in_flight`] are in flight. The most urgent tier does not wait: see [`Limiter::charge`].
    ///
    /// Dropping the future gives the place up, and the bytes that were granted. Waiters are the
    /// callers' own tasks: the callers bound how many there are. Must run in a Tokio runtime
    /// with timers.
    pub async fn acquire_for(&self, tier: Tier, flow: u64, bytes: u64) {
        self.acquire_as(tier, flow, bytes, false).await;
    }

    /// Like [`Limiter::acquire_for`], for reads: bounds the bytes in flight, in the tiers that leave
    /// headroom. They are in flight until the guard is dropped. A caller that waited for further bytes while it
    /// holds one might wait for itself.
    pub async fn acquire_in_flight(&self, tier: Tier, flow: u64, bytes: u64) -> InFlight {
        let is_read = tier.leaves_headroom() && !self.is_unbounded();
        self.acquire_as(tier, flow, bytes, is_read).await;
        let bytes = if is_read { bytes } else { 0 };
        self.metrics.sent(bytes);
        InFlight {
            limiter: self.clone(),
            bytes,
        }
    }

    async fn acquire_as(&self, tier: Tier, flow: u64, bytes: u64, is_read: bool) {
        if tier.never_waits() {
            return self.charge(tier, bytes);
        }
        // What will be subtracted has to be counted, though the rate may have gone meanwhile.
        if self.is_unbounded() && !is_read {
            return self.metrics.moved(tier, bytes);
        }
        let since = self.core.clock.now();
        let mut waited = false;
        while let Some(place) = self.enter(tier, flow, bytes, is_read) {
            waited = true;
            if place.granted().await {
                break;
            }
        }
        if waited {
            let now = self.core.clock.now();
            self.metrics.waited(tier, now.saturating_sub(since));
        }
        self.metrics.moved(tier, bytes);
    }

    /// Takes `bytes` if they may move now: there are so many, and nobody waits who is as urgent.
    #[must_use]
    pub fn try_acquire(&self, tier: Tier, bytes: u64) -> bool {
        let passes =
            self.is_unbounded() || tier.never_waits() || self.core.take_at_once(tier, bytes);
        if passes && tier.never_waits() {
            self.charge(tier, bytes);
        } else if passes {
            self.metrics.moved(tier, bytes);
        }
        passes
    }

    /// Takes `bytes` that move in any case. Where that is more than there is, the others wait until
    /// it is made up for, a second at most.
    pub fn charge(&self, tier: Tier, bytes: u64) {
        if !self.is_unbounded() {
            self.core.charge(bytes);
        }
        self.metrics.moved(tier, bytes);
    }

    /// Number of those who wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.core.state.lock().queue.waiting()
    }

    fn is_unbounded(&self) -> bool {
        self.core.rate.load(Ordering::Relaxed) == 0
    }

    /// Takes the bytes if nobody waits who is as urgent, and there are enough; else a place in the queue.
    fn enter(&self, tier: Tier, flow: u64, bytes: u64, is_read: bool) -> Option<Place<'_>> {
        let (ticket, wait) = Core::enter(&self.core, tier, flow, bytes, is_read)?;
        self.metrics.begins_to_wait(tier);
        Some(Place {
            limiter: self,
            ticket,
            all: Unused {
                bytes,
                in_flight: if is_read { bytes } else { 0 },
            },
            wait,
            left: false,
        })
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.core.state.lock();
        let mut out = f.debug_struct("Limiter");
        out.field("bandwidth", &state.bandwidth)
            .field("waiting", &state.queue.waiting());
        out.finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(
        clock: SharedClock,
        tasks: Supervisor,
        bytes_per_second: Option<u64>,
    ) -> Arc<Self> {
        let state = State::new(bytes_per_second, clock.now());
        Arc::new(Self {
            clock,
            tasks,
            rate: AtomicU64::new(state.bandwidth.rate().unwrap_or(0)),
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    pub(crate) fn rate(&self) -> Option<u64> {
        self.state.lock().bandwidth.rate()
    }

    pub(crate) fn set_rate(&self, bytes_per_second: Option<u64>) {
        let mut state = self.state.lock();
        state.set_rate(bytes_per_second, self.clock.now());
        let rate = state.bandwidth.rate().unwrap_or(0);
        self.rate.store(rate, Ordering::Relaxed);
        drop(state);
        self.changed.notify_one();
    }

    fn take_at_once(&self, tier: Tier, bytes: u64) -> bool {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.fill(now);
        let passes = !state.queue.waits_ahead_of(tier) && state.bandwidth.of(tier).has(bytes);
        if passes {
            state.bandwidth.take(tier, bytes);
        }
        passes
    }

    fn charge(&self, bytes: u64) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.fill(now);
        state.bandwidth.charge(bytes);
    }

    fn enter(
        core: &Arc<Self>,
        tier: Tier,
        flow: u64,
        bytes: u64,
        is_read: bool,
    ) -> Option<(Ticket, oneshot::Receiver<()>)> {
        let now = core.clock.now();
        let mut state = core.state.lock();
        let left = state.take_now(tier, bytes, now);
        if left == 0 {
            if is_read {
                state.window.begin(bytes);
            }
            return None;
        }
        // It may be granted earlier than those who wait already: by its share, or from the headroom.
        let first_of_tier = !state.queue.waits(tier);
        let place = state.queue.push(tier, flow, (bytes - left, left), is_read);
        let drives = std::mem::replace(&mut state.is_driven, true);
        drop(state);
        if !drives {
            core.tasks
                .spawn(Task::LimiterGrant, drive(Arc::clone(core)));
        } else if first_of_tier {
            core.changed.notify_one();
        }
        Some(place)
    }

    /// Takes back what was granted to one who did not use it.
    pub(crate) fn give_back(&self, unused: Unused) {
        self.change(|state| {
            state.bandwidth.give_back(unused.bytes);
            state.window.end(unused.in_flight);
        });
    }

    /// Makes a change that may allow something to those who wait.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let anybody_waits = !state.queue.is_empty();
        drop(state);
        if anybody_waits {
            self.changed.notify_one();
        }
    }
}

/// Bytes in flight, until it is dropped.
#[derive(Debug)]
#[must_use = "the bytes count as received once it is dropped"]
pub struct InFlight {
    limiter: Limiter,
    /// None of those that are not bounded.
    bytes: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let Limiter { core, metrics } = &self.limiter;
        metrics.arrived(self.bytes);
        let now = core.now();
        core.change(|state| {
            state.fill(now);
            state.window.end(self.bytes);
        });
    }
}

/// A place in the queue.
struct Place<'a> {
    limiter: &'a Limiter,
    ticket: Ticket,
    /// What it has once everything is granted.
    all: Unused,
    wait: oneshot::Receiver<()>,
    /// All was granted, or the queue was given up.
    left: bool,
}

impl Place<'_> {
    /// Resolves when all bytes are granted; to false if the granting task went away with its runtime,
    /// and somebody else has to.
    async fn granted(mut self) -> bool {
        let granted = (&mut self.wait).await.is_ok();
        self.left = true;
        granted
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let Limiter { core, metrics } = self.limiter;
        metrics.waits_no_more(self.ticket.tier);
        if self.left {
            return;
        }
        let mut state = core.state.lock();
        let removed = state.queue.remove(self.ticket);
        let nobody_waits = state.queue.is_empty();
        drop(state);
        if let Some(granted) = removed {
            core.give_back(Unused {
                bytes: granted,
                in_flight: 0,
            });
            if nobody_waits {
                core.changed.notify_one();
            }
            return;
        }
        // All was granted, and nobody was there to see it; or will be, and that fails.
        self.wait.close();
        if self.wait.try_recv().is_ok() {
            core.give_back(self.all);
        }
    }
}

#[cfg(test)]
pub(crate) mod paused;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
