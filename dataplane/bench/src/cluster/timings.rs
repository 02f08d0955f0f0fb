//! How long partitions went without an acknowledgement.

use std::time::Duration;

use serde_json::{Value, json};

use super::history::Ack;

/// By partition: the time from `since` to the first acknowledgement of a record that was handed over after it; none where there
/// is no such one. A record handed over before may have been acknowledged by a broker that was gone by then.
#[must_use]
pub fn first_acks(acks: &[Ack], partitions: i32, since: Duration) -> Vec<Option<Duration>> {
    let mut first = vec![None; usize::try_from(partitions).unwrap_or(0)];
    for ack in acks.iter().filter(|ack| ack.sent_at >= since) {
        let place = usize::try_from(ack.place.partition).ok();
        if let Some(first) = place.and_then(|at| first.get_mut(at)) {
            let took = ack.acked_at.saturating_sub(since);
            *first = Some(first.map_or(took, |first: Duration| first.min(took)));
        }
    }
    first
}

/// By partition: the longest time without an acknowledgement between two moments.
#[must_use]
pub fn longest_gaps(
    acks: &[Ack],
    partitions: i32,
    (from, to): (Duration, Duration),
) -> Vec<Duration> {
    let count = usize::try_from(partitions).unwrap_or(0);
    let mut at: Vec<Vec<Duration>> = vec![vec![from]; count];
    for ack in acks {
        let place = usize::try_from(ack.place.partition).ok();
        if let Some(times) = place.and_then(|place| at.get_mut(place)) {
            times.push(ack.acked_at.clamp(from, to));
        }
    }
    let longest = |mut times: Vec<Duration>| {
        times.push(to);
        times.sort_unstable();
        let gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        gaps.max().unwrap_or_default()
    };
    at.into_iter().map(longest).collect()
}

/// Median, 99th percentile and maximum over partitions, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Percentiles {
    /// Nothing where there are no times.
    #[must_use]
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Option<Self> {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100).max(1);
            let time = times.get(rank - 1)?;
            Some((time.as_secs_f64() * 1e4).round() / 10.0)
        };
        Some(Self {
            p50_ms: at(50)?,
            p99_ms: at(99)?,
            max_ms: at(100)?,
        })
    }

    /// An object of the three.
    #[must_use]
    pub fn json(self) -> Value {
        json!({ "p50_ms": self.p50_ms, "p99_ms": self.p99_ms, "max_ms": self.max_ms })
    }
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            p50_ms,
            p99_ms,
            max_ms,
        } = self;
        write!(
            f,
            "p50 {p50_ms:.0} ms, p99 {p99_ms:.0} ms, max {max_ms:.0} ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::Place;

    fn ack(partition: i32, sent_ms: u64, acked_ms: u64) -> Ack {
        Ack {
            place: Place {
                producer: 0,
                partition,
                sequence: 0,
            },
            offset: None,
            sent_at: Duration::from_millis(sent_ms),
            acked_at: Duration::from_millis(acked_ms),
        }
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_was_on_its_way_before_does_not_count() {
        let acks = [ack(0, 90, 105), ack(0, 100, 130), ack(0, 110, 120)];
        assert_eq!(first_acks(&acks, 2, ms(100)), [Some(ms(20)), None]);
    }

    #[test]
    fn a_gap_begins_and_ends_with_what_is_looked_at() {
        let acks = [
            ack(0, 0, 10),
            ack(0, 0, 140),
            ack(0, 0, 160),
            ack(1, 0, 300),
        ];
        let gaps = longest_gaps(&acks, 2, (ms(100), ms(200)));
        assert_eq!(gaps, [ms(40), ms(100)]);
    }

    #[test]
    fn percentiles_of_partitions() {
        let found = Percentiles::of((1..=200).map(ms)).expect("some");
        assert_eq!(
            (found.p50_ms, found.p99_ms, found.max_ms),
            (100.0, 198.0, 200.0)
        );
        assert_eq!(Percentiles::of([]), None);
    }
}
