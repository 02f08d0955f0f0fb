//! When records are due.

/// When the records of one producer are due. Times are microseconds since the start of the run. A
/// record is due whether or not earlier ones were sent, as with independent users: a producer that
/// falls behind sends late, and the delay counts (no coordinated omission).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Records per second; nothing where there is no limit.
    rate: Option<f64>,
    /// Producers start at different times within one interval, so that their records alternate.
    first_us: f64,
}

impl Pace {
    /// The pace of producer number `producer` of so many.
    pub(crate) fn new(rate: Option<f64>, producer: usize, producers: usize) -> Self {
        let share = producer as f64 / producers.max(1) as f64;
        let first_us = rate.map_or(0.0, |rate| 1e6 / rate * share);
        Self { rate, first_us }
    }

    /// When record `number` is due; nothing where it is due at once.
    pub(crate) fn due_us(&self, number: u64) -> Option<u64> {
        let rate = self.rate?;
        Some((self.first_us + number as f64 * 1e6 / rate) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_at_equal_distances() {
        let pace = Pace::new(Some(1_000.0), 0, 2);
        assert_eq!(pace.due_us(0), Some(0));
        assert_eq!(pace.due_us(3), Some(3_000));
        // Far into a long run there is no drift.
        assert_eq!(pace.due_us(86_400_000), Some(86_400_000_000));
        assert_eq!(Pace::new(Some(1_000.0), 1, 2).due_us(1), Some(1_500));
        assert_eq!(Pace::new(None, 1, 2).due_us(9), None);
    }
}
