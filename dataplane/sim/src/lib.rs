//! A cluster of two to five brokers in one process, one thread and virtual time. A seed decides everything that happens, so a
//! seed that fails fails again.
//!
//! Real: the write-ahead log, its fence and its recovery (`millrace-wal`), uploads and reads (`millrace-stream`,
//! `millrace-blockcache`, `millrace-objects`), partitions with idempotent producers, and opening, releasing and moving them
//! (`millrace-log`), lease, feed, failover, takeover, balancing and draining (`millrace-cluster`), committed offsets of groups
//! (`millrace-coordinator`).
//!
//! Simulated, each with delays and failures: the disk and the bucket (`millrace-testkit`), the database, the network to clients,
//! the clock, and processes, which can be killed and stopped.
//!
//! Not simulated: Kafka's protocol and the request handlers (`millrace-api`), members of consumer groups, trimming by
//! retention, topics that change, the comparison of identities at a start, SQL (the transactions of POSTGRES.md are written out in
//! `database`; `millrace-meta` tests those of PostgreSQL).
//!
//! | module | what it holds |
//! |---|---|
//! | `simulation` | one simulation, from its seed to its report |
//! | `faults` | what happens to the cluster |
//! | `machine`, `gate` | machines, and the processes that run on them |
//! | `broker` | starts a broker from the real parts |
//! | `database` | the metadata of all brokers |
//! | `network`, `clients` | producers, consumers, and how they reach brokers |
//! | `history` | what clients were told, and whether it is true |
//! | `planted` | faults in the simulated parts, which the checks must find |

mod broker;
mod clients;
mod database;
mod faults;
mod gate;
mod history;
mod link;
mod machine;
mod network;
mod planted;
mod seams;
mod simulation;
mod trace;
mod world;

pub use planted::Planted;
pub use simulation::{Report, simulate};
