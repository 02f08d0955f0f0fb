//! Integration tests of the client, in one binary: each further one would be linked by itself.

mod cluster;
mod connection;
mod consumer;
mod consumer_protocol;
mod cut_writes;
mod exactly_once;
mod group;
mod logs;
mod partitioner;
mod producer;
