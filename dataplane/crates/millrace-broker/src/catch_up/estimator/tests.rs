use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MIB: u64 = 1 << 20;
/// Records of a KiB.
const RECORD: u64 = 1_024;

/// A group on a partition, sampled every second.
struct Rig {
    seen: Sighting,
    track: Track,
}

fn bytes(from: Offset, to: Offset) -> u64 {
    (to - from) * RECORD
}

impl Rig {
    fn new(position: Offset, high_watermark: Offset, has_members: bool) -> Self {
        let seen = Sighting {
            at: Duration::from_secs(1_000),
            position,
            high_watermark,
            has_members,
            member: Some(0),
        };
        Self {
            seen,
            track: Track::new(seen, bytes),
        }
    }

    /// So many records are read and produced each second.
    fn run(&mut self, seconds: u64, read: u64, produced: u64) {
        for _ in 0..seconds {
            self.seen.at += SECOND;
            self.seen.high_watermark += produced;
            let position = self.seen.position + read;
            self.seen.position = position.min(self.seen.high_watermark);
            self.track.see(self.seen, bytes);
        }
    }

    fn eta(&self) -> f64 {
        self.track.eta_seconds().expect("an estimate")
    }

    fn progress(&self) -> f64 {
        let (done, initial) = self.track.done_of_initial().expect("catching up");
        as_float(done) / as_float(initial)
    }
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected.abs() * 0.02 + 1e-6
}

#[test]
fn a_constant_drain_is_told_exactly_from_the_first_second_on() {
    let mut rig = Rig::new(0, 100_000, true);
    assert_eq!(rig.track.mode(), Mode::CatchUp);
    assert_eq!(rig.track.eta_seconds(), None, "nothing is known yet");
    rig.run(1, 1_000, 100);
    assert!(near(rig.eta(), 99_100.0 / 900.0), "{}", rig.eta());
    rig.run(49, 1_000, 100);
    assert!(near(rig.eta(), 55_000.0 / 900.0), "{}", rig.eta());
    assert!(near(rig.track.read_rate(), 1_024_000.0));
    assert!(near(rig.track.produce_rate(), 102_400.0));
    assert!(near(rig.track.drain_rate(), 921_600.0));
    assert!(near(rig.progress(), 0.45), "{}", rig.progress());
    assert_eq!(
        (rig.track.backlog_records(), rig.track.backlog_bytes()),
        (55_000, 55_000 * RECORD)
    );
    rig.run(60, 1_000, 100);
    assert_eq!(rig.track.mode(), Mode::Tail);
    assert_eq!(rig.track.eta_seconds(), Some(0.0));
    assert!(near(rig.progress(), 1.0), "{}", rig.progress());
    rig.track.forget_progress();
    assert_eq!(rig.track.done_of_initial(), None);
}

#[test]
fn lumps_of_commits_do_not_shake_the_estimate_much() {
    let mut rig = Rig::new(0, 1_000_000, true);
    for _ in 0..24 {
        rig.run(4, 0, 0);
        rig.run(1, 5_000, 0);
    }
    let expected = as_float(1_000_000 - 120_000) / 1_000.0;
    assert!(
        (rig.eta() / expected - 1.0).abs() < 0.1,
        "{} of {expected}",
        rig.eta()
    );
}

#[test]
fn who_reads_slower_than_is_written_falls_behind_after_a_while() {
    let mut rig = Rig::new(0, 100_000, true);
    rig.run(30, 100, 1_000);
    assert_eq!(rig.track.mode(), Mode::CatchUp, "not for long yet");
    assert_eq!(rig.track.eta_seconds(), None);
    rig.run(40, 100, 1_000);
    assert_eq!(rig.track.mode(), Mode::FallingBehind);
    assert_eq!(rig.track.eta_seconds(), None);
    assert!(rig.track.drain_rate() < 0.0);
    assert!(
        near(rig.progress() + 1.0, 1.0),
        "nothing of a growing backlog is done"
    );
    rig.run(60, 10_000, 1_000);
    assert_eq!(rig.track.mode(), Mode::Tail, "it caught up after all");
}

