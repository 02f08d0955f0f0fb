//! How use is measured: rates over sampled windows, and token buckets, as Kafka's client quotas do.
//!
//! Times are those of the caller's clock.

use std::time::Duration;

/// How rates are sampled: `quota.window.num` samples of `quota.window.size.seconds` each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Samples that are kept, at least one.
    pub samples: u32,
    /// What each covers, more than nothing.
    pub length: Duration,
}

impl Default for Windows {
    /// Kafka's: eleven samples of a second.
    fn default() -> Self {
        Self {
            samples: 11,
            length: Duration::from_secs(1),
        }
    }
}

impl Windows {
    /// How much of a limit may be used at once: what Kafka takes a rate over at least.
    #[must_use]
    pub fn span(self) -> Duration {
        self.length * self.samples.saturating_sub(1).max(1)
    }

    /// The same where Kafka counts tokens, not rates.
    #[must_use]
    pub fn burst(self) -> Duration {
        self.length * self.samples
    }

    fn number(self, now: Duration) -> u64 {
        let number = now.as_nanos() / self.length.as_nanos().max(1);
        u64::try_from(number).unwrap_or(u64::MAX)
    }
}

/// What is measured over time.
pub trait Measure {
    /// Nothing has been used before `now`.
    fn begin(windows: Windows, now: Duration) -> Self;

    /// Whether this knows no more at `now` than a new one would, where `limit` holds.
    fn is_idle(&self, windows: Windows, now: Duration) -> bool;
}

/// How much was used lately, and how much of that is not paid for yet.
///
/// A wait is as long as Kafka's at the first use that is too much: (rate − limit) / limit over the windows
/// (KIP-13). Kafka then goes on measuring the same windows, so that it lets a client that waited wait again, and
/// grants the whole span again once the windows have passed. Here who waited has paid, and over time nobody
/// uses more than the limit.
#[derive(Debug, Clone)]
pub struct Rate {
    /// What was used in each window, by its number modulo their count.
    sums: Box<[f64]>,
    /// The window of the last use.
    newest: u64,
    unpaid: TokenBucket,
}

impl Measure for Rate {
    fn begin(windows: Windows, now: Duration) -> Self {
        Self {
            sums: vec![0.0; windows.samples.max(1) as usize].into(),
            newest: windows.number(now),
            unpaid: TokenBucket::begin(windows, now),
        }
    }

    fn is_idle(&self, windows: Windows, now: Duration) -> bool {
        let age = windows.number(now).saturating_sub(self.newest);
        age >= self.sums.len() as u64 && self.unpaid.is_idle(windows, now)
    }
}

impl Rate {
    /// So much is used; less than zero takes back what was recorded.
    pub fn record(&mut self, windows: Windows, limit: f64, value: f64, now: Duration) {
        self.advance(windows, now);
        let place = self.place(self.newest);
        if let Some(sum) = self.sums.get_mut(place) {
            *sum += value;
        }
        self.unpaid.take(limit, value, now);
    }

    /// Use per second, over all windows.
    pub fn per_second(&mut self, windows: Windows, now: Duration) -> f64 {
        self.advance(windows, now);
        let total: f64 = self.sums.iter().sum();
        total / windows.span().as_secs_f64()
    }

    /// How long nothing more may be used; nothing where no more than the limit is used.
    pub fn wait(&mut self, windows: Windows, limit: f64, now: Duration) -> Option<Duration> {
        self.unpaid.wait(windows.span(), limit, now)
    }

    /// Forgets what is older than all windows.
    fn advance(&mut self, windows: Windows, now: Duration) {
        let (window, count) = (windows.number(now), self.sums.len() as u64);
        if window <= self.newest {
            return;
        }
        let first = (self.newest + 1).max(window.saturating_sub(count - 1));
        for number in first..=window {
            let place = self.place(number);
            if let Some(sum) = self.sums.get_mut(place) {
                *sum = 0.0;
            }
        }
        self.newest = window;
    }

    fn place(&self, window: u64) -> usize {
        let place = window % self.sums.len().max(1) as u64;
        usize::try_from(place).unwrap_or(0)
    }
}

/// Tokens that come at a rate and are taken for what is done (KIP-599). They are counted as what is
/// missing from a full bucket, so that a change of the rate holds at once.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    missing: f64,
    at: Duration,
    /// When it is full again, by the rate that held at the last use.
    full_at: Duration,
}

impl Measure for TokenBucket {
    fn begin(_: Windows, now: Duration) -> Self {
        Self {
            missing: 0.0,
            at: now,
            full_at: now,
        }
    }

    fn is_idle(&self, _: Windows, now: Duration) -> bool {
        self.full_at <= now
    }
}

impl TokenBucket {
    /// Takes tokens, whether they are there or not.
    pub fn take(&mut self, rate: f64, tokens: f64, now: Duration) {
        self.fill(rate, now);
        self.missing = (self.missing + tokens).max(0.0);
        let full_in = Duration::try_from_secs_f64(self.missing / rate).unwrap_or(Duration::MAX);
        self.full_at = now.saturating_add(full_in);
    }

    /// How long it takes until nothing is owed where the bucket holds the tokens of so much time; nothing where
    /// nothing is owed.
    pub fn wait(&mut self, holds: Duration, rate: f64, now: Duration) -> Option<Duration> {
        self.fill(rate, now);
        let wait_s = self.missing / rate - holds.as_secs_f64();
        if wait_s <= 0.0 {
            return None;
        }
        let wait = Duration::try_from_secs_f64(wait_s).unwrap_or(Duration::MAX);
        (!wait.is_zero()).then_some(wait)
    }

