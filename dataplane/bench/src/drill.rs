//! What the drills have in common: clients that outlive the broker, what they were promised,
//! whether it was kept, and a bucket that fails on purpose.
//!
//! - `command_line`: a drill as a program: options that all have, exit code
//! - `workers`, `load`, `group`: the clients
//! - `library`: the same work done with the client library
//! - `ledger`: what they were promised
//! - `readback`, `audit`: whether the promises were kept
//! - `pattern`: what is in a record
//! - `conclusion`: what is printed, written and kept at the end
//! - `proxy`: stands between the broker and a real S3 server, and shows the faults
//! - `faulty_bucket`: starts server, proxy and broker for a drill

mod audit;
mod command_line;
mod conclusion;
mod faulty_bucket;
mod group;
mod ledger;
mod library;
mod load;
pub(crate) mod pattern;
mod proxy;
mod readback;
mod workers;

pub use audit::Audit;
pub use command_line::{DrillFiles, LoadOptions, main};
pub use conclusion::{conclude, print_report};
pub use faulty_bucket::with_faulty_bucket;
pub use group::check as check_group;
pub use ledger::{Acked, Ledger, Promises};
pub use library::check as check_with_library;
pub use load::{Stage, connect_patiently};
pub use pattern::Place;
pub use proxy::{Catch, Caught, Counts, Faults, Proxy};
pub use readback::{Readback, feed};
pub use workers::{Work, Workers};
