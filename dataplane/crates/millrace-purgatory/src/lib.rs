//! Delayed operations: watch keys and deadlines on the timing wheel. Knows nothing of Kafka.
//!
//! An operation that cannot complete yet waits here until an event on one of its watched keys lets
//! it complete, or until it times out. [`Purgatory`] holds operations of any kind;
//! [`Purgatory::wait`] makes one from a condition, for code that wants to `await` it. [`Timers`]
//! are plain timeouts, driven by the same task.
//!
//! One task per [`Timers`] drives all wheels. It sleeps until the next non-empty bucket, or
//! indefinitely if there is none.
//!
//! The path of an operation, in the order of the files: `purgatory` tries it, `registry` puts it on
//! a wheel, `watchers` stores its id under its keys. A check looks the ids up, and the registry
//! knows which of them still wait. `timers` decides when the wheels turn.

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
