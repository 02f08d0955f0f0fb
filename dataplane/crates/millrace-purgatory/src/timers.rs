//! Timeouts on one timing wheel, driven by one task.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::Duration,
};

use millrace_time::{SharedClock, TimerId, TimingWheel};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

/// Length of a tick. Kafka's, and as fine as any of its timeouts.
const TICK: Duration = Duration::from_millis(1);

/// Calls functions after a while. Cheap to clone; all clones share one wheel and one task.
///
/// The task is started by the first timer that is set inside a tokio runtime, and ends with the
/// last clone. Times are the injected clock's; while that clock stands still and tokio's runs, the
/// task looks once per remaining time. A test with a clock of its own calls [`Timers::fire_due`].
#[derive(Clone)]
pub struct Timers {
    shared: Arc<Shared>,
}

/// A timer that was set. Dropping it changes nothing.
#[derive(Debug)]
pub struct TimerHandle {
    shared: Weak<Shared>,
    id: TimerId,
}

/// Something that wants to know when its time is up.
pub(crate) trait Expire: Send + Sync {
    fn expire(self: Arc<Self>);
}

enum Due {
    Call(Box<dyn FnOnce() + Send>),
    Operation(Arc<dyn Expire>),
}

struct Shared {
    clock: SharedClock,
    state: Mutex<State>,
    /// Wakes the task when an earlier deadline came, or when the last clone went.
    wake: Arc<Notify>,
}

struct State {
    wheel: TimingWheel<Due>,
    /// The tick that the task sleeps until; the largest number while it waits for a timer.
    wakes_at: u64,
    driven: bool,
}

impl Timers {
    /// Timers on a clock.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        let wheel = TimingWheel::new(ticks_passed(clock.now()));
        let state = Mutex::new(State {
            wheel,
            wakes_at: u64::MAX,
            driven: false,
        });
        Self {
            shared: Arc::new(Shared {
                clock,
                state,
                wake: Arc::default(),
            }),
        }
    }

    /// Calls `call` once `delay` has passed, on the task that drives all timers: it must be short
    /// and must not block. Never earlier than asked, and normally less than 2 ms later.
    pub fn after(&self, delay: Duration, call: impl FnOnce() + Send + 'static) -> TimerHandle {
        let id = self.set(delay, Due::Call(Box::new(call)));
        TimerHandle {
            shared: Arc::downgrade(&self.shared),
            id,
        }
    }

    /// Waits. Dropping the future takes the timer off the wheel.
    pub async fn sleep(&self, delay: Duration) {
        struct CancelOnDrop(Option<TimerHandle>);
        impl Drop for CancelOnDrop {
            fn drop(&mut self) {
                self.0.take().map(TimerHandle::cancel);
            }
        }
        let (passed, wait) = oneshot::channel();
        let _guard = CancelOnDrop(Some(self.after(delay, move || {
            let _nobody_waits = passed.send(());
        })));
        let _timers_went = wait.await;
    }

    /// Number of timers that are set.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.state.lock().wheel.len()
    }

    /// Fires what is due now by the injected clock, here instead of on the task; returns how many.
    /// For tests that hold the clock.
    pub fn fire_due(&self) -> usize {
        self.shared.fire_due().0
    }

    pub(crate) fn expire_after(&self, delay: Duration, operation: Arc<dyn Expire>) -> TimerId {
        self.set(delay, Due::Operation(operation))
    }

    pub(crate) fn cancel(&self, id: TimerId) -> bool {
        self.shared.cancel(id)
    }

    fn set(&self, delay: Duration, due: Due) -> TimerId {
        let deadline = ticks_until(self.shared.clock.now().saturating_add(delay));
        let mut state = self.shared.state.lock();
        let id = state.wheel.insert(deadline, due);
        let next = state.wheel.next_expiry().unwrap_or(u64::MAX);
        let wake = next < state.wakes_at;
        state.wakes_at = state.wakes_at.min(next);
        let runtime = if state.driven {
            None
        } else {
            Handle::try_current().ok()
        };
        state.driven |= runtime.is_some();
        drop(state);
        if let Some(runtime) = runtime {
            let wake = Arc::clone(&self.shared.wake);
            runtime.spawn(drive(Arc::downgrade(&self.shared), wake));
        } else if wake {
            self.shared.wake.notify_one();
        }
        id
    }
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers")
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

impl TimerHandle {
    /// Takes the timer off the wheel at once. False where it has fired, is firing, or the timers
    /// are gone.
    pub fn cancel(self) -> bool {
        self.shared
            .upgrade()
            .is_some_and(|shared| shared.cancel(self.id))
    }
}

impl Shared {
    fn cancel(&self, id: TimerId) -> bool {
        // Dropped outside the lock: the value may own what locks again.
        let cancelled = self.state.lock().wheel.cancel(id);
        cancelled.is_some()
    }

    /// Fires what is due; returns how many, and how long the task may sleep.
    fn fire_due(&self) -> (usize, Option<Duration>) {
        let mut due = Vec::new();
        let now = self.clock.now();
        let next = {
            let mut state = self.state.lock();
            state.wheel.advance(ticks_passed(now), &mut due);
            let next = state.wheel.next_expiry();
            state.wakes_at = next.unwrap_or(u64::MAX);
            next
        };
        let fired = due.len();
        due.into_iter().for_each(Due::fire);
        let asleep = next.map(|tick| time_of(tick).saturating_sub(now).max(TICK));
        (fired, asleep)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}

impl Due {
    /// A panic inside stops this timer, not the task that all timers depend on.
    fn fire(self) {
        let fired = catch_unwind(AssertUnwindSafe(|| match self {
            Self::Call(call) => call(),
            Self::Operation(operation) => operation.expire(),
        }));
        if fired.is_err() {
            tracing::error!("a timer's function panicked");
        }
    }
}

/// The task: fires what is due, then sleeps until the next non-empty bucket, an earlier timer, or
/// the end of all clones.
async fn drive(shared: Weak<Shared>, wake: Arc<Notify>) {
    /// Lets the next timer start a task where this one's runtime was shut down.
    struct Undriven(Weak<Shared>);
    impl Drop for Undriven {
        fn drop(&mut self) {
            if let Some(timers) = self.0.upgrade() {
                timers.state.lock().driven = false;
            }
        }
    }
    let _undriven = Undriven(Weak::clone(&shared));
    while let Some(timers) = shared.upgrade() {
        let (_, asleep) = timers.fire_due();
        drop(timers);
        match asleep {
            None => wake.notified().await,
            Some(asleep) => {
                let _passed_or_woken = tokio::time::timeout(asleep, wake.notified()).await;
            }
        }
    }
}

/// Ticks that have passed whole.
fn ticks_passed(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX)
}

/// The first tick that is not before `time`.
fn ticks_until(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX)
}

fn time_of(tick: u64) -> Duration {
    Duration::from_millis(tick)
}

#[cfg(test)]
pub(crate) mod tests;
