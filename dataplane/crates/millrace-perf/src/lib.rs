//! `millrace perf`: performance tests of any Kafka cluster.
//!
//! ```text
//! options ─► workload ─► producing, consuming ─► recorder ─► sampler ─► report
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `options` | the command line, checked |
//! | `command_config` | a file that says how to encrypt and authenticate |
//! | `workload` | what each of `produce`, `consume`, `end-to-end`, `catch-up` and `mixed` does |
//! | `producing`, `pace`, `payload` | producers that send records when they are due |
//! | `consuming` | consumers |
//! | `mark`, `verifier` | what records carry, and whether all came once and in order |
//! | `phases`, `ending` | the parts of a run, and why it ends |
//! | `recorder`, `latencies`, `sampler` | what is counted, second by second |
//! | `report` | JSON, a table, a page with charts |
//!
//! **Latencies** count from when a record was due under the rate, not from when it was sent: a producer
//! that falls behind does not hide the wait (no coordinated omission). Without a rate, a record is
//! due when the producer begins to hand it over, so the wait for memory counts.
//!
//! **The warm-up** is not measured: records that were due in it count neither for throughput nor for
//! latencies, whenever they complete.
//!
//! **Memory** is bounded: the clients' buffers, a histogram of 200 KiB per phase, an hour's samples, and
//! for verification 128 MiB at most.

mod command_config;
mod consuming;
mod ending;
mod error;
mod latencies;
mod mark;
mod moment;
mod options;
mod pace;
mod payload;
mod perform;
mod phases;
mod producing;
mod recorder;
mod report;
mod run;
mod sampler;
mod topic;
mod usage;
mod verifier;
mod workload;

pub use error::PerfError;
pub use latencies::{Latencies, LatencySummary};
pub use options::PerfCommand;
pub use perform::perform;
pub use report::Report;
