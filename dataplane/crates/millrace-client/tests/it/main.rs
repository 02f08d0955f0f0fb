//! Integration tests of the client, in one binary: each further one would be linked by itself.

mod cluster;
mod connection;
mod consumer;
mod consumer_protocol;
mod exactly_once;
mod group;
mod logs;
mod producer;
