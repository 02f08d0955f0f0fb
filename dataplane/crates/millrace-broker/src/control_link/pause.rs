//! How long the broker waits before it dials again.

use std::time::Duration;

use millrace_time::Random;

/// The longest pause after the first failure.
const FIRST_MAX: Duration = Duration::from_millis(100);
/// The longest pause after a failure that may soon be over: a gateway that restarts has its brokers back within
/// five seconds.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The longest pause after the gateway rejected the credential, which only an operator can change.
const REJECTED_MAX: Duration = Duration::from_secs(30);

/// A random pause ("full jitter") below a bound that doubles with each failure, so that the brokers of a gateway
/// that was away do not return all at once.
pub(super) fn pause(failures: u32, rejected: bool, random: &dyn Random) -> Duration {
    let max = if rejected { REJECTED_MAX } else { PAUSE_MAX };
    let doubled = FIRST_MAX.saturating_mul(2_u32.saturating_pow(failures));
    let micros = u64::try_from(doubled.min(max).as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(random.below(micros))
}

#[cfg(test)]
mod tests {
    use millrace_time::SeededRandom;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_are_bounded_and_grow_to_their_bound(
            failures in prop_oneof![0..20_u32, any::<u32>()],
            rejected: bool,
            seed: u64,
        ) {
            let random = SeededRandom::shared(seed);
            let max = if rejected { REJECTED_MAX } else { PAUSE_MAX };
            let pauses: Vec<_> = (0..200).map(|_| pause(failures, rejected, &*random)).collect();
            prop_assert!(pauses.iter().all(|pause| *pause < max));
            let bound = FIRST_MAX.saturating_mul(1 << failures.min(20)).min(max);
            prop_assert!(pauses.iter().all(|pause| *pause < bound));
            // One of 200 is in the upper half of what it may be, and one in the lower.
            prop_assert!(pauses.iter().any(|pause| *pause > bound / 2));
            prop_assert!(pauses.iter().any(|pause| *pause < bound / 2));
        }
    }
}
