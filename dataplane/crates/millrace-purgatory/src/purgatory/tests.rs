use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use millrace_time::ManualClock;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::{Outcome, Wait, timers::tests::TokioClock};

const HOUR: Duration = Duration::from_secs(3_600);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Completes once a counter has reached a goal; counts how often it was completed and expired.
#[derive(Debug, Default)]
struct Goal {
    level: Arc<AtomicU64>,
    goal: u64,
    completed: AtomicUsize,
    expired: AtomicUsize,
}

impl Goal {
    fn new(level: &Arc<AtomicU64>, goal: u64) -> Arc<Self> {
        Arc::new(Self {
            level: Arc::clone(level),
            goal,
            ..Self::default()
        })
    }

    fn ends(&self) -> (usize, usize) {
        (self.completed.load(SeqCst), self.expired.load(SeqCst))
    }
}

impl DelayedOperation for Goal {
    fn try_complete(&self) -> bool {
        let reached = self.level.load(SeqCst) >= self.goal;
        if reached {
            self.completed.fetch_add(1, SeqCst);
        }
        reached
    }

    fn on_expire(&self) {
        self.expired.fetch_add(1, SeqCst);
    }
}

fn purgatory_with_clock() -> (Purgatory<&'static str, Arc<Goal>>, Arc<ManualClock>) {
    let clock = ManualClock::shared();
    (
        Purgatory::new(clock.clone(), PurgatoryConfig::default()),
        clock,
    )
}

#[test]
fn what_can_be_completed_at_once_does_not_wait() {
    let (purgatory, _) = purgatory_with_clock();
    let goal = Goal::new(&Arc::default(), 0);
    let watched = purgatory.watch(goal.clone(), &["a"], HOUR);
    assert!(!purgatory.waits(watched));
    assert_eq!(goal.ends(), (1, 0));
    assert_eq!(
        (purgatory.delayed(), purgatory.watched(), purgatory.keys()),
        (0, 0, 0)
    );
}

#[test]
fn a_check_completes_and_the_timer_leaves_at_once() {
    let (purgatory, _) = purgatory_with_clock();
    let level = Arc::default();
    let goal = Goal::new(&level, 1);
    let watched = purgatory.watch(goal.clone(), &["a", "b"], HOUR);
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (1, 1));
    assert_eq!(purgatory.check(&"a"), 0);
    level.store(1, SeqCst);
    assert_eq!(purgatory.check(&"other"), 0);
    assert_eq!(purgatory.check(&"a"), 1);
    assert!(!purgatory.waits(watched));
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
    assert_eq!(purgatory.watched(), 1, "b's list is not checked yet");
    assert_eq!(purgatory.check(&"b"), 0);
    assert_eq!((purgatory.watched(), purgatory.keys()), (0, 0));
    assert_eq!(goal.ends(), (1, 0));
}

#[test]
fn time_expires_what_was_not_completed_exactly_once() {
    let (purgatory, clock) = purgatory_with_clock();
    let level = Arc::default();
    let goal = Goal::new(&level, 1);
    purgatory.watch(goal.clone(), &["a"], ms(30));
    clock.advance(ms(29));
    assert_eq!(purgatory.timers().fire_due(), 0);
    clock.advance(ms(1));
    assert_eq!(purgatory.timers().fire_due(), 1);
    level.store(1, SeqCst);
    assert_eq!(purgatory.check(&"a"), 0);
    assert_eq!(goal.ends(), (0, 1));
    assert_eq!((purgatory.delayed(), purgatory.watched()), (0, 0));
}

#[test]
fn a_cancelled_operation_neither_completes_nor_expires() {
    let (purgatory, clock) = purgatory_with_clock();
    let level = Arc::default();
    let goal = Goal::new(&level, 1);
    let watched = purgatory.watch(goal.clone(), &["a"], ms(30));
    assert!(purgatory.cancel(watched));
    assert!(!purgatory.cancel(watched));
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
    level.store(1, SeqCst);
    purgatory.check(&"a");
    clock.advance(HOUR);
    purgatory.timers().fire_due();
    assert_eq!(goal.ends(), (0, 0));
}