#[test]
fn members_that_do_not_move_fall_behind_and_a_group_without_any_is_idle() {
    let mut stuck = Rig::new(0, 100_000, true);
    stuck.run(70, 0, 0);
    assert_eq!(stuck.track.mode(), Mode::FallingBehind);
    let mut little = Rig::new(0, 3, true);
    assert_eq!(little.track.mode(), Mode::Tail);
    little.run(70, 0, 0);
    assert_eq!(
        little.track.mode(),
        Mode::FallingBehind,
        "three records, for ever"
    );
    let mut idle = Rig::new(0, 100_000, false);
    idle.run(70, 0, 500);
    assert_eq!(idle.track.mode(), Mode::Idle);
    assert_eq!(idle.track.eta_seconds(), None);
    assert_eq!(idle.track.backlog_records(), 135_000);
    assert_eq!(Rig::new(5, 5, false).track.mode(), Mode::Idle);
    assert_eq!(Rig::new(5, 5, true).track.mode(), Mode::Tail);
}

#[test]
fn what_was_idle_is_assessed_again_when_it_is_read() {
    let mut rig = Rig::new(0, 100_000, false);
    rig.run(600, 0, 0);
    rig.seen.has_members = true;
    rig.run(5, 1_000, 0);
    assert_eq!(rig.track.mode(), Mode::CatchUp);
    assert!(
        near(rig.eta(), 95.0),
        "the idle time counts for nothing: {}",
        rig.eta()
    );
    assert!(near(rig.progress(), 4.0 / 99.0), "{}", rig.progress());
}

#[test]
fn a_group_without_members_that_commits_is_being_read() {
    let mut rig = Rig::new(0, 100_000, false);
    rig.run(5, 1_000, 0);
    assert_eq!(rig.track.mode(), Mode::CatchUp);
    rig.run(40, 0, 0);
    assert_eq!(rig.track.mode(), Mode::Idle);
}

#[test]
fn a_producer_that_stops_leaves_a_shorter_time() {
    let mut rig = Rig::new(0, 200_000, true);
    rig.run(60, 1_000, 500);
    let before = rig.eta();
    rig.run(60, 1_000, 0);
    let left = as_float(rig.track.backlog_bytes()) / as_float(RECORD);
    assert!(rig.eta() < before / 2.0, "{} after {before}", rig.eta());
    assert!(rig.eta() < left / 800.0, "{}", rig.eta());
}

#[test]
fn a_rewind_begins_a_new_catching_up() {
    let mut rig = Rig::new(0, 100_000, true);
    rig.run(95, 1_000, 0);
    assert!(rig.progress() > 0.9);
    rig.seen.position = 10_000;
    rig.run(1, 0, 0);
    assert_eq!(rig.track.mode(), Mode::CatchUp);
    assert!(rig.progress() < 0.01, "{}", rig.progress());
    assert!(rig.track.read_rate() < 1.0, "going back is not reading");
    rig.run(10, 2_000, 0);
    assert!(near(rig.progress(), 20.0 / 90.0), "{}", rig.progress());
    assert!((35.0..50.0).contains(&rig.eta()), "{}", rig.eta());
}

#[test]
fn whoever_is_within_seconds_of_a_fast_producer_is_at_the_end() {
    let mut rig = Rig::new(0, 50_000, true);
    rig.run(60, 10_000, 10_000);
    assert!(rig.track.backlog_bytes() > 40 * MIB);
    assert_eq!(rig.track.mode(), Mode::Tail);
}

#[test]
fn the_same_moment_twice_changes_nothing() {
    let mut rig = Rig::new(0, 100_000, true);
    rig.run(10, 1_000, 0);
    let eta = rig.track.eta_seconds();
    rig.track.see(rig.seen, bytes);
    assert_eq!(rig.track.eta_seconds(), eta);
}

/// Whether members commit every 30 seconds or every minute, the rates are those of their reading.
#[test]
fn rare_commits_tell_the_rate_of_all_the_time_between_them() {
    for (interval, has_members) in [(30, true), (45, true), (60, true), (45, false)] {
        let mut rig = Rig::new(0, 1_000_000, has_members);
        let mut done = 0.0;
        for n in 1..=8 {
            rig.run(interval - 1, 0, 100);
            rig.run(1, 1_000 * interval, 100);
            assert_eq!(rig.track.mode(), Mode::CatchUp, "every {interval} s");
            let left = as_float(rig.track.backlog_records());
            assert!(
                near(rig.track.read_rate(), 1_024_000.0) && near(rig.eta(), left / 900.0),
                "every {interval} s: {} bytes/s, {} s",
                rig.track.read_rate(),
                rig.eta()
            );
            if has_members {
                assert!(n == 1 || rig.progress() > done, "{} {n}", rig.progress());
                done = rig.progress();
            }
        }
    }
}

