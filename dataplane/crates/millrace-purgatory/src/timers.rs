//! Timeouts on one timing wheel, driven by one task.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use millrace_tasks::{Supervisor, Task};
use millrace_time::{SharedClock, TimerId, TimingWheel};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

/// Length of a tick. Kafka's, and as fine as any of its timeouts.
const TICK: Duration = Duration::from_millis(1);
const NANOS_PER_TICK: u32 = TICK.subsec_nanos();
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Calls functions after a while, and drives the wheels of purgatories. Cheap to clone; all clones
/// share one wheel for functions and one task.
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

/// A wheel of another owner that the task drives as well. Code that adds to it then calls
/// [`Timers::wake_by`].
pub(crate) trait Source: Send + Sync {
    /// Advances the wheel to a tick and fires what is due.
    fn fire_due(&self, now: u64) -> Fired;

    /// Number of timers on the wheel.
    fn pending(&self) -> usize;
}

/// What came of advancing wheels.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    /// How many timers were due.
    pub(crate) count: usize,
    /// The tick at which they must be advanced next; nothing while they are empty.
    pub(crate) next_expiry: Option<u64>,
}

impl Fired {
    /// Takes another wheel's next expiry into account.
    pub(crate) fn expects(&mut self, next_expiry: Option<u64>) {
        self.next_expiry = [self.next_expiry, next_expiry].into_iter().flatten().min();
    }
}

type Call = Box<dyn FnOnce() + Send>;

struct Shared {
    clock: SharedClock,
    tasks: Supervisor,
    calls: Mutex<TimingWheel<Call>>,
    sources: Mutex<Vec<Weak<dyn Source>>>,
    /// The tick that the task sleeps until, or an earlier one that somebody asked for; the largest
    /// number while nobody did.
    wakes_at: AtomicU64,
    /// The task looks at the wheels, and at `wakes_at` before it sleeps: it need not be woken.
    looking: AtomicBool,
    driven: AtomicBool,
    /// Wakes the task when an earlier deadline came, or when the last clone went.
    wake: Arc<Notify>,
}

impl Timers {
    /// Timers on a clock.
    #[must_use]
    pub fn new(clock: SharedClock, tasks: Supervisor) -> Self {
        let calls = Mutex::new(TimingWheel::new(ticks_passed(clock.now())));
        Self {
            shared: Arc::new(Shared {
                clock,
                tasks,
                calls,
                sources: Mutex::default(),
                wakes_at: AtomicU64::new(u64::MAX),
                looking: AtomicBool::new(false),
                driven: AtomicBool::new(false),
                wake: Arc::default(),
            }),
        }
    }