#[test]
fn lists_are_purged_when_enough_completed_operations_stay_in_them() {
    let interval = 100;
    let config = PurgatoryConfig {
        purge_interval: interval,
    };
    let purgatory = Purgatory::new(ManualClock::shared(), config);
    let level = Arc::default();
    for n in 0..10_000u64 {
        // Completed through one key; the list of the other, which is never checked, keeps it.
        let (hot, cold) = (2 * n, 2 * n + 1);
        purgatory.watch(Goal::new(&level, n + 1), &[hot, cold], HOUR);
        level.store(n + 1, SeqCst);
        assert_eq!(purgatory.check(&hot), 1);
        assert!(
            purgatory.watched() <= interval + 2,
            "{} places",
            purgatory.watched()
        );
        assert!(purgatory.keys() <= interval + 2);
    }
    assert_eq!(purgatory.delayed(), 0);
}

#[test]
fn waiting_operations_are_not_purged() {
    let config = PurgatoryConfig { purge_interval: 0 };
    let purgatory = Purgatory::new(ManualClock::shared(), config);
    let (reached, waiting) = (Arc::default(), Arc::default());
    let goals: Vec<_> = (0..50).map(|_| Goal::new(&waiting, 1)).collect();
    for goal in &goals {
        purgatory.watch(goal.clone(), &["wait"], HOUR);
        purgatory.watch(Goal::new(&reached, 1), &["done", "rest", "more"], HOUR);
    }
    reached.store(1, SeqCst);
    assert_eq!(purgatory.check(&"done"), 50);
    assert_eq!(purgatory.delayed(), 50);
    let watched = purgatory.watched();
    assert!(watched <= 2 * 50, "{watched} places");
    waiting.store(1, SeqCst);
    assert_eq!(purgatory.check(&"wait"), 50);
    assert!(goals.iter().all(|goal| goal.ends() == (1, 0)));
}

#[test]
fn an_operation_may_watch_any_number_of_keys() {
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let level = Arc::default();
    let keys: Vec<u32> = (0..1_000).collect();
    for last in [0, 3, 4, 999] {
        let goal = Goal::new(&level, 1);
        purgatory.watch(goal.clone(), &keys, HOUR);
        assert_eq!(purgatory.check(&keys[last]), 0);
        level.store(1, SeqCst);
        assert_eq!(purgatory.check(&keys[last]), 1);
        assert_eq!(goal.ends(), (1, 0));
        level.store(0, SeqCst);
    }
    assert!(purgatory.watched() <= 1_000, "none waits");
    assert!(keys.iter().all(|key| purgatory.check(key) == 0));
    assert_eq!((purgatory.watched(), purgatory.keys()), (0, 0));
}

/// A list names an operation by its place and a part of the place's generation, so that an old
/// name comes to name another operation.
#[test]
fn an_old_name_in_a_list_does_no_harm() {
    const USES: usize = 200_000;
    let config = PurgatoryConfig {
        purge_interval: usize::MAX,
    };
    let purgatory = Purgatory::new(ManualClock::shared(), config);
    let level = Arc::default();
    for _ in 0..USES {
        let watched = purgatory.watch(Goal::new(&level, 1), &["old"], HOUR);
        assert!(purgatory.take(watched).is_some());
    }
    assert_eq!(purgatory.watched(), USES);
    let goal = Goal::new(&level, 1);
    let watched = purgatory.watch(goal.clone(), &["new"], HOUR);
    assert_eq!(purgatory.check(&"old"), 0);
    assert!(purgatory.waits(watched));
    assert!(purgatory.watched() < USES / 100, "swept");
    level.store(1, SeqCst);
    assert_eq!(purgatory.check(&"new"), 1);
    assert_eq!((goal.ends(), purgatory.delayed()), ((1, 0), 0));
}

#[test]
fn operations_of_all_shards_are_found_and_leave_nothing() {
    const CROWD: usize = 40_000;
    let (purgatory, _) = purgatory_with_clock();
    let level = Arc::default();
    let goals: Vec<_> = (0..CROWD).map(|_| Goal::new(&level, 1)).collect();
    for goal in &goals {
        purgatory.watch(goal.clone(), &["a", "b"], HOUR);
    }
    assert!(purgatory.keys() > 100, "in many shards");
    assert_eq!(purgatory.check(&"a"), 0);
    level.store(1, SeqCst);
    assert_eq!(purgatory.check(&"b"), CROWD);
    assert!(goals.iter().all(|goal| goal.ends() == (1, 0)));
    assert_eq!(purgatory.check(&"a"), 0);
    assert_eq!((purgatory.watched(), purgatory.keys()), (0, 0));
}

