use proptest::prelude::*;

use super::*;

const KIB: u64 = 1024;

/// A log of batches, each (offsets, timestamp, bytes), and what the truth is.
#[derive(Debug, Default)]
struct Log {
    segments: Segments,
    batches: Vec<Appended>,
    /// The most that the log has held.
    most_bytes: u64,
}

impl Log {
    fn append(&mut self, count: u64, max_timestamp: i64, bytes: u64) {
        let base_offset = self.end();
        let batch = Appended {
            base_offset,
            end_offset: base_offset + count,
            max_timestamp,
            bytes,
        };
        self.segments.append(batch);
        self.batches.push(batch);
        self.most_bytes = self.most_bytes.max(self.segments.size_bytes());
    }

    fn end(&self) -> Offset {
        self.batches.last().map_or(0, |last| last.end_offset)
    }

    /// Bytes of the batches from the one with `from` up to the one with `to`, which is not counted.
    fn bytes_between(&self, from: Offset, to: Offset) -> u64 {
        let between = |batch: &&Appended| batch.end_offset > from && batch.end_offset <= to;
        self.batches.iter().filter(between).map(|b| b.bytes).sum()
    }

    /// The end of the oldest segments whose records are all from before `before_ms`.
    fn end_of_older(&self, before_ms: i64, limit: Offset) -> Option<Offset> {
        end_of_older(&self.segments, before_ms, limit)
    }

    /// The end of the oldest segments behind which `keep_bytes` are left.
    fn end_of_surplus(&self, keep_bytes: u64, limit: Offset) -> Option<Offset> {
        let goes = |_: &Segment, behind| (behind >= keep_bytes).then_some(());
        self.segments.end_of_run(limit, goes).map(|(end, ())| end)
    }

    fn step(&self) -> u64 {
        let batch = self.batches.iter().map(|batch| batch.bytes).max();
        (self.most_bytes / STRIDES)
            .max(STRIDE_BYTES_MIN)
            .max(batch.unwrap_or(0))
    }

    fn check(&self, from: Offset, to: Offset) -> Result<(), TestCaseError> {
        let (told, truth) = (
            self.segments.bytes_between(from, to),
            self.bytes_between(from, to),
        );
        let error = told.abs_diff(truth);
        prop_assert!(
            error <= 2 * self.step(),
            "{from}..{to}: {told}, in truth {truth}, step {}",
            self.step()
        );
        Ok(())
    }
}

fn end_of_older(segments: &Segments, before_ms: i64, limit: Offset) -> Option<Offset> {
    let goes = |segment: &Segment, _| (segment.max_timestamp < before_ms).then_some(());
    segments.end_of_run(limit, goes).map(|(end, ())| end)
}

proptest! {
    #[test]
    fn sizes_are_off_by_one_step_at_each_end(
        batches in prop::collection::vec((1u64..50, -5_000i64..60_000, 1u64..600 * KIB), 1..2_000),
        asked in prop::collection::vec((0u64..60_000, 0u64..60_000), 20), trims in prop::collection::vec(0u64..60_000, 4),
    ) {
        let mut log = Log::default();
        let mut now = 1_000_000;
        for &(count, pause, bytes) in &batches {
            now += pause;
            log.append(count, now, bytes);
            prop_assert!(log.segments.list().len() <= SEGMENTS_MAX);
        }
        let end = log.end();
        let all: u64 = batches.iter().map(|(.., bytes)| bytes).sum();
        prop_assert_eq!(log.segments.size_bytes(), all);
        for (a, b) in asked {
            let (from, to) = (a.min(b), a.max(b));
            log.check(from, to)?;
        }
        let mut start = 0;
        for trim in trims {
            let before = log.segments.size_bytes();
            let freed = log.segments.trim(trim.min(end));
            start = start.max(trim.min(end));
            prop_assert_eq!(log.segments.size_bytes(), before - freed);
            log.check(start, end)?;
            prop_assert_eq!(log.segments.bytes_between(0, end), log.segments.size_bytes());
            let again = log.segments.list().iter().copied().collect();
            let again = Segments::from_parts(again, end, log.segments.position());
            prop_assert!(again.is_some());
        }
    }

    /// A run never takes what is to be kept, never more than there is, and ends between batches.
    #[test]
    fn a_run_ends_where_it_must(
        batches in prop::collection::vec((1u64..50, -5_000i64..60_000, 1u64..600 * KIB), 1..800),
        before in 900_000i64..20_000_000, keep in 0u64..100 * 1024 * KIB, limit in 0u64..20_000,
    ) {
        let mut log = Log::default();
        let mut now = 1_000_000;
        for &(count, pause, bytes) in &batches {
            now += pause;
            log.append(count, now, bytes);
        }
        let is_end = |offset| log.batches.iter().any(|batch| batch.end_offset == offset);
        if let Some(end) = log.end_of_older(before, limit) {
            prop_assert!(is_end(end) && end <= limit);
            let mut gone = log.batches.iter().take_while(|batch| batch.end_offset <= end);
            prop_assert!(gone.all(|batch| batch.max_timestamp < before));
        }
        let surplus = log.end_of_surplus(keep, limit);
        if let Some(end) = surplus {
            prop_assert!(is_end(end) && end <= limit);
            prop_assert!(log.bytes_between(end, log.end()) >= keep);
        }
        // What is left is at most a step more than asked for.
        if limit >= log.end() {
            let left = log.bytes_between(surplus.unwrap_or(0), log.end());
            prop_assert!(left <= keep + log.step(), "{left} left of {keep}");
        }
    }

    #[test]
    fn no_timestamps_make_too_many_segments(
        timestamps in prop::collection::vec(any::<i64>(), 600..1_500), bytes in 1u64..64 * KIB,
    ) {
        let mut log = Log::default();
        for timestamp in timestamps {
            log.append(1, timestamp, bytes);
            prop_assert!(log.segments.list().len() <= SEGMENTS_MAX);
        }
        log.check(0, log.end() / 2)?;
    }
}

