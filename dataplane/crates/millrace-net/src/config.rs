//! Settings of the network layer, and the bounds that are not settings, each with its reason.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use millrace_model::limits::{CONNECTION_IN_FLIGHT_MAX, REQUEST_BYTES_MAX};
use millrace_security::{certificate::PrincipalMapping, quota::Windows};

use crate::tls::Tls;

/// What one read takes at most while no frame is under way, in bytes. A frame's own buffer is filled
/// from the socket directly; only what this first read brought of it is copied.
pub(crate) const INBOX_BYTES: usize = 16 * 1024;

/// The buffer that a frame gets at once on the strength of its length prefix, in bytes: twice the
/// default `message.max.bytes`, so an ordinary Produce is never moved. A longer frame's buffer
/// doubles as its bytes arrive, so a lying prefix costs at most as much again as was sent.
pub(crate) const EAGER_FRAME_BYTES: usize = 2 * 1024 * 1024;

/// Segments of one vectored write; Linux takes 1,024, but past this the call's own cost dominates.
pub(crate) const WRITE_SEGMENTS_MAX: usize = 64;

/// Responses are gathered for one write until they have this many bytes: enough to make the call's
/// cost vanish, little enough that the first response does not wait for the last.
pub(crate) const WRITE_GATHER_BYTES: usize = 256 * 1024;

/// What one connection writes before the other tasks of its thread have their turn. Answers of catch-up
/// reads have tens of mebibytes; a producer's request would wait for all of one, since a socket whose
/// client reads as fast never says that it is full. 256 KiB take about 0.1 ms.
pub(crate) const WRITE_TURN_BYTES: usize = 256 * 1024;

/// Answers with old data are written on the threads of background work from this size on. Below it, a
/// write takes no longer than handing it over.
pub(crate) const BACKGROUND_BYTES_MIN: usize = 64 * 1024;

/// A connection may have one part in so many of the broker's free memory in flight. So n clients that
/// send and never read leave 16/(16+n) of it to the others, and an ordinary client notices nothing.
/// (Choudhury and Hahne, Dynamic queue length thresholds for shared-memory packet switches, 1998.)
pub(crate) const SHARE_OF_FREE_MEMORY: u64 = 16;

/// How long requests in flight may go on after their client has left. Their answer reaches nobody,
/// but a handler that is cut in the middle would leave half-done work.
pub(crate) const LINGER: Duration = Duration::from_secs(30);

/// How long a client may stand still in the middle of a frame while it holds the broker's memory.
pub(crate) const FRAME_STALL_MAX: Duration = Duration::from_secs(60);

/// The same while others wait for that memory: longer than a lost packet is repeated, far shorter than
/// the others' patience.
pub(crate) const FRAME_STALL_MAX_WHEN_SHORT: Duration = Duration::from_secs(5);

/// How long a client may take no byte of its answers while others wait for that memory. It loses its
/// connection, not its place: it asks again.
pub(crate) const UNREAD_MAX_WHEN_SHORT: Duration = Duration::from_secs(5);

/// How long a frame may take to arrive while others wait for memory. A client that sends a byte now
/// and then never stands still; an ordinary frame takes this long only below 20 KiB/s.
pub(crate) const FRAME_AGE_MAX_WHEN_SHORT: Duration = Duration::from_secs(60);

/// Connections that wait to be accepted: what Linux allows by default (`net.core.somaxconn`).
pub(crate) const LISTEN_BACKLOG: u32 = 4_096;

/// Pause after a failed accept (no file descriptor left), so that the loop does not spin.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How long a connection stays open that is refused because its address connects too often, so that its client
/// does not try again at once.
pub(crate) const REFUSED_HOLD_MAX: Duration = Duration::from_secs(1);

/// Such connections at the same time: each has a file descriptor. One more is closed at once.
pub(crate) const REFUSED_HELD_MAX: usize = 512;

