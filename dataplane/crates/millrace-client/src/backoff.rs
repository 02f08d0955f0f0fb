//! Pauses between attempts: exponential, with jitter, so that clients do not come back together.

use std::time::Duration;

use millrace_time::Random;

/// The part by which a pause varies in either direction, in percent: Kafka's own (KIP-580).
const JITTER_PERCENT: u32 = 20;
/// Doublings after which any pause has reached any bound.
const DOUBLINGS_MAX: u32 = 20;

/// How pauses grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    /// The first pause.
    pub(crate) first: Duration,
    /// The longest pause, before jitter.
    pub(crate) max: Duration,
}

impl Backoff {
    /// The pause after so many failures in a row, at least one.
    pub(crate) fn after(&self, failures: u32, random: &dyn Random) -> Duration {
        let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
        let pause = self
            .first
            .saturating_mul(1 << doublings)
            .min(self.max.max(self.first));
        let spread = pause * JITTER_PERCENT / 100;
        let width = u64::try_from(spread.as_micros() * 2).unwrap_or(u64::MAX);
        pause - spread + Duration::from_micros(random.below(width.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::SeededRandom;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_double_up_to_their_bound_and_vary_by_a_fifth(seed: u64, failures in 1_u32..100) {
            let backoff = Backoff {
                first: Duration::from_millis(50),
                max: Duration::from_secs(1),
            };
            let expected = Duration::from_millis(50 << (failures - 1).min(10))
                .min(Duration::from_secs(1));
            let pause = backoff.after(failures, &*SeededRandom::shared(seed));
            prop_assert!(pause >= expected * 8 / 10, "{pause:?}");
            prop_assert!(pause <= expected * 12 / 10, "{pause:?}");
        }
    }
}
