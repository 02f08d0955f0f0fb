use proptest::prelude::*;

use super::*;

/// What the wheel must do, done the naive way.
#[derive(Default)]
struct Naive {
    now: u64,
    timers: Vec<(u64, u32)>,
}

impl Naive {
    fn advance(&mut self, now: u64) -> Vec<u32> {
        self.now = now;
        let mut expired: Vec<_> = self
            .timers
            .iter()
            .copied()
            .filter(|(deadline, _)| *deadline <= now)
            .collect();
        self.timers.retain(|(deadline, _)| *deadline > now);
        expired.sort_unstable();
        expired.into_iter().map(|(_, value)| value).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert { after: u64 },
    InsertPast { before: u64 },
    Cancel { nth: usize },
    Advance { by: u64 },
    AdvanceToNext,
    AdvanceSome { by: u64, timers_max: usize },
    Drain,
}

fn ticks() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..25u64,
        4 => 0..450u64,
        3 => 0..100_000u64,
        1 => 0..u64::MAX / 4,
        // Edges of the levels.
        2 => (0u32..6, 0..3u64).prop_map(|(power, off)| (32u64.pow(power) + off).saturating_sub(1)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => ticks().prop_map(|after| Step::Insert { after }),
        1 => (0..50u64).prop_map(|before| Step::InsertPast { before }),
        2 => any::<usize>().prop_map(|nth| Step::Cancel { nth }),
        3 => (0..500u64).prop_map(|by| Step::Advance { by }),
        1 => ticks().prop_map(|by| Step::Advance { by }),
        2 => Just(Step::AdvanceToNext),
        2 => (0..500u64, 1..4usize)
            .prop_map(|(by, timers_max)| Step::AdvanceSome { by, timers_max }),
        1 => Just(Step::Drain),
    ];
    proptest::collection::vec(step, 1..120)
}

