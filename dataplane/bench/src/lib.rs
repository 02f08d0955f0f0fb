//! What the benchmarks and drills have in common: a quiet machine, what a process used, medians,
//! other people's software from Maven Central, an S3 server, a broker process, many topics and groups, clients that cost
//! little, clients that outlive the broker, and several brokers of one cluster.

pub mod affinity;
pub mod broker;
pub mod cluster;
pub mod command_line;
pub mod consumer;
pub mod drill;
pub mod flush_shim;
pub mod kafka;
pub mod kafka_cluster;
pub mod kafka_tools;
pub mod latencies;
pub mod machine;
pub mod maven;
pub mod population;
pub mod priority;
pub mod process;
pub mod producer;
pub mod profile;
pub mod s3_server;
pub mod shaped_link;
pub mod spread;
pub mod usage;
