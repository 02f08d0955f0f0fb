//! The producer of the benchmarks and the processes made of it, against a scripted broker.

mod connection;
mod light;
mod scripted_broker;