    /// Calls `call` once `delay` has passed, on the task that drives all timers: it must be short
    /// and must not block. Never earlier than asked, and normally less than 2 ms later.
    pub fn after(&self, delay: Duration, call: impl FnOnce() + Send + 'static) -> TimerHandle {
        let deadline = self.deadline(delay);
        let id = self.shared.calls.lock().insert(deadline, Box::new(call));
        self.wake_by(deadline);
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

    /// Number of timers that are set, those of purgatories included.
    #[must_use]
    pub fn pending(&self) -> usize {
        let of_sources = self.shared.sources().into_iter();
        let of_sources: usize = of_sources.map(|source| source.pending()).sum();
        self.shared.calls.lock().len() + of_sources
    }

    /// Fires what is due now by the injected clock, here instead of on the task; returns how many.
    /// For tests that hold the clock.
    pub fn fire_due(&self) -> usize {
        self.shared.fire_due().0
    }

    /// Drives a wheel from now on, until it is dropped.
    pub(crate) fn add_source(&self, source: Weak<dyn Source>) {
        let mut sources = self.shared.sources.lock();
        sources.retain(|source| source.strong_count() > 0);
        sources.push(source);
    }

    /// The tick at which a wheel stands now.
    pub(crate) fn now(&self) -> u64 {
        ticks_passed(self.shared.clock.now())
    }

    /// The first tick that is not before the end of `delay`.
    pub(crate) fn deadline(&self, delay: Duration) -> u64 {
        ticks_until(self.shared.clock.now().saturating_add(delay))
    }

    /// Makes sure that the wheels are advanced at a tick, or earlier.
    ///
    /// No call is missed: the task forgets when it sleeps until *before* it looks at the wheels,
    /// and reads what was asked for after it stopped looking. So a deadline is on its wheel when
    /// the task looks, or is read by the task, or finds the task asleep for too long.
    pub(crate) fn wake_by(&self, tick: u64) {
        let shared = &*self.shared;
        if !shared.driven.load(SeqCst) {
            self.start();
        }
        if tick < shared.wakes_at.load(SeqCst) {
            shared.wakes_at.fetch_min(tick, SeqCst);
            if !shared.looking.load(SeqCst) {
                shared.wake.notify_one();
            }
        }
    }

    /// Starts the task where there is a runtime for it.
    fn start(&self) {
        if let Ok(runtime) = Handle::try_current()
            && !self.shared.driven.swap(true, SeqCst)
        {
            let wake = Arc::clone(&self.shared.wake);
            let driving = drive(Arc::downgrade(&self.shared), wake);
            self.shared.tasks.spawn_on(&runtime, Task::Timers, driving);
        }
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
        let cancelled = self.calls.lock().cancel(id);
        cancelled.is_some()
    }

    fn sources(&self) -> Vec<Arc<dyn Source>> {
        self.sources
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// Fires what is due on all wheels; returns how many, and the tick at which to look again.
    fn fire_due(&self) -> (usize, u64) {
        self.looking.store(true, SeqCst);
        self.wakes_at.store(u64::MAX, SeqCst);
        let now = ticks_passed(self.clock.now());
        let mut fired = self.fire_calls(now);
        for source in self.sources() {
            let of_source = source.fire_due(now);
            fired.count += of_source.count;
            fired.expects(of_source.next_expiry);
        }
        if let Some(next_expiry) = fired.next_expiry {
            self.wakes_at.fetch_min(next_expiry, SeqCst);
        }
        self.looking.store(false, SeqCst);
        (fired.count, self.wakes_at.load(SeqCst))
    }

    fn fire_calls(&self, now: u64) -> Fired {
        let mut due = Vec::new();
        let next_expiry = {
            let mut calls = self.calls.lock();
            calls.advance(now, &mut due);
            calls.next_expiry()
        };
        let count = due.len();
        for call in due {
            // A panic inside stops this timer, not the task that all timers depend on.
            if catch_unwind(AssertUnwindSafe(call)).is_err() {
                tracing::error!("a timer callback panicked");
            }
        }
        Fired { count, next_expiry }
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

/// The task: fires what is due, then sleeps until the next non-empty bucket, an earlier timer, or
/// the end of all clones.
async fn drive(shared: Weak<Shared>, wake: Arc<Notify>) {
    /// Lets the next timer start a task where this one's runtime was shut down.
    struct Undriven(Weak<Shared>);
    impl Drop for Undriven {
        fn drop(&mut self) {
            if let Some(timers) = self.0.upgrade() {
                timers.driven.store(false, SeqCst);
            }
        }
    }
    let _undriven = Undriven(Weak::clone(&shared));
    while let Some(timers) = shared.upgrade() {
        let (_, tick) = timers.fire_due();
        let now = timers.clock.now();
        drop(timers);
        if tick == u64::MAX {
            wake.notified().await;
        } else {
            let asleep = time_of(tick).saturating_sub(now).max(TICK);
            let _passed_or_woken = tokio::time::timeout(asleep, wake.notified()).await;
        }
    }
}

/// Ticks that have passed whole.
fn ticks_passed(time: Duration) -> u64 {
    let of_second = u64::from(time.subsec_nanos() / NANOS_PER_TICK);
    ticks_of_seconds(time).saturating_add(of_second)
}

/// The first tick that is not before `time`.
fn ticks_until(time: Duration) -> u64 {
    let of_second = u64::from(time.subsec_nanos().div_ceil(NANOS_PER_TICK));
    ticks_of_seconds(time).saturating_add(of_second)
}

fn ticks_of_seconds(time: Duration) -> u64 {
    let ticks_per_second = u64::from(NANOS_PER_SECOND / NANOS_PER_TICK);
    time.as_secs().saturating_mul(ticks_per_second)
}

fn time_of(tick: u64) -> Duration {
    Duration::from_millis(tick)
}

#[cfg(test)]
pub(crate) mod tests;
