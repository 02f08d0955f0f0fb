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
//! a wheel and, through `watchers`, its name under its keys. A check learns from `keys` where to
//! look. `timers` decides when the wheels turn.

mod keys;
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
