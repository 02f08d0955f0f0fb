//! Delayed operations: watch keys and deadlines on the timing wheel. Knows nothing of Kafka.
//!
//! An operation that cannot be completed yet is kept here until either something happens to one of
//! the keys that it watches and lets it complete, or its time is up. [`Purgatory`] holds
//! operations of any kind; its [`Purgatory::wait`] makes one of a condition, for code that simply
//! wants to `await` it. [`Timers`] are plain timeouts, driven by the same task.
//!
//! One task per [`Timers`] drives all wheels. It sleeps until the next non-empty bucket, and for
//! ever while there is none.
//!
//! What happens to an operation, in the order of the files: `purgatory` tries it, `registry` puts
//! it on a wheel, `watchers` notes its id under its keys; a check finds the ids again, and the
//! registry knows which of them still wait; `timers` says when the wheels must turn.

mod operation;
mod purgatory;
mod registry;
mod timers;
mod wait;
mod watchers;

pub use operation::DelayedOperation;
pub use purgatory::{Purgatory, PurgatoryConfig, Watched};
pub use timers::{TimerHandle, Timers};
pub use wait::{Outcome, Wait};
