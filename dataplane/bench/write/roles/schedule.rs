//! When records come due, and which of them leave together.
//!
//! A paced run hands out record n at n / rate, whether or not earlier ones have been answered, as
//! independent users would, and its latency counts from there. A request leaves, where one more
//! may be in flight, once its first record has waited for `linger` or a batch is full; it takes
//! all records that have come due, as the accumulator of Kafka's client does.

use std::time::Duration;

/// When records come due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// All at once.
    Unlimited,
    /// So many records per second.
    Rate(f64),
}

/// What a run sends.
#[derive(Debug)]
pub(super) struct Schedule {
    pace: Pace,
    linger: Duration,
    /// Records of a whole run.
    records: u64,
    /// Records of one full batch.
    batch_records: usize,
    /// A request has at most one batch for each partition.
    partitions: usize,
    /// Records that have left.
    taken: u64,
    /// Partition of the next batch.
    next_partition: usize,
}

/// What is to be done at some time.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Send this.
    Send(Batches),
    /// Nothing before then.
    Wait(Duration),
    /// All records have left.
    Done,
}

/// One request: for each partition from `first_partition` on, round robin, the number of records
/// of its batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batches {
    pub(super) first_partition: usize,
    pub(super) counts: Vec<usize>,
    /// Number of the first record.
    pub(super) first_record: u64,
}

impl Batches {
    pub(super) fn records(&self) -> u64 {
        self.counts.iter().map(|&count| count as u64).sum()
    }
}

impl Schedule {
    pub(super) fn new(
        pace: Pace,
        linger: Duration,
        records: u64,
        batch_records: usize,
        partitions: usize,
    ) -> Self {
        Self {
            pace,
            linger,
            records,
            batch_records,
            partitions,
            taken: 0,
            next_partition: 0,
        }
    }

    /// When record `n` comes due, from the start of the run; nothing where no record has a time
    /// of its own.
    pub(super) fn due(&self, n: u64) -> Option<Duration> {
        match self.pace {
            Pace::Unlimited => None,
            Pace::Rate(rate) => Some(Duration::from_secs_f64(n as f64 / rate)),
        }
    }

    /// Ends the run early: what has not left stays.
    pub(super) fn stop(&mut self) {
        self.records = self.taken;
    }

    /// What to do at `now`, from the start of the run, where a request may leave.
    pub(super) fn turn(&mut self, now: Duration) -> Turn {
        if self.taken == self.records {
            return Turn::Done;
        }
        let waiting = self.arrived(now) - self.taken;
        if let Some(first_due) = self.due(self.taken) {
            let full = waiting >= self.batch_records as u64;
            let filled_at = self.due(self.taken + self.batch_records as u64 - 1);
            let leaves_at = (first_due + self.linger).min(filled_at.unwrap_or(Duration::MAX));
            if !full && now < leaves_at {
                return Turn::Wait(leaves_at);
            }
        }
        Turn::Send(self.take(waiting))
    }

    /// How many records have come due until `now`; the first comes due at 0.
    fn arrived(&self, now: Duration) -> u64 {
        match self.pace {
            Pace::Unlimited => self.records,
            Pace::Rate(rate) => {
                // Rounding must agree with `due`, or a record would be waited for for ever.
                let guess = (now.as_secs_f64() * rate) as u64;
                let arrived = (guess.saturating_sub(1)..=guess + 1)
                    .rev()
                    .find(|&n| self.due(n).is_some_and(|due| due <= now));
                arrived.map_or(0, |n| n + 1).min(self.records)
            }
        }
    }

    fn take(&mut self, waiting: u64) -> Batches {
        let first_record = self.taken;
        let first_partition = self.next_partition;
        let mut counts = Vec::with_capacity(self.partitions);
        let mut left = waiting;
        while left > 0 && counts.len() < self.partitions {
            let count = left.min(self.batch_records as u64);
            counts.push(count as usize);
            left -= count;
        }
        self.taken += waiting - left;
        self.next_partition = (first_partition + counts.len()) % self.partitions;
        Batches {
            first_partition,
            counts,
            first_record,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs a schedule that is asked whenever it says so, but never within `busy` after a request.
    fn play(mut schedule: Schedule, busy: Duration) -> Vec<(Duration, Batches)> {
        let (mut now, mut sent) = (Duration::ZERO, Vec::new());
        loop {
            match schedule.turn(now) {
                Turn::Send(batches) => {
                    sent.push((now, batches));
                    now += busy;
                }
                Turn::Wait(until) => {
                    assert!(until > now, "a wait goes forward");
                    now = until;
                }
                Turn::Done => return sent,
            }
        }
    }

    #[test]
    fn an_unlimited_run_has_full_batches_for_all_partitions() {
        let sent = play(
            Schedule::new(Pace::Unlimited, MS, 100, 15, 2),
            Duration::ZERO,
        );
        let counts: Vec<_> = sent.iter().map(|(_, b)| b.counts.clone()).collect();
        assert_eq!(counts, [vec![15, 15], vec![15, 15], vec![15, 15], vec![10]]);
        assert_eq!(sent[3].1.first_record, 90);
    }

    #[test]
    fn a_paced_run_sends_a_record_one_linger_after_it_came_due() {
        let sent = play(
            Schedule::new(Pace::Rate(800.0), MS, 9, 15, 1),
            Duration::ZERO,
        );
        assert_eq!(sent.len(), 9);
        for (n, (at, batches)) in sent.iter().enumerate() {
            assert_eq!(batches.counts, [1]);
            assert_eq!(*at, Duration::from_micros(1_250 * n as u64) + MS);
        }
    }

    #[test]
    fn a_full_batch_leaves_at_once() {
        let sent = play(
            Schedule::new(Pace::Rate(10_000.0), MS, 20, 4, 1),
            Duration::ZERO,
        );
        let first: Vec<_> = sent
            .iter()
            .take(2)
            .map(|(at, b)| (*at, b.counts.clone()))
            .collect();
        let us = Duration::from_micros;
        assert_eq!(first, [(us(300), vec![4]), (us(700), vec![4])]);
    }

    #[test]
    fn who_falls_behind_sends_larger_requests_and_spreads_them_over_partitions() {
        let sent = play(Schedule::new(Pace::Rate(1_000.0), MS, 40, 4, 2), 10 * MS);
        let counts: Vec<_> = sent.iter().map(|(_, b)| b.counts.clone()).collect();
        assert_eq!(counts[0], [2]);
        assert_eq!(counts[1], [4, 4]);
        assert_eq!(sent[1].1.first_partition, 1);
        let total: u64 = sent.iter().map(|(_, b)| b.records()).sum();
        assert_eq!(total, 40);
    }

    #[test]
    fn no_rate_loses_a_record_to_rounding() {
        for rate in [3.0, 7.7, 333.333, 48_000.0, 52_428.8, 1e6 / 3.0] {
            let sent = play(
                Schedule::new(Pace::Rate(rate), MS, 2_000, 16, 3),
                Duration::ZERO,
            );
            let total: u64 = sent.iter().map(|(_, b)| b.records()).sum();
            assert_eq!(total, 2_000, "at {rate}/s");
        }
    }
}
