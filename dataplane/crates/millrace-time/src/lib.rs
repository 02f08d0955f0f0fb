//! Clock and randomness seams, moments as RFC 3339, and the pure, tick-driven hierarchical timing wheel.
//!
//! Only this crate reads the machine's clock or its entropy. Everything else receives a [`Clock`]
//! and a [`Random`], so that a test can pause time and a seed can replay a run.

mod clock;
mod random;
pub mod rfc3339;
mod wheel;

pub use clock::{Clock, ManualClock, SharedClock, SystemClock};
pub use random::{Random, SeededRandom, SharedRandom, SystemRandom};
pub use wheel::{TimerId, TimingWheel};
