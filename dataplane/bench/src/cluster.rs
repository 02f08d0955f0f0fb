//! Several brokers of one cluster, on one database and one bucket, with clients whose histories are checked.
//!
//! - `brokers`: the processes: started, killed, stopped, drained, and started again where they ended by themselves
//! - `link`: a broker's way to the database, which can be cut
//! - `load`: idempotent producers that write numbered records to all partitions
//! - `history`: what the clients were told
//! - `follower`, `groups`: consumers that check while they read, and groups that commit
//! - `reading`: every partition from its beginning
//! - `verdict`: whether what is there is what was promised
//! - `timings`: how long each partition went without an acknowledgement
//! - `leaders`: who leads, and planned moves

mod brokers;
mod follower;
mod groups;
mod history;
mod leaders;
mod link;
mod load;
mod reading;
mod timings;
mod verdict;

pub use brokers::{Brokers, Exit, Plan, client_of};
pub use follower::Follower;
pub use groups::Groups;
pub use history::{Ack, Failure, History, Recorded};
pub use leaders::{Leaders, leaders_by, reassign};
pub use load::{Load, LoadPlan};
pub use reading::{Found, read_all};
pub use timings::{Percentiles, first_acks, longest_gaps};
pub use verdict::{Verdict, check};
