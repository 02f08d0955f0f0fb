//! The randomness seam.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

/// Gives out random numbers. Not for secrets.
pub trait Random: Debug + Send + Sync {
    /// A number that is uniform over all of `u64`.
    fn next_u64(&self) -> u64;

    /// A number that is uniform in `0..bound`; 0 where `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Sixteen random bytes, for an id.
    fn next_bytes16(&self) -> [u8; 16] {
        ((u128::from(self.next_u64()) << 64) | u128::from(self.next_u64())).to_be_bytes()
    }
}

/// A source of randomness that parts of a broker share.
pub type SharedRandom = Arc<dyn Random>;

/// Randomness seeded by the operating system.
#[derive(Debug)]
pub struct SystemRandom;

impl SystemRandom {
    /// The machine's randomness.
    #[must_use]
    pub fn shared() -> SharedRandom {
        Arc::new(Self)
    }
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// Randomness that a seed replays.
#[derive(Debug)]
pub struct SeededRandom(Mutex<fastrand::Rng>);

impl SeededRandom {
    /// The sequence that belongs to `seed`.
    #[must_use]
    pub fn shared(seed: u64) -> SharedRandom {
        Arc::new(Self(Mutex::new(fastrand::Rng::with_seed(seed))))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .u64(..)
    }
}
