//! The token bucket: bytes that may move now.

use std::time::Duration;

/// How much debt [`Bucket::charge`] makes at most: once what never waits has been above the rate
/// and is below it again, everybody else waits for so long and no longer.
const DEBT_MAX: Duration = Duration::from_secs(1);

/// Slices are worth so much time, so that what is urgent does not wait longer for a slice of
/// something else.
const SLICES_PER_SECOND: u64 = 200;

/// A flow's turn is worth so much time: most requests are granted within one, and flows that wait
/// for each other notice little.
const TURNS_PER_SECOND: u64 = 10;

/// The most that is granted in one go, however high the rate.
const PART_BYTES_MAX: u64 = 1024 * 1024;

const SECOND_NS: i128 = 1_000_000_000;

/// Bytes that gather with time. May go into debt: bytes are taken while it is not empty, whether or
/// not it holds that many, and those who come next wait the longer.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Bytes per second; none is without bound.
    rate: Option<u64>,
    /// What may be saved up, in time at the rate.
    burst: Duration,
    /// Bytes times nanoseconds per second, so that no fraction is lost.
    level: i128,
    filled_at: Duration,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: Option<u64>, burst: Duration, now: Duration) -> Self {
        let mut bucket = Self {
            rate: at_least_one(rate),
            burst,
            level: 0,
            filled_at: now,
        };
        bucket.level = bucket.capacity();
        bucket
    }

    /// Changes the rate. What was saved and what is owed is kept within the new bounds.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>, now: Duration) {
        let _lost = self.fill(now);
        self.rate = at_least_one(rate);
        self.level = if self.rate.is_none() {
            0
        } else {
            self.level.clamp(self.floor(), self.capacity())
        };
    }

    pub(crate) const fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Adds what has gathered since; returns the bytes of it that could not be saved up.
    pub(crate) fn fill(&mut self, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        if self.rate.is_none() {
            return 0;
        }
        let level = self.level.saturating_add(self.gathered_in(passed));
        self.level = level.min(self.capacity());
        u64::try_from((level - self.level) / SECOND_NS).unwrap_or(u64::MAX)
    }

    /// Whether bytes may be taken.
    pub(crate) const fn is_open(&self) -> bool {
        self.rate.is_none() || self.level > 0
    }

    /// Whether so many may be taken at once: it holds them, or they are no more than a slice.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        let held = self.level >= i128::from(bytes) * SECOND_NS;
        self.rate.is_none() || held || (self.is_open() && bytes <= self.slice())
    }

    /// Takes bytes, into debt without bound.
    pub(crate) fn take(&mut self, bytes: u64) {
        if self.rate.is_some() {
            self.level = self.level.saturating_sub(i128::from(bytes) * SECOND_NS);
        }
    }

    /// Takes bytes that move in any case, into bounded debt.
    pub(crate) fn charge(&mut self, bytes: u64) {
        let least = self.floor().min(self.level);
        self.take(bytes);
        self.level = self.level.max(least);
    }

    /// Puts bytes back that were taken and did not move.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        if self.rate.is_some() {
            let level = self.level.saturating_add(i128::from(bytes) * SECOND_NS);
            self.level = level.min(self.capacity());
        }
    }

    /// How long until bytes may be taken, if nobody takes any.
    pub(crate) fn wait(&self) -> Duration {
        let Some(rate) = self.rate.map(i128::from) else {
            return Duration::ZERO;
        };
        let missing = (1 - self.level).max(0);
        let wait_ns = (missing + rate - 1) / rate;
        Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }

    /// The most that is granted before it is looked again who is most urgent.
    pub(crate) fn slice(&self) -> u64 {
        self.part(SLICES_PER_SECOND)
    }

    /// The most that is granted to one flow before it is the next one's turn.
    pub(crate) fn turn(&self) -> u64 {
        self.part(TURNS_PER_SECOND)
    }

    fn part(&self, per_second: u64) -> u64 {
        let part = |rate: u64| (rate / per_second).clamp(1, PART_BYTES_MAX);
        self.rate.map_or(PART_BYTES_MAX, part)
    }

    fn capacity(&self) -> i128 {
        self.gathered_in(self.burst)
    }

    fn floor(&self) -> i128 {
        -self.gathered_in(DEBT_MAX)
    }

    fn gathered_in(&self, time: Duration) -> i128 {
        let time_ns = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
        self.rate
            .map_or(0, |rate| i128::from(rate).saturating_mul(time_ns))
    }
}

/// Nothing at all could not be waited for.
fn at_least_one(rate: Option<u64>) -> Option<u64> {
    rate.map(|rate| rate.max(1))
}