    /// Tokens taken and not replaced yet.
    pub fn missing(&mut self, rate: f64, now: Duration) -> f64 {
        self.fill(rate, now);
        self.missing
    }

    fn fill(&mut self, rate: f64, now: Duration) {
        let since = now.saturating_sub(self.at);
        self.missing = (self.missing - rate * since.as_secs_f64()).max(0.0);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOWS: Windows = Windows {
        samples: 11,
        length: Duration::from_secs(1),
    };
    const BURST: Duration = Duration::from_secs(11);

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn about(actual: Option<Duration>, expected_s: f64) -> bool {
        actual.is_some_and(|wait| (wait.as_secs_f64() - expected_s).abs() < 1e-6)
    }

    #[test]
    fn ten_seconds_of_a_limit_may_be_used_at_once() {
        let mut rate = Rate::begin(WINDOWS, at(100.0));
        rate.record(WINDOWS, 1_000.0, 10_000.0, at(100.0));
        assert_eq!(rate.wait(WINDOWS, 1_000.0, at(100.0)), None);
        rate.record(WINDOWS, 1_000.0, 2_000.0, at(100.0));
        // 1,200 per second over 10 s, and 20 % too much of those 10 s.
        assert!(about(rate.wait(WINDOWS, 1_000.0, at(100.0)), 2.0));
        assert!(
            about(rate.wait(WINDOWS, 500.0, at(100.0)), 14.0),
            "another limit"
        );
        assert_eq!(rate.wait(WINDOWS, 1_000.0, at(102.0)), None);
    }

    #[test]
    fn what_is_older_than_the_windows_is_no_longer_shown() {
        let mut rate = Rate::begin(WINDOWS, at(0.0));
        rate.record(WINDOWS, 100.0, 110.0, at(0.5));
        assert!((rate.per_second(WINDOWS, at(10.5)) - 11.0).abs() < 1e-9);
        assert!(rate.per_second(WINDOWS, at(11.0)).abs() < 1e-9);
        rate.record(WINDOWS, 100.0, 5.0, at(500.0));
        assert!((rate.per_second(WINDOWS, at(500.0)) - 0.5).abs() < 1e-9);
        assert!(!rate.is_idle(WINDOWS, at(510.9)) && rate.is_idle(WINDOWS, at(511.0)));
        rate.record(WINDOWS, 100.0, 5_000.0, at(600.0));
        assert!(!rate.is_idle(WINDOWS, at(649.0)), "it is not paid for");
        assert!(rate.is_idle(WINDOWS, at(650.1)));
    }

    #[test]
    fn what_is_taken_back_was_not_used() {
        let mut rate = Rate::begin(WINDOWS, at(0.0));
        rate.record(WINDOWS, 1.0, 11.0, at(0.0));
        assert!(rate.wait(WINDOWS, 1.0, at(0.0)).is_some());
        rate.record(WINDOWS, 1.0, -1.0, at(0.0));
        assert_eq!(rate.wait(WINDOWS, 1.0, at(0.0)), None);
        assert!((rate.per_second(WINDOWS, at(0.0)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn over_time_a_client_that_waits_uses_its_limit() {
        for samples in [1, 2, 11] {
            let windows = Windows { samples, ..WINDOWS };
            let mut rate = Rate::begin(windows, at(5.0));
            let (mut now, mut used) = (at(5.0), 0.0);
            while now < at(205.0) {
                rate.record(windows, 1_000.0, 700.0, now);
                used += 700.0;
                now += rate.wait(windows, 1_000.0, now).unwrap_or(at(0.01));
            }
            let expected = 200_000.0 + 1_000.0 * windows.span().as_secs_f64();
            assert!(
                (expected - 1_400.0..=expected + 1_400.0).contains(&used),
                "{used}"
            );
        }
    }

    #[test]
    fn a_bucket_owes_what_was_taken_beyond_what_it_holds() {
        let mut bucket = TokenBucket::begin(WINDOWS, at(50.0));
        bucket.take(2.0, 22.0, at(50.0));
        assert_eq!(bucket.wait(BURST, 2.0, at(50.0)), None);
        bucket.take(2.0, 10.0, at(50.0));
        assert!(about(bucket.wait(BURST, 2.0, at(50.0)), 5.0));
        assert!(about(bucket.wait(BURST, 2.0, at(53.0)), 2.0));
        assert_eq!(bucket.wait(BURST, 2.0, at(55.0)), None);
        assert!(!bucket.is_idle(WINDOWS, at(65.0)) && bucket.is_idle(WINDOWS, at(66.0)));
        assert!(bucket.missing(2.0, at(66.0)).abs() < 1e-9);
    }

    #[test]
    fn a_bucket_follows_a_change_of_its_rate() {
        let mut bucket = TokenBucket::begin(WINDOWS, at(0.0));
        bucket.take(1.0, 31.0, at(0.0));
        assert!(about(bucket.wait(BURST, 1.0, at(0.0)), 20.0));
        assert!(about(bucket.wait(BURST, 2.0, at(0.0)), 4.5));
        assert_eq!(bucket.wait(BURST, 100.0, at(0.0)), None);
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let mut rate = Rate::begin(WINDOWS, Duration::ZERO);
        rate.record(WINDOWS, 1e-9, f64::MAX, Duration::MAX);
        assert_eq!(rate.wait(WINDOWS, 1e-9, Duration::MAX), Some(Duration::MAX));
        let mut bucket = TokenBucket::begin(WINDOWS, Duration::ZERO);
        bucket.take(1e-300, f64::MAX, at(1.0));
        assert_eq!(bucket.wait(BURST, 1e-300, at(1.0)), Some(Duration::MAX));
    }
}
