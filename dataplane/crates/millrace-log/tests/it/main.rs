//! Integration tests of the partitions, in one binary: each further one would be linked by itself.

mod exactly_once;
mod partitions;
mod retention;
#[path = "../../../millrace-stream/tests/it/world/mod.rs"]
mod world;
