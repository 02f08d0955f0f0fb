//! One supervisor for every task that nobody awaits.
//!
//! Tokio keeps a panic inside the task's `JoinHandle`. Where nobody awaits that handle, the broker
//! would run on without the task: it would accept connections without sweeping them, or fill its log
//! without trimming it. So such tasks are spawned through a [`Supervisor`], and the first one that
//! fails is the whole broker's [`Failure`]: the composition root reports it, stops serving and ends
//! the process. Nothing is restarted in place, because a panic may leave a part's state half changed;
//! the next process recovers from the log, as it does after a crash.
//!
//! A task whose caller awaits it (a request's work, a change of the metadata) needs no supervision:
//! its panic reaches the caller.
//!
//! When tasks run can be decided by a [`Gate`]: a simulation stops and ends the brokers that it runs in one process. A part that
//! runs in simulations spawns all of its tasks here, also those that it awaits.

mod gate;
mod supervised;
mod supervisor;
mod task;

pub use gate::{Gate, Gated};
pub use supervisor::{Failure, Outcome, Supervisor};
pub use task::{Task, UnknownTask};