/// What stood still and goes on shows its new rate soon: the standstill has the weight of a window.
#[test]
fn a_reader_that_goes_on_after_a_long_standstill_is_believed_within_minutes() {
    let mut rig = Rig::new(0, 1_000_000, true);
    rig.run(10, 1_000, 0);
    rig.run(600, 0, 0);
    rig.run(120, 1_000, 0);
    let left = as_float(rig.track.backlog_records()) / 1_000.0;
    assert!(
        (left..1.2 * left).contains(&rig.eta()),
        "{} of {left}",
        rig.eta()
    );
    assert!(near(rig.progress(), 0.13), "{}", rig.progress());
}

#[test]
fn who_commits_rarely_and_reads_slower_than_is_written_falls_behind() {
    let mut rig = Rig::new(0, 1_000_000, true);
    for _ in 0..5 {
        rig.run(39, 0, 1_000);
        rig.run(1, 4_000, 1_000);
    }
    assert_eq!(rig.track.mode(), Mode::FallingBehind);
}

/// Consumers commit every 5 seconds by default: the shown rate is that of their reading at any moment.
#[test]
fn the_read_rate_is_steady_between_two_commits() {
    let mut rig = Rig::new(0, 1_000_000, true);
    rig.run(4, 0, 0);
    rig.run(1, 5_000, 0);
    for second in 0..50 {
        rig.run(1, if second % 5 == 4 { 5_000 } else { 0 }, 0);
        let rate = rig.track.read_rate();
        assert!(near(rate, 1_024_000.0), "{rate} at {second} s");
    }
}

/// A reader that was at the end for minutes has not been slow. Whether the burst goes on is not known, so
/// the band is wide.
#[test]
fn the_band_after_a_burst_holds_the_time_that_its_reading_takes() {
    let mut rig = Rig::new(0, 0, true);
    rig.run(300, 0, 0);
    rig.run(1, 0, 100_000);
    for _ in 0..12 {
        rig.run(4, 0, 0);
        rig.run(1, 5_000, 0);
    }
    let band = rig.track.eta_band().expect("an estimate");
    assert!(
        (36.0..42.0).contains(&band.low) && band.high.is_none_or(|high| high > 40.0),
        "{band:?}"
    );
}

#[test]
fn a_reader_that_stops_falls_behind_though_nothing_is_written() {
    let mut rig = Rig::new(0, 1_000_000, true);
    rig.run(60, 1_000, 0);
    assert_eq!(rig.track.mode(), Mode::CatchUp);
    rig.run(95, 0, 0);
    assert_eq!(rig.track.mode(), Mode::FallingBehind);
    assert!(rig.track.read_rate().abs() < f64::EPSILON);
    assert_eq!(
        (rig.track.eta_seconds(), rig.track.eta_band()),
        (None, None)
    );
}

#[test]
fn the_band_holds_the_estimate_and_narrows() {
    let mut rig = Rig::new(0, 1_000_000, true);
    rig.run(1, 1_000, 0);
    let first = rig.track.eta_band().expect("an estimate");
    assert!(near(first.low, rig.eta() * 0.5133), "{first:?}");
    rig.run(59, 1_000, 0);
    let steady = rig.track.eta_band().expect("an estimate");
    assert!(near(steady.low, rig.eta() * 0.9), "{steady:?}");
    assert!(
        steady.high.is_some_and(|high| near(high, rig.eta() * 1.1)),
        "{steady:?}"
    );
    // Twice as fast: it may last, or not.
    rig.run(15, 2_000, 0);
    let faster = rig.track.eta_band().expect("an estimate");
    assert!(faster.low < rig.eta() * 0.9, "{faster:?}");
    assert!(
        faster.high.is_some_and(|high| high > rig.eta() * 1.1),
        "{faster:?}"
    );
    rig.run(40, 2_000, 2_100);
    let growing = rig.track.eta_band();
    assert!(
        growing.is_none_or(|band| band.high.is_none()),
        "{growing:?}"
    );
}
