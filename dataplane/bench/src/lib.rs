//! What the benchmarks have in common: a quiet machine, what a process used, and other people's
//! software from Maven Central.

pub mod machine;
pub mod maven;
pub mod usage;
