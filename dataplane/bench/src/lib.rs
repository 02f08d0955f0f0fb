//! What the benchmarks have in common: a quiet machine, what a process used, medians, other people's
//! software from Maven Central, an S3 server, and a Kafka producer that costs little.

pub mod flush_shim;
pub mod machine;
pub mod maven;
pub mod producer;
pub mod s3_server;
pub mod spread;
pub mod usage;
