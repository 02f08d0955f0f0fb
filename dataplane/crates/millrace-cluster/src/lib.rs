//! A broker among the other brokers of its cluster. Knows neither Kafka's wire nor where logs are kept: the composition root
//! opens a log at its address ([`FencedLogs`]).
//!
//! | module | what it does |
//! |---|---|
//! | `cluster` | starts all of the below, and stops with a broker |
//! | `lease` | renews the lease; a broker that was replaced ends |
//! | `feed` | keeps topics, leaders and brokers as the metadata has them |
//! | `failover` | fences brokers whose lease has run out, and has their logs taken over |
//! | `takeover` | uploads what the log of a fenced broker has |
//! | `balance` | evens out how many partitions each broker leads |
//! | `drain` | gives everything away before the broker stops |

mod balance;
mod cluster;
mod drain;
mod failover;
mod feed;
mod lease;
mod load;
mod takeover;

pub use cluster::{Cluster, ClusterParts, Membership, View};
pub use feed::{Changed, ChangesOfOthers};
pub use lease::Lease;
pub use takeover::{
    AdoptedLog, FenceOf, FencedLog, FencedLogs, LogUnavailable, Takeover, TakeoverError,
};