#[test]
fn closing_expires_what_waits_and_what_comes_later() {
    let (purgatory, _) = purgatory_with_clock();
    let level = Arc::default();
    let early = Goal::new(&level, 1);
    purgatory.watch(early.clone(), &["a", "b"], HOUR);
    purgatory.close();
    assert_eq!(early.ends(), (0, 1));
    let late = Goal::new(&level, 1);
    let watched = purgatory.watch(late.clone(), &["a"], HOUR);
    assert!(!purgatory.waits(watched));
    assert_eq!(late.ends(), (0, 1));
    let books = (
        purgatory.delayed(),
        purgatory.watched(),
        purgatory.timers().pending(),
    );
    assert_eq!(books, (0, 0, 0));
}

/// Checks its own key while it is tried, as an operation that changes what others watch does.
struct Nested {
    purgatory: Purgatory<&'static str, Arc<Nested>>,
    tries: AtomicUsize,
}

impl DelayedOperation for Nested {
    fn try_complete(&self) -> bool {
        self.purgatory.check(&"a");
        self.tries.fetch_add(1, SeqCst) == 2
    }

    fn on_expire(&self) {}
}

#[test]
fn an_operation_may_check_its_own_key_while_it_is_tried() {
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let tries = AtomicUsize::new(0);
    let nested = Arc::new(Nested {
        purgatory: purgatory.clone(),
        tries,
    });
    let watched = purgatory.watch(nested, &["a"], HOUR);
    purgatory.check(&"a");
    assert!(!purgatory.waits(watched));
}

/// Is overtaken by the event that it waits for, just after it checked its condition first.
struct Overtaken {
    purgatory: Purgatory<&'static str, Arc<Overtaken>>,
    level: AtomicU64,
}

impl DelayedOperation for Overtaken {
    fn try_complete(&self) -> bool {
        let ready = self.level.swap(1, SeqCst) > 0;
        if !ready {
            assert_eq!(self.purgatory.check(&"a"), 0, "it is in no list yet");
        }
        ready
    }

    fn on_expire(&self) {}
}

#[test]
fn what_happens_before_the_operation_is_in_its_lists_is_not_missed() {
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let overtaken = Overtaken {
        purgatory: purgatory.clone(),
        level: AtomicU64::new(0),
    };
    let watched = purgatory.watch(Arc::new(overtaken), &["a", "b"], HOUR);
    assert!(!purgatory.waits(watched));
    assert_eq!(
        (purgatory.delayed(), purgatory.watched(), purgatory.keys()),
        (0, 0, 0)
    );
}

/// Checks its condition and then dawdles, so that a test can change the world in between.
struct Dawdler {
    level: AtomicU64,
    expired: AtomicUsize,
    dawdles: AtomicBool,
    checked: Barrier,
    go_on: Barrier,
}

impl Dawdler {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            level: AtomicU64::new(0),
            expired: AtomicUsize::new(0),
            dawdles: AtomicBool::new(false),
            checked: Barrier::new(2),
            go_on: Barrier::new(2),
        })
    }

    /// Has another thread try the operation and does something meanwhile; returns how many
    /// operations the other thread completed.
    fn meanwhile(
        &self,
        purgatory: &Purgatory<&'static str, Arc<Self>>,
        act: impl FnOnce(),
    ) -> usize {
        self.dawdles.store(true, SeqCst);
        thread::scope(|scope| {
            let slow = scope.spawn(|| purgatory.check(&"a"));
            self.checked.wait();
            act();
            self.go_on.wait();
            slow.join().expect("no panic")
        })
    }
}

impl DelayedOperation for Dawdler {
    fn try_complete(&self) -> bool {
        let ready = self.level.load(SeqCst) > 0;
        if self.dawdles.swap(false, SeqCst) {
            self.checked.wait();
            self.go_on.wait();
        }
        ready
    }

