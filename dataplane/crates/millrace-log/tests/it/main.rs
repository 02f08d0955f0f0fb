//! Integration tests of the partitions, in one binary: each further one would be linked by itself.

mod broker;
mod exactly_once;
mod partitions;
mod retention;
mod topics;
mod transactions;
#[path = "../../../millrace-stream/tests/it/world/mod.rs"]
mod world;
