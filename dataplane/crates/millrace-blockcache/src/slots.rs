//! The limit of concurrent requests.
//!
//! A distant store answers each request late, however few there are, so it needs many at a time. A
//! saturated store answers later the more there are: requests wait there instead of here, where
//! waiting requests are merged, and they compete for CPU. Latencies tell the two apart: compared
//! with the fastest responses, those of a distant store take a few times as long, those of a
//! saturated one many times.

use std::time::Duration;

/// At 100 ms for 1 MiB that is 640 MB/s, and as much more as blocks lie side by side.
pub(crate) const SLOTS_MAX: u32 = 64;

/// Enough to keep any store busy that is not far away.
pub(crate) const SLOTS_MIN: u32 = 16;

/// Answers that take so many times as long as the fastest mean that the store is busy.
const BUSY: u64 = 5;

/// And below so many times it is not.
const AT_EASE: u64 = 3;

/// One slot more or less for so many answers, so that the times can follow.
const ANSWERS_PER_STEP: u32 = 4;

/// A request costs time beside that for its bytes: as much as that for so many.
const FIXED_BYTES: u64 = 1 << 20;

/// A new time has this part in the average.
const AVERAGED: u64 = 32;

/// By this part of it, the fastest time is forgotten with each answer: a store may become slower for
/// good.
const FORGOTTEN: u64 = 1 << 16;

/// No time counts for more than so many times the fastest: one that is stuck says nothing of others.
const OUTLIER: u64 = 16;

/// The number of slots.
#[derive(Debug)]
pub(crate) struct Slots {
    number: u32,
    /// Answers since the number last changed.
    answers: u32,
    /// Nanoseconds for a mebibyte, request included: of the fastest answer, and of all.
    fastest: u64,
    average: u64,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            number: SLOTS_MAX,
            answers: 0,
            fastest: u64::MAX,
            average: 0,
        }
    }
}

impl Slots {
    pub(crate) fn number(&self) -> usize {
        self.number as usize
    }

    /// So many bytes took so long.
    pub(crate) fn learn(&mut self, bytes: u64, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let each = took_ns.saturating_mul(1024) / ((bytes + FIXED_BYTES) >> 10);
        self.fastest = self
            .fastest
            .saturating_add(self.fastest / FORGOTTEN)
            .min(each.max(1));
        let each = each.min(self.fastest.saturating_mul(OUTLIER));
        if self.average == 0 {
            self.average = each;
        }
        self.average = self.average - self.average / AVERAGED + each / AVERAGED;
        self.answers += 1;
        if self.answers < ANSWERS_PER_STEP {
            return;
        }
        self.answers = 0;
        if self.average > self.fastest.saturating_mul(BUSY) {
            self.number = (self.number - 1).max(SLOTS_MIN);
        } else if self.average < self.fastest.saturating_mul(AT_EASE) {
            self.number = (self.number + 1).min(SLOTS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answers: u32, took_ms: impl Fn(u32, u64) -> u64) -> u32 {
        let mut slots = Slots::default();
        for nth in 0..answers {
            let took_ms = took_ms(nth, u64::from(slots.number));
            slots.learn(1 << 20, Duration::from_millis(took_ms));
        }
        slots.number
    }

    #[test]
    fn a_distant_store_is_asked_for_much_at_once() {
        // Between 30 and 130 ms, and sometimes 5 s.
        let took_ms = |nth: u32, _| {
            if nth % 200 == 199 {
                5_000
            } else {
                30 + u64::from(nth * 37 % 100)
            }
        };
        assert_eq!(after(20_000, took_ms), SLOTS_MAX);
    }

    #[test]
    fn a_busy_store_is_asked_for_little_at_once() {
        // The first finds it idle; then each waits for all others.
        let took_ms = |nth, slots: u64| if nth < 2 { 2 } else { 1 + slots };
        assert_eq!(after(20_000, took_ms), SLOTS_MIN);
        // Once it is far away instead, there are more again.
        let moved = |nth, slots: u64| if nth < 2_000 { took_ms(nth, slots) } else { 5 };
        assert_eq!(after(4_000, moved), SLOTS_MAX);
    }
}