/// The longest frame of a client that has not authenticated: a hundred times an ordinary one.
pub(crate) const UNAUTHENTICATED_BYTES_MAX: usize = 64 * 1024;

/// How long a client may take for its TLS handshake and its authentication: several times what a slow
/// link needs for their six round trips.
pub(crate) const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Connections whose handshake or authentication is not finished. One more costs the oldest of them its
/// place, so that a client that finishes gets through however many never do.
pub(crate) const HALF_OPEN_MAX: usize = 2_048;

/// Settings of the network layer. `Default` has Kafka's values where Kafka has the setting.
#[derive(Debug, Clone)]
pub struct NetConfig {
    /// `socket.request.max.bytes`: a longer frame closes its connection.
    pub request_bytes_max: usize,
    /// `network.pipeline.depth`: requests in flight per connection. 1 is the serial model, in which
    /// a request is read only after the response before it has been written.
    pub pipeline_depth: usize,
    /// `network.connection.max.bytes`: bytes of requests and of unsent responses in flight on one
    /// connection, above which it is not read. One more frame may go over it. The default is a few
    /// dozen of the largest ordinary requests, and a small part of what the broker may hold.
    pub connection_bytes_max: usize,
    /// `queued.max.request.bytes`: the same for all connections together.
    pub broker_bytes_max: usize,
    /// `connections.max.idle.ms`: a connection on which no byte moved for this long is closed.
    pub idle_max: Duration,
    /// `max.connections`: one more is closed as soon as it is accepted. The default is a power of two
    /// above ten thousand, which the file descriptors of a stock Linux allow.
    pub connections_max: usize,
    /// Further limits of connections.
    pub limits: ConnectionLimits,
}

/// How many connections an address may have, and how many the broker accepts per second.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// `max.connections.per.ip`: one more is closed as soon as it is accepted.
    pub per_address_max: usize,
    /// `max.connections.per.ip.overrides`, by canonical address.
    pub per_address_overrides: HashMap<IpAddr, usize>,
    /// `max.connection.creation.rate`: per second. Beyond it, listeners pause.
    pub creation_rate_max: Option<f64>,
    /// `quota.window.num` and `quota.window.size.seconds`: how such rates are measured.
    pub windows: Windows,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            per_address_max: usize::MAX,
            per_address_overrides: HashMap::new(),
            creation_rate_max: None,
            windows: Windows::default(),
        }
    }
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            request_bytes_max: REQUEST_BYTES_MAX,
            pipeline_depth: CONNECTION_IN_FLIGHT_MAX,
            connection_bytes_max: 16 * 1024 * 1024,
            broker_bytes_max: 512 * 1024 * 1024,
            idle_max: Duration::from_secs(600),
            connections_max: 16_384,
            limits: ConnectionLimits::default(),
        }
    }
}

/// One address to listen on.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// The listener's name, such as `PLAINTEXT`.
    pub name: String,
    /// A host name or an address; empty means every interface.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// How its clients are protected.
    pub security: ListenerSecurity,
    /// How many connections it takes.
    pub limits: ListenerLimits,
}

/// How many connections a listener takes, within what the broker takes.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListenerLimits {
    /// `listener.name.….max.connections`: one more is closed as soon as it is accepted.
    pub connections_max: Option<usize>,
    /// `listener.name.….max.connection.creation.rate`: per second. Beyond it, the listener pauses.
    pub creation_rate_max: Option<f64>,
}

/// How a listener's clients are protected.
#[derive(Debug, Clone, Default)]
pub struct ListenerSecurity {
    /// Encryption, if there is any.
    pub tls: Option<Arc<Tls>>,
    /// Whether clients have to authenticate by SASL before anything else.
    pub sasl: bool,
    /// Who a client is that shows a certificate, where there is no SASL: `ssl.principal.mapping.rules`.
    pub mapping: Arc<PrincipalMapping>,
}