#[test]
fn a_slow_log_is_divided_by_time() {
    let mut log = Log::default();
    for second in 0..100_000 {
        log.append(1, second * 1_000, 100);
    }
    let end = log.end();
    // All fits into one stride of bytes, and yet little more than a 128th of the day is kept too long.
    for before in (20_000_000..100_000_000).step_by(7_777_777) {
        let first_kept = log.end_of_older(before, end).expect("some are older");
        let kept_too_long = before - first_kept.cast_signed() * 1_000;
        assert!((0..=1_600_000).contains(&kept_too_long), "{kept_too_long}");
    }
    assert_eq!(log.end_of_older(i64::MAX, end), Some(end));
    assert_eq!(log.end_of_older(0, end), None);
}

#[test]
fn a_record_from_the_future_holds_back_what_is_behind_it() {
    let mut log = Log::default();
    for minute in 0..60 {
        let skewed = if minute == 30 { 1_000_000 } else { minute };
        log.append(1, skewed * 60_000, 300 * KIB);
    }
    let end = log.end();
    assert_eq!(log.end_of_older(59 * 60_000, end), Some(30));
    assert_eq!(log.end_of_surplus(300 * KIB, end), Some(59));
}

#[test]
fn a_checkpoint_may_be_older_than_a_trim() {
    let mut log = Log::default();
    for n in 0..10 {
        log.append(10, n, 400 * KIB);
    }
    assert_eq!(log.segments.trim(130), 4_000 * KIB);
    assert_eq!(
        (log.segments.size_bytes(), log.segments.list().len()),
        (0, 0)
    );
    // The batch that holds the start begins below it.
    log.segments.append(Appended {
        base_offset: 125,
        end_offset: 135,
        max_timestamp: 11,
        bytes: 400 * KIB,
    });
    assert_eq!(log.segments.size_bytes(), 200 * KIB);
}

#[test]
fn what_an_older_checkpoint_kept_gives_an_estimate() {
    let mut index = TimeIndex::default();
    let batch = 100 * KIB;
    for n in 0..20_000 {
        index.append(n, n.cast_signed() * 1_000, batch);
    }
    let segments = Segments::estimated(&index, 20_000);
    assert!(segments.list().len() <= SEGMENTS_MAX);
    let (told, truth) = (segments.size_bytes(), 20_000 * batch);
    assert!(told <= truth && told > truth / 2, "{told} of {truth}");
    let older = end_of_older(&segments, 10_000_000, 20_000).expect("half of it");
    assert!((9_000..=10_000).contains(&older), "{older}");
    assert_eq!(
        Segments::estimated(&TimeIndex::default(), 0),
        Segments::default()
    );
}

#[test]
fn unsound_parts_are_refused() {
    let segment = |base_offset, position| Segment {
        base_offset,
        position,
        max_timestamp: 0,
    };
    let legal = Segments::from_parts(vec![segment(0, 0), segment(5, 10)], 9, 20);
    assert_eq!(legal.expect("legal").size_bytes(), 20);
    assert_eq!(
        Segments::from_parts(vec![segment(5, 0), segment(5, 1)], 9, 20),
        None
    );
    assert_eq!(
        Segments::from_parts(vec![segment(0, 9), segment(5, 1)], 9, 20),
        None
    );
    assert_eq!(Segments::from_parts(vec![segment(9, 0)], 9, 20), None);
    assert_eq!(Segments::from_parts(vec![segment(0, 21)], 9, 20), None);
}