fn advance_both(wheel: &mut TimingWheel<u32>, naive: &mut Naive, now: u64) {
    let mut deadlines: Vec<_> = naive.timers.clone();
    let mut expired = Vec::new();
    wheel.advance(now, &mut expired);
    deadlines.sort_unstable();
    let deadline_of = |value: u32| {
        deadlines
            .iter()
            .find(|timer| timer.1 == value)
            .map(|timer| timer.0)
            .expect("a live timer")
    };
    // Earlier deadlines first, except that what was overdue when inserted comes at once.
    let order: Vec<_> = expired
        .iter()
        .map(|&value| deadline_of(value).max(naive.now))
        .collect();
    assert!(order.is_sorted(), "expired out of order: {order:?}");
    expired.sort_unstable();
    let mut expected = naive.advance(now);
    expected.sort_unstable();
    assert_eq!(expired, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_wheel_does_what_a_naive_timer_does(start in 0..u64::MAX / 2, steps in steps()) {
        let mut wheel = TimingWheel::new(start);
        let mut naive = Naive { now: start, timers: Vec::new() };
        let mut ids: Vec<(TimerId, u32)> = Vec::new();
        let mut next_value = 0;
        for step in steps {
            match step {
                Step::Insert { .. } | Step::InsertPast { .. } => {
                    let deadline = match step {
                        Step::Insert { after } => naive.now.saturating_add(after),
                        Step::InsertPast { before } => naive.now.saturating_sub(before),
                        _ => unreachable!(),
                    };
                    ids.push((wheel.insert(deadline, next_value), next_value));
                    naive.timers.push((deadline, next_value));
                    next_value += 1;
                }
                Step::Cancel { nth } => {
                    let Some(&(id, mut value)) = ids.get(nth % ids.len().max(1)) else { continue };
                    let alive = naive.timers.iter().any(|timer| timer.1 == value);
                    prop_assert_eq!(TimerId::from_parts(id.to_parts()), id);
                    prop_assert_eq!(wheel.has(id), alive);
                    prop_assert_eq!(wheel.get_mut(id), alive.then_some(&mut value));
                    naive.timers.retain(|timer| timer.1 != value);
                    prop_assert_eq!(wheel.cancel(id), alive.then_some(value));
                }
                Step::Advance { by } => {
                    let now = naive.now.saturating_add(by);
                    advance_both(&mut wheel, &mut naive, now);
                }
                Step::AdvanceToNext => {
                    if let Some(next) = wheel.next_expiry() {
                        advance_both(&mut wheel, &mut naive, next);
                    }
                }
                Step::AdvanceSome { by, timers_max } => {
                    let now = naive.now.saturating_add(by);
                    let mut expired = Vec::new();
                    let mut finished = false;
                    while !finished {
                        let before = expired.len();
                        finished = wheel.advance_some(now, timers_max, &mut expired);
                        prop_assert!(expired.len() - before <= timers_max);
                        prop_assert!(finished || wheel.next_expiry() <= Some(now));
                        // What is cancelled meanwhile does not expire.
                        let first = ids.iter().find(|(id, _)| wheel.has(*id));
                        if let Some(&(id, value)) = first {
                            prop_assert_eq!(wheel.cancel(id), Some(value));
                            naive.timers.retain(|timer| timer.1 != value);
                        }
                    }
                    expired.sort_unstable();
                    let mut expected = naive.advance(now);
                    expected.sort_unstable();
                    prop_assert_eq!(expired, expected);
                }
                Step::Drain => {
                    let mut drained = Vec::new();
                    wheel.drain(&mut drained);
                    drained.sort_unstable();
                    let mut expected: Vec<_> =
                        naive.timers.drain(..).map(|timer| timer.1).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(drained, expected);
                }
            }
            prop_assert_eq!(wheel.len(), naive.timers.len());
            prop_assert_eq!(wheel.now(), naive.now);
            let earliest = naive.timers.iter().map(|timer| timer.0.max(naive.now)).min();
            prop_assert_eq!(wheel.next_expiry().is_some(), earliest.is_some());
            prop_assert!(wheel.next_expiry() <= earliest, "the driver would oversleep");
        }
    }

    #[test]
    fn a_driver_that_sleeps_until_the_next_expiry_wakes_once_per_level(after in ticks()) {
        let mut wheel = TimingWheel::new(7);
        wheel.insert(7 + after, ());
        let mut expired = Vec::new();
        let mut wakes = 0;
        while let Some(next) = wheel.next_expiry() {
            wheel.advance(next, &mut expired);
            wakes += 1;
            prop_assert!(wakes <= 15);
        }
        prop_assert_eq!(expired.len(), 1);
        prop_assert_eq!(wheel.now(), 7 + after);
    }
}

#[test]
fn the_last_tick_of_all_can_be_a_deadline() {
    let mut wheel = TimingWheel::new(0);
    wheel.insert(u64::MAX, "end");
    let mut expired = Vec::new();
    wheel.advance(u64::MAX - 1, &mut expired);
    assert!(expired.is_empty());
    assert_eq!(wheel.next_expiry(), Some(u64::MAX));
    wheel.advance(u64::MAX, &mut expired);
    assert_eq!(expired, ["end"]);
    assert_eq!(wheel.next_expiry(), None);
}

#[test]
fn a_used_id_does_not_cancel_the_timer_that_took_its_place() {
    let mut wheel = TimingWheel::new(0);
    let first = wheel.insert(5, 1);
    assert_eq!(wheel.cancel(first), Some(1));
    let second = wheel.insert(5, 2);
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(wheel.cancel(second), Some(2));
}

#[test]
fn cancelled_timers_leave_no_bucket_to_wake_for() {
    let mut wheel = TimingWheel::new(0);
    let ids: Vec<_> = (0..1_000u64).map(|n| wheel.insert(n * 37 + 1, n)).collect();
    for id in ids {
        wheel.cancel(id).expect("alive");
    }
    assert_eq!(wheel.next_expiry(), None);
}

#[test]
fn places_are_used_again() {
    let mut wheel = TimingWheel::new(0);
    for round in 0..3u64 {
        let ids: Vec<_> = (0..1_000u64).map(|n| wheel.insert(n, round)).collect();
        assert!(ids.iter().all(|id| id.to_parts().0 < 1_000));
        for id in ids {
            assert_eq!(wheel.id_at(id.to_parts().0), id);
            assert_eq!(wheel.cancel(id), Some(round));
            assert_ne!(wheel.id_at(id.to_parts().0), id);
        }
    }
}
