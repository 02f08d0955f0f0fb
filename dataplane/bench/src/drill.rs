//! What the drills have in common: clients that outlive the broker, what they were promised,
//! whether it was kept, and a bucket that fails on purpose.
//!
//! - `workers`, `load`, `group`: the clients
//! - `ledger`: what they were promised
//! - `readback`, `audit`: whether the promises were kept
//! - `pattern`: what is in a record
//! - `conclusion`: what is printed, written and kept at the end
//! - `proxy`: stands between the broker and a real S3 server, and shows the faults

mod audit;
mod conclusion;
mod group;
mod ledger;
mod load;
mod pattern;
mod proxy;
mod readback;
mod workers;

pub use audit::Audit;
pub use conclusion::{conclude, exit_code};
pub use group::check as check_group;
pub use ledger::{Acked, Ledger, Promises};
pub use load::{Stage, connect_patiently};
pub use pattern::Place;
pub use proxy::{Catch, Caught, Counts, Faults, Proxy};
pub use readback::{Readback, feed};
pub use workers::{Work, Workers};