    fn on_expire(&self) {
        self.expired.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_check_that_meets_a_running_try_is_made_up_for() {
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let dawdler = Dawdler::new();
    let watched = purgatory.watch(dawdler.clone(), &["a"], HOUR);
    let completed = dawdler.meanwhile(&purgatory, || {
        dawdler.level.store(1, SeqCst);
        assert_eq!(purgatory.check(&"a"), 0, "the other thread has the turn");
    });
    assert_eq!(completed, 1);
    assert!(!purgatory.waits(watched));
}

#[test]
fn what_is_due_while_it_is_tried_expires_afterwards() {
    let clock = ManualClock::shared();
    let purgatory = Purgatory::new(clock.clone(), PurgatoryConfig::default());
    let dawdler = Dawdler::new();
    purgatory.watch(dawdler.clone(), &["a"], ms(30));
    let completed = dawdler.meanwhile(&purgatory, || {
        clock.advance(ms(30));
        assert_eq!(purgatory.timers().fire_due(), 1);
        assert_eq!(dawdler.expired.load(SeqCst), 0, "it is being tried");
    });
    assert_eq!((completed, dawdler.expired.load(SeqCst)), (0, 1));
    assert_eq!(purgatory.delayed(), 0);
}

#[test]
fn what_is_cancelled_while_it_is_tried_is_forgotten_afterwards() {
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let dawdler = Dawdler::new();
    let watched = purgatory.watch(dawdler.clone(), &["a"], HOUR);
    let completed = dawdler.meanwhile(&purgatory, || assert!(!purgatory.cancel(watched)));
    assert_eq!((completed, dawdler.expired.load(SeqCst)), (0, 0));
    assert_eq!((purgatory.delayed(), Arc::strong_count(&dawdler)), (0, 1));
}

#[test]
fn an_operation_is_handed_over_once() {
    let (purgatory, clock) = purgatory_with_clock();
    let level = Arc::default();
    let watched = purgatory.watch(Goal::new(&level, 1), &["a"], ms(30));
    let goal = purgatory.take(watched).expect("it waits");
    assert!(purgatory.take(watched).is_none());
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
    level.store(1, SeqCst);
    assert_eq!(purgatory.check(&"a"), 0);
    clock.advance(HOUR);
    assert_eq!(purgatory.timers().fire_due(), 0);
    assert_eq!(goal.ends(), (0, 0), "that is the taker's affair");
}

#[test]
fn dropping_the_last_clone_expires_what_waits() {
    let (purgatory, _) = purgatory_with_clock();
    let timers = purgatory.timers().clone();
    let goal = Goal::new(&Arc::default(), 1);
    purgatory.clone().watch(goal.clone(), &["a"], HOUR);
    assert_eq!((goal.ends(), timers.pending()), ((0, 0), 1));
    drop(purgatory);
    assert_eq!((goal.ends(), timers.pending()), ((0, 1), 0));
}

#[test]
fn a_crowd_that_is_due_at_once_expires_completely() {
    const CROWD: usize = 20_000;
    let (purgatory, clock) = purgatory_with_clock();
    let goal = Goal::new(&Arc::default(), 1);
    for _ in 0..CROWD {
        purgatory.watch(goal.clone(), &["a"], ms(30));
    }
    clock.advance(ms(30));
    assert_eq!(purgatory.timers().fire_due(), CROWD);
    assert_eq!(goal.ends(), (0, CROWD));
    assert_eq!(purgatory.check(&"a"), 0);
    assert_eq!((purgatory.watched(), purgatory.keys()), (0, 0));
}

/// Panics when it is tried for the second time.
struct Panics(AtomicUsize);

impl DelayedOperation for Panics {
    fn try_complete(&self) -> bool {
        if self.0.fetch_add(1, SeqCst) > 0 {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        false
    }

    fn on_expire(&self) {}
}

#[test]
fn an_operation_that_panics_is_gone() {
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let watched = purgatory.watch(Panics(AtomicUsize::new(0)), &["a"], HOUR);
    let check = std::panic::AssertUnwindSafe(|| purgatory.check(&"a"));
    std::panic::catch_unwind(check).expect_err("it panics");
    assert!(!purgatory.waits(watched));
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
    assert_eq!(purgatory.check(&"a"), 0);
}

/// Many threads raise levels and check, others watch: whatever is reached must be completed,
/// though nothing checks the keys again afterwards.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const KEYS: u64 = 4;
    const ROUNDS: u64 = 2_000;
    let purgatory = Purgatory::new(
        ManualClock::shared(),
        PurgatoryConfig { purge_interval: 10 },
    );
    let levels: Vec<Arc<AtomicU64>> = (0..KEYS).map(|_| Arc::default()).collect();
    let goals = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for key in 0..KEYS {
            let (purgatory, levels, goals) = (&purgatory, &levels, &goals);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    levels[key as usize].fetch_add(1, SeqCst);
                    purgatory.check(&key);
                }
            });
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let goal = Goal::new(&levels[key as usize], round);
                    purgatory.watch(goal.clone(), &[key, (key + 1) % KEYS], HOUR);
                    goals.lock().push(goal);
                }
            });
        }
    });
    let goals = goals.into_inner();
    assert_eq!(goals.len() as u64, KEYS * ROUNDS);
    assert!(goals.iter().all(|goal| goal.ends() == (1, 0)));
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
}

