//! Network priority limiter: token buckets and priority tiers. Knows nothing of what it limits.
//!
//! A [`Limiter`] guards one direction of the network. Callers acquire bytes before they move them,
//! with a [`Tier`] and, if several compete within it, a flow:
//!
//! - The most urgent tier never waits. Its bytes are charged, as a debt if no tokens are left, and
//!   the other tiers wait until the debt is paid.
//! - Of the other tiers the most urgent goes first. Requests are granted in small slices, so that
//!   an urgent one waits for at most one slice of a less urgent one, however large that one is.
//! - The tiers below reads from memory leave one in twenty bytes free and save up hardly anything, so
//!   that what is more urgent finds no queue in the network itself.
//! - Within a tier flows take turns, and a flow's own requests are granted in order. A turn ends with a request; bytes beyond the
//!   turn are deducted from the flow's later ones (surplus round robin).
//! - Two tiers always get one in twenty bytes each: catch-up reads that a client waits for, because
//!   they hold memory and a client meanwhile and could otherwise wait forever while more urgent
//!   tiers take everything; and compaction, because without it every other read becomes more
//!   expensive.
//! - Of reads ([`Limiter::acquire_in_flight`]) no more are in flight than the rate needs, so that what
//!   is urgent shares the network with few of them.
//!
//! Each waiter is woken once, when all of its bytes are granted. One task sleeps until the next
//! grant is due, or some milliseconds while too much is in flight, however many wait; without
//! waiters there is neither a task nor a timer.
//!
//! A [`Network`] is both directions of a machine. A [`Pacer`] is simpler: it paces one kind of
//! traffic, without tiers.

mod bandwidth;
mod bucket;
mod driver;
mod limiter;
mod metrics;
mod network;
mod pacer;
mod queue;
mod tier;
mod window;

pub use self::metrics::{LimiterMetrics, TierMetrics};
pub use limiter::{InFlight, Limiter};
pub use network::{LimiterMode, Network, NetworkConfig, UnknownLimiterMode};
pub use pacer::Pacer;
pub use tier::Tier;