/// A log of 10 GiB is compacted in ranges of 32 MiB, far smaller than its segments, to a hundredth.
#[test]
fn many_ranges_shrink_to_what_is_left_of_them() {
    const MIB: u64 = 1 << 20;
    let mut segments = Segments::default();
    for n in 0..10_240 {
        segments.append(Appended {
            base_offset: n,
            end_offset: n + 1,
            max_timestamp: n as i64,
            bytes: MIB,
        });
    }
    for from in (0..10_240).step_by(32) {
        segments.shrink((from, from + 32), 32 * MIB * 99 / 100);
        assert!(segments.list().len() <= SEGMENTS_MAX);
    }
    let left = segments.size_bytes();
    let expected = 10_240 * MIB / 100;
    // Segments that were joined in between are interpolated.
    assert!(
        left.abs_diff(expected) < expected / 10,
        "{left} bytes are left"
    );
}

/// Large and small records alternate inside of segments, and most of what is left stays from cycle to cycle: the sum of what
/// each compaction has removed is right all the same.
#[test]
fn ranges_that_lose_more_than_their_share_keep_the_sum_right() {
    let mut segments = Segments::default();
    let mut sizes = Vec::new();
    for n in 0..4_096u64 {
        let bytes = if n / 16 % 2 == 0 { 8 << 20 } else { 64 << 10 };
        sizes.push(bytes);
        segments.append(Appended {
            base_offset: n,
            end_offset: n + 1,
            max_timestamp: n as i64,
            bytes,
        });
    }
    for cycle in 0..6 {
        for from in (0..4_096).step_by(16) {
            let range = &mut sizes[from..from + 16];
            let before: u64 = range.iter().sum();
            for (n, size) in range.iter_mut().enumerate() {
                *size = if n % 6 == cycle { *size / 10 } else { *size };
            }
            let removed = before - range.iter().sum::<u64>();
            segments.shrink((from as u64, from as u64 + 16), removed);
        }
        assert_eq!(segments.size_bytes(), sizes.iter().sum::<u64>());
    }
}

/// A record of 100 bytes per second.
fn one_record_per_second(seconds: u64) -> Segments {
    let mut segments = Segments::default();
    for n in 0..seconds {
        segments.append(Appended {
            base_offset: n,
            end_offset: n + 1,
            max_timestamp: n as i64 * 1_000,
            bytes: 100,
        });
    }
    segments
}

/// With one segment, and with several.
#[test]
fn the_parts_of_a_split_segment_began_when_it_did() {
    for seconds in [9, 40] {
        let mut segments = one_record_per_second(seconds);
        let beginnings = |segments: &Segments| -> Vec<_> {
            (0..seconds).map(|at| segments.begins_at(at)).collect()
        };
        let before = beginnings(&segments);
        segments.shrink((3, 7), 100);
        segments.shrink((seconds / 3, seconds * 2 / 3), 100);
        assert_eq!(beginnings(&segments), before);
    }
}

proptest! {
    /// Whatever shrinks, sizes stay consistent, and what lies outside of the range keeps its bytes.
    #[test]
    fn shrinking_takes_bytes_from_its_range_only(
        sizes in prop::collection::vec(1u64..3_000_000, 1..60), from in 0u64..700, length in 1u64..700, permille in 0u64..=1_000,
    ) {
        let mut segments = Segments::default();
        for (n, &bytes) in (0u64..).zip(&sizes) {
            segments.append(Appended {
                base_offset: n * 10,
                end_offset: n * 10 + 10,
                max_timestamp: n as i64 * 20_000,
                bytes,
            });
        }
        let end = sizes.len() as u64 * 10;
        let (from, to) = (from.min(end - 1), (from + length).min(end));
        let before = segments.clone();
        let removed = before.bytes_between(from, to) * permille / 1_000;
        segments.shrink((from, to), removed);
        prop_assert_eq!(segments.size_bytes(), before.size_bytes() - removed);
        for (a, b) in [(0, from), (to, end)] {
            prop_assert_eq!(segments.bytes_between(a, b), before.bytes_between(a, b));
        }
        let list: Vec<Segment> = segments.list().iter().copied().collect();
        let again = Segments::from_parts(list, end, segments.position());
        prop_assert!(again.is_some(), "a checkpoint of it is sound");
    }
}