/// One operation and one check at a time, which begin together: the key gets its first list, or
/// loses its last one, while it is checked.
#[test]
fn a_check_that_races_with_the_first_operation_of_a_key_misses_nothing() {
    const ROUNDS: u64 = 5_000;
    let purgatory = Purgatory::new(ManualClock::shared(), PurgatoryConfig::default());
    let level: Arc<AtomicU64> = Arc::default();
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let mut missed = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                begin.wait();
                level.store(round, SeqCst);
                purgatory.check(&"a");
                end.wait();
            }
        });
        for round in 1..=ROUNDS {
            begin.wait();
            let goal = Goal::new(&level, round);
            purgatory.watch(goal.clone(), &["a", "b"], HOUR);
            end.wait();
            missed += usize::from(goal.ends() != (1, 0));
        }
    });
    assert_eq!((missed, purgatory.delayed()), (0, 0));
}

#[test]
fn racing_check_expiry_and_cancel_end_an_operation_once() {
    for round in 0..500 {
        let clock = ManualClock::shared();
        let purgatory = Purgatory::new(clock.clone(), PurgatoryConfig::default());
        let level: Arc<AtomicU64> = Arc::default();
        let goal = Goal::new(&level, 1);
        let watched = purgatory.watch(goal.clone(), &["a"], ms(1));
        let cancelled = thread::scope(|scope| {
            scope.spawn(|| {
                level.store(1, SeqCst);
                purgatory.check(&"a");
            });
            scope.spawn(|| {
                clock.advance(ms(1));
                purgatory.timers().fire_due();
            });
            let cancel = scope.spawn(|| round % 2 == 0 && purgatory.cancel(watched));
            cancel.join().expect("no panic")
        });
        let (completed, expired) = goal.ends();
        // A cancel that was only requested is carried out by whoever has the turn.
        let silent = usize::from(round % 2 == 0 && completed + expired == 0);
        assert_eq!(completed + expired + silent, 1);
        assert!(!cancelled || silent == 1);
        assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Watch {
        keys: Vec<u8>,
        goal: u64,
        timeout_ms: u64,
    },
    Raise {
        by: u64,
    },
    Check {
        key: u8,
    },
    Cancel {
        nth: usize,
    },
    Pass {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let watch = (proptest::collection::vec(0..4u8, 0..4), 0..40u64, 0..600u64);
    prop_oneof![
        4 => watch.prop_map(|(keys, goal, timeout_ms)| Step::Watch { keys, goal, timeout_ms }),
        2 => (0..4u64).prop_map(|by| Step::Raise { by }),
        3 => (0..4u8).prop_map(|key| Step::Check { key }),
        1 => any::<usize>().prop_map(|nth| Step::Cancel { nth }),
        2 => (0..300u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// One operation as the model sees it.
struct Modelled {
    goal: Arc<Goal>,
    watched: Watched,
    keys: Vec<u8>,
    deadline_ms: u64,
    ends: Option<(usize, usize)>,
}

proptest! {
    #[test]
    fn operations_end_when_the_model_says(
        steps in proptest::collection::vec(step(), 1..80),
        purge_interval in 0..20usize,
    ) {
        let clock = ManualClock::shared();
        let purgatory = Purgatory::new(clock.clone(), PurgatoryConfig { purge_interval });
        let level: Arc<AtomicU64> = Arc::default();
        let mut now_ms = 0;
        let mut all: Vec<Modelled> = Vec::new();
        for step in steps {
            match step {
                Step::Watch { keys, goal, timeout_ms } => {
                    let goal = Goal::new(&level, goal);
                    let watched = purgatory.watch(goal.clone(), &keys, ms(timeout_ms));
                    let ends = (level.load(SeqCst) >= goal.goal).then_some((1, 0));
                    let deadline_ms = now_ms + timeout_ms;
                    all.push(Modelled { goal, watched, keys, deadline_ms, ends });
                }
                Step::Raise { by } => {
                    level.fetch_add(by, SeqCst);
                }
                Step::Check { key } => {
                    let level = level.load(SeqCst);
                    let ready = |one: &&mut Modelled| {
                        one.ends.is_none() && one.keys.contains(&key) && level >= one.goal.goal
                    };
                    let mut completed = 0;
                    for one in all.iter_mut().filter(ready) {
                        one.ends = Some((1, 0));
                        completed += 1;
                    }
                    prop_assert_eq!(purgatory.check(&key), completed);
                }
                Step::Cancel { nth } => {
                    let index = nth % all.len().max(1);
                    if let Some(one) = all.get_mut(index) {
                        prop_assert_eq!(purgatory.cancel(one.watched), one.ends.is_none());
                        one.ends.get_or_insert((0, 0));
                    }
                }
                Step::Pass { ms: by } => {
                    now_ms += by;
                    clock.advance(ms(by));
                    purgatory.timers().fire_due();
                    for one in all.iter_mut().filter(|one| one.deadline_ms <= now_ms) {
                        one.ends.get_or_insert((0, 1));
                    }
                }
            }
            let waiting = all.iter().filter(|one| one.ends.is_none()).count();
            prop_assert_eq!(purgatory.delayed(), waiting);
            prop_assert_eq!(purgatory.timers().pending(), waiting);
            for one in &all {
                prop_assert_eq!(one.goal.ends(), one.ends.unwrap_or_default());
                prop_assert_eq!(purgatory.waits(one.watched), one.ends.is_none());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_condition_or_its_time() {
    let clock = TokioClock::shared();
    let purgatory = Purgatory::<u8, Wait>::new(clock, PurgatoryConfig::default());
    let level: Arc<AtomicU64> = Arc::default();
    let ready = |goal| {
        let level = Arc::clone(&level);
        move || level.load(SeqCst) >= goal
    };
    assert_eq!(
        purgatory.wait(&[1], HOUR, ready(0)).await,
        Outcome::Completed
    );
    assert_eq!(
        purgatory.wait(&[1], ms(50), ready(1)).await,
        Outcome::Expired
    );
    let raise = async {
        tokio::time::sleep(ms(10)).await;
        level.store(1, SeqCst);
        purgatory.check(&1)
    };
    let (outcome, completed) = tokio::join!(purgatory.wait(&[1, 2], HOUR, ready(1)), raise);
    assert_eq!((outcome, completed), (Outcome::Completed, 1));
    assert_eq!(purgatory.timers().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_nobody_tries_any_more_expires() {
    let purgatory = Purgatory::<u8, Wait>::new(TokioClock::shared(), PurgatoryConfig::default());
    let close = async {
        tokio::time::sleep(ms(10)).await;
        purgatory.close();
    };
    let wait = purgatory.wait(&[1], HOUR, || false);
    assert_eq!(tokio::join!(wait, close).0, Outcome::Expired);
    let late = purgatory.wait(&[1], HOUR, || false);
    assert_eq!(late.await, Outcome::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_is_forgotten_at_once() {
    let purgatory = Purgatory::<u8, Wait>::new(TokioClock::shared(), PurgatoryConfig::default());
    let wait = purgatory.wait(&[1], HOUR, || false);
    tokio::time::timeout(ms(5), wait)
        .await
        .expect_err("still waiting");
    assert_eq!((purgatory.delayed(), purgatory.timers().pending()), (0, 0));
}
