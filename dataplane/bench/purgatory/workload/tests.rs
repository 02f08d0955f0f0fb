use super::*;
use crate::{arguments::plan, contenders::InProcess, runs::check};

#[test]
fn service_times_have_the_percentiles_asked_for() {
    for setting in SETTINGS {
        let mut rng = Rng::with_seed(7);
        let mut drawn: Vec<_> = (0..100_000)
            .map(|_| latency_ms(setting, &mut rng))
            .collect();
        drawn.sort_unstable();
        let near = |drawn: u32, asked: u32| drawn.abs_diff(asked) <= asked / 20;
        assert!(near(drawn[50_000], setting.pct50_ms), "{}", drawn[50_000]);
        assert!(near(drawn[75_000], setting.pct75_ms), "{}", drawn[75_000]);
    }
}

#[test]
fn intervals_add_up_to_the_rate_though_they_are_whole_milliseconds() {
    for rate in [100.0, 3_000.0, 200_000.0] {
        let (mut rng, mut intervals) = (Rng::with_seed(7), Intervals::new(rate));
        let drawn = 200_000;
        let passed_ms: u64 = (0..drawn)
            .map(|_| u64::from(intervals.next_ms(&mut rng)))
            .sum();
        let expected_ms = f64::from(drawn) * 1_000.0 / rate;
        let off = (passed_ms as f64 - expected_ms).abs() / expected_ms;
        assert!(off < 0.02, "{passed_ms} ms at {rate}/s");
    }
}

#[test]
fn an_infinite_rate_has_no_intervals() {
    let (mut rng, mut intervals) = (Rng::with_seed(7), Intervals::new(f64::INFINITY));
    assert!((0..1_000).all(|_| intervals.next_ms(&mut rng) == 0));
}

#[test]
fn what_is_added_too_late_is_completed_in_the_next_millisecond() {
    let queue = CompletionQueue::new(10);
    let mut due = Vec::new();
    queue.add(12, "in time");
    while queue.take_due(11, &mut due) {}
    assert!(due.is_empty());
    queue.add(11, "late");
    assert!(queue.take_due(12, &mut due));
    assert_eq!(due, ["in time", "late"]);
    due.clear();
    assert!(!queue.take_due(12, &mut due));
}

#[test]
fn every_contender_ends_every_request_once() {
    for contender in InProcess::ALL {
        let plan = plan(SETTINGS[1], 2_000, f64::INFINITY, 7);
        let measured = contender.run(&plan).expect("a runtime");
        assert_eq!(check(&plan, &measured), Ok(()), "{}", contender.name());
        assert!(measured.slower > 800, "half of them: {}", measured.slower);
    }
}
