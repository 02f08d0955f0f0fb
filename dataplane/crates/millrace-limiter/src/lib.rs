//! Network priority limiter: token buckets and priority tiers. Knows nothing of what it limits.
//!
//! A [`Limiter`] stands before one direction of the network. Whoever is about to move bytes
//! acquires them first, naming a [`Tier`] and, where several compete within one, a flow:
//!
//! - The most urgent tier never waits. What it moves is charged, as a debt where there is nothing
//!   left, and the others wait until that is paid.
//! - Of the other tiers the most urgent goes first. Requests are granted in small slices, so that
//!   an urgent one waits for a slice of a less urgent one at most, however large that one is.
//! - Within a tier flows take turns (deficit round robin), and a flow's own requests are granted
//!   in order.
//! - Two tiers get one in twenty bytes each however urgent the others are: reads of old data that
//!   somebody waits for, because they hold memory and a client meanwhile and would otherwise wait for
//!   ever where what is more urgent takes all there is; and compaction, because without it every other
//!   read gets dearer.
//!
//! Each waiter is woken once, when all of its bytes are granted. One task sleeps until the next
//! grant is due, however many wait; while nobody does, there is neither a task nor a timer.
//!
//! A [`Network`] is both directions of a machine. A [`Pacer`] is something simpler: it spreads what
//! has one use over time.

mod bucket;
mod driver;
mod limiter;
mod measures;
mod network;
mod pacer;
mod queue;
mod tier;

pub use limiter::Limiter;
pub use measures::{LimiterStats, TierStats};
pub use network::{LimiterMode, Network, NetworkConfig, UnknownLimiterMode};
pub use pacer::Pacer;
pub use tier::Tier;
