use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use millrace_tasks::Supervisor;
use millrace_time::{Clock, ManualClock};

use super::*;

/// Follows tokio's clock, which a test can pause, and counts how often it is read.
#[derive(Debug)]
pub(crate) struct TokioClock {
    origin: tokio::time::Instant,
    pub(crate) reads: AtomicUsize,
}

impl TokioClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the paused clock of the test's runtime"
    )]
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self {
            origin: tokio::time::Instant::now(),
            reads: AtomicUsize::new(0),
        })
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.reads.fetch_add(1, SeqCst);
        self.origin.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_timer_fires_once_when_its_time_is_up_and_not_before() {
    let clock = ManualClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let fired = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fired);
    timers.after(Duration::from_micros(30_500), move || {
        count.fetch_add(1, SeqCst);
    });
    clock.advance(Duration::from_micros(30_499));
    assert_eq!(timers.fire_due(), 0);
    clock.advance(ms(1));
    assert_eq!(timers.fire_due(), 1);
    clock.advance(ms(1_000));
    assert_eq!(timers.fire_due(), 0);
    assert_eq!(fired.load(SeqCst), 1);
}

#[test]
fn a_cancelled_timer_leaves_at_once_and_never_fires() {
    let clock = ManualClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let handle = timers.after(ms(5), || panic!("cancelled"));
    assert!(handle.cancel());
    assert_eq!(timers.pending(), 0);
    clock.advance(ms(10));
    assert_eq!(timers.fire_due(), 0);
}

#[test]
fn a_panic_in_one_timer_does_not_stop_the_next() {
    let clock = ManualClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let fired = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&fired);
    timers.after(ms(1), || std::panic::resume_unwind(Box::new("on purpose")));
    timers.after(ms(2), move || {
        count.fetch_add(1, SeqCst);
    });
    clock.advance(ms(2));
    assert_eq!(timers.fire_due(), 2);
    assert_eq!(fired.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_task_fires_timers_in_order_of_their_deadlines() {
    let clock = TokioClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let order = Arc::new(Mutex::new(Vec::new()));
    for delay in [450, 3, 20, 8_000, 21] {
        let (order, clock) = (Arc::clone(&order), clock.clone());
        timers.after(ms(delay), move || order.lock().push((delay, clock.now())));
    }
    tokio::time::sleep(ms(10_000)).await;
    let order = order.lock();
    assert_eq!(
        order.iter().map(|timer| timer.0).collect::<Vec<_>>(),
        [3, 20, 21, 450, 8_000]
    );
    for &(delay, at) in &*order {
        assert!(
            at >= ms(delay) && at <= ms(delay + 2),
            "{delay} ms fired at {at:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_timer_wakes_the_sleeping_task() {
    let timers = Timers::new(TokioClock::shared(), Supervisor::new());
    timers.after(ms(60_000), || {});
    tokio::time::sleep(ms(10)).await;
    tokio::time::timeout(ms(30), timers.sleep(ms(20)))
        .await
        .expect("woken in time");
}

#[tokio::test(start_paused = true)]
async fn the_task_sleeps_while_there_is_no_timer() {
    let clock = TokioClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    timers.sleep(ms(5)).await;
    let cancelled = timers.after(ms(100), || panic!("cancelled"));
    cancelled.cancel();
    // The task may look once at the bucket that the cancelled timer left empty.
    tokio::time::sleep(ms(1_000)).await;
    let reads = clock.reads.load(SeqCst);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(clock.reads.load(SeqCst), reads);
}

#[tokio::test(start_paused = true)]
async fn a_distant_timer_wakes_the_task_once_per_level() {
    let clock = TokioClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let before = clock.reads.load(SeqCst);
    timers.sleep(Duration::from_secs(3_600)).await;
    let looks = clock.reads.load(SeqCst) - before;
    assert!(looks < 20, "{looks} looks for one timer");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_takes_its_timer_away() {
    let timers = Timers::new(TokioClock::shared(), Supervisor::new());
    tokio::time::timeout(ms(1), timers.sleep(ms(100)))
        .await
        .expect_err("too early");
    assert_eq!(timers.pending(), 0);
}

#[test]
fn a_second_runtime_takes_over_after_the_first_is_gone() {
    let build = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
    };
    let first = build().expect("a runtime");
    let clock = first.block_on(async { TokioClock::shared() });
    let timers = Timers::new(ManualClock::shared(), Supervisor::new());
    first.block_on(async { timers.after(ms(1), || {}) });
    drop((first, clock));
    let second = build().expect("a runtime");
    second.block_on(async {
        timers.after(ms(1), || {});
        assert!(timers.shared.driven.load(SeqCst));
    });
}
