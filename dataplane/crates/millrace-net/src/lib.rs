//! Listeners, per-connection pipelining and back-pressure.
//!
//! A connection is one task with two halves. The reading half takes frames off the socket, one after
//! the other, and awaits stage 1 of each ([`millrace_wire::service::Service::accept`]); the writing
//! half polls the futures of stage 2, up to 64 of them at once, and writes their responses in request
//! order with vectored writes. So request n+1 is parsed and ordered while n is being persisted, and
//! nothing of one connection is ever reordered.
//!
//! Everything is bounded: requests in flight, bytes in flight per connection and per broker, the
//! memory of a frame that is only announced, responses that a client does not read. At a bound the
//! connection is *muted* (not read from), with its reasons recorded, until all of them have
//! ended. The service also mutes a client that exceeds its quota
//! ([`millrace_wire::service::Throttle`]).
//!
//! Reading order: `server` (accept), `admission` (who is let in), `connection` (the two halves), `transport` (what carries the
//! bytes), `tls` (encrypts them), `frame` (bytes to frames), `pipeline` (stage 2 in order), `outbox` (responses to bytes),
//! `registry` (idle connections), `warnings` (how many are logged).

mod admission;
mod config;
mod connection;
mod frame;
mod metrics;
mod outbox;
mod pipeline;
mod registry;
mod server;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod warnings;
mod writer;

pub use config::{ConnectionLimits, ListenerConfig, ListenerLimits, ListenerSecurity, NetConfig};
pub use server::{BindError, DrainReport, Listeners, NetMetrics, Server};
pub use tls::{ClientAuth, Tls, TlsError, TlsMaterial, TlsSettings, TlsVersion};
