//! Network priority limiter: token buckets and priority tiers. Knows nothing of what it limits.
//!
//! A [`Limiter`] stands before one direction of the network. Whoever is about to move bytes
//! acquires them first, naming a [`Tier`]; while bandwidth is short, the most urgent tier goes
//! first, and within a tier whoever came first.

mod bucket;
mod limiter;
mod queue;

pub use limiter::Limiter;
pub use queue::Tier;
