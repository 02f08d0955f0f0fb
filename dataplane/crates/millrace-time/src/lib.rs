//! Clock and randomness seams, and the pure, tick-driven hierarchical timing wheel.
//!
//! Only this crate reads the machine's clock or its entropy; everything else is handed a [`Clock`]
//! and a [`Random`], so that a test can hold time still and a seed can replay a run.

mod clock;
mod random;
mod wheel;

pub use clock::{Clock, ManualClock, SharedClock, SystemClock};
pub use random::{Random, SeededRandom, SharedRandom, SystemRandom};
pub use wheel::{TimerId, TimingWheel};
